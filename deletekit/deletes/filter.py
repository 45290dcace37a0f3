"""Evaluate row filters: pyiceberg expressions over Arrow columns, with SQL's three-valued logic.

A comparison with NULL is unknown, and so is NOT of unknown. A row is selected only if the filter is true, so
`x NOT IN (1)` selects no NULL rows. NaN is above every number, as in Spark, and only `is nan` asks for it. -0.0 equals
0.0. Each literal is exact: see `filter_literals`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundPredicate, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, bind, extract_field_ids, visit
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from deletekit.deletes.filter_literals import column_named, exact_literals
from deletekit.deletes.filter_parser import parse_text
from deletekit.deletes.like import BoundLike, BoundNotLike
from deletekit.errors import InvalidInputError
from deletekit.table.types import arrow_type

Filter = str | BooleanExpression | None
ColumnOf = Callable[[int], Any]


def parse_filter(where: Filter, schema: Schema) -> BooleanExpression:
    """Return a filter bound to `schema`, with NOT pushed down to the predicates.

    Parameters
    ----------
    where: a pyiceberg expression, text (see `filter_parser`), or None for every row.

    Raises InvalidInputError, naming the filter, for text that does not parse, an unknown column, or a literal that
    does not fit the column's type.
    """
    return AlwaysTrue() if where is None else bind(nullable(schema), _exact(where, schema), case_sensitive=True)


def unbound_filter(where: Filter, schema: Schema) -> BooleanExpression | None:
    """Return the unbound filter that `parse_filter` binds, for pyiceberg's projections. Raises as `parse_filter`."""
    return None if where is None else _exact(where, schema)


def nullable(schema: Schema) -> Schema:
    """Return the schema to bind filters to: in a NULL struct a required field is NULL, which pyiceberg rules out."""
    return Schema(
        *(f.model_copy(update={"field_type": _nullable(f)}) for f in schema.fields), schema_id=schema.schema_id
    )


def _nullable(field: NestedField) -> Any:
    kind = field.field_type
    if not isinstance(kind, StructType):
        return kind
    return StructType(*(f.model_copy(update={"required": False, "field_type": _nullable(f)}) for f in kind.fields))


def _exact(where: str | BooleanExpression, schema: Schema) -> BooleanExpression:
    try:
        expression = parse_text(where, lambda path: _resolved(path, schema)) if isinstance(where, str) else where
        if not isinstance(expression, BooleanExpression):
            raise TypeError(f"not a filter: {type(expression).__name__}")
        return exact_literals(expression, schema)
    except InvalidInputError:
        raise
    except Exception as e:  # pydantic and pyiceberg each raise their own
        problem = " ".join(str(e).split())
        raise InvalidInputError(
            f"bad filter: {problem}" if isinstance(e, ValueError) else f"bad filter: {type(e).__name__}: {problem}",
            kind="filter",
            field="where",
            found=str(where),
        ) from e


def _resolved(path: tuple[str, ...], schema: Schema) -> str:
    """Return the name by which pyiceberg finds a column. Raises InvalidInputError if it could mean two."""
    name = ".".join(path)
    found = column_named(name, schema)
    fields: Any = schema.fields
    walked: NestedField | None = None
    for part in path:
        walked = next((f for f in fields if f.name == part), None)
        fields = walked.field_type.fields if walked and isinstance(walked.field_type, StructType) else ()
    if walked is not None and walked.field_id != found.field_id:
        raise InvalidInputError("this name means two columns", kind="filter", field="where", found=name)
    return name


def evaluate(bound: BooleanExpression, column_of: ColumnOf, rows: int) -> pa.BooleanArray:
    """Return one boolean per row, never null: True where `bound` is true.

    Parameters
    ----------
    bound: from `parse_filter`.
    column_of: returns the column of a field id, `rows` long.
    """
    mask = visit(bound, _Evaluate(column_of, rows))
    if isinstance(mask, bool):
        return pa.repeat(pa.scalar(mask), rows) if rows else pa.array([], pa.bool_())
    return pc.fill_null(mask, False)


def filter_field_ids(bound: BooleanExpression) -> set[int]:
    """Return the ids of the columns that a filter reads."""
    return set(extract_field_ids(bound))


class _Evaluate(BoundBooleanExpressionVisitor[Any]):
    """A visitor whose results are boolean Arrow arrays, in which null means unknown."""

    def __init__(self, column_of: ColumnOf, rows: int) -> None:
        self._column_of = column_of
        self._rows = rows

    def _column(self, term: BoundTerm) -> Any:
        column = self._column_of(term.ref().field.field_id)
        if isinstance(column.type, pa.BaseExtensionType):
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            return pa.chunked_array([c.storage for c in chunks], type=column.type.storage_type)
        return column

    def visit_bound_predicate(self, predicate: BoundPredicate) -> Any:
        if isinstance(predicate, BoundLike | BoundNotLike):
            matches = pc.match_substring_regex(self._column(predicate.term), rf"(?s)\A(?:{predicate.regex})\z")
            return matches if isinstance(predicate, BoundLike) else pc.invert(matches)
        return super().visit_bound_predicate(predicate)

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> Any:
        column = self._column(term)
        values = pa.array([_storable(v) for v in literals], type=column.type)
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 + 0.0 is 0.0: a set tells them apart
            values = pc.add(values, pa.scalar(0.0, column.type))
        return pc.if_else(pc.is_null(column), None, pc.is_in(column, value_set=values))

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> Any:
        return pc.invert(self.visit_in(term, literals))

    def visit_is_nan(self, term: BoundTerm) -> Any:
        return pc.fill_null(pc.is_nan(self._column(term)), False)

    def visit_not_nan(self, term: BoundTerm) -> Any:
        return pc.invert(self.visit_is_nan(term))

    def visit_is_null(self, term: BoundTerm) -> Any:
        return pc.is_null(self._column(term))

    def visit_not_null(self, term: BoundTerm) -> Any:
        return pc.is_valid(self._column(term))

    def visit_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.equal(self._column(term), _scalar(term, literal.value))

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.not_equal(self._column(term), _scalar(term, literal.value))

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.greater_equal(self._column(term), _scalar(term, literal.value))

    def visit_greater_than(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.greater(self._column(term), _scalar(term, literal.value))

    def visit_less_than(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.less(self._column(term), _scalar(term, literal.value))

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.less_equal(self._column(term), _scalar(term, literal.value))

    def visit_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.starts_with(self._column(term), pattern=literal.value)

    def visit_not_starts_with(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.invert(self.visit_starts_with(term, literal))

    def visit_true(self) -> Any:
        return True

    def visit_false(self) -> Any:
        return False

    def visit_not(self, child_result: Any) -> Any:
        return not child_result if isinstance(child_result, bool) else pc.invert(child_result)

    def visit_and(self, left_result: Any, right_result: Any) -> Any:
        if isinstance(left_result, bool):
            return right_result if left_result else False
        if isinstance(right_result, bool):
            return left_result if right_result else False
        return pc.and_kleene(left_result, right_result)

    def visit_or(self, left_result: Any, right_result: Any) -> Any:
        if isinstance(left_result, bool):
            return True if left_result else right_result
        if isinstance(right_result, bool):
            return True if right_result else left_result
        return pc.or_kleene(left_result, right_result)


def _scalar(term: BoundTerm, value: Any) -> pa.Scalar:
    kind = arrow_type(term.ref().field.field_type)
    return pa.scalar(_storable(value), kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)


def _storable(value: Any) -> Any:
    return value.bytes if hasattr(value, "bytes") else value  # uuids
