"""Checks of the machine, and of the base at work."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from deletekit.course.diagnosis.check import WITHOUT_SPARK, Check, command, install
from deletekit.course.diagnosis.environment import Environment

__all__ = ["base_at_work", "disk_space", "memory", "processors", "python_version", "temporary_folder", "text_encoding"]

GIGABYTE = 1 << 30
ELSEWHERE = 'mkdir -p "$HOME/tmp" && export TMPDIR="$HOME/tmp"'


def python_version(place: Environment) -> Iterator[Check]:
    """Python itself."""
    found = f"{'.'.join(map(str, place.python))} ({place.executable})"
    if place.python >= (3, 11):
        yield Check(part="base", name="Python", status="ok", found=found)
        return
    yield Check(
        part="base",
        name="Python",
        status="missing",
        found=found,
        meaning="deletekit needs Python 3.11 or later; nothing of it works without.",
        fix="python3.11 -m venv .venv && .venv/bin/python -m pip install deletekit",
    )


def temporary_folder(place: Environment) -> Iterator[Check]:
    """Whether files can be written where the system says."""
    problem = "none that can be written" if place.temp is None else _unwritable(place.temp)
    if problem:
        yield Check(
            part="base",
            name="temporary files",
            status="missing",
            found=problem,
            meaning="deletekit and Spark write there first. Reading tables works without it.",
            fix=ELSEWHERE,
        )
        return
    yield Check(part="base", name="temporary files", status="ok", found=f"{place.temp} can be written")
    if place.temp is not None and is_noexec(place.temp):
        yield Check(
            part="spark",
            name="temporary files",
            status="warning",
            found=f"{place.temp} is mounted noexec",
            meaning=f"sqlite-jdbc unpacks a library there, and the system will not load it. {WITHOUT_SPARK}",
            fix='mkdir -p "$HOME/tmp" && export JAVA_TOOL_OPTIONS="-Djava.io.tmpdir=$HOME/tmp"',
        )


def _unwritable(folder: Path) -> str:
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(b"deletekit")
            file.flush()
    except OSError as e:
        return f"{folder}: {e.strerror or e}"
    return ""


def is_noexec(folder: Path) -> bool:
    """Whether the file system of a folder refuses to run what lies there; False where that cannot be asked."""
    if not hasattr(os, "ST_NOEXEC"):
        return False
    return bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)


def disk_space(place: Environment) -> Iterator[Check]:
    """Room for tables and jars."""
    if place.temp is None or not place.temp.is_dir():
        return  # said by the check of the folder
    free = shutil.disk_usage(place.temp).free
    found = f"{_size(free)} free in {place.temp}"
    if free >= GIGABYTE:
        yield Check(part="base", name="disk space", status="ok", found=found)
        return
    meaning = "The course and Spark with its jars want 1 GB. Small tables fit."
    fix = command(place, "du", "-xh", "-d2", str(place.temp))
    yield Check(part="base", name="disk space", status="warning", found=found, meaning=meaning, fix=fix)


def processors(place: Environment) -> Iterator[Check]:
    """Processors this process may use; no number of them is wrong."""
    files = "file" if place.processors == 1 else "files"
    found = f"{place.processors}: reads {place.processors} data {files} at a time"
    yield Check(part="base", name="processors", status="ok", found=found)


def text_encoding(place: Environment) -> Iterator[Check]:
    """Whether names and values can be printed as they are."""
    if place.encoding.lower().replace("-", "").replace("_", "") == "utf8":
        yield Check(part="base", name="text encoding", status="ok", found=place.encoding)
        return
    yield Check(
        part="base",
        name="text encoding",
        status="warning",
        found=place.encoding,
        meaning="Letters that it lacks are printed as \\u escapes. Tables are read and written right all the same.",
        fix="set PYTHONUTF8=1" if place.platform == "win32" else "export PYTHONUTF8=1",
    )


def memory(place: Environment) -> Iterator[Check]:
    """Memory against what a Spark session takes by default."""
    if place.memory is None:
        yield Check(part="spark", name="memory", status="ok", found="unknown on this system; Spark wants 1 GB")
        return
    found = f"{_size(place.memory)} available; Spark wants 1 GB"
    if place.memory >= GIGABYTE:
        yield Check(part="spark", name="memory", status="ok", found=found)
        return
    yield Check(
        part="spark",
        name="memory",
        status="warning",
        found=found,
        meaning=f"Spark may be ended when memory runs out; with a smaller driver it needs 0.6 GB. {WITHOUT_SPARK}",
        fix='deletekit.spark.session(warehouse, master="local[1]", driver_memory="512m")',
    )


def base_at_work(place: Environment) -> Iterator[Check]:
    """A table written, deleted from in two modes, and read back: what all the packages together can do."""
    try:
        # sqlite3 may still hold the catalog when Windows is asked to remove it.
        with tempfile.TemporaryDirectory(dir=place.temp, prefix="deletekit-doctor-", ignore_cleanup_errors=True) as at:
            rehearse(Path(at))
    except Exception as e:  # noqa: BLE001 - whatever is broken is what the doctor is asked for
        yield Check(
            part="base",
            name="trial table",
            status="missing",
            found=f"{type(e).__name__}: {e}"[:300],
            meaning="A small table could not be written, deleted from and read back.",
            fix=install(place, ["--force-reinstall", *(r.text for r in place.requirements.get("base", ()))]),
        )
        return
    yield Check(part="base", name="trial table", status="ok", found="written, deleted from in two modes, and read back")


def rehearse(folder: Path) -> None:
    """Do in `folder` what the base is for. Raises whatever is wrong."""
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
    return f"{count / GIGABYTE:,.1f} GB" if count >= GIGABYTE else f"{count / (1 << 20):,.0f} MB"
