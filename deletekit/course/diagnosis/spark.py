"""Checks of what Spark needs beside pyspark: Java, and the jars."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deletekit.course.diagnosis.check import WITHOUT_SPARK, Check, command
from deletekit.course.diagnosis.environment import Environment
from deletekit.spark.sessions import JARS, JARS_FOLDER_VARIABLE, OLDEST_JAVA

__all__ = ["DELTA_JAR", "IVY_FOLDER", "jars", "java"]

DELTA_JAR = "io.delta:delta-spark_4.1_2.13:4.4.0"
IVY_FOLDER = ".ivy2.5.2"
"""Where Spark 4.1 has Ivy keep what it fetched, in the user's home."""

_MANAGERS = {"debian": "apt-get", "ubuntu": "apt-get", "fedora": "dnf", "rhel": "dnf", "alpine": "apk"}
_NAMES = {"iceberg": "Iceberg", "sqlite": "SQLite", "delta": "Delta"}
_VECTOR_MODULE = "jdk.incubator.vector"


# --- Java -------------------------------------------------------------------------------------------------------------


def java(place: Environment) -> Iterator[Check]:
    """The Java that Spark's own scripts would run."""
    found, problem = _java(place)
    if not problem:
        yield Check(part="spark", name="Java", status="ok", found=found)
        return
    meaning = f"{problem} {WITHOUT_SPARK}"
    yield Check(part="spark", name="Java", status="missing", found=found, meaning=meaning, fix=_java_fix(place))


def _java(place: Environment) -> tuple[str, str]:
    """What was found, and what is wrong with it."""
    home = place.variables.get("JAVA_HOME")
    named = str(Path(home, "bin", "java")) if home else "java"
    program = shutil.which(named, path=place.variables.get("PATH", ""))
    wanted = f"Spark needs Java {OLDEST_JAVA} or later."
    if program is None:
        return f"none at JAVA_HOME ({home})" if home else "none on the PATH", wanted
    shown = _output(place, [program, "-version"])
    version = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', shown)
    if version is None:
        return f"{program}, which names no version: {' '.join(shown.split())[:120]}", wanted
    found = f"{version[1]}{version[2]} ({program}{', by JAVA_HOME' if home else ''})"
    if int(version[1]) < OLDEST_JAVA:
        return found, wanted
    if _VECTOR_MODULE not in _output(place, [program, "--list-modules"]):
        return (
            found,
            f"This Java lacks the module {_VECTOR_MODULE}, which Spark starts with; those that pip installs do.",
        )
    return found, ""


