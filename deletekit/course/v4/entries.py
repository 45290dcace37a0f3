"""What a manifest entry would hold in format version 4: a data file with its vector beside it. A draft, see `DRAFT`.

Fields and their order are those of Java's `TrackedFile`, `Tracking`, `DeletionVector` and `ManifestInfo`. Left out are
the split offsets, the sort order, encryption, and the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import IntEnum
from typing import Any

from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.formats.content_file import ContentFile, DeleteFile, ManifestEntry
from deletekit.table.table import Table
from deletekit.verbs.scan import scan


class Status(IntEnum):
    """`status` (field 0). The last two are new: the state of an entry before and after a change of its vector."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2
    REPLACED = 3
    MODIFIED = 4

    @property
    def is_live(self) -> bool:
        """Whether the file is part of the table."""
        return self not in (Status.DELETED, Status.REPLACED)


class Content(IntEnum):
    """`content_type` (field 134), without the values for equality deletes. No value is a position delete."""

    DATA = 0
    DATA_MANIFEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """`deletion_vector` (148): where the blob is. The blob is a `deletion-vector-v1`, as in format version 3."""

    location: str
    offset: int
    size_in_bytes: int
    cardinality: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """`tracking` (147). The two sets of positions are for manifests: which of their entries went in this snapshot."""

    status: Status
    snapshot_id: int | None = None
    sequence_number: int | None = None
    file_sequence_number: int | None = None
    dv_snapshot_id: int | None = None
    first_row_id: int | None = None
    deleted_positions: bytes | None = None
    replaced_positions: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestInfo:
    """`manifest_info` (150): what a root manifest says of a leaf manifest. `dv` has the entries that are dead.

    `files` and `rows` are four fields each in the draft: of added, existing, deleted and replaced entries.
    """

    files: tuple[int, ...]
    rows: tuple[int, ...]
    min_sequence_number: int
    dv: bytes | None = None
    dv_cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedFile:
    """One entry of a root or leaf manifest: a data file, or (in a root) a leaf manifest."""

    tracking: Tracking
    content_type: Content
    format_version: int = 4
    location: str
    file_format: str = "parquet"
    record_count: int
    file_size_in_bytes: int
    spec_id: int | None = None
    content_stats: tuple[tuple[Any, ...], ...] = ()
    deletion_vector: Vector | None = None
    manifest_info: ManifestInfo | None = None

    def became(self, status: Status, **tracking: Any) -> TrackedFile:
        """Return the entry with another status."""
        return replace(self, tracking=replace(self.tracking, status=status, **tracking))


def with_vector(entry: TrackedFile, vector: Vector, snapshot_id: int) -> tuple[TrackedFile, TrackedFile]:
    """Return the two entries of a delete: the old state, REPLACED, and the new one with the vector, MODIFIED.

    Raises InvalidInputError for an entry that is no live data file: nothing else has a vector.
    """
    if entry.content_type != Content.DATA or not entry.tracking.status.is_live:
        found = f"{entry.content_type.name}, {entry.tracking.status.name}"
        message = "only the entry of a live data file has a vector"
        raise InvalidInputError(message, kind="v4-entry", field="deletion_vector", found=found, expected="DATA, live")
    modified = replace(entry, deletion_vector=vector).became(Status.MODIFIED, dv_snapshot_id=snapshot_id)
    return entry.became(Status.REPLACED, snapshot_id=snapshot_id), modified


def entries_of(table: Table) -> list[TrackedFile]:
    """Return what the entries of a table's current snapshot would be in format version 4. Nothing is written.

    Raises UnsupportedError for deletes that are no vectors: this laboratory does not show what becomes of them.
    """
    tasks = list(scan(table).plan())
    for file in (file for task in tasks for file in task.delete_files if not file.is_deletion_vector):
        message = "only deletion vectors go beside their data file"
        raise UnsupportedError(
            message, kind="v4-entry", file=file.file_path, found=file.kind, expected="deletion-vector"
        )
    return [tracked(task.data, *task.deletes, location=table.location) for task in tasks]


def tracked(entry: ManifestEntry, vector: ManifestEntry | None = None, *, location: str = "") -> TrackedFile:
    """Return an entry of format version 3, and that of its vector, as one. Paths below `location` become relative."""
    file, beside = entry.data_file, vector.data_file if vector else None
    tracking = Tracking(
        status=Status(entry.status),
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        dv_snapshot_id=vector.snapshot_id if vector else None,
        first_row_id=getattr(file, "first_row_id", None),
    )
    return TrackedFile(
        tracking=tracking,
        content_type=Content.DATA,
        location=_relative(file.file_path, location),
        file_format=file.file_format.lower(),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        spec_id=file.spec_id,
        content_stats=_stats(file),
        deletion_vector=vector_of(beside, location) if isinstance(beside, DeleteFile) else None,
    )


def vector_of(file: DeleteFile, location: str) -> Vector:
    """Return what an entry says of a vector of format version 3."""
    return Vector(
        location=_relative(file.file_path, location),
        offset=file.content_offset or 0,
        size_in_bytes=file.content_bytes,
        cardinality=file.record_count,
    )


def value_bytes(value: Any) -> int:
    """Return how many bytes the values in it have, without a container around them: the same measure for both trees.

    A number takes the bytes of Avro's encoding, text and bytes have their length, and what is absent has none.
    """
    if value is None:
        return 0
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    if is_dataclass(value):
        return sum(value_bytes(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, Mapping):
        return sum(value_bytes(k) + value_bytes(v) for k, v in value.items())
    if isinstance(value, tuple | list):
        return sum(map(value_bytes, value))
    return max(1, (int(value).bit_length() + 7) // 7)


def _stats(file: ContentFile) -> tuple[tuple[Any, ...], ...]:
    """One tuple for a column: lower and upper bound, number of values, number of nulls; ids are in the schema."""
    maps = [getattr(file, name) or {} for name in ("lower_bounds", "upper_bounds", "value_counts", "null_value_counts")]
    return tuple(tuple(m.get(column) for m in maps) for column in sorted({c for m in maps for c in m}))


def _relative(path: str, location: str) -> str:
    return path.removeprefix(f"{location}/") if location else path
