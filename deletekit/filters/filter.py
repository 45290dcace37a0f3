"""Evaluate row filters (pyiceberg expressions over Arrow columns, with SQL's three-valued logic), and keep rows.

A comparison with NULL is unknown, and so is NOT of unknown. A row is selected only if the filter is true, so
`x NOT IN (1)` selects no NULL rows. NaN is above every number, as in Spark, and only `is nan` asks for it. -0.0 equals
0.0. Each literal is exact: see `filters/literals`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg import expressions as ex
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, StructType

from deletekit.deferred import Deferred, pc
from deletekit.errors import InvalidInputError
from deletekit.filters.tokens import bad_filter
from deletekit.rows.keys import without_negative_zero
from deletekit.table.types import arrow_type, storage_of

if TYPE_CHECKING:
    import polars as pl
    from pyiceberg.expressions import visitors

    from deletekit.filters import expression
    from deletekit.filters import functions as expression_functions
    from deletekit.filters import literals as filter_literals
    from deletekit.filters import parser as filter_parser
else:
    pl, visitors = Deferred("polars"), Deferred("pyiceberg.expressions.visitors")
    # A scan without a filter needs none of these.
    expression, expression_functions, filter_literals, filter_parser = (
        Deferred(f"deletekit.filters.{name}") for name in ("expression", "functions", "literals", "parser")
    )

Filter = str | BooleanExpression | None
ColumnOf = Callable[[int], Any]
NameColumn = Callable[[str], object]

_A_CALL = re.compile(r"\s*[^\W\d]\w*\(.*\)\s*", re.DOTALL)
_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_CACHED_ROWS = 65_536  # so few that a block stays in the processor's cache
_TESTS: dict[type[ex.BoundPredicate], str] = {
    ex.BoundEqualTo: "equal",
    ex.BoundNotEqualTo: "not_equal",
    ex.BoundLessThan: "less",
    ex.BoundLessThanOrEqual: "less_equal",
    ex.BoundGreaterThan: "greater",
    ex.BoundGreaterThanOrEqual: "greater_equal",
}


def parse_filter(where: Filter, schema: Schema) -> BooleanExpression:
    """Return a filter bound to `schema`, with NOT pushed down to the predicates.

    Parameters
    ----------
    where: a pyiceberg expression, text (see `filters/parser`), or None for every row.

    Raises InvalidInputError, naming the filter, for text that does not parse, an unknown column, or a literal that
    does not fit the column's type.
    """
    return bound_filter(unbound_filter(where, schema), schema)


def unbound_filter(where: Filter, schema: Schema) -> BooleanExpression | None:
    """Return the unbound filter that `parse_filter` binds, for pyiceberg's projections. Raises as `parse_filter`."""
    return None if where is None else _exact(where, nullable(schema))


def bound_filter(unbound: BooleanExpression | None, schema: Schema) -> BooleanExpression:
    """Return what `parse_filter` returns, of what `unbound_filter` returns."""
    if unbound is None or isinstance(unbound, ex.AlwaysTrue | ex.AlwaysFalse):
        return unbound or ex.AlwaysTrue()
    kept, wanted = unbound.__dict__, nullable(schema)
    if "_bound" not in kept or kept["_bound"][0] != wanted:  # the plan of a scan asks again, and a list may be long
        kept["_bound"] = wanted, visitors.bind(wanted, unbound, case_sensitive=True)
    made: BooleanExpression = kept["_bound"][1]
    return made


def nullable(schema: Schema) -> Schema:
    """Return the schema to bind filters to: in a NULL struct a required field is NULL, which pyiceberg rules out."""
    fields = (f.model_copy(update={"field_type": _nullable(f.field_type)}) for f in schema.fields)
    return Schema(*fields, schema_id=schema.schema_id)


def _nullable(kind: IcebergType) -> IcebergType:
    if not isinstance(kind, StructType):
        return kind
    fields = ((f, {"required": False, "field_type": _nullable(f.field_type)}) for f in kind.fields)
    return StructType(*(f.model_copy(update=update) for f, update in fields))


def parse_test(text: str, schema: Schema, column: NameColumn, field: str) -> BooleanExpression:
    """Return a condition bound to `schema`, as `parse_filter`.

    Parameters
    ----------
    column: returns the full name of a column that the text names; its InvalidInputError is shown with the place.
    field: the argument that has the text, for errors.
    """
    return bound_filter(_exact(text, nullable(schema), column, field), schema)


