"""Keep a table in shape while a sink writes to it: after a batch, in the same process, in commits of their own.

No commit of maintenance has the marker of a batch. So it may fail, be killed or be lost at any point, and every batch
is still applied exactly once. A failure never fails the batch: it is logged, and the next round tries again.

Data files of about one size are written as one as soon as there are enough of them. So a row is written again only a
few times, however large the table gets, and there are few files of each size.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import check_same_table, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext
from deletekit.deletes.rewrite import live_share
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import Scope, referenced_path, scope_of
from deletekit.errors import CommitConflictError
from deletekit.formats.content_file import FileContent
from deletekit.formats.manifest_list import ManifestContent
from deletekit.log import tell
from deletekit.maintenance.compact import compact_groups
from deletekit.maintenance.expire_snapshots import ExpiryRequest, expire_only, expire_snapshots, plan_expiry
from deletekit.maintenance.head_files import Head
from deletekit.maintenance.rewrite_position_deletes import rewrite_position_deletes
from deletekit.stream.batch_delta import by_position
from deletekit.stream.key_index import kept_keys
from deletekit.stream.sink_options import Maintain
from deletekit.stream.sink_state import SinkState
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.properties import value_of
from deletekit.table.sinks.batches import SINK_ID, history
from deletekit.table.snapshot import SnapshotReader
from deletekit.tools.schema import set_properties

_MAINTAINED = "deletekit.maintained-by"
_DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
_GOOD_SIZE = 0.75
_ROUND_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """What a sink did to its table after a batch.

    Attributes
    ----------
    rewritten_data_files, added_data_files: data files that were replaced, and those with their live rows.
    converted_delete_files: equality delete files that were replaced by positions.
    rewritten_delete_files: position delete files of whole partitions that were replaced.
    expired_snapshots: snapshots that were removed.
    commits: how many commits it took.
    duration_ms: how long it took.
    failed: why it ended early; None if it did not.
    """

    rewritten_data_files: int = 0
    added_data_files: int = 0
    converted_delete_files: int = 0
    rewritten_delete_files: int = 0
    expired_snapshots: int = 0
    commits: int = 0
    duration_ms: int = 0
    failed: str | None = None


def after_batch(state: SinkState) -> Maintenance | None:
    """Maintain the table if it is time. Return what was done; None if it was not time.

    Call it once after each batch that this sink committed. It raises nothing that the table or the catalog is the
    reason of.
    """
    policy = state.options.policy
    if policy is None:
        return None
    try:
        state.batches = _batches_since(state, policy.every) if state.batches is None else state.batches + 1
    except Exception as e:  # noqa: BLE001  # the batch is in the table, whatever happens now
        _tell_failure(state, e)
        return None
    if state.batches < policy.every:
        return None
    state.batches = 0
    return _Round(state, policy).run()


class _Round:
    """One call of maintenance. Each step is a commit, and the next step starts from what it left."""

    def __init__(self, state: SinkState, policy: Maintain) -> None:
        self._state, self._policy = state, policy
        self._properties = {_MAINTAINED: state.options.sink_id}
        self._done = Maintenance()

    def run(self) -> Maintenance:
        started, failed = time.monotonic(), None
        try:
            for step in (self._convert, self._compact, self._merge_deletes, self._expire, self._limit_metadata):
                step()
        except Exception as e:  # noqa: BLE001  # the batch is in the table, whatever happens now
            failed = str(e)
            _tell_failure(self._state, e)
        duration = int((time.monotonic() - started) * 1000)
        done = replace(self._done, duration_ms=duration, failed=failed)
        facts = {name: getattr(done, name) for name in Maintenance.__slots__ if getattr(done, name)}
        tell(
            "maintenance",
            table=self._state.table.name,
            ref=self._state.options.ref,
            sink=self._state.options.sink_id,
            **facts,
        )
        return done

    def _convert(self) -> None:
        if not self._policy.convert or not self._count(FileContent.EQUALITY_DELETES):
            return
        done = convert_by_index(self._state, self._properties)
        removed = [f for f in done.removed_delete_files if f.kind == "equality-delete"]
        self._note(done, converted_delete_files=len(removed))

    def _compact(self) -> None:
        state, (reader, metadata, head) = self._state, self._head()
        context = ReadContext(state.table.io, metadata)
        groups = groups_to_compact(plan_scan(metadata, head, reader), context, self._policy)
        if not groups:
            return
        paths = [[task.data_file.file_path for task in group] for group in groups]
        keep = () if state.index is None else tuple(f.field_id for f in state.index.fields)
        done, kept = compact_groups(
            state.table,
            paths,
            ref=state.options.ref,
            engine=state.engine,
            commit_properties=self._properties,
            keep=keep,
        )
        if state.index is not None:
            state.index.announce({path: kept_keys(rows) for path, rows in kept.items()})
        self._note(
            *done.commits,
            rewritten_data_files=len(done.rewritten_data_files),
            added_data_files=len(done.added_data_files),
        )

    def _merge_deletes(self) -> None:
        state, few = self._state, self._policy.min_small_files
        if self._count(FileContent.POSITION_DELETES) < few:
            return
        done = rewrite_position_deletes(
            state.table,
            ref=state.options.ref,
            engine=state.engine,
            commit_properties=self._properties,
            min_input_files=few,
        )
        self._note(done.commit or Commit(), rewritten_delete_files=len(done.rewritten_delete_files))

    def _expire(self) -> None:
        state, keep = self._state, self._policy.expire
        if keep is None:
            return
        _, metadata, head = self._head()
        if isinstance(keep, str):
            self._expire_own(metadata)
            return
        known = metadata.ancestors(head.snapshot_id if head else None)
        if sum(1 for _ in known) < 2 * keep:
            return
        now = max(time.time_ns() // 1_000_000, *(s.timestamp_ms + 1 for s in metadata.snapshots.values()))
        done = expire_snapshots(state.table, older_than=now, retain_last=keep, engine=state.engine)
        self._done = replace(self._done, expired_snapshots=len(done.snapshot_ids))

    def _expire_own(self, metadata: TableMetadata) -> None:
        """Expire what the table's policy gives up and the sink has made.

        An expiry reads what all other snapshots lead to. So it waits until it removes as many as stay.
        """
        state = self._state
        if not value_of(metadata.properties, "gc.enabled"):
            return
        old = plan_expiry(metadata, ExpiryRequest()).snapshots
        own = [
            s.snapshot_id for s in old if state.options.sink_id in (s.summary.get(SINK_ID), s.summary.get(_MAINTAINED))
        ]
        if own and 2 * len(own) >= len(metadata.snapshots):
            done = expire_only(state.table, own, state.engine)
            self._done = replace(self._done, expired_snapshots=len(done.snapshot_ids))

    def _limit_metadata(self) -> None:
        """Let commits remove earlier metadata files, unless the table decides it. Each file has all snapshots."""
        table, most = self._state.table.refresh(), self._policy.metadata_files
        wanted = {_DELETE_AFTER_COMMIT: "true", _PREVIOUS_VERSIONS: str(most)}
        if (
            most is not None
            and not wanted.keys() & table.properties.keys()
            and value_of(table.properties, "gc.enabled")
        ):
            set_properties(table, wanted)

    def _count(self, content: FileContent) -> int:
        """Count the equality deletes, or the position deletes that are not about one data file."""
        reader, _, head = self._head()
        count = 0
        for columns in reader.live_columns(head, ManifestContent.DELETES) if head is not None else ():
            rows = np.flatnonzero(columns.is_live & ~columns.is_vector & (columns.content == content))
            if content == FileContent.EQUALITY_DELETES:
                count += len(rows)
            else:
                count += sum(referenced_path(entry.data_file) is None for entry in columns.entries(rows))
        return count

    def _head(self) -> tuple[SnapshotReader, TableMetadata, Snapshot | None]:
        metadata = self._state.table.refresh().metadata
        return self._state.reader(metadata), metadata, metadata.snapshot_of_ref(self._state.options.ref)

    def _note(self, *commits: Commit, **counts: Any) -> None:
        made = sum(c.snapshot_id is not None for c in commits)
        self._done = replace(self._done, commits=self._done.commits + made, **counts)


def groups_to_compact(tasks: Iterable[ScanTask], context: ReadContext, policy: Maintain) -> list[tuple[ScanTask, ...]]:
    """Choose the data files of the table's partition spec to write again, those of one partition together.

    A file's level is the logarithm of its live rows. All files up to a level are written as one if the level has enough
    of them; what lower levels give counts as one. Files that have too many hidden rows go with them, or alone, not all
    in one round if they are large.
    """
    metadata = context.metadata
    good = _GOOD_SIZE * value_of(metadata.properties, "write.target-file-size-bytes")
    places: dict[Scope, list[tuple[ScanTask, float]]] = {}
    for task in tasks:
        if task.data_file.spec_id == metadata.spec.spec_id:
            places.setdefault(scope_of(task.data_file), []).append((task, _live_share(context, task)))
    due = _most_hidden([pair for files in places.values() for pair in files], policy.max_deletes_ratio)
    groups = []
    for files in places.values():
        small = [(task, share) for task, share in files if task.data_file.file_size_in_bytes < good]
        merged = _levelled(small, policy.min_small_files)
        chosen = due | {task.data_file.file_path for task in merged}
        group = tuple(task for task, _ in files if task.data_file.file_path in chosen)
        groups += [group] if group else []
    return groups


def _most_hidden(files: Sequence[tuple[ScanTask, float]], ratio: float) -> set[str]:
    """Return the paths of files that have too many hidden rows: the most hidden ones, an eighth of the rows of all.

    Rows of a large table that change evenly make all its files due at once, and the batch of that round would wait for
    all of them. Up to about a million rows are written in any case.
    """
    due = sorted(((share, t.data_file.record_count, t.data_file.file_path) for t, share in files if 1 - share >= ratio))
    room = max(_ROUND_ROWS, sum(share * rows for share, rows, _ in due) / 8)
    chosen: set[str] = set()
    for share, rows, path in due:
        if chosen and share * rows > room:
            break
        room -= share * rows
        chosen.add(path)
    return chosen


def _levelled(files: Sequence[tuple[ScanTask, float]], few: int) -> list[ScanTask]:
    """Return the files up to the highest level that is full; a level counts what the levels below it give."""
    levels: dict[int, list[ScanTask]] = {}
    for task, share in files:
        rows = max(task.data_file.record_count * share, 1.0)
        levels.setdefault(int(np.log(rows) / np.log(few)), []).append(task)
    merged: list[ScanTask] = []
    below: list[ScanTask] = []
    for _, found in sorted(levels.items()):
        below += found
        if len(found) + bool(merged) >= few:
            merged = list(below)
    return merged


def _live_share(context: ReadContext, task: ScanTask) -> float:
    """Return the share of rows that no delete by position hides. Delete files of whole partitions are read."""
    deletes = [d for d in task.delete_files if d.kind != "equality-delete"]
    if any(referenced_path(d) is None for d in deletes):
        return live_share(context, task)
    rows = task.data_file.record_count
    return max(0.0, 1 - sum(d.record_count for d in deletes) / rows) if rows else 0.0


def _batches_since(state: SinkState, most: int) -> int:
    """Count the sink's batches since the last maintenance, up to a number: another process may have written them."""
    count = 0
    metadata = state.table.metadata
    for snapshot in history(metadata, metadata.snapshot_of_ref(state.options.ref)):
        if snapshot.summary.get(_MAINTAINED) == state.options.sink_id or count >= most:
            break
        count += snapshot.summary.get(SINK_ID) == state.options.sink_id
    return count


def _tell_failure(state: SinkState, error: Exception) -> None:
    level = logging.INFO if isinstance(error, CommitConflictError) else logging.WARNING
    kind, place = getattr(error, "kind", None), {"ref": state.options.ref, "sink": state.options.sink_id}
    tell("maintenance-failed", level=level, kind=kind, error=str(error), table=state.table.name, **place)


def convert_by_index(state: SinkState, properties: Mapping[str, str] | None = None) -> Commit:
    """Convert with the index of a sink, as `convert`. `properties` are extra entries of the snapshot summary."""

    def build(base: Base) -> RowDelta:
        head = Head(base)
        deletes = [entry for entry, _ in head.deletes(FileContent.EQUALITY_DELETES)]
        if not deletes:
            return RowDelta()
        new = state.with_index(base, lambda index: list(index.hidden_by_value()))
        delta = by_position(base, new)
        return replace(delta, removed_delete_files=(*delta.removed_delete_files, *deletes), operation="replace")

    with state.lock:
        check_same_table(state.table.refresh(), state.table_uuid)
        return commit(
            plan_change(state.table, build, ref=state.options.ref, properties=properties, reader=state.reader)
        )