def _output(place: Environment, words: Sequence[str]) -> str:
    """What a program prints; when it does not run, why."""
    try:
        done = subprocess.run(  # noqa: S603 - this machine's own Java
            words, env=dict(place.variables), stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    return (done.stdout + done.stderr).decode(errors="replace")


def _java_fix(place: Environment) -> str:
    if "JAVA_HOME" in place.variables:
        without = {k: v for k, v in place.variables.items() if k != "JAVA_HOME"}
        if not _java(replace(place, variables=without))[1]:
            return "set JAVA_HOME=" if place.platform == "win32" else "unset JAVA_HOME"
    if place.platform == "win32":
        return "winget install EclipseAdoptium.Temurin.17.JDK"
    if place.platform == "darwin":
        return 'brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"'
    sudo = "" if place.is_root else "sudo "
    distribution, _, version = place.system.partition(" ")
    debian = 21 if distribution == "debian" and version.isdigit() and int(version) >= 13 else 17
    commands = {
        "apt-get": f"{sudo}apt-get install --yes openjdk-{debian}-jre-headless",
        "dnf": f"{sudo}dnf install --assumeyes java-21-openjdk-headless",
        "apk": f"{sudo}apk add openjdk17-jre-headless",
        "conda": "conda install --yes -c conda-forge openjdk=17",
    }
    path = place.variables.get("PATH", "")
    there = next((manager for manager in commands if shutil.which(manager, path=path) is not None), None)
    return commands[there or _MANAGERS.get(distribution, "conda")]


# --- jars -------------------------------------------------------------------------------------------------------------


def jars(place: Environment) -> Iterator[Check]:
    """Each jar: in the folder that the variable names, or fetched already, or in the way of being fetched."""
    folder = place.variables.get(JARS_FOLDER_VARIABLE)
    for coordinate in (*JARS, DELTA_JAR):
        jar = _Jar.of(coordinate, place)
        yield _in_folder(place, jar, Path(folder)) if folder else _by_ivy(place, jar)


@dataclass(frozen=True, slots=True)
class _Jar:
    coordinate: str
    name: str
    version: str
    file: str
    ivy: Path
    maven: Path

    @classmethod
    def of(cls, coordinate: str, place: Environment) -> _Jar:
        group, artifact, version = coordinate.split(":")
        repository = place.user_home / ".m2" / "repository"
        return cls(
            coordinate,
            f"{_NAMES.get(artifact.partition('-')[0], artifact)} jar",
            version,
            f"{artifact}-{version}.jar",
            place.user_home / IVY_FOLDER / "cache" / group / artifact,
            repository.joinpath(*group.split("."), artifact, version),
        )

    @property
    def meaning(self) -> str:
        """What works without it."""
        if self.coordinate == DELTA_JAR:
            return "Only Spark sessions that open Delta tables need it; `sync_delta` reads those without Spark."
        return WITHOUT_SPARK

    def fetched(self) -> Path | None:
        """The file that Ivy would take without asking the network."""
        places = [*self.ivy.glob(f"*/{self.file}"), self.maven / self.file]
        return next((p for p in places if zipfile.is_zipfile(p)), None)

    def obstacles(self) -> list[Path]:
        """What makes Ivy fail although the network has the jar: a POM without it, and the memory of having seen one.

        Ivy takes a jar from where it found the POM. It looks in the local Maven repository first, and remembers: when
        the POM is gone it still looks only there.
        """
        found = [self.maven] if list(self.maven.glob("*.pom")) else []
        memory = [p for p in self.ivy.glob("ivydata-*.properties") if "resolver=local-m2-cache" in p.read_text("utf-8")]
        return [*found, *([self.ivy] if memory else [])]


def _in_folder(place: Environment, jar: _Jar, folder: Path) -> Check:
    found = next((p for p in sorted(folder.glob(f"*{jar.file}")) if zipfile.is_zipfile(p)), None)
    if found is not None:
        return Check(part="spark", name=jar.name, status="ok", found=f"{jar.version} in {folder}")
    source = jar.fetched()
    fix = "unset DELETEKIT_JARS" if source is None else command(place, "cp", str(source), str(folder))
    return Check(
        part="spark",
        name=jar.name,
        status="warning" if jar.coordinate == DELTA_JAR else "missing",
        found=f"not in {folder}",
        meaning=f"{JARS_FOLDER_VARIABLE} names this folder, and then Spark looks nowhere else. {jar.meaning}",
        fix=fix,
    )


def _by_ivy(place: Environment, jar: _Jar) -> Check:
    found = jar.fetched()
    if found is not None:
        home = IVY_FOLDER if jar.ivy in found.parents else ".m2"
        return Check(part="spark", name=jar.name, status="ok", found=f"{jar.version} in {place.user_home / home}")
    obstacles = jar.obstacles()
    if obstacles:
        return Check(
            part="spark",
            name=jar.name,
            status="warning" if jar.coordinate == DELTA_JAR else "missing",
            found=f"a POM without its jar in {jar.maven}",
            meaning=f"Ivy takes the POM from there and then misses the jar, although the network has it. {jar.meaning}",
            fix=command(place, "rm", "-r", *map(str, obstacles)),
        )
    folder = str((place.temp or Path()) / "deletekit-jars")
    settings = f'{{"spark.jars.packages": "{jar.coordinate}"}}'
    code = f"from deletekit import spark; spark.session({json.dumps(folder)}, settings={settings}).stop()"
    return Check(
        part="spark",
        name=jar.name,
        status="warning",
        found=f"{jar.coordinate} not fetched yet",
        meaning=f"Spark fetches it when it first starts, and needs the network for that. {jar.meaning}",
        fix=command(place, place.executable, "-c", code),
    )
