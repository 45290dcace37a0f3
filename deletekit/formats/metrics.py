"""Column metrics of a file: counts and bounds by field id, and the single-value bytes that bounds are stored in.

Metrics of delete files describe the deleted rows and are complete or absent.
Spec: "Manifests" notes on bounds, "Binary single-value serialization", https://iceberg.apache.org/spec/#appendix-d-single-value-serialization
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from deletekit.deferred import pc
from deletekit.errors import InvalidInputError
from deletekit.formats.decimals import unscaled_value

FIELD_ID_KEY = b"PARQUET:field_id"
_PACKED = {
    pa.bool_(): "<?",
    pa.int32(): "<i",
    pa.date32(): "<i",
    pa.int64(): "<q",
    pa.float32(): "<f",
    pa.float64(): "<d",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsMode:
    """`none`, `counts`, `truncate(N)` or `full` of `write.metadata.metrics.*`; `length` None keeps bounds whole."""

    counts: bool = True
    bounds: bool = True
    length: int | None = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What a manifest entry says about a file's columns; see `ContentFile`."""

    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)


def metrics_mode(text: str) -> MetricsMode:
    """Parse a metrics mode property. Raises InvalidInputError."""
    lowered = text.strip().lower()
    if lowered == "none":
        return MetricsMode(counts=False, bounds=False)
    if lowered == "counts":
        return MetricsMode(bounds=False)
    if lowered == "full":
        return MetricsMode(length=None)
    if match := re.fullmatch(r"truncate\((\d+)\)", lowered):
        return MetricsMode(length=int(match.group(1)))
    message = "unknown metrics mode"
    raise InvalidInputError(message, "property", found=text, expected="none, counts, truncate(N) or full")


def field_id_of(arrow_field: pa.Field) -> int | None:
    """Return the Iceberg field id in an Arrow field's metadata (Parquet's, or ORC's `iceberg.id`)."""
    for key in (FIELD_ID_KEY, b"iceberg.id"):
        if arrow_field.metadata and key in arrow_field.metadata:
            try:
                return int(arrow_field.metadata[key])
            except ValueError:
                return None
    return None


def collect_metrics(table: pa.Table, mode_of: Callable[[int, str], MetricsMode]) -> Metrics:
    """Metrics of every primitive column that is not inside a list or map.

    Parameters
    ----------
    table: columns whose Arrow fields carry field ids.
    mode_of: (field id, dotted column name) -> mode.
    """
    collector = MetricsCollector(mode_of)
    collector.add(table)
    return collector.metrics()


class MetricsCollector:
    """Collects the metrics of a file from the parts that it is written in; `mode_of` is as in `collect_metrics`."""

    def __init__(self, mode_of: Callable[[int, str], MetricsMode]) -> None:
        self._mode_of = mode_of
        self._counts = Metrics()
        self._extremes: dict[int, tuple[pa.DataType, int | None, Any, Any]] = {}

    def add(self, table: pa.Table) -> None:
        """Add rows of the file; all parts have the same columns, whose Arrow fields carry field ids."""
        for field_id, name, stored, column in leaves(table, table.schema):
            mode = self._mode_of(field_id, name)
            if not mode.counts or pa.types.is_null(stored.type):
                continue
            _count(self._counts.value_counts, field_id, len(column))
            _count(self._counts.null_value_counts, field_id, column.null_count)
            floating = pa.types.is_floating(column.type)
            if floating:
                _count(self._counts.nan_value_counts, field_id, pc.sum(pc.is_nan(column)).as_py() or 0)
            ordered = column.filter(pc.invert(pc.fill_null(pc.is_nan(column), True))) if floating else column
            if mode.bounds and len(ordered) > ordered.null_count:
                self._widen(field_id, ordered, mode.length)

    def metrics(self) -> Metrics:
        """Return the metrics of all rows so far."""
        lowest, highest = {}, {}
        for field_id, (kind, length, lower, upper) in self._extremes.items():
            lowest[field_id] = single_value_bytes(lower, kind)
            high = upper_prefix(upper, length)
            if high is not None:
                highest[field_id] = single_value_bytes(high, kind)
        return replace(self._counts, lower_bounds=lowest, upper_bounds=highest)

    def _widen(self, field_id: int, column: pa.ChunkedArray, length: int | None) -> None:
        kind = column.type
        if isinstance(kind, pa.BaseExtensionType):
            # uuid: Java compares them signed, the spec unsigned (apache/iceberg#14216): bounds mislead one of them.
            return
        extremes = pc.min_max(physical(column)).as_py()
        lower, upper = extremes["min"], extremes["max"]
        if length is not None and isinstance(lower, str | bytes):
            # One unit more shows that the upper bound was cut. Whole values could take much memory until the end.
            lower, upper = lower[:length], upper[: length + 1]
        if field_id in self._extremes:
            *_, lowest, highest = self._extremes[field_id]
            lower, upper = min(lower, lowest), max(upper, highest)
        if pa.types.is_floating(kind):
            # -0.0 sorts before 0.0 in bounds, and Arrow's kernel treats them as equal.
            lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
        self._extremes[field_id] = kind, length, lower, upper


