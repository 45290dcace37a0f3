"""A Delta table for DeltaBridge: the actions of its log, and the Iceberg table that follows it. Read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from deletekit.course.views.table_view import TableView, as_table_view
from deletekit.delta.actions import Actions, AddFile
from deletekit.delta.log import DeltaLog, DeltaState
from deletekit.delta.paths import plain_path, storage_path
from deletekit.delta.synced_table import watermark_of
from deletekit.errors import DeletekitError, NotFoundError
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
        self._files: dict[str, str] = {}
        self._vectors: dict[tuple[str, str], str] = {}
        self.adds: dict[str, AddFile] = {}
        for action in actions:
            if action.path:
                self._files.setdefault(action.path, f"D{len(self._files) + 1}")
            if action.add is not None and action.vector_id is not None:
                place = action.path, action.vector_id
                self._vectors.setdefault(place, f"V{len(self._vectors) + 1}")
                self.adds[self._vectors[place]] = action.add
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
    path: the table's folder.
    table: an Iceberg table that `sync_delta` made of it, or None.
    sync: makes an Iceberg table of a folder and a version; called for each version shown if `table` is None.

    Raises NotFoundError without a Delta log, and what opening `table` raises.
    """

    def __init__(self, path: str | Path, table: Any, sync: Callable[[str, int], Table]) -> None:
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
        try:
            following: Following | DeletekitError = self._following(version)
        except DeletekitError as e:
            following = e.in_file(f"{self.root}/_delta_log")
        try:
            return DeltaVersion(self.root, state, list(self._actions(version, state)), following)
        except DeletekitError as e:
            raise e.in_file(f"{self.root}/_delta_log") from e

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