def parse_value(
    text: str, schema: Schema, column: NameColumn, field: str, wanted: IcebergType
) -> tuple[expression.Value, pa.DataType]:
    """Return a value bound to `schema`, and its Arrow type.

    Parameters
    ----------
    column, field: as in `parse_test`.
    wanted: the type of the column that the value is for: a text alone is read as a date or time of it.

    Raises InvalidInputError for text that does not parse, an unknown column, or types that do not go together.
    """
    parser = None
    try:
        parser = filter_parser.Parser(text, column, field)
        value = parser.value()
        if isinstance(value, expression.Column):  # which may be a struct or list
            found = schema.find_field(value.name)
            return replace(value, field_id=found.field_id), arrow_type(found.field_type)
        return expression.read_as(*expression.bind_value(value, nullable(schema)), wanted)
    except InvalidInputError:
        raise
    except Exception as e:
        raise _refused(e, parser, text, schema) from e


def reads_as_expression(text: str, schema: Schema) -> bool:
    """Tell whether a text that is given as a value may be meant as an expression.

    It is one if it reads a column of the schema, which may be that of a merge's sides, calls a function, or has a text
    in quotes or NULL.
    """
    if _A_CALL.fullmatch(text):
        return True
    try:
        value = filter_parser.Parser(text, str).value()
    except InvalidInputError:
        return False
    known = {_without_side(name) for name in schema.column_names}
    read = [column.name for column in expression.columns_of(value)]
    reads = any(name in known or name != _without_side(name) for name in read)
    return reads or expression.calls_or_quotes(value)


def _without_side(name: str) -> str:
    return name.removeprefix("target.").removeprefix("source.")


def _exact(
    where: str | BooleanExpression, schema: Schema, column: NameColumn | None = None, field: str = "where"
) -> BooleanExpression:
    parser = None
    try:
        if isinstance(where, str):
            parser = filter_parser.Parser(where, column or (lambda n: filter_literals.column_named(n, schema)), field)
        test = where if parser is None else parser.filter()
        if not isinstance(test, BooleanExpression):
            raise TypeError(f"not a filter: {type(test).__name__}")
        return filter_literals.exact_literals(test, schema)
    except InvalidInputError:
        raise
    except Exception as e:  # pydantic and pyiceberg each raise their own
        raise _refused(e, parser, _shown(where), schema) from e


def _shown(where: object) -> str:
    try:
        return str(where)
    except RecursionError:
        return type(where).__name__


def _refused(problem: Exception, parser: filter_parser.Parser | None, text: str, schema: Schema) -> InvalidInputError:
    """Return the error for a filter or value that was read but means nothing, with its place if that is known."""
    if isinstance(problem, RecursionError):  # Python's stack was nearly full before
        return bad_filter("bad filter: more levels in each other than Python can visit from here", text[:200])
    kind, sentence = "" if isinstance(problem, ValueError) else f"{type(problem).__name__}: ", str(problem)
    message = kind + " ".join(sentence.split())
    at = getattr(problem, "at", None)
    for test, place in parser.places if parser is not None and at is None else ():
        try:
            filter_literals.exact_literals(test, nullable(schema))
        except ValueError as e:
            at = getattr(e, "at", place)
            break
    if parser is None or at is None:
        return bad_filter(f"bad filter: {message}", text)
    return parser.pictured(at, message, text)


def filter_field_ids(bound: BooleanExpression) -> set[int]:
    """Return the ids of the columns that a filter reads."""
    return set() if isinstance(bound, ex.AlwaysTrue) else {c.field_id for c in expression.columns_of(bound)}


def evaluate(bound: BooleanExpression, column_of: ColumnOf, rows: int) -> pa.BooleanArray:
    """Return one boolean per row, never null: True where `bound` is true.

    Parameters
    ----------
    bound: from `parse_filter`.
    column_of: returns the column of a field id, `rows` long.
    """
    mask = _mask(bound, column_of)
    if isinstance(mask, pa.Scalar):
        return pa.array(np.full(rows, bool(mask.as_py())))
    return pc.fill_null(mask, False)


def computed(value: expression.Value, column_of: ColumnOf) -> Any:
    """Return the values of a bound value, an Arrow array or a scalar. Raises as `expression.compute`."""
    return expression.compute(value, column_of, lambda test: _mask(test, column_of))


