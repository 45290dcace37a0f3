"""Values of a Delta log as Iceberg manifests store them: partition values, and statistics as metrics.

Law: pure. A bound is never tighter than the file: where the log may have rounded or cut a value, the bound is widened,
and where it says nothing, or something that cannot be so, there is none.
Spec: Delta protocol, "Partition Value Serialization", "Per-file Statistics"; Iceberg, "Manifests" notes on bounds.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from pyiceberg import types as it

from deletekit.delta.schema_from_delta import DeltaColumn
from deletekit.errors import FormatError, InvalidInputError
from deletekit.formats.decimals import fitted, unscaled_value
from deletekit.formats.metrics import Metrics, upper_prefix
from deletekit.table.types import stored_value

__all__ = ["metrics_of", "partition_tuple", "time_zone_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_BOUND_CHARACTERS = 16
_MILLISECOND_REST = 999  # Delta's statistics are cut to milliseconds, whatever the column holds


def time_zone_of(name: str) -> tzinfo:
    """A time zone by its name. Raises InvalidInputError."""
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise InvalidInputError("no such time zone", kind="time-zone", field="time_zone", found=name) from e


def partition_tuple(
    values: Mapping[str, str | None], columns: Iterable[DeltaColumn], time_zone: tzinfo = UTC
) -> tuple[Any, ...]:
    """The partition of a data file as a manifest stores it.

    Parameters
    ----------
    values: text by physical name; "" and null are both NULL.
    time_zone: of timestamps that name none, which are in their writer's zone.

    Raises FormatError for a column without a value, or a text that is no value of its type.
    """
    return tuple(_partition_value(values, c, time_zone) for c in columns)


def _partition_value(values: Mapping[str, str | None], column: DeltaColumn, time_zone: tzinfo) -> Any:
    name = column.physical_path[-1]
    if name not in values:
        raise FormatError(
            "add action without a value for a partition column",
            kind="delta-partition-value",
            field=name,
            found=", ".join(values),
        )
    text = values[name]
    if text is None or text in ("", _HIVE_NULL):
        return None
    try:
        value = _parsed(text, column.type, time_zone)
    except (ValueError, OverflowError, ArithmeticError) as e:
        raise FormatError(
            "bad partition value", kind="delta-partition-value", field=name, found=text, expected=str(column.type)
        ) from e
    return value


def _parsed(text: str, kind: it.IcebergType, time_zone: tzinfo) -> Any:
    if isinstance(kind, it.StringType):
        return text
    if isinstance(kind, it.IntegerType | it.LongType):
        return _checked_int(int(text), kind)
    if isinstance(kind, it.BooleanType):
        return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _no_value(text)
    if isinstance(kind, it.DateType):
        return _days(text)
    if isinstance(kind, it.TimestamptzType):
        return _micros(text, time_zone)
    if isinstance(kind, it.TimestampType):
        return _micros(text.removesuffix("Z"), UTC)
    if isinstance(kind, it.DecimalType):
        return stored_value(fitted(Decimal(text), kind.precision, kind.scale), str(kind))
    if isinstance(kind, it.FloatType | it.DoubleType):
        return float(np.float32(text)) if isinstance(kind, it.FloatType) else float(text)
    if isinstance(kind, it.BinaryType) and "\ufffd" not in text:  # bytes that were no UTF-8 are lost in the log
        return text.encode()
    return _no_value(text)


def metrics_of(stats: Mapping[str, Any], columns: Iterable[DeltaColumn]) -> Metrics:
    """Metrics of a data file from the statistics of its add action, by field id."""
    metrics = Metrics()
    records = stats.get("numRecords")
    exact = stats.get("tightBounds") is not False
    for column in columns:
        nulls = _at(stats.get("nullCount"), column.physical_path)
        # With wide bounds a null count only tells none and all apart from the rest.
        if _is_nulls(nulls, records, exact=exact):
            metrics.null_value_counts[column.field_id] = nulls
            metrics.value_counts[column.field_id] = int(records or 0)
        lower = _bound(_at(stats.get("minValues"), column.physical_path), column.type, upper=False)
        upper = _bound(_at(stats.get("maxValues"), column.physical_path), column.type, upper=True)
        if lower is not None:
            metrics.lower_bounds[column.field_id] = lower
        if upper is not None:
            metrics.upper_bounds[column.field_id] = upper
    return metrics


def _is_nulls(nulls: Any, records: Any, *, exact: bool) -> bool:
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (nulls, records)):
        return False
    return nulls in (0, records) or (exact and nulls < records)


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(values, Mapping):
            return None
        values = values.get(name)
    return values


def _bound(value: Any, kind: it.IcebergType, *, upper: bool) -> bytes | None:
    if value is None or isinstance(value, bool | Mapping | list):
        return None
    try:
        return _bound_bytes(value, kind, upper=upper)
    except (ValueError, TypeError, OverflowError, ArithmeticError, struct.error):
        return None  # another writer's spelling: no bound is always right


def _bound_bytes(value: Any, kind: it.IcebergType, *, upper: bool) -> bytes | None:
    if isinstance(kind, it.IntegerType | it.LongType) and isinstance(value, int):
        return struct.pack("<i" if isinstance(kind, it.IntegerType) else "<q", value)
    if isinstance(kind, it.StringType) and isinstance(value, str):
        # The log cuts at 32 characters, and not every writer raises what it has cut.
        text = upper_prefix(value, _BOUND_CHARACTERS) if upper else value[:_BOUND_CHARACTERS]
        return None if text is None else text.encode()
    if isinstance(kind, it.DateType):
        return struct.pack("<i", _days(value if isinstance(value, str) else value.isoformat()))
    if isinstance(kind, it.TimestamptzType | it.TimestampType):
        return struct.pack("<q", _stat_micros(value, kind) + (_MILLISECOND_REST if upper else 0))
    if isinstance(kind, it.DecimalType) and isinstance(value, Decimal | int):
        number = unscaled_value(fitted(Decimal(value), kind.precision, kind.scale), kind.scale)
        return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    if isinstance(kind, it.FloatType | it.DoubleType):
        return _float_bound(float(value), kind, upper=upper)
    return None


def _float_bound(value: float, kind: it.IcebergType, *, upper: bool) -> bytes | None:
    if value != value:
        return None
    if value == 0:
        value = 0.0 if upper else -0.0
    if isinstance(kind, it.DoubleType):
        return struct.pack("<d", value)
    # One step outwards: text of a float, read as a double, need not round to the same float.
    return struct.pack("<f", np.nextafter(np.float32(value), np.float32(np.inf if upper else -np.inf)))


def _stat_micros(value: Any, kind: it.IcebergType) -> int:
    if isinstance(value, datetime):
        return (value.replace(tzinfo=value.tzinfo or UTC) - _EPOCH) // _MICROSECOND
    moment = datetime.fromisoformat(value)
    if (moment.tzinfo is None) != isinstance(kind, it.TimestampType):
        raise ValueError(value)
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // _MICROSECOND


def _micros(text: str, time_zone: tzinfo) -> int:
    if re.search(r"\.\d{7,}", text):
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    return (moment.replace(tzinfo=moment.tzinfo or time_zone) - _EPOCH) // _MICROSECOND


def _days(text: str) -> int:
    return date.fromisoformat(text).toordinal() - _EPOCH_DAY


def _checked_int(value: int, kind: it.IcebergType) -> int:
    bits = 31 if isinstance(kind, it.IntegerType) else 63
    return value if -(1 << bits) <= value < 1 << bits else _no_value(value)


def _no_value(found: object) -> Any:
    raise ValueError(found)
