"""Find the change rows of a batch that do not fit the table, so that the others can be applied without them.

What is wrong with the batch as a whole (a column too many, of another type, or missing) is refused as always.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.rows.input_rows import align, as_table
from deletekit.stream.change_rows import UNSENT_COLUMNS, ChangeFormat, read_changes
from deletekit.table.python_values import python_rows
from deletekit.text import json_ready

_T = TypeVar("_T")


def fitting_parts(
    make: Callable[[int, int], _T], refuse: Callable[[int, InvalidInputError], None], start: int, end: int
) -> Iterator[_T]:
    """Yield what `make` returns for parts of a batch that fit, in order. Halve a part until the one that does not fit.

    Parameters
    ----------
    make: takes the numbers of the first item and the one after the last; raises InvalidInputError if one does not fit.
    refuse: takes the number of such an item, and the error.
    """
    try:
        made = make(start, end)
    except InvalidInputError as e:
        error = e
    else:
        yield made
        return
    if end - start == 1:
        refuse(start, error)
        return
    middle = (start + end) // 2
    yield from fitting_parts(make, refuse, start, middle)
    yield from fitting_parts(make, refuse, middle, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfitRow:
    """A row that does not fit: its number in the batch, why, and the row as JSON."""

    number: int
    error: InvalidInputError
    row: str


def fitting_rows(
    rows: Any, schema: Schema, form: ChangeFormat, most: int, read: Callable[[Any], Any] = lambda rows: rows
) -> tuple[Any, tuple[UnfitRow, ...]]:
    """Return the rows of a batch that fit the table, and those that do not.

    Parameters
    ----------
    rows: as `read_changes` takes them.
    most: how many rows may be unfit.
    read: what they go through before, if they are a table.

    Raises InvalidInputError as `read_changes` for what is wrong with the whole batch, and of kind `dead-letters` for
    too many rows.
    """
    single = replace(form, ordered=True)  # whether the order of a key's changes is known is no question of one row
    held = rows if isinstance(rows, list) else as_table(rows, schema, "changes")

    def check(part: Any) -> None:
        read_changes(read(part), schema, single)

    try:
        check(held)
    except InvalidInputError as error:
        if isinstance(held, list):
            if not all(isinstance(row, Mapping) for row in held):
                raise
            held = _padded(held, schema, form)
        elif is_of_all_rows(read(held.slice(0, 0)), schema, form):
            raise
        unfit = _unfit(held, check, most, error)
        wrong = {row.number for row in unfit}
        right = [n for n in range(len(held)) if n not in wrong]
        return ([held[n] for n in right] if isinstance(held, list) else held.take(pa.array(right, pa.int64()))), unfit
    return held, ()


def too_many(message: str, most: int) -> InvalidInputError:
    """Return the error for a batch with more dead letters than a sink takes."""
    return InvalidInputError(message, kind="dead-letters", field="max_dead_letters", expected=f"at most {most}")


def json_text(row: Any) -> str:
    """Return a row as JSON text. Bytes are base64, and what JSON has no values for is text."""
    return json.dumps(json_ready(row), ensure_ascii=False)


def _unfit(rows: Any, check: Callable[[Any], None], most: int, first: InvalidInputError) -> tuple[UnfitRow, ...]:
    is_list, found = isinstance(rows, list), list[UnfitRow]()

    def part(start: int, end: int) -> Any:
        return rows[start:end] if is_list else rows.slice(start, end - start)

    def refuse(number: int, error: InvalidInputError) -> None:
        if len(found) == most:
            raise too_many(f"more rows than {most} do not fit the table; the first: {first}", most) from error
        row = part(number, number + 1)
        row = row[0] if is_list else python_rows(row)[0]
        found.append(UnfitRow(number=number, error=error, row=json_text(row)))

    for _ in fitting_parts(lambda start, end: check(part(start, end)), refuse, 0, len(rows)):
        pass
    return tuple(found)


def _padded(rows: Sequence[Mapping[str, Any]], schema: Schema, form: ChangeFormat) -> list[dict[str, Any]]:
    """Return dicts that all name the same columns of the table, as they do when they are read together."""
    named = {name for row in rows for name in row}
    defaults = {f.name: f.write_default for f in schema.fields if f.name in named}
    defaults |= dict.fromkeys(n for n in (form.change_type, form.order) if n in named and n is not None)
    return [{**defaults, **row} for row in rows]


def is_of_all_rows(table: pa.Table, schema: Schema, form: ChangeFormat) -> bool:
    """Return whether a table cannot be read because of its columns, whatever its rows."""
    needed = {f.name for f in form.fields if "." not in f.name}
    needed |= {n for n in (form.change_type, form.order) if n is not None}
    needed |= {f.name for f in schema.fields if f.required and f.write_default is None}
    if not needed <= set(table.column_names):
        return True
    others = [
        n
        for n in (form.change_type, form.order, *UNSENT_COLUMNS)
        if n in table.column_names and n not in schema.column_names
    ]
    nothing = {f.name: pa.nulls(0) for f in schema.fields}
    nothing |= {f.name: pa.array([], f.type) for f in table.schema if f.name not in others}
    try:
        align(pa.table(nothing), schema)
    except InvalidInputError:
        return True
    types = None if form.change_type is None else table.schema.field(form.change_type).type
    if types is None:
        return False
    if pa.types.is_dictionary(types):
        types = types.value_type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return not any(is_text(types) for is_text in texts)
