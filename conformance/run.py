"""Ask a reader of Iceberg for the rows of the suite's tables, and judge each answer: right, refuses, WRONG or crashes.

    python conformance/run.py --engine "my-reader {table} {ref}"
    python conformance/run.py --engine duckdb --engine polars --rule vector-wins --json verdicts.json

Python's standard library is enough. README.md beside this file says what a reader is given and what it prints.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import select
import selectors
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from pathlib import Path
from subprocess import PIPE
from time import monotonic
from typing import Any, Self, cast

HERE = Path(__file__).resolve().parent
ARCHIVE = HERE / "tables.tar.xz"
ROOT = Path("/tmp/iceberg-verification/deletekit")  # noqa: S108  # what unpacks there compares sums
"""Where the tables believe to lie; the metadata of those that Java wrote spells it `file:/tmp/...`."""
BUILT_IN = ("deletekit", "spark", "pyiceberg", "polars", "duckdb", "chdb", "pysail", "datafusion", "daft")
"""The engines that `engines.py` asks, if they are installed."""
KINDS = ("right", "refuses", "WRONG", "crashes")
OTHER_ROWS = "other rows"
"""What a wrong answer breaks whose rows are those of no decoy."""
REFUSES = 3
"""The exit code of a program that refuses, with its words on standard error."""
SECONDS = 120.0
LARGEST_ANSWER = 64_000_000
_LONGEST_WORDS, _KEPT_ERRORS, _SECONDS_TO_END = 300, 4_000, 10
# Folders of this machine, in an engine's words; the file that the words are about stays.
_FOLDERS = re.compile(r"(?:file:(?=/)|(?<![\w:/.]))/+(?:[^\s/'\"`,;:()]+/)+")
_NAME = re.compile(r"[\w.+@-]+(?==)")
_MOMENT = re.compile(r"(\d{4,}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?)?(?:Z|\+00:?00)?")
_TIME = re.compile(r"(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?")


@dataclass
class Case:
    """A table of the suite, as `manifest.json` describes it, and the folder that has its files."""

    folder: Path
    about: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Make attributes of what the runner needs of the description."""
        self.name: str = self.about["name"]
        self.rule: str = self.about["rule"]
        self.refs: Mapping[str, int] = self.about["refs"]
        self.metadata: str = self.about["metadata"]
        self.decoys: Sequence[Mapping[str, str]] = self.about["decoys"]
        self.is_damaged: bool = self.about.get("damaged", False)

    def expected(self, ref: str = "main") -> dict[str, Any]:
        """Return `columns`, each with name and type, and `rows`: what a right reader finds."""
        found: dict[str, Any] = json.loads((self.folder / "expected" / f"{ref}.json").read_bytes())
        return found

    def decoy(self, decoy: Mapping[str, str]) -> dict[str, Any]:
        """Return columns and rows of the reader of a decoy."""
        found: dict[str, Any] = json.loads((self.folder / "decoys" / f"{decoy['breaks']}.json").read_bytes())
        return found


def load_suite(folder: Path | None = None) -> tuple[Case, ...]:
    """Return the cases of an unpacked suite; None: that at `ROOT`, unpacked if it is not there."""
    folder = unpack() if folder is None else folder
    stored = json.loads((folder / "manifest.json").read_bytes())
    return tuple(Case(folder / about["name"], about) for about in stored["tables"])


def unpack(folder: Path = ROOT, archive: Path = ARCHIVE) -> Path:
    """Unpack the suite into a folder, unless it is there as the archive has it. Return the folder."""
    if _is_whole(folder, archive):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # others may do the same
        if not _is_whole(folder, archive):
            if folder.exists() and b'"root": "file:' not in (folder / "manifest.json").read_bytes()[:500]:
                raise FileExistsError(f"{folder} is not a suite, and stays as it is")
            shutil.rmtree(folder, ignore_errors=True)
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
    return folder


