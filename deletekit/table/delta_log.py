"""A Delta table's log: the state of a version, and the commits that lead from one to another.

Law: read-only. A state is replayed from the newest checkpoint that the remaining commits continue; what is live is
keyed by (path, vector). Nothing of the table but `_delta_log` is opened.
Spec: Delta protocol, "Delta Log Entries", "Action Reconciliation".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deletekit.errors import DeletekitError, FormatError, NotFoundError
from deletekit.formats.delta_actions import Actions, AddFile, Metadata, Protocol, parse_commit
from deletekit.formats.delta_checkpoint import (
    CheckpointFiles,
    LogFiles,
    log_files,
    read_checkpoint_json,
    read_checkpoint_parquet,
)
from deletekit.formats.delta_path import storage_path
from deletekit.formats.delta_protocol import check_readable
from deletekit.table.file_io import FileIO

__all__ = ["DeltaCommit", "DeltaLog", "DeltaState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCommit:
    """One commit of the log; `timestamp_ms` is None where neither commit nor storage say."""

    version: int
    actions: Actions
    timestamp_ms: int | None

    @property
    def paths(self) -> set[str]:
        """The data files it is about."""
        return {a.path for a in self.actions.adds} | {r.path for r in self.actions.removes}

    @property
    def changes_data(self) -> bool:
        """Whether it says so of one of its files."""
        return any(a.data_change for a in self.actions.adds) or any(r.data_change for r in self.actions.removes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaState:
    """The table at a version. `files` are live data files by path as the log has it."""

    version: int
    metadata: Metadata
    protocol: Protocol
    files: Mapping[str, AddFile] = field(repr=False)


_Start = tuple[Metadata | None, Protocol | None, dict[str, AddFile], int]


class DeltaLog:
    """The log of the table at `root`, as it was when it was listed."""

    def __init__(self, io: FileIO, root: str) -> None:
        self._io = io
        self.root = root.rstrip("/")
        self._folder = f"{self.root}/_delta_log"
        self._modified: dict[str, int] = {}
        self._files = self._list()
        self._last: DeltaState | None = None

    @property
    def latest(self) -> int:
        """The newest version."""
        latest = self._files.latest
        assert latest is not None
        return latest

    def state(self, version: int) -> DeltaState:
        """The table at `version`, checked to be one that can be read.

        Raises NotFoundError for a version that the log does not reach any more, or not yet; FormatError for a damaged
        log; UnsupportedError for a feature that is not known.
        """
        last = self._last
        if last is None or last.version > version or not self.has_commits(last.version + 1, version):
            last = None
        metadata, protocol, files, first = self._checkpointed(version) if last is None else _of_state(last)
        for commit in self.commits(first, version):
            _apply(files, commit.actions)
            metadata, protocol = commit.actions.metadata or metadata, commit.actions.protocol or protocol
        if metadata is None or protocol is None:
            raise FormatError(
                "Delta log without metaData or protocol", kind="delta-log", file=self._folder, found=version
            )
        try:
            check_readable(protocol, metadata)
        except DeletekitError as e:
            raise e.in_file(self._folder) from e
        self._last = DeltaState(version=version, metadata=metadata, protocol=protocol, files=files)
        return self._last

    def _checkpointed(self, version: int) -> _Start:
        """Where a replay begins: the newest checkpoint, or nothing; and the first commit to be read."""
        base = self._base(version)
        if base is None:
            return None, None, {}, 0
        actions = self._checkpoint(base)
        files: dict[str, AddFile] = {}
        for add in actions.adds:
            _put(files, add)
        return actions.metadata, actions.protocol, files, base.version + 1

    def has_commits(self, first: int, last: int) -> bool:
        """Whether every commit from `first` to `last` is still there."""
        return all(v in self._files.commits for v in range(first, last + 1))

    def commits(self, first: int, last: int) -> Iterator[DeltaCommit]:
        """The commits of these versions, in order. Raises NotFoundError for one that is not there, FormatError."""
        for version in range(first, last + 1):
            yield self._commit(version)

    def replayable(self, version: int) -> tuple[int | None, Iterator[DeltaCommit]]:
        """The log up to a version, as far back as it can be replayed; raises as `state` does.

        Returns the version of the checkpoint that it begins with (None: it is whole), and the commits behind that.
        """
        self._base(version)
        first = next((v + 1 for v in range(version, -1, -1) if v not in self._files.commits), 0)
        if first == 0:
            return None, self.commits(0, version)
        begin = next(v for v in range(first - 1, version + 1) if self.constructable(v))
        return begin, self.commits(begin + 1, version)

    def constructable(self, version: int) -> bool:
        """Whether the state of a version can still be had."""
        return self._start(version) is not None

    def line(self, version: int, action: str) -> str:
        """The line of a commit that holds an action, as it is written; "" for none."""
        lines = self._io.read(f"{self._folder}/{self._files.commits[version]}").decode().splitlines()
        return next((line for line in lines if line.startswith(f'{{"{action}"')), "")

    def checksum(self, version: int) -> Mapping[str, object]:
        """Counters of the version checksum file (`.crc`); {} where there is none that can be read."""
        name = self._files.checksums.get(version)
        if name is None:
            return {}
        try:
            found = json.loads(self._io.read(f"{self._folder}/{name}"))
        except (ValueError, RecursionError, NotFoundError):
            return {}
        return found if isinstance(found, dict) else {}

    def timestamp_ms(self, version: int) -> int | None:
        """When a version was committed: its in-commit timestamp where it has one, else as storage has it."""
        return self._commit(version).timestamp_ms if version in self._files.commits else None

    def _list(self) -> LogFiles:
        names = []
        for info in self._io.list(self._folder):
            name = info.path[len(self._folder) + 1 :]
            if "/" not in name:
                names.append(name)
                self._modified[name] = info.modified_ms
        files = log_files(names)
        if files.latest is None:
            raise NotFoundError("no Delta table here", kind="delta-table-not-found", file=self.root)
        return files

    def _base(self, version: int) -> CheckpointFiles | None:
        if version < 0 or version > self.latest:
            raise NotFoundError(
                "no such Delta version",
                kind="delta-version-not-found",
                file=self.root,
                found=version,
                expected=f"at most {self.latest}",
            )
        start = self._start(version)
        if start is None:
            raise NotFoundError(
                "the Delta log does not reach this version: commits are missing",
                kind="delta-log-gap",
                file=self._folder,
                found=version,
                expected="a checkpoint, or version 0, and every commit from there on",
            )
        return None if start == -1 else next(c for c in self._files.checkpoints if c.version == start)

    def _start(self, version: int) -> int | None:
        """Version of the newest checkpoint to begin with; -1 for the first commit, None where commits are missing."""
        for checkpoint in reversed(self._files.checkpoints):
            if checkpoint.version <= version and self.has_commits(checkpoint.version + 1, version):
                return checkpoint.version
        return -1 if self.has_commits(0, version) else None

    def _checkpoint(self, checkpoint: CheckpointFiles) -> Actions:
        merged = Actions()
        pending = [f"{self._folder}/{name}" for name in checkpoint.names]
        while pending:
            path = pending.pop()
            actions = self._checkpoint_file(path)
            merged.adds += actions.adds
            merged.metadata = actions.metadata or merged.metadata
            merged.protocol = actions.protocol or merged.protocol
            pending += [storage_path(s.path, f"{self._folder}/_sidecars") for s in actions.sidecars]
        return merged

    def _checkpoint_file(self, path: str) -> Actions:
        try:
            if path.endswith(".json"):
                return read_checkpoint_json(self._io.read(path))
            with self._io.open(path) as source:
                return read_checkpoint_parquet(source)
        except DeletekitError as e:
            raise e.in_file(path) from e

    def _commit(self, version: int) -> DeltaCommit:
        name = self._files.commits.get(version)
        if name is None:
            raise NotFoundError(
                "a commit of the Delta log is missing", kind="delta-log-gap", file=self._folder, found=version
            )
        path = f"{self._folder}/{name}"
        try:
            actions = parse_commit(self._io.read(path))
        except DeletekitError as e:
            raise e.in_file(path) from e
        stamp = actions.commit_info.get("inCommitTimestamp")
        if not isinstance(stamp, int):
            stamp = self._modified.get(name)
        return DeltaCommit(version=version, actions=actions, timestamp_ms=stamp)


def _of_state(state: DeltaState) -> _Start:
    return state.metadata, state.protocol, dict(state.files), state.version + 1


def _apply(files: dict[str, AddFile], actions: Actions) -> None:
    """Removes first: within a commit there is no order. What a remove names and is not live is an old tombstone."""
    for remove in actions.removes:
        live = files.get(remove.path)
        if live is not None and live.vector_id == remove.vector_id:
            del files[remove.path]
    for add in actions.adds:
        _put(files, add)


def _put(files: dict[str, AddFile], add: AddFile) -> None:
    live = files.get(add.path)
    if live is not None and live.vector_id != add.vector_id:
        raise FormatError(
            "a data file is live with two deletion vectors",
            kind="delta-log",
            file=add.path,
            field="deletionVector",
            found=f"{live.vector_id} and {add.vector_id}",
            expected="one",
        )
    files[add.path] = add
