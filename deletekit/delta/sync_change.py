"""Plan and make one change of the Iceberg table that brings it to one version of the Delta table.

States are compared, not actions: what the table has with what the version has. Equal files stay untouched. A changed
vector never changes its data file's entry. Before the commit, the planned counts are compared with Delta's.

The change is planned on the head of the base. It writes delete files and commits nothing. After a lost race it is
planned again.
Spec: Delta protocol, "Action Reconciliation"; Iceberg, "Snapshots", "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cached_property

import numpy as np
import pyarrow.parquet as pq

from deletekit.commit.change import Base, RowDelta
from deletekit.delta.actions import AddFile, RemoveFile
from deletekit.delta.convert_vectors import VECTOR_ID, VectorJob, VectorMode, check_empty, convert_vectors, referred_id
from deletekit.delta.data_files import DataFiles
from deletekit.delta.log import DeltaCommit, DeltaLog, DeltaState
from deletekit.delta.paths import storage_path
from deletekit.delta.row_ids import can_carry, least_sequence_number
from deletekit.delta.sync_state import KnownFile, SyncState
from deletekit.delta.synced_table import (
    DELTA_TABLE_ID,
    DELTA_TIMESTAMP,
    DELTA_VERSION,
    Watermark,
    evolving_updates,
    schema_for,
    watermark_of,
)
from deletekit.engines.local import LocalEngine
from deletekit.errors import FormatError, InvalidInputError, is_storage_failure
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.file_io import FileIO, read_puffin_footer, reads_at_a_time
from deletekit.table.metadata_update import apply_updates
from deletekit.table.own_places import DELTA_LOCATION
from deletekit.table.snapshot import LiveFiles

_TOTALS = {
    ManifestContent.DATA: ("total-data-files", "total-records"),
    ManifestContent.DELETES: ("total-delete-files", "total-position-deletes"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """The arguments of `sync_delta`; the last eight are its `SyncOptions`."""

    version: int | None
    format_version: int | None
    vector_mode: VectorMode
    commits: str
    time_zone: tzinfo
    verify: bool = False
    force: bool = False
    dry_run: bool = False
    location: str | None = None
    delete_directory: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    commit_properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SyncChange:
    """The change to a version.

    Attributes
    ----------
    before: where the table is; None if every file must be compared.
    known: the state that the last sync left, if `state` was resumed from it. Then only what changed since is read.
    """

    log: DeltaLog
    state: DeltaState
    before: Watermark | None
    known: SyncState | None = None
    directory: str
    request: SyncRequest

    @cached_property
    def commits(self) -> tuple[DeltaCommit, ...] | None:
        """Return what Delta committed since `before`, or None if some of it is gone."""
        if self.before is None or not self.log.has_commits(self.before.version + 1, self.state.version):
            return None
        return tuple(self.log.commits(self.before.version + 1, self.state.version))

    @property
    def changes(self) -> list[AddFile | RemoveFile]:
        """Return the actions about data files since `before`."""
        return [change for commit in self.commits or () for change in commit.changes]

    def summary(self) -> dict[str, str]:
        """Return the entries of the snapshot's summary."""
        state = self.state
        out = {DELTA_VERSION: str(state.version), DELTA_TABLE_ID: state.metadata.id, DELTA_LOCATION: self.log.root}
        timestamp = self.log.timestamp_ms(self.state.version)
        if timestamp is not None:
            out[DELTA_TIMESTAMP] = str(timestamp)
        return {**self.request.commit_properties, **out}

    def build(self, base: Base) -> RowDelta:
        """Plan the change on the head of the base, and write its delete files. Raise as `sync_delta` does."""
        metadata = base.metadata
        schema = schema_for(self.state.metadata, metadata)
        updates = evolving_updates(metadata, schema, self.log.root, self.directory)
        if updates:
            base.write.metadata = metadata = apply_updates(metadata, updates)
        self._check_checksum()
        if self.known is not None:
            base.reader.searched = self.known.manifests_of(self.changes)
        wanted = _wanted_files(self.state, self.log.root)
        if (touched := self._touched()) is not None:  # what a resumed replay did not change is as the table has it
            touched -= {path for path, add in wanted.items() if isinstance(add, KnownFile)}
        plan = _plan_sync(base, self.log.root, wanted, touched)
        for path, add in wanted.items():
            if add.deletion_vector is not None and not add.deleted and (touched is None or path in touched):
                check_empty(base.table.io, add.deletion_vector, path, self.log.root, self.state.version)
        if not (plan.added or plan.removed or plan.vectors or plan.removed_deletes):
            self._check_counters(base, plan, wanted, {})
            return RowDelta()
        zone = self.request.time_zone
        files = DataFiles(io=base.table.io, schema=schema, spec_id=metadata.spec.spec_id, time_zone=zone)
        each = LocalEngine(reads_at_a_time(self.log.root)).map
        entries = list(each(lambda path: files.entry(plan.added[path], path), list(plan.added)))
        added = dict(zip(plan.added, entries, strict=True))
        self._check_counters(base, plan, wanted, {path: file.record_count for path, file in added.items()})
        carried = frozenset(added) if schema.carries_row_ids else frozenset()
        if schema.carries_row_ids and not (
            self._is_own(base, entries) and can_carry(wanted, added.values(), plan.kept)
        ):
            plain = schema_for(self.state.metadata, metadata, row_ids=False)
            more = evolving_updates(metadata, plain, self.log.root, self.directory)
            base.write.metadata = apply_updates(metadata, more)
            updates, carried = (*updates, *more), frozenset()
        deletes = self._deletes(base, plan, added)
        return RowDelta(
            added_data_files=tuple(added.values()),
            with_row_ids=carried,
            least_sequence_number=least_sequence_number(self.state.metadata, self.state.version),
            removed_data_files=tuple(plan.removed),
            added_delete_files=tuple(deletes),
            removed_delete_files=tuple(plan.removed_deletes),
            operation=self._operation(plan, added.values(), deletes),
            metadata_updates=updates,
            merges_manifests=True,
        )

    def _is_own(self, base: Base, added: Iterable[DataFile]) -> bool:
        """Return whether only syncs have added rows to the table, and no replaced table gives out its ids again."""
        found = watermark_of(base.metadata, base.snapshot)
        if base.snapshot is None or found is None or found.foreign is not None:
            return base.snapshot is None
        is_same = found.table_id == self.state.metadata.id
        return is_same or all((file.first_row_id or 0) >= base.metadata.next_row_id for file in added)

    def _touched(self) -> set[str] | None:
        """Return the storage paths in the commits since `before`, or None if every file must be compared."""
        if self.before is None or self.before.rewritten or self.commits is None:
            return None
        return {storage_path(change.path, self.log.root) for change in self.changes}

    def _deletes(self, base: Base, plan: _SyncPlan, added: Mapping[str, DataFile]) -> list[DeleteFile]:
        jobs, version = [], self.state.version
        for path, add in plan.vectors.items():
            file = added[path] if path in added else plan.kept[path].data_file
            assert isinstance(file, DataFile)
            assert add.deletion_vector is not None
            jobs.append(VectorJob(descriptor=add.deletion_vector, data_file=file, root=self.log.root, version=version))
        mode: VectorMode = self.request.vector_mode if base.metadata.version.has_deletion_vectors else "position-delete"
        prefix = f"delta-{version:020d}"
        return convert_vectors(base.write, jobs, mode, self.directory, prefix)

    def _operation(self, plan: _SyncPlan, added: Iterable[DataFile], deletes: Sequence[DeleteFile]) -> str | None:
        """Return `replace` if Delta marks every commit as no data change and the row counts agree; else None."""
        if not plan.added or not plan.removed or deletes or self.commits is None:
            return None
        if any(change.data_change for change in self.changes):
            return None
        new, old = sum(f.record_count for f in added), _records(plan.removed) - _records(plan.removed_deletes)
        return "replace" if new == old else None

    def _check_checksum(self) -> None:
        """Compare the replayed state with the version checksum that Delta wrote, if there is one."""
        checksum = self.log.checksum(self.state.version)
        counts = self.state.counts
        counters = {
            "numFiles": counts.files,
            "numDeletedRecordsOpt": counts.deleted,
            "numDeletionVectorsOpt": counts.vectors,
        }
        for name, found in counters.items():
            expected = checksum.get(name)
            if isinstance(expected, int) and found != expected:
                file = f"{self.log.root}/_delta_log/{self.state.version:020d}.crc"
                message = "the Delta log and its version checksum disagree"
                raise FormatError(message, "delta-checksum", name, found, expected, file=file)

    def _check_counters(
        self, base: Base, plan: _SyncPlan, wanted: Mapping[str, AddFile], added_records: Mapping[str, int]
    ) -> None:
        """Refuse a plan that does not give as many live rows and deletes as Delta counts. Raise InvalidInputError.

        `added_records` are the rows of each data file that the plan adds. With a known state, rows are not counted: its
        files were compared when they were added.
        """
        data_files, data_records = _count(base, ManifestContent.DATA, self.known)
        delete_files, delete_records = _count(base, ManifestContent.DELETES, self.known)
        deleted = sum(add.deleted for add in plan.vectors.values())
        counts = {
            "data files": (data_files + len(plan.added) - len(plan.removed), self.state.counts.files),
            "deleted rows": (delete_records + deleted - _records(plan.removed_deletes), self.state.counts.deleted),
        }
        if self.known is None:
            logged = {path: add.num_records for path, add in wanted.items()}
            unknown = [path for path, number in logged.items() if number is None]
            known = {path: e.data_file.record_count for path, e in _live(base, unknown).items()} | dict(added_records)
            records = sum(known[path] if number is None else number for path, number in logged.items())
            rows = data_records + sum(added_records.values()) - _records(plan.removed)
            delete_files += len(plan.vectors) - len(plan.removed_deletes)
            vectors = sum(add.deleted > 0 for add in wanted.values())
            counts |= {"rows": (rows, records), "delete files": (delete_files, vectors)}
        for name, (found, expected) in counts.items():
            if found != expected:
                message = "the table would not have Delta's counts: someone else changed it, or the log is wrong"
                raise InvalidInputError(message, "delta-counters", name, found, expected)


