"""Check the Python packages: those of the base one by one, and each extra."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from deletekit.course.diagnosis.check import WITHOUT_SPARK, Check, Part, check, install
from deletekit.course.diagnosis.environment import Environment, Requirement, canonical, satisfies

_NEEDED_FROM_EXTRA = {"pyiceberg": "pyiceberg-core"}
"""Packages that deletekit needs and that an extra of another package installs."""

_WITHOUT: Mapping[Part, str] = {
    "course": "The notebooks need it. The library and this command line do without.",
    "test": "Only those who change deletekit need it, to run its tests.",
    "peers": "Only the tests need it, which read deletekit's tables with other libraries.",
}


def base_packages(environment: Environment) -> Iterator[Check]:
    """Check each package of the base installation."""
    if not environment.requirements.get("base"):
        yield Check(
            part="base",
            name="requirements",
            status="warning",
            found="neither an installation nor a checkout of deletekit",
            meaning="Which packages it needs cannot be looked up; whether it works is tried below.",
            fix=install(environment, ["deletekit"]),
        )
    for requirement in environment.requirements.get("base", ()):
        problem = _problem(environment, requirement)
        yield check(
            not problem,
            "base",
            requirement.name,
            problem or _version(environment, requirement) or "",
            meaning=f"deletekit needs {requirement.text}; without it tables can be neither read nor written.",
            fix=install(environment, [requirement.text]),
        )


def pyspark(environment: Environment) -> Iterator[Check]:
    """Check that pyspark is of a minor release that jars are built for, and that no other Spark replaces it."""
    wanted = environment.requirements.get("spark", ())
    problems = [problem for requirement in wanted if (problem := _problem(environment, requirement))]
    found = ", ".join(problems) or environment.packages.get("pyspark", "unknown")
    meaning, fix = "", ""
    home = environment.variables.get("SPARK_HOME")
    if problems:
        meaning = "Iceberg has jars for these releases of Spark alone, and Spark needs pandas for Arrow."
        fix = install(environment, [requirement.text for requirement in wanted])
    elif home and not list(Path(home).glob(f"jars/spark-core_2.*-{_minor(found)}.*.jar")):
        found = f"{found}, but SPARK_HOME is {home}"
        meaning = (
            f"pyspark starts the Spark of SPARK_HOME, and that is not Spark {_minor(environment.packages['pyspark'])}."
        )
        fix = "set SPARK_HOME=" if environment.platform == "win32" else "unset SPARK_HOME"
    yield check(not meaning, "spark", "pyspark", found, meaning=f"{meaning} {WITHOUT_SPARK}", fix=fix)


def extras(environment: Environment) -> Iterator[Check]:
    """Check each extra but Spark's, in one line."""
    for part, meaning in _WITHOUT.items():
        wanted = environment.requirements.get(part, ())
        problems = {r: problem for r in wanted if (problem := _problem(environment, r))}
        if wanted:
            yield check(
                not problems,
                part,
                f"extra {part}",
                ", ".join(problems.values() or (f"{r.name} {_version(environment, r)}" for r in wanted)),
                meaning=meaning,
                fix=install(environment, [requirement.text for requirement in problems]),
            )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _version(environment: Environment, requirement: Requirement) -> str | None:
    return environment.packages.get(canonical(requirement.name))


def _problem(environment: Environment, requirement: Requirement) -> str:
    """Return what is wrong with a package; empty if nothing is."""
    version = _version(environment, requirement)
    if version is None:
        return f"no {requirement.name}"
    if not satisfies(version, requirement.bounds):
        return f"{requirement.name} {version}, not {requirement.bounds}"
    needed = _NEEDED_FROM_EXTRA.get(requirement.name)
    return f"no {needed}" if needed and needed not in environment.packages else ""
