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
from deletekit.errors import InvalidInputError
from deletekit.filters.functions import FUNCTIONS, Values, as_spark_does
from deletekit.filters.levels import LEVELS
from deletekit.filters.literals import SelfChecked, TimeText, exact_literals, read_text
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
        return replace(value, field_id=found.field_id), arrow_type(found.field_type)
    if isinstance(value, Literal):
        scalar = _scalar(value)
        return replace(value, scalar=scalar), scalar.type
    if isinstance(value, Case):
        tests = tuple(bind(schema, exact_literals(t, schema, self_checks=False), True) for t in value.tests)
        values, kinds = _bound_together(value.values, schema)
        bound: Call | Case = replace(value, tests=tests, values=values)
    else:
        assert isinstance(value, Call)
        # The unit of `date_trunc` is a text beside a time, and no time.
        apart = 1 if value.function == "date_trunc" else 0
        first = [bind_value(argument, schema) for argument in value.arguments[:apart]]
        as_times = value.function not in ("greatest", "least")  # in Spark no text becomes a time there
        arguments, kinds = _bound_together(value.arguments[apart:], schema, as_times)
        bound = replace(value, arguments=(*(v for v, _ in first), *arguments))
        kinds = [*(kind for _, kind in first), *kinds]
        bound, kinds = _with_a_set(bound, kinds)
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
    """Return a text literal as a literal of a date, time or uuid type, with its Arrow type; other values as they are.

    Raises BadValueError for a text that is no such value.
    """
    target = _storage(arrow_type(wanted))
    text = value.literal if isinstance(value, Literal) else None
    is_uuid = isinstance(wanted, it.UUIDType)
    if not isinstance(text, li.StringLiteral) or not (is_uuid or pa.types.is_temporal(target)):
        return value, kind
    made = read_text(text, wanted)
    if made is None:
        raise BadValueError(f"{text.value!r} is not a value of {wanted}", value.at)
    raw = target if is_uuid else pa.int32() if target.bit_width == 32 else pa.int64()
    return Literal(at=value.at, literal=text, scalar=pa.scalar(made.value, raw).cast(target)), target


def columns_of(value: Any) -> Iterator[Column]:
    """Yield the columns that a value, a filter, or a tuple of them reads; with field ids if it is bound."""
    todo = [value]
    while todo:
        match todo.pop():
            case Column() as column:
                yield column
            case ex.UnboundPredicate() as test if not isinstance(test, Computed):
                yield Column(name=test.term.name)  # type: ignore[attr-defined]  # pyiceberg's only unbound term
            case ex.BoundPredicate() as test if not isinstance(test, BoundComputed):
                field = test.term.ref().field
                yield Column(name=field.name, field_id=field.field_id)
            case other:
                todo += reversed(_parts(other))


def has_too_many_levels(value: Any) -> bool:
    """Tell whether a value or filter has more than `LEVELS` operators, functions and tests in each other."""
    todo = [(value, 1)]
    while todo:
        one, level = todo.pop()
        if level > LEVELS:
            return True
        todo += [(part, level + 1) for part in _parts(one)]
    return False


def calls_or_quotes(value: Any) -> bool:
    """Tell whether a value calls a function, or has a CASE, a text in quotes or NULL."""
    todo = [value]
    while todo:
        match todo.pop():
            case Case() | Literal(literal=None | li.StringLiteral()):
                return True
            case Call(function=name) if name.isidentifier() and name not in ("negative", "positive"):
                return True
            case other:
                todo += _parts(other)
    return False


def _parts(value: Any) -> tuple[Any, ...]:
    match value:
        case tuple():
            return value
        case ex.And() | ex.Or():
            return value.left, value.right
        case ex.Not():
            return (value.child,)
        case Computed() | BoundComputed():
            return (value.value,)
        case Call():
            return value.arguments
        case Case():
            return (*value.values, *value.tests)
    return ()


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

_OF_EVERY_TYPE = {"=", "!=", "<", "<=", ">", ">=", "in", "is null", "coalesce", "nullif", "greatest", "least"}
_CLOCKS = (it.DateType, it.TimeType, it.TimestampType, it.TimestamptzType, it.TimestampNanoType, it.TimestamptzNanoType)
_TIMES: dict[pa.DataType, it.IcebergType] = {arrow_type(kind()): kind() for kind in _CLOCKS}


