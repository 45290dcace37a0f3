"""Convert partition values between the text of a Delta log and the values of an Iceberg manifest, both ways.

Spec: Delta protocol, "Partition Value Serialization"; Iceberg, "Data File Fields" (`partition`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from pyiceberg import types as it
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.utils.datetime import (
    date_str_to_days,
    datetime_to_micros,
    days_to_date,
    micros_to_timestamp,
    micros_to_timestamptz,
)

from deletekit.delta.schema_from_delta import DeltaColumn
from deletekit.delta.schema_to_delta import ColumnMapping, partition_columns, physical_name_of
from deletekit.errors import FormatError, InvalidInputError, UnsupportedError
from deletekit.formats.decimals import decimal_of_bytes, fitted
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import stored_value

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


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
        return date_str_to_days(text)
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


def _micros(text: str, time_zone: tzinfo) -> int:
    if re.search(r"\.\d{7,}", text):
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    return datetime_to_micros(moment.replace(tzinfo=moment.tzinfo or time_zone))


def _checked_int(value: int, kind: it.IcebergType) -> int:
    bits = 31 if isinstance(kind, it.IntegerType) else 63
    return value if -(1 << bits) <= value < 1 << bits else _no_value(value)


def _no_value(found: object) -> Any:
    raise ValueError(found)


def _text(value: Any, kind: it.IcebergType, name: str) -> str:
    if isinstance(kind, it.BooleanType):
        return "true" if value else "false"
    if isinstance(kind, it.DateType):
        return days_to_date(value).isoformat()
    if isinstance(kind, it.TimestamptzType):
        return micros_to_timestamptz(value).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(kind, it.TimestampType):
        return micros_to_timestamp(value).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(kind, it.DecimalType):
        return str(decimal_of_bytes(value, kind.scale))
    if isinstance(value, bytes) or (isinstance(value, str) and (value == "" or value.startswith("__HIVE_DEFAULT"))):
        raise UnsupportedError(
            "Delta cannot hold this partition value", kind="delta-partition-value", field=name, found=repr(value)
        )
    return str(value)
