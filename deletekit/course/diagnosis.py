"""DOCTOR: what works on this machine, what does not, what still works without it, and the command that fixes it.

A check uses no network and leaves no file behind. At the top only what needs no other package is imported: a broken
package must not stop the doctor from reporting it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from shlex import join
from typing import Literal

from deletekit.course.translations import text
from deletekit.engines.local import LocalEngine
from deletekit.rows.available_memory import available_memory, content_of
from deletekit.text import without_secrets

Status = Literal["ok", "warning", "missing"]
Part = Literal["base", "spark", "course", "test", "peers"]

DELTA_JAR = "io.delta:delta-spark_4.1_2.13:4.4.0"
IVY_FOLDER = ".ivy2.5.2"
"""The folder in the user's home where Spark 4.1 has Ivy keep what it fetched."""

_WINDOWS = sys.platform == "win32"
_GIGABYTE = 1 << 30
_WITHOUT_SPARK = "Without Spark every verb still reads and writes tables, in this process."
_WITHOUT: Mapping[Part, str] = {
    "course": "The notebooks need it. The library and this command line do without.",
    "test": "Only those who change deletekit need it, to run its tests.",
    "peers": "Only the tests need it, which read deletekit's tables with other libraries.",
}
_SUDO = "" if not hasattr(os, "geteuid") or os.geteuid() == 0 else "sudo "
_APT = f"{_SUDO}apt-get install --yes openjdk"
_INSTALL_JAVA = {
    "apt-get": f"{_APT}-17-jre-headless || {_APT}-21-jre-headless",  # Debian 12 has the first, Debian 13 the second
    "dnf": f"{_SUDO}dnf install --assumeyes java-21-openjdk-headless",
    "apk": f"{_SUDO}apk add openjdk17-jre-headless",
    "brew": 'brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"',
    "winget": "winget install EclipseAdoptium.Temurin.17.JDK",
}


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


def diagnose() -> tuple[Check, ...]:
    """Run every check and return the results, those of the base first.

    Takes a few seconds, because the base is tried on a small table.
    """
    found = [check for checks in LocalEngine(1).map(lambda look: list(look()), CHECKS) for check in checks]
    return tuple(sorted(found, key=lambda check: check.part != "base"))


def base_works(checks: Sequence[Check]) -> bool:
    """Return whether tables can be read and written. Spark and the course may be missing."""
    return all(check.status != "missing" for check in checks if check.part == "base")


def doctor(*, details: bool = False) -> None:
    """Print whether the course works on this machine, and what does not work, with the command that fixes it.

    Parameters
    ----------
    details: print every check, as `deletekit doctor` on the command line does.
    """
    checks = [check for check in diagnose() if check.part in ("base", "course", "spark")]
    missing = {check.part for check in checks if check.status == "missing"}
    if missing <= {"spark"}:
        print(text("Everything that the course needs is here."))  # noqa: T201
    if "spark" in missing:
        print(text("Spark is not here: the lessons build their tables without it, and show the same."))  # noqa: T201
    for check in checks:
        if details or (check.status == "missing" and check.part != "spark"):
            said = [f"{check.status:<8}{check.name}: {check.found}", check.meaning, check.fix]
            print("\n        ".join(filter(None, said)))  # noqa: T201


def _check(ok: bool, part: Part, name: str, found: str, meaning: str, fix: str, status: Status = "missing") -> Check:
    """Return a check with its status, and without `meaning` and `fix` if all is well."""
    found = without_secrets(found)
    if ok:
        return Check(part=part, name=name, found=found)
    return Check(part=part, name=name, status=status, found=found, meaning=meaning, fix=fix)


def _command(*words: str) -> str:
    """Return a command as the shell of this machine takes it."""
    return subprocess.list2cmdline(words) if _WINDOWS else join(words)


def _unset(variable: str) -> str:
    return f"set {variable}=" if _WINDOWS else f"unset {variable}"


# --- the base ---------------------------------------------------------------------------------------------------------


