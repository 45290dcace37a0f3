"""Read a Delta table's log: the state of a version, and the commits between two versions.

A state is replayed from the newest checkpoint that the remaining commits continue. Live files are keyed by (path,
vector). Only `_delta_log` is opened, and only for reading.
Spec: Delta protocol, "Delta Log Entries", "Action Reconciliation".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from deletekit.delta.actions import Actions, AddFile, Metadata, Protocol, RemoveFile, parse_commit
from deletekit.delta.checkpoint import CheckpointFiles, log_files, read_checkpoint_parquet
from deletekit.delta.paths import spelling_free, storage_path
from deletekit.delta.protocol import check_readable
from deletekit.errors import FormatError, NotFoundError, naming
from deletekit.table.file_io import FileIO

_KEPT_ACTIONS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many data files are live, how many of them have a vector, and how many rows the vectors delete."""

    files: int = 0
    vectors: int = 0
    deleted: int = 0

    @classmethod
    def of(cls, adds: Collection[AddFile]) -> Counts:
        """Count files."""
        vectors = [add.deletion_vector for add in adds if add.deletion_vector is not None]
        return cls(files=len(adds), vectors=len(vectors), deleted=sum(vector.cardinality for vector in vectors))

    def plus(self, other: Counts, sign: int = 1) -> Counts:
        """Return the sum, or the difference (`sign` -1)."""
        return Counts(
            files=self.files + sign * other.files,
            vectors=self.vectors + sign * other.vectors,
            deleted=self.deleted + sign * other.deleted,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCommit:
    """One commit of the log. `timestamp_ms` is None if neither the commit nor storage has a time."""

    version: int
    actions: Actions
    timestamp_ms: int | None

    @property
    def changes(self) -> tuple[AddFile | RemoveFile, ...]:
        """Return the add and remove actions."""
        return (*self.actions.adds, *self.actions.removes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaState:
    """The table at a version.

    Attributes
    ----------
    files: live data files by path as the log has it.
    counts: all live files; more than `files` if the replay was resumed.
    """

    version: int
    metadata: Metadata
    protocol: Protocol
    files: Mapping[str, AddFile] = field(repr=False)
    counts: Counts


@dataclass(slots=True)
class _Replay:
    """A state while commits are applied: `spelled` are the other spellings of the paths of live files."""

    metadata: Metadata | None = None
    protocol: Protocol | None = None
    files: dict[str, AddFile] = field(default_factory=dict)
    spelled: dict[str, str] = field(default_factory=dict)
    others: Counts = field(default_factory=Counts)

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
            key = self._check_spelling(add.path)
            if key != add.path:
                self.spelled[key] = add.path
            live = self.files.get(add.path)
            if live is not None and live.vector_id != add.vector_id:
                message, found = (
                    "a data file is live with two deletion vectors",
                    f"{live.vector_id} and {add.vector_id}",
                )
                raise FormatError(message, "delta-log", "deletionVector", found, "one", file=add.path)
            self.files[add.path] = add
        self.metadata, self.protocol = actions.metadata or self.metadata, actions.protocol or self.protocol

    def _check_spelling(self, path: str) -> str:
        """Refuse two spellings of one path. Spark takes them for one file, delta-kernel for two."""
        key = spelling_free(path)
        for other in (key, self.spelled.get(key, key)):
            if other != path and other in self.files:
                message = "a data file has two spellings in the Delta log: readers do not agree if they are one file"
                raise FormatError(message, "delta-path-spelling", "path", f"{other} and {path}", "one spelling")
        return key


class DeltaLog:
    """The log of the table at `root`, as it was when it was listed."""

    def __init__(self, io: FileIO, root: str) -> None:
        self._io = io
        self.root = root.rstrip("/")
        self._folder = f"{self.root}/_delta_log"
        listed = {info.path[len(self._folder) + 1 :]: info for info in io.list(self._folder)}
        self._listed = {name: info for name, info in listed.items() if "/" not in name}
        self._files = log_files(self._listed)
        versions = [*self._files.commits, *(c.version for c in self._files.checkpoints)]
        if not versions:
            raise NotFoundError("no Delta table here", kind="delta-table-not-found", file=self.root)
        self.latest = max(versions)
        """The newest version."""
        self._last: tuple[int, _Replay] | None = None
        self._start: tuple[int, _Replay] | None = None
        self._read: dict[int, DeltaCommit] = {}
        self._kept = 0

    def state(self, version: int) -> DeltaState:
        """Return the table at `version`, after checking that it can be read.

        Raises NotFoundError for a version that does not exist or whose commits are gone; FormatError for a damaged log;
        UnsupportedError for an unknown feature.
        """
        replay, first = self._begin(version)
        for commit in self.commits(first, version):
            with naming(f"{self._folder}/{self._files.commits[commit.version]}"):
                replay.apply(commit.actions)
        metadata, protocol = replay.metadata, replay.protocol
        if metadata is None or protocol is None:
            raise FormatError("Delta log without metaData or protocol", "delta-log", file=self._folder, found=version)
        with naming(self._folder):
            check_readable(protocol, metadata)
        self._last = version, replay
        counts = replay.others.plus(Counts.of(replay.files.values()))
        return DeltaState(version=version, metadata=metadata, protocol=protocol, files=replay.files, counts=counts)

    def resume(
        self, version: int, metadata: Metadata, protocol: Protocol, files: Iterable[AddFile], others: Counts
    ) -> None:
        """Let the next replay begin at a version. `files` are the live files that later commits are about.

        `others` counts the rest.
        """
        known = {add.path: add for add in files}
        spelled = {key: path for path in known if (key := spelling_free(path)) != path}
        self._last, self._start = None, (version, _Replay(metadata, protocol, known, spelled, others))

    def listed_again(self) -> DeltaLog:
        """Return the log as it is now."""
        return DeltaLog(self._io, self.root)

    def forget(self) -> None:
        """Let the next replay begin at a checkpoint or the first commit."""
        self._last = self._start = None

    def _begin(self, version: int) -> tuple[_Replay, int]:
        """Return where a replay begins, and the first commit to read.

        It begins with the state that was asked for last, with a resumed one, with the newest checkpoint, or with
        nothing.
        """
        for known in (self._last, self._start):
            if known is not None and known[0] <= version and self.has_commits(known[0] + 1, version):
                replay = known[1]
                return replace(replay, files={**replay.files}, spelled={**replay.spelled}), known[0] + 1
        checkpoint = self._base(version)
        return (_Replay(), 0) if checkpoint is None else (self._checkpoint(checkpoint), checkpoint.version + 1)

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

    def file_of(self, version: int) -> tuple[int, int] | None:
        """Return size and modification time of a commit, which tell it from another; None if the file is gone."""
        info = self._listed.get(self._files.commits.get(version, ""))
        return None if info is None else (info.size, info.modified_ms)

    def constructable(self, version: int) -> bool:
        """Return whether the state of a version can still be read."""
        return any(True for _ in self._starts(version))

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

    def _starts(self, version: int) -> Iterator[CheckpointFiles | None]:
        """Yield what a replay can begin with: the checkpoints, the newest first, and then None for the first commit."""
        for checkpoint in (*reversed(self._files.checkpoints), None):
            begin = -1 if checkpoint is None else checkpoint.version
            if begin <= version and self.has_commits(begin + 1, version):
                yield checkpoint

    def _base(self, version: int) -> CheckpointFiles | None:
        if version < 0 or version > self.latest:
            message, kind = "no such Delta version", "delta-version-not-found"
            raise NotFoundError(message, kind=kind, file=self.root, found=version, expected=f"at most {self.latest}")
        for start in self._starts(version):
            return start
        message = "the Delta log does not reach this version: commits are missing"
        expected = "a checkpoint, or version 0, and every commit from there on"
        raise NotFoundError(message, kind="delta-log-gap", file=self._folder, found=version, expected=expected)

    def _checkpoint(self, checkpoint: CheckpointFiles) -> _Replay:
        replay = _Replay()
        pending = [f"{self._folder}/{name}" for name in checkpoint.names]
        while pending:
            path = pending.pop()
            actions = self._parsed(path)
            actions.removes.clear()  # tombstones, which are old
            with naming(path):
                for name in ("metadata", "protocol"):
                    if None not in (getattr(actions, name), getattr(replay, name)):
                        raise FormatError("Delta checkpoint has two of one action", "delta-checkpoint", name)
                replay.apply(actions)
            pending += [storage_path(sidecar, f"{self._folder}/_sidecars") for sidecar in actions.sidecars]
        return replay

    def _commit(self, version: int) -> DeltaCommit:
        if version in self._read:
            return self._read[version]
        name = self._files.commits.get(version)
        if name is None:
            message = "a commit of the Delta log is missing"
            raise NotFoundError(message, kind="delta-log-gap", file=self._folder, found=version)
        actions = self._parsed(f"{self._folder}/{name}")
        stamp = actions.commit_info.get("inCommitTimestamp")
        timestamp_ms = stamp if isinstance(stamp, int) else self._listed[name].modified_ms
        self._kept += 1 + len(actions.adds) + len(actions.removes)
        if self._kept > _KEPT_ACTIONS:
            self._read.clear()
            self._kept = 0
        self._read[version] = DeltaCommit(version=version, actions=actions, timestamp_ms=timestamp_ms)
        return self._read[version]

    def _parsed(self, path: str) -> Actions:
        """Parse a commit, or a file of a checkpoint."""
        with naming(path):
            if path.endswith(".json"):
                return parse_commit(self._io.read(path))
            with self._io.open(path) as source:
                return read_checkpoint_parquet(source)
