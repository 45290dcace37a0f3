"""Check a change against the head before anything of its snapshot is written.

These are the rules for one commit; `conflicts.py` has those for concurrent commits. A bad change is refused.
Spec: "Delete Formats", "Deletion Vectors", "Format Versioning"; Java MergingSnapshotProducer. Comments say where Java
checks less.
"""

from collections.abc import Collection

from deletekit.commit.change import RowDelta
from deletekit.commit.head import Head
from deletekit.deletes.which_apply import scope_of
from deletekit.errors import CommitConflictError, InvalidInputError
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent, ManifestEntry
from deletekit.table.metadata import TableMetadata


def check_delta(delta: RowDelta, metadata: TableMetadata, live: Head) -> None:
    """Check a change against the live files of the head that it names.

    Raises InvalidInputError for a change that no commit may make; CommitConflictError if a file that it removes is not
    live, because a concurrent commit removed it first.
    """
    for delete in delta.added_delete_files:
        metadata.version.check_delete_kind(delete.kind)
        _check_fields(delete)
    _check_sequence_numbers(delta, metadata)
    _check_records(delta)
    _check_live(delta.removed_data_files, live.data)
    _check_live(delta.removed_delete_files, (*live.deletes, *live.vectors))
    _check_added_paths(delta, live)
    _check_covered(delta, live)
    _check_one_vector(delta, live)


def check_same_files(delta: RowDelta, head: Head) -> None:
    """Raise InvalidInputError unless the new manifests hold exactly the live files of the replaced ones."""
    old = sorted(repr(e.data_file.identity) for m in delta.replaced_manifests for e in head.live_entries(m))
    new = sorted(repr(e.data_file.identity) for group in delta.manifests for e in group)
    if old != new:
        found, expected = f"{len(new)} entries", f"the {len(old)} live ones of the replaced manifests"
        message = "a rewrite of manifests may not add or lose a file"
        raise InvalidInputError(message, "manifest-rewrite", found=found, expected=expected)


def _check_fields(delete: DeleteFile) -> None:
    """Check which optional fields a delete has, by its kind (spec "Data File Fields" and its notes)."""
    is_vector, is_equality = delete.is_deletion_vector, delete.content == FileContent.EQUALITY_DELETES
    rules = [
        ("equality_ids", is_equality, bool(delete.equality_ids)),
        ("content_offset", is_vector, delete.content_offset is not None),
        ("content_size_in_bytes", is_vector, delete.content_size_in_bytes is not None),
        ("referenced_data_file", True, delete.referenced_data_file is not None or not is_vector),
        ("sort_order_id", False, delete.sort_order_id is not None and not is_equality),
    ]
    for field, wanted, present in rules:
        if wanted != present:
            message = f"{delete.kind} {'lacks a field' if wanted else 'may not have this field'}"
            raise InvalidInputError(message, "delete-file-field", field, getattr(delete, field), file=delete.file_path)


def _check_sequence_numbers(delta: RowDelta, metadata: TableMetadata) -> None:
    """Refuse an old data sequence number except for a rewrite of old rows (spec "Manifest Entry Fields")."""
    last = metadata.last_sequence_number
    for path, number in delta.sequence_numbers.items():
        if delta.operation != "replace" or not metadata.version.has_sequence_numbers or not 0 <= number <= last:
            found = f"{number}, operation {delta.implied_operation}"
            expected = f"0 to {last}, and operation replace, in format version 2 or later"
            message = "added file may not have this data sequence number"
            raise InvalidInputError(message, "sequence-number", "sequence_number", found, expected, file=path)


def _check_records(delta: RowDelta) -> None:
    """Refuse a `replace` that adds rows (spec "Snapshots"; Java SnapshotProducer)."""
    added = sum(f.record_count for f in delta.added_data_files)
    removed = sum(e.data_file.record_count for e in delta.removed_data_files)
    if delta.operation == "replace" and added > removed:
        expected = f"at most the {removed} of the removed data files"
        raise InvalidInputError("a replacement may not add rows", "replace-records", "added-records", added, expected)


def _check_live(removed: Collection[ManifestEntry], live: Collection[ManifestEntry]) -> None:
    """Raise CommitConflictError if a file to remove is not live."""
    identities = {e.data_file.identity for e in live}
    for entry in removed:
        if entry.data_file.identity not in identities:
            raise CommitConflictError("file to remove is not live", kind="missing-file", file=entry.data_file.file_path)


def _check_added_paths(delta: RowDelta, live: Head) -> None:
    """Refuse to add a file twice, or one that is live already (spec: a path is added once)."""
    seen = {e.data_file.identity for e in (*live.data, *live.deletes)}
    for file in (*delta.added_data_files, *delta.added_delete_files):
        if file.identity in seen:
            raise InvalidInputError("file is in the table already", "duplicate-file", file=file.file_path)
        seen.add(file.identity)


def _check_covered(delta: RowDelta, live: Head) -> None:
    """Refuse a delete of one data file unless that is live, kept by this commit, and of the same spec and partition.

    Java commits a deletion vector for a missing data file unless asked to look; readers then keep it forever.
    """
    files, gone = (*delta.added_data_files, *(e.data_file for e in live.data)), delta.removed_data_paths
    kept = {f.file_path: f for f in files if f.file_path not in gone}
    for delete, path in delta.covered_data_files:
        target = kept.get(path)
        if target is None:
            message = "delete refers to a data file that is not live"
            expected = "a live data file that this commit keeps"
            raise InvalidInputError(
                message, "referenced-data-file", "referenced_data_file", path, expected, file=delete.file_path
            )
        if scope_of(target) != scope_of(delete):
            message = "delete is in another partition than its data file"
            found, expected = (f"spec {f.spec_id} {f.partition}" for f in (delete, target))
            raise InvalidInputError(message, "delete-partition", "partition", found, expected, file=delete.file_path)


def _check_one_vector(delta: RowDelta, live: Head) -> None:
    """Refuse a second live deletion vector of one data file. Java compares only with concurrent commits."""
    removed = {e.data_file.identity for e in delta.removed_delete_files}
    kept = [e.data_file for e in live.vectors if e.data_file.identity not in removed]
    vectors: dict[str, DataFile | DeleteFile] = {}
    for file in (*kept, *delta.added_delete_files):
        if isinstance(file, DeleteFile) and file.is_deletion_vector and file.referenced_data_file is not None:
            field, path = "referenced_data_file", file.referenced_data_file
            other = vectors.setdefault(path, file)
            if other is not file:
                message, both = "two deletion vectors for one data file", f"{other.file_path} and {file.file_path}"
                raise InvalidInputError(message, "duplicate-deletion-vector", field, both, "at most one", file=path)