def _is_whole(folder: Path, archive: Path) -> bool:
    """Whether the manifest in a folder is that beside the archive, and all files have the sums that it tells."""
    manifest = folder / "manifest.json"
    listed = archive.with_name("manifest.json").read_bytes()
    if not manifest.is_file() or manifest.read_bytes() != listed:
        return False
    return all(digest(folder / case["name"]) == case["sha256"] for case in json.loads(listed)["tables"])


def digest(folder: Path) -> str:
    """Return one sum of all files of a folder: of path, a zero byte and SHA-256 of each, in the order of the paths."""
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(name.encode() + b"\0" + hashlib.sha256(files[name].read_bytes()).digest())
    return whole.hexdigest()


@dataclass(frozen=True)
class Answer:
    """What an engine answered: rows, or words. `kind` is rows, refuses, crashes or unavailable."""

    kind: str
    rows: Sequence[Any] = ()
    words: str = ""
    version: str = ""


@dataclass(frozen=True)
class Verdict:
    """What an engine did with one ref of one case. `breaks`: for WRONG the rule, or `OTHER_ROWS`."""

    engine: str
    version: str
    case: str
    ref: str
    verdict: str
    words: str | None = None
    breaks: str | None = None


def judge(case: Case, ref: str, answer: Answer, engine: str) -> Verdict:
    """Judge what an engine answered. A table that is damaged may be refused."""

    def say(verdict: str, words: str | None, breaks: str | None = None) -> Verdict:
        return Verdict(engine, answer.version, case.name, ref, verdict, words or None, breaks)

    if answer.kind != "rows":
        refuses = answer.kind == "refuses"
        return say("right" if refuses and case.is_damaged else "refuses" if refuses else "crashes", answer.words)
    expected = case.expected(ref)
    columns = expected["columns"]
    try:
        found, right = counted(answer.rows, columns), counted(expected["rows"], columns)
    except (RecursionError, ValueError) as e:
        return say("crashes", f"rows that cannot be compared: {e}")
    if found == right:
        return say("right", answer.words)
    decoys = {d["breaks"]: case.decoy(d) for d in case.decoys if d["ref"] == ref}
    alike = (rule for rule, d in decoys.items() if d["columns"] == columns and counted(d["rows"], columns) == found)
    missing = _told(right - found, "missing", expected["rows"], columns)
    extra = _told(found - right, "too many", answer.rows, columns)
    return say("WRONG", f"{missing}, {extra}", next(alike, OTHER_ROWS))


def counted(rows: Iterable[Any], columns: Sequence[Mapping[str, str]]) -> Counter[Any]:
    """Return how often each row is there. Rows are lists in the order of the columns, or objects by name."""
    return Counter(_comparable(row, columns) for row in rows)


def _comparable(row: Any, columns: Sequence[Mapping[str, str]]) -> Any:
    row = [row.get(column["name"]) for column in columns] if isinstance(row, dict) else row
    if len(row) != len(columns):
        return ("odd", repr(row))
    return tuple(value_of(value, column["type"]) for value, column in zip(row, columns, strict=True))


def value_of(value: Any, kind: str) -> Any:
    """Return a JSON value of an Iceberg type in one form, which is hashed and compared; what is odd equals nothing."""
    if value is None:
        return None
    head, _, inner = kind.partition("<" if "<" in kind else "(")
    try:
        return _nested(value, head, inner[:-1]) if "<" in kind else _single(value, head)
    except (TypeError, ValueError, InvalidOperation, OverflowError):
        return ("odd", kind, repr(value))


def _single(value: Any, kind: str) -> Any:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if kind in ("int", "long") and (is_number or isinstance(value, str)) and int(value) == Decimal(str(value)):
        return int(value)
    if kind in ("float", "double") and (is_number or value in ("NaN", "Infinity", "-Infinity")):
        number = float(value)
        return struct.pack("<f" if kind == "float" else "<d", number) if number == number else "NaN"
    if kind == "decimal" and not isinstance(value, bool):
        return Decimal(str(value)).normalize().as_tuple() if Decimal(str(value)) else Decimal(0)
    if kind == "date" and (found := _MOMENT.fullmatch(value)):
        return found[1]
    if kind == "time" and (found := _TIME.fullmatch(value)):
        return found[1], (found[2] or "").ljust(9, "0")
    if kind.startswith("timestamp") and (found := _MOMENT.fullmatch(value)):
        return found[1], found[2] or "00:00:00", (found[3] or "").ljust(9, "0")
    if kind in ("binary", "fixed"):
        return bytes.fromhex(value.removeprefix("0x"))
    if (kind == "boolean" and isinstance(value, bool)) or (kind == "string" and isinstance(value, str)):
        return value
    if kind == "uuid":
        return value.lower()
    raise ValueError(kind)