def _count(counts: dict[int, int], field_id: int, more: int) -> None:
    counts[field_id] = counts.get(field_id, 0) + more


def single_value_bytes(value: Any, arrow_type: pa.DataType) -> bytes:
    """Serialise one non-null value; `value` is what Arrow stores (days, micros, text, bytes, Decimal)."""
    if pa.types.is_time64(arrow_type) or pa.types.is_timestamp(arrow_type):
        return struct.pack("<q", value)
    if arrow_type in _PACKED:
        return struct.pack(_PACKED[arrow_type], value)
    if pa.types.is_decimal(arrow_type):
        unscaled = unscaled_value(value, arrow_type.scale)
        return unscaled.to_bytes((unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1, "big", signed=True)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise InvalidInputError("type has no single-value form", kind="metrics", found=str(arrow_type))


def leaves(table: pa.Table, schema: pa.Schema) -> Iterator[tuple[int, str, pa.Field, pa.ChunkedArray]]:
    """Yield each column outside lists and maps that has a field id: the id, dotted name, Arrow field and column.

    `schema` is that of `table`, with field ids.
    """
    pending = [(f, f.name, table.column(i)) for i, f in enumerate(schema)]
    while pending:
        arrow_field, name, column = pending.pop(0)
        kind = arrow_field.type
        if pa.types.is_struct(kind):
            children = [kind.field(i) for i in range(kind.num_fields)]
            pending = [(c, f"{name}.{c.name}", pc.struct_field(column, i)) for i, c in enumerate(children)] + pending
            continue
        field_id = field_id_of(arrow_field)
        if field_id is not None and not pa.types.is_nested(kind):
            yield field_id, name, arrow_field, column


def physical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as what its bounds are made of: days, microseconds and the bytes of a uuid or fixed."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column = pa.chunked_array([c.storage for c in column.chunks], kind.storage_type)
        kind = kind.storage_type
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return column.cast(pa.int64())
    return column.cast(pa.binary()) if pa.types.is_fixed_size_binary(kind) else column


def upper_prefix(value: Any, length: int | None) -> Any:
    """Return the shortest value of at most `length` units not below `value`; None when there is none."""
    if length is None or not isinstance(value, str | bytes) or len(value) <= length:
        return value
    head = value[:length]
    return _next_text(head) if isinstance(head, str) else _next_bytes(head)


def _next_text(head: str) -> str | None:
    for i in range(len(head) - 1, -1, -1):
        code = ord(head[i]) + 1
        code = 0xE000 if code == 0xD800 else code  # surrogates are not characters
        if code <= 0x10FFFF:
            return head[:i] + chr(code)
    return None


def _next_bytes(head: bytes) -> bytes | None:
    for i in range(len(head) - 1, -1, -1):
        if head[i] != 0xFF:
            return head[:i] + bytes((head[i] + 1,))
    return None


def to_optional(values: Mapping[int, Any]) -> Mapping[int, Any] | None:
    """Return None for an empty map: a manifest stores metrics that were not collected as null."""
    return values or None