def _temporary_folder() -> Iterator[Check]:
    """Check that temporary files can be written, and that there is room for tables and jars."""
    meaning = "deletekit and Spark write there first. Reading tables works without it."
    fix = 'mkdir -p "$HOME/tmp" && export TMPDIR="$HOME/tmp"'
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"deletekit")
            file.flush()
    except OSError as e:
        yield _check(False, "base", "temporary files", str(e), meaning, fix)
        return
    folder = Path(file.name).parent
    yield _check(True, "base", "temporary files", f"{folder} can be written", meaning, fix)
    free = shutil.disk_usage(folder).free
    meaning = "The course and Spark with its jars want 1 GB. Small tables fit."
    fix = _command("du", "-xh", "-d2", str(folder))
    found = f"{free / _GIGABYTE:,.1f} GB free in {folder}"
    yield _check(free >= _GIGABYTE, "base", "disk space", found, meaning, fix, "warning")


def _text_encoding() -> Iterator[Check]:
    """Check that names and values can be printed as they are."""
    encoding = getattr(sys.stdout, "encoding", None) or sys.getfilesystemencoding()
    is_utf8 = encoding.lower().replace("-", "").replace("_", "") == "utf8"
    meaning = "Letters that it lacks are printed as \\u escapes. Tables are read and written correctly."
    fix = "set PYTHONUTF8=1" if _WINDOWS else "export PYTHONUTF8=1"
    yield _check(is_utf8, "base", "text encoding", encoding, meaning, fix, "warning")


def _base_in_use() -> Iterator[Check]:
    """Write a small table, delete from it in two modes and read it back: check all packages of the base together."""
    problem = ""
    try:
        # sqlite3 may still hold the catalog when Windows is asked to remove it.
        with tempfile.TemporaryDirectory(prefix="deletekit-doctor-", ignore_cleanup_errors=True) as folder:
            _use_base(Path(folder))
    except Exception as e:  # noqa: BLE001 - the doctor reports any error
        problem = without_secrets(f"{type(e).__name__}: {e}")[:300]
    found = problem or "written, deleted from in two modes, and read back"
    meaning = "A small table could not be written, deleted from and read back."
    fix = _install(["--force-reinstall", *(line for _, _, line in _requirements("base"))])
    yield _check(not problem, "base", "small table", found, meaning, fix)


def _use_base(folder: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415

    import deletekit as dk  # noqa: PLC0415

    catalog = dk.local_catalog(folder)
    try:
        for format_version, mode in ((2, "equality-delete"), (3, "deletion-vector")):
            rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32())})
            table = dk.create_table(catalog, f"doctor.v{format_version}", rows.schema, format_version=format_version)
            dk.append(table, rows)
            dk.delete(table, "id in (1, 3)", mode=mode)
            left = sorted(dk.scan(table).to_arrow()["id"].to_pylist())
            if left != [2, 4]:
                raise RuntimeError(f"after {mode} of 1 and 3 the rows are {left}")
    finally:
        catalog.pyiceberg.close()


# --- packages ---------------------------------------------------------------------------------------------------------


def _base_packages() -> Iterator[Check]:
    """Check Python, and each package of the base installation."""
    found = f"{'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    yield _check(True, "base", "Python", found, "", "")
    for name, bounds, line in _requirements("base"):
        problem = _problem(name, bounds)
        meaning = f"deletekit needs {line}; without it tables can be neither read nor written."
        yield _check(not problem, "base", name, problem or _version(name), meaning, _install([line]))


def _extras() -> Iterator[Check]:
    """Check each extra but Spark's, in one line."""
    for part, meaning in _WITHOUT.items():
        wanted = _requirements(part)
        problems = {line: problem for name, bounds, line in wanted if (problem := _problem(name, bounds))}
        found = ", ".join(problems.values() or (f"{name} {_version(name)}" for name, _, _ in wanted))
        if wanted:
            yield _check(not problems, part, f"extra {part}", found, meaning, _install(list(problems)))


