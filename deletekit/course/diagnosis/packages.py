"""Checks of Python packages: those of the base, one by one, and each extra."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from deletekit.course.diagnosis.check import WITHOUT_SPARK, Check, Part, install
from deletekit.course.diagnosis.environment import Environment
from deletekit.course.diagnosis.requirements import Requirement, canonical, satisfies

__all__ = ["base_packages", "extras", "pyspark"]

_BROUGHT = {"pyiceberg": "pyiceberg-core", "pyspark": "pandas"}
"""What the extras of these packages bring, and deletekit does not do without."""

_WITHOUT: Mapping[Part, str] = {
    "course": "The notebooks need it. The library and this command line do without.",
    "test": "Only those who change deletekit need it, to run its tests.",
    "peers": "Only the tests need it, which read deletekit's tables with other libraries.",
}


def base_packages(place: Environment) -> Iterator[Check]:
    """Each package of the base installation."""
    if not place.requirements.get("base"):
        yield Check(
            part="base",
            name="requirements",
            status="warning",
            found="neither an installation nor a checkout of deletekit",
            meaning="Which packages it needs cannot be looked up; whether it works is tried below.",
            fix=install(place, ["deletekit"]),
        )
    for requirement in place.requirements.get("base", ()):
        lacking = _lacking(place, requirement)
        if not lacking:
            found = place.packages[canonical(requirement.name)]
            yield Check(part="base", name=requirement.name, status="ok", found=found)
            continue
        yield Check(
            part="base",
            name=requirement.name,
            status="missing",
            found=lacking,
            meaning=f"deletekit needs {requirement.text}; without it tables can be neither read nor written.",
            fix=install(place, [requirement.text]),
        )


def pyspark(place: Environment) -> Iterator[Check]:
    """pyspark in the one minor release that the jars are built for, and no other Spark in its way."""
    wanted = place.requirements.get("spark", ())
    lacking = [found for requirement in wanted if (found := _lacking(place, requirement))]
    if lacking:
        yield Check(
            part="spark",
            name="pyspark",
            status="missing",
            found=", ".join(lacking),
            meaning=f"Iceberg's jar is built for Spark 4.1 alone, and Spark needs pandas for Arrow. {WITHOUT_SPARK}",
            fix=install(place, [requirement.text for requirement in wanted]),
        )
        return
    found = place.packages.get("pyspark", "unknown")
    home = place.variables.get("SPARK_HOME")
    if home and not list(Path(home).glob("jars/spark-core_2.13-4.1.*.jar")):
        yield Check(
            part="spark",
            name="pyspark",
            status="missing",
            found=f"{found}, but SPARK_HOME is {home}",
            meaning=f"pyspark starts the Spark of SPARK_HOME, and that is not Spark 4.1. {WITHOUT_SPARK}",
            fix="set SPARK_HOME=" if place.platform == "win32" else "unset SPARK_HOME",
        )
        return
    yield Check(part="spark", name="pyspark", status="ok", found=found)


def extras(place: Environment) -> Iterator[Check]:
    """Each extra but Spark's, in one line."""
    for part, without in _WITHOUT.items():
        wanted = place.requirements.get(part, ())
        lacking = {r: found for r in wanted if (found := _lacking(place, r))}
        if lacking:
            yield Check(
                part=part,
                name=f"extra {part}",
                status="missing",
                found=", ".join(lacking.values()),
                meaning=without,
                fix=install(place, [requirement.text for requirement in lacking]),
            )
        elif wanted:
            found = ", ".join(f"{r.name} {place.packages[canonical(r.name)]}" for r in wanted)
            yield Check(part=part, name=f"extra {part}", status="ok", found=found)


def _lacking(place: Environment, requirement: Requirement) -> str:
    """What is wrong with a package; empty when nothing is."""
    version = place.packages.get(canonical(requirement.name))
    if version is None:
        return f"no {requirement.name}"
    if not satisfies(version, requirement.bounds):
        return f"{requirement.name} {version}, not {requirement.bounds}"
    brought = _BROUGHT.get(requirement.name)
    if brought and brought not in place.packages:
        return f"no {brought}"
    return ""
