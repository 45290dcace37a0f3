"""Find which rules of the specification a snapshot depends on, from its metadata alone.

A feature is a kind of delete, or the id of a rule that decides rows of this snapshot. Metadata may name a feature that
no row needs (a key column without counts may hold NULL); it leaves out none of those that it can show.
Spec: "Scan Planning", "Row-level Deletes", "Column Projection", "Delete Formats".
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType

from deletekit.deletes.delete_file_index import DeleteFileIndex, widened_bound
from deletekit.deletes.plan import delete_index
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import is_global, referenced_path, scope_of
from deletekit.formats.content_file import ContentFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.properties import NAME_MAPPING
from deletekit.table.snapshot import SnapshotReader

Features = Mapping[str, frozenset[str]]
"""What brings each feature: the kinds of deletes, or `TABLE`."""

TABLE = "table"
"""Brings the features that stay when all deletes are gone."""

KINDS = ("equality-delete", "position-delete", "deletion-vector")

SEEN = frozenset(
    {*KINDS, "strictly-older", "same-or-older", "partition-scope", "global-scope", "spec-scope", "null-equals-null"}
    | {"nan-equals-nan", "negative-zero", "all-columns-match", "nested-key", "promoted-key", "renamed-key"}
    | {"dropped-key", "default-key", "extra-columns-ignored", "row-groups-positions", "vector-wins"}
    | {
        "equality-beside-vector",
        "equality-beside-position",
        "several-delete-files-union",
        "removed-deletes-do-not-apply",
        "ref-own-deletes",
    }
    | {"several-blobs-one-puffin", "upgrade-keeps-deletes", "explicit-sequence", "name-mapping", "missing-metrics"}
    | {"identity-partition-value", "avro-deletes", "orc-deletes", "avro-data", "orc-data", "partition-granularity"}
)
"""Features that metadata can show. A rule that is not among them may hold or not: only files could tell."""


def snapshot_features(
    metadata: TableMetadata, snapshot: Snapshot | None, reader: SnapshotReader, tasks: Sequence[ScanTask]
) -> dict[str, frozenset[str]]:
    """Return the features of a snapshot.

    Parameters
    ----------
    tasks: those of a scan of the whole snapshot.

    Raises FormatError, NotFoundError for manifests that cannot be read.
    """
    found = _Found(metadata)
    found.add(f"v{metadata.format_version}", TABLE)
    if NAME_MAPPING in metadata.properties:
        found.add("name-mapping", TABLE)
    if snapshot is None:
        return found.features
    live = list(reader.live_entries(snapshot, ManifestContent.DELETES))
    for task in tasks:
        found.of_data_file(task)
    if live:
        index = delete_index(metadata, snapshot, reader)
        found.of_snapshot(live, tasks, snapshot, reader)
        found.of_scopes(tasks, index)
    return found.features


class _Found:
    """Collects features and what brings them."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._schemas = [metadata.schemas[i] for i in sorted(metadata.schemas)]
        self._looked_at: set[Any] = set()
        self.features: dict[str, frozenset[str]] = {}

    def add(self, feature: str, *kinds: str) -> None:
        self.features[feature] = self.features.get(feature, frozenset()) | set(kinds)

    def of_snapshot(
        self, live: Sequence[ManifestEntry], tasks: Sequence[ScanTask], snapshot: Snapshot, reader: SnapshotReader
    ) -> None:
        """Add what the live deletes are, and what the delete manifests and refs hold besides."""
        deletes = list(_deletes(live))
        for delete in deletes:
            self.add(delete.kind, delete.kind)
            if delete.file_format in ("AVRO", "ORC"):
                self.add(f"{delete.file_format.lower()}-deletes", delete.kind)
            if delete.kind == "position-delete" and referenced_path(delete) is None:
                self.add("partition-granularity", delete.kind)
            if delete.kind == "position-delete" and self._metadata.version.has_deletion_vectors:
                self.add("upgrade-keeps-deletes", delete.kind)
        kinds = {delete.kind for delete in deletes}
        if any(n > 1 for n in Counter(d.file_path for d in deletes if d.is_deletion_vector).values()):
            self.add("several-blobs-one-puffin", "deletion-vector")
        listed = [m for m in reader.manifests(snapshot) if m.content == ManifestContent.DELETES]
        if any(
            e.status == EntryStatus.DELETED for m in listed if m.deleted_files_count != 0 for e in reader.entries(m)
        ):
            self.add("removed-deletes-do-not-apply", *kinds)
        others = {int(ref["snapshot-id"]) for ref in self._metadata.refs.values()}
        if others - {snapshot.snapshot_id}:
            self.add("ref-own-deletes", *kinds)
        if len({task.data_file.spec_id for task in tasks}) > 1:
            self.add("spec-scope", *kinds)
        self._superseded(deletes, tasks)

    def _superseded(self, deletes: Iterable[DeleteFile], tasks: Iterable[ScanTask]) -> None:
        by_position = [d for d in deletes if d.kind == "position-delete"]
        paths, scopes = {referenced_path(d) for d in by_position}, {_place(d) for d in by_position}
        for task in tasks if by_position else ():
            if any(d.is_deletion_vector for d in task.delete_files) and (
                task.data_file.file_path in paths or scope_of(task.data_file) in scopes
            ):
                self.add("vector-wins", "position-delete")
                return

    def of_scopes(self, tasks: Sequence[ScanTask], index: DeleteFileIndex) -> None:
        """Add the rules of scope and age that keep an equality delete from rows of other files."""
        if "equality-delete" not in self.features:
            return
        kind, places = "equality-delete", {scope_of(task.data_file) for task in tasks}
        for task in tasks:
            number = task.data.sequence_number
            if any(d.sequence_number == number for d in index.too_old_equality_deletes(task.data)):
                self.add("strictly-older", kind)
            for delete in task.delete_files:
                if delete.kind != kind:
                    continue
                spec = self._metadata.specs[delete.spec_id]
                if is_global(spec):
                    if task.data_file.spec_id != delete.spec_id:
                        self.add("global-scope", kind)
                elif len(places) > 1 and not {f.source_id for f in spec.fields} <= set(delete.equality_ids or ()):
                    self.add("partition-scope", kind)

    def of_data_file(self, task: ScanTask) -> None:
        """Add what reading one data file with its deletes depends on."""
        data, deletes = task.data_file, task.delete_files
        if data.file_format != "PARQUET":
            self.add(f"{data.file_format.lower()}-data", TABLE)
        if _leaves_out(data, self._metadata.specs[data.spec_id]):
            self.add("identity-partition-value", TABLE)
        counts = Counter(d.kind for d in deletes)
        for kind, number in counts.items():
            if number > 1:
                self.add("several-delete-files-union", kind)
        by_position = sorted(counts.keys() - {"equality-delete"})
        if by_position and counts["equality-delete"]:
            beside = "equality-beside-vector" if "deletion-vector" in by_position else "equality-beside-position"
            self.add(beside, "equality-delete")
        if by_position and len(data.split_offsets or ()) > 1:
            self.add("row-groups-positions", *by_position)
        if deletes and task.data.sequence_number != task.data.file_sequence_number:
            self.add("explicit-sequence", *counts)
        for entry, delete in zip(task.deletes, deletes, strict=True):
            if delete.content == FileContent.POSITION_DELETES and entry.sequence_number == task.data.sequence_number:
                self.add("same-or-older", delete.kind)
            if delete.kind == "equality-delete":
                self._of_keys(delete, data)

    def _of_keys(self, delete: DeleteFile, data: ContentFile) -> None:
        ids = tuple(delete.equality_ids or ())
        if len(ids) > 1:
            self.add("all-columns-match", delete.kind)
        if set(delete.column_sizes or delete.value_counts or ()) - set(ids):
            self.add("extra-columns-ignored", delete.kind)
        for field_id in ids:
            self._of_key(field_id, delete, data)

    def _of_key(self, field_id: int, delete: DeleteFile, data: ContentFile) -> None:
        kind, field = delete.kind, self._metadata.all_fields.get(field_id)
        if field is None:
            return
        if field_id not in self._looked_at:
            self._looked_at.add(field_id)
            self._of_evolution(field_id, kind)
        if any(f.value_counts is None or field_id not in f.value_counts for f in (delete, data)):
            self.add("missing-metrics", kind)
        if not field.required and all((f.null_value_counts or {}).get(field_id) != 0 for f in (delete, data)):
            self.add("null-equals-null", kind)
        if isinstance(field.field_type, FloatType | DoubleType):
            if all((f.nan_value_counts or {}).get(field_id) != 0 for f in (delete, data)):
                self.add("nan-equals-nan", kind)
            if all(_may_hold_zero(f, field) for f in (delete, data)):
                self.add("negative-zero", kind)
        is_absent = data.column_sizes is not None and field_id not in data.column_sizes
        if is_absent and field.initial_default is not None:
            self.add("default-key", kind)

    def _of_evolution(self, field_id: int, kind: str) -> None:
        """Add what became of a key column in the schemas that the table has had."""
        names = [schema.find_column_name(field_id) for schema in self._schemas]
        known = [(name, schema.find_field(field_id)) for name, schema in zip(names, self._schemas, strict=True) if name]
        if self._metadata.schema.find_column_name(field_id) is None:
            self.add("dropped-key", kind)
        if len({name for name, _ in known}) > 1:
            self.add("renamed-key", kind)
        if len({str(field.field_type) for _, field in known}) > 1:
            self.add("promoted-key", kind)
        if all(field_id not in {f.field_id for f in schema.fields} for schema in self._schemas):
            self.add("nested-key", kind)


def _deletes(entries: Iterable[ManifestEntry]) -> Iterator[DeleteFile]:
    return (e.data_file for e in entries if isinstance(e.data_file, DeleteFile))


def _place(delete: DeleteFile) -> Any:
    """Return the scope of a delete that may be about several data files, None for one."""
    return scope_of(delete) if referenced_path(delete) is None else None


def _leaves_out(data: ContentFile, spec: PartitionSpec) -> bool:
    """Tell whether a data file lacks a column that its identity partition has the value of."""
    stored = data.column_sizes or data.value_counts
    sources = (f.source_id for f in spec.fields if isinstance(f.transform, IdentityTransform))
    return bool(stored) and any(i not in set(chain(stored or ())) for i in sources)


def _may_hold_zero(file: ContentFile, field: Any) -> bool:
    bounds = [(known or {}).get(field.field_id) for known in (file.lower_bounds, file.upper_bounds)]
    if None in bounds:
        return True
    values: list[Any] = [from_bytes(field.field_type, widened_bound(b, field)) for b in bounds if b is not None]
    return bool(values[0] <= 0 <= values[1])
