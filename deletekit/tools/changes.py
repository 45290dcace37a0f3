"""Changes: which rows a table lost and gained between two snapshots, whatever kind of delete hid them.

Spec: "Snapshots", "Row-level Deletes", "Row Lineage", https://iceberg.apache.org/spec/
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from reprlib import repr as short
from typing import Any, Literal, get_args

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.deletes.changed_files import FileChange, changed_files
from deletekit.deletes.changed_rows import rows_to_read
from deletekit.deletes.read import ReadContext
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.filters.filter import Filter, parse_filter, unbound_filter
from deletekit.public import public_methods
from deletekit.table.column_names import as_names
from deletekit.table.metadata import MAIN, Snapshot
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.table.types import arrow_schema, arrow_type
from deletekit.tools.change_reader import CHANGE_COLUMNS, ROW_ID, ChangeReader, ChangeTask, Pairing
from deletekit.tools.snapshot_range import ChangeStep, commit_steps, net_step, start_snapshot
from deletekit.verbs.shared.arrow_result import ArrowResult
from deletekit.verbs.shared.key_fields import equality_fields_of
from deletekit.verbs.shared.read_options import resolve_snapshot, select_field

Mode = Literal["all", "net", "upsert"]


def changes(
    table: Table,
    from_snapshot: int | None = None,
    to_snapshot: int | None = None,
    *,
    ref: str = MAIN,
    mode: Mode = "all",
    on: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
    where: Filter = None,
    inverse: bool = False,
    engine: Engine | None = None,
) -> Changes:
    """Return a lazy result of the rows that changed between two snapshots; its methods read them.

    It is exact for every kind of delete. Rows that a commit only wrote again are not changes, and `replace` snapshots
    (compaction) have none. A row that left and came back with equal values in one commit is not a change either. Only
    changed files are opened, and of deletes those that apply to them.

    The result has the columns of the table, `_change_type` (`insert`, `delete`, `update_before`, `update_after`),
    `_change_ordinal` (the number of the commit), `_commit_snapshot_id`, and on v3 `_row_id`. A deleted row has all its
    old values. Within a commit, rows that left come first. The n-th `update_after` is of the n-th `update_before`.

    Mode `all` gives the changes of each snapshot, oldest first.

    Mode `net` compares the two snapshots: it gives what a copy of the table at `from_snapshot` must delete and insert
    to be equal to `to_snapshot`. Snapshots in between may have expired. All rows have ordinal 0 and the id of
    `to_snapshot`.

    Mode `upsert` is as `net`, for a consumer that replaces rows by key: an update is one `update_after` row.

    Parameters
    ----------
    from_snapshot: changes after this snapshot; None is the table before its first row.
    to_snapshot: changes up to this snapshot, with its schema; None is the head of `ref`, with the schema that `scan`
        reads it with. Older rows are read with this schema too.
    ref: branch or tag.
    on: the columns that tell which row an update is of. None: `_row_id` on v3, and the schema's identifier fields for
        the rows that it does not pair. Without any key an update is a delete and an insert. `[]` takes the identifier
        fields away.
    columns: names, as in `scan`; None is every column. Rows are compared by these columns and the key, so an update of
        other columns is not a change.
    where: only rows for which this is true, as in `scan`.
    inverse: if `from_snapshot` is not an ancestor of `to_snapshot`, because the branch went back, undo its snapshots
        first, newest first; `_commit_snapshot_id` is then the snapshot undone, and all rows have the current schema.

    Raises NotFoundError for an unknown or expired snapshot or a missing delete file; InvalidInputError for a
    `from_snapshot` that is after `to_snapshot` or on another branch, an unknown column, or a key by which two rows that
    left, or two that came, cannot be told apart; all before the first row is returned. Raises FormatError for a damaged
    file. Spec: "Snapshots", "Row Lineage".

    Examples
    --------
    >>> before = users.current_snapshot.snapshot_id
    >>> _ = dk.delete(users, "id = 3")
    >>> dk.changes(users, before, columns=["id"]).to_arrow().select(["id", "_change_type"]).to_pylist()
    [{'id': 3, '_change_type': 'delete'}]
    """
    options: dict[str, Any] = {"on": on, "columns": columns, "where": where, "inverse": inverse, "engine": engine}
    return changes_in_schema(table, from_snapshot, *_end(table, to_snapshot, ref), mode, **options)


def changes_in_schema(
    table: Table,
    from_snapshot: int | None,
    end: Snapshot | None,
    schema: Schema,
    mode: Mode = "all",
    *,
    on: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
    where: Filter = None,
    inverse: bool = False,
    engine: Engine | None = None,
) -> Changes:
    """Return the changes up to snapshot `end` as `changes` does, with all rows in one schema of the table."""
    if mode not in get_args(Mode):
        raise InvalidInputError("unknown mode", "mode", "mode", mode, ", ".join(get_args(Mode)))
    metadata = table.metadata
    start = start_snapshot(metadata, from_snapshot, end)
    if start is not None and end is None:
        message, found = "from_snapshot is not an ancestor of to_snapshot", f"{from_snapshot}, to a branch without one"
        raise InvalidInputError(message, "snapshot-branch", "from_snapshot", found)
    steps: list[ChangeStep] = []
    if end is not None:
        find = commit_steps if mode == "all" else net_step
        steps = find(metadata, start, end, inverse=inverse)
    if inverse and start and end and not metadata.is_ancestor(end.snapshot_id, start.snapshot_id):
        schema = metadata.schema  # an older one cannot read files that were written with a newer one
    names = [f.name for f in schema.fields] if columns is None else as_names(columns)
    _check_names(names, schema)
    pair_by = _key_names(schema, on, mode)
    fields = {n: select_field(schema, n) for n in dict.fromkeys((*names, *pair_by))}
    arrow_schema(Schema(*(fields[n] for n in names)))  # refuses, by name, a type that cannot be read
    bound = parse_filter(where, schema)
    by_row_id = metadata.format_version >= 3 and on in (None, [], ()) and mode != "upsert"
    pairing = Pairing(tuple(pair_by), by_row_id, upsert=mode == "upsert")
    engine = engine_or_default(engine)
    return Changes(table, start, end, schema, mode, names, fields, where, bound, steps, pairing, engine)


@public_methods
@dataclass(frozen=True, repr=False)
class Changes(ArrowResult):
    """What `changes` returns. Attributes `from_snapshot`, `to_snapshot` (None for a table without commits) and `schema`
    say what is read.
    """

    table: Table
    from_snapshot: Snapshot | None
    to_snapshot: Snapshot | None
    schema: Schema
    mode: Mode
    columns: list[str]
    fields: dict[str, NestedField]
    where: Filter
    bound: Any
    steps: list[ChangeStep]
    pairing: Pairing
    engine: Engine

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the result: the table's columns with their nullability, and those that say what a change is."""
        own = [
            pa.field(f.name, arrow_type(f.field_type), not f.required).remove_metadata()
            for f in (self.fields[n] for n in self.columns)
        ]
        about = [pa.field(name, kind, nullable=False) for name, kind in CHANGE_COLUMNS.items()]
        row_id = [pa.field(ROW_ID, pa.int64())] if self.table.metadata.format_version >= 3 else []
        return pa.schema([*own, *about, *row_id])

    def __repr__(self) -> str:
        ids = (None if s is None else s.snapshot_id for s in (self.from_snapshot, self.to_snapshot))
        parts = [
            "from_snapshot={}, to_snapshot={}".format(*ids),
            f"mode={self.mode!r}",
            f"columns={short(self.columns)}",
        ]
        parts += [f"where={self.where!r}"] if self.where is not None else []
        return f"Changes({self.table.name}, {', '.join(parts)})"

    def count(self) -> int:
        """Return the number of changes: the rows of the result."""
        return sum(len(table) for table in self._tables())

    def tasks(self) -> list[ChangeTask]:
        """Return what to read, oldest commit first. It reads manifests and deletes, and may read key columns.

        Raises as `changes` says.
        """
        planned = self._planned()
        return list(chain.from_iterable(self._step_tasks(self.reader(), step, files) for step, files in planned))

    def reader(self) -> ChangeReader:
        """Return what reads a task, a value that can be pickled."""
        context = ReadContext(self.table.io, self.table.metadata)
        return ChangeReader(context, self.columns, self.fields, self.bound, self.pairing, self.arrow_schema)

    def _tables(self) -> Iterator[pa.Table]:
        planned, reader = self._planned(), self.reader()
        if self.pairing.key and len(planned) > 1:
            for step, files in planned:  # a key that is not unique is told of before the first row is returned
                for task in self._step_tasks(reader, step, files):
                    if task.is_compared:
                        reader.compared(task, self.engine.map)
        for step, files in planned:
            tasks = self._step_tasks(reader, step, files)
            if any(task.is_compared for task in tasks):
                for task in tasks:
                    yield from reader.read(task, self.engine.map)
            else:
                yield from chain.from_iterable(self.engine.map(reader.read_all, tasks))

    def _planned(self) -> list[tuple[ChangeStep, list[FileChange]]]:
        """Return the changed files of each step. Raises NotFoundError for a delete file that is missing."""
        metadata, where = self.table.metadata, unbound_filter(self.where, self.schema)
        reader = SnapshotReader(self.table.io, metadata)
        planned = [(s, changed_files(metadata, reader, s.before, s.after, where, self.schema)) for s in self.steps]
        paths = sorted({path for _, files in planned for change in files for path in change.delete_paths})
        for _ in self.engine.map(self.table.io.size, paths):
            pass
        return planned

    def _step_tasks(self, reader: ChangeReader, step: ChangeStep, files: Sequence[FileChange]) -> list[ChangeTask]:
        """Return one task for all rows that must be compared with each other, else one for each part of a file."""
        context = reader.context
        context.loader.expect(t for change in files for t in (change.before, change.after) if t is not None)
        rows = list(chain.from_iterable(self.engine.map(partial(rows_to_read, context), files)))
        if rows and (self.mode == "upsert" or len({r.is_delete for r in rows}) > 1):
            return [ChangeTask(step, tuple(rows), is_compared=True)]
        return [ChangeTask(step, (r,)) for r in rows]


