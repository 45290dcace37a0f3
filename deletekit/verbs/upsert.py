"""UPSERT: insert rows, and delete those of the table with the same keys, in one commit.

After it, the table has one row for each of these keys, in every mode. Keys are equal as in equality deletes: NULL
equals NULL.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as it
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import check_request
from deletekit.commit.swap import Commit
from deletekit.deletes.delete_modes import Change, ChangeOptions
from deletekit.deletes.read import FileBatch, ReadRequest
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.filters.filter import parse_filter
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.rows.keys import KeyNumbers, column_at
from deletekit.rows.row_lineage import with_row_ids
from deletekit.rows.row_source import RowSource
from deletekit.rows.write_context import granularity_of
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import delete_of_keys, partitionable
from deletekit.verbs.shared.foreign_rows import foreign_rows
from deletekit.verbs.shared.guards import Guards, Way, commit_guarded
from deletekit.verbs.shared.key_fields import equality_fields_of, range_of_keys
from deletekit.verbs.shared.row_changes import choose_mode, run_change

Fields = tuple[it.NestedField, ...]
_Keys = tuple[pa.Table, KeyNumbers]


def upsert(
    table: Table,
    rows: Any,
    *,
    on: str | Sequence[str] | None = None,
    mode: str | None = None,
    ref: str = MAIN,
    granularity: str | None = None,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    at_most: int | str | None = None,
    expect: int | None = None,
    readable_by: str | Sequence[str] | None = None,
    engine: Engine | None = None,
) -> Commit:
    """Insert rows, and delete those of the table that have the same key, in one commit.

    Parameters
    ----------
    rows: as in `append`; they replace whole rows, so a missing optional column takes its write default, else null. All
        are held in memory: a stream is read once, into a table. Or a Spark DataFrame with the key columns, whose rows
        and keys stay on Spark's executors.
    on: the column or columns that say which row is meant, `parent.child` for nested ones; None takes the table's
        identifier fields. NULL equals NULL, as in equality deletes and unlike `merge`. Floats cannot be keys.
    mode: as in `delete`; None takes `write.merge.mode`. `equality-delete` writes the keys down and reads nothing of
        the table; the others read the key columns of the files that may hold them.
    ref, granularity, commit_properties, dry_run, at_most, expect, readable_by: as in `delete`.

    A row of the table that is replaced gives the new one its `_row_id` (v3). Equality deletes do not know it.
    Under `write.merge.isolation-level` = `serializable`, the default, rows with these keys that others insert
    meanwhile are replaced too; equality deletes are always serializable.

    Raises InvalidInputError before anything is written for rows that do not fit, a key that a column cannot be, or two
    rows of one key; CommitConflictError after too many lost races. Spec: "Row-level Deletes", "Identifier Field IDs".

    Examples
    --------
    >>> commit = dk.upsert(users, dk.datasets.users(), on="id")
    >>> dk.scan(users).count()
    4
    """
    frame, runner = foreign_rows(rows, engine), engine_or_default(engine)
    guards = Guards(ref, commit_properties, dry_run, at_most, expect, readable_by)
    source = RowSource(rows, table.schema, io=table.io)

    def plan(base: Base, way: Way) -> RowDelta:
        fields, options = _checked(base.metadata, on, way.mode, way.granularity)
        if frame is not None:
            return frame.upsert(base, fields, options)
        found = _fitting(source, base.metadata.schema, fields)
        return _replaced(base, *found, fields, options, runner, counts=way.counts)

    check_request(table.refresh(), ref, commit_properties, dry_run=dry_run)
    metadata = table.metadata
    fields, options = _checked(metadata, on, mode, granularity)
    is_global = options.mode == "equality-delete" and not partitionable(metadata, fields)
    is_global = is_global and (frame is not None or len(_fitting(source, metadata.schema, fields)[0]) > 0)
    ways: Any = {"mode": mode, "granularity": granularity, "is_global": is_global}
    return commit_guarded(table, plan, guards, runner, verb="merge", refreshed=True, **ways)


def _checked(
    metadata: TableMetadata, on: str | Sequence[str] | None, mode: str | None, granularity: str | None
) -> tuple[Fields, ChangeOptions]:
    """Return the key columns, and the options. Raises InvalidInputError for what the table cannot have."""
    options = ChangeOptions(choose_mode(metadata, "merge", mode), granularity_of(metadata, granularity))
    names: Sequence[Any] = metadata.schema.identifier_field_ids if on is None else on
    if not names:
        expected = "column names, or identifier fields of the table"
        raise InvalidInputError("an upsert needs a key", "upsert-key", "on", expected=expected)
    return equality_fields_of(metadata.schema, names), options


def _fitting(source: RowSource, schema: Schema, fields: Fields) -> tuple[pa.Table, _Keys]:
    """Return the rows as the table's types, and their keys."""
    rows = pa.concat_tables([align(piece, schema) for piece in source.held() or [[]]])
    return rows, _keys(rows, schema, fields)


