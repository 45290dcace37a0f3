"""Read one snapshot's manifests and entries, each when it is needed, and find its live files by path.

Deletes come only from the chosen snapshot's manifest list (spec "Scan Planning").
"""

import json
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deletekit.deferred import pc
from deletekit.errors import UNREADABLE, DeletekitError, FormatError, StorageError, UnsupportedError
from deletekit.formats.content_file import EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns, MetricsCache, Rows, text_array
from deletekit.formats.manifest_list import COUNTS, ManifestContent, ManifestFile, read_manifest_list
from deletekit.formats.manifests import Manifest, counted, inherit, read_manifest
from deletekit.table.file_io import FileIO, is_remote, reads_at_a_time
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.partition import with_current_decimals
from deletekit.table.row_counts import with_true_counts

# What the strict decoder takes about as long for as polars takes to be imported.
_WORTH_POLARS_BYTES = 1 << 19
_WORTH_COLUMNS_BYTES = 1 << 14
_Key = tuple[str, int | None, int, int]
LiveFile = tuple[ManifestFile, ManifestEntry]
Keeps = Callable[[ManifestFile], bool] | None
"""Tells which manifests to read; None: all."""


class SnapshotReader:
    """Manifests and entries of a table's snapshots. Decoded manifests are kept while the reader lives.

    Small tables are decoded entry by entry, and from some size on columns with polars; the answers are the same.
    """

    def __init__(self, io: FileIO, metadata: TableMetadata) -> None:
        self._io = io
        self._metadata = metadata
        self._lists: dict[int, tuple[ManifestFile, ...]] = {}
        self._entries: dict[_Key, tuple[ManifestEntry, ...]] = {}
        self._columns: dict[_Key, ManifestColumns] = {}
        self._metrics = MetricsCache()
        self._listed_bytes = 0
        self.searched: frozenset[str] | None = None
        """Paths of the only manifests that may hold the files in question, if that is known; others are not opened."""

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """Return the manifest list, in file order. Raises FormatError, NotFoundError."""
        if snapshot.snapshot_id not in self._lists:
            self._lists[snapshot.snapshot_id] = self._read_list(snapshot)
            self._listed_bytes += sum(m.manifest_length for m in self._lists[snapshot.snapshot_id])
        return self._lists[snapshot.snapshot_id]

    def know(self, snapshot_id: int, manifests: Iterable[ManifestFile]) -> None:
        """Keep the manifest list of a snapshot that was just written, so that it is not read back."""
        self._lists[snapshot_id] = tuple(manifests)

    def entries(self, listed: ManifestFile) -> tuple[ManifestEntry, ...]:
        """All entries of a manifest, deleted ones too, with everything inherited. Raises FormatError, NotFoundError."""
        if manifest_key(listed) not in self._entries:
            self._entries[manifest_key(listed)] = self.columns(listed).all_entries()
        return self._entries[manifest_key(listed)]

    def columns(self, listed: ManifestFile) -> ManifestColumns:
        """Return the same entries as columns. Raises FormatError, NotFoundError, UnsupportedError."""
        if manifest_key(listed) not in self._columns:
            try:
                self._columns[manifest_key(listed)] = self._read(listed)
            except DeletekitError as e:
                raise e.in_file(listed.manifest_path) from e
        return self._columns[manifest_key(listed)]

    def counted(self, listed: Iterable[ManifestFile], snapshot_id: int) -> list[ManifestFile]:
        """Return rows of a manifest list as `manifests.counted`. Raises as `columns`, which is asked if it must be."""
        return [m if m.is_counted else counted(m, self.columns(m), snapshot_id) for m in listed]

    def check_counts(self, listed: Iterable[ManifestFile]) -> None:
        """Raise FormatError for counts in a manifest list that are not those of their manifest.

        Only manifests that were read before are looked at; `verify` reads all.
        """
        for m in listed:
            stored = self._columns.get(manifest_key(m))
            if stored is None:
                continue
            unknown: dict[str, Any] = dict.fromkeys(COUNTS)
            right = counted(replace(m, **unknown), stored, m.added_snapshot_id)
            for name in COUNTS:
                found, expected = getattr(m, name), getattr(right, name)
                if found not in (None, expected):
                    message, file = "manifest list counts its manifest wrong (see verify)", m.manifest_path
                    raise FormatError(message, "manifest-count", file=file, field=name, found=found, expected=expected)

    def read_ahead(self, listed: Iterable[ManifestFile]) -> None:
        """Read manifests that `columns` will be asked for: several at a time, where storage or their size make it pay.

        What cannot be read is left to `columns`, which raises.
        """
        todo = [m for m in listed if manifest_key(m) not in self._columns]
        remote = next((m.manifest_path for m in todo if is_remote(m.manifest_path)), None)
        if len(todo) < 2 or not (remote or sum(m.manifest_length for m in todo) >= _WORTH_POLARS_BYTES):
            return

        def read(manifest: ManifestFile) -> None:
            with suppress(*UNREADABLE, StorageError):
                self.columns(manifest)

        with ThreadPoolExecutor(reads_at_a_time(remote or todo[0].manifest_path)) as pool:
            deque(pool.map(read, todo), 0)

    def live_entries(self, snapshot: Snapshot, content: ManifestContent) -> Iterator[ManifestEntry]:
        """Yield the live data files, or the live delete files, of a snapshot."""
        for columns in self.live_columns(snapshot, content):
            yield from columns.entries(np.flatnonzero(columns.is_live))

    def live_columns(
        self, snapshot: Snapshot, content: ManifestContent, keeps: Keeps = None
    ) -> Iterator[ManifestColumns]:
        """Yield the manifests that `keeps` keeps and that hold live data files, or live delete files, of a snapshot."""
        yield from map(self.columns, self.live_manifests(snapshot, content, keeps))

    def live_manifests(self, snapshot: Snapshot, content: ManifestContent, keeps: Keeps = None) -> list[ManifestFile]:
        """Return the rows of the manifest list that `keeps` keeps and that hold live files; they are read ahead."""
        live = (
            m
            for m in self.manifests(snapshot)
            if m.content == content and m.has_live_files and (keeps is None or keeps(m))
        )
        wanted = [m for m in live if self.searched is None or m.manifest_path in self.searched]
        self.read_ahead(wanted)
        return wanted

    def changed_entries(self, snapshot: Snapshot, content: ManifestContent | None = None) -> Iterator[ManifestEntry]:
        """Yield the entries that a snapshot itself added or removed: data files, delete files, or (None) both."""
        for listed in self.manifests(snapshot):
            if listed.added_snapshot_id in (0, snapshot.snapshot_id) and content in (None, listed.content):
                for entry in self.entries(listed):
                    if entry.snapshot_id == snapshot.snapshot_id and entry.status != EntryStatus.EXISTING:
                        yield entry

    def leave_out_unreadable(self, snapshot: Snapshot) -> dict[ManifestFile, DeletekitError]:
        """Return why manifests of a snapshot cannot be read. From now on the snapshot is read without them.

        Use it only to show a damaged table as damaged. Raises FormatError, NotFoundError for the manifest list.
        """
        unread: dict[ManifestFile, DeletekitError] = {}
        for listed in self.manifests(snapshot):
            try:
                self.columns(listed)
            except UNREADABLE as e:
                unread[listed] = e
        self._lists[snapshot.snapshot_id] = tuple(m for m in self.manifests(snapshot) if m not in unread)
        return unread

    def renew(self, io: FileIO, metadata: TableMetadata, snapshot: Snapshot | None) -> None:
        """Update a long-lived reader to newer metadata.

        Keep what is known of this snapshot's manifests, or nothing if schemas or partition specs changed.
        """
        self._io = io
        self.follow(metadata)
        lists = {i: self._lists[i] for i in self._lists if snapshot is not None and i == snapshot.snapshot_id}
        self._lists, self._listed_bytes = lists, sum(m.manifest_length for found in lists.values() for m in found)
        kept = set(map(manifest_key, self.manifests(snapshot) if snapshot is not None else ()))
        self._entries = {key: found for key, found in self._entries.items() if key in kept}
        self._columns = {key: found for key, found in self._columns.items() if key in kept}

    def follow(self, metadata: TableMetadata) -> Self:
        """Go on with newer metadata, and return the reader.

        What is known of manifests is kept, unless schemas or partition specs changed.
        """
        if any(self._metadata.raw.get(n) != metadata.raw.get(n) for n in ("schemas", "partition-specs")):
            self._entries, self._columns = {}, {}
        self._metadata = metadata
        return self

    def _read(self, listed: ManifestFile) -> ManifestColumns:
        if listed.key_metadata is not None:
            raise UnsupportedError("encrypted manifests cannot be read", kind="encryption", field="key_metadata")
        data = self._io.read(listed.manifest_path)
        pays = self._listed_bytes >= _WORTH_POLARS_BYTES or "polars" in sys.modules  # else it must be imported first
        large = pays and len(data) >= _WORTH_COLUMNS_BYTES
        manifest = read_manifest(data, spec_id=listed.partition_spec_id, cache=self._metrics, by_polars=large)
        self._check(manifest.columns, listed)
        true = with_true_counts(self._io, manifest.columns, listed)
        if true is not manifest.columns:
            text = f"record_count of files in manifest {listed.manifest_path} is not theirs: their rows were counted"
            warnings.warn(f"{text} (compact writes them with right counts; see verify)", stacklevel=2)
        columns = inherit(replace(manifest, columns=true), listed)
        spec = self._metadata.specs[listed.partition_spec_id]
        return replace(columns, partition=with_current_decimals(columns.partition, self._metadata, spec))

    def _read_list(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        if snapshot.manifests is not None and snapshot.manifest_list is None:
            return tuple(self._inline(path, snapshot) for path in snapshot.manifests)
        if snapshot.manifest_list is None:
            found = f"neither, for snapshot {snapshot.snapshot_id}"
            raise _damage("metadata-field", "snapshot lists no files", "manifest-list", found, "a list, or manifests")
        try:
            listed = read_manifest_list(self._io.read(snapshot.manifest_list))
            self._check_numbers(listed, snapshot)
        except DeletekitError as e:
            raise e.in_file(snapshot.manifest_list) from e
        return listed

    def _check_numbers(self, listed: Iterable[ManifestFile], snapshot: Snapshot) -> None:
        """Raise FormatError for a manifest with another sequence number than the snapshot that added it.

        This metadata may be older than the snapshot. By a wrong number deletes would no longer find their rows.
        """
        for row in listed if self._metadata.version.has_sequence_numbers else ():
            is_new = row.added_snapshot_id == snapshot.snapshot_id
            number, writer = row.sequence_number, self._metadata.snapshots.get(row.added_snapshot_id)
            writer = snapshot if is_new else writer
            most = (writer or snapshot).sequence_number
            if number > most or (writer is not None and number < most):
                message = "manifest has another sequence number than the snapshot that added it"
                found = f"{number} of {row.manifest_path}"
                expected = f"{most if writer else f'at most {most}'}"
                raise _damage("manifest-list", message, "sequence_number", found, expected)

    def _inline(self, path: str, snapshot: Snapshot) -> ManifestFile:
        """Oldest v1 tables list manifest paths in the snapshot itself. What a list would say is in the manifest."""
        data = self._io.read(path)
        try:
            manifest = read_manifest(data)
            spec_id = self._spec_id_of(manifest)
        except DeletekitError as e:
            raise e.in_file(path) from e
        length = len(data)
        row = ManifestFile(manifest_path=path, manifest_length=length, partition_spec_id=spec_id, added_snapshot_id=0)
        return counted(row, with_true_counts(self._io, manifest.columns), snapshot.snapshot_id)

    def _spec_id_of(self, manifest: Manifest) -> int:
        """Return the id of a manifest's partition spec, which v1 lets be absent beside the spec itself."""
        if "partition-spec-id" in manifest.metadata or len(self._metadata.specs) == 1:
            return int(manifest.metadata.get("partition-spec-id", next(iter(self._metadata.specs))))
        stored = manifest.metadata.get("partition-spec")
        with suppress(ValueError, TypeError, KeyError):
            fields = [(f["source-id"], f["transform"]) for f in json.loads(stored or "null")]
            specs = self._metadata.specs.values()
            same = [s.spec_id for s in specs if [(f.source_id, str(f.transform)) for f in s.fields] == fields]
            if len(same) == 1:
                return same[0]
        message, known = "manifest is of a partition spec that cannot be found", sorted(self._metadata.specs)
        raise _damage("partition-spec", message, "partition-spec-id", stored, known)

    def _check(self, columns: ManifestColumns, listed: ManifestFile) -> None:
        spec = self._metadata.specs.get(listed.partition_spec_id)
        if spec is None:
            message, known = "manifest of a partition spec the table does not have", sorted(self._metadata.specs)
            raise _damage("partition-spec", message, "partition_spec_id", listed.partition_spec_id, known)
        expected = tuple(f.field_id for f in spec.fields)
        if len(columns) and columns.partition_field_ids != expected:
            message = "manifest's partition fields are not those of its spec"
            raise _damage("partition-spec", message, "partition", columns.partition_field_ids, expected)
        is_data = columns.content == FileContent.DATA
        wrong = np.flatnonzero(is_data != (listed.content == ManifestContent.DATA))
        if len(wrong):
            found = columns.entry(int(wrong[0])).data_file.content.name
            raise _damage("manifest", "manifest mixes data and delete files", "content", found, listed.content.name)


def manifest_key(listed: ManifestFile) -> _Key:
    """Return what decides what the entries of a manifest are: its path, and what they inherit from the list.

    Two branches may list one manifest with other numbers: each gives older files their row ids, and Java appends a
    manifest as it is.
    """
    return listed.manifest_path, listed.first_row_id, listed.sequence_number, listed.added_snapshot_id


def _damage(kind: str, message: str, field: str, found: Any, expected: Any) -> FormatError:
    return FormatError(message, kind=kind, field=field, found=found, expected=expected)


class LiveFiles:
    """The live data files, or the live delete files, of a snapshot, each with the row of its manifest.

    Without a snapshot there are none, and none in manifests that `keeps` refuses. All are found in manifest order.
    """

    def __init__(
        self, reader: SnapshotReader, snapshot: Snapshot | None, content: ManifestContent, keeps: Keeps = None
    ) -> None:
        self._listed = [] if snapshot is None else reader.live_manifests(snapshot, content, keeps)
        self._manifests = list(map(reader.columns, self._listed))
        self._starts = np.cumsum([0, *(len(columns) for columns in self._manifests)])
        self._paths = pa.chunked_array([columns.all_paths for columns in self._manifests], pa.large_string())

    def with_paths(self, paths: Iterable[str]) -> Iterator[LiveFile]:
        """Yield the files of these paths: several for a Puffin file with several vectors."""
        wanted = text_array(paths)
        if not len(wanted):
            return
        # All manifests at once: many small commits leave hundreds of manifests with an entry or two.
        found = np.flatnonzero(_is_in(self._paths, wanted))
        numbers, starts = np.unique(np.searchsorted(self._starts, found, side="right") - 1, return_index=True)
        # numpy splits an empty array into one part, for which there is no number.
        for number, rows in zip(numbers.tolist(), np.split(found, starts[1:]), strict=False):
            own, columns = rows - self._starts[number], self._manifests[number]
            yield from ((self._listed[number], entry) for entry in columns.entries(own[columns.is_live[own]]))

    def vectors_of(self, data_paths: Iterable[str]) -> Iterator[LiveFile]:
        """Yield the deletion vectors of these data files."""
        wanted = text_array(data_paths)
        for listed, columns in zip(self._listed, self._manifests, strict=True) if len(wanted) else ():
            rows = np.flatnonzero(columns.is_live & columns.is_vector)
            chosen = rows[_is_in(columns.referenced(rows), wanted)]
            yield from ((listed, entry) for entry in columns.entries(chosen))


def rows_with_paths(columns: ManifestColumns, paths: pa.Array) -> Rows:
    """Return the rows of a manifest's live files with these paths."""
    if not len(paths):
        return np.zeros(0, np.int64)
    return np.flatnonzero(columns.is_live & _is_in(columns.all_paths, paths))


def _is_in(values: pa.Array | pa.ChunkedArray, wanted: pa.Array) -> npt.NDArray[np.bool_]:
    found = pc.and_(pc.is_in(values, value_set=wanted), values.is_valid())
    mask: npt.NDArray[np.bool_] = np.asarray(found)
    return mask
