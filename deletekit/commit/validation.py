"""Check a change against the head before anything of its snapshot is written.

These are the rules for one commit; `conflicts.py` has those for concurrent commits. A bad change is refused.
Spec: "Delete Formats", "Deletion Vectors", "Format Versioning"; Java MergingSnapshotProducer. Comments say where Java
checks less.
"""

from __future__ import annotations

from collections.abc import Collection

from deletekit.commit.change import Base, ManifestRewrite, RowDelta
from deletekit.deletes.which_apply import scope_of
from deletekit.errors import CommitConflictError, InvalidInputError
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent, ManifestEntry
from deletekit.table.live_files import FoundFiles
from deletekit.table.metadata import TableMetadata


def check_delta(delta: RowDelta, metadata: TableMetadata, live: FoundFiles) -> None:
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


def check_same_files(base: Base, change: ManifestRewrite) -> None:
    """Raise InvalidInputError unless the new manifests hold exactly the live files of the replaced ones."""
    old = sorted(repr(e.data_file.identity) for m in change.replaced for e in base.reader.entries(m) if e.is_live)
    new = sorted(repr(e.data_file.identity) for group in change.manifests for e in group)
    if old != new:
        raise InvalidInputError(
            "a rewrite of manifests may not add or lose a file",
            kind="manifest-rewrite",
            found=f"{len(new)} entries",
            expected=f"the {len(old)} live ones of the replaced manifests",
        )


def _check_fields(delete: DeleteFile) -> None:
    """Check which optional fields a delete has, by its kind (spec "Data File Fields" and its notes)."""
    is_equality = delete.content == FileContent.EQUALITY_DELETES
    rules = [
        ("equality_ids", is_equality, bool(delete.equality_ids)),
        ("content_offset", delete.is_deletion_vector, delete.content_offset is not None),
        ("content_size_in_bytes", delete.is_deletion_vector, delete.content_size_in_bytes is not None),
    ]
    if delete.is_deletion_vector:
        rules.append(("referenced_data_file", True, delete.referenced_data_file is not None))
    if not is_equality:
        rules.append(("sort_order_id", False, delete.sort_order_id is not None))
    for field, wanted, present in rules:
        if wanted != present:
            raise InvalidInputError(
                f"{delete.kind} {'lacks a field' if wanted else 'may not have this field'}",
                kind="delete-file-field",
                file=delete.file_path,
                field=field,
                found=getattr(delete, field),
            )


def _check_sequence_numbers(delta: RowDelta, metadata: TableMetadata) -> None:
    """Refuse an old data sequence number except for a rewrite of old rows (spec "Manifest Entry Fields")."""
    last = metadata.last_sequence_number
    for path, number in delta.sequence_numbers.items():
        if delta.operation != "replace" or not metadata.version.has_sequence_numbers or not 0 <= number <= last:
            raise InvalidInputError(
                "added file may not have this data sequence number",
                kind="sequence-number",
                file=path,
                field="sequence_number",
                found=f"{number}, operation {delta.implied_operation}",
                expected=f"0 to {last}, and operation replace, in format version 2 or later",
            )


def _check_records(delta: RowDelta) -> None:
    """Refuse a `replace` that adds rows (spec "Snapshots"; Java SnapshotProducer)."""
    added = sum(f.record_count for f in delta.added_data_files)
    removed = sum(e.data_file.record_count for e in delta.removed_data_files)
    if delta.operation == "replace" and added > removed:
        raise InvalidInputError(
            "a replacement may not add rows",
            kind="replace-records",
            field="added-records",
            found=added,
            expected=f"at most the {removed} of the removed data files",
        )


def _check_live(removed: Collection[ManifestEntry], live: Collection[ManifestEntry]) -> None:
    """Raise CommitConflictError if a file to remove is not live."""
    identities = {e.data_file.identity for e in live}
    for entry in removed:
        if entry.data_file.identity not in identities:
            raise CommitConflictError("file to remove is not live", kind="missing-file", file=entry.data_file.file_path)


def _check_added_paths(delta: RowDelta, live: FoundFiles) -> None:
    """Refuse to add a file twice, or one that is live already (spec: a path is added once)."""
    seen = {e.data_file.identity for e in (*live.data, *live.deletes)}
    for file in (*delta.added_data_files, *delta.added_delete_files):
        if file.identity in seen:
            raise InvalidInputError("file is in the table already", kind="duplicate-file", file=file.file_path)
        seen.add(file.identity)


def _check_covered(delta: RowDelta, live: FoundFiles) -> None:
    """Refuse a delete of one data file unless that is live, kept by this commit, and of the same spec and partition.

    Java commits a deletion vector for a missing data file unless asked to look; readers then keep it forever.
    """
    gone = {e.data_file.file_path for e in delta.removed_data_files}
    kept: dict[str, DataFile | DeleteFile] = {f.file_path: f for f in delta.added_data_files}
    kept |= {e.data_file.file_path: e.data_file for e in live.data}
    for delete, path in delta.covered_data_files:
        target = kept.get(path)
        if target is None or path in gone:
            raise InvalidInputError(
                "delete refers to a data file that is not live",
                kind="referenced-data-file",
                file=delete.file_path,
                field="referenced_data_file",
                found=path,
                expected="a live data file that this commit keeps",
            )
        if scope_of(target) != scope_of(delete):
            raise InvalidInputError(
                "delete is in another partition than its data file",
                kind="delete-partition",
                file=delete.file_path,
                field="partition",
                found=f"spec {delete.spec_id} {delete.partition}",
                expected=f"spec {target.spec_id} {target.partition}",
            )


def _check_one_vector(delta: RowDelta, live: FoundFiles) -> None:
    """Refuse a second live deletion vector of one data file. Java compares only with concurrent commits."""
    removed = {e.data_file.identity for e in delta.removed_delete_files}
    others = [e for e in live.vectors if e not in live.duplicate_vectors]
    kept = [e.data_file for e in (*live.duplicate_vectors, *others) if e.data_file.identity not in removed]
    vectors: dict[str, DeleteFile] = {}
    for file in (*kept, *delta.added_delete_files):
        if not isinstance(file, DeleteFile) or not file.is_deletion_vector or file.referenced_data_file is None:
            continue
        other = vectors.setdefault(file.referenced_data_file, file)
        if other is not file:
            raise InvalidInputError(
                "two deletion vectors for one data file",
                kind="duplicate-deletion-vector",
                file=file.referenced_data_file,
                field="referenced_data_file",
                found=f"{other.file_path} and {file.file_path}",
                expected="at most one",
            )
