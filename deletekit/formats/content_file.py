"""Content files and manifest entries, as frozen values with the spec's field names.

Partition values are kept as Avro stores them: a date is days, a decimal or uuid is bytes. So the tuples of two writers
are equal exactly when the spec says so.
Spec: "Manifests", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from deletekit.errors import FormatError, UnsupportedError

METRIC_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
"""The fields of a content file that are maps by field id."""


class FileContent(IntEnum):
    """`data_file.content` (field 134)."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class EntryStatus(IntEnum):
    """`manifest_entry.status` (field 0)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentFile:
    """The fields that data files and delete files have in common.

    `partition` holds one value per field of partition spec `spec_id`, in the spec's field order. Metric maps are keyed
    by field id; bounds are in the spec's single-value binary serialisation. None means absent, never empty.
    """

    content: FileContent
    spec_id: int
    file_path: str
    file_format: str
    partition: tuple[Any, ...] = ()
    record_count: int
    file_size_in_bytes: int
    column_sizes: Mapping[int, int] | None = None
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    nan_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    key_metadata: bytes | None = None
    split_offsets: tuple[int, ...] | None = None
    sort_order_id: int | None = None

    @property
    def identity(self) -> tuple[Any, ...]:
        """The values that identify this file; see `DeleteFile.identity` for why a path is not enough."""
        return (self.file_path,)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile(ContentFile):
    """A data file. `first_row_id` (field 142) is v3 row lineage; None until a commit assigns it."""

    content: FileContent = FileContent.DATA
    first_row_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile(ContentFile):
    """A position delete file, an equality delete file, or one deletion vector inside a Puffin file."""

    equality_ids: tuple[int, ...] | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size_in_bytes: int | None = None

    @property
    def identity(self) -> tuple[Any, ...]:
        """(path, offset, size): one Puffin file holds many deletion vectors, so the path alone names none of them."""
        return (self.file_path, self.content_offset, self.content_size_in_bytes)

    @property
    def is_deletion_vector(self) -> bool:
        """A deletion vector is a position delete stored in Puffin, whatever else is set (Java ContentFileUtil.isDV)."""
        return self.content == FileContent.POSITION_DELETES and self.file_format == "PUFFIN"

    @property
    def content_bytes(self) -> int:
        """Bytes this delete occupies: its blob for a deletion vector, else the whole file (summary `*-files-size`)."""
        if self.is_deletion_vector and self.content_size_in_bytes is not None:
            return self.content_size_in_bytes
        return self.file_size_in_bytes

    @property
    def kind(self) -> str:
        """`"deletion-vector"`, `"position-delete"` or `"equality-delete"`."""
        if self.is_deletion_vector:
            return "deletion-vector"
        return "position-delete" if self.content == FileContent.POSITION_DELETES else "equality-delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """`manifest_entry`: a content file and when it entered or left the table.

    Sequence numbers are None only as written by the commit that added the file (inherited when read).
    """

    status: EntryStatus
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile | DeleteFile

    @property
    def is_live(self) -> bool:
        return self.status != EntryStatus.DELETED

    @property
    def identity(self) -> tuple[str, int | None]:
        """The path and the sequence number: one path may be added twice, and other deletes apply to it then."""
        return self.data_file.file_path, self.sequence_number

    def existing(self) -> ManifestEntry:
        """Return the entry as a later manifest lists it."""
        return replace(self, status=EntryStatus.EXISTING)

    def deleted(self, snapshot_id: int) -> ManifestEntry:
        """Return the entry as the manifest of the deleting snapshot `snapshot_id` records it."""
        return replace(self, status=EntryStatus.DELETED, snapshot_id=snapshot_id)


def refuse_encrypted(file: ContentFile) -> None:
    """Raise UnsupportedError for a file with key metadata: its bytes are cipher text, and would look like damage."""
    if file.key_metadata is not None:
        message = "encrypted files cannot be read"
        raise UnsupportedError(message, kind="encryption", file=file.file_path, field="key_metadata")


def file_format_of(name: str) -> str:
    """Return the upper-case name of a file format. Raises FormatError for an unknown one.

    Java writes upper case, the spec's table lists lower case.
    """
    upper = str(name).upper()
    if upper not in {"PARQUET", "AVRO", "ORC", "PUFFIN"}:
        raise FormatError("unknown file format", "file-format", "file_format", name, "parquet, avro, orc, puffin")
    return upper


def partition_key(partition: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a hashable key that is equal exactly when two partition tuples are equal by the spec.

    NULL equals NULL, any NaN equals any NaN, and -0.0 differs from 0.0 (spec "Scan Planning"; Java Comparators).
    """
    if not any(isinstance(v, float) for v in partition):
        return partition
    return tuple(
        ("float", b"nan" if v != v else struct.pack("<d", v)) if isinstance(v, float) else v for v in partition
    )