# --- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _SyncPlan:
    """The differences, by storage path.

    `vectors` must be written for these data files, new and kept ones.
    """

    added: dict[str, AddFile] = field(default_factory=dict)
    kept: dict[str, ManifestEntry] = field(default_factory=dict)
    removed: list[ManifestEntry] = field(default_factory=list)
    vectors: dict[str, AddFile] = field(default_factory=dict)
    removed_deletes: list[ManifestEntry] = field(default_factory=list)


def _wanted_files(state: DeltaState, root: str) -> dict[str, AddFile]:
    """Return the data files of a version by storage path. Raise FormatError if two paths of the log are one file."""
    wanted: dict[str, AddFile] = {}
    for add in state.files.values():
        path = storage_path(add.path, root)
        if path in wanted:
            raise FormatError("a data file is live twice", kind="delta-log", file=path, field="path", found=add.path)
        wanted[path] = add
    return wanted


def _plan_sync(base: Base, root: str, wanted: Mapping[str, AddFile], touched: set[str] | None) -> _SyncPlan:
    """Compare the table with a version. `touched` is None if every file must be compared."""
    live = _live(base, touched)
    deletes, others = _deletes(base, touched)
    known_ids = _VectorIds(base.table.io)
    plan = _SyncPlan(removed_deletes=others)
    for path in sorted({*live, *wanted} if touched is None else touched):
        add, entry = wanted.get(path), live.get(path)
        own = deletes.pop(path, [])
        if add is None:
            if entry is not None:
                plan.removed.append(entry)
            plan.removed_deletes += own
            continue
        if entry is None:
            plan.added[path] = add
        else:
            _check_records(entry, add)
            plan.kept[path] = entry
            if known_ids.is_same(own, add, root):
                continue
        plan.removed_deletes += own
        if add.deleted:
            plan.vectors[path] = add
    plan.removed_deletes += [e for rest in deletes.values() for e in rest]
    return plan


