"""Check what Spark needs beside pyspark: Java and the jars."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deletekit.course.diagnosis.check import WITHOUT_SPARK, Check, Status, check, command
from deletekit.course.diagnosis.environment import Environment
from deletekit.spark.releases import JARS
from deletekit.spark.sessions import JARS_FOLDER_VARIABLE, OLDEST_JAVA

DELTA_JAR = "io.delta:delta-spark_4.1_2.13:4.4.0"
IVY_FOLDER = ".ivy2.5.2"
"""The folder in the user's home where Spark 4.1 has Ivy keep what it fetched."""

_MANAGERS = {"debian": "apt-get", "ubuntu": "apt-get", "fedora": "dnf", "rhel": "dnf", "alpine": "apk"}
_NAMES = {"iceberg": "Iceberg", "sqlite": "SQLite", "delta": "Delta"}
_VECTOR_MODULE = "jdk.incubator.vector"


# --- Java -------------------------------------------------------------------------------------------------------------


def java(environment: Environment) -> Iterator[Check]:
    """Check the Java that Spark's own scripts would run."""
    found, problem = _java(environment)
    fix = _java_fix(environment) if problem else ""
    yield check(not problem, "spark", "Java", found, meaning=f"{problem} {WITHOUT_SPARK}", fix=fix)


def _java(environment: Environment) -> tuple[str, str]:
    """Return what was found, and what is wrong with it (empty if nothing is)."""
    home = environment.variables.get("JAVA_HOME")
    named = str(Path(home, "bin", "java")) if home else "java"
    program = shutil.which(named, path=environment.variables.get("PATH", ""))
    wanted = f"Spark needs Java {OLDEST_JAVA} or later."
    if program is None:
        return f"none at JAVA_HOME ({home})" if home else "none on the PATH", wanted
    shown = _output(environment, [program, "-version"])
    version = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', shown)
    if version is None:
        return f"{program}, which names no version: {' '.join(shown.split())[:120]}", wanted
    found = f"{version[1]}{version[2]} ({program}{', by JAVA_HOME' if home else ''})"
    if int(version[1]) < OLDEST_JAVA:
        return found, wanted
    if _VECTOR_MODULE not in _output(environment, [program, "--list-modules"]):
        problem = f"This Java lacks the module {_VECTOR_MODULE}, which Spark starts with; those that pip installs do."
        return found, problem
    return found, ""


