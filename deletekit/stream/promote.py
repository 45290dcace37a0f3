"""Promote what a staging branch changed since its last promotion to another branch, in one commit.

The target loses the rows that the branch lost since then, and gets those that the branch got. The two states of the
branch are compared, whatever was done between them. Rows that only the target has, because it was compacted or others
wrote there, are removed if the branch touched their key. Equality deletes of the branch arrive as positions.

The last promotion is the newest snapshot of the branch that the target knows: a common one, or one that a promotion in
the target's history names. The tag `deletekit-promoted-<branch>` keeps it from expiring.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.commit.change import Base, ReadSet, RefUpdate, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.keys import distinct_keys
from deletekit.deletes.merge_previous_deletes import FilePositions, HiddenRows, write_positions
from deletekit.deletes.rewrite import rewrite_data_files
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.write_context import check_parquet_only
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DataFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.public import public
from deletekit.stream.applied_batches import tag_update
from deletekit.stream.batch_delta import by_position
from deletekit.stream.branch_difference import Difference, difference, key_positions, keys_at
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.sink_batches import PROMOTED_BRANCH, PROMOTED_SNAPSHOT, promoted_snapshot
from deletekit.table.snapshot import without_first_row_id
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import (
    ensure_unpartitioned_spec,
    equality_fields_of,
    partitionable,
    specs_in_use,
    write_key_deletes,
)

PromotionMode = Literal["merge-on-read", "copy-on-write"]
_PLANS_BY_POSITION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What `promote` did.

    Attributes
    ----------
    snapshot_id: the snapshot of the branch that the target has now; previous_snapshot_id: the one that it had before.
    added_rows, deleted_rows: rows of the branch that were added to the target, and rows of the target that were
        removed.
    fell_back: rows of the target were deleted by value in the end, because others kept committing.
    commit: None if there was nothing to do.
    """

    snapshot_id: int
    previous_snapshot_id: int
    added_rows: int = 0
    deleted_rows: int = 0
    fell_back: bool = False
    commit: Commit | None = None


@public
def promote(
    table: Table,
    branch: str,
    *,
    ref: str = MAIN,
    equality_fields: str | Sequence[str] | None = None,
    mode: PromotionMode = "merge-on-read",
    reset: bool = False,
    engine: Engine | None = None,
) -> Promotion:
    """Promote what a staging branch changed since its last promotion to another branch, in one commit.

    Parameters
    ----------
    branch: the staging branch.
    ref: the target branch.
    equality_fields: the key columns; default the schema's identifier fields. They are needed to find rows again: if
        `ref` has data files that the branch did not have.
    mode: `merge-on-read` adds the data files of the branch, and hides by position the rows that are not live;
        `copy-on-write` rewrites data files, and leaves no delete file on `ref`.
    reset: also move the branch to the new head of `ref` in the same commit, so that it does not grow forever.
    engine: where data files are read.

    A row keeps its `_row_id` if its data file stores it, as updated rows do; otherwise `ref` gives it a new one. After
    several races lost to compaction, old rows are deleted by value, which stays right whatever was compacted.

    Raises NotFoundError for a missing branch; InvalidInputError of kind `no-common-snapshot` for branches that have
    nothing in common any more; CommitConflictError, CommitStateUnknownError as every commit.
    """
    _check(table.refresh(), branch, ref, mode)
    fields = _key_fields(table, equality_fields)
    if fields and mode == "merge-on-read" and not partitionable(table.metadata, fields):
        ensure_unpartitioned_spec(table)
    run = _Promote(branch, fields, mode, reset, engine_or_default(engine))
    done = commit(plan_change(table, run.build, ref=ref))
    assert run.report is not None
    return replace(run.report, commit=done if done.snapshot_id is not None else None)


def promoted_tag(branch: str) -> str:
    """Return the name of the tag on the snapshot that was last promoted from a branch."""
    return f"deletekit-promoted-{branch}"