def _nested(value: Any, kind: str, inner: str) -> Any:
    parts = list(_parts(inner))
    if kind == "struct":
        fields = [part.partition(": ")[::2] for part in parts]
        own = value if isinstance(value, list) else [value.get(name) for name, _ in fields]
        return tuple(value_of(v, of) for v, (_, of) in zip(own, fields, strict=True))
    if kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return ("map", frozenset(Counter((value_of(k, parts[0]), value_of(v, parts[1])) for k, v in pairs).items()))
    return tuple(value_of(v, parts[0]) for v in value)


def _parts(text: str) -> Iterator[str]:
    """Yield what commas part, but for those in brackets."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()


def _told(rows: Counter[Any], what: str, among: Iterable[Any], columns: Sequence[Mapping[str, str]]) -> str:
    """Say how many rows are missing or too many, and show the first one."""
    first = next((row for row in among if _comparable(row, columns) in rows), None)
    example = "" if first is None else f" ({brief(json.dumps(first, ensure_ascii=False, default=str), 60)})"
    return f"{rows.total()} row{'s' * (rows.total() != 1)} {what}{example}"


def brief(text: str, longest: int) -> str:
    """Return a text on one line without control characters, cut if it is longer."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


@dataclass(frozen=True)
class Engine:
    """A reader: its name, and its command. With `{table}` it is started for each ref; without, it answers lines."""

    name: str
    command: tuple[str, ...]
    version: str = "unknown"


def engine_of(text: str) -> Engine:
    """Return the engine that a text names: one of `BUILT_IN`, or `[NAME[@VERSION]=]COMMAND` as a shell splits it."""
    if text in BUILT_IN:
        return Engine(text, (sys.executable, str(HERE / "engines.py"), text))
    name = _NAME.match(text)
    words = shlex.split(text[name.end() + 1 :] if name else text)
    if not words or (len(words) == 1 and not name and not shutil.which(words[0])):
        sys.exit(f"no engine {text!r}: expected {', '.join(BUILT_IN)}, or a command, as NAME='COMMAND {{table}}'")
    own, _, number = (name[0] if name else Path(words[0]).stem).partition("@")
    return Engine(own, tuple(words), number or "unknown")


