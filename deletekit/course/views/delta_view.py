"""A Delta table as DeltaBridge looks at it: the actions of its log, and the Iceberg table that follows it.

Law: read-only. Both sides are read by what syncs tables: the log by `table.delta_log`, the Iceberg table by its own
metadata, whether it was given or is on trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from deletekit.course.recordings.delta_tables import followed_version, following_snapshot, synced_trial
from deletekit.course.views.table_view import TableView, as_table_view
from deletekit.delta.actions import Actions, AddFile
from deletekit.delta.log import DeltaLog, DeltaState
from deletekit.delta.paths import plain_path, storage_path
from deletekit.errors import DeletekitError
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.locations import normalised
from deletekit.table.metadata import Snapshot

__all__ = ["DeltaAction", "DeltaVersion", "DeltaView", "Following", "as_delta_view"]

_VERSIONS_KEPT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaAction:
    """One action of the log, or of the checkpoint that it begins with.

    Attributes
    ----------
    path: of the data file, as the log has it; "" for actions about none.
    vector_id: of the deletion vector it names; None for none.
    add: the add action, or None for others.
    detail: what other actions say.
    live: no later action takes its place.
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
    """The Iceberg table at a Delta version; `snapshot` is None where the version has no file."""

    view: TableView
    snapshot: Snapshot | None


class DeltaVersion:
    """A version: its state, the actions that lead to it, and names for its files (D1) and vectors (V1).

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
        """What two spellings of a log's path have in common."""
        return plain_path(storage_path(path, self.root))

    def key_at(self, location: str) -> str:
        """The same of a storage path."""
        return plain_path(location)

    def file(self, path: str) -> str:
        """The name of a data file by the log's path."""
        return self._files.get(path, "-")

    def vector(self, path: str, vector_id: str | None) -> str:
        """The name of a vector; `-` for none, `V?` for one that was there before the log begins."""
        return "-" if vector_id is None else self._vectors.get((path, vector_id), "V?")

    def first_live_vector(self) -> str | None:
        """The first vector, in the order of names, that is live."""
        return next((n for n, add in self.adds.items() if _is_live(add, self.state.files)), None)


class DeltaView:
    """A Delta table, as it was when this was made.

    Parameters
    ----------
    path: the table's folder.
    table: an Iceberg table that `sync_delta` made of it; None: one is made on trial for each version looked at.

    Raises NotFoundError without a Delta log, and what opening `table` raises.
    """

    def __init__(self, path: str | Path, table: Any = None) -> None:
        self.table = None if table is None else as_table_view(table)
        root = normalised(str(path), "delta")
        io = self.table.table.io if self.table is not None else PyIcebergIO({}, root)
        self.io = io
        self.log = DeltaLog(io, root)
        self.root = self.log.root
        self.at = lru_cache(maxsize=_VERSIONS_KEPT)(self._at)

    def version(self, wanted: int | None) -> int:
        """The version to show: the table's own, or Delta's newest, unless one is asked for."""
        if wanted is not None:
            return wanted
        followed = None if self.table is None else followed_version(self.table.metadata)
        return self.log.latest if followed is None else followed

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
            return Following(self.table, following_snapshot(self.table.metadata, version))
        view = TableView(synced_trial(self.root, version))
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


def as_delta_view(source: Any, table: Any = None) -> DeltaView:
    """`source` itself when it is a DeltaView, or a new one of a path."""
    return source if isinstance(source, DeltaView) else DeltaView(source, table)


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
