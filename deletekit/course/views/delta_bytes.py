"""A Delta table's deletion vector beside the Iceberg delete made of it: positions compared, bytes aligned part by part.

Each side is read from its own file. What a descriptor promises about a frame is checked, and reported if it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deletekit.course.views.byte_layout import ByteRange, blob_layout
from deletekit.course.views.delta_view import DeltaVersion, DeltaView, Following
from deletekit.course.views.table_view import delete_of
from deletekit.course.views.vector_file import LARGEST_FILE
from deletekit.delta.actions import AddFile
from deletekit.delta.deletion_vector import blob_of_frame, decode_body, read_frame
from deletekit.delta.paths import plain_path, storage_path
from deletekit.errors import DeletekitError, UnsupportedError
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent


@dataclass(frozen=True, slots=True)
class Side:
    """The bytes of a vector on one side: where they begin in their file, and what each is. `data` may be empty."""

    data: bytes = b""
    offset: int = 0
    ranges: tuple[ByteRange, ...] = ()
    positions: PositionBitmap | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the frame and its counterpart in the blob; None if one of them has no such part."""

    field: str
    delta: ByteRange | None
    iceberg: ByteRange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPair:
    """Both sides of a vector; `problems` is what is wrong with either."""

    delta: Side = field(default_factory=Side)
    iceberg: Side = field(default_factory=Side)
    problems: tuple[DeletekitError, ...] = ()

    @property
    def same_positions(self) -> bool | None:
        """Whether both sides have the same positions; None if one side has none."""
        if self.delta.positions is None or self.iceberg.positions is None:
            return None
        return self.delta.positions == self.iceberg.positions


def vector_pair(source: DeltaView, version: DeltaVersion, add: AddFile) -> VectorPair:
    """Return the vector of an add action, and the Iceberg delete of its data file if the vector is live."""
    problems: list[DeletekitError] = []
    delta = iceberg = Side()
    try:
        delta = _delta_side(source, version, add, problems)
    except DeletekitError as e:
        problems.append(e.in_file(version.root))
    live = version.live.get(version.key(add.path))
    following = version.following
    if isinstance(following, Following) and live is not None and live.vector_id == add.vector_id:
        try:
            iceberg = _iceberg_side(following, storage_path(add.path, version.root))
        except DeletekitError as e:
            problems.append(e)
    return VectorPair(delta=delta, iceberg=iceberg, problems=tuple(problems))


def deletes_of(following: Following, entry: ManifestEntry) -> list[DeleteFile]:
    """Return the deletes that apply to a live data file of the Iceberg table."""
    assert following.snapshot is not None
    return [delete_of(e) for e in following.view.index(following.snapshot).for_data_file(entry)]


def aligned(pair: VectorPair) -> list[Part]:
    """Return the parts of both sides in order, parts with the same meaning side by side.

    Containers are matched by their positions, other parts by their name and bitmap.
    """
    left, right = (dict(_labelled(side.ranges)) for side in (pair.delta, pair.iceberg))
    parts: list[Part] = []
    waiting = iter(right.items())
    shown: set[tuple[str, int]] = set()
    for label, found in left.items():
        if label in right:
            for other, alone in waiting:
                if other == label:
                    break
                if other not in left and other not in shown:
                    parts.append(Part(alone.field, None, alone))
                    shown.add(other)
        parts.append(Part(found.field, found, right.get(label)))
    parts += [Part(r.field, None, r) for label, r in right.items() if label not in left and label not in shown]
    return parts


def _labelled(ranges: Sequence[ByteRange]) -> Iterator[tuple[tuple[str, int], ByteRange]]:
    seen: dict[str, int] = {}
    for found in ranges:
        if found.first_position is not None:
            yield ("container", found.first_position), found
        else:
            seen[found.field] = seen.get(found.field, -1) + 1
            yield (found.field, seen[found.field]), found


def _delta_side(source: DeltaView, version: DeltaVersion, add: AddFile, problems: list[DeletekitError]) -> Side:
    descriptor = add.deletion_vector
    assert descriptor is not None
    if descriptor.size_in_bytes > LARGEST_FILE:
        raise UnsupportedError(
            "deletion vector is too large to lay out",
            kind="size",
            file=descriptor.file_path(version.root),
            field="sizeInBytes",
            found=descriptor.size_in_bytes,
            expected=f"<= {LARGEST_FILE}",
        )
    path, offset, frame = read_frame(source.io, version.root, descriptor)
    place = path or add.path
    positions = None
    try:
        blob_of_frame(frame, descriptor, add.num_records)
        positions = decode_body(memoryview(frame)[4:-4])
    except DeletekitError as e:
        problems.append(e.in_file(place))
    try:
        return Side(frame, offset, blob_layout(frame), positions)
    except DeletekitError as e:
        if positions is not None or not problems:
            problems.append(e.in_file(place))
        return Side(frame, offset)


def _iceberg_side(following: Following, location: str) -> Side:
    view, snapshot = following.view, following.snapshot
    if snapshot is None:
        return Side()
    live = view.live(snapshot, ManifestContent.DATA)
    found = live.find((location,))
    if found is None:  # the table may have been made by another spelling of the Delta table's folder
        key = plain_path(location)
        found = next((e for e in live if plain_path(e.data_file.file_path) == key), None)
    if found is None:
        return Side()
    for delete in deletes_of(following, found):
        if delete.content == FileContent.POSITION_DELETES:
            return _of_delete(following, delete, found.data_file.file_path)
    return Side()


def _of_delete(following: Following, delete: DeleteFile, data_path: str) -> Side:
    positions = following.view.context.loader.positions_of(delete, data_path)
    if not delete.is_deletion_vector or delete.content_offset is None or delete.content_size_in_bytes is None:
        return Side(positions=positions)
    offset, size = delete.content_offset, delete.content_size_in_bytes
    blob = following.view.table.io.read(delete.file_path, offset, size)
    return Side(blob, offset, blob_layout(blob), positions)