class EngineProcess:
    """The process of an engine, which starts with the first request, and again after it has ended."""

    def __init__(self, engine: Engine, seconds: float = SECONDS, largest: int = LARGEST_ANSWER) -> None:
        self._engine, self._seconds, self._largest = engine, seconds, largest
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
        once = any("{table}" in word or "{folder}" in word for word in self._engine.command)
        if self._process and (once or select.select([cast("Any", self._process.stdout)], [], [], 0)[0]):
            self._stop()  # what it says next may be the answer to an earlier question
        is_fresh = self._process is None
        try:
            process = self._process = self._process or _started(_filled(self._engine.command, request))
        except OSError as e:
            return Answer("unavailable", words=_words(f"cannot be started: {e}"))
        line = b"" if once else json.dumps(request).encode() + b"\n"
        said, ended = self._said(process, line, once=once)
        if ended is not None:
            return ended if is_fresh or once else self.ask(request)
        answer = parsed(said)
        if answer.kind == "crashes":
            self._stop()
        return answer

    def _said(self, process: subprocess.Popen[bytes], line: bytes, *, once: bool) -> tuple[bytes, Answer | None]:
        """Return a line of the process, or of one that is started for each request all that it writes."""
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; its output tells how
            process.stdin.write(line)
        found, until, self._errors = bytearray(), monotonic() + self._seconds, b""
        with selectors.DefaultSelector() as selector:
            for pipe in (process.stdout, process.stderr):
                selector.register(pipe, selectors.EVENT_READ)  # type: ignore[arg-type]  # there is a pipe
            while (left := until - monotonic()) > 0:
                for key, _ in selector.select(left):
                    data = os.read(key.fd, 1 << 16)
                    if key.fileobj is process.stderr:
                        self._errors = (self._errors + data)[-_KEPT_ERRORS:]
                        if not data:
                            selector.unregister(key.fileobj)
                        continue
                    found += data
                    if not once and b"\n" in data:
                        answer, _, more = bytes(found).partition(b"\n")
                        if more:
                            self._stop()
                        return answer, None
                    if not data:
                        ended = self._ended(process, may_end=once)
                        return bytes(found), ended
                    if len(found) > self._largest:
                        self._stop()
                        return b"", Answer("crashes", words=f"more than {self._largest} bytes in one answer")
        self._stop()
        return b"", Answer("crashes", words=f"no answer in {self._seconds:g} seconds")

    def _ended(self, process: subprocess.Popen[bytes], *, may_end: bool) -> Answer | None:
        """Say how a process ended that closed its output; None if that was its answer."""
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        errors = (self._errors + (process.stderr.read() or b""))[-_KEPT_ERRORS:].decode(errors="replace")
        code = process.returncode
        self._stop()
        if code == REFUSES:
            return Answer("refuses", words=_words(errors))
        if code == 0 and may_end:
            return None
        how = (
            "closed its output" if code is None else f"exit code {code}" if code >= 0 else str(signal.strsignal(-code))
        )
        return Answer("crashes", words=_words(f"{how}, without an answer. {errors.strip().rpartition(chr(10))[2]}"))

    def _stop(self, *, gently: bool = False) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes the pipes
            if gently and process.stdin is not None:
                process.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_TO_END)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, bufsize=0, start_new_session=True)  # noqa: S603


def _filled(command: Sequence[str], request: Mapping[str, Any]) -> list[str]:
    """Return a command with what is asked in the place of its `{...}`."""
    values = {
        "{table}": request["metadata"],
        "{folder}": request["metadata"].rpartition("/metadata/")[0],
        "{ref}": request["ref"],
        "{snapshot}": str(request["snapshot_id"]),
        "{columns}": ",".join(column["name"] for column in request["columns"]),
    }
    filled = list(command)
    for name, value in values.items():
        filled = [word.replace(name, value) for word in filled]
    return filled


