"""What a change may not be, whoever made it: checked against the head before a byte is written.

Law: refuses, never repairs. These are the rules of one commit; races between commits are `commit.py`'s business.
Spec: "Delete Formats", "Deletion Vectors", "Format Versioning"; Java MergingSnapshotProducer; where it is weaker
we say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deletekit.deletes.scope import referenced_path, scope_of
from deletekit.errors import CommitConflictError, InvalidInputError
from deletekit.formats.content_file import DeleteFile, FileContent
from deletekit.table.live_files import LiveFiles
from deletekit.table.metadata import TableMetadata

if TYPE_CHECKING:
    from deletekit.commit.change import RowDelta

__all__ = ["check_delete_kind", "check_delta"]


def check_delete_kind(kind: str, format_version: int) -> None:
    """Raise InvalidInputError when a table of this format version may not get this kind of delete.

    `kind` is `"position-delete"`, `"deletion-vector"` or `"equality-delete"`.
    """
    allowed = {
        1: (),
        2: ("position-delete", "equality-delete"),
        3: ("deletion-vector", "equality-delete"),
    }[format_version]
    if kind not in allowed:
        raise InvalidInputError(
            f"format version {format_version} does not take this kind of delete",
            kind="delete-kind",
            field="mode",
            found=kind,
            expected=", ".join(("copy-on-write", *allowed)),
        )


def check_delta(delta: RowDelta, metadata: TableMetadata, data: LiveFiles, deletes: LiveFiles) -> None:
    """Check a change against the live data and delete files of the head.

    Raises InvalidInputError for a change no commit may make, CommitConflictError when a file it removes is not live
    (someone else removed it first).
    """
    for delete in delta.added_delete_files:
        check_delete_kind(delete.kind, metadata.format_version)
        _check_fields(delete)
    _check_sequence_numbers(delta, metadata)
    _check_records(delta)
    _check_removed(delta, data, deletes)
    _check_added_paths(delta, data, deletes)
    _check_referenced(delta, data)
    _check_one_vector(delta, deletes)


def _check_fields(delete: DeleteFile) -> None:
    """Which optional fields each kind of delete must and must not have (spec "Data File Fields" and its notes)."""
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
    """Only what rewrites old rows has an old data sequence number (spec "Manifest Entry Fields")."""
    last = metadata.last_sequence_number
    for path, number in delta.sequence_numbers.items():
        if delta.operation != "replace" or metadata.format_version < 2 or not 0 <= number <= last:
            raise InvalidInputError(
                "added file may not have this data sequence number",
                kind="sequence-number",
                file=path,
                field="sequence_number",
                found=f"{number}, operation {delta.implied_operation}",
                expected=f"0 to {last}, and operation replace, in format version 2 or later",
            )


def _check_records(delta: RowDelta) -> None:
    """A `replace` holds no row that was not there (spec "Snapshots"; Java SnapshotProducer)."""
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


def _check_removed(delta: RowDelta, data: LiveFiles, deletes: LiveFiles) -> None:
    for removed, live in ((delta.removed_data_files, data), (delta.removed_delete_files, deletes)):
        identities = {e.data_file.identity for e in live.with_paths(e.data_file.file_path for e in removed)}
        for entry in removed:
            if entry.data_file.identity not in identities:
                raise CommitConflictError(
                    "file to remove is not live", kind="missing-file", file=entry.data_file.file_path
                )


def _check_added_paths(delta: RowDelta, data: LiveFiles, deletes: LiveFiles) -> None:
    """No live path twice, and none added that is live (spec: a path is added once)."""
    added = (*delta.added_data_files, *delta.added_delete_files)
    paths = {file.file_path for file in added}
    seen = {e.data_file.identity for e in (*data.with_paths(paths), *deletes.with_paths(paths))}
    for file in added:
        if file.identity in seen:
            raise InvalidInputError("file is in the table already", kind="duplicate-file", file=file.file_path)
        seen.add(file.identity)


def _check_referenced(delta: RowDelta, data: LiveFiles) -> None:
    """A delete of one data file needs that file live, kept by this commit, and of the same spec and partition.

    Java commits a deletion vector for a file that is not in the table unless asked to look; readers then carry it on.
    """
    positional = [d for d in delta.added_delete_files if d.content == FileContent.POSITION_DELETES]
    about = [(d, path) for d in positional if (path := referenced_path(d)) is not None]
    live = {e.data_file.file_path: e.data_file for e in data.with_paths(path for _, path in about)}
    gone = {e.data_file.file_path for e in delta.removed_data_files}
    added = {f.file_path: f for f in delta.added_data_files}
    for delete, path in about:
        target = live.get(path) or added.get(path)
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


def _check_one_vector(delta: RowDelta, deletes: LiveFiles) -> None:
    """At most one live deletion vector per data file; Java checks only against commits made meanwhile."""
    removed = {e.data_file.identity for e in delta.removed_delete_files}
    vectors: dict[str, DeleteFile] = {}
    named = {f.referenced_data_file for f in delta.added_delete_files if f.referenced_data_file is not None}
    twice = [e.data_file for e in deletes.vectors_twice()]
    named -= {f.referenced_data_file for f in twice if isinstance(f, DeleteFile)}
    live = [*twice, *(e.data_file for e in deletes.vectors_of(named))]
    kept = [f for f in live if f.identity not in removed]
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
