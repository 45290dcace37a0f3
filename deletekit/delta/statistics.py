"""Turn the per-file statistics of a Delta log into the metrics of an Iceberg manifest entry.

A bound is never tighter than the file. If the log may have rounded or cut a value, the bound is widened. If the log has
no value, or an impossible one, there is no bound.
Spec: Delta protocol, "Per-file Statistics"; Iceberg, "Manifests" notes on bounds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
from pyiceberg import types as it
from pyiceberg.utils.datetime import date_str_to_days, datetime_to_micros

from deletekit.delta.schema_from_delta import DeltaColumn
from deletekit.formats.decimals import fitted, unscaled_value
from deletekit.formats.metrics import Metrics, upper_prefix

_BOUND_CHARACTERS = 16
_MILLISECOND_REST = 999  # Delta cuts statistics to milliseconds, whatever the column holds


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
        return _bound_bytes(value, kind, upper=upper)
    except (ValueError, TypeError, OverflowError, ArithmeticError, struct.error):
        return None  # another writer's spelling: no bound is always right


def _bound_bytes(value: Any, kind: it.IcebergType, *, upper: bool) -> bytes | None:
    if isinstance(kind, it.IntegerType | it.LongType) and isinstance(value, int):
        return struct.pack("<i" if isinstance(kind, it.IntegerType) else "<q", value)
    if isinstance(kind, it.StringType) and isinstance(value, str):
        # The log cuts text at 32 characters, and not every writer rounds a cut upper bound up.
        text = upper_prefix(value, _BOUND_CHARACTERS) if upper else value[:_BOUND_CHARACTERS]
        return None if text is None else text.encode()
    if isinstance(kind, it.DateType):
        return struct.pack("<i", date_str_to_days(value if isinstance(value, str) else value.isoformat()))
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
    moment = value
    if not isinstance(value, datetime):
        moment = datetime.fromisoformat(value)
        if (moment.tzinfo is None) != isinstance(kind, it.TimestampType):
            raise ValueError(value)
    return datetime_to_micros(moment)
