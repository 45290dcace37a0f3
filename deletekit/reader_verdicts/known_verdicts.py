"""What engines do with each kind of delete: verdicts of our own runs, and what others report, with the source.

`verdicts.json` is what the conformance runner found, case by case. `features.json` says what each case depends on.
`reported.json` is about engines that do not run here: we have verified none of it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from deletekit.errors import FormatError, NotFoundError

_HERE = Path(__file__).parent
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
    own = _HERE / "verdicts.json"
    return (*(_read(own) if own.exists() else ()), *_read(_HERE / "reported.json"))


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
