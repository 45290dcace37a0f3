"""Describe a machine that a bundle is for: its platform and Python, for pip and for markers (PEP 508).

pip's `--platform` chooses files by their tags, but pip evaluates markers for the machine that it runs on. So they are
evaluated here.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.tags import mac_platforms

from deletekit.errors import InvalidInputError

# Debian 10, RHEL 8 and Ubuntu 20.04 have glibc 2.28. macOS 14 is the oldest that pyarrow's wheels support.
_GLIBC = 28
_MACOS = (14, 0)
_LAST_MICRO = 99


@dataclass(frozen=True, slots=True)
class _Platform:
    tags: tuple[str, ...]
    os_name: str
    sys_platform: str
    system: str
    machine: str


def _linux(machine: str) -> _Platform:
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, 4, -1)]
    old = ["manylinux2014", "manylinux2010", "manylinux1"] if machine == "x86_64" else ["manylinux2014"]
    return _Platform((*tags, *(f"{name}_{machine}" for name in old)), "posix", "linux", "Linux", machine)


def _macos(machine: str) -> _Platform:
    return _Platform(tuple(mac_platforms(_MACOS, machine)), "posix", "darwin", "Darwin", machine)


_KNOWN = {
    "linux-x86_64": _linux("x86_64"),
    "linux-aarch64": _linux("aarch64"),
    "macos-arm64": _macos("arm64"),
    "macos-x86_64": _macos("x86_64"),
    "windows-x86_64": _Platform(("win_amd64",), "nt", "win32", "Windows", "AMD64"),
}
PLATFORMS = tuple(_KNOWN)
"""The platforms that a bundle can be made for."""


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A platform of `PLATFORMS` and a version of Python, such as `3.11`."""

    platform: str
    python: str

    def __post_init__(self) -> None:
        if self.platform not in _KNOWN:
            raise InvalidInputError("unknown platform", "workshop", "platform", self.platform, ", ".join(_KNOWN))
        if not re.fullmatch(r"3\.\d{1,2}", self.python) or int(self.python.partition(".")[2]) < 11:
            raise InvalidInputError(
                "no version of Python that deletekit runs on", "workshop", "python", self.python, "3.11, 3.12, ..."
            )

    @classmethod
    def here(cls) -> Target:
        """Return the machine that this runs on. Raise InvalidInputError if it is none of `PLATFORMS`."""
        system = {"Darwin": "macos"}.get(platform.system(), platform.system().lower())
        machine = {"amd64": "x86_64", "arm64": "arm64" if system == "macos" else "aarch64"}
        name = platform.machine().lower()
        return cls(f"{system}-{machine.get(name, name)}", f"{sys.version_info[0]}.{sys.version_info[1]}")

    @property
    def pip_options(self) -> tuple[str, ...]:
        """Return the options that make `pip download` take the wheels of this target."""
        tags = (word for tag in _KNOWN[self.platform].tags for word in ("--platform", tag))
        return ("--only-binary=:all:", "--implementation=cp", f"--python-version={self._newest}", *tags)

    def wants(self, marker: Marker | None, extras: Iterable[str]) -> bool:
        """Return whether a requirement with this marker holds on this target, for any of the extras."""
        return marker is None or any(marker.evaluate({**self._environment, "extra": extra}) for extra in ("", *extras))

    def wanted(self, package: Distribution, extras: Iterable[str]) -> list[Requirement]:
        """Return the requirements of a package on this target, with these of its extras, without their markers."""
        requirements = [Requirement(line) for line in package.requires or ()]
        held = [requirement for requirement in requirements if self.wants(requirement.marker, extras)]
        for requirement in held:
            requirement.marker = None
        return held

    @property
    def _newest(self) -> str:
        """Return a version above every release of this Python: pip and markers would take `3.11` for 3.11.0."""
        return f"{self.python}.{_LAST_MICRO}"

    @property
    def _environment(self) -> Mapping[str, Any]:
        known = _KNOWN[self.platform]
        return {
            "implementation_name": "cpython",
            "implementation_version": self._newest,
            "os_name": known.os_name,
            "platform_machine": known.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": known.system,
            "platform_version": "",
            "python_full_version": self._newest,
            "python_version": self.python,
            "sys_platform": known.sys_platform,
        }
