"""Count a file's columns from its rows, and compare counts and bounds with its manifest entry.

Columns are found by field id and compared as the table's type. A bound is right if it bounds, however loosely, in any
order that a known writer may have used.
Spec: "Data File Fields", notes on bounds and counts, "Binary single-value serialization" (Appendix D).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField

from deletekit.errors import FormatError
from deletekit.formats.content_file import ContentFile
from deletekit.formats.metrics import FIELD_ID_KEY, leaves, physical, single_value_bytes
from deletekit.maintenance.verify.report import DAMAGE, Finding, differs, error
from deletekit.rows.column_bounds import widened_bound
from deletekit.rows.projection import FileColumns, project
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import POSITION_DELETE_FIELDS


@dataclass
class _Column:
    """What one column holds. `low` and `high` are values as `comparable` returns them."""

    name: str
    kind: str
    count: int = 0
    nulls: int = 0
    nans: int | None = None
    low: Any = None
    high: Any = None

    def add(self, column: pa.ChunkedArray) -> None:
        self.count += len(column)
        self.nulls += column.null_count
        is_float = self.kind in ("float", "double")
        if is_float:
            is_nan = pc.fill_null(pc.is_nan(column), True)
            self.nans = (self.nans or 0) + (pc.sum(is_nan).as_py() or 0) - column.null_count
            column = column.filter(pc.invert(is_nan))
        if len(column) == column.null_count:
            return
        stored = physical(column)
        extremes = pc.min_max(stored).as_py()
        low, high = (comparable(single_value_bytes(extremes[m], stored.type), self.kind) for m in ("min", "max"))
        if is_float:
            low, high = _signed_zeros(column, low, high)
        self.low = low if self.low is None or is_ordered(low, self.low, self.kind) else self.low
        self.high = high if self.high is None or is_ordered(self.high, high, self.kind) else self.high


class FileStats:
    """Statistics of every primitive column outside lists and maps, collected by row group."""

    def __init__(self, file: ContentFile, metadata: TableMetadata) -> None:
        self._file = file
        self._fields = {**metadata.all_fields, **POSITION_DELETE_FIELDS}
        # Java's ORC writer counts nested fields wrongly; see TableMetadata.untrusted_bounds.
        self._uncounted = metadata.untrusted_bounds.get(file.file_format, frozenset())
        self.columns: dict[int, _Column] = {}
        self._unreadable: dict[int, Finding] = {}

    def add(self, table: pa.Table, schema: pa.Schema) -> None:
        """Add rows. `schema` is that of `table`, with field ids."""
        for field_id, name, stored, column in leaves(table, schema):
            field = self._fields.get(field_id)
            if field is None or not field.field_type.is_primitive:
                continue
            try:
                typed = _as(field, stored, column)
            except FormatError as e:
                # The same in each row group, and one finding.
                self._unreadable[field_id] = error("column-type", e.message, name, e.found, e.expected)
                continue
            self.columns.setdefault(field_id, _Column(name, str(field.field_type).replace(" ", ""))).add(typed)

    def check(self) -> Iterator[Finding]:
        """Compare the manifest entry's counts and bounds with the rows."""
        yield from self._unreadable.values()
        for field_id, column in self.columns.items():
            if field_id in self._uncounted:
                continue
            counted = {"value": column.count, "null": column.nulls, "nan": column.nans}
            for what, count in counted.items():
                name = f"{what}_counts" if what == "value" else f"{what}_value_counts"
                stated = (getattr(self._file, name) or {}).get(field_id)
                if stated is not None and count is not None:
                    yield from differs(f"{what}-count", "counted wrong", f"{name}.{column.name}", stated, count)
            yield from self._bound(field_id, "lower_bounds", "<=", column.low)
            yield from self._bound(field_id, "upper_bounds", ">=", column.high)

    def _bound(self, field_id: int, name: str, relation: str, actual: Any) -> Iterator[Finding]:
        column, bound = self.columns[field_id], (getattr(self._file, name) or {}).get(field_id)
        if bound is None or actual is None:
            return
        try:
            value = comparable(widened_bound(bound, self._fields[field_id]), column.kind)
            fits = is_ordered(*((value, actual) if relation == "<=" else (actual, value)), column.kind)
        except DAMAGE:
            fits = False
        if not fits:
            yield error("bounds", "bound leaves a value out", f"{name}.{column.name}", bound, f"{relation} {actual!r}")


def _as(field: NestedField, stored: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a leaf column of a file as the table's type. Raises FormatError."""
    schema = pa.schema([pa.field("leaf", stored.type, True, {FIELD_ID_KEY: str(field.field_id)})])
    optional = field.model_copy(update={"required": False})
    return project(pa.table([column], schema=schema), FileColumns(schema), optional)


def _signed_zeros(column: pa.ChunkedArray, low: float, high: float) -> tuple[float, float]:
    """Give extremes that are 0 their sign. Arrow does not tell -0.0 from 0.0, and bounds do."""
    if low != 0 and high != 0:
        return low, high
    values = column.drop_null().to_numpy()
    negative = np.signbit(values[values == 0])
    low = (-0.0 if negative.any() else 0.0) if low == 0 else low
    return low, (high if high != 0 else -0.0 if negative.all() else 0.0)


# --- bounds -----------------------------------------------------------------------------------------------------------


def is_range(lower: bytes, upper: bytes, field: NestedField) -> bool:
    """Tell whether two bounds are values of a primitive column, the first not above the second."""
    try:
        return are_ordered(widened_bound(lower, field), widened_bound(upper, field), str(field.field_type))
    except DAMAGE:
        return False


def are_ordered(lower: bytes, upper: bytes, kind: str) -> bool:
    """Tell whether the first of two bounds of a type is not above the second. Raises as `comparable`."""
    return is_ordered(comparable(lower, kind), comparable(upper, kind), kind)


def comparable(data: bytes, kind: str) -> Any:
    """Return a bound of an Iceberg primitive type as a value to compare.

    A number that was stored before its column was promoted is shorter, and equal as a number. Raises struct.error,
    ValueError.
    """
    if kind in ("float", "double"):
        return struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
    if kind.startswith("decimal"):
        return int.from_bytes(data, "big", signed=True)
    if kind in ("string", "binary", "uuid") or kind.startswith("fixed"):
        return bytes(data)
    if kind == "boolean" and len(data) != 1:
        raise ValueError("a boolean is one byte")
    if kind != "boolean" and len(data) not in (4, 8):
        raise ValueError("a number is 4 or 8 bytes")
    return int.from_bytes(data, "little", signed=kind != "boolean")


def is_ordered(low: Any, high: Any, kind: str) -> bool:
    """Tell whether `low` is not above `high`.

    Java compares uuids as two signed numbers (apache/iceberg#14216). It compares text by UTF-16 units, which puts
    supplementary characters before U+E000. Either order is right.
    """
    if kind in ("float", "double"):
        return bool(low != low or high != high or _float_key(low) <= _float_key(high))
    if bool(low <= high):
        return True
    if kind == "uuid":
        return bool(struct.unpack(">qq", low) <= struct.unpack(">qq", high))
    if kind == "string":
        units = (b.decode("utf-8", errors="replace").encode("utf-16-be") for b in (low, high))
        return bool(next(units) <= next(units))
    return False


def _float_key(value: float) -> tuple[float, bool]:
    """Order -0.0 before 0.0."""
    return value, value == 0 and struct.pack(">d", value)[0] == 0
