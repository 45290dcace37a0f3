"""What a row verb assigns to columns: values, and expressions that are computed of each row."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from deletekit.errors import InvalidInputError
from deletekit.filters.expression import Literal, Value
from deletekit.filters.filter import NameColumn, computed, parse_value, reads_as_expression
from deletekit.rows.input_rows import as_constant, cast_column
from deletekit.table.column_names import unknown_column


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression to compute for each row; made by `expr`."""

    text: str


def expr(text: str) -> Expression:
    """Return an expression for the assignments of `update` and of a merge's `Clause`, which compute it for each row.

    Parameters
    ----------
    text: an expression in the language of filters, such as `"upper(name)"` or `"value * 2"`. A text in it has single
        quotes, and a quote in that is doubled: `"'O''Neil'"`. In a `Clause`, a column that both sides have needs
        `source.` or `target.` before it.

    The verb that takes it raises InvalidInputError, with the place in the text, for what cannot be read and for an
    unknown column.

    Examples
    --------
    >>> commit = dk.update(users, {"value": dk.expr("value * 2")}, where="id = 2")
    >>> dk.scan(users, "id = 2", columns="value").to_arrow().to_pylist()
    [{'value': 400.0}]
    """
    return Expression(text)


def check_assigned(names: Iterable[str], target: Schema) -> dict[str, NestedField]:
    """Return the columns of the table by name. Raises InvalidInputError for a name that is none of them."""
    fields = {f.name: f for f in target.fields}
    for name in names:
        if name not in fields:
            raise unknown_column(name, list(fields), "no such column to assign")
    return fields


def bind_assignments(
    given: Mapping[str, Any], target: Schema, readable: Schema, column: NameColumn, argument: str = "assignments"
) -> dict[str, Value | pa.Scalar]:
    """Return what is assigned as bound expressions and Arrow scalars.

    Parameters
    ----------
    readable, column: the columns that expressions read, and what finds one by its name; see `parse_value`.
    argument: the verb's, for errors.

    Raises InvalidInputError for an unknown column, for what cannot be read or does not fit, and for a plain text that
    reads as an expression.
    """
    fields = check_assigned(given, target)

    def bound(value: Any, wanted: NestedField) -> Value | pa.Scalar:
        if isinstance(value, Expression):
            made, kind = parse_value(value.text, readable, column, argument, wanted.field_type)
            sample = pa.array([made.scalar], kind) if isinstance(made, Literal) else pa.nulls(0, kind)
            cast_column(pa.chunked_array([sample]), wanted)  # refuses what never fits
            return made
        if isinstance(value, str) and reads_as_expression(value, readable):
            raise _unclear(value, wanted)
        return as_constant(value, wanted)

    return {name: bound(value, fields[name]) for name, value in given.items()}


def _unclear(text: str, wanted: NestedField) -> InvalidInputError:
    ways = f"dk.expr({text!r}) to compute it"
    if isinstance(wanted.field_type, StringType):
        quoted = "'" + text.replace("'", "''") + "'"
        ways += f", dk.expr({quoted!r}) to store the text"
    message = "a text is a value, and this one reads as an expression"
    return InvalidInputError(message, "assignments", wanted.name, text, ways)


def assigned_columns(
    values: Mapping[str, Value | pa.Scalar], rows: int, column_of: Callable[[int], Any]
) -> dict[str, Any]:
    """Return the columns that bound assignments make; `column_of` returns the column of a field id."""
    made = {}
    for name, value in values.items():
        column = value if isinstance(value, pa.Scalar) else computed(value, column_of)
        made[name] = pa.repeat(column, rows) if isinstance(column, pa.Scalar) else column
    return made
