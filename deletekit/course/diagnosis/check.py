"""What a check says."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import join
from typing import Literal

from deletekit.course.diagnosis.environment import Environment

__all__ = ["WITHOUT_SPARK", "Check", "Part", "Status", "command", "install"]

Status = Literal["ok", "warning", "missing"]
Part = Literal["base", "spark", "course", "test", "peers"]

WITHOUT_SPARK = "Without Spark every verb still reads and writes tables, in this process."


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one check found.

    Attributes
    ----------
    part: what needs it: `base`, or an extra.
    status: `ok`; `warning`, works but not well or not everywhere; `missing`, this part does not work until it is fixed.
    meaning: what that means and what works without it; empty when all is well.
    fix: the command to type; empty when there is none.
    """

    part: Part
    name: str
    status: Status
    found: str
    meaning: str = ""
    fix: str = ""


def command(place: Environment, *words: str) -> str:
    """A command as the shell of this machine takes it."""
    return subprocess.list2cmdline(words) if place.platform == "win32" else join(words)


def install(place: Environment, requirements: Sequence[str]) -> str:
    """The command that installs packages for this Python, also in an environment that uv made, which has no pip."""
    if "pip" not in place.packages:
        return command(place, "uv", "pip", "install", "--python", place.executable, *requirements)
    return command(place, place.executable, "-m", "pip", "install", *requirements)
