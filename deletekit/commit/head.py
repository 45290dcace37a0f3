"""Read the head of a branch once for a change: its manifest list, and the live files that the change names.

What checks the change, writes its manifests and lists them takes this value, and reads nothing of the head itself.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from deletekit.commit.change import Base, RowDelta
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.table.snapshot import LiveFile, LiveFiles, SnapshotReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a branch, as far as a change is about it.

    Attributes
    ----------
    manifests: the manifest list; empty without a snapshot.
    data, deletes: live entries of the files that the change removes or adds; of data files, also those that its
        positions are about.
    vectors: deletion vectors of the data files that the change removes, or covers with positions.
    duplicate_vectors: all deletion vectors whose data file has another one.
    places: path of the manifest that lists a found file, by the file's identity.
    counted: rows of the manifest list that lack counts, with them, by path; a list of v2 or later needs them.
    """

    manifests: tuple[ManifestFile, ...]
    data: tuple[ManifestEntry, ...]
    deletes: tuple[ManifestEntry, ...]
    vectors: tuple[ManifestEntry, ...]
    duplicate_vectors: tuple[ManifestEntry, ...]
    places: Mapping[Hashable, str]
    counted: Mapping[str, ManifestFile]
    reader: SnapshotReader = field(repr=False)

    def live_entries(self, listed: ManifestFile) -> list[ManifestEntry]:
        """Return the live entries of one of the manifests."""
        return [e for e in self.reader.entries(listed) if e.is_live]


def read_head(base: Base, delta: RowDelta) -> Head:
    """Read what the commit of a change on a base needs.

    A file that was written just now, under a name with a new uuid, cannot be live, so it is not looked for: that would
    read every manifest. After a lost race it is, because the catalog may have taken it and its answer got lost.
    Raises FormatError for broken metadata; NotFoundError.
    """
    version, reader, snapshot = base.metadata.version, base.reader, base.snapshot
    new = frozenset(() if base.is_rebased else base.write.written)
    added = [f.file_path for f in (*delta.added_data_files, *delta.added_delete_files) if f.file_path not in new]
    targets = delta.removed_data_paths | {path for _, path in delta.covered_data_files}
    removed_deletes = [e.data_file.file_path for e in delta.removed_delete_files]
    all_vectors = version.has_deletion_vectors and not delta.replaced_manifests
    reads_data, reads_deletes = added or targets, added or targets or removed_deletes or all_vectors
    data_files = LiveFiles(reader, snapshot if reads_data else None, ManifestContent.DATA)
    delete_files = LiveFiles(reader, snapshot if reads_deletes else None, ManifestContent.DELETES)
    data = list(data_files.with_paths([*added, *targets]))
    deletes = list(delete_files.with_paths([*added, *removed_deletes]))
    vectors = list(delete_files.vectors_of(targets))
    duplicates = list(delete_files.vectors_twice()) if all_vectors else []
    manifests, counted = base.manifests, []
    if snapshot is not None and version.has_counted_manifests:
        counted = reader.counted((m for m in manifests if not m.is_counted), snapshot.snapshot_id)
    if version.has_row_lineage and not delta.replaced_manifests:
        # By a count that is too low, an id would be given to two rows.
        reader.check_counts(m for m in manifests if m.first_row_id is None)
    return Head(
        manifests=manifests,
        data=_entries(data),
        deletes=_entries(deletes),
        vectors=_entries(vectors),
        duplicate_vectors=_entries(duplicates),
        # Of a file that is listed twice, which only a broken table has, the first place counts.
        places={e.data_file.identity: m.manifest_path for m, e in reversed([*data, *deletes, *vectors])},
        counted={m.manifest_path: m for m in counted},
        reader=reader,
    )


def _entries(found: Iterable[LiveFile]) -> tuple[ManifestEntry, ...]:
    return tuple(entry for _, entry in found)
