"""Verdicts as JSON, which collects those of many runs, and the rows of the tables that pages show of them."""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conformance.runner import KINDS, EngineRun
from conformance.suite import Case
from deletekit.reader_verdicts import known_verdicts
from deletekit.version import __version__

Result = Mapping[str, Any]

_FILE = re.compile(r"…/[^\s'\"`,;()]+")

VERDICTS = Path(known_verdicts.__file__).with_name("verdicts.json")
"""What is known of engines: the verdicts that were found when this version of deletekit was made."""


def document_of(
    runs: Iterable[EngineRun], stored: Mapping[str, Any] | None = None, cases: Iterable[Case] = ()
) -> dict[str, Any]:
    """Return the verdicts of runs as one document.

    Parameters
    ----------
    stored: a document whose verdicts stay, except where an engine was asked again, and on cases that are no more.
    cases: the suite, for that.
    """
    names = {case.name for case in cases}
    today = datetime.now(UTC).date().isoformat()
    new = {"verified": True, "source": None, "date": today}
    kept = (result for result in (stored or {}).get("results", ()) if result["case"] in names)
    found = {_key(result): result for result in kept}
    results = [{**asdict(verdict), **new} for run in runs for verdict in run.verdicts]
    found |= {_key(result): result for result in results}
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, deletekit {__version__}"
    return {"date": today, "machine": machine, "results": [found[key] for key in sorted(found)]}


def read_verdicts(file: Path) -> dict[str, Any] | None:
    """Return the document of a file, or None if there is no file."""
    document: dict[str, Any] | None = json.loads(file.read_bytes()) if file.exists() else None
    return document


def write_verdicts(file: Path, document: Mapping[str, Any]) -> None:
    """Write a document with each verdict on one line, so that a comparison of lines shows which changed."""
    head = "".join(f"{json.dumps(name)}: {json.dumps(document[name])},\n" for name in ("date", "machine"))
    lines = ",\n".join(map(json.dumps, document["results"]))
    file.write_text(f'{{\n{head}"results": [\n{lines}\n]\n}}\n', encoding="utf-8")


def engines_of(results: Iterable[Result]) -> list[tuple[str, str]]:
    """Return name and version of each engine that there are verdicts on."""
    return sorted({(result["engine"], result["version"]) for result in results})


def summary(results: Sequence[Result]) -> list[list[Any]]:
    """Return a row for each engine: name, version, and how many verdicts of each of `KINDS`."""
    found = Counter((result["engine"], result["version"], result["verdict"]) for result in results)
    return [[*engine, *(found[(*engine, kind)] for kind in KINDS)] for engine in engines_of(results)]


def matrix(results: Sequence[Result]) -> list[list[str]]:
    """Return a row for each ref of each case: its name, and what each of `engines_of` does with it, or nothing."""
    found = {_key(result): said(result) for result in results}
    named = {(result["case"], result["ref"]) for result in results}
    cases = sorted(named, key=lambda case: (case[0], case[1] != "main", case[1]))
    engines = engines_of(results)
    return [[case_name(*case), *(found.get((*engine, *case), "") for engine in engines)] for case in cases]


def spoken(results: Iterable[Result]) -> list[list[Any]]:
    """Return a row for what each engine said beside rows: engine, verdict, on how many refs, and the words.

    Words that differ by a file alone are one.
    """
    found = Counter((r["engine"], r["verdict"], _FILE.sub("…", r["words"])) for r in results if r["words"])
    return [[engine, verdict, number, words] for (engine, verdict, words), number in sorted(found.items())]


def said(result: Result) -> str:
    """Return a verdict as a cell: with the rule that it breaks."""
    return f"{result['verdict']}: {result['breaks']}" if result["breaks"] else str(result["verdict"])


def case_name(case: str, ref: str) -> str:
    """Return how a case is named; another ref than main is named too."""
    return case if ref == "main" else f"{case}, {ref}"


def _key(result: Result) -> tuple[str, str, str, str]:
    return result["engine"], result["version"], result["case"], result["ref"]
