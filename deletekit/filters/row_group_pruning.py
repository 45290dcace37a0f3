"""Skip row groups that hold no row for a filter, by the statistics in a Parquet footer.

Pruning may keep too many row groups, never too few: a column has bounds here only if its stored type is exactly the one
that its bounds are read as. Positions stay those of the file, whatever is skipped.
Spec: Iceberg leaves this to readers; the statistics are Parquet's, https://parquet.apache.org/docs/file-format/metadata/
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema

from deletekit.filters.filter import filter_field_ids
from deletekit.formats.tabular import ColumnStatistics
from deletekit.rows.column_bounds import in_order
from deletekit.rows.projection import FileColumns

_MICROSECONDS = {pa.timestamp("us"), pa.timestamp("us", "UTC")}


def may_match(
    where: BooleanExpression,
    fields: Mapping[int, it.NestedField],
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
    stored = {i: columns.by_id[i] for i in filter_field_ids(where) - columns.null_parts if i in columns.by_id}
    known = {i: statistics[f.name] for i, f in stored.items() if f.name in statistics}
    counted = {i: s for i, s in known.items() if s.nulls is not None}
    found = {i: bounds_of(fields[i].field_type, stored[i].type, s) for i, s in known.items()}
    bounds = {i: [to_bytes(fields[i].field_type, v) for v in b] for i, b in found.items() if b is not None}  # type: ignore[arg-type]  # bounds are of primitives
    metrics = SimpleNamespace(
        record_count=rows,
        value_counts=dict.fromkeys(counted, rows),
        null_value_counts={i: s.nulls for i, s in counted.items()},
        nan_value_counts={i: 0 for i in counted if nans and nans.get(i) == 0},
        lower_bounds={i: lower for i, (lower, _) in bounds.items()},
        upper_bounds={i: upper for i, (_, upper) in bounds.items()},
    )
    return bool(metrics_evaluator(where).eval(metrics))  # duck-typed


def metrics_evaluator(where: BooleanExpression) -> Any:
    """Return pyiceberg's evaluator of bounds and counts for a bound filter without NOT."""
    from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator  # noqa: PLC0415  # only where rows are filtered

    evaluator = _InclusiveMetricsEvaluator(Schema(), AlwaysTrue(), include_empty_files=True)
    evaluator.expr = where  # pyiceberg would bind it again
    return evaluator


def bounds_of(kind: it.IcebergType, stored: pa.DataType, statistics: ColumnStatistics) -> tuple[Any, Any] | None:
    """Return the bounds of a column as values of its Iceberg type; None if the statistics do not prove any.

    The bounds of floats may leave out NaN: a filter that chooses NaN says so by `is nan` (see `filter_literals`).
    """
    lower, upper = statistics.lower, statistics.upper
    if lower is None or upper is None:
        return None
    match kind:
        case it.IntegerType() | it.LongType():
            exact = pa.types.is_signed_integer(stored)
        case it.FloatType() | it.DoubleType():
            exact = pa.types.is_floating(stored)
        case it.DateType():
            exact = pa.types.is_date32(stored)
        case it.TimestampType() | it.TimestamptzType():
            exact = stored in _MICROSECONDS
        case it.StringType() if pa.types.is_string(stored):
            try:
                return in_order(lower.decode(), upper.decode())
            except UnicodeDecodeError:  # a writer has cut a character in two
                return None
        case _:
            exact = False
    return in_order(lower, upper) if exact else None