def _output(environment: Environment, words: Sequence[str]) -> str:
    """Return what a program prints, or why it does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - this machine's own Java
            words,
            env=dict(environment.variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    return (done.stdout + done.stderr).decode(errors="replace")


def _java_fix(environment: Environment) -> str:
    if "JAVA_HOME" in environment.variables:
        without = {k: v for k, v in environment.variables.items() if k != "JAVA_HOME"}
        if not _java(replace(environment, variables=without))[1]:
            return "set JAVA_HOME=" if environment.platform == "win32" else "unset JAVA_HOME"
    if environment.platform == "win32":
        return "winget install EclipseAdoptium.Temurin.17.JDK"
    if environment.platform == "darwin":
        return 'brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"'
    sudo = "" if environment.is_root else "sudo "
    distribution, _, version = environment.system.partition(" ")
    debian = 21 if distribution == "debian" and version.isdigit() and int(version) >= 13 else 17
    commands = {
        "apt-get": f"{sudo}apt-get install --yes openjdk-{debian}-jre-headless",
        "dnf": f"{sudo}dnf install --assumeyes java-21-openjdk-headless",
        "apk": f"{sudo}apk add openjdk17-jre-headless",
        "conda": "conda install --yes -c conda-forge openjdk=17",
    }
    path = environment.variables.get("PATH", "")
    there = next((manager for manager in commands if shutil.which(manager, path=path) is not None), None)
    return commands[there or _MANAGERS.get(distribution, "conda")]


# --- jars -------------------------------------------------------------------------------------------------------------


def jars(environment: Environment) -> Iterator[Check]:
    """Check each jar: it is in the folder that the variable names, or Ivy has fetched it, or Ivy can fetch it."""
    folder = environment.variables.get(JARS_FOLDER_VARIABLE)
    for coordinate in (*JARS, DELTA_JAR):
        jar = _Jar.of(coordinate, environment)
        yield _in_folder(environment, jar, Path(folder)) if folder else _by_ivy(environment, jar)


@dataclass(frozen=True, slots=True)
class _Jar:
    coordinate: str
    name: str
    version: str
    file: str
    ivy: Path
    maven: Path

    @classmethod
    def of(cls, coordinate: str, environment: Environment) -> _Jar:
        group, artifact, version = coordinate.split(":")
        repository = environment.user_home / ".m2" / "repository"
        return cls(
            coordinate,
            f"{_NAMES.get(artifact.partition('-')[0], artifact)} jar",
            version,
            f"{artifact}-{version}.jar",
            environment.user_home / IVY_FOLDER / "cache" / group / artifact,
            repository.joinpath(*group.split("."), artifact, version),
        )

    def missing(self, found: str, *, status: Status = "missing", meaning: str, fix: str) -> Check:
        """Return the check of a jar that is not there; `meaning` gets what works without it."""
        without = WITHOUT_SPARK
        if self.coordinate == DELTA_JAR:
            without = "Only Spark sessions that open Delta tables need it; `sync_delta` reads those without Spark."
            status = "warning"
        meaning = f"{meaning} {without}"
        return Check(part="spark", name=self.name, status=status, found=found, meaning=meaning, fix=fix)

    def fetched(self) -> Path | None:
        """Return the file that Ivy would take without a network."""
        places = [*self.ivy.glob(f"*/{self.file}"), self.maven / self.file]
        return next((p for p in places if zipfile.is_zipfile(p)), None)

    def obstacles(self) -> list[Path]:
        """List what makes Ivy fail although the network has the jar: a POM without the jar, and Ivy's note of that POM.

        Ivy takes a jar from where it found the POM. It looks in the local Maven repository first and notes that. Even
        when the POM is gone, it looks only there.
        """
        found = [self.maven] if list(self.maven.glob("*.pom")) else []
        notes = [p for p in self.ivy.glob("ivydata-*.properties") if "resolver=local-m2-cache" in p.read_text("utf-8")]
        return [*found, *([self.ivy] if notes else [])]


def _in_folder(environment: Environment, jar: _Jar, folder: Path) -> Check:
    if any(map(zipfile.is_zipfile, folder.glob(f"*{jar.file}"))):
        return Check(part="spark", name=jar.name, found=f"{jar.version} in {folder}")
    source = jar.fetched()
    return jar.missing(
        f"not in {folder}",
        meaning=f"{JARS_FOLDER_VARIABLE} names this folder, and then Spark looks nowhere else.",
        fix="unset DELETEKIT_JARS" if source is None else command(environment, "cp", str(source), str(folder)),
    )


def _by_ivy(environment: Environment, jar: _Jar) -> Check:
    found = jar.fetched()
    if found is not None:
        home = IVY_FOLDER if jar.ivy in found.parents else ".m2"
        return Check(part="spark", name=jar.name, found=f"{jar.version} in {environment.user_home / home}")
    obstacles = jar.obstacles()
    if obstacles:
        return jar.missing(
            f"a POM without its jar in {jar.maven}",
            meaning="Ivy takes the POM from there and then misses the jar, although the network has it.",
            fix=command(environment, "rm", "-r", *map(str, obstacles)),
        )
    folder = str((environment.temp or Path()) / "deletekit-jars")
    settings = f'{{"spark.jars.packages": "{jar.coordinate}"}}'
    code = f"from deletekit import spark; spark.session({json.dumps(folder)}, settings={settings}).stop()"
    return jar.missing(
        f"{jar.coordinate} not fetched yet",
        status="warning",
        meaning="Spark fetches it when it first starts, and needs the network for that.",
        fix=command(environment, environment.executable, "-c", code),
    )
