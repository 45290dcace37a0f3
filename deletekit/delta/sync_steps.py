"""Commit the versions of a Delta table one after the other, each on the head that the Iceberg table has then.

A step continues from the state that the last one left, if that is the state of the table's head; else it compares
everything. After a lost race it is planned again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import Commit, commit, commit_metadata
from deletekit.delta.log import DeltaLog, DeltaState
from deletekit.delta.sync_change import SyncChange, SyncRequest
from deletekit.delta.sync_state import SyncState, next_state, read_state, whole_state, write_state
from deletekit.delta.synced_table import (
    Watermark,
    check_same_delta,
    checked_watermark,
    evolving_updates,
    head_property,
    schema_for,
    watermark_of,
)
from deletekit.errors import DeletekitError
from deletekit.log import tell
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.summary_counters import TOTALS
from deletekit.table.table import Table
from deletekit.verbs.shared.guards import Guards


def versions_to_commit(
    log: DeltaLog, before: Watermark | None, wanted: int, commits: str, *, verify: bool
) -> Sequence[int]:
    """List the versions to commit. With `verify`, also the one that the table is at: its counts are proven then."""
    if before is not None and before.version == wanted:
        return [wanted] if verify else []
    if before is None or commits == "coalesce":
        return [wanted]
    return [v for v in range(before.version + 1, wanted) if log.constructable(v)] + [wanted]


def resumed_state(table: Table, log: DeltaLog, directory: str, wanted: int, request: SyncRequest) -> SyncState | None:
    """Return the state that the last sync left, if it can be used. The log then continues from it."""
    head = table.metadata.current_snapshot
    found = watermark_of(table.metadata, head)
    if head is None or found is None or found.foreign is not None or found.rewritten:
        return None
    if request.force or request.verify or found.version > wanted or not log.has_commits(found.version + 1, wanted):
        return None
    if not all(head.summary.get(name, "").isdecimal() for name in TOTALS):
        return None
    known = read_state(table.io, directory, head.snapshot_id, found.version, log)
    return known if known is not None and known.resume(log, log.commits(found.version + 1, wanted)) else None


@dataclass(slots=True, kw_only=True)
class SyncSteps:
    """Commit one version after the other, each on the head that the table has then.

    `started_on` is the table's metadata before the first commit. `overtaken` is the later version that another sync has
    brought the table to meanwhile, else -1. `delta` is what a dry run planned.
    """

    table: Table
    log: DeltaLog
    directory: str
    request: SyncRequest
    started_on: TableMetadata
    known: SyncState | None = None
    overtaken: int = -1
    delta: RowDelta = field(default_factory=RowDelta)

    def commit(self, version: int) -> Commit:
        """Commit a version, planned again for as long as others commit between the plan and its record."""
        while (done := self._attempt(version)) is None:
            pass
        return done

    def _attempt(self, version: int) -> Commit | None:
        """Commit a version. Return None if no snapshot was needed, and the table then was not at the planned head."""
        state, is_stale = self.log.state(version), False
        planned: tuple[Base, SyncChange] | None = None

        def build(base: Base) -> RowDelta:
            nonlocal planned, state
            metadata = base.metadata
            if self._is_overtaken(metadata, version):
                planned = None
                return RowDelta()
            head = None if base.snapshot is None else base.snapshot.snapshot_id
            if self.known is not None and self.known.snapshot_id != head:
                self.known = None
                self.log.forget()
                state = self.log.state(version)
            before = checked_watermark(metadata, self.log, version, force=self.request.force)
            planned = base, self._change(state, before)
            return planned[1].build(base)

        def updates(metadata: TableMetadata) -> Sequence[Mapping[str, object]]:
            nonlocal is_stale
            found = self._record(metadata, state, planned)
            is_stale = found is None
            return found or ()

        dry_run, check = self.request.dry_run, Guards().readable(self.table.properties)
        summary = self._change(state, None).summary()
        found = plan_change(self.table, build, properties=summary, check=check, dry_run=dry_run)
        if dry_run:
            assert isinstance(found.delta, RowDelta)
            self.delta = found.delta
            return Commit()
        done = commit(found)
        if done.snapshot_id is None:
            # No snapshot was needed, but the version has changed, and maybe the schema or a property.
            commit_metadata(self.table, updates, unchanged_refs=[MAIN])
        if is_stale:
            return None
        if planned is not None:
            try:
                self._remember(*planned, done.snapshot_id)
            except DeletekitError as e:  # the commit is made: the next sync reads everything
                tell("sync-state", level=logging.WARNING, table=self.table.name, error=str(e))
                self.known = None
                self.log.forget()
        return done

    def _change(self, state: DeltaState, before: Watermark | None) -> SyncChange:
        return SyncChange(
            log=self.log,
            state=state,
            before=before,
            known=self.known,
            directory=self.directory,
            request=self.request,
        )

    def _record(
        self, metadata: TableMetadata, state: DeltaState, planned: tuple[Base, SyncChange] | None
    ) -> Sequence[Mapping[str, object]] | None:
        """Return the updates that record a version without a snapshot; None if others changed the table."""
        if self._is_overtaken(metadata, state.version):
            return ()
        head = metadata.current_snapshot
        if planned is None or head != planned[0].snapshot:
            return None
        more = evolving_updates(metadata, schema_for(state.metadata, metadata), self.log.root, self.directory)
        at = watermark_of(metadata, head)
        if at is not None and at.version > state.version and not self.request.force:
            return None
        if at is not None and at.version == state.version:
            return more
        moved = head_property(head, state.version, state.metadata.id)
        return (*more, {"action": "set-properties", "updates": moved})

    def _remember(self, base: Base, change: SyncChange, snapshot_id: int | None) -> None:
        """Keep the state for the next version, and write it for the next sync."""
        metadata = self.table.metadata
        head = base.snapshot if snapshot_id is None else metadata.snapshots.get(snapshot_id)
        if head is None:
            return
        before, reader = self.known, SnapshotReader(self.table.io, metadata)
        reader.know(head.snapshot_id, base.reader.manifests(head))
        if before is None or base.snapshot is None:
            left = whole_state(change.state, self.log, reader, head)
        else:
            left = next_state(before, change.state, self.log, change.changes, reader, head)
        write_state(self.table.io, self.directory, left, before)
        self.known = left

    def _is_overtaken(self, metadata: TableMetadata, version: int) -> bool:
        """Return whether another sync has taken the table further since this one began."""
        began, found = (watermark_of(m, m.current_snapshot) for m in (self.started_on, metadata))
        if self.request.version is not None or found is None or found.foreign is not None:
            return False
        if found.version <= version or (began is not None and found.version <= began.version):
            return False
        check_same_delta(found, self.log, version)
        self.overtaken = found.version
        return True
