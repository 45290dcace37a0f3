"""Promote what a staging branch changed since its last promotion to another branch, in one commit.

The target loses the rows that the branch lost since then, and gets those that the branch got. The two states of the
branch are compared, not its commits. A row is lost if it was live in the first snapshot and is not in the second, even
if it was only moved. A data file that the first snapshot did not have is new, with all its live rows. Rows that only
the target has, because it was compacted or others wrote there, are removed if the branch touched their key. Equality
deletes of the branch arrive as positions.

`table.promotions` finds the first of the two states: what both branches had in common after the last promotion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.commit.change import Base, RefUpdate, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.merge_previous_deletes import FilePositions, HiddenRows, positions_in_file, write_positions
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, ReadRequest, deleted_positions, read_task, rows_at
from deletekit.deletes.rewrite import rewrite_data_files
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.public import public
from deletekit.rows.keys import KeySet, distinct_keys
from deletekit.rows.write_context import check_parquet_only
from deletekit.stream.applied_batches import tag_update
from deletekit.stream.batch_delta import by_position, delete_granularity
from deletekit.table.metadata import MAIN, Snapshot
from deletekit.table.sinks.batches import PROMOTED_BRANCH, PROMOTED_SNAPSHOT
from deletekit.table.sinks.promotions import promoted_tag, promotion_base
from deletekit.table.table import Table
from deletekit.table.types import arrow_type
from deletekit.verbs.shared.guards import Guards
from deletekit.verbs.shared.key_fields import equality_fields_of

PromotionMode = Literal["merge-on-read", "copy-on-write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What `promote` did.

    Attributes
    ----------
    snapshot_id: the snapshot of the branch that the target has now; previous_snapshot_id: the one that it had before.
    added_rows, deleted_rows: rows of the branch that were added to the target, and rows of the target that were
        removed.
    commit: None if there was nothing to do.
    """

    snapshot_id: int
    previous_snapshot_id: int
    added_rows: int = 0
    deleted_rows: int = 0
    commit: Commit | None = None


@public
def promote(
    table: Table,
    branch: str,
    *,
    ref: str = MAIN,
    on: str | Sequence[str] | None = None,
    mode: PromotionMode = "merge-on-read",
    reset: bool = False,
    engine: Engine | None = None,
) -> Promotion:
    """Promote what a staging branch changed since its last promotion to another branch, in one commit.

    Parameters
    ----------
    branch: the staging branch.
    ref: the target branch.
    on: the key columns; default the schema's identifier fields. They are needed to find rows again: if
        `ref` has data files that the branch did not have.
    mode: `merge-on-read` adds the data files of the branch, and hides by position the rows that are not live;
        `copy-on-write` rewrites data files, and leaves no delete file on `ref`.
    reset: also move the branch to the new head of `ref` in the same commit, so that it does not grow forever. With
        nothing to promote, the commit moves the branch alone.
    engine: where data files are read.

    A row keeps its `_row_id` (v3), so it is the same row on both branches. After a lost race it is planned again.

    Raises NotFoundError for a missing branch; InvalidInputError of kind `no-common-snapshot` for branches that have
    nothing in common any more; CommitConflictError, CommitStateUnknownError as every commit.
    """
    _check(table.refresh(), branch, ref, mode)
    names = on if on is not None else table.schema.identifier_field_ids
    fields = equality_fields_of(table.schema, names) if names else ()
    run = _Promote(branch, fields, mode, reset, engine_or_default(engine))
    done = commit(plan_change(table, run.build, ref=ref, check=Guards().readable(table.properties)))
    assert run.report is not None
    return replace(run.report, commit=done if done.snapshot_id is not None else None)