def _pyspark() -> Iterator[Check]:
    """Check that pyspark is of a minor release that was tried, and that no other Spark replaces it."""
    wanted = _requirements("spark")
    problems = [problem for name, bounds, _ in wanted if (problem := _problem(name, bounds))]
    if problems:
        meaning = f"deletekit was tried on these releases of Spark alone, and Spark needs pandas. {_WITHOUT_SPARK}"
        fix = _install([line for _, _, line in wanted])
        yield _check(False, "spark", "pyspark", ", ".join(problems), meaning, fix)
        return
    found, home = _version("pyspark"), os.environ.get("SPARK_HOME")
    minor = ".".join(found.split(".")[:2])
    other = bool(home) and not list(Path(home or "").glob(f"jars/spark-core_2.*-{minor}.*.jar"))
    shown = f"{found}, but SPARK_HOME is {home}" if other else found
    meaning = f"pyspark starts the Spark of SPARK_HOME, and that is not Spark {minor}. {_WITHOUT_SPARK}"
    yield _check(not other, "spark", "pyspark", shown, meaning, _unset("SPARK_HOME"))


def _requirements(part: str) -> list[tuple[str, str, str]]:
    """Return name, bounds and line of each package that the base or an extra needs in this Python.

    The library `packaging` is not in the base installation, so this reads the few forms that pyproject.toml has.
    """
    found = []
    for line in requires("deletekit") or []:
        wanted, _, marker = (piece.strip() for piece in line.partition(";"))
        extra = re.search(r"extra *== *['\"]([\w-]+)['\"]", marker)
        below = re.search(r"python_version *< *['\"](\d+)\.(\d+)['\"]", marker)
        match = re.fullmatch(r"([\w.-]*\w)\s*(?:\[[^]]*\])?([^\[\]]*)", wanted)
        other_python = below is not None and sys.version_info[:2] >= (int(below[1]), int(below[2]))
        if match is None or match[1] == "deletekit" or other_python:
            continue
        if (extra[1] if extra else "base") == part:
            found.append((match[1], match[2], wanted))
    return found


def _problem(name: str, bounds: str) -> str:
    """Return what is wrong with a package; empty if nothing is."""
    have = _version(name)
    if not have:
        return f"no {name}"
    return "" if satisfies(have, bounds) else f"{name} {have}, not {bounds}"


def satisfies(have: str, bounds: str) -> bool:
    """Return whether a version meets `>=a`, `<b` and `==a.b.*`, the only operators that pyproject.toml uses."""
    numbers = _release(have)
    for clause in filter(None, bounds.split(",")):
        operator, limit = clause.strip().rstrip("0123456789.*"), _release(clause)
        if operator == "<" and numbers >= limit:
            return False
        if operator == ">=" and numbers < limit:
            return False
        if operator == "==" and numbers[: len(limit)] != limit:
            return False
    return True


def _release(version_text: str) -> tuple[int, ...]:
    """Return the release numbers of a version without trailing zeros, so that 26.0 equals 26."""
    release = re.search(r"\d+(?:\.\d+)*", version_text)
    return tuple(map(int, re.sub(r"(\.0+)+$", "", release[0]).split("."))) if release else ()


def _version(name: str) -> str:
    """Return the version of an installed package; empty without one."""
    try:
        return version(name) or ""  # a package half removed has none
    except PackageNotFoundError:
        return ""


def _install(requirements: Sequence[str]) -> str:
    """Return the command that installs packages for this Python. An environment that uv made has no pip."""
    if find_spec("pip") is None:
        return _command("uv", "pip", "install", "--python", sys.executable, *requirements)
    return _command(sys.executable, "-m", "pip", "install", *requirements)


# --- Spark ------------------------------------------------------------------------------------------------------------


def _java() -> Iterator[Check]:
    """Check the Java that Spark's own scripts would run, and the memory that a session takes by default."""
    from deletekit.spark.sessions import java_problem, java_program  # noqa: PLC0415  # it imports pyarrow

    program = java_program()
    try:
        problem = java_problem()
        modules = [] if problem else subprocess.check_output([program, "--list-modules"], text=True)  # noqa: S603
        if problem is None and "jdk.incubator.vector" not in modules:
            problem = f"{program} lacks the module jdk.incubator.vector, as those that pip installs do"
    except (OSError, subprocess.CalledProcessError) as e:  # a program that is no Java
        problem = str(e)
    meaning = f"Spark cannot start. {_WITHOUT_SPARK}"
    yield _check(not problem, "spark", "Java", problem or f"{program} can run Spark", meaning, _java_fix())
    there = available_memory()
    shown = "unknown on this system" if there is None else f"{there / _GIGABYTE:,.1f} GB available"
    meaning = f"The system may end Spark when memory runs out; a smaller driver needs 0.6 GB. {_WITHOUT_SPARK}"
    fix = 'deletekit.spark.session(warehouse, master="local[1]", driver_memory="512m")'
    enough = there is None or there >= _GIGABYTE
    yield _check(enough, "spark", "memory", f"{shown}; Spark wants 1 GB", meaning, fix, "warning")


