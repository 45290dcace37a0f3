"""Faults at the calls that a verb makes to storage and to its catalog: an error, or the end of the process.

A call is one of `FileIO`'s, or a statement or COMMIT of the catalog. Each is counted; the
one with the chosen number is not made, is made by half, or is made and not answered.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import deletekit as dk
from deletekit.table import catalog as catalog_module
from deletekit.table.file_io import FileInfo, PyIcebergIO

EVERYWHERE = bool(os.environ.get("DELETEKIT_KILL_EVERYWHERE"))

_CHANGES = ("before", "after")
WHEN = {
    "write": ("before", "half", "after"),
    "create": _CHANGES,
    "delete": _CHANGES,
    "update": _CHANGES,
    "commit": _CHANGES,
}
"""Of calls that change something, what may have become of them; those that only read fail before they have."""
KILLED = 77
_FILES = ("write", "create")


def errors(names: Sequence[str], alone: int = 0) -> Iterator[tuple[int, str, str]]:
    """Yield where an error is to be: the number of the call, the call, and when.

    At the first and the last of calls in a row that read, or that write files, in every way. Between these, at each
    third that reads, and at each that writes, in one way, each way in turn. With `DELETEKIT_KILL_EVERYWHERE`, at every
    call after the first `alone` in every way.
    """
    kinds = [_kind(name) for name in names]
    for at, call in enumerate(names, 1):
        if at <= alone:
            continue
        ways = WHEN.get(call, ("before",))
        kind = kinds[at - 1]
        between = kind and 1 < at < len(names) and kinds[at - 2] == kind == kinds[at]
        if between and not EVERYWHERE:
            ways = ways[at % 3 : at % 3 + 1]
        for when in ways:
            yield at, call, when


def kills(names: Sequence[str], alone: int = 0) -> Iterator[tuple[int, str, str]]:
    """Yield where a process is to end: the number of the call, the call, and when.

    Of calls in a row that only read, it ends at the first: the others find and leave the same storage. Of files in a
    row that are written, at the first and the last: nothing names them yet, so what lies between differs only in how
    many there are. With `DELETEKIT_KILL_EVERYWHERE` it ends at every call after the first `alone`.
    """
    for at, call in enumerate(names, 1):
        before, after = names[at - 2] if at > 1 else "", names[at] if at < len(names) else ""
        if at <= alone:
            continue
        if EVERYWHERE:
            chosen = WHEN.get(call, ("before",))
        elif call not in WHEN:
            chosen = () if at > 1 and before not in WHEN else ("before",)
        elif call in _FILES:
            chosen = ("before", "half") if before not in _FILES else ()
            chosen += ("after",) if after not in _FILES else ()
        else:
            chosen = WHEN[call]
        for when in chosen:
            if when in WHEN.get(call, ("before",)):
                yield at, call, when


def _kind(call: str) -> str:
    """Return what calls that are alike have in common."""
    return "read" if call not in WHEN else "write" if call in _FILES else ""


class FaultError(OSError):
    """The injected error: nothing that deletekit knows."""


class Faults:
    """Counts calls, and lets the call number `at` fail; `at` 0 only counts.

    Attributes
    ----------
    names: what each call was, in order.
    alone: how many calls there were before somebody else was at it; 0 if nobody was.
    """

    def __init__(self, at: int = 0, when: str = "before", *, kill: bool = False) -> None:
        self.at, self.when, self.kill = at, when, kill
        self.names: list[str] = []
        self._lock = threading.Lock()
        self.alone = 0
        self._paused = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Somebody else is at it: nothing is counted."""
        self._paused = True
        self.alone = len(self.names)
        yield
        self._paused = False

    def call(self, name: str, whole: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        if self._paused:
            return whole()
        with self._lock:
            self.names.append(name)
            mine = len(self.names) == self.at
        if not mine:
            return whole()
        if self.when == "after":
            whole()
        elif self.when == "half" and half is not None:
            half()
        if self.kill:
            os._exit(KILLED)
        raise FaultError(f"{name}, call {self.at}, {self.when}")


class FaultyIO(PyIcebergIO):
    """The real storage, with faults."""

    faults: Faults

    @contextmanager
    def open(self, path: str) -> Iterator[Any]:
        with ExitStack() as stack:
            yield self.faults.call("open", lambda: stack.enter_context(super(FaultyIO, self).open(path)))

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        with PyIcebergIO.open(self, path) as stream:
            stream.seek(offset)
            data: bytes = self.faults.call("read", lambda: stream.read() if length is None else stream.read(length))
        return data

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        whole = data.to_pybytes() if isinstance(data, pa.Buffer) else bytes(data)
        self.faults.call(
            "write",
            lambda: super(FaultyIO, self).write(path, whole),
            lambda: super(FaultyIO, self).write(path, whole[: len(whole) // 2]),
        )

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        with ExitStack() as stack:
            yield self.faults.call("create", lambda: stack.enter_context(super(FaultyIO, self).create(path)))

    def size(self, path: str) -> int:
        found: int = self.faults.call("size", lambda: super(FaultyIO, self).size(path))
        return found

    def exists(self, path: str) -> bool:
        found: bool = self.faults.call("exists", lambda: super(FaultyIO, self).exists(path))
        return found

    def list(self, prefix: str) -> Iterator[FileInfo]:
        found: Iterator[FileInfo] = self.faults.call("list", lambda: super(FaultyIO, self).list(prefix))
        return found

    def delete(self, path: str) -> None:
        self.faults.call("delete", lambda: super(FaultyIO, self).delete(path))


@contextmanager
def faulty(faults: Faults, catalog: dk.Catalog) -> Iterator[None]:
    """Let the verbs inside go through faults: the catalog's storage, its statements and its COMMITs."""
    engine = catalog.pyiceberg.engine  # type: ignore[attr-defined]
    original, dialect = catalog_module.PyIcebergIO, engine.dialect
    kind = type("FaultyIO", (FaultyIO,), {"faults": faults})
    execute, commit = dialect.do_execute, dialect.do_commit

    def do_execute(cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        name = statement.split(None, 1)[0].lower()
        faults.call(name, lambda: execute(cursor, statement, parameters, context))

    def do_commit(connection: Any) -> None:
        faults.call("commit", lambda: commit(connection))

    catalog_module.PyIcebergIO = kind  # type: ignore[misc]
    dialect.do_execute, dialect.do_commit = do_execute, do_commit
    try:
        yield
    finally:
        catalog_module.PyIcebergIO = original  # type: ignore[misc]
        dialect.do_execute, dialect.do_commit = execute, commit


class Dying:
    """A process that forks: it reads a line for each child that is to die, and prints the child's exit code."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._jobs, self._codes = process.stdin, process.stdout

    def start(self, *job: object) -> None:
        self._jobs.write(json.dumps(job, default=str) + "\n")  # paths are texts
        self._jobs.flush()

    def wait(self) -> int:
        return int(self._codes.readline())

    def run(self, *job: object) -> int:
        """Let a child live a job. Return its exit code."""
        self.start(*job)
        return self.wait()


@contextmanager
def parent_of_killed(module: str) -> Iterator[Dying]:
    """Give the process that `module` is as a program."""
    command, root = [sys.executable, "-m", module], Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Dying(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