@dataclass(slots=True)
class _Promote:
    """One call of `promote`. After a lost race it is planned again from the start."""

    branch: str
    fields: tuple[NestedField, ...]
    mode: PromotionMode
    reset: bool
    engine: Engine
    deleted_rows: int = 0
    report: Promotion | None = None

    def build(self, base: Base) -> RowDelta:
        """Plan the promotion on the head of the base."""
        metadata = base.metadata
        head = metadata.snapshot_of_ref(self.branch)
        assert head is not None  # checked: the branch is there, and is not an empty main
        start = promotion_base(metadata, self.branch, base.ref)
        if start is None:
            raise _nothing_in_common(
                self.branch, f"the history of {self.branch} or {base.ref} expired, or one was moved"
            )
        self.report = Promotion(snapshot_id=head.snapshot_id, previous_snapshot_id=start.snapshot_id)
        if start.snapshot_id == head.snapshot_id:
            is_behind = base.snapshot is not None and base.snapshot.snapshot_id != head.snapshot_id
            return self._promoted(base, head, RowDelta()) if self.reset and is_behind else RowDelta()
        found = _difference(base, start, head, self.engine, self.branch)
        delta = self._copied(base, found) if self.mode == "copy-on-write" else self._by_position(base, found)
        added = sum(s.task.data_file.record_count - len(s.positions) for s in found.new_files)
        self.report = replace(self.report, added_rows=added, deleted_rows=self.deleted_rows)
        # The rows have ids since the commit to the branch; one that a version before 3 wrote is given its own now.
        staged = (s.task.data_file for s in found.new_files)
        known = frozenset(f.file_path for f in staged if f.first_row_id is not None)
        return self._promoted(base, head, replace(delta, with_row_ids=known))

    def _promoted(self, base: Base, head: Snapshot, delta: RowDelta) -> RowDelta:
        """Return a change that also says what it promotes, and moves the tag and, for a reset, the branch."""
        summary = {PROMOTED_BRANCH: self.branch, PROMOTED_SNAPSHOT: str(head.snapshot_id)}
        # After a reset the branch starts from the commit: that is what both have.
        common = None if self.reset else head.snapshot_id
        refs = [tag_update(base.metadata, promoted_tag(self.branch, base.ref), common)]
        if self.reset:
            refs.append(RefUpdate(name=self.branch, type="branch", found=head.snapshot_id))
        return replace(delta, summary=summary, refs=tuple(refs))

    def _by_position(self, base: Base, found: _Difference) -> RowDelta:
        delta = by_position(base, self._rows_to_hide(found))
        files, hidden = _staged(found)
        deletes = (*delta.added_delete_files, *write_positions(base.write, hidden, delete_granularity(base.metadata)))
        return replace(delta, added_data_files=files, added_delete_files=deletes)

    def _copied(self, base: Base, found: _Difference) -> RowDelta:
        hidden_rows = {k.task.data_file.file_path: k for k in self._rows_to_hide(found)}
        old = [t for p, t in found.target_files.items() if p in hidden_rows or t.deletes]
        none = PositionBitmap()
        again = [(t, hidden_rows[p].positions if (p := t.data_file.file_path) in hidden_rows else none) for t in old]
        again += [(s.task, none) for s in found.new_files if s.task.deletes]
        files = [f for task, gone in again for f in rewrite_data_files(found.context, base.write, [task], gone=gone)]
        files += [s.task.data_file for s in found.new_files if not s.task.deletes]
        deletes = base.reader.live_entries(base.snapshot, ManifestContent.DELETES) if base.snapshot else ()
        return RowDelta(
            added_data_files=tuple(files),
            removed_data_files=tuple(t.data for t in old),
            removed_delete_files=tuple(deletes),
        )

    def _rows_to_hide(self, found: _Difference) -> list[HiddenRows]:
        """Return the target's rows that go: by position in files that the branch had, by key in all others."""
        gone = {path: k.positions for path, k in found.lost.items() if path in found.target_files}
        apart = [t for path, t in found.target_files.items() if path not in found.before]
        if apart:
            keys = self._touched(found)
            gone |= dict(_key_positions(found.context, apart, keys, self.fields, self.engine))
        hidden_rows = []
        for path, positions in gone.items():
            hidden = _hidden(found.context, found.target_files[path])
            if new := positions - hidden:
                hidden_rows.append(HiddenRows(found.target_files[path], new, hidden))
        self.deleted_rows = sum(len(k.positions) for k in hidden_rows)
        return hidden_rows

    def _touched(self, found: _Difference) -> pa.Table:
        """Return the keys of all rows that came or went on the branch, and of its new equality deletes."""
        if not self.fields:
            message = "rows must be found by their key, but the schema has no identifier fields"
            raise InvalidInputError(message, kind="equality-key", field="on")
        live = (replace(staged, positions=_all_rows(staged.task) - staged.positions) for staged in found.new_files)
        parts = [_keys_at(found.context, rows, self.fields) for rows in (*found.lost.values(), *live)]
        ids = tuple(f.field_id for f in self.fields)
        own = [d for d in found.new_deletes if tuple(sorted(d.equality_ids or ())) == ids]
        parts += [found.context.loader.key_columns(ids, delete) for delete in own]
        # Arrow does not join tables as they are: a key is required in data files and optional in delete files.
        tables = [pa.table(list(columns), names=list(map(str, ids))) for columns in parts]
        return distinct_keys(pa.concat_tables(tables)) if tables else pa.table({})


def _staged(found: _Difference) -> tuple[tuple[DataFile, ...], list[FilePositions]]:
    kept = [s for s in found.new_files if len(s.positions) < s.task.data_file.record_count]
    hidden = [FilePositions(s.task.data_file, s.positions) for s in kept if s.positions]
    return tuple(s.task.data_file for s in kept), hidden


# --- comparing snapshots ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _FileRows:
    """A data file of a snapshot, and some of its rows."""

    task: ScanTask
    positions: PositionBitmap


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """Two snapshots of a branch, compared for a change of another branch, the target.

    Attributes
    ----------
    before: data files of the first snapshot, by path.
    lost: rows of those files that were live in the first snapshot and are not in the second.
    new_files: data files of the second snapshot alone, with their hidden rows.
    target_files: data files of the target, by path.
    new_deletes: equality deletes of the second snapshot alone.
    """

    context: ReadContext
    before: Mapping[str, ScanTask]
    lost: Mapping[str, _FileRows]
    new_files: tuple[_FileRows, ...]
    target_files: Mapping[str, ScanTask]
    new_deletes: tuple[DeleteFile, ...]


