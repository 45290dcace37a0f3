"""Check the machine, and whether the base works on it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from deletekit.course.diagnosis.check import WITHOUT_SPARK, Check, check, command, install
from deletekit.course.diagnosis.environment import Environment
from deletekit.text import without_secrets

_GIGABYTE = 1 << 30


def python_version(environment: Environment) -> Iterator[Check]:
    """Check the version of Python."""
    yield check(
        environment.python >= (3, 11),
        "base",
        "Python",
        f"{'.'.join(map(str, environment.python))} ({environment.executable})",
        meaning="deletekit needs Python 3.11 or later; nothing of it works without.",
        fix="python3.11 -m venv .venv && .venv/bin/python -m pip install deletekit",
    )


def temporary_folder(environment: Environment) -> Iterator[Check]:
    """Check that temporary files can be written, and that Spark can load a library from there."""
    folder = environment.temp
    problem = "none that can be written" if folder is None else _write_problem(folder)
    yield check(
        not problem,
        "base",
        "temporary files",
        problem or f"{folder} can be written",
        meaning="deletekit and Spark write there first. Reading tables works without it.",
        fix='mkdir -p "$HOME/tmp" && export TMPDIR="$HOME/tmp"',
    )
    if folder and not problem and hasattr(os, "ST_NOEXEC") and os.statvfs(folder).f_flag & os.ST_NOEXEC:
        yield Check(
            part="spark",
            name="temporary files",
            status="warning",
            found=f"{folder} is mounted noexec",
            meaning=f"sqlite-jdbc unpacks a library there, and the system will not load it. {WITHOUT_SPARK}",
            fix='mkdir -p "$HOME/tmp" && export JAVA_TOOL_OPTIONS="-Djava.io.tmpdir=$HOME/tmp"',
        )


def _write_problem(folder: Path) -> str:
    """Return why no file can be written in a folder; empty if one can."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(b"deletekit")
            file.flush()
    except OSError as e:
        return f"{folder}: {e.strerror or e}"
    return ""


def disk_space(environment: Environment) -> Iterator[Check]:
    """Check the disk space for tables and jars."""
    if environment.temp is None or not environment.temp.is_dir():
        return  # `temporary_folder` reports that
    free = shutil.disk_usage(environment.temp).free
    yield check(
        free >= _GIGABYTE,
        "base",
        "disk space",
        f"{_size(free)} free in {environment.temp}",
        status="warning",
        meaning="The course and Spark with its jars want 1 GB. Small tables fit.",
        fix=command(environment, "du", "-xh", "-d2", str(environment.temp)),
    )


def processors(environment: Environment) -> Iterator[Check]:
    """Report the processors that this process may use. No number of them is wrong."""
    files = "file" if environment.processors == 1 else "files"
    found = f"{environment.processors}: reads {environment.processors} data {files} at a time"
    yield Check(part="base", name="processors", found=found)


def text_encoding(environment: Environment) -> Iterator[Check]:
    """Check that names and values can be printed as they are."""
    yield check(
        environment.encoding.lower().replace("-", "").replace("_", "") == "utf8",
        "base",
        "text encoding",
        environment.encoding,
        status="warning",
        meaning="Letters that it lacks are printed as \\u escapes. Tables are read and written correctly.",
        fix="set PYTHONUTF8=1" if environment.platform == "win32" else "export PYTHONUTF8=1",
    )


def memory(environment: Environment) -> Iterator[Check]:
    """Check the memory that a Spark session takes by default."""
    there = environment.memory
    yield check(
        there is None or there >= _GIGABYTE,
        "spark",
        "memory",
        f"{'unknown on this system' if there is None else f'{_size(there)} available'}; Spark wants 1 GB",
        status="warning",
        meaning=f"The system may end Spark when memory runs out; a smaller driver needs 0.6 GB. {WITHOUT_SPARK}",
        fix='deletekit.spark.session(warehouse, master="local[1]", driver_memory="512m")',
    )


def base_in_use(environment: Environment) -> Iterator[Check]:
    """Write a small table, delete from it in two modes and read it back: check all packages of the base together."""
    problem = ""
    try:
        # sqlite3 may still hold the catalog when Windows is asked to remove it.
        with tempfile.TemporaryDirectory(
            dir=environment.temp, prefix="deletekit-doctor-", ignore_cleanup_errors=True
        ) as folder:
            _use_base(Path(folder))
    except Exception as e:  # noqa: BLE001 - the doctor reports any error
        problem = without_secrets(f"{type(e).__name__}: {e}")[:300]
    needed = [requirement.text for requirement in environment.requirements.get("base", ())]
    yield check(
        not problem,
        "base",
        "small table",
        problem or "written, deleted from in two modes, and read back",
        meaning="A small table could not be written, deleted from and read back.",
        fix=install(environment, ["--force-reinstall", *needed]),
    )


def _use_base(folder: Path) -> None:
    dk: Any = import_module("deletekit")
    pa: Any = import_module("pyarrow")
    catalog = dk.local_catalog(folder)
    try:
        for version, mode in ((2, "equality-delete"), (3, "deletion-vector")):
            rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32())})
            table = dk.create_table(catalog, f"doctor.v{version}", rows.schema, format_version=version)
            dk.append(table, rows)
            dk.delete(table, "id in (1, 3)", mode=mode)
            left = sorted(dk.scan(table).to_arrow()["id"].to_pylist())
            if left != [2, 4]:
                raise RuntimeError(f"after {mode} of 1 and 3 the rows are {left}")
    finally:
        catalog.pyiceberg.close()


def _size(count: int) -> str:
    return f"{count / _GIGABYTE:,.1f} GB" if count >= _GIGABYTE else f"{count / (1 << 20):,.0f} MB"