def _bound_together(
    values: tuple[Value, ...], schema: Schema, as_times: bool = True
) -> tuple[tuple[Value, ...], list[pa.DataType]]:
    """Bind values that belong together: a text beside a time is read as such a time, and NULL has the others' type."""
    bound = [bind_value(value, schema) for value in values]
    known = next((kind for _, kind in bound if not pa.types.is_null(kind)), pa.null())
    bound = [
        (replace(v, scalar=pa.scalar(None, known)), known)
        if isinstance(v, Literal) and v.literal is None
        else (v, kind)
        for v, kind in bound
    ]
    times = [_TIMES[kind] for v, kind in sorted(bound, key=lambda b: isinstance(b[0], Literal)) if kind in _TIMES]
    if times and as_times:
        bound = [read_as(value, kind, times[0]) for value, kind in bound]
    _check_together([kind for _, kind in bound], values[0].at if values else 0)
    return tuple(value for value, _ in bound), [kind for _, kind in bound]


def _with_a_set(call: Call, kinds: list[pa.DataType]) -> tuple[Call, list[pa.DataType]]:
    """Return IN of many literals of the value's type as one look-up; floats have their own equality."""
    choices = call.arguments[1:]
    sorts = {"integer" if pa.types.is_integer(kind) else str(kind) for kind in kinds}
    alike = len(set(kinds[1:])) == len(sorts) == 1 and not pa.types.is_floating(kinds[0])
    if call.function != "in" or not alike or not all(isinstance(choice, Literal) for choice in choices):
        return call, kinds
    values = pa.array([choice.scalar.as_py() for choice in choices], kinds[1])  # type: ignore[attr-defined]
    return replace(call, function="in set", arguments=call.arguments[:1], option=values), kinds[:1]


def _check_together(kinds: list[pa.DataType], at: int) -> None:
    """Refuse types that Arrow would take for each other: a uuid never equals the bytes of its text."""
    sorts = {_sort(kind) for kind in kinds} - {"null"}
    if "uuid" in sorts and len(sorts) > 1:
        raise BadValueError("a uuid goes together with uuids only", at)
    if {"text", "bytes"} <= sorts:
        raise BadValueError("a text is not bytes; write X'00ff'", at)
    if "text" in sorts and "time" in sorts:
        raise BadValueError("a text is not a time; write CAST(... AS date) or CAST(... AS timestamp)", at)
    if len({kind.tz is None for kind in kinds if pa.types.is_timestamp(kind)}) > 1:
        raise BadValueError("a time with a zone is not one without", at)


def _sort(kind: pa.DataType) -> str:
    if isinstance(kind, pa.BaseExtensionType):
        return "uuid"
    if pa.types.is_string(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "bytes"
    return "time" if kind in _TIMES else str(kind)


def _scalar(value: Literal) -> pa.Scalar:
    literal = value.literal
    if literal is None:
        return pa.scalar(None)
    if isinstance(literal, TimeText):
        own = literal.own_type()
        assert own is not None  # the parser asked
        bound, _ = read_as(value, pa.string(), own)
        assert isinstance(bound, Literal)
        return bound.scalar
    raw = literal.value
    if isinstance(raw, int) and not isinstance(raw, bool) and not -(1 << 63) <= raw < 1 << 63:
        raw = Decimal(raw)
    return pa.scalar(raw)


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _type_of(value: Call | Case, kinds: list[pa.DataType]) -> pa.DataType:
    """Return the type of a call by computing it for no rows, so that types which do not fit are refused now."""
    parts = value.arguments if isinstance(value, Call) else value.values
    uuids = any(isinstance(kind, pa.BaseExtensionType) for kind in kinds)
    empty = [
        p.scalar if isinstance(p, Literal) else pa.nulls(0, _storage(k)) for p, k in zip(parts, kinds, strict=True)
    ]
    try:
        if isinstance(value, Case):
            made = _chosen([pa.nulls(0, pa.bool_()) for _ in value.tests], empty).type
        else:
            if uuids and value.function not in _OF_EVERY_TYPE:
                raise TypeError("a uuid can only be compared")
            made = _call(value, empty).type
        return next(k for k in kinds if not pa.types.is_null(k)) if uuids and not pa.types.is_boolean(made) else made
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
    arguments = as_spark_does(arguments, call.function)
    return function(*arguments) if call.option is None else function(*arguments, call.option)


def _chosen(tests: list[Values], values: list[Values]) -> Values:
    *values, made = as_spark_does(values)
    for test, value in reversed(list(zip(tests, values, strict=False))):
        made = pc.if_else(test, value, made)
    return made