def _difference(base: Base, start: Snapshot, end: Snapshot, engine: Engine, branch: str) -> _Difference:
    """Compare two snapshots of a branch, `start` before `end`, for a change of the attempt's base."""
    context = ReadContext(base.table.io, base.metadata)
    before, after, target_files = (_tasks(base, s) for s in (start, end, base.snapshot))
    seen = {path: _identities(task.delete_files) for path, task in after.items()}
    changed = [task for path, task in before.items() if seen.get(path) != _identities(task.delete_files)]

    def lost(task: ScanTask) -> _FileRows:
        now = after.get(task.data_file.file_path)
        gone = _all_rows(task) if now is None else _hidden(context, now)
        hidden = _hidden(context, task)
        if hidden - gone:  # no commit brings them back, so the branch was moved
            raise _nothing_in_common(branch, f"deleted rows of {task.data_file.file_path} are live again")
        return _FileRows(task, gone - hidden)

    lost_rows = [rows for rows in engine.map(lost, changed) if rows.positions]
    new = [t for path, t in after.items() if path not in before]
    new_files = engine.map(lambda t: _FileRows(t, _hidden(context, t)), new)
    known = _identities(_equality_deletes(base, start))
    return _Difference(
        context=context,
        before=before,
        lost={rows.task.data_file.file_path: rows for rows in lost_rows},
        new_files=tuple(new_files),
        target_files=target_files,
        new_deletes=tuple(d for d in _equality_deletes(base, end) if d.identity not in known),
    )


def _keys_at(context: ReadContext, rows: _FileRows, fields: Sequence[NestedField]) -> Sequence[Any]:
    """Read the key columns of some rows, hidden or not."""
    found = rows_at(context, rows.task, ReadRequest(tuple(fields)), rows.positions)
    return found.columns if found.num_columns else [pa.array([], arrow_type(f.field_type)) for f in fields]


def _key_positions(
    context: ReadContext, tasks: Sequence[ScanTask], keys: pa.Table, fields: Sequence[NestedField], engine: Engine
) -> Iterator[tuple[str, PositionBitmap]]:
    """Find the live rows of data files that have one of some keys."""
    if not len(keys):
        return
    wanted = KeySet(keys.columns)

    def find(task: ScanTask) -> tuple[str, PositionBitmap]:
        parts = []
        for batch in read_task(context, task, ReadRequest(tuple(fields), only_live=True)):
            hit = wanted.contains(batch.table.columns).to_numpy(zero_copy_only=False) & ~batch.deleted
            parts.append(batch.positions(hit))
        positions = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return task.data_file.file_path, PositionBitmap(positions)

    yield from engine.map(find, tasks)


def _tasks(base: Base, snapshot: Snapshot | None) -> dict[str, ScanTask]:
    return {t.data_file.file_path: t for t in plan_scan(base.metadata, snapshot, base.reader)}


def _equality_deletes(base: Base, snapshot: Snapshot) -> Iterator[DeleteFile]:
    """Yield a snapshot's equality deletes, also those that apply only to data files of the other branch."""
    for entry in base.reader.live_entries(snapshot, ManifestContent.DELETES):
        if isinstance(entry.data_file, DeleteFile) and entry.data_file.kind == "equality-delete":
            yield entry.data_file


def _identities(deletes: Iterable[DeleteFile]) -> set[Any]:
    return {d.identity for d in deletes}


def _all_rows(task: ScanTask) -> PositionBitmap:
    return PositionBitmap.from_range(0, task.data_file.record_count)


def _hidden(context: ReadContext, task: ScanTask) -> PositionBitmap:
    if any(d.kind == "equality-delete" for d in task.delete_files):
        return deleted_positions(context, task)
    return positions_in_file(context.loader.positions(task), task.data_file)


def _nothing_in_common(branch: str, found: str) -> InvalidInputError:
    message = "it is unknown what the branches had in common when the branch started or was last promoted"
    ways = f"merge the rows by hand; if the target has no rows of its own, set_current_snapshot(table, ref={branch!r})"
    return InvalidInputError(
        message, "no-common-snapshot", "branch", f"{branch}: {found}", f"{ways}; then create the branch again"
    )


def _check(table: Table, branch: str, ref: str, mode: str) -> None:
    if mode not in ("merge-on-read", "copy-on-write"):
        raise InvalidInputError("unknown mode", "mode", "mode", mode, "merge-on-read or copy-on-write")
    check_request(table, ref)
    check_request(table, branch)
    if branch in (ref, MAIN) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", branch):
        raise InvalidInputError("not a staging branch", "ref", "branch", branch, f"another branch than {ref}")
    check_parquet_only(table.metadata, "write.format.default", "write.delete.format.default")
