"""Read which packages deletekit needs: from pyproject.toml in a checkout, else from the metadata of the installation.

The doctor must work where packages are missing, and the library `packaging` is not in the base installation. So this
reads the few forms of a requirement that pyproject.toml has. Tests compare it with `packaging` on every line of it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

_CHECKOUT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package and its version bounds; `text` is what pip takes."""

    name: str
    bounds: str
    text: str


def declared(checkout: Path = _CHECKOUT) -> dict[str, tuple[Requirement, ...]]:
    """Return the requirements of the base (`base`) and of each extra; nothing where neither source is there."""
    file = checkout / "pyproject.toml"
    parts: dict[str, list[str]] = {"base": []}
    if file.is_file():
        # The checkout is what is imported, whatever an older installation of it says.
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        parts = {"base": project["dependencies"], **project["optional-dependencies"]}
    else:
        try:
            lines = requires("deletekit") or []
        except PackageNotFoundError:
            return {}
        for line in lines:
            extra = re.search(r"extra *== *['\"]([\w-]+)['\"]", line)
            parts.setdefault(extra[1] if extra else "base", []).append(line)
    return {part: tuple(r for line in lines if (r := parse(line)) is not None) for part, lines in parts.items()}


def parse(line: str, python: tuple[int, int] = sys.version_info[:2]) -> Requirement | None:
    """Return one requirement; None for one of other Python versions, and for deletekit's own extras."""
    text, _, marker = (piece.strip() for piece in line.partition(";"))
    match = re.fullmatch(r"([\w.-]*\w)\s*(?:\[[^]]*\])?([^\[\]]*)", text)
    if match is None or canonical(match[1]) == "deletekit":
        return None
    below = re.search(r"python_version *< *['\"](\d+)\.(\d+)['\"]", marker)
    if below and python >= (int(below[1]), int(below[2])):
        return None
    return Requirement(match[1], re.sub(r"[\s()]", "", match[2]), text)


def satisfies(version: str, bounds: str) -> bool:
    """Return whether a version meets `>=a`, `<b` and `==a.b.*`, the only operators that pyproject.toml uses."""
    have = _release(version)
    for clause in filter(None, bounds.split(",")):
        operator, limit = clause.rstrip("0123456789.*"), _release(clause)
        if operator == ">=" and have < limit:
            return False
        if operator == "<" and have >= limit:
            return False
        if operator == "==" and have[: len(limit)] != limit:
            return False
    return True


def canonical(name: str) -> str:
    """Return a distribution's name in the form that is compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _release(version: str) -> tuple[int, ...]:
    """Return the release numbers of a version without trailing zeros, so that 26.0 equals 26."""
    release = re.search(r"\d+(?:\.\d+)*", version)
    numbers = [int(n) for n in release[0].split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