class _VectorIds:
    """Find which Delta vector a delete file was made of. Each Puffin footer is read once."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._puffins: dict[str, dict[int, str | None]] = {}

    def is_same(self, entries: list[ManifestEntry], add: AddFile, root: str) -> bool:
        """Return whether the deletes of a data file are those of its add action."""
        if not add.deleted or add.deletion_vector is None:
            return not entries
        if len(entries) != 1 or entries[0].data_file.record_count != add.deleted:
            return False
        file = entries[0].data_file
        assert isinstance(file, DeleteFile)
        vector = add.deletion_vector
        if file.file_path == vector.file_path(root):
            return vector.offset is not None and file.content_offset == vector.offset
        known = self._id_of(file)
        return known in (vector.unique_id, referred_id(vector.file_path(root) or "", vector.offset or 0))

    def _id_of(self, file: DeleteFile) -> str | None:
        """Return the id that deletekit stored in the file, or None if there is none or the file cannot be read."""
        try:
            if not file.is_deletion_vector:
                with self._io.open(file.file_path) as source:
                    footer = pq.read_metadata(source).metadata or {}
                found = footer.get(VECTOR_ID.encode())
                return None if found is None else str(found.decode())
            if file.file_path not in self._puffins:
                blobs = read_puffin_footer(self._io, file.file_path).blobs
                self._puffins[file.file_path] = {b.offset: b.properties.get(VECTOR_ID) for b in blobs}
            return self._puffins[file.file_path].get(file.content_offset or 0)
        except (FormatError, OSError, ValueError) as e:
            if is_storage_failure(e):
                raise
            return None


def _records(entries: Iterable[ManifestEntry]) -> int:
    return sum(entry.data_file.record_count for entry in entries)


def _count(base: Base, content: ManifestContent, known: SyncState | None) -> tuple[int, int]:
    """Count the live files of a base, and their records. With a known state, the summary's totals count them."""
    if known is not None and base.snapshot is not None:
        files, records = _TOTALS[content]
        return int(base.snapshot.summary[files]), int(base.snapshot.summary[records])
    columns = list(base.reader.live_columns(base.snapshot, content)) if base.snapshot else []
    return sum(int(c.is_live.sum()) for c in columns), sum(int(c.record_count[c.is_live].sum()) for c in columns)


