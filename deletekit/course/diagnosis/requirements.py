"""What deletekit asks for: pyproject.toml says, in a checkout; elsewhere the metadata of the installation."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

__all__ = ["Requirement", "canonical", "declared", "parse", "satisfies"]

_CHECKOUT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package and its bounds; `text` is what pip takes."""

    name: str
    bounds: str
    text: str


def declared(checkout: Path = _CHECKOUT) -> dict[str, tuple[Requirement, ...]]:
    """Requirements of the base (`base`) and of each extra; empty when there is neither source."""
    file = checkout / "pyproject.toml"
    if file.is_file():
        # The checkout is what is imported, whatever an older installation of it says.
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        return _parsed({"base": project["dependencies"], **project["optional-dependencies"]})
    try:
        lines = requires("deletekit") or []
    except PackageNotFoundError:
        return {}
    parts: dict[str, list[str]] = {"base": []}
    for line in lines:
        extra = re.search(r"extra *== *['\"]([\w-]+)['\"]", line)
        parts.setdefault(extra[1] if extra else "base", []).append(line)
    return _parsed(parts)


def _parsed(parts: Mapping[str, Iterable[str]]) -> dict[str, tuple[Requirement, ...]]:
    return {part: tuple(r for line in lines if (r := parse(line)) is not None) for part, lines in parts.items()}


def parse(line: str, python: tuple[int, int] = sys.version_info[:2]) -> Requirement | None:
    """One requirement; None for one of other Pythons, and for deletekit's own extras."""
    text, _, marker = (piece.strip() for piece in line.partition(";"))
    match = re.fullmatch(r"([\w.-]*\w)\s*(?:\[[^]]*\])?([^\[\]]*)", text)
    if match is None or canonical(match[1]) == "deletekit":
        return None
    below = re.search(r"python_version *< *['\"](\d+)\.(\d+)['\"]", marker)
    if below and python >= (int(below[1]), int(below[2])):
        return None
    return Requirement(match[1], re.sub(r"[\s()]", "", match[2]), text)


def satisfies(version: str, bounds: str) -> bool:
    """Whether a version meets `>=a`, `<b` and `==a.b.*`, the only words that pyproject.toml uses."""
    have = _numbers(version)
    for clause in filter(None, bounds.split(",")):
        operator, limit = clause.rstrip("0123456789.*"), _numbers(clause)
        if operator == ">=" and have < limit:
            return False
        if operator == "<" and have >= limit:
            return False
        if operator == "==" and have[: len(limit)] != limit:
            return False
    return True


def canonical(name: str) -> str:
    """A distribution's name as it is compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _numbers(version: str) -> tuple[int, ...]:
    """The release part of a version; trailing zeros say nothing, so 26.0 is 26."""
    release = re.search(r"\d+(?:\.\d+)*", version)
    numbers = [int(n) for n in release[0].split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
