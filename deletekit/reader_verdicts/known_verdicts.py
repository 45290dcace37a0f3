"""What engines do with each kind of delete: verdicts of our own runs, and what others report, with the source.

`verdicts.json` is what the runner of the conformance suite found: for each engine the cases that it does not read
right, by words or broken rule. `features.json` has all cases, and what each ref of them depends on. `reported.json` is
about engines that do not run here: we have verified none of it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deletekit.errors import FormatError, NotFoundError

_HERE = Path(__file__).parent
VERDICTS_FILE = _HERE / "verdicts.json"
VERDICTS = ("right", "unknown", "refuses", "crashes", "WRONG")
"""From the best to the worst."""
NO_VERSION = "not stated"
"""The version of a report that names none."""
OTHER_ROWS = "other rows"
"""What a wrong answer breaks that is not that of a reader without one rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one version of an engine does with one case, or by a report with all tables of some features.

    Attributes
    ----------
    features: what the case depends on; see `features.py`.
    words: what the engine said, or the report.
    breaks: the rule that a wrong answer breaks.
    verified: whether we ran it.
    source, date: who reports it, and when.
    """

    engine: str
    version: str
    verdict: str
    features: frozenset[str]
    case: str | None = None
    ref: str = "main"
    words: str | None = None
    breaks: str | None = None
    verified: bool = True
    source: str | None = None
    date: str | None = None


def known_verdicts(file: str | Path | None = None) -> tuple[Verdict, ...]:
    """Return the verdicts of a file that the runner wrote; None: deletekit's own, and those that others report.

    Raises NotFoundError for a file that is not there, FormatError for one that holds no verdicts.
    """
    return _own_verdicts() if file is None else tuple(_read(Path(file)))


@cache
def _own_verdicts() -> tuple[Verdict, ...]:
    return (*(v for v in verified_verdicts() if v.features), *_read(_HERE / "reported.json"))


@cache
def verified_verdicts() -> tuple[Verdict, ...]:
    """Return what we have found ourselves. Cases without features are damaged tables: they tell of no other table."""
    stored = _json(VERDICTS_FILE)
    cases = {name: refs for name, refs in _json(_HERE / "features.json").items() if name in stored["cases"]}
    found = []
    for about in stored["engines"]:
        failed = {
            case: (verdict, None if verdict == "WRONG" else why, why if verdict == "WRONG" else None)
            for verdict in ("refuses", "WRONG", "crashes")
            for why, names in about.get(verdict, {}).items()
            for case in names
        }
        notes = {case: words for words, names in about.get("right", {}).items() for case in names}
        for name, refs in cases.items():
            for ref, features in refs.items():
                case = case_name(name, ref)
                verdict, words, breaks = failed.get(case, ("right", notes.get(case), None))
                if case not in about.get("not asked", ()):
                    found.append(Verdict(
                        engine=about["engine"], version=about["version"], date=about["date"], case=name, ref=ref,
                        features=frozenset(features), verdict=verdict, words=words, breaks=breaks,
                    ))  # fmt: skip
    return tuple(found)


def case_name(case: str, ref: str) -> str:
    """Return how a case is named; another ref than main is named too."""
    return case if ref == "main" else f"{case}, {ref}"


def _read(path: Path) -> Iterator[Verdict]:
    features = _json(_HERE / "features.json")
    document = _json(path)
    for raw in document.get("results", ()):
        try:
            given = {name: raw[name] for name in Verdict.__slots__ if raw.get(name) is not None}
            needs = given.pop("features", None)
            if needs is None:
                needs = features.get(raw["case"], {}).get(given.get("ref", "main"))
            if needs is not None:  # a case of another suite is about nothing that we know
                yield Verdict(**{"date": document.get("date"), **given, "features": frozenset(needs)})
        except (KeyError, TypeError, AttributeError) as e:
            raise FormatError("a verdict lacks a field", "verdicts", file=str(path), found=str(e)) from e


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError as e:
        raise NotFoundError("no such file of verdicts", kind="verdicts", file=str(path)) from e
    except (ValueError, RecursionError) as e:
        raise FormatError("verdicts are not JSON", kind="verdicts", file=str(path), found=str(e)) from e
    if not isinstance(found, dict):
        raise FormatError("verdicts are not a JSON object", "verdicts", file=str(path), found=type(found).__name__)
    return found
