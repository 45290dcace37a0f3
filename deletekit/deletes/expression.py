"""Compute values of rows from columns, literals, arithmetic, functions and CASE, over Arrow columns.

`filter_parser` reads them from text, `expression_functions` has what they call. A result that its type cannot hold is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg import expressions as ex
from pyiceberg import types as it
from pyiceberg.expressions import literals as li
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, bind, visit_bound_predicate
from pyiceberg.schema import Schema

from deletekit.deferred import pc
from deletekit.deletes.expression_functions import FUNCTIONS, Values
from deletekit.deletes.filter_literals import SelfChecked, exact_literals, read_text
from deletekit.errors import InvalidInputError
from deletekit.table.types import arrow_type, storage_of


class BadValueError(ValueError):
    """A value that cannot be computed; `at` is its place in the text."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value of each row. `at` is its place in the text."""

    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Value):
    """A column by its full name, and its field id once it is bound."""

    name: str
    field_id: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal(Value):
    """A literal, None for NULL, and its Arrow scalar once it is bound."""

    literal: li.Literal[Any] | None
    scalar: pa.Scalar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Value):
    """An operator or function of `FUNCTIONS` with its arguments; `option` is not a value of the row."""

    function: str
    arguments: tuple[Value, ...]
    option: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Value):
    """The value of the first test that is true; `values` has one more, for rows without such a test."""

    tests: tuple[ex.BooleanExpression, ...]
    values: tuple[Value, ...]


Mask = Callable[[ex.BooleanExpression], Values]
"""Returns for a bound test one boolean for each row; null is unknown."""


def bind_value(value: Value, schema: Schema) -> tuple[Value, pa.DataType]:
    """Return a value with field ids and Arrow literals, and its Arrow type.

    Raises BadValueError for a column that is not there and for types that do not go together.
    """
    if isinstance(value, Column):
        found = schema.find_field(value.name)
        if not found.field_type.is_primitive:
            raise BadValueError(f"column {value.name} is {found.field_type}, which cannot be computed with", value.at)
        return replace(value, field_id=found.field_id), _storage(arrow_type(found.field_type))
    if isinstance(value, Literal):
        scalar = _scalar(value.literal)
        return replace(value, scalar=scalar), scalar.type
    if isinstance(value, Case):
        tests = tuple(bind(schema, exact_literals(test, schema), case_sensitive=True) for test in value.tests)
        values, kinds = _bound_together(value.values, schema)
        bound: Call | Case = replace(value, tests=tests, values=values)
    else:
        assert isinstance(value, Call)
        # The unit of `date_trunc` is a text beside a time, and no time.
        apart = 1 if value.function == "date_trunc" else 0
        first = [bind_value(argument, schema) for argument in value.arguments[:apart]]
        arguments, kinds = _bound_together(value.arguments[apart:], schema)
        bound = replace(value, arguments=(*(v for v, _ in first), *arguments))
        kinds = [*(kind for _, kind in first), *kinds]
    return bound, _type_of(bound, kinds)


def compute(value: Value, column_of: Callable[[int], Any], mask: Mask) -> Values:
    """Return the values of a bound value: an Arrow array, or a scalar.

    Raises InvalidInputError for a result that its type cannot hold.
    """
    try:
        return _computed(value, column_of, mask)
    except pa.ArrowException as e:
        raise InvalidInputError("an expression cannot be computed", kind="expression", found=str(e)) from e


def read_as(value: Value, kind: pa.DataType, wanted: it.IcebergType) -> tuple[Value, pa.DataType]:
    """Return a text literal as a literal of a date or time type, with its Arrow type; other values as they are.

    Raises BadValueError for a text that is no such time.
    """
    target = arrow_type(wanted)
    text = value.literal if isinstance(value, Literal) else None
    if not isinstance(text, li.StringLiteral) or not pa.types.is_temporal(target):
        return value, kind
    made = read_text(text, wanted)
    if made is None:
        raise BadValueError(f"{text.value!r} is not a value of {wanted}", value.at)
    number = pa.scalar(made.value, pa.int32() if target.bit_width == 32 else pa.int64())
    return Literal(at=value.at, literal=text, scalar=number.cast(target)), target


def columns_of(value: Any) -> Iterator[Column]:
    """Yield the columns that a value, a filter, or a tuple of them reads; with field ids if it is bound."""
    match value:
        case Column():
            yield value
        case Computed() | BoundComputed():
            yield from columns_of(value.value)
        case ex.UnboundPredicate():
            yield Column(name=value.term.name)  # type: ignore[attr-defined]  # pyiceberg's only unbound term
        case ex.BoundPredicate():
            field = value.term.ref().field
            yield Column(name=field.name, field_id=field.field_id)
        case ex.And() | ex.Or():
            yield from columns_of((value.left, value.right))
        case ex.Not():
            yield from columns_of(value.child)
        case Call():
            yield from columns_of(value.arguments)
        case Case():
            yield from columns_of((*value.values, *value.tests))
        case tuple():
            for each in value:
                yield from columns_of(each)


# --- predicates -------------------------------------------------------------------------------------------------------


