"""Read a Delta table's log: the state of a version, and the commits between two versions.

A state is replayed from the newest checkpoint that the remaining commits continue. Live files are keyed by (path,
vector). Only `_delta_log` is opened, and only for reading.
Spec: Delta protocol, "Delta Log Entries", "Action Reconciliation".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from deletekit.delta.actions import Actions, AddFile, Metadata, Protocol, parse_commit
from deletekit.delta.checkpoint import (
    CheckpointFiles,
    LogFiles,
    log_files,
    read_checkpoint_parquet,
)
from deletekit.delta.paths import spelling_free, storage_path
from deletekit.delta.protocol import check_readable
from deletekit.errors import DeletekitError, FormatError, NotFoundError
from deletekit.table.file_io import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCommit:
    """One commit of the log. `timestamp_ms` is None if neither the commit nor storage has a time."""

    version: int
    actions: Actions
    timestamp_ms: int | None

    @property
    def paths(self) -> set[str]:
        """Return the paths of the data files that the commit adds or removes."""
        return {a.path for a in self.actions.adds} | {r.path for r in self.actions.removes}

    @property
    def changes_data(self) -> bool:
        """Return whether `dataChange` is true for one of its files."""
        return any(a.data_change for a in self.actions.adds) or any(r.data_change for r in self.actions.removes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaState:
    """The table at a version. `files` are live data files by path as the log has it."""

    version: int
    metadata: Metadata
    protocol: Protocol
    files: Mapping[str, AddFile] = field(repr=False)


class _Replay:
    """Live files by path, and the other spellings of paths in the log."""

    def __init__(self, adds: Iterable[AddFile] = ()) -> None:
        self.files: dict[str, AddFile] = {}
        self._spelled: dict[str, str] = {}
        for add in adds:
            self._put(add)

    def copy(self) -> _Replay:
        out = _Replay()
        out.files, out._spelled = dict(self.files), dict(self._spelled)
        return out

    def apply(self, actions: Actions) -> None:
        """Apply a commit's removes, then its adds; a commit has no order.

        A remove of a file that is not live is old.
        """
        for remove in actions.removes:
            self._check_spelling(remove.path)
            live = self.files.get(remove.path)
            if live is not None and live.vector_id == remove.vector_id:
                del self.files[remove.path]
        for add in actions.adds:
            self._put(add)

    def _put(self, add: AddFile) -> None:
        key = self._check_spelling(add.path)
        if key != add.path:
            self._spelled[key] = add.path
        live = self.files.get(add.path)
        if live is not None and live.vector_id != add.vector_id:
            raise FormatError(
                "a data file is live with two deletion vectors",
                kind="delta-log",
                file=add.path,
                field="deletionVector",
                found=f"{live.vector_id} and {add.vector_id}",
                expected="one",
            )
        self.files[add.path] = add

    def _check_spelling(self, path: str) -> str:
        """Refuse two spellings of one path. Spark takes them for one file, delta-kernel for two."""
        key = spelling_free(path)
        for other in (key, self._spelled.get(key, key)):
            if other != path and other in self.files:
                raise FormatError(
                    "a data file has two spellings in the Delta log: readers do not agree whether they are one file",
                    kind="delta-path-spelling",
                    field="path",
                    found=f"{other} and {path}",
                    expected="one spelling",
                )
        return key


_Start = tuple[Metadata | None, Protocol | None, _Replay, int]


class DeltaLog:
    """The log of the table at `root`, as it was when it was listed."""

    def __init__(self, io: FileIO, root: str) -> None:
        self._io = io
        self.root = root.rstrip("/")
        self._folder = f"{self.root}/_delta_log"
        self._modified: dict[str, int] = {}
        self._files = self._list()
        self._last: tuple[DeltaState, _Replay] | None = None

    @property
    def latest(self) -> int:
        """Return the newest version."""
        latest = self._files.latest
        assert latest is not None
        return latest

    def state(self, version: int) -> DeltaState:
        """Return the table at `version`, after checking that it can be read.

        Raises NotFoundError for a version that does not exist or whose commits are gone; FormatError for a damaged log;
        UnsupportedError for an unknown feature.
        """
        metadata, protocol, replay, first = self._continued(version) or self._checkpointed(version)
        for commit in self.commits(first, version):
            try:
                replay.apply(commit.actions)
            except DeletekitError as e:
                raise e.in_file(f"{self._folder}/{self._files.commits[commit.version]}") from e
            metadata, protocol = commit.actions.metadata or metadata, commit.actions.protocol or protocol
        if metadata is None or protocol is None:
            raise FormatError(
                "Delta log without metaData or protocol", kind="delta-log", file=self._folder, found=version
            )
        try:
            check_readable(protocol, metadata)
        except DeletekitError as e:
            raise e.in_file(self._folder) from e
        state = DeltaState(version=version, metadata=metadata, protocol=protocol, files=replay.files)
        self._last = state, replay
        return state

    def _continued(self, version: int) -> _Start | None:
        """Return the last state that was asked for, if the replay can go on from it to `version`."""
        if self._last is None:
            return None
        state, replay = self._last
        if state.version > version or not self.has_commits(state.version + 1, version):
            return None
        return state.metadata, state.protocol, replay.copy(), state.version + 1

    def _checkpointed(self, version: int) -> _Start:
        """Return where a replay begins: the newest checkpoint or nothing, and the first commit to read."""
        base = self._base(version)
        if base is None:
            return None, None, _Replay(), 0
        actions = self._checkpoint(base)
        return actions.metadata, actions.protocol, _Replay(actions.adds), base.version + 1

    def has_commits(self, first: int, last: int) -> bool:
        """Return whether every commit from `first` to `last` still exists."""
        return all(v in self._files.commits for v in range(first, last + 1))

    def commits(self, first: int, last: int) -> Iterator[DeltaCommit]:
        """Yield the commits of these versions, in order. Raise NotFoundError for a missing one, or FormatError."""
        for version in range(first, last + 1):
            yield self._commit(version)

    def replayable(self, version: int) -> tuple[int | None, Iterator[DeltaCommit]]:
        """Return the log up to a version, as far back as it can be replayed. Raise as `state` does.

        The first value is the version of the checkpoint that the replay begins with, or None if the log is complete.
        The second is the commits after it.
        """
        self._base(version)
        first = next((v + 1 for v in range(version, -1, -1) if v not in self._files.commits), 0)
        if first == 0:
            return None, self.commits(0, version)
        begin = next(v for v in range(first - 1, version + 1) if self.constructable(v))
        return begin, self.commits(begin + 1, version)

    def constructable(self, version: int) -> bool:
        """Return whether the state of a version can still be read."""
        return self._start(version) is not None

    def line(self, version: int, action: str) -> str:
        """Return the line of a commit that holds an action, as it was written, or "" if there is none."""
        lines = self._io.read(f"{self._folder}/{self._files.commits[version]}").decode().splitlines()
        return next((line for line in lines if line.startswith(f'{{"{action}"')), "")

    def checksum(self, version: int) -> Mapping[str, object]:
        """Return the counters of the version checksum file (`.crc`), or {} if it is missing or unreadable."""
        name = self._files.checksums.get(version)
        if name is None:
            return {}
        try:
            found = json.loads(self._io.read(f"{self._folder}/{name}"))
        except (ValueError, RecursionError, NotFoundError):
            return {}
        return found if isinstance(found, dict) else {}

    def timestamp_ms(self, version: int) -> int | None:
        """Return when a version was committed: its in-commit timestamp, or the modification time of its file."""
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
        """Return the version of the newest checkpoint to begin with; -1 for the first commit, None if commits are
        missing.
        """
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
            for name in ("metadata", "protocol"):
                found = getattr(actions, name)
                if found is not None and getattr(merged, name) is not None:
                    raise FormatError(
                        "Delta checkpoint has two of one action", kind="delta-checkpoint", file=path, field=name
                    )
                if found is not None:
                    setattr(merged, name, found)
            pending += [storage_path(s.path, f"{self._folder}/_sidecars") for s in actions.sidecars]
        return merged

    def _checkpoint_file(self, path: str) -> Actions:
        try:
            if path.endswith(".json"):
                return parse_commit(self._io.read(path))
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
