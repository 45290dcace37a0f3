"""Read the head of a branch once for a change: its manifest list, and the live files that the change names.

What checks the change, writes its manifests and lists them takes this value, and reads nothing of the head itself.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.types import IcebergType

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.which_apply import scope_of
from deletekit.formats.content_file import ContentFile, ManifestEntry
from deletekit.formats.manifest_list import FieldSummary, ManifestContent, ManifestFile
from deletekit.rows.column_bounds import values_of
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import plain_value, schema_of_spec
from deletekit.table.snapshot import Keeps, LiveFile, LiveFiles, SnapshotReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a branch, as far as a change is about it.

    Attributes
    ----------
    manifests: the manifest list; empty without a snapshot.
    data, deletes: live entries of the files that the change removes or adds; of data files, also those that its
        positions are about.
    vectors: deletion vectors of the data files that the change removes, or covers with positions.
    places: path of the manifest that lists a found file, by the file's identity.
    counted: rows of the manifest list that lack counts, with them, by path; a list of v2 or later needs them.
    """

    manifests: tuple[ManifestFile, ...]
    data: tuple[ManifestEntry, ...]
    deletes: tuple[ManifestEntry, ...]
    vectors: tuple[ManifestEntry, ...]
    places: Mapping[Hashable, str]
    counted: Mapping[str, ManifestFile]
    reader: SnapshotReader = field(repr=False)

    def live_entries(self, listed: ManifestFile) -> list[ManifestEntry]:
        """Return the live entries of one of the manifests."""
        return [e for e in self.reader.entries(listed) if e.is_live]


def read_head(base: Base, delta: RowDelta) -> Head:
    """Read what the commit of a change on a base needs.

    A file that was written just now, under a name with a new uuid, cannot be live, so it is not looked for. After a
    lost race it is, because the catalog may have taken it and its answer got lost.
    Raises FormatError for broken metadata; NotFoundError.
    """
    version, reader, snapshot = base.metadata.version, base.reader, base.snapshot
    new = frozenset(() if base.is_rebased else base.write.written)
    added = [f for f in (*delta.added_data_files, *delta.added_delete_files) if f.file_path not in new]
    paths = [f.file_path for f in added]
    targets = delta.removed_data_paths | {path for _, path in delta.covered_data_files}
    removed_deletes = {e.data_file.file_path for e in delta.removed_delete_files}
    reaches = reach_of(base.metadata, delta, added)
    _, data = find_live(base, ManifestContent.DATA, reaches, targets, paths)
    delete_files, deletes = find_live(base, ManifestContent.DELETES, reaches, removed_deletes, paths)
    vectors = list(delete_files.vectors_of(targets))
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
        # Of a file that is listed twice, which only a broken table has, the first place counts.
        places={e.data_file.identity: m.manifest_path for m, e in reversed([*data, *deletes, *vectors])},
        counted={m.manifest_path: m for m in counted},
        reader=reader,
    )


def find_live(
    base: Base, content: ManifestContent, reaches: Keeps, wanted: Collection[str], others: Collection[str] = ()
) -> tuple[LiveFiles, list[LiveFile]]:
    """Find live files by their paths, in the manifests that a change reaches; the others are not read.

    Where one of `wanted` is not among them, all manifests are read: their list may be wrong, or the change, which the
    caller then tells.
    """
    files = LiveFiles(base.reader, base.snapshot, content, reaches)
    found = list(files.with_paths([*others, *wanted]))
    if {e.data_file.file_path for _, e in found}.issuperset(wanted):
        return files, found
    files = LiveFiles(base.reader, base.snapshot, content)
    return files, list(files.with_paths([*others, *wanted]))


def reach_of(
    metadata: TableMetadata, delta: RowDelta, added: Iterable[ContentFile] = ()
) -> Callable[[ManifestFile], bool]:
    """Return a function that tells whether a manifest may list files of a partition in which a change names live files.

    `added` are files that the change adds and that may be live already.
    """
    removed = (e.data_file for e in (*delta.removed_data_files, *delta.removed_delete_files))
    files = {scope_of(f): f for f in (*removed, *(d for d, _ in delta.covered_data_files), *added)}
    specs = {f.spec_id: metadata.specs[f.spec_id] for f in files.values()}
    kinds = {i: [f.field_type for f in s.partition_type(schema_of_spec(metadata, s)).fields] for i, s in specs.items()}

    def reaches(listed: ManifestFile) -> bool:
        mine = kinds.get(listed.partition_spec_id)
        if not mine:  # another spec, or one without partitions
            return mine is not None
        stored = zip(listed.partitions or (), mine, strict=False)
        bounds = [(s, values_of(kind, s.lower_bound, s.upper_bound), kind) for s, kind in stored]
        wanted = (f.partition for f in files.values() if f.spec_id == listed.partition_spec_id)
        return any(all(map(_may_be, partition, bounds)) for partition in wanted)

    return reaches


def _may_be(value: Any, field: tuple[FieldSummary, tuple[Any, Any] | None, IcebergType]) -> bool:
    """Tell whether a manifest may list a file with this value of a partition field, by what its summary proves."""
    summary, bounds, kind = field
    plain = plain_value(value, kind)
    if value is None or bounds is None or plain != plain or str(kind) == "uuid":  # Java orders uuids signed
        return value is not None or summary.contains_null
    return bool(bounds[0] <= plain <= bounds[1])


def _entries(found: Iterable[LiveFile]) -> tuple[ManifestEntry, ...]:
    return tuple(entry for _, entry in found)