def parsed(text: bytes) -> Answer:
    """Return what an engine wrote: an object with `rows` or words, a list of rows, or a line of JSON for each row."""
    try:
        try:
            said = json.loads(text or b"[]", parse_float=Decimal)
        except ValueError:
            said = [json.loads(line, parse_float=Decimal) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return Answer("crashes", words=_words(f"the answer is not JSON: {text[:200].decode(errors='replace')}"))
    kinds = {"rows", "refuses", "crashes", "unavailable"}
    if isinstance(said, dict) and not kinds & said.keys():
        said = [said]
    said = {"rows": said} if isinstance(said, list) else said
    if not isinstance(said, dict):
        return Answer("crashes", words="the answer is neither rows nor an object")
    version = brief(str(said.get("version") or ""), 80)
    for kind in sorted(kinds - {"rows"}):
        if kind in said:
            return Answer(kind, words=_words(said[kind]), version=version)
    if not isinstance(said["rows"], list) or not all(isinstance(row, list | dict) for row in said["rows"]):
        return Answer("crashes", words="the answer has no `rows` that are lists or objects", version=version)
    return Answer("rows", rows=said["rows"], words=_words(said.get("words") or ""), version=version)


def _words(text: object) -> str:
    """Return the words of an engine in one short line that names no folder of this machine."""
    return brief(" ".join(_FOLDERS.sub("…/", str(text)).split()), _LONGEST_WORDS)


def run_engine(
    engine: Engine, cases: Iterable[Case], *, seconds: float = SECONDS, times: int = 1
) -> tuple[list[Verdict], str]:
    """Ask an engine for every ref of the cases, each so often, and keep the worst verdict on each.

    Return the verdicts; or none, and why the engine cannot be asked.
    """
    found: list[Verdict] = []
    with EngineProcess(engine, seconds) as process:
        for case in cases:
            for ref, snapshot_id in case.refs.items():
                asked = {"metadata": str(case.folder / case.metadata), "ref": ref, "snapshot_id": snapshot_id}
                asked["columns"] = case.expected(ref)["columns"]
                answers = [process.ask(asked) for _ in range(times)]
                if answers[0].kind == "unavailable":
                    return found, answers[0].words
                found.append(_worst([judge(case, ref, answer, engine.name) for answer in answers]))
    version = next((v.version for v in found if v.version), engine.version)
    return [Verdict(**{**vars(verdict), "version": version}) for verdict in found], ""


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of an engine that was asked several times: wrong rows without an error are the worst."""
    worst = max(verdicts, key=lambda verdict: ("right", "refuses", "crashes", "WRONG").index(verdict.verdict))
    number = sum(verdict.verdict == worst.verdict for verdict in verdicts)
    words = worst.words if number == len(verdicts) else f"{number} of {len(verdicts)} times: {worst.words}"
    return Verdict(**{**vars(worst), "words": words})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 1 if an engine is WRONG, crashes or cannot be asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own = f"one of {', '.join(BUILT_IN)}; or your own reader, [NAME[@VERSION]=]COMMAND; repeatable"
    parser.add_argument("--engine", action="append", default=[], help=own)
    parser.add_argument("--case", default="*", metavar="GLOB", help="only tables whose names match")
    parser.add_argument("--rule", default="*", metavar="GLOB", help="only tables that are there for such a rule")
    parser.add_argument("--unpack", type=Path, metavar="DIR", help="only unpack the tables into this folder")
    parser.add_argument("--timeout", type=float, default=SECONDS, help="seconds that one answer may take")
    parser.add_argument("--times", type=int, default=1, help="ask so often, and keep the worst verdict")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the verdicts into this file")
    options = parser.parse_args(arguments)
    if options.unpack:
        sys.stdout.write(f"{unpack(options.unpack)}\n")
        return 0
    cases = [c for c in load_suite() if fnmatchcase(c.name, options.case) and fnmatchcase(c.rule, options.rule)]
    if not options.engine or not cases:
        parser.error("name an --engine" if cases else "no table has such a name and rule")
    found, missing = list[Verdict](), False
    for engine in map(engine_of, options.engine):
        verdicts, unavailable = run_engine(engine, cases, seconds=options.timeout, times=options.times)
        missing = missing or bool(unavailable)
        found += verdicts
        sys.stdout.write("".join(f"{line}\n" for line in _report(engine, verdicts, unavailable)))
    if options.json:
        lines = ",\n".join(json.dumps(vars(v), ensure_ascii=False) for v in found)
        options.json.write_text(f'{{"date": "{date.today()}", "results": [\n{lines}\n]}}\n', "utf-8")  # noqa: DTZ011
    return int(missing or any(v.verdict in ("WRONG", "crashes") for v in found))


def _report(engine: Engine, verdicts: Sequence[Verdict], unavailable: str) -> Iterator[str]:
    if unavailable:
        yield f"{engine.name} cannot be asked: {unavailable}"
    for v in verdicts:
        if v.verdict in ("WRONG", "crashes"):
            breaks = f" {v.breaks}" if v.breaks else ""
            yield f"{v.verdict}{breaks}  {v.case}{'' if v.ref == 'main' else f', {v.ref}'}: {v.words}"
    refused = Counter(v.words for v in verdicts if v.verdict == "refuses")
    yield from (f"refuses {number:3}  {words}" for words, number in refused.most_common())
    counts = Counter(v.verdict for v in verdicts)
    if verdicts:
        yield f"{engine.name} {verdicts[0].version}: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS)


if __name__ == "__main__":
    sys.exit(main())
