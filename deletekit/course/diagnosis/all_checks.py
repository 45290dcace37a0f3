"""Run every check, in order."""

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
