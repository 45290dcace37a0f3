"""Ask engines for the rows of the suite's tables, and judge each answer: right, refuses, WRONG or crashes."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from conformance.suite import Case, load_suite, relocate
from deletekit.conformance.engines import Answer, Engine, EngineProcess
from deletekit.conformance.rows import Row, counted
from deletekit.errors import NotFoundError
from deletekit.reader_verdicts.known_verdicts import OTHER_ROWS
from deletekit.text import brief, count

Kind = Literal["right", "refuses", "WRONG", "crashes"]
KINDS: tuple[Kind, ...] = ("right", "refuses", "WRONG", "crashes")

SECONDS = 120.0
"""The longest that one answer may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an engine did with one ref of one case.

    Attributes
    ----------
    words: the engine's own for what it refuses; for WRONG how many rows are missing and too many.
    breaks: for WRONG the rule that the engine breaks, or `OTHER_ROWS` if they are those of no decoy.
    """

    engine: str
    version: str
    case: str
    ref: str
    verdict: Kind
    words: str | None = None
    breaks: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRun:
    """The verdicts on one engine; without any, `unavailable` says why it could not be asked."""

    engine: str
    version: str
    verdicts: tuple[Verdict, ...]
    unavailable: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the engine was asked, and was right or refused each time."""
        return bool(self.verdicts) and all(v.verdict in ("right", "refuses") for v in self.verdicts)


def suite_folder() -> Path:
    """Return the folder of the suite, which has this program too."""
    return Path(__file__).parent


def chosen_cases(folder: Path, pattern: str = "*") -> tuple[Case, ...]:
    """Return the cases whose names match a pattern. Raises NotFoundError if there are none, or no suite."""
    cases = load_suite(folder)
    chosen = tuple(case for case in cases if fnmatchcase(case.name, pattern))
    if not chosen:
        raise NotFoundError("no case of this name", kind="case-not-found", file=str(folder), found=pattern)
    return chosen


def run_engine(engine: Engine, cases: Sequence[Case], *, seconds: float = SECONDS, times: int = 1) -> EngineRun:
    """Ask an engine for every ref of the cases; each table is copied to a temporary folder first.

    Parameters
    ----------
    seconds: the longest that one answer may take.
    times: ask so often, and keep the worst verdict: what an engine reads may depend on which of its threads is first.
    """
    verdicts: list[Verdict] = []
    version = ""
    with (
        tempfile.TemporaryDirectory(prefix="deletekit-suite-", ignore_cleanup_errors=True) as folder,
        EngineProcess(engine, Path(folder) if engine.is_built_in else Path.cwd(), seconds) as process,
    ):
        for case, ref, request in _requests(cases, Path(folder)):
            answers = [process.ask(request) for _ in range(times)]
            version = version or answers[-1].version
            if answers[0].kind == "unavailable" and not verdicts:
                return EngineRun(engine=engine.name, version="", verdicts=(), unavailable=answers[0].words)
            verdicts.append(_worst([judge(case, ref, answer, engine.name) for answer in answers]))
    version = version or "unknown"
    found = tuple(replace(verdict, version=version) for verdict in verdicts)
    return EngineRun(engine=engine.name, version=version, verdicts=found)


def judge(case: Case, ref: str, answer: Answer, engine: str) -> Verdict:
    """Judge what an engine answered for a ref of a case."""
    say = Verdict(engine=engine, version=answer.version, case=case.name, ref=ref, verdict="right")
    if answer.kind != "rows":
        return replace(say, verdict="refuses" if answer.kind == "refuses" else "crashes", words=answer.words)
    try:
        return _compared(case, ref, answer, say)
    except RecursionError:
        return replace(say, verdict="crashes", words="values that are nested too deep")


def _compared(case: Case, ref: str, answer: Answer, say: Verdict) -> Verdict:
    found, expected = counted(answer.rows), counted(case.expected(ref))
    if found == expected:
        return replace(say, words=answer.words or None)
    decoys = (d for d in case.decoys if d.ref == ref and counted(case.decoy_rows(d)) == found)
    breaks = next((decoy.breaks for decoy in decoys), OTHER_ROWS)
    missing, extra = expected - found, found - expected
    words = f"{_told(missing, 'missing', case.expected(ref))}, {_told(extra, 'too many', answer.rows)}"
    return replace(say, verdict="WRONG", breaks=breaks, words=words)


def _told(rows: Counter[Any], what: str, among: Iterable[Row]) -> str:
    """Say how many rows are missing or too many, and show the first one."""
    first = next((row for row in among if counted([row]) <= rows), None)
    example = "" if first is None else f" ({brief(json.dumps(first, ensure_ascii=False), 60)})"
    return f"{count(rows.total(), 'row')} {what}{example}"


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of an engine that was asked several times: wrong rows without an error are the worst."""
    worst = max(verdicts, key=lambda verdict: ("right", "refuses", "crashes", "WRONG").index(verdict.verdict))
    number = sum(verdict.verdict == worst.verdict for verdict in verdicts)
    return (
        worst if number == len(verdicts) else replace(worst, words=f"{number} of {len(verdicts)} times: {worst.words}")
    )


def _requests(cases: Iterable[Case], folder: Path) -> Iterator[tuple[Case, str, dict[str, Any]]]:
    for case in cases:
        metadata = relocate(case, folder / case.name)
        for ref in case.refs:
            asked = {"metadata": metadata, "ref": ref, "snapshot_id": case.snapshot_id(ref)}
            yield case, ref, {**asked, "columns": case.columns(ref)}
