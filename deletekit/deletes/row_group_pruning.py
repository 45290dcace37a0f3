"""Skip row groups that hold no row for a filter, by the statistics in a Parquet footer.

Pruning may keep too many row groups, never too few: a column has bounds here only if its stored type is exactly the one
that its bounds are read as. Positions stay those of the file, whatever is skipped.
Spec: Iceberg leaves this to readers; the statistics are Parquet's, https://parquet.apache.org/docs/file-format/metadata/
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluationVisitor, visit
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from deletekit.deletes.filter import filter_field_ids
from deletekit.deletes.projection import FileColumns
from deletekit.formats.tabular import ColumnStatistics

_MICROSECONDS = {pa.timestamp("us"), pa.timestamp("us", "UTC")}


def may_match(
    where: BooleanExpression,
    fields: Mapping[int, NestedField],
    columns: FileColumns,
    statistics: Mapping[str, ColumnStatistics],
    rows: int,
    nans: Mapping[int, int] | None = None,
) -> bool:
    """Tell whether a row group of `rows` rows may hold a row for which the bound filter `where` is true.

    Parameters
    ----------
    fields: the table's fields by id.
    columns: the file's columns.
    statistics: of the row group, by file column name.
    nans: counts of the whole file by field id, if known; a footer does not count NaN.
    """
    if isinstance(where, AlwaysTrue) or not statistics:
        return True
    known = {i: s for i in filter_field_ids(where) if (s := _statistics_of(i, columns, statistics)) is not None}
    counted = {i: s for i, s in known.items() if s.nulls is not None}
    bounds = {i: _bytes(fields[i].field_type, columns.by_id[i].type, s) for i, s in known.items()}
    metrics = SimpleNamespace(
        record_count=rows,
        value_counts=dict.fromkeys(counted, rows),
        null_value_counts={i: s.nulls for i, s in counted.items()},
        nan_value_counts={i: 0 for i in counted if nans and nans.get(i) == 0},
        lower_bounds={i: b[0] for i, b in bounds.items() if b is not None},
        upper_bounds={i: b[1] for i, b in bounds.items() if b is not None},
    )
    return bool(visit(where, _InclusiveMetricsEvaluationVisitor(metrics)))  # type: ignore[arg-type]  # duck-typed


def bounds_of(kind: IcebergType, stored: pa.DataType, statistics: ColumnStatistics) -> tuple[Any, Any] | None:
    """Return the bounds of a column as values of its Iceberg type; None if the statistics do not prove any.

    The bounds of floats may leave out NaN: a filter that chooses NaN says so by `is nan` (see `filter_literals`).
    """
    lower, upper = statistics.lower, statistics.upper
    if lower is None or upper is None:
        return None
    if isinstance(kind, IntegerType | LongType):
        exact = pa.types.is_signed_integer(stored)
    elif isinstance(kind, FloatType | DoubleType):
        exact = pa.types.is_floating(stored) and lower == lower and upper == upper
    elif isinstance(kind, DateType):
        exact = pa.types.is_date32(stored)
    elif isinstance(kind, TimestampType | TimestamptzType):
        exact = stored in _MICROSECONDS
    elif isinstance(kind, StringType):
        return _text(stored, lower, upper)
    else:
        exact = False
    return (lower, upper) if exact else None


def _bytes(kind: IcebergType, stored: pa.DataType, statistics: ColumnStatistics) -> tuple[bytes, bytes] | None:
    bounds = bounds_of(kind, stored, statistics)
    if bounds is None or not isinstance(kind, PrimitiveType):
        return None
    return to_bytes(kind, bounds[0]), to_bytes(kind, bounds[1])


def _text(stored: pa.DataType, lower: bytes, upper: bytes) -> tuple[str, str] | None:
    """Return the bounds of text, None if a writer has cut a character in two."""
    try:
        return (lower.decode(), upper.decode()) if pa.types.is_string(stored) else None
    except UnicodeDecodeError:
        return None


def _statistics_of(
    field_id: int, columns: FileColumns, statistics: Mapping[str, ColumnStatistics]
) -> ColumnStatistics | None:
    stored = columns.by_id.get(field_id)
    return None if stored is None else statistics.get(stored.name)
