"""Literals of a filter made to fit their columns exactly, or refused.

Law: never rounds. pyiceberg turns `id = 1.5` of an integer column into `id = 1`, and `id < 3000000000` of an int one
into a filter that is true for NULL too; a delete of that would take wrong rows. Here it is an error that names both.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    BooleanExpression,
    LiteralPredicate,
    Reference,
    SetPredicate,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import FloatLiteral, Literal, literal
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, visit
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

__all__ = ["exact_literals"]

_WHOLE = (IntegerType, LongType)
_LARGEST_FLOAT = 3.4028234663852886e38
_TEMPORAL = (DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


def exact_literals(expression: BooleanExpression, schema: Schema) -> BooleanExpression:
    """The same unbound expression with each literal of its column's scale.

    Raises ValueError, naming literal and type, for a literal the type cannot hold exactly or an unknown column.
    """
    return visit(expression, _Exact(schema))


class _Exact(BooleanExpressionVisitor[BooleanExpression]):
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        return ~child_result

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return left_result & right_result

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return left_result | right_result

    def visit_bound_predicate(self, predicate: Any) -> BooleanExpression:
        raise TypeError(f"filter is bound already: {predicate}")

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        assert isinstance(predicate.term, Reference)  # pyiceberg's only unbound term
        kind = self._schema.find_field(predicate.term.name).field_type
        if isinstance(predicate, LiteralPredicate):
            return predicate.__class__(predicate.term, _fitted(predicate.literal, kind))
        if isinstance(predicate, SetPredicate):
            return predicate.__class__(predicate.term, {_fitted(v, kind) for v in predicate.literals})
        return predicate


def _fitted(value: Literal[Any], kind: IcebergType) -> Literal[Any]:
    raw = value.value
    if isinstance(raw, bool):
        return value
    if isinstance(kind, _WHOLE) and isinstance(raw, int | float | Decimal | str):
        return literal(_whole(raw, kind))
    if isinstance(kind, _TEMPORAL) and isinstance(raw, float | Decimal):
        raise ValueError(f"{raw} is not a value of {kind}")  # noqa: TRY004  # one error for what does not fit
    if isinstance(kind, FloatType) and isinstance(raw, int | float | Decimal | str):
        return FloatLiteral(_single(raw, kind))
    if isinstance(kind, DecimalType) and isinstance(raw, int | float | Decimal | str):
        return literal(_scaled(raw, kind))
    return value


def _whole(raw: float | Decimal | str, kind: IcebergType) -> int:
    number = _number(raw, kind)
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError(f"{raw} is not a value of {kind}")
    largest = 2 ** (31 if isinstance(kind, IntegerType) else 63) - 1
    if not -largest - 1 <= number <= largest:
        raise ValueError(f"{raw} is not a value of {kind}")
    return int(number)


def _single(raw: float | Decimal | str, kind: IcebergType) -> float:
    """A number, or an infinity, which pyiceberg would take for one that is too large for a float."""
    number = float(_number(raw, kind))
    if math.isfinite(number) and abs(number) > _LARGEST_FLOAT:
        raise ValueError(f"{raw} is not a value of {kind}")
    return number


def _scaled(raw: float | Decimal | str, kind: DecimalType) -> Decimal:
    number = _number(raw, kind)
    try:
        scaled = number.quantize(Decimal(1).scaleb(-kind.scale))
    except InvalidOperation as e:
        raise ValueError(f"{raw} is not a value of {kind}") from e
    if scaled != number or len(scaled.as_tuple().digits) > kind.precision:
        raise ValueError(f"{raw} is not a value of {kind}")
    return scaled


def _number(raw: float | Decimal | str, kind: IcebergType) -> Decimal:
    try:
        return Decimal(str(raw)) if isinstance(raw, float) else Decimal(raw)
    except InvalidOperation as e:
        raise ValueError(f"{raw!r} is not a value of {kind}") from e
