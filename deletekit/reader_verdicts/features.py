"""Find which rules of the specification a snapshot depends on, from its metadata alone.

A feature is a kind of delete, or the id of a rule that decides rows of this snapshot. Metadata may name a feature that
no row needs (a key column without counts may hold NULL); it leaves out none of those that it can show.
Spec: "Scan Planning", "Row-level Deletes", "Column Projection", "Delete Formats".
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType

from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.deletes.plan import delete_index
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import is_global, referenced_path, scope_of
from deletekit.formats.content_file import ContentFile, DeleteFile, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.reader_verdicts.rows_at_stake import MIXED_UP, mixed_up_vectors
from deletekit.rows.column_bounds import widened_bound
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.properties import NAME_MAPPING
from deletekit.table.snapshot import SnapshotReader

Features = Mapping[str, frozenset[str]]
"""What brings each feature: the kinds of deletes, or `TABLE`."""

TABLE = "table"
"""Brings the features that stay when all deletes are gone."""

KINDS = ("equality-delete", "position-delete", "deletion-vector")

DATA_FORMATS = ("avro-data", "orc-data")

SEEN = frozenset(
    {*KINDS, "strictly-older", "same-or-older", "older-data-only", "partition-scope", "global-scope", "spec-scope"}
    | {"void-spec-scope", "several-delete-files-union", "vector-wins", "equality-beside-vector", "missing-metrics"}
    | {"nan-outside-bounds", "inherited-sequence", "explicit-sequence", "null-equals-null", "nan-equals-nan"}
    | {"negative-zero", "all-columns-match", "own-equality-ids", "extra-columns-ignored", "nested-key"}
    | {"null-struct-leaf", "promoted-key", "renamed-key", "dropped-key", "added-key", "default-key", "avro-deletes"}
    | {"orc-deletes", *DATA_FORMATS, "identity-partition-value", "name-mapping", "position-before-filter"}
    | {"positions-from-zero", "partition-granularity", "path-exact", "row-groups-positions", "several-blobs-one-puffin"}
    | {"upgrade-keeps-deletes", "removed-deletes-do-not-apply", "removed-files-not-read", "existing-entries-count"}
    | {"ref-own-deletes", "current-snapshot", "schema-evolution", "snapshot-schema", "named-ref", MIXED_UP}
)
"""Features that metadata can show. A rule that is not among them may hold or not: only files could tell."""


def snapshot_features(
    metadata: TableMetadata, snapshot: Snapshot | None, reader: SnapshotReader, tasks: Sequence[ScanTask], ref: str
) -> dict[str, frozenset[str]]:
    """Return the features of a snapshot.

    Parameters
    ----------
    tasks: those of a scan of the whole snapshot.
    ref: the branch or tag that is read.

    Raises FormatError, NotFoundError for manifests that cannot be read.
    """
    found = _Found(metadata)
    found.add(f"v{metadata.format_version}", TABLE)
    if NAME_MAPPING in metadata.properties:
        found.add("name-mapping", TABLE)
    if ref != MAIN:
        found.add("named-ref", TABLE)
    if len(metadata.schemas) > 1:
        found.add("schema-evolution", TABLE)
    if snapshot is None:
        return found.features
    if snapshot.schema_id not in (None, metadata.schema.schema_id):
        found.add("snapshot-schema", TABLE)
    live = list(reader.live_entries(snapshot, ManifestContent.DELETES))
    for task in tasks:
        found.of_data_file(task)
    found.of_manifests(snapshot, reader, {d.kind for d in _deletes(live)})
    if live:
        found.of_deletes(list(_deletes(live)), tasks)
        found.of_scopes(tasks, delete_index(metadata, snapshot, reader))
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

    def of_manifests(self, snapshot: Snapshot, reader: SnapshotReader, kinds: Collection[str]) -> None:
        """Add what the entries of manifests say, and which snapshots there are besides."""
        for listed in reader.manifests(snapshot):
            is_data = listed.content == ManifestContent.DATA
            brought = (TABLE,) if is_data else kinds
            if listed.existing_files_count != 0:
                self.add("existing-entries-count", *brought)
            if listed.deleted_files_count != 0:
                self.add("removed-files-not-read" if is_data else "removed-deletes-do-not-apply", *brought)
        newest = max(self._metadata.snapshots.values(), key=lambda s: (s.sequence_number, s.timestamp_ms))
        if newest.snapshot_id != snapshot.snapshot_id:
            self.add("current-snapshot", TABLE)
        if {int(ref["snapshot-id"]) for ref in self._metadata.refs.values()} - {snapshot.snapshot_id}:
            self.add("ref-own-deletes", *kinds)

    def of_deletes(self, deletes: Sequence[DeleteFile], tasks: Sequence[ScanTask]) -> None:
        """Add what the live deletes are, whether they apply or not."""
        kinds = {delete.kind for delete in deletes}
        self.add("inherited-sequence", *kinds)
        for delete in deletes:
            self.add(delete.kind, delete.kind)
            if delete.file_format in ("AVRO", "ORC"):
                self.add(f"{delete.file_format.lower()}-deletes", delete.kind)
            if delete.content == FileContent.POSITION_DELETES:
                self.add("positions-from-zero", delete.kind)
            if delete.kind != "position-delete":
                continue
            self.add("path-exact", delete.kind)
            if referenced_path(delete) is None:
                self.add("partition-granularity", delete.kind)
            if self._metadata.version.has_deletion_vectors:
                self.add("upgrade-keeps-deletes", delete.kind)
        if any(n > 1 for n in Counter(d.file_path for d in deletes if d.is_deletion_vector).values()):
            self.add("several-blobs-one-puffin", "deletion-vector")
        if mixed_up_vectors(deletes):
            self.add(MIXED_UP, "deletion-vector")
        if len({frozenset(d.equality_ids or ()) for d in deletes if d.content == FileContent.EQUALITY_DELETES}) > 1:
            self.add("own-equality-ids", "equality-delete")
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
        has_specs = len({spec_id for spec_id, _ in places}) > 1
        for task in tasks:
            for old in index.too_old_equality_deletes(task.data):
                is_same = old.sequence_number == task.data.sequence_number
                self.add("strictly-older" if is_same else "older-data-only", kind)
            for delete in task.delete_files:
                if delete.kind != kind:
                    continue
                spec = self._metadata.specs[delete.spec_id]
                if is_global(spec):
                    if task.data_file.spec_id != delete.spec_id:
                        self.add("global-scope", kind)
                    if spec.fields:
                        self.add("void-spec-scope", kind)
                # Where the key decides the partition, a row with an equal key can only be in that of another spec.
                elif has_specs or not {f.source_id for f in spec.fields} <= set(delete.equality_ids or ()):
                    self.add("partition-scope", kind)

    def of_data_file(self, task: ScanTask) -> None:
        """Add what reading one data file with its deletes depends on."""
        data, deletes = task.data_file, task.delete_files
        if data.file_format != "PARQUET":
            self.add(f"{data.file_format.lower()}-data", TABLE)
        if _may_leave_out(data, self._metadata.specs[data.spec_id]):
            self.add("identity-partition-value", TABLE)
        counts = Counter(d.kind for d in deletes)
        for kind, number in counts.items():
            if number > 1:
                self.add("several-delete-files-union", kind)
        by_position = sorted(counts.keys() - {"equality-delete"})
        if by_position and counts["equality-delete"]:
            self.add("position-before-filter", "equality-delete")
            if "deletion-vector" in by_position:
                self.add("equality-beside-vector", "equality-delete")
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
        metrics = ((f.value_counts, f.lower_bounds, f.upper_bounds) for f in (delete, data))
        if any(known is None or field_id not in known for known in chain.from_iterable(metrics)):
            self.add("missing-metrics", kind)
        if not field.required and all((f.null_value_counts or {}).get(field_id) != 0 for f in (delete, data)):
            self.add("null-equals-null", kind)
            if self._is_nested(field_id):
                self.add("null-struct-leaf", kind)
        if isinstance(field.field_type, FloatType | DoubleType):
            bounds = [_bounds(f, field) for f in (delete, data)]
            if all((f.nan_value_counts or {}).get(field_id) != 0 for f in (delete, data)):
                self.add("nan-equals-nan", kind)
                if bounds[0][0] > bounds[1][1] or bounds[1][0] > bounds[0][1]:
                    self.add("nan-outside-bounds", kind)
            if all(low <= 0 <= high for low, high in bounds):
                self.add("negative-zero", kind)
        if data.column_sizes is not None and field_id not in data.column_sizes:
            self.add("added-key" if field.initial_default is None else "default-key", kind)

    def _of_evolution(self, field_id: int, kind: str) -> None:
        """Add what became of a key column in the schemas that the table has had."""
        names = [schema.find_column_name(field_id) for schema in self._schemas]
        known = [(name, schema.find_field(field_id)) for name, schema in zip(names, self._schemas, strict=True) if name]
        if self._metadata.schema.find_column_name(field_id) is None:
            self.add("dropped-key", kind)
        taken = {s.find_field(n).field_id for n in filter(None, names) for s in self._schemas if n in s.column_names}
        if len({name for name, _ in known}) > 1 or taken != {field_id}:
            self.add("renamed-key", kind)
        if len({str(field.field_type) for _, field in known}) > 1:
            self.add("promoted-key", kind)
        if self._is_nested(field_id):
            self.add("nested-key", kind)

    def _is_nested(self, field_id: int) -> bool:
        return all(field_id not in {f.field_id for f in schema.fields} for schema in self._schemas)


def _deletes(entries: Iterable[ManifestEntry]) -> Iterator[DeleteFile]:
    return (e.data_file for e in entries if isinstance(e.data_file, DeleteFile))


def _place(delete: DeleteFile) -> Any:
    """Return the scope of a delete that may be about several data files, None for one."""
    return scope_of(delete) if referenced_path(delete) is None else None


def _may_leave_out(data: ContentFile, spec: PartitionSpec) -> bool:
    """Tell whether a data file may lack a column that its identity partition has the value of."""
    stored = data.column_sizes or data.value_counts or {}
    return any(f.source_id not in stored for f in spec.fields if isinstance(f.transform, IdentityTransform))


def _bounds(file: ContentFile, field: Any) -> tuple[float, float]:
    """Return the bounds of a floating column; infinite where the manifest has none."""
    found = [(known or {}).get(field.field_id) for known in (file.lower_bounds, file.upper_bounds)]
    low, high = (None if b is None else from_bytes(field.field_type, widened_bound(b, field)) for b in found)
    return -inf if low is None else float(low), inf if high is None else float(high)
