"""A Delta table for DeltaBridge, read-only: its log, the Iceberg table that follows it, and a vector on both sides.

Each side of a vector is read from its own file. What a descriptor promises about a frame is checked, and reported if it
is wrong.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from deletekit.course.views.bitmap_bytes import LARGEST_FILE
from deletekit.course.views.byte_layout import ByteRange, blob_layout
from deletekit.course.views.table_view import TableView, as_table_view, delete_of
from deletekit.delta.actions import Actions, AddFile
from deletekit.delta.deletion_vector import blob_of_frame, decode_body, read_frame
from deletekit.delta.log import DeltaLog, DeltaState
from deletekit.delta.paths import plain_path, storage_path
from deletekit.delta.synced_table import watermark_of
from deletekit.errors import DeletekitError, NotFoundError, UnsupportedError
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.locations import normalised
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.table import Table

_VERSIONS_KEPT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaAction:
    """One action of the log, or of the checkpoint that it begins with.

    Attributes
    ----------
    path: of the data file, as in the log; "" if the action is not about a data file.
    vector_id: of the action's deletion vector; None without one.
    add: the add action; None for other actions.
    detail: what the other actions say.
    live: no later action replaces it.
    """

    version: int
    action: str
    path: str = ""
    vector_id: str | None = None
    add: AddFile | None = None
    detail: str = ""
    live: bool = False


@dataclass(frozen=True, slots=True)
class Following:
    """The Iceberg table at a Delta version; `snapshot` is None if the version has no file."""

    view: TableView
    snapshot: Snapshot | None


class DeltaVersion:
    """A version of a Delta table: its state, the actions that lead to it, and names for its files and vectors.

    Attributes
    ----------
    following: the Iceberg table, or why there is none.
    """

    def __init__(
        self, root: str, state: DeltaState, actions: list[DeltaAction], following: Following | DeletekitError
    ) -> None:
        self.root = root
        self.state = state
        self.actions = actions
        self.following = following
        paths = dict.fromkeys(a.path for a in actions if a.path)
        added = {(a.path, a.vector_id): a.add for a in actions if a.add is not None and a.vector_id is not None}
        self._files = {path: f"D{n}" for n, path in enumerate(paths, 1)}
        self._vectors = {place: f"V{n}" for n, place in enumerate(added, 1)}
        self.adds = {f"V{n}": add for n, add in enumerate(added.values(), 1)}
        self.live: dict[str, AddFile] = {self.key(add.path): add for add in state.files.values()}

    def key(self, path: str) -> str:
        """Return one spelling for all spellings of a path of the log."""
        return plain_path(storage_path(path, self.root))

    def file(self, path: str) -> str:
        """Return the name of a data file, as `D1`, by its path in the log."""
        return self._files.get(path, "-")

    def vector(self, path: str, vector_id: str | None) -> str:
        """Return the name of a vector, as `V1`; `-` without one, `V?` if it is older than the log."""
        return "-" if vector_id is None else self._vectors.get((path, vector_id), "V?")

    def first_live_vector(self) -> str | None:
        """Return the name of the first live vector; None without one."""
        return next((n for n, add in self.adds.items() if _is_live(add, self.state.files)), None)


class DeltaView:
    """A Delta table, as it was when this object was made.

    Parameters
    ----------
    path: the table's folder; or, alone, an Iceberg table that `sync_delta` made of it.
    table: an Iceberg table that `sync_delta` made of it, or None.
    sync: makes an Iceberg table of a folder and a version; called for each version shown if `table` is None.

    Raises NotFoundError without a Delta log or of a table that follows none, and what opening `table` raises.
    """

    def __init__(self, path: Any, table: Any, sync: Callable[[str, int], Table]) -> None:
        self.alone = table is None
        if table is None and not isinstance(path, str | Path):
            table = as_table_view(path)
            path = _followed(table.metadata)
        self.table = None if table is None else as_table_view(table)
        self._sync = sync
        root = normalised(str(path), "delta")
        io = self.table.table.io if self.table is not None else PyIcebergIO({}, root)
        self.io = io
        self.log = DeltaLog(io, root)
        self.root = self.log.root
        self.at = lru_cache(maxsize=_VERSIONS_KEPT)(self._at)

    def version(self, wanted: int | None) -> int:
        """Return the version to show: the wanted one, else the one that the Iceberg table is at, else the newest."""
        metadata = self.table.metadata if self.table is not None else None
        followed = watermark_of(metadata, metadata.current_snapshot) if metadata is not None else None
        return wanted if wanted is not None else self.log.latest if followed is None else followed.version

    def _at(self, version: int) -> DeltaVersion:
        state = self.log.state(version)
        log = f"{self.root}/_delta_log"
        try:
            following: Following | DeletekitError = self._following(version)
        except DeletekitError as e:
            following = e.in_file(log)
        try:
            return DeltaVersion(self.root, state, list(self._actions(version, state)), following)
        except DeletekitError as e:
            raise e.in_file(log) from e

    def _following(self, version: int) -> Following:
        if self.table is not None:
            return Following(self.table, _following_snapshot(self.table.metadata, version))
        view = TableView(self._sync(self.root, version))
        return Following(view, view.metadata.current_snapshot)

    def _actions(self, version: int, state: DeltaState) -> Iterator[DeltaAction]:
        begin, commits = self.log.replayable(version)
        found: list[DeltaAction] = []
        if begin is not None:
            files = self.log.state(begin).files.values()
            found += [_add(add, begin, "checkpoint: add") for add in files]
        for commit in commits:
            found += _of_commit(commit.version, commit.actions)
        last = {a.path: i for i, a in enumerate(found) if a.add is not None}
        for i, action in enumerate(found):
            live = action.add is not None and last[action.path] == i and _is_live(action.add, state.files)
            yield replace(action, live=live)


def _followed(metadata: TableMetadata) -> str:
    """Return the folder of the Delta table that a table follows. Raises NotFoundError."""
    found = watermark_of(metadata, metadata.current_snapshot)
    if found is None or found.location is None:
        expected = "a table that sync_delta made, or the folder of a Delta table"
        raise NotFoundError("the table follows no Delta table", kind="delta-table-not-found", expected=expected)
    return found.location


def _following_snapshot(metadata: TableMetadata, version: int) -> Snapshot:
    """Return the newest snapshot of `main` that is at a Delta version, or before it if no file has changed since.

    Raises NotFoundError if `sync_delta` did not make the table, or made it at a later version.
    """
    head = metadata.current_snapshot
    for snapshot in metadata.ancestors(head.snapshot_id if head else None):
        found = watermark_of(metadata, snapshot)
        if found is not None and found.version <= version:
            return snapshot
    raise NotFoundError(
        "no snapshot of the table is at this Delta version",
        kind="delta-version-not-found",
        field="version",
        found=version,
        expected="a version that sync_delta brought the table to",
    )


def _of_commit(version: int, actions: Actions) -> Iterator[DeltaAction]:
    if actions.protocol is not None:
        protocol = actions.protocol
        features = ", ".join(sorted(protocol.reader_features | protocol.writer_features))
        detail = f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"
        detail += f": {features}" if features else ""
        yield DeltaAction(version=version, action="protocol", detail=detail)
    if actions.metadata is not None:
        settings = sorted(actions.metadata.configuration.items())
        detail = ", ".join(f"{name}={value}" for name, value in settings if name.startswith("delta."))
        yield DeltaAction(version=version, action="metaData", detail=detail)
    for remove in actions.removes:
        yield DeltaAction(version=version, action="remove", path=remove.path, vector_id=remove.vector_id)
    yield from (_add(add, version, "add") for add in actions.adds)


def _add(add: AddFile, version: int, action: str) -> DeltaAction:
    return DeltaAction(version=version, action=action, path=add.path, vector_id=add.vector_id, add=add)


def _is_live(add: AddFile, files: Mapping[str, AddFile]) -> bool:
    live = files.get(add.path)
    return live is not None and live.vector_id == add.vector_id


# --- a vector on both sides -------------------------------------------------------------------------------------------


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
    places = {label: i for i, label in enumerate(right)}
    alone = [label for label in right if label not in left]
    parts: list[Part] = []
    for label, found in left.items():
        while alone and label in right and places[alone[0]] < places[label]:
            other = right[alone.pop(0)]
            parts.append(Part(other.field, None, other))
        parts.append(Part(found.field, found, right.get(label)))
    return parts + [Part(right[label].field, None, right[label]) for label in alone]


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
