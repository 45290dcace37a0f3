"""Read which values of change rows were not sent, because they did not change (`_unchanged`, `_key_before`).

The row before the change has them: an earlier row of the batch, or the row that is stored (`stored_values.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.deletes.keys import KeyNumbers
from deletekit.errors import InvalidInputError
from deletekit.stream.sources.messages import KEY_BEFORE, UNCHANGED
from deletekit.verbs.shared.equality_keys import key_column

UNSENT_COLUMNS = (UNCHANGED, KEY_BEFORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """The values of a batch that were not sent.

    Attributes
    ----------
    names: by the number of a row, the columns whose values it takes from the row before it.
    before: by the number of a row, the number of the key that the row before it has; -1 if no change has that key.
    """

    names: Mapping[int, tuple[str, ...]]
    before: Mapping[int, int]

    @property
    def columns(self) -> frozenset[str]:
        """All columns with a value that was not sent."""
        return frozenset[str]().union(*self.names.values())

    def optional(self, schema: Schema) -> Schema:
        """Return a schema in which these columns may be null."""
        fields = [f.model_copy(update={"required": False}) if f.name in self.columns else f for f in schema.fields]
        return Schema(*fields, schema_id=schema.schema_id)


def read_unsent(
    table: pa.Table,
    schema: Schema,
    fields: Sequence[NestedField],
    keys: KeyNumbers,
    is_put: npt.NDArray[np.bool_],
    decisive: Sequence[str],
) -> Unsent | None:
    """Return the values that were not sent, or None if all were.

    Parameters
    ----------
    fields: the key columns; keys: those of the rows.
    decisive: columns that put the changes in order.

    Raises InvalidInputError (`unchanged-value`) for a column that the table lacks, or that has to be known: one of the
    key or of the order.
    """
    if UNCHANGED not in table.column_names or UNCHANGED in schema.column_names:
        return None
    column = table.column(UNCHANGED)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_null(column.type)):
        raise _refused("names of columns are a list of texts", UNCHANGED, str(column.type), "list of text")
    some = np.flatnonzero(is_put & pc.greater(pc.fill_null(pc.list_value_length(column), 0), 0).to_numpy())
    if not len(some):
        return None
    names = {int(row): tuple(column[int(row)].as_py()) for row in some}
    known = {f.name: f for f in schema.fields}
    needed = {str(schema.find_column_name(f.field_id)).partition(".")[0] for f in fields} | {*decisive}
    for name in sorted({name for each in names.values() for name in each}, key=str):
        if name not in known:
            raise _refused("a value that was not sent is of no column of the table", name, name, ", ".join(known))
        if name in needed:
            raise _refused("a value that was not sent has to be known: it finds or orders rows", name, None, "a value")
        _check_required(table, known[name], is_put, names)
    return Unsent(names=names, before=_before(table, schema, fields, keys, some))


def _before(
    table: pa.Table, schema: Schema, fields: Sequence[NestedField], keys: KeyNumbers, rows: npt.NDArray[np.int64]
) -> dict[int, int]:
    own = {int(row): int(keys.of_rows[row]) for row in rows}
    if KEY_BEFORE not in table.column_names or pa.types.is_null(table.column(KEY_BEFORE).type):
        return own
    before = table.column(KEY_BEFORE)
    if not pa.types.is_struct(before.type):
        raise _refused("the row before a change is a struct of columns", KEY_BEFORE, str(before.type), "a struct")
    given = rows[before.is_valid().to_numpy()[rows]]
    if len(given):
        some = before.take(pa.array(given)).combine_chunks()
        parts = some.chunks if isinstance(some, pa.ChunkedArray) else [some]
        held = pa.concat_tables([pa.Table.from_batches([pa.RecordBatch.from_struct_array(part)]) for part in parts])
        found = keys.find([key_column(held, schema, f) for f in fields])
        own |= dict(zip(given.tolist(), found.tolist(), strict=True))
    return own


def _check_required(
    table: pa.Table, field: NestedField, is_put: npt.NDArray[np.bool_], names: Mapping[int, tuple[str, ...]]
) -> None:
    """Refuse null in a required column of a row that was sent: `align` takes the column for an optional one."""
    if not field.required or field.name not in table.column_names:
        return
    null = is_put & table.column(field.name).is_null().to_numpy()
    null[[row for row, each in names.items() if field.name in each]] = False
    if null.any():
        message = "null in a required column"
        raise InvalidInputError(message, kind="null-in-required", field=field.name, found=int(null.sum()))


def _refused(message: str, field: str, found: object, expected: object) -> InvalidInputError:
    return InvalidInputError(message, kind="unchanged-value", field=field, found=found, expected=expected)
