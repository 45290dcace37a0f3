"""Make one change of the Iceberg table that brings it to one version of the Delta table.

The change is planned on the head of the base. It writes delete files and commits nothing. After a lost race it is
planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property

from deletekit.commit.change import Base, RowDelta
from deletekit.delta.convert_vectors import VectorJob, VectorMode, check_empty, convert_vectors
from deletekit.delta.data_files import DataFiles
from deletekit.delta.log import DeltaCommit, DeltaLog, DeltaState
from deletekit.delta.paths import storage_path
from deletekit.delta.sync_plan import SyncPlan, check_counters, plan_sync, wanted_files
from deletekit.delta.synced_table import (
    DELTA_LOCATION,
    DELTA_TABLE_ID,
    DELTA_TIMESTAMP,
    DELTA_VERSION,
    Watermark,
    evolving_updates,
    schema_for,
)
from deletekit.engines.local import Engine, LocalEngine
from deletekit.errors import FormatError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.table.metadata_update import apply_updates


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """The arguments of `sync_delta`; the last seven are its `SyncOptions`."""

    version: int | None
    format_version: int | None
    vector_mode: VectorMode
    commits: str
    time_zone: tzinfo
    check_data_files: bool = True
    force: bool = False
    location: str | None = None
    delete_directory: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    commit_properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SyncChange:
    """The change to a version. `before` is where the table is; None if every file must be compared."""

    log: DeltaLog
    state: DeltaState
    before: Watermark | None
    directory: str
    request: SyncRequest

    engine: Engine = field(default_factory=LocalEngine)

    @cached_property
    def commits(self) -> tuple[DeltaCommit, ...] | None:
        """Return what Delta committed since `before`, or None if some of it is gone."""
        if self.before is None or not self.log.has_commits(self.before.version + 1, self.state.version):
            return None
        return tuple(self.log.commits(self.before.version + 1, self.state.version))

    def summary(self) -> dict[str, str]:
        """Return the entries of the snapshot's summary."""
        out = {
            DELTA_VERSION: str(self.state.version),
            DELTA_TABLE_ID: self.state.metadata.id,
            DELTA_LOCATION: self.log.root,
        }
        timestamp = self.log.timestamp_ms(self.state.version)
        if timestamp is not None:
            out[DELTA_TIMESTAMP] = str(timestamp)
        return {**self.request.commit_properties, **out}

    def build(self, base: Base) -> RowDelta:
        """Plan the change on the head of an base, and write its delete files. Raise as `sync_delta` does."""
        metadata = base.metadata
        schema = schema_for(self.state.metadata, metadata)
        updates = evolving_updates(metadata, schema, self.log.root)
        if updates:
            metadata = apply_updates(metadata, updates)
            base.write.metadata = metadata
        self._check_checksum()
        wanted = wanted_files(self.state, self.log.root)
        plan = plan_sync(base, base.table.io, self.log.root, wanted, self._touched())
        for path, add in plan.empty.items():
            assert add.deletion_vector is not None
            check_empty(base.table.io, add.deletion_vector, path, self.log.root, self.state.version)
        if plan.is_empty:
            check_counters(base, plan, wanted, {}, 0)
            return RowDelta()
        files = DataFiles(
            io=base.table.io,
            schema=schema,
            spec_id=metadata.spec.spec_id,
            time_zone=self.request.time_zone,
            check_size=self.request.check_data_files,
        )
        pairs = list(plan.added.items())
        added = {
            path: file
            for (path, _), file in zip(
                pairs, self.engine.map(lambda pair: files.entry(pair[1], pair[0]), pairs), strict=True
            )
        }
        records = {path: file.record_count for path, file in added.items()}
        check_counters(base, plan, wanted, records, sum(a.deleted for a in plan.vectors.values()))
        deletes = self._deletes(base, plan, added)
        return RowDelta(
            added_data_files=tuple(added.values()),
            removed_data_files=tuple(plan.removed),
            added_delete_files=tuple(deletes),
            removed_delete_files=tuple(plan.removed_deletes),
            operation=self._operation(plan, added.values(), deletes),
            metadata_updates=updates,
        )

    def _touched(self) -> set[str] | None:
        """Return the storage paths in the commits since `before`, or None if every file must be compared."""
        if self.before is None or self.before.rewritten or self.commits is None:
            return None
        return {storage_path(path, self.log.root) for commit in self.commits for path in commit.paths}

    def _deletes(self, base: Base, plan: SyncPlan, added: Mapping[str, DataFile]) -> list[DeleteFile]:
        jobs, version = [], self.state.version
        for path, add in plan.vectors.items():
            file = added[path] if path in added else plan.kept[path].data_file
            assert isinstance(file, DataFile)
            assert add.deletion_vector is not None
            jobs.append(VectorJob(descriptor=add.deletion_vector, data_file=file, root=self.log.root, version=version))
        mode: VectorMode = self.request.vector_mode if base.metadata.version.has_deletion_vectors else "position-delete"
        prefix = f"delta-{version:020d}"
        return convert_vectors(base.write, jobs, mode, self.directory, prefix, self.engine)

    def _operation(self, plan: SyncPlan, added: Iterable[DataFile], deletes: Sequence[DeleteFile]) -> str | None:
        """Return `replace` if Delta marks every commit as no data change and the row counts agree; else None."""
        if not plan.added or not plan.removed or deletes or self.commits is None:
            return None
        if any(commit.changes_data for commit in self.commits):
            return None
        new = sum(f.record_count for f in added)
        old = sum(e.data_file.record_count for e in plan.removed)
        hidden = sum(e.data_file.record_count for e in plan.removed_deletes)
        return "replace" if new == old - hidden else None

    def _check_checksum(self) -> None:
        """Compare the replayed state with the version checksum that Delta wrote, if there is one."""
        checksum = self.log.checksum(self.state.version)
        files = self.state.files.values()
        counters = {
            "numFiles": len(files),
            "numDeletedRecordsOpt": sum(a.deleted for a in files),
            "numDeletionVectorsOpt": sum(1 for a in files if a.deletion_vector is not None),
        }
        for name, found in counters.items():
            expected = checksum.get(name)
            if isinstance(expected, int) and found != expected:
                raise FormatError(
                    "the Delta log and its version checksum disagree",
                    kind="delta-checksum",
                    file=f"{self.log.root}/_delta_log/{self.state.version:020d}.crc",
                    field=name,
                    found=found,
                    expected=expected,
                )
