"""MERGE: update, delete and insert rows of a table from a source, in one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.data_file_writer import write_data_files
from deletekit.deletes.delete_modes import ChangeOptions
from deletekit.deletes.input_rows import align, as_table, cast_column
from deletekit.deletes.keys import KeyNumbers
from deletekit.deletes.read import FileBatch, ReadRequest
from deletekit.deletes.row_source import RowSource
from deletekit.deletes.write_context import granularity_of
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.table.column_names import as_names, columns_like, unknown_column
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import equality_fields_of
from deletekit.verbs.shared.foreign_rows import foreign_rows
from deletekit.verbs.shared.row_changes import choose_mode, run_change

WhenMatched = Literal["update", "delete"]
WhenNotMatched = Literal["insert"]


def merge(
    table: Table,
    source: Any,
    *,
    on: str | Sequence[str],
    when_matched: WhenMatched | None = "update",
    when_not_matched: WhenNotMatched | None = "insert",
    mode: str | None = None,
    ref: str = MAIN,
    granularity: str | None = None,
    commit_properties: Mapping[str, str] | None = None,
    engine: Engine | None = None,
) -> Commit:
    """Merge a source into a table, in one commit.

    Parameters
    ----------
    source: rows, as `append` takes them, with the `on` columns and any others of the table, each row with the same
        ones. All are held in memory: a stream is read once, into a table. Or a Spark DataFrame: then Spark joins, and
        its rows never come to the driver.
    on: the column, or columns, that must be equal, as in SQL: NULL equals nothing, so such source rows are inserted.
    when_matched: `"update"` sets the source's columns, the others keep their values; `"delete"` deletes the row; None
        leaves it.
    when_not_matched: `"insert"` inserts the source row (a missing optional column takes its write default, else null);
        None ignores it.
    mode: as in `delete`; None takes `write.merge.mode`. Equality deletes use `on` as their key.
    ref, granularity, commit_properties: as in `delete`.

    `write.merge.isolation-level`: as in `update`; under `snapshot`, two merges may both insert a key.

    Raises InvalidInputError before anything is written for columns that do not fit, or when a table row matches several
    source rows (SQL's cardinality rule); CommitConflictError when too many races are lost. Spec: "Row-level Deletes".
    """
    if when_matched not in ("update", "delete", None) or when_not_matched not in ("insert", None):
        raise InvalidInputError(
            "unknown merge clause",
            kind="merge",
            field="when_matched, when_not_matched",
            found=f"{when_matched}, {when_not_matched}",
        )
    runner, frame, inserts = engine_or_default(engine), foreign_rows(source, engine), when_not_matched == "insert"
    rows = RowSource(source, "source")

    def plan(base: Base) -> RowDelta:
        metadata = base.metadata
        options = ChangeOptions(choose_mode(metadata, "merge", mode), granularity_of(metadata, granularity))
        if frame is not None:
            return frame.merge(base, on, when_matched, inserts=inserts, options=_with_keys(options, metadata, on))
        change = _Merge(metadata.schema, rows.whole(metadata.schema), on, when_matched)
        options = _with_keys(options, metadata, on)
        new = align(change.source, metadata.schema) if inserts else None
        planned, result = run_change(base, change, options, "merge", runner)
        if new is None:
            return planned
        files = write_data_files(base.write, new.filter(change.unseen_rows(result.seen)))
        return replace(planned, added_data_files=(*planned.added_data_files, *files))

    return commit(plan_change(table, plan, ref=ref, properties=commit_properties))


def _with_keys(options: ChangeOptions, metadata: TableMetadata, on: str | Sequence[str]) -> ChangeOptions:
    if options.mode != "equality-delete":
        return options
    return replace(options, key_fields=equality_fields_of(metadata.schema, on))


class _Merge:
    """Update or delete the rows whose `on` columns equal a source row's."""

    def __init__(self, schema: Schema, source: Any, on: str | Sequence[str], when_matched: WhenMatched | None) -> None:
        given = as_table(source, schema, "source", ragged=False)
        fields = on_fields(schema, given.column_names, on)
        self.source = fitting_rows(schema, given)
        self.request = ReadRequest(fields)
        self.replaces = when_matched == "update"
        self._schema = schema
        self._when_matched = when_matched
        self._keys = KeyNumbers([self.source.column(f.name) for f in fields], sql=True)
        self._counts = np.bincount(self._keys.of_rows[self._keys.of_rows >= 0], minlength=len(self._keys))

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        keys = self._keys.find(batch.table.columns)
        hit = (keys >= 0) & ~batch.deleted
        if self._when_matched is None:
            return np.zeros(len(hit), dtype=np.bool_), np.unique(keys[hit])
        check_single(self._counts[keys[hit]])
        return hit, keys[hit]

    def new_rows(self, current: pa.Table, index: npt.NDArray[np.int64] | None) -> pa.Table:
        assert index is not None
        rows = self.source.take(pa.array(self._keys.first_rows[index]))
        return updated_rows(self._schema, current, rows)

    def unseen_rows(self, seen: Sequence[npt.NDArray[np.int64]]) -> pa.Array:
        """Return a mask of the source rows that matched no row of the table."""
        return pa.array(np.isin(self._keys.of_rows, np.concatenate([np.empty(0, np.int64), *seen]), invert=True))


# --- rows, in this process or in a worker of Spark --------------------------------------------------------------------


def on_fields(schema: Schema, source: Sequence[str], on: str | Sequence[str]) -> tuple[NestedField, ...]:
    """Return the table's columns to match on. Raises InvalidInputError if the table or the source lacks one."""
    if not on:
        raise InvalidInputError("a merge needs columns to match on", kind="merge", field="on")
    fields = {f.name: f for f in schema.fields}
    for name in as_names(on):
        if name not in fields or name not in source:
            raise InvalidInputError(
                "no such column to match on",
                kind="column-not-found",
                field=name,
                found="in the table" if name in fields else "in neither or only the source",
                expected=columns_like(name, [n for n in fields if n in source]) or "a column of both",
            )
    return tuple(fields[name] for name in as_names(on))


def fitting_rows(schema: Schema, source: pa.Table) -> pa.Table:
    """Return the source with the table's types. Refuse a value that does not fit, even if its row matches nothing."""
    fields = {f.name: f for f in schema.fields}
    for column in source.column_names:
        if column not in fields:
            raise unknown_column(column, list(fields), "source has a column the table does not")
    return pa.table({n: cast_column(source.column(n), fields[n]) for n in source.column_names})


def updated_rows(schema: Schema, current: pa.Table, source: pa.Table) -> pa.Table:
    """Return rows of the table with the source's columns in place of theirs."""
    columns = {n: source.column(n) if n in source.column_names else current.column(n) for n in current.column_names}
    return align(pa.table(columns), schema)


def check_single(counts: npt.NDArray[np.int64]) -> None:
    """Raise InvalidInputError if a row of the table matches several source rows, as SQL does.

    Parameters
    ----------
    counts: how many source rows each matched row of the table matches.
    """
    if len(counts) and counts.max() > 1:
        raise InvalidInputError(
            "a table row matches several source rows",
            kind="merge-cardinality",
            field="on",
            found=int(counts.max()),
            expected="one source row for each key",
        )
