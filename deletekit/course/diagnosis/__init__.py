"""DOCTOR: what works on this machine, what does not, what still works without it, and the command that fixes it.

A check is a function of an `Environment`. It uses no network and leaves no file behind. It must not import anything but
the standard library at the top: a broken package must not stop the doctor from reporting it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from deletekit.course.diagnosis.check import Check
from deletekit.course.diagnosis.environment import Environment
from deletekit.course.diagnosis.machine import (
    base_in_use,
    disk_space,
    memory,
    processors,
    python_version,
    temporary_folder,
    text_encoding,
)
from deletekit.course.diagnosis.packages import base_packages, extras, pyspark
from deletekit.course.diagnosis.spark import jars, java

__all__ = ["CHECKS", "Check", "Environment", "base_works", "diagnose"]

CHECKS: tuple[Callable[[Environment], Iterator[Check]], ...] = (
    python_version,
    base_packages,
    base_in_use,
    temporary_folder,
    disk_space,
    processors,
    text_encoding,
    java,
    pyspark,
    jars,
    memory,
    extras,
)


def diagnose(environment: Environment | None = None) -> tuple[Check, ...]:
    """Run every check and return the results, those of the base first.

    Takes a few seconds, because the base is tried on a small table. None checks this process's environment.
    """
    environment = environment or Environment.here()
    found = [check for checks in CHECKS for check in checks(environment)]
    return tuple(sorted(found, key=lambda check: check.part != "base"))


def base_works(checks: Sequence[Check]) -> bool:
    """Return whether tables can be read and written. Spark and the course may be missing."""
    return all(check.status != "missing" for check in checks if check.part == "base")
