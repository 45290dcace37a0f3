"""Collect in one value everything that differs from machine to machine and that the checks look at.

The packages that deletekit needs are read from pyproject.toml in a checkout, else from the metadata of the
installation. The library `packaging` is not in the base installation, so this reads the few forms of a requirement that
pyproject.toml has. Tests compare it with `packaging` on every line of it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distributions, requires
from pathlib import Path

_CHECKOUT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package and its version bounds; `text` is what pip takes."""

    name: str
    bounds: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One machine and one Python.

    Attributes
    ----------
    variables: of the process; they may hold secrets, so they are never shown.
    user_home: what Java calls `user.home`, where Ivy and Maven keep jars. It is not the variable HOME.
    temp: the folder for temporary files, or None if the system has none that can be written.
    requirements: what deletekit needs, for `base` and for each extra.
    packages: versions of the installed distributions, by canonical name.
    system: name and version of a Linux distribution, such as `debian 12`.
    memory: bytes that a new process can have, by the limits of the machine and its container; None if unknown.
    encoding: the encoding of printed text.
    """

    variables: Mapping[str, str] = field(repr=False)
    user_home: Path
    temp: Path | None
    python: tuple[int, int, int]
    executable: str
    requirements: Mapping[str, Sequence[Requirement]]
    packages: Mapping[str, str]
    platform: str
    system: str
    is_root: bool
    memory: int | None
    processors: int
    encoding: str

    @classmethod
    def here(cls) -> Environment:
        """Return the environment of this process."""
        return cls(
            variables=dict(os.environ),
            user_home=_java_user_home(),
            temp=_temp(),
            python=(sys.version_info.major, sys.version_info.minor, sys.version_info.micro),
            executable=sys.executable,
            requirements=declared(),
            packages=installed(),
            platform=sys.platform,
            system=linux(Path("/etc/os-release")),
            is_root=os.name == "posix" and os.geteuid() == 0,
            memory=available_memory(Path("/")),
            processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            encoding=getattr(sys.stdout, "encoding", None) or sys.getfilesystemencoding(),
        )


def machine_memory(root: Path = Path("/")) -> float:
    """Return the bytes that machine and container have for all programs; infinite if neither says so."""
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    known = set(names) <= set(getattr(os, "sysconf_names", ()))  # Windows has no such call
    machine = os.sysconf(names[0]) * os.sysconf(names[1]) if known else float("inf")
    limits = (_text(limit).strip() for limit, _ in _control_groups(root))
    return min([machine, *(int(limit) for limit in limits if limit.isdigit())])


def available_memory(root: Path) -> int | None:
    """Return the bytes that machine and container leave, by Linux's files under `root`; None if these do not exist."""
    machine = re.search(r"^MemAvailable:\s+(\d+) kB", _text(root / "proc" / "meminfo"), re.MULTILINE)
    if machine is None:
        return None
    left = int(machine[1]) * 1024
    for limit, used in _control_groups(root):
        if (allowed := _text(limit).strip()).isdigit():
            left = min(left, max(int(allowed) - int(_text(used).strip() or 0), 0))
    return left


def _control_groups(root: Path) -> tuple[tuple[Path, Path], ...]:
    """Return the files in which a container's limit and use of memory are, for both versions of control groups."""
    groups = root / "sys" / "fs" / "cgroup"
    old = groups / "memory"
    return (
        (groups / "memory.max", groups / "memory.current"),
        (old / "memory.limit_in_bytes", old / "memory.usage_in_bytes"),
    )


def installed(path: list[str] | None = None) -> dict[str, str]:
    """Return the versions of the distributions on `path` (default: sys.path) by canonical name; the first one wins."""
    found: dict[str, str] = {}
    for distribution in distributions(path=sys.path if path is None else path):
        metadata = distribution.metadata
        name, version = (metadata["Name"], metadata["Version"]) if metadata else (None, None)
        if name and version:  # a package half removed has neither
            found.setdefault(canonical(name), version)
    return found


def linux(release: Path) -> str:
    """Return name and version of a Linux distribution from its os-release file; empty without one."""
    values = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', _text(release), re.MULTILINE))
    return f"{values.get('ID', '')} {values.get('VERSION_ID', '')}".strip()


def _java_user_home() -> Path:
    if os.name == "posix":
        users = import_module("pwd")  # not on Windows
        try:
            return Path(users.getpwuid(os.getuid()).pw_dir)
        except KeyError:
            pass  # a container's user that has no entry
    return Path.home()


def _temp() -> Path | None:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


# --- requirements -----------------------------------------------------------------------------------------------------


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