def not_unique(fields: Sequence[it.NestedField], found: str) -> InvalidInputError:
    """Return the error for two rows with one key."""
    names = ", ".join(f.name for f in fields)
    return InvalidInputError(
        "two rows have the same key", "upsert-key-not-unique", names, found, "one row for each key"
    )


class _Upsert(Change):
    """Delete the rows with one of the keys. The index of each is the place of its key, and its row id or -1."""

    replaces = False

    def __init__(self, keys: KeyNumbers, fields: Fields, where: BooleanExpression, *, lineage: bool) -> None:
        self.request = ReadRequest(fields, row_ids=lineage, within=where)
        self._keys = keys

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        rows, places = batch.only_live(*self._keys.matches(batch.table.columns))
        row_ids = np.full(len(rows), -1, dtype=np.int64)
        if self.request.row_ids:
            row_ids = pc.fill_null(batch.row_ids_at(rows), -1).to_numpy()
        return rows, np.column_stack([places, row_ids])


def _replaced(
    base: Base, rows: pa.Table, found: _Keys, fields: Fields, options: ChangeOptions, engine: Engine, *, counts: bool
) -> RowDelta:
    """Return the change that puts rows in place of those with the same keys."""
    metadata, (keys, numbers) = base.metadata, found
    if not len(keys):
        return RowDelta(read_set=ReadSet())
    if options.mode == "equality-delete":
        delta = delete_of_keys(base, keys, fields, None, engine if counts else None)
        return replace(delta, added_data_files=tuple(write_data_files(base.write, rows)))
    where = range_of_keys(keys.columns, metadata.schema, fields, all_keys=True)
    bound = parse_filter(where, metadata.schema)
    change = _Upsert(numbers, fields, bound, lineage=metadata.version.has_row_lineage)
    return run_change(base, change, options, "merge", engine, where, more=lambda old: [_with_row_ids(rows, old.seen)])


def _with_row_ids(rows: pa.Table, seen: Sequence[npt.NDArray[np.int64]]) -> pa.Table:
    """Give each new row the smallest row id of the rows that it replaces, if any of them has one."""
    pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *seen])
    pairs = pairs[pairs[:, 1] >= 0]
    if not len(pairs):
        return rows
    ids = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(ids, pairs[:, 0], pairs[:, 1])
    return with_row_ids(rows, pa.array(ids, mask=ids == np.iinfo(np.int64).max))


def _keys(rows: pa.Table, schema: Schema, fields: Fields) -> _Keys:
    """Return the key columns of rows, named by field id. Raises InvalidInputError for two rows of one key."""
    keys = pa.table({str(f.field_id): column_at(rows, schema, f.field_id) for f in fields})
    numbers = KeyNumbers(keys.columns)
    if len(numbers) < len(keys):
        raise not_unique(fields, f"{len(keys)} rows of {len(numbers)} keys")
    return keys, numbers
