"""Rows as JSON, so that those of two engines can be compared: one form for each value, in one order.

Spec: "JSON single-value serialization", https://iceberg.apache.org/spec/#json-single-value-serialization, with these
differences: a struct is an object by name, a map is a list of pairs, and NaN and the infinities are texts.
"""

import json
import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from deletekit.table.python_values import python_values
from deletekit.text import IsoText

Row = list[Any]


def rows_of(table: pa.Table) -> list[Row]:
    """Return the rows of a table as JSON values, sorted."""
    columns = [
        [_encoder(field.type)(value) for value in _values(table.column(i), field.name)]
        for i, field in enumerate(table.schema)
    ]
    return in_order(list(row) for row in zip(*columns, strict=True))


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows of JSON values in the order of the suite's files."""
    return sorted(rows, key=lambda row: json.dumps(row, ensure_ascii=False, sort_keys=True))


def same(a: Iterable[Sequence[Any]], b: Iterable[Sequence[Any]]) -> bool:
    """Tell whether two collections hold the same rows, each as often. -0.0 differs from 0.0, and 1 is 1.0."""
    return counted(a) == counted(b)


def counted(rows: Iterable[Sequence[Any]]) -> Counter[Any]:
    """Return how often each row is there; two rows are equal as `same` says."""
    return Counter(map(_frozen, rows))


def number(value: float) -> float | str:
    """Return a floating number as JSON can hold it."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _values(column: pa.ChunkedArray, name: str) -> list[Any]:
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    return python_values(column, name)


def _is_nested(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) and not pa.types.is_dictionary(kind)


def _encoder(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return what makes JSON of a Python value of an Arrow type; NULL stays NULL."""
    encode = _encoder_of_value(kind)
    return lambda value: None if value is None else encode(value)


def _encoder_of_value(kind: pa.DataType) -> Callable[[Any], Any]:  # one answer for each kind of type
    types = pa.types
    if isinstance(kind, pa.UuidType):
        return lambda value: str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value))
    if types.is_dictionary(kind):
        return _encoder_of_value(kind.value_type)
    if types.is_floating(kind):
        return number
    if types.is_decimal(kind):
        return lambda value: format(Decimal(value), "f")
    if types.is_timestamp(kind):
        return lambda value: _timestamp(value, kind)
    if types.is_date(kind) or types.is_time(kind):
        return lambda value: str(value) if not types.is_time(kind) else value.isoformat("microseconds")
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return lambda value: bytes(value).hex().upper()
    if types.is_struct(kind):
        fields = {field.name: _encoder(field.type) for field in kind}
        return lambda value: {name: encode(value[name]) for name, encode in fields.items()}
    if types.is_map(kind):
        key, item = _encoder(kind.key_type), _encoder(kind.item_type)
        return lambda value: in_order([key(k), item(v)] for k, v in value)
    if _is_nested(kind):
        element = _encoder(kind.value_type)
        return lambda value: [element(v) for v in value]
    return lambda value: value


def _timestamp(value: Any, kind: pa.TimestampType) -> str:
    """Return the text of a timestamp with six digits, or nine where it counts nanoseconds."""
    if isinstance(value, IsoText):
        return str(value)
    digits: str = value.replace(tzinfo=None).isoformat(timespec="microseconds")
    return digits + ("000" if kind.unit == "ns" else "") + ("" if kind.tz is None else "+00:00")


def _frozen(value: Any) -> Any:
    """Return a JSON value as something that is hashed, and equal as `same` says."""
    if isinstance(value, dict):
        return ("struct", *((name, _frozen(v)) for name, v in sorted(value.items())))
    if isinstance(value, list | tuple):
        return ("list", *map(_frozen, value))
    if isinstance(value, float) and value == 0 and math.copysign(1, value) < 0:
        return ("negative zero",)
    return ("bool", value) if isinstance(value, bool) else value
