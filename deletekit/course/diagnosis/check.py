"""The result of a check, and the commands that it suggests."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import join
from typing import Literal

from deletekit.course.diagnosis.environment import Environment
from deletekit.text import without_secrets

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
    meaning: what that means, and what works without it; empty for `ok`.
    fix: the command to type; empty for `ok`.
    """

    part: Part
    name: str
    status: Status = "ok"
    found: str
    meaning: str = ""
    fix: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", without_secrets(self.found))


def check(ok: bool, part: Part, name: str, found: str, *, status: Status = "missing", meaning: str, fix: str) -> Check:
    """Return a check with its status, and without `meaning` and `fix` if all is well."""
    if ok:
        return Check(part=part, name=name, found=found)
    return Check(part=part, name=name, status=status, found=found, meaning=meaning, fix=fix)


def command(environment: Environment, *words: str) -> str:
    """Return a command as the shell of this machine takes it."""
    return subprocess.list2cmdline(words) if environment.platform == "win32" else join(words)


def install(environment: Environment, requirements: Sequence[str]) -> str:
    """Return the command that installs packages for this Python. An environment that uv made has no pip."""
    if "pip" not in environment.packages:
        return command(environment, "uv", "pip", "install", "--python", environment.executable, *requirements)
    return command(environment, environment.executable, "-m", "pip", "install", *requirements)
