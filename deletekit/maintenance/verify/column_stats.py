"""Count a file's columns from its rows, and compare counts and bounds with its manifest entry.

Columns are found by field id and compared as the table's type. A bound is right if it bounds, however loosely.
Spec: "Data File Fields", notes on bounds and counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import NestedField

from deletekit.deletes.delete_file_index import widened_bound
from deletekit.deletes.projection import FileColumns, project
from deletekit.errors import FormatError
from deletekit.formats.content_file import ContentFile
from deletekit.formats.decimals import unscaled_value
from deletekit.formats.metrics import FIELD_ID_KEY, field_id_of
from deletekit.maintenance.verify.bounds import comparable, is_ordered
from deletekit.maintenance.verify.report import Finding, error
from deletekit.maintenance.verify.unreadable import DAMAGE
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import POSITION_DELETE_FIELDS

_COUNTS = (
    ("value-count", "value_counts", "count"),
    ("null-count", "null_value_counts", "nulls"),
    ("nan-count", "nan_value_counts", "nans"),
)


class _Column:
    """What one column holds. `low` and `high` are values as `comparable` returns them."""

    def __init__(self, field: NestedField, name: str) -> None:
        self.field = field
        self.name = name
        self.kind = str(field.field_type).replace(" ", "")
        self.count = 0
        self.nulls = 0
        self.nans: int | None = 0 if self.kind in ("float", "double") else None
        self.low: Any = None
        self.high: Any = None

    def add(self, column: pa.ChunkedArray) -> None:
        self.count += len(column)
        self.nulls += column.null_count
        column = _physical(column)
        if self.nans is not None:
            is_nan = pc.fill_null(pc.is_nan(column), True)
            self.nans += (pc.sum(is_nan).as_py() or 0) - column.null_count
            column = column.filter(pc.invert(is_nan))
        if len(column) == column.null_count:
            return
        extremes = pc.min_max(column).as_py()
        low, high = self._value(extremes["min"]), self._value(extremes["max"])
        if self.nans is not None:
            low, high = _signed_zeros(column, low, high)
        self.low = low if self.low is None or is_ordered(low, self.low, self.kind) else self.low
        self.high = high if self.high is None or is_ordered(self.high, high, self.kind) else self.high

    def _value(self, value: Any) -> Any:
        if self.kind.startswith("decimal"):
            scale = int(self.kind.rstrip(")").split(",")[1])
            return unscaled_value(value, scale)
        if isinstance(value, bool):
            return int(value)
        return value.encode() if isinstance(value, str) else value


class FileStats:
    """Statistics of every primitive column outside lists and maps, collected by row group."""

    def __init__(self, file: ContentFile, metadata: TableMetadata) -> None:
        self._file = file
        self._fields = {**metadata.all_fields, **POSITION_DELETE_FIELDS}
        untrusted = metadata.untrusted_bounds
        # Java's ORC writer counts nested fields wrongly; see TableMetadata.untrusted_bounds.
        self._uncounted = untrusted.get(file.file_format, frozenset())
        self.columns: dict[int, _Column] = {}
        self._unreadable: dict[int, Finding] = {}

    def add(self, table: pa.Table, schema: pa.Schema) -> None:
        """Add rows. `schema` is that of `table`, with field ids."""
        for field_id, name, stored, column in _leaves(table, schema):
            field = self._fields.get(field_id)
            if field is None or not field.field_type.is_primitive:
                continue
            try:
                typed = _as(field, stored, column)
            except FormatError as e:
                # The same in each row group, and one finding.
                self._unreadable[field_id] = error("column-type", e.message, name, e.found, e.expected)
                continue
            self.columns.setdefault(field_id, _Column(field, name)).add(typed)

    def check(self) -> Iterator[Finding]:
        """Compare the manifest entry's counts and bounds with the rows."""
        yield from self._unreadable.values()
        for field_id, column in self.columns.items():
            if field_id in self._uncounted:
                continue
            for kind, name, attribute in _COUNTS:
                stated, counted = (getattr(self._file, name) or {}).get(field_id), getattr(column, attribute)
                if stated is not None and counted is not None and stated != counted:
                    yield error(kind, "counted wrong", f"{name}.{column.name}", stated, counted)
            for name in ("lower_bounds", "upper_bounds"):
                yield from self._bound(field_id, column, name)

    def _bound(self, field_id: int, column: _Column, name: str) -> Iterator[Finding]:
        bound = (getattr(self._file, name) or {}).get(field_id)
        if bound is None or column.low is None:
            return
        actual = column.low if name == "lower_bounds" else column.high
        try:
            value = comparable(widened_bound(bound, column.field), column.kind)
            pair = (value, actual) if name == "lower_bounds" else (actual, value)
            fits = is_ordered(*pair, column.kind)
        except DAMAGE:
            fits = False
        if not fits:
            relation = "<=" if name == "lower_bounds" else ">="
            message, expected = "bound leaves a value out", f"{relation} {actual!r}"
            yield error("bounds", message, f"{name}.{column.name}", bound, expected)


def _leaves(table: pa.Table, schema: pa.Schema) -> Iterator[tuple[int, str, pa.Field, pa.ChunkedArray]]:
    pending = [(f, f.name, table.column(i)) for i, f in enumerate(schema)]
    while pending:
        field, name, column = pending.pop(0)
        if pa.types.is_struct(field.type):
            children = [field.type.field(i) for i in range(field.type.num_fields)]
            pending = [(c, f"{name}.{c.name}", pc.struct_field(column, i)) for i, c in enumerate(children)] + pending
            continue
        field_id = field_id_of(field)
        if field_id is not None and not pa.types.is_nested(field.type):
            yield field_id, name, field, column


def _as(field: NestedField, stored: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a leaf column of a file as the table's type. Raises FormatError."""
    named = pa.field("leaf", stored.type, True, {FIELD_ID_KEY: str(field.field_id)})
    schema = pa.schema([named])
    optional = field.model_copy(update={"required": False})
    return project(pa.table([column], schema=schema), FileColumns(schema), optional)


def _physical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column = pa.chunked_array([c.storage for c in column.chunks], kind.storage_type)
        kind = kind.storage_type
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return column.cast(pa.int64())
    return column.cast(pa.binary()) if pa.types.is_fixed_size_binary(kind) else column


def _signed_zeros(column: pa.ChunkedArray, low: float, high: float) -> tuple[float, float]:
    """Give extremes that are 0 their sign. Arrow does not tell -0.0 from 0.0, and bounds do."""
    if low != 0 and high != 0:
        return low, high
    values = column.drop_null().to_numpy()
    negative = np.signbit(values[values == 0])
    low = (-0.0 if negative.any() else 0.0) if low == 0 else low
    return low, (high if high != 0 else -0.0 if negative.all() else 0.0)
