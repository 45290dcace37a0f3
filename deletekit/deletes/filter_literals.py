"""Literals of a filter made to fit their columns exactly, or refused.

Law: never rounds. pyiceberg turns `id = 1.5` of an integer column into `id = 1`, and a delete of that would take the
wrong row; here it is an error that names both. Of a number beyond the column's range it makes a filter that is true or
false for NULL too; here it becomes a comparison with the outermost value, so that NULL stays unknown.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
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
        term = predicate.term
        kind = self._schema.find_field(term.name).field_type
        if isinstance(predicate, LiteralPredicate):
            value = _fitted(predicate.literal, kind)
            beyond = _beyond(value, kind)
            return _outermost(predicate, beyond, kind) if beyond else predicate.__class__(term, value)
        if isinstance(predicate, SetPredicate):
            fitted = {_fitted(v, kind) for v in predicate.literals}
            values = {v for v in fitted if not _beyond(v, kind)}
            if fitted and not values:
                one: Any = EqualTo if isinstance(predicate, In) else NotEqualTo
                return _outermost(one(term, next(iter(fitted))), 1, kind)
            return predicate.__class__(term, values)
        return predicate


def _beyond(value: Literal[Any], kind: IcebergType) -> int:
    """1 for a number above all values of the type, -1 for one below, else 0."""
    raw = value.value
    if isinstance(kind, _WHOLE) and isinstance(raw, int):
        return (raw > _largest(kind)) - (raw < -_largest(kind) - 1)
    if isinstance(kind, FloatType) and isinstance(raw, float) and math.isfinite(raw):
        return (raw > _LARGEST_FLOAT) - (raw < -_LARGEST_FLOAT)
    return 0


def _outermost(predicate: LiteralPredicate, side: int, kind: IcebergType) -> BooleanExpression:
    """A comparison with a number beyond the range, as one that says the same of every value, and nothing of NULL.

    Raises ValueError for what asks whether a float equals such a number: no comparison is false for NaN, and not its
    opposite.
    """
    is_less = isinstance(predicate, LessThan | LessThanOrEqual)
    comparison: Any
    outermost: Any
    if isinstance(kind, FloatType):
        if isinstance(predicate, EqualTo | NotEqualTo):
            raise ValueError(f"{predicate.literal.value} is not a value of {kind}")  # noqa: TRY004  # as all others here
        above, below = (LessThan, GreaterThanOrEqual), (LessThanOrEqual, GreaterThan)
        comparison = (above if side > 0 else below)[not is_less]
        outermost = FloatLiteral(math.copysign(math.inf, side))
    elif side > 0:
        comparison = LessThanOrEqual if is_less or isinstance(predicate, NotEqualTo) else GreaterThan
        outermost = _largest(kind)
    else:
        comparison = LessThan if is_less or isinstance(predicate, EqualTo) else GreaterThanOrEqual
        outermost = -_largest(kind) - 1
    made: BooleanExpression = comparison(predicate.term, outermost)
    return made


def _largest(kind: IcebergType) -> int:
    bits = 31 if isinstance(kind, IntegerType) else 63
    return (1 << bits) - 1


def _fitted(value: Literal[Any], kind: IcebergType) -> Literal[Any]:
    raw = value.value
    if isinstance(raw, bool):
        return value
    if isinstance(kind, _WHOLE) and isinstance(raw, int | float | Decimal | str):
        return literal(_whole(raw, kind))
    if isinstance(kind, _TEMPORAL) and isinstance(raw, float | Decimal):
        raise ValueError(f"{raw} is not a value of {kind}")  # noqa: TRY004  # one error for what does not fit
    if isinstance(kind, FloatType) and isinstance(raw, int | float | Decimal | str):
        number = float(_number(raw, kind))
        # pyiceberg takes an infinity for too large a number, and cannot make a FloatLiteral of one that is.
        return literal(number) if math.isfinite(number) and abs(number) > _LARGEST_FLOAT else FloatLiteral(number)
    if isinstance(kind, DecimalType) and isinstance(raw, int | float | Decimal | str):
        return literal(_scaled(raw, kind))
    return value


def _whole(raw: float | Decimal | str, kind: IcebergType) -> int:
    number = _number(raw, kind)
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError(f"{raw} is not a value of {kind}")
    return int(number)


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
