"""Revert: undo what one commit did to rows, and keep what later commits did.

Rows that the snapshot hid are inserted again, with their row ids: no bit of a vector is cleared. Rows that it inserted
are hidden where they are now. What it did follows from the difference to its parent, whatever its deletes are.
Spec: "Row Lineage", "Row-level Deletes", https://iceberg.apache.org/spec/#row-lineage
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deferred import pc
from deletekit.deletes.changed_rows import RowsToRead
from deletekit.deletes.delete_modes import Change, ChangeOptions, ChangeResult
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import FileBatch, Numbers, ReadRequest
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.notebook_html import result
from deletekit.rows.keys import KeyNumbers, KeySet, row_columns
from deletekit.rows.row_lineage import with_row_ids
from deletekit.rows.row_pairs import moved_rows
from deletekit.rows.write_context import granularity_of
from deletekit.table.metadata import MAIN, Snapshot
from deletekit.table.python_values import key_texts
from deletekit.table.table import Table
from deletekit.text import count
from deletekit.tools.change_reader import PLACE, ROW_ID, ChangeReader, ChangeTask
from deletekit.tools.changes import changes_in_schema
from deletekit.verbs.shared.arrow_result import no_rows
from deletekit.verbs.shared.guards import Guards
from deletekit.verbs.shared.row_changes import choose_mode, run_change

_REVERTED = "reverted-snapshot-id"
_GONE = pa.array(["delete", "update_before"])
Mask = npt.NDArray[np.bool_]


@result
class RevertedSnapshot:
    """What `revert` did; in a dry run, what it would do.

    Attributes
    ----------
    source_snapshot_id: the snapshot that was undone.
    inserted_rows: rows that the snapshot hid, and that are back.
    removed_rows: rows that the snapshot inserted, and that are gone.
    skipped_rows: rows of both kinds that were left alone, because a later commit changed them too.
    commit: its `operation` is None if nothing had to change.
    """

    ref: str
    source_snapshot_id: int
    inserted_rows: int
    removed_rows: int
    skipped_rows: int
    commit: Commit
    dry_run: bool = False


def revert(
    table: Table,
    snapshot_id: int,
    *,
    ref: str = MAIN,
    on_conflict: Literal["skip"] | None = None,
    dry_run: bool = False,
    engine: Engine | None = None,
    commit_properties: Mapping[str, str] | None = None,
) -> RevertedSnapshot:
    """Undo what one snapshot did to rows, in one commit, and keep what later commits did.

    Rows that it hid are inserted again in today's schema: a column that was added since has its initial default. On v3
    they have their `_row_id`. Rows that it inserted are hidden, and an update is both. Rows that it only wrote again
    stay.

    Parameters
    ----------
    snapshot_id: the snapshot, which is in the history of `ref`; the head too.
    on_conflict: None refuses if later commits changed some of the rows too; `"skip"` leaves such rows as they are. It
        is a conflict if a row that the snapshot inserted was changed or deleted since, and if the `_row_id` of a row
        that it hid, or the key by the schema's identifier fields, is live again. It is about both rows of an update.
    ref, dry_run, commit_properties: as in `delete`. Rows go in the mode `write.delete.mode`, by position where that is
        `equality-delete`.

    Inserted rows are found where they were written. If compaction or copy-on-write moved them, they are found by
    `_row_id` on v3. On v1 and v2, which have none, they are found by all their values, one live row for each; equal
    values that a later commit deleted are a conflict. The changed rows are held in memory.

    Raises NotFoundError for an unknown or expired snapshot, if its parent has expired, or if a file of theirs is gone;
    InvalidInputError for a snapshot that is not in the history of `ref`, that only wrote rows again (`replace`), that
    was reverted already, and for conflicts; CommitConflictError when too many races are lost.
    Spec: "Row Lineage".

    Examples
    --------
    >>> gone = dk.delete(users, "id = 3")
    >>> dk.revert(users, gone.snapshot_id).inserted_rows
    1
    """
    runner, counts = engine_or_default(engine), [dict[str, int]()]

    def plan(base: Base) -> RowDelta:
        undo = _Undo(base, _source(base, snapshot_id), runner)
        if on_conflict is None:
            undo.check()
        counts.append(undo.counts)
        return undo.delta()

    shared: Any = {"check": Guards().readable(table.refresh().properties), "refreshed": True, "dry_run": dry_run}
    made = commit(plan_change(table, plan, ref=ref, properties=commit_properties, **shared))
    return RevertedSnapshot(ref=ref, source_snapshot_id=snapshot_id, commit=made, dry_run=dry_run, **counts[-1])


def _source(base: Base, snapshot_id: int) -> Snapshot:
    """Return the snapshot to undo. Raises InvalidInputError or NotFoundError for one that cannot be."""
    metadata, head = base.metadata, base.snapshot
    source = metadata.snapshot_by_id(snapshot_id)
    if head is None or not metadata.is_ancestor(head.snapshot_id, snapshot_id):
        expected = f"an ancestor of the head, or the head: {head.snapshot_id if head else None}"
        raise _refused(source, f"it is not in the history of {base.ref}", base.ref, expected)
    if source.operation == "replace":
        raise _refused(source, "it changed no row: its files are others with the same rows", source.operation)
    if source.parent_snapshot_id is not None and source.parent_snapshot_id not in metadata.snapshots:
        message = f"the parent of snapshot {snapshot_id} has expired, so it is not known what it changed"
        raise NotFoundError(message, "snapshot-expired", "snapshot_id", source.parent_snapshot_id)
    undone: dict[int, int] = {}
    for one in metadata.ancestors(head.snapshot_id):
        if one.snapshot_id not in undone and one.summary.get(_REVERTED, "").isdecimal():  # it may be reverted itself
            undone[int(one.summary[_REVERTED])] = one.snapshot_id
    if snapshot_id in undone:
        found = undone[snapshot_id]
        raise _refused(source, "it was reverted before", f"as {found}", f"to revert {found}, which brings it back")
    return source


def _refused(source: Snapshot, why: str, found: Any, expected: Any = None) -> InvalidInputError:
    message = f"snapshot {source.snapshot_id} cannot be reverted: {why}"
    return InvalidInputError(message, "revert", "snapshot_id", found, expected)


class _Undo:
    """What it takes to undo a snapshot on a head.

    Attributes
    ----------
    left, came: rows that the snapshot hid, and that it inserted.
    later: rows that came to their places since and are like those: moved by a rewrite, or of a later commit.
    away: which rows of `came` are not live any more where the snapshot wrote them.
    stuck_left, stuck_came: which rows a later commit changed too.
    """

    def __init__(self, base: Base, source: Snapshot, engine: Engine) -> None:
        self._base, self._source, self._engine = base, source, engine
        self._tasks = plan_scan(base.metadata, base.snapshot, base.reader)
        files = {task.data.identity: number for number, task in enumerate(self._tasks)}
        find = partial(changes_in_schema, base.table, schema=base.metadata.schema, mode="net", engine=engine)
        done, since = find(source.parent_snapshot_id, source), find(source.snapshot_id, base.snapshot)
        ours, others = ([r for task in side.tasks() for r in task.rows] for side in (done, since))
        hidden = [(r.part.task.data.identity, r.positions) for r in others if r.is_delete]
        still = files.keys() - dict(hidden).keys()
        moves = any(r.part.task.data.identity not in still for r in ours if not r.is_delete)
        keys = list(done.pairing.key)
        self._names, self._ids = list(done.fields), [ROW_ID] if base.metadata.version.has_row_lineage else []
        self._relations = [names for names in (self._ids, keys) if names]

        # The values of rows that are live where they were written need not be read.
        whole = moves or any(r.is_delete for r in ours), moves
        few = {name: done.fields[name] for name in keys}
        reader, later = (
            replace(side.reader(), files=files, fields=done.fields if needed else few)
            for side, needed in zip((done, since), whole, strict=True)
        )
        self.left, self.came = reader.moved(ChangeTask(done.steps[0], tuple(ours), is_compared=True), engine.map)
        # Rows of a commit from before the upgrade to v3 are known by their values alone, as all on v1 and v2.
        has_ids = bool(self._ids) and not self.came.column(ROW_ID).null_count
        self._same = [*self._names, *self._ids] if has_ids else self._names
        self._known_by = self._relations if has_ids else [*self._relations, self._names]
        like = _Like([self.left, self.came], self._known_by if moves else self._relations)
        pieces = engine.map(partial(like.read, later), [r for r in others if not r.is_delete])
        self.later = pa.concat_tables([no_rows(later.read_schema), *chain.from_iterable(pieces)])

        file, place = _places(self.came)
        self.away = file < 0
        for identity, positions in hidden:
            if positions is not None:
                self.away |= (file == files.get(identity, -1)) & np.isin(place, positions.to_numpy())
        lost, blocking = self._moved(self.away)
        self.stuck_left, self.stuck_came = np.zeros(len(self.left), np.bool_), lost
        if not has_ids and self.away.any():
            self._find_deleted_values()
        self._spread(blocking)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows come back, go, and are left alone."""
        inserted, removed = (int(np.count_nonzero(~stuck)) for stuck in (self.stuck_left, self.stuck_came))
        skipped = len(self.left) + len(self.came) - inserted - removed
        return {"inserted_rows": inserted, "removed_rows": removed, "skipped_rows": skipped}

    def check(self) -> None:
        """Raise InvalidInputError if later commits changed some of the rows too, naming rows and commits."""
        rows = pa.concat_tables([_some(self.left, self.stuck_left), _some(self.came, self.stuck_came)])
        if not len(rows):
            return
        later = self._changed_later(_Like([rows], self._known_by)).column("_commit_snapshot_id").to_pylist()
        names = next((names for names in self._relations if names != self._ids), self._names)
        row = f"({', '.join(names)}) = ({key_texts([rows.column(name) for name in names], 0)})"
        message = f"later commits changed rows that snapshot {self._source.snapshot_id} changed"
        found = f"{count(len(rows), 'row')}, such as {row}, changed by {', '.join(map(str, dict.fromkeys(later)))}"
        expected = "to revert those first; or on_conflict='skip', which leaves such rows as they are"
        raise InvalidInputError(message, "revert-conflict", "snapshot_id", found, expected)

    def delta(self) -> RowDelta:
        """Hide the rows that go, and write those that come back."""
        metadata = self._base.metadata
        _, others = self._moved(self.away & ~self.stuck_came)
        gone = _some(self.came, ~self.away & ~self.stuck_came), _some(self.later, ~others)
        file, place = (np.concatenate(parts) for parts in zip(*map(_places, gone), strict=True))
        order = np.argsort(file, kind="stable")
        numbers, starts = np.unique(file[order], return_index=True)
        chosen, places = [self._tasks[n] for n in numbers], np.split(place[order], starts[1:])
        change = _HideAt({t.data.identity: PositionBitmap(p) for t, p in zip(chosen, places, strict=False)})
        mode = choose_mode(metadata, "delete", None)
        mode = metadata.version.position_delete_kind if mode == "equality-delete" else mode
        options = ChangeOptions(mode, granularity_of(metadata, None))
        delta = run_change(self._base, change, options, "delete", self._engine, tasks=chosen, more=self._new_rows)
        # Without a read set it is planned again after a lost race: what landed may be a conflict.
        return replace(delta, read_set=None, summary={_REVERTED: str(self._source.snapshot_id)})

    def _new_rows(self, _: ChangeResult) -> list[pa.Table]:
        rows = _some(self.left, ~self.stuck_left)
        if not len(rows):
            return []
        new = rows.select([f.name for f in self._base.metadata.schema.fields])
        return [with_row_ids(new, rows.column(ROW_ID)) if self._ids else new]

    def _moved(self, some: Mask) -> tuple[Mask, Mask]:
        """Return which of some rows that came are not among `later` as they were, and which of `later` are others."""
        lost, others = np.zeros(len(self.came), np.bool_), np.zeros(len(self.later), np.bool_)
        rest = moved_rows(_some(self.came, some), self.later, self._same, None)
        lost[np.flatnonzero(some)[rest[0]]] = others[rest[1]] = True
        return lost, others

    def _find_deleted_values(self) -> None:
        """Make rows without ids stuck that cannot be told from equal ones which a later commit deleted."""
        mine = _some(self.came, self.away)
        later = self._changed_later(_Like([mine], [self._names]))
        gone = later.filter(pc.is_in(later.column("_change_type"), _GONE))
        rest, _ = moved_rows(mine, gone, self._names, None)
        self.stuck_came[np.delete(np.flatnonzero(self.away), rest)] = True

    def _changed_later(self, like: _Like) -> pa.Table:
        """Return the changes of later commits to rows like some."""
        start, end, schema = self._source.snapshot_id, self._base.snapshot, self._base.metadata.schema
        feed = changes_in_schema(self._base.table, start, end, schema, on=[], columns=self._names, engine=self._engine)
        tables = (pa.Table.from_batches([batch]) for batch in feed)
        return pa.concat_tables([no_rows(feed.arrow_schema), *like.of(tables)])

    def _spread(self, blocking: Mask) -> None:
        """Find the rows that must stay as they are with others, so that no row id and no key is live twice, or lost.

        A row does not come back if a row of a later commit (`blocking`), or one that stays, has its row id or key. Then
        what came in its place stays too.
        """
        relations, before = [self._numbers(names) for names in self._relations], None
        while before != (before := self.counts):
            for left, came, later in relations:
                self.stuck_left |= _are_in(left, np.concatenate([came[self.stuck_came], later[blocking]]))
                self.stuck_came |= _are_in(came, left[self.stuck_left])

    def _numbers(self, names: Sequence[str]) -> list[Numbers]:
        """Return the number of each row's row id or key, of the three kinds of rows; -1 for a row without an id."""
        sides = [rows.select(names) for rows in (self.left, self.came, self.later)]
        columns = pa.concat_tables(sides).columns
        numbers = np.where(columns[0].is_valid().to_numpy(), KeyNumbers(row_columns(columns)).of_rows, -1)
        return np.split(numbers, np.cumsum([len(rows) for rows in sides])[:-1])


