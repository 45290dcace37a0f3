"""The engines that are asked: a program for each, in a process of its own that answers one request after the other.

A program reads a line of JSON on standard input for each request and writes a line of JSON on standard output back;
docs/conformance.md tells it in full. It is not believed: what it writes is bounded, and it is ended if it is late.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal, Self

from deletekit.errors import InvalidInputError
from deletekit.text import brief, without_secrets

BUILT_IN = ("deletekit", "spark", "pyiceberg", "polars", "duckdb", "chdb", "pysail", "datafusion", "daft")
"""The engines that have a program in `conformance/adapters` of the sources. All but deletekit must be installed."""

REFUSES = 3
"""The exit code of a program that refuses; its words are on standard error."""

LARGEST_ANSWER = 64_000_000
"""Bytes. The rows of the suite's tables take some kilobytes."""

_SOURCES = Path(__file__).parents[2]
_LONGEST_WORDS = 300
_KEPT_ERRORS = 4_000
_SECONDS_TO_END = 10
# Folders of this machine, in an engine's words; the file that the words are about stays.
_FOLDERS = re.compile(r"(?:file:(?=/)|(?<![\w:/.]))/+(?:[^\s/'\"`,;:()]+/)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A reader of Iceberg tables: its name, the command that answers for it, and variables that this needs.

    A built-in one works in a temporary folder; the paths in another command may begin where the user is.
    """

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    is_built_in: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an engine answered: rows, or words. Rows may have words too: how they were read."""

    kind: Literal["rows", "refuses", "crashes", "unavailable"]
    rows: Any = None
    words: str = ""
    version: str = ""


def engine_of(text: str) -> Engine:
    """Return the engine that a text names: one of `BUILT_IN`, or `NAME=COMMAND` as a shell splits it."""
    name, is_own, command = text.partition("=")
    if name and is_own and (words := shlex.split(command)):
        return Engine(name=name, command=tuple(words))
    if name not in BUILT_IN or is_own:
        expected = f"{', '.join(BUILT_IN)}; or NAME=COMMAND"
        raise InvalidInputError("no engine of this name", kind="engine", field="engine", found=text, expected=expected)
    if not can_ask():
        message = "the programs that read with an engine are in the sources of deletekit, not in its package"
        raise InvalidInputError(message, kind="engine", field="engine", found=text, expected="NAME=COMMAND")
    # The process works in another folder, and finds the sources by the variable.
    path = os.pathsep.join(filter(None, (str(_SOURCES), os.environ.get("PYTHONPATH"))))
    program = (sys.executable, "-m", f"conformance.adapters.{name}")
    return Engine(name=name, command=program, variables={"PYTHONPATH": path}, is_built_in=True)


def can_ask() -> bool:
    """Tell whether the programs of `BUILT_IN` are here: in the sources, beside this package."""
    return (_SOURCES / "conformance" / "adapters").is_dir()


class EngineProcess:
    """The process of an engine, which starts with the first request, and again after it has ended.

    Parameters
    ----------
    folder: the process works there.
    seconds: the longest that an answer may take; the first one includes the start.
    """

    def __init__(self, engine: Engine, folder: Path, seconds: float, largest: int = LARGEST_ANSWER) -> None:
        self._engine, self._folder, self._seconds, self._largest = engine, folder, seconds, largest
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop(gently=True)

    def ask(self, request: Mapping[str, Any]) -> Answer:
        """Return the answer to a request. What the engine does wrong is an answer too.

        A process that ends after earlier answers may have been ended by those: a new one is asked the same.
        """
        if self._process is not None and _has_spoken(self._process):
            self._stop()  # by itself: what it says next may be the answer to an earlier question
        is_fresh = self._process is None
        try:
            process = self._process = self._process or self._start()
        except OSError as e:
            return Answer(kind="unavailable", words=_words(f"cannot be started: {e}"))
        try:
            line = self._line_for(process, json.dumps(request).encode() + b"\n")
        except _EndedError as e:
            return e.answer if is_fresh else self.ask(request)
        answer = _parsed(line)
        if answer.kind == "crashes":
            self._stop()
        return answer

    def _line_for(self, process: subprocess.Popen[bytes], line: bytes) -> bytes:
        with suppress(BrokenPipeError):  # it has ended; its output tells how
            process.stdin.write(line)  # type: ignore[union-attr]  # there is a pipe
        found, until, self._errors = bytearray(), monotonic() + self._seconds, b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]  # there is a pipe
            selector.register(process.stderr, selectors.EVENT_READ)  # type: ignore[arg-type]
            while (left := until - monotonic()) > 0:
                for key, _ in selector.select(left):
                    data = os.read(key.fd, 1 << 16)
                    if key.fileobj is process.stderr:
                        self._errors = (self._errors + data)[-_KEPT_ERRORS:]
                        if not data:
                            selector.unregister(key.fileobj)
                        continue
                    found += data
                    if b"\n" in data:
                        answer, _, more = bytes(found).partition(b"\n")
                        if more:
                            self._stop()
                        return answer
                    if not data:
                        raise _EndedError(self._ended(process))
                    if len(found) > self._largest:
                        self._stop()
                        return b'{"crashes": "more than %d bytes in one answer"}' % self._largest
        self._stop()
        return b'{"crashes": "no answer in %g seconds"}' % self._seconds

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(  # noqa: S603  # the command is what the user asks for
            self._engine.command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,  # what waits in a buffer would be written again when the pipe is closed
            cwd=self._folder,
            env={**os.environ, **self._engine.variables},
            start_new_session=True,
        )

    def _ended(self, process: subprocess.Popen[bytes]) -> Answer:
        """Say how a process ended that closed its output."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        errors = (self._errors + (process.stderr.read() or b""))[-_KEPT_ERRORS:].decode(errors="replace")
        code = process.returncode
        self._stop()
        if code == REFUSES:
            return Answer(kind="refuses", words=_words(errors))
        how = "closed its output" if code is None else f"exit code {code}" if code >= 0 else f"signal {_signal(-code)}"
        return Answer(kind="crashes", words=_words(f"{how}, without an answer. {_last_line(errors)}"))

    def _stop(self, *, gently: bool = False) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes the pipes
            if gently:
                process.stdin.close()  # type: ignore[union-attr]  # there is a pipe
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_TO_END)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _has_spoken(process: subprocess.Popen[bytes]) -> bool:
    """Whether there is output that no question has asked for, or the end of it."""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]  # there is a pipe
        return bool(selector.select(0))


class _EndedError(Exception):
    """The process ended without an answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.words)


def _parsed(line: bytes) -> Answer:
    """Return what a line says; one that breaks the protocol is a crash."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return Answer(kind="crashes", words=_words(f"the answer is not JSON: {line[:200].decode(errors='replace')}"))
    if not isinstance(said, dict):
        return Answer(kind="crashes", words="the answer is not a JSON object")
    version = brief(said.get("version") or "", 80)
    for kind in ("crashes", "refuses", "unavailable"):
        if kind in said:
            return Answer(kind=kind, words=_words(said[kind]), version=version)
    if not isinstance(said.get("rows"), list) or not all(isinstance(row, list) for row in said["rows"]):
        return Answer(kind="crashes", words="the answer has no `rows` that are a list of lists", version=version)
    return Answer(kind="rows", rows=said["rows"], words=_words(said.get("words") or ""), version=version)


def _words(text: object) -> str:
    """Return the words of an engine in one short line that names no folder of this machine."""
    return brief(" ".join(_FOLDERS.sub("…/", without_secrets(str(text))).split()), _LONGEST_WORDS)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
