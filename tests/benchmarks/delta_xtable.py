"""Part `delta_xtable`: the first sync of Delta tables without vectors (XTable drops them), beside Apache XTable.

XTable has no jars on Maven Central. DELETEKIT_XTABLE has a class path of it: xtable-core,
xtable-api, xtable-hudi-support-utils, and what they need. Seconds are without the start of JVM and Python.
"""

# ruff: noqa: PLC0415  # the library is imported after the tables are made

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from tests.benchmarks.delta_ladder import table_of_files
from tests.benchmarks.report import ms, table_of
from tests.benchmarks.settings import Settings

__all__ = ["run"]

Taken = tuple[float, float]
SIZES = (1_000, 10_000)
SOURCES = ("kernel", "spark")
# Spark 3.4, with which XTable reads Delta tables, on Java 17.
OPENED = ("lang", "lang.invoke", "io", "net", "nio", "util", "util.concurrent")


def run(settings: Settings) -> str:
    """Median seconds of first syncs, and seconds of processor time."""
    class_path = os.environ.get("DELETEKIT_XTABLE")
    if not class_path:
        return "DELETEKIT_XTABLE has no class path of XTable."
    folder = settings.work / "delta_xtable"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = Path(__file__).parent / "java" / "XTableSync.java"
    subprocess.run(["javac", "-nowarn", "-d", folder, "-cp", class_path, source], check=True)
    sizes = (200, 400) if settings.small else SIZES
    tables = [table_of_files(folder / f"delta-{files}", files, vectors=False)[0].path for files in (100, *sizes)]
    seconds = {name: _by_xtable(folder, class_path, name, tables, settings.runs) for name in SOURCES}
    seconds["deletekit"] = _ours(folder, tables, settings.runs)
    rows = []
    for number, files in enumerate(sizes):
        found = [[statistics.median(both) for both in zip(*taken[number], strict=True)] for taken in seconds.values()]
        ratios = [" / ".join(f"{a / b:.1f}" for a, b in zip(theirs, found[-1], strict=True)) for theirs in found[:-1]]
        rows.append([f"{files:,}", *(" / ".join(map(ms, taken)) for taken in found), *ratios])
    header = ["files", *(f"XTable ({name})" for name in SOURCES), "deletekit", *(f"{name} to ours" for name in SOURCES)]
    return table_of(header, rows)


def _by_xtable(folder: Path, class_path: str, name: str, tables: list[Path], runs: int) -> list[list[Taken]]:
    """What each sync took, for each table but the first, which warms the JVM up."""
    opened = [f"--add-opens=java.base/java.{part}=ALL-UNNAMED" for part in OPENED]
    opened += ["--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED"]
    pairs = [tables[0], *tables[1:] * runs]
    arguments = [str(part) for n, table in enumerate(pairs) for part in (table, folder / f"xtable-{name}-{n}")]
    command = ["java", "-Xmx3g", *opened, "-cp", f"{folder}:{class_path}", "XTableSync", name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = re.findall(r"^RESULT (\S+) (\S+) (.*)$", done.stdout, re.MULTILINE)
    assert len(lines) == len(pairs), done.stdout[-2000:]
    assert all("SUCCESS" in result for *_, result in lines), lines
    taken = [(float(seconds), float(used)) for seconds, used, _ in lines[1:]]
    return [taken[n :: len(tables) - 1] for n in range(len(tables) - 1)]


def _ours(folder: Path, tables: list[Path], runs: int) -> list[list[Taken]]:
    import deletekit as dk

    out: list[list[Taken]] = [[] for _ in tables]
    catalog = dk.local_catalog(folder / "warehouse")
    for turn in range(runs):
        for number, table in enumerate(tables):
            begin, used = time.perf_counter(), time.process_time()
            dk.sync_delta(table, catalog, f"t.d{number}_{turn}")
            out[number].append((time.perf_counter() - begin, time.process_time() - used))
    return out[1:]