class _Like:
    """Finds rows that have the row id, the key or all values of one of some rows: what `by` names."""

    def __init__(self, rows: Sequence[pa.Table], by: Sequence[Sequence[str]]) -> None:
        known = [pa.concat_tables(t.select(names) for t in rows) for names in by]
        known = [t.drop_null() if t.column_names == [ROW_ID] else t for t in known]
        self._sets = [(t.column_names, KeySet(row_columns(t.columns))) for t in known]

    def of(self, tables: Iterable[pa.Table]) -> list[pa.Table]:
        """Return the rows of tables that are like those."""
        return [_some(table, self._mask(table)) for table in tables]

    def read(self, reader: ChangeReader, rows: RowsToRead) -> list[pa.Table]:
        """Read rows, and return those that are like the rows."""
        return self.of(reader.rows(rows))

    def _mask(self, table: pa.Table) -> Mask:
        mask = np.zeros(len(table), np.bool_)
        for names, keys in self._sets:
            mask |= keys.contains(row_columns(table.select(names).columns)).to_numpy(zero_copy_only=False)
        return mask


class _HideAt(Change):
    """Hide the rows at some positions of some data files."""

    replaces = False

    def __init__(self, positions: Mapping[tuple[str, int | None], PositionBitmap]) -> None:
        self.request, self._positions = ReadRequest(()), positions

    def match(self, batch: FileBatch) -> tuple[Mask, None]:
        return batch.live & self._positions[batch.data.identity].mask(batch.first_position, len(batch)), None


def _some(rows: pa.Table, mask: Mask) -> pa.Table:
    return rows.filter(pa.array(mask))


def _places(rows: pa.Table) -> list[Numbers]:
    """Return the number of each row's data file, and its position there."""
    return [rows.column(name).to_numpy() for name in PLACE]


def _are_in(numbers: Numbers, some: Numbers) -> Mask:
    return np.isin(numbers, some[some >= 0])
