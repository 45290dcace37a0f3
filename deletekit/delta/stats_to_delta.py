"""Make the statistics of an add action from the metrics that an Iceberg manifest has for the data file.

A bound is never tighter than Iceberg's. Iceberg's need not be values of the file, so the statistics are marked as wide
(`tightBounds` false): Delta then skips files by them, and does not answer queries with them.
Spec: Delta protocol, "Per-file Statistics"; Iceberg, "Data File Fields", "Binary single-value serialization".
"""

import json
import math
import re
import struct
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pyiceberg import types as it
from pyiceberg.conversions import from_bytes
from pyiceberg.utils.datetime import days_to_date

from deletekit.delta.schema_to_delta import ColumnMapping, partition_columns, physical_name_of
from deletekit.formats.content_file import DataFile
from deletekit.rows.column_bounds import usable_bounds
from deletekit.table.metadata import TableMetadata

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # times of UTC, whatever the type
_DECIMAL = re.compile(r'"\\u0000(-?[0-9.]+)"')


def stats_text(metadata: TableMetadata, file: DataFile, mode: ColumnMapping) -> str:
    """Return `stats` of a data file: its rows, and of columns outside of lists and maps bounds and counts of nulls.

    Partition columns have none. Bounds that are damaged, or that JSON or Delta cannot say, are left out.
    """
    stats: dict[str, Any] = {"numRecords": file.record_count}
    parts = set(partition_columns(metadata))
    for path, field in _columns(metadata.schema.fields, mode):
        if field.field_id not in parts:
            for name, value in _of_column(file, field):
                _put(stats.setdefault(name, {}), path, value)
    text = json.dumps(stats | {"tightBounds": False})
    return _DECIMAL.sub(r"\1", text)


def _columns(
    fields: Sequence[it.NestedField], mode: ColumnMapping, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], it.NestedField]]:
    for field in fields:
        here = (*path, physical_name_of(field, mode))
        if isinstance(field.field_type, it.StructType):
            yield from _columns(field.field_type.fields, mode, here)
        elif field.field_type.is_primitive:
            yield here, field


def _of_column(file: DataFile, field: it.NestedField) -> Iterator[tuple[str, Any]]:
    field_id, kind = field.field_id, field.field_type
    assert isinstance(kind, it.PrimitiveType)
    nulls = (file.null_value_counts or {}).get(field_id)
    if nulls is not None:
        yield "nullCount", nulls
    # Spark takes NaN for the greatest value; Iceberg's bounds leave it out.
    floating = isinstance(kind, it.FloatType | it.DoubleType)
    has_nan = floating and (file.nan_value_counts or {}).get(field_id) != 0
    for name, data in zip(("minValues", "maxValues"), usable_bounds(field, file)[0], strict=True):
        upper = name == "maxValues"
        value = None if data is None or (upper and has_nan) else _bound(data, kind, upper=upper)
        if value is not None:
            yield name, value


def _bound(data: bytes, kind: it.PrimitiveType, *, upper: bool) -> Any:
    """Return a bound as JSON has it; None if it has none."""
    try:
        value: Any = from_bytes(kind, data)
        if isinstance(kind, it.DateType):
            return days_to_date(value).isoformat()
        if isinstance(kind, it.TimestampType | it.TimestamptzType):
            # Some readers cut times to milliseconds.
            moment = _EPOCH + timedelta(milliseconds=-(-value // 1000) if upper else value // 1000)
            return moment.isoformat(timespec="milliseconds") + ("Z" if isinstance(kind, it.TimestamptzType) else "")
    except (ValueError, OverflowError, ArithmeticError, struct.error):
        return None
    if isinstance(value, Decimal):
        return f"\0{value:f}"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    is_text = isinstance(value, str) and "\0" not in value  # some readers end text there
    return value if is_text or (isinstance(value, int) and not isinstance(value, bool)) else None


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value