def _end(table: Table, to_snapshot: int | None, ref: str) -> tuple[Snapshot | None, Schema]:
    if to_snapshot is not None and ref != MAIN:
        raise InvalidInputError("name one of to_snapshot and ref", "time-travel", "to_snapshot, ref")
    return resolve_snapshot(table.metadata, snapshot_id=to_snapshot, ref=ref)


def _check_names(names: Sequence[str], schema: Schema) -> None:
    if not names:
        raise UnsupportedError("changes need a column to compare rows by", "no-columns", "columns")
    taken = next((f.name for f in schema.fields if f.name in (*CHANGE_COLUMNS, ROW_ID)), None)
    if taken is not None:
        raise UnsupportedError(
            "the table has a column with a name that changes need",
            "change-column",
            taken,
            expected="another name: see rename_column",
        )


def _key_names(schema: Schema, on: str | Sequence[str] | None, mode: Mode) -> list[str]:
    names = sorted(schema.identifier_field_names()) if on is None else as_names(on)
    if not names and mode == "upsert":
        message = "mode 'upsert' needs a key: the schema names no identifier fields"
        raise InvalidInputError(message, "equality-key", "on", expected="names of columns")
    return [str(schema.find_column_name(f.field_id)) for f in equality_fields_of(schema, names)] if names else []
