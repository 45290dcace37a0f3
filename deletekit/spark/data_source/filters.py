"""Translate Spark's filters into deletekit's, if both choose exactly the same rows.

Spark does not evaluate a filter again that was taken over. So a filter that might choose other rows must be left to
Spark: Spark can compare with NaN, and deletekit's filters cannot; a uuid is text in Spark; a name with a dot may mean
two columns. Spark passes the parts of a conjunction, and never an `or`.
"""

from __future__ import annotations  # Spark 4.0 has no filters

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyiceberg import expressions as ie
from pyiceberg import types as it
from pyiceberg.expressions import BooleanExpression, IsNull, Reference
from pyiceberg.schema import Schema
from pyspark.sql import datasource as ds

from deletekit.errors import InvalidInputError
from deletekit.filters.filter import parse_filter

_FLOATS = (it.FloatType, it.DoubleType)
_COMPARABLE: dict[type[it.IcebergType], tuple[type, ...]] = {
    it.BooleanType: (bool,),
    it.IntegerType: (int,),
    it.LongType: (int,),
    it.FloatType: (float,),
    it.DoubleType: (float,),
    it.DateType: (object,),
    it.TimestampType: (datetime,),
    it.TimestamptzType: (datetime,),
    it.StringType: (str,),
    it.BinaryType: (bytes,),
    it.DecimalType: (object,),
}
_COMPARISONS: dict[str, Any] = {
    "EqualTo": ie.EqualTo,
    "EqualNullSafe": ie.EqualTo,
    "In": ie.In,
    "StringStartsWith": ie.StartsWith,
    "LessThan": ie.LessThan,
    "LessThanOrEqual": ie.LessThanOrEqual,
    "GreaterThan": ie.GreaterThan,
    "GreaterThanOrEqual": ie.GreaterThanOrEqual,
}


def translated(spark_filter: ds.Filter, schema: Schema) -> BooleanExpression | None:
    """Return an expression on `schema` that is true for exactly the rows for which Spark's filter is, or None."""
    inner = spark_filter.child if isinstance(spark_filter, ds.Not) else spark_filter
    field = _field(getattr(inner, "attribute", ()), schema)
    if field is None:
        return None
    term = Reference(schema.find_column_name(field.field_id) or "")
    made = _expression(inner, term, field.field_type)
    if made is not None and inner is not spark_filter:
        made = _negated(inner, made, term)
    if made is None:
        return None
    try:
        parse_filter(made, schema)
    except InvalidInputError:  # a value that the column's type cannot hold
        return None
    return made


def conjunction(parts: Sequence[BooleanExpression]) -> BooleanExpression | None:
    """Return the conjunction of the expressions, or None if there is none."""
    return None if not parts else parts[0] if len(parts) == 1 else ie.And(*parts)


def _field(path: tuple[str, ...], schema: Schema) -> it.NestedField | None:
    """Return the column that Spark means, or None if its dotted name may mean another one."""
    fields: Sequence[it.NestedField] = schema.fields
    found: it.NestedField | None = None
    for name in path:
        found = next((f for f in fields if f.name == name), None)
        if found is None:
            return None
        fields = found.field_type.fields if isinstance(found.field_type, it.StructType) else ()
    if found is None or not found.field_type.is_primitive:
        return None
    try:
        return found if schema.find_field(".".join(path)).field_id == found.field_id else None
    except ValueError:
        return None


def _expression(spark_filter: ds.Filter, term: Reference, kind: it.IcebergType) -> BooleanExpression | None:
    """Return a filter that is not a `Not` as an expression, or None."""
    if isinstance(spark_filter, ds.IsNotNull):
        return ie.NotNull(term=term)
    if isinstance(spark_filter, ds.IsNull) or (
        isinstance(spark_filter, ds.EqualNullSafe) and spark_filter.value is None
    ):
        return IsNull(term=term)
    value = _literal(getattr(spark_filter, "value", None), kind)
    if value is None or type(spark_filter).__name__ not in _COMPARISONS:
        return None
    if isinstance(spark_filter, ds.In) and isinstance(kind, _FLOATS):
        return None  # a set tells -0.0 from 0.0
    if isinstance(spark_filter, ds.StringStartsWith) and not isinstance(kind, it.StringType):
        return None
    made: BooleanExpression = _COMPARISONS[type(spark_filter).__name__](term, value)
    return made


def _negated(spark_filter: ds.Filter, made: BooleanExpression, term: Reference) -> BooleanExpression | None:
    """Negate an expression. The result leaves out NULL, except after a null-safe comparison with a value."""
    if isinstance(spark_filter, ds.EqualNullSafe) and spark_filter.value is not None:
        return ie.Or(~made, IsNull(term=term))
    exact = isinstance(spark_filter, ds.IsNull | ds.IsNotNull | ds.EqualTo | ds.EqualNullSafe | ds.In)
    return ~made if exact else None


def _literal(value: Any, kind: it.IcebergType) -> Any:
    """Return a value as pyiceberg takes it, a tuple of them for `In`; None if it might mean something else there."""
    if isinstance(value, tuple | list):
        values = [_literal(v, kind) for v in value]
        return None if not values or any(v is None for v in values) else tuple(values)
    known = _COMPARABLE.get(type(kind))
    if known is None or value is None or not isinstance(value, known):
        return None
    if isinstance(value, bool) and not isinstance(kind, it.BooleanType):
        return None
    if isinstance(value, float) and not math.isfinite(value):  # pyiceberg takes infinity for no value of a float
        return None
    if isinstance(value, datetime):
        return _moment(value, kind)
    return value.isoformat() if isinstance(kind, it.DateType) and hasattr(value, "isoformat") else value


def _moment(value: datetime, kind: it.IcebergType) -> str | None:
    """Return a time as ISO 8601, which pyiceberg reads exactly: with a zone for `timestamptz`, else without one."""
    if isinstance(kind, it.TimestamptzType):
        return value.astimezone(UTC).isoformat() if value.tzinfo else None
    return value.isoformat() if value.tzinfo is None and isinstance(kind, it.TimestampType) else None