def _java_fix() -> str:
    if os.environ.get("JAVA_HOME"):
        return _unset("JAVA_HOME")
    return next((fix for manager, fix in _INSTALL_JAVA.items() if shutil.which(manager)), "conda install openjdk=17")


def _jars() -> Iterator[Check]:
    """Check each jar: it is in the folder that the variable names, or Ivy has fetched it, or Ivy can fetch it."""
    from deletekit.spark.releases import JARS, RELEASE  # noqa: PLC0415  # it imports pyarrow
    from deletekit.spark.sessions import JARS_FOLDER_VARIABLE  # noqa: PLC0415

    if not JARS:
        meaning = f"Iceberg's SQL and the course's cells on Spark need one; all else does not. {_WITHOUT_SPARK}"
        fix = _install(["pyspark<4.2"])
        yield _check(False, "spark", "Iceberg jar", f"there is none for Spark {RELEASE}", meaning, fix, "warning")
        return
    folder = os.environ.get(JARS_FOLDER_VARIABLE)
    for coordinate, name in zip((*JARS, DELTA_JAR), ("Iceberg jar", "SQLite jar", "Delta jar"), strict=True):
        group, artifact, jar_version = coordinate.split(":")
        file = f"{artifact}-{jar_version}.jar"
        ivy = Path.home() / IVY_FOLDER / "cache" / group / artifact
        maven = Path.home().joinpath(".m2", "repository", *group.split("."), artifact, jar_version)
        places = Path(folder).glob(f"*{file}") if folder else (*ivy.glob(f"*/{file}"), maven / file)
        there = next((place for place in places if zipfile.is_zipfile(place)), None)
        status: Status = "missing"
        if there is not None:
            found, meaning, fix = f"{jar_version} in {there.parent}", "", ""
        elif folder:
            found, fix = f"not in {folder}", _unset(JARS_FOLDER_VARIABLE)
            meaning = f"{JARS_FOLDER_VARIABLE} names this folder, and then Spark looks nowhere else."
        elif obstacles := _obstacles(ivy, maven):
            found, fix = f"a POM without its jar in {maven}", _command("rm", "-r", *map(str, obstacles))
            meaning = "Ivy takes the POM from there and then misses the jar, although the network has it."
        else:
            warehouse = str(Path(tempfile.gettempdir(), "deletekit-jars"))
            settings = {"spark.jars.packages": coordinate}
            code = f"from deletekit import spark; spark.session({warehouse!r}, settings={settings}).stop()"
            found, fix, status = f"{coordinate} not fetched yet", _command(sys.executable, "-c", code), "warning"
            meaning = "Spark fetches it when it first starts, and needs the network for that."
        without = _WITHOUT_SPARK
        if coordinate == DELTA_JAR:
            without, status = "Only Spark sessions that open Delta tables need it; `sync_delta` does not.", "warning"
        yield _check(there is not None, "spark", name, found, f"{meaning} {without}", fix, status)


def _obstacles(ivy: Path, maven: Path) -> list[Path]:
    """List what makes Ivy fail although the network has the jar: a POM without the jar, and Ivy's note of that POM.

    Ivy takes a jar from where it found the POM. It looks in the local Maven repository first and notes that. Even when
    the POM is gone, it looks only there.
    """
    notes = [note for note in ivy.glob("ivydata-*.properties") if "resolver=local-m2-cache" in content_of(note)]
    return [*([maven] if list(maven.glob("*.pom")) else []), *([ivy] if notes else [])]


CHECKS: tuple[Callable[[], Iterator[Check]], ...] = (
    _base_packages,
    _base_in_use,
    _temporary_folder,
    _text_encoding,
    _java,
    _pyspark,
    _jars,
    _extras,
)
