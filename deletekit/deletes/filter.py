"""Row filters: pyiceberg expressions evaluated over Arrow columns with SQL's three-valued logic.

Law: pure. A comparison with NULL is unknown, NOT of unknown is unknown, and a row is chosen only when the filter is
true; `x NOT IN (1)` does not choose NULL rows. Comparisons with NaN are false (use `is nan`), as in Arrow and IEEE 754.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, bind, extract_field_ids, rewrite_not, visit
from pyiceberg.schema import Schema

from deletekit.deletes.filter_literals import exact_literals
from deletekit.errors import InvalidInputError
from deletekit.table.types import arrow_type

__all__ = ["Filter", "evaluate", "parse_filter", "unbound_filter"]

Filter = str | BooleanExpression | None
ColumnOf = Callable[[int], Any]


def parse_filter(where: Filter, schema: Schema) -> BooleanExpression:
    """A filter bound to `schema`, with NOT pushed down to the predicates.

    Parameters
    ----------
    where: a pyiceberg expression, its SQL-like text, or None for every row.

    Raises InvalidInputError, naming the filter, for text that does not parse, an unknown column, or a literal that
    does not fit the column's type.
    """
    if where is None:
        return AlwaysTrue()
    try:
        return bind(schema, rewrite_not(_exact(where, schema)), case_sensitive=True)
    except Exception as e:  # pyparsing, pydantic and pyiceberg each raise their own
        raise InvalidInputError(
            f"bad filter: {type(e).__name__}: {e}",
            kind="filter",
            field="where",
            found=str(where),
            expected=_columns(schema),
        ) from e


def unbound_filter(where: Filter, schema: Schema) -> BooleanExpression | None:
    """The expression of a filter that `parse_filter` accepted; pyiceberg's projections bind it themselves."""
    return None if where is None else _exact(where, schema)


def _exact(where: str | BooleanExpression, schema: Schema) -> BooleanExpression:
    expression = parse(where) if isinstance(where, str) else where
    if not isinstance(expression, BooleanExpression):
        raise TypeError(f"not a filter: {type(expression).__name__}")
    return exact_literals(expression, schema)


def evaluate(bound: BooleanExpression, column_of: ColumnOf, rows: int) -> pa.BooleanArray:
    """One boolean per row, never null: True where `bound` is true.

    Parameters
    ----------
    bound: from `parse_filter`.
    column_of: field id -> the column, `rows` long.
    """
    mask = visit(bound, _Evaluate(column_of, rows))
    if isinstance(mask, bool):
        return pa.array([mask]).take(pa.array([0] * rows, pa.int32())) if rows < 1 else pa.repeat(pa.scalar(mask), rows)
    return pc.fill_null(mask, False)


def filter_field_ids(bound: BooleanExpression) -> set[int]:
    """Ids of the columns a filter looks at."""
    return set(extract_field_ids(bound))


def _columns(schema: Schema) -> str:
    return "columns " + ", ".join(f"{n}" for n in schema.column_names)


class _Evaluate(BoundBooleanExpressionVisitor[Any]):
    """Values are boolean Arrow arrays with nulls for unknown."""

    def __init__(self, column_of: ColumnOf, rows: int) -> None:
        self._column_of = column_of
        self._rows = rows

    def _column(self, term: BoundTerm) -> Any:
        column = self._column_of(term.ref().field.field_id)
        if isinstance(column.type, pa.BaseExtensionType):
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            return pa.chunked_array([c.storage for c in chunks], type=column.type.storage_type)
        return column

    def _scalar(self, term: BoundTerm, literal: Literal[Any]) -> pa.Scalar:
        return _scalar(term, literal.value)

    def visit_in(self, term: BoundTerm, literals: set[Any]) -> Any:
        column = self._column(term)
        values = pa.array([_scalar(term, v).as_py() for v in literals], type=column.type)
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
        return pc.equal(self._column(term), self._scalar(term, literal))

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.not_equal(self._column(term), self._scalar(term, literal))

    def visit_greater_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.greater_equal(self._column(term), self._scalar(term, literal))

    def visit_greater_than(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.greater(self._column(term), self._scalar(term, literal))

    def visit_less_than(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.less(self._column(term), self._scalar(term, literal))

    def visit_less_than_or_equal(self, term: BoundTerm, literal: Literal[Any]) -> Any:
        return pc.less_equal(self._column(term), self._scalar(term, literal))

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
    if isinstance(kind, pa.BaseExtensionType):
        return pa.scalar(value.bytes if hasattr(value, "bytes") else value, kind.storage_type)
    return pa.scalar(value, kind)