def _live(base: Base, paths: Iterable[str] | None) -> dict[str, ManifestEntry]:
    """Return live data files by path: all, or those with some paths."""
    if paths is not None:
        found = LiveFiles(base.reader, base.snapshot, ManifestContent.DATA).with_paths(paths)
        return {e.data_file.file_path: e for _, e in found}
    live = base.reader.live_entries(base.snapshot, ManifestContent.DATA) if base.snapshot else ()
    return {e.data_file.file_path: e for e in live}


def _deletes(base: Base, paths: set[str] | None) -> tuple[dict[str, list[ManifestEntry]], list[ManifestEntry]]:
    """Return live deletes by the data file they are about, and the deletes that are not about exactly one file."""
    by_path: dict[str, list[ManifestEntry]] = {}
    others: list[ManifestEntry] = []
    for columns in base.reader.live_columns(base.snapshot, ManifestContent.DELETES) if base.snapshot else ():
        rows = np.flatnonzero(columns.is_live)
        chosen = [paths is None or path in paths for path in columns.referenced(rows).to_pylist()]
        for entry in columns.entries(rows[np.array(chosen, np.bool_)]):
            assert isinstance(entry.data_file, DeleteFile)
            path = entry.data_file.referenced_data_file
            (others if path is None else by_path.setdefault(path, [])).append(entry)
    return by_path, others


def _check_records(entry: ManifestEntry, add: AddFile) -> None:
    """Refuse another row count for a known path. Data files never change, so it would be another file."""
    file, found = entry.data_file, add.num_records
    if found not in (None, file.record_count):
        message, expected = "the Delta log gives a data file another number of rows than before", file.record_count
        raise FormatError(message, "delta-num-records", "numRecords", found, expected, file=file.file_path)
