"""Convert column values of a Delta log for an Iceberg manifest: partition values, both ways, and statistics of files.

A bound is never tighter than the file. If the log may have rounded or cut a value, the bound is widened. If the log has
no value, or an impossible one, there is no bound.
Spec: Delta protocol, "Partition Value Serialization", "Per-file Statistics"; Iceberg, "Data File Fields" (`partition`),
"Manifests" notes on bounds.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from pyiceberg import types as it
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.utils.datetime import date_str_to_days, datetime_to_micros

from deletekit.delta.schema_from_delta import DeltaColumn
from deletekit.delta.schema_to_delta import ColumnMapping, partition_columns, physical_name_of
from deletekit.errors import FormatError, InvalidInputError, UnsupportedError
from deletekit.formats.decimals import decimal_of_bytes, fitted
from deletekit.formats.metrics import Metrics, upper_prefix
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import single_value_of_stored, stored_value
from deletekit.text import IsoText, day_of, moment_of

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_DATE, _TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_INTEGER, _NUMBER = r"[+-]?[0-9]+", r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_FLOAT = rf"{_NUMBER}|[+-]?(?i:inf|infinity)|(?i:nan)"
# What Delta's writers spell. Python's own functions take more: spaces, `1_000`, digits of other scripts, `20240229`.
_SPELLINGS: dict[type[it.IcebergType], str] = {
    it.IntegerType: _INTEGER,
    it.LongType: _INTEGER,
    it.BooleanType: "(?i:true|false)",
    it.DateType: _DATE,
    it.TimestamptzType: rf"{_DATE}[ T]{_TIME}(Z|[+-][0-9]{{2}}:[0-9]{{2}})?",
    it.TimestampType: rf"{_DATE}[ T]{_TIME}Z?",  # Spark leaves a zone out, and delta-kernel refuses it
    it.DecimalType: _NUMBER,
    it.FloatType: _FLOAT,
    it.DoubleType: _FLOAT,
}
_BOUND_CHARACTERS = 16
_MILLISECOND_REST = 999  # Delta cuts statistics to milliseconds, whatever the column holds
_SECOND_REST = 999_999  # text without them may be cut to seconds


def time_zone_of(name: str) -> tzinfo:
    """Return a time zone by its name. Raise InvalidInputError."""
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise InvalidInputError("no such time zone", kind="time-zone", field="time_zone", found=name) from e


def partition_tuple(
    values: Mapping[str, str | None], columns: Iterable[DeltaColumn], time_zone: tzinfo = UTC
) -> tuple[Any, ...]:
    """Return the partition of a data file as a manifest stores it.

    Parameters
    ----------
    values: text by physical name; "" and null are both NULL.
    time_zone: for timestamps without a zone, which are in the zone of their writer.

    Raises FormatError for a column without a value, and for a text that is not a value of its type.
    """
    return tuple(_partition_value(values, c, time_zone) for c in columns)


def _partition_value(values: Mapping[str, str | None], column: DeltaColumn, time_zone: tzinfo) -> Any:
    name, kind = column.physical_path[-1], "delta-partition-value"
    if name not in values:
        raise FormatError("add action without a value for a partition column", kind, name, ", ".join(values))
    text = values[name]
    if text is None or text in ("", _HIVE_NULL):
        return None
    try:
        return _parsed(text, column.type, time_zone)
    except (ValueError, OverflowError, ArithmeticError) as e:
        raise FormatError("bad partition value", kind=kind, field=name, found=text, expected=str(column.type)) from e


def _parsed(text: str, kind: it.IcebergType, time_zone: tzinfo) -> Any:
    spelling = _SPELLINGS.get(type(kind))
    if spelling is not None and re.fullmatch(spelling, text) is None:
        raise ValueError(text)
    if isinstance(kind, it.StringType):
        return text
    if isinstance(kind, it.IntegerType | it.LongType) and kind.min <= int(text) <= kind.max:
        return int(text)
    if isinstance(kind, it.BooleanType):
        return text.lower() == "true"
    if isinstance(kind, it.DateType):
        return date_str_to_days(text)
    if isinstance(kind, it.TimestamptzType):
        return _micros(text, time_zone)
    if isinstance(kind, it.TimestampType):
        return _micros(text.removesuffix("Z"), UTC)
    if isinstance(kind, it.DecimalType):
        return stored_value(fitted(Decimal(text), kind.precision, kind.scale), str(kind))
    if isinstance(kind, it.FloatType | it.DoubleType):
        with np.errstate(over="ignore"):
            return float(np.float32(text)) if isinstance(kind, it.FloatType) else float(text)
    if isinstance(kind, it.BinaryType) and "\ufffd" not in text:  # bytes that were not UTF-8 are lost in the log
        return text.encode()
    raise ValueError(text)


def _micros(text: str, time_zone: tzinfo) -> int:
    moment = datetime.fromisoformat(text)
    return datetime_to_micros(moment.replace(tzinfo=moment.tzinfo or time_zone))


def partition_texts(
    metadata: TableMetadata, spec: PartitionSpec, partition: tuple[Any, ...], mode: ColumnMapping
) -> dict[str, str | None]:
    """Return `partitionValues` of a data file, by physical name. Raise UnsupportedError for bytes that are not text."""
    wanted = set(partition_columns(metadata))
    out: dict[str, str | None] = {}
    for field, value in zip(spec.fields, partition, strict=True):
        if field.source_id in wanted:
            source = metadata.schema.find_field(field.source_id)
            text = None if value is None else _text(value, source.field_type, field.name)
            out[physical_name_of(source, mode)] = text
    return out


def _text(value: Any, kind: it.IcebergType, name: str) -> str:
    if isinstance(kind, it.BooleanType):
        return "true" if value else "false"
    if isinstance(kind, it.DateType | it.TimestampType | it.TimestamptzType):
        found = day_of(value) if isinstance(kind, it.DateType) else moment_of(value, "us", utc=False)
        if isinstance(found, IsoText):
            raise _no_partition_value(name, found)
        if not isinstance(found, datetime):
            return found.isoformat()
        zoned = isinstance(kind, it.TimestamptzType)
        return found.isoformat("T" if zoned else " ", "microseconds") + ("Z" if zoned else "")
    if isinstance(kind, it.DecimalType):
        return str(decimal_of_bytes(value, kind.scale))
    if isinstance(value, bytes) or (isinstance(value, str) and (value == "" or value.startswith("__HIVE_DEFAULT"))):
        raise _no_partition_value(name, value)
    return str(value)


def _no_partition_value(name: str, value: Any) -> UnsupportedError:
    return UnsupportedError("Delta cannot hold this partition value", "delta-partition-value", name, repr(value))


def metrics_of(stats: Mapping[str, Any], columns: Iterable[DeltaColumn]) -> Metrics:
    """Return the metrics of a data file, by field id, from the statistics of its add action."""
    metrics = Metrics()
    records = stats.get("numRecords")
    exact = stats.get("tightBounds") is not False
    for column in columns:
        nulls = _at(stats.get("nullCount"), column.physical_path)
        # With wide bounds a null count is exact only if no value or every value is null.
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
        stored = _stored_bound(value, kind, upper=upper)
        return None if stored is None else single_value_of_stored(stored, str(kind))
    except (ValueError, TypeError, OverflowError, ArithmeticError, struct.error):
        return None  # another writer's spelling: no bound is always right


def _stored_bound(value: Any, kind: it.IcebergType, *, upper: bool) -> Any:
    """Return a bound as `stored_value` does; None for a value of another type."""
    if isinstance(kind, it.IntegerType | it.LongType) and isinstance(value, int):
        return value
    if isinstance(kind, it.StringType) and isinstance(value, str):
        # The log cuts text at 32 characters, and not every writer rounds a cut upper bound up.
        return upper_prefix(value, _BOUND_CHARACTERS) if upper else value[:_BOUND_CHARACTERS]
    if isinstance(kind, it.DateType):
        return date_str_to_days(value if isinstance(value, str) else value.isoformat())
    if isinstance(kind, it.TimestamptzType | it.TimestampType):
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        if moment is not value and (moment.tzinfo is None) != isinstance(kind, it.TimestampType):
            raise ValueError(value)
        rest = _MILLISECOND_REST if moment is value or re.search(r"\.[0-9]{3}", value) else _SECOND_REST
        # A writer that cuts towards zero raises what is before 1970.
        low = rest if moment is not value and datetime_to_micros(moment) <= 0 else 0
        return datetime_to_micros(moment) + (rest if upper else -low)
    if isinstance(kind, it.DecimalType) and isinstance(value, Decimal | int):
        return stored_value(fitted(Decimal(value), kind.precision, kind.scale), str(kind))
    if isinstance(kind, it.FloatType | it.DoubleType) and not np.isnan(number := float(value)):
        if number == 0:
            number = 0.0 if upper else -0.0
        # One step outwards: text of a float, read as a double, need not round to the same float.
        outwards = np.float32(np.inf if upper else -np.inf)
        return number if isinstance(kind, it.DoubleType) else float(np.nextafter(np.float32(number), outwards))
    return None