@dataclass(slots=True)
class _Promote:
    """One call of `promote`. After a lost race it is planned again from the start."""

    branch: str
    fields: tuple[NestedField, ...]
    mode: PromotionMode
    reset: bool
    engine: Engine
    plans: int = 0
    report: Promotion | None = field(default=None)

    def build(self, base: Base) -> RowDelta:
        """Plan the promotion on the head of an base."""
        self.plans += 1
        metadata = base.metadata
        head = metadata.snapshot_of_ref(self.branch)
        assert head is not None  # checked: the branch is there, and is not an empty main
        start = _last_promoted(metadata, base.snapshot, head, self.branch)
        self.report = Promotion(snapshot_id=head.snapshot_id, previous_snapshot_id=start.snapshot_id)
        if start.snapshot_id == head.snapshot_id:
            return RowDelta()
        found = difference(base, start, head, self.engine)
        falls_back = self.plans > _PLANS_BY_POSITION and self.mode == "merge-on-read" and bool(self.fields)
        if self.mode == "copy-on-write":
            delta = self._copied(base, found)
        elif falls_back:
            delta = self._by_value(base, found)
        else:
            delta = self._by_position(base, found)
        self.report = replace(
            self.report,
            added_rows=sum(s.task.data_file.record_count - len(s.positions) for s in found.new_files),
            fell_back=falls_back,
        )
        summary = {PROMOTED_BRANCH: self.branch, PROMOTED_SNAPSHOT: str(head.snapshot_id)}
        refs = [tag_update(metadata, promoted_tag(self.branch), head.snapshot_id)]
        if self.reset:
            refs.append(RefUpdate(name=self.branch, type="branch", found=head.snapshot_id))
        delta = replace(delta, summary=summary, refs=tuple(refs))
        return replace(delta, read_set=ReadSet()) if falls_back else delta

    def _by_position(self, base: Base, found: Difference) -> RowDelta:
        hidden_rows = self._rows_to_hide(found)
        delta = by_position(base, hidden_rows)
        files, hidden = _staged(found)
        return replace(
            delta,
            added_data_files=files,
            added_delete_files=(*delta.added_delete_files, *write_positions(base.write, hidden)),
        )

    def _by_value(self, base: Base, found: Difference) -> RowDelta:
        files, hidden = _staged(found)
        keys = self._touched(found)
        deletes = write_key_deletes(base.write, specs_in_use(base), keys, self.fields, None) if len(keys) else []
        return RowDelta(added_data_files=files, added_delete_files=(*deletes, *write_positions(base.write, hidden)))

    def _copied(self, base: Base, found: Difference) -> RowDelta:
        hidden_rows = {k.task.data_file.file_path: k for k in self._rows_to_hide(found)}
        old = [t for p, t in found.target_files.items() if p in hidden_rows or t.deletes]
        none = PositionBitmap()
        again = [(t, hidden_rows[p].positions if (p := t.data_file.file_path) in hidden_rows else none) for t in old]
        again += [(s.task, none) for s in found.new_files if s.task.deletes]
        files = [f for task, gone in again for f in rewrite_data_files(found.context, base.write, [task], gone=gone)]
        files += [_new(s.task) for s in found.new_files if not s.task.deletes]
        deletes = base.reader.live_entries(base.snapshot, ManifestContent.DELETES) if base.snapshot else ()
        return RowDelta(
            added_data_files=tuple(files),
            removed_data_files=tuple(t.data for t in old),
            removed_delete_files=tuple(deletes),
        )

    def _rows_to_hide(self, found: Difference) -> list[HiddenRows]:
        """Return the target's rows that go: by position in files that the branch had, by key in all others."""
        gone = {path: k.positions for path, k in found.lost.items() if path in found.target_files}
        apart = [t for path, t in found.target_files.items() if path not in found.before]
        if apart:
            keys = self._touched(found)
            gone |= dict(key_positions(found.context, apart, keys, self.fields, self.engine))
        hidden_rows = []
        for path, positions in gone.items():
            hidden = found.hidden(found.target_files[path])
            new = positions - hidden
            if new:
                hidden_rows.append(HiddenRows(found.target_files[path], new, hidden))
        assert self.report is not None
        self.report = replace(self.report, deleted_rows=sum(len(k.positions) for k in hidden_rows))
        return hidden_rows

    def _touched(self, found: Difference) -> pa.Table:
        """Return the keys of all rows that came or went on the branch, and of its new equality deletes."""
        if not self.fields:
            raise InvalidInputError(
                "rows must be found by their key, but the schema has no identifier fields",
                kind="equality-key",
                field="equality_fields",
            )
        parts = [keys_at(found.context, k, self.fields) for k in found.lost.values()]
        for staged in found.new_files:
            rows = PositionBitmap(np.arange(staged.task.data_file.record_count))
            parts.append(keys_at(found.context, replace(staged, positions=rows - staged.positions), self.fields))
        parts += found.deleted_keys(self.fields)
        names = [str(f.field_id) for f in self.fields]
        # Arrow does not join the tables as they are: a key is required in data files and optional in delete files.
        return (
            distinct_keys(pa.concat_tables([pa.table(p.columns, names=names) for p in parts]))
            if parts
            else pa.table({})
        )


def _staged(found: Difference) -> tuple[tuple[DataFile, ...], list[FilePositions]]:
    kept = [s for s in found.new_files if len(s.positions) < s.task.data_file.record_count]
    hidden = [FilePositions(s.task.data_file, s.positions) for s in kept if s.positions]
    return tuple(_new(s.task) for s in kept), hidden


def _new(task: ScanTask) -> DataFile:
    file = without_first_row_id(task.data).data_file
    assert isinstance(file, DataFile)
    return file


def _last_promoted(metadata: TableMetadata, target: Snapshot | None, head: Snapshot, branch: str) -> Snapshot:
    known: set[int] = set()
    complete = True
    for snapshot in metadata.ancestors(target.snapshot_id if target else None):
        known.add(snapshot.snapshot_id)
        promoted = promoted_snapshot(snapshot)
        if promoted is not None and snapshot.summary.get(PROMOTED_BRANCH) == branch:
            known.add(promoted)
        complete = snapshot.parent_snapshot_id is None or snapshot.parent_snapshot_id in metadata.snapshots
    tag = metadata.refs.get(promoted_tag(branch))
    if tag is not None and not complete:
        known.add(int(tag["snapshot-id"]))
    for snapshot in metadata.ancestors(head.snapshot_id):
        if snapshot.snapshot_id in known:
            return snapshot
    raise InvalidInputError(
        "the branches have no snapshot in common: it expired, or one of them was moved",
        kind="no-common-snapshot",
        field="branch",
        found=branch,
    )


def _key_fields(table: Table, names: Sequence[str] | None) -> tuple[NestedField, ...]:
    chosen: Sequence[str] | Sequence[int] | None = names if names is not None else table.schema.identifier_field_ids
    return equality_fields_of(table.schema, chosen) if chosen else ()


def _check(table: Table, branch: str, ref: str, mode: str) -> None:
    if mode not in ("merge-on-read", "copy-on-write"):
        raise InvalidInputError(
            "unknown mode", kind="mode", field="mode", found=mode, expected="merge-on-read or copy-on-write"
        )
    check_request(table, ref)
    check_request(table, branch)
    if branch in (ref, MAIN) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", branch):
        raise InvalidInputError(
            "not a staging branch", kind="ref", field="branch", found=branch, expected=f"another branch than {ref}"
        )
    check_parquet_only(table.metadata, "write.format.default", "write.delete.format.default")
