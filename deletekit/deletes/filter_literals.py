"""Make the literals of a filter values of their columns' types, or refuse them.

A predicate means what it means in SQL, as Spark reads it, and no literal is rounded. pyiceberg turns `id = 1.5` of an
integer column into `id = 1`, and a delete by it would hide the wrong row; here it is an error. `id < 1.5` becomes
`id <= 1`. `id < 3000000000` of an int is true for every value, but not for NULL. NaN is above every number, so `x > 1`
selects it. NOT is rewritten first; without it, unknown and false select the same rows.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNaN,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
    NotNull,
    NotStartsWith,
    Or,
    Reference,
    SetPredicate,
    StartsWith,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, rewrite_not, visit
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, IcebergType, NestedField, StringType

from deletekit.deletes.column_values import is_number, neighbours, value_of
from deletekit.deletes.like import NotLike
from deletekit.errors import InvalidInputError
from deletekit.table.column_names import columns_like


def exact_literals(expression: BooleanExpression, schema: Schema) -> BooleanExpression:
    """Return an unbound expression without NOT that selects the same rows with literals of the columns' types.

    Raises InvalidInputError for an unknown column, and ValueError, naming literal and type, for a literal that cannot
    be compared with the column, or that no value of the column can equal.
    """
    return visit(rewrite_not(expression), _Exact(schema))


def column_named(name: str, schema: Schema) -> NestedField:
    """Return a column, or a field of structs, by name. Raises InvalidInputError, naming the most similar columns."""
    try:
        field = schema.find_field(name)
    except ValueError as e:
        raise InvalidInputError(
            "no such column", kind="filter", field="where", found=name, expected=columns_like(name, schema.column_names)
        ) from e
    try:
        schema.accessor_for_field(field.field_id)
    except ValueError as e:
        raise InvalidInputError(
            "a filter cannot look into lists and maps",
            kind="filter",
            field="where",
            found=name,
            expected="a column, or a field of structs",
        ) from e
    return field


class _Exact(BooleanExpressionVisitor[BooleanExpression]):
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        raise AssertionError(f"NOT must be rewritten first: {child_result}")

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_bound_predicate(self, predicate: Any) -> BooleanExpression:
        raise TypeError(f"filter is bound already: {predicate}")

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        assert isinstance(predicate.term, Reference)  # pyiceberg's only unbound term
        name = predicate.term.name
        kind = column_named(name, self._schema).field_type
        if isinstance(predicate, LiteralPredicate | SetPredicate | NotLike) and not kind.is_primitive:
            raise ValueError(f"column {name} is {kind}, which has no order and equals nothing: IS NULL asks for it")
        try:
            if isinstance(predicate, StartsWith | NotStartsWith | NotLike):
                return _text(predicate, kind)
            if isinstance(predicate, LiteralPredicate):
                return _compared(predicate, kind)
            return _one_of(predicate, kind) if isinstance(predicate, SetPredicate) else predicate
        except ValueError as e:
            raise ValueError(f"column {name} is {kind}: {e}") from e


def _text(predicate: UnboundPredicate, kind: IcebergType) -> BooleanExpression:
    if not isinstance(kind, StringType):
        raise ValueError("LIKE is for text")  # noqa: TRY004  # the caller adds the column to a ValueError
    if isinstance(predicate, LiteralPredicate):
        value_of(predicate.literal, kind)
    return predicate


def _compared(predicate: LiteralPredicate, kind: IcebergType) -> BooleanExpression:
    term, literal, same = predicate.term, predicate.literal, predicate.__class__
    if not is_number(kind):
        return same(term=term, value=value_of(literal, kind))
    if isinstance(predicate, EqualTo | NotEqualTo):
        value = _equal_value(literal, kind)
        if value is not None:
            return same(term=term, value=value)
        return AlwaysFalse() if isinstance(predicate, EqualTo) else NotNull(term=term)
    below, above = neighbours(literal, kind)
    is_less = isinstance(predicate, LessThan | LessThanOrEqual)
    nearest = below if is_less else above
    made: BooleanExpression
    if nearest is None:
        made = AlwaysFalse()
    elif above is not None and below is not None and below.value == above.value:
        made = same(term=term, value=nearest)
    else:
        made = LessThanOrEqual(term=term, value=nearest) if is_less else GreaterThanOrEqual(term=term, value=nearest)
    return made if is_less or not isinstance(kind, FloatType | DoubleType) else Or(made, IsNaN(term=term))


def _one_of(predicate: SetPredicate, kind: IcebergType) -> BooleanExpression:
    if not predicate.literals:
        raise ValueError("IN needs a value")
    if is_number(kind):
        found = {_equal_value(v, kind) for v in predicate.literals}
    else:
        found = {value_of(v, kind) for v in predicate.literals}
    values = {v for v in found if v is not None}
    if values:
        return predicate.__class__(term=predicate.term, values=values)
    return AlwaysFalse() if isinstance(predicate, In) else NotNull(term=predicate.term)


def _equal_value(literal: Literal[Any], kind: IcebergType) -> Literal[Any] | None:
    """Return the literal as a value of the type, None if it is beyond all. Raises ValueError if it is between two."""
    below, above = neighbours(literal, kind)
    if below is None or above is None:
        return None
    if below.value != above.value:
        raise ValueError(f"{literal.value} is not a value of {kind}; next to it are {below.value} and {above.value}")
    return below