class Computed(SelfChecked):
    """A boolean value as a predicate. No statistics are known of it, so no file is left out by it."""

    value: Any

    def __init__(self, term: Any, value: Value) -> None:
        ex.UnboundPredicate.__init__(self, term, value=value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Computed) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]  # as every predicate of pyiceberg

    def __str__(self) -> str:
        return f"Computed(value={self.value})"

    __repr__ = __str__

    def __invert__(self) -> Computed:
        return Computed(self.term, Call(at=self.value.at, function="not", arguments=(self.value,)))

    def bind(self, schema: Schema, case_sensitive: bool = True) -> BoundComputed:
        value, kind = bind_value(self.value, schema)
        if not pa.types.is_boolean(kind):
            raise BadValueError(f"a value of type {kind} is not true or false", self.value.at)
        return BoundComputed(self.term.bind(schema, case_sensitive), value)

    @property
    def as_bound(self) -> type[BoundComputed]:
        return BoundComputed


class BoundComputed(ex.BoundPredicate):
    """`Computed` of columns."""

    value: Any

    def __init__(self, term: ex.BoundTerm, value: Value) -> None:
        super().__init__(term, value=value)

    def __invert__(self) -> BoundComputed:
        return BoundComputed(self.term, Call(function="not", arguments=(self.value,)))

    @property
    def as_unbound(self) -> type[Computed]:
        return Computed


@visit_bound_predicate.register(BoundComputed)
def _(_: BoundComputed, visitor: BoundBooleanExpressionVisitor[Any]) -> Any:
    return visitor.visit_true()


# --- types ------------------------------------------------------------------------------------------------------------

_CLOCKS = (it.DateType, it.TimeType, it.TimestampType, it.TimestamptzType, it.TimestampNanoType, it.TimestamptzNanoType)
_TIMES: dict[pa.DataType, it.IcebergType] = {arrow_type(kind()): kind() for kind in _CLOCKS}


def _bound_together(values: tuple[Value, ...], schema: Schema) -> tuple[tuple[Value, ...], list[pa.DataType]]:
    """Bind values that belong together: a text beside a time is read as such a time, and NULL has the others' type."""
    bound = [bind_value(value, schema) for value in values]
    known = next((kind for _, kind in bound if not pa.types.is_null(kind)), pa.null())
    bound = [
        (replace(v, scalar=pa.scalar(None, known)), known)
        if isinstance(v, Literal) and v.literal is None
        else (v, kind)
        for v, kind in bound
    ]
    times = [_TIMES[kind] for _, kind in bound if kind in _TIMES]
    if times:
        bound = [read_as(value, kind, times[0]) for value, kind in bound]
    _check_together([kind for _, kind in bound], values[0].at if values else 0)
    return tuple(value for value, _ in bound), [kind for _, kind in bound]


def _check_together(kinds: list[pa.DataType], at: int) -> None:
    """Refuse types that Arrow would take for each other: a uuid never equals the bytes of its text."""
    raw = any(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind) for kind in kinds)
    if raw and any(pa.types.is_string(kind) for kind in kinds):
        raise BadValueError("a text is not bytes or a uuid; write X'00ff'", at)
    if len({kind.tz is None for kind in kinds if pa.types.is_timestamp(kind)}) > 1:
        raise BadValueError("a time with a zone is not one without", at)


def _scalar(literal: li.Literal[Any] | None) -> pa.Scalar:
    if literal is None:
        return pa.scalar(None)
    value = literal.value
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
        value = Decimal(value)
    return pa.scalar(value)


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _type_of(value: Call | Case, kinds: list[pa.DataType]) -> pa.DataType:
    """Return the type of a call by computing it for no rows, so that types which do not fit are refused now."""
    parts = value.arguments if isinstance(value, Call) else value.values
    empty = [p.scalar if isinstance(p, Literal) else pa.nulls(0, k) for p, k in zip(parts, kinds, strict=True)]
    try:
        if isinstance(value, Case):
            return _chosen([pa.nulls(0, pa.bool_()) for _ in value.tests], empty).type
        return _call(value, empty).type
    except (pa.ArrowException, TypeError, ValueError) as e:
        name = f"{value.function} of " if isinstance(value, Call) else "CASE of "
        reason = "" if isinstance(e, pa.ArrowNotImplementedError) else f" ({e})"
        raise BadValueError(f"{name}{', '.join(map(str, kinds))} cannot be computed{reason}", value.at) from e


# --- values -----------------------------------------------------------------------------------------------------------


def _computed(value: Value, column_of: Callable[[int], Any], mask: Mask) -> Values:
    if isinstance(value, Column):
        return storage_of(column_of(value.field_id))
    if isinstance(value, Literal):
        return value.scalar
    if isinstance(value, Case):
        tests = [pc.fill_null(mask(test), False) for test in value.tests]
        return _chosen(tests, [_computed(v, column_of, mask) for v in value.values])
    assert isinstance(value, Call)
    return _call(value, [_computed(v, column_of, mask) for v in value.arguments])


def _call(call: Call, arguments: list[Values]) -> Values:
    function, counts = FUNCTIONS[call.function]
    if len(arguments) not in counts:
        raise TypeError(f"it takes {counts.start} to {counts.stop - 1} arguments")
    return function(*arguments) if call.option is None else function(*arguments, call.option)


def _chosen(tests: list[Values], values: list[Values]) -> Values:
    made = values[-1]
    for test, value in reversed(list(zip(tests, values, strict=False))):
        made = pc.if_else(test, value, made)
    return made