def keep_rows(columns: Sequence[Any], keep: pa.BooleanArray) -> list[Any]:
    """Return the rows of each column for which `keep` is True. `keep` has no nulls.

    Fixed-width columns go through polars' filter, which is about four times as fast as Arrow's and shares the buffers
    that it reads. All others go through Arrow's, which need not convert them; so do few rows, until polars is imported.
    """
    if len(keep) <= _CACHED_ROWS and "polars" not in sys.modules:
        return [c.filter(keep) for c in columns]
    mask, rows = pl.Series(keep), keep.true_count
    return [_filtered(c, mask, rows) if _is_fixed(c) else c.filter(keep) for c in columns]


def _mask(bound: BooleanExpression, column_of: ColumnOf) -> Any:
    """Return a boolean Arrow array, or a scalar, in which null means unknown."""
    if isinstance(bound, ex.AlwaysTrue | ex.AlwaysFalse):
        return pa.scalar(isinstance(bound, ex.AlwaysTrue))
    if isinstance(bound, ex.And | ex.Or):
        combine = pc.and_kleene if isinstance(bound, ex.And) else pc.or_kleene
        return combine(_mask(bound.left, column_of), _mask(bound.right, column_of))
    if isinstance(bound, expression.BoundComputed):
        return computed(bound.value, column_of)
    assert isinstance(bound, ex.BoundPredicate)  # NOT is pushed down
    column = storage_of(column_of(bound.term.ref().field.field_id))
    match bound:
        case ex.BoundStartsWith() | ex.BoundNotStartsWith():
            made = pc.starts_with(column, pattern=bound.literal.value)
        case ex.BoundIsNull() | ex.BoundNotNull():
            made = pc.is_null(column)
        case ex.BoundIsNaN() | ex.BoundNotNaN():
            made = pc.fill_null(pc.is_nan(column), False)
        case ex.BoundSetPredicate():
            made = expression_functions.is_in(without_negative_zero(column), _choices(bound, column.type))
        case _:
            value = pa.scalar(_storable(bound.literal.value), column.type)  # type: ignore[attr-defined]
            return getattr(pc, _TESTS[type(bound)])(column, value)
    negated = ex.BoundNotStartsWith | ex.BoundNotNull | ex.BoundNotNaN | ex.BoundNotIn
    return pc.invert(made) if isinstance(bound, negated) else made


def _choices(bound: ex.BoundSetPredicate, kind: pa.DataType) -> pa.Array:
    """Return the values of IN, which are made once: a list may be very long, and there are many row groups."""
    kept = bound.__dict__  # as pyiceberg keeps `value_set`
    if "_choices" not in kept:
        kept["_choices"] = without_negative_zero(pa.array([_storable(v) for v in bound.value_set], type=kind))
    return kept["_choices"]


def _storable(value: Any) -> Any:
    return value.bytes if hasattr(value, "bytes") else value  # uuids


def _filtered(column: Any, mask: pl.Series, rows: int) -> pa.Array:
    flat = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_boolean(flat.type):
        return pl.Series(flat).filter(mask).to_arrow()
    kind = _INTEGERS[flat.type.bit_width]
    numbers = pl.Series(pa.Array.from_buffers(kind, len(flat), [None, flat.buffers()[1]], offset=flat.offset))
    made, done = pa.allocate_buffer(rows * kind.bit_width // 8), 0  # Arrow's memory, which the next batch takes again
    values = np.frombuffer(made, f"i{kind.bit_width // 8}")
    for at in range(0, len(flat), _CACHED_ROWS):
        kept = numbers.slice(at, _CACHED_ROWS).filter(mask.slice(at, _CACHED_ROWS)).to_numpy()
        values[done : done + len(kept)] = kept
        done += len(kept)
    valid = [_filtered(flat.is_valid(), mask, rows)] if flat.null_count else []  # whose bits may begin in a byte
    nulls = pa.concat_arrays(valid).buffers()[1] if valid else None
    return pa.Array.from_buffers(flat.type, rows, [nulls, made])


def _is_fixed(column: Any) -> bool:
    kind = column.type
    if isinstance(column, pa.ChunkedArray) and column.num_chunks != 1:
        return False
    return pa.types.is_boolean(kind) or (pa.types.is_primitive(kind) and kind.bit_width in _INTEGERS)
