"""Part `start`: how long small commands and a first scan take. tests/test_start.py holds what is not imported.

Modules have their bytecode, as pip gives it to what it installs: to compile our own takes a tenth of a second.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.report import ms, table_of, verdict
from tests.benchmarks.settings import Settings

ROOT = Path(__file__).parents[2]

FIRST_SCAN = """
import sys, deletekit as dk
assert len(dk.scan(dk.load_table(dk.local_catalog(sys.argv[1]), "n.t")).to_arrow()) == 99
"""
CLI = "from deletekit.cli import main; main()"
PROCESSES = {
    "`deletekit --help`": (("-c", CLI, "--help"), 0.15),
    "open a local catalog, scan 100 rows with a vector": (("-c", FIRST_SCAN, "{3}"), 0.5),
    "the same with a position delete file": (("-c", FIRST_SCAN, "{2}"), 0.5),
    "`deletekit inspect --deletes` of the first": (
        ("-c", CLI, "inspect", "n.t", "--deletes", "--warehouse", "{3}"),
        0.4,
    ),
    "beside them: `import pyarrow.parquet, pyiceberg.partitioning`": (
        ("-c", "import pyarrow.parquet, pyiceberg.partitioning"),
        None,
    ),
}
"""Arguments of Python, where `{version}` stands for a warehouse, and the target in seconds."""


def run(settings: Settings) -> str:
    """Whole processes, from their start to their end, by turns; a table of 100 rows."""
    for version in (2, 3):
        _small_table(settings.work / f"start-{version}", version)
    warehouses = {f"{{{version}}}": str(settings.work / f"start-{version}") for version in (2, 3)}
    seconds: dict[str, list[tuple[float, float]]] = {label: [] for label in PROCESSES}
    for number in range(1 + (1 if settings.small else 2 * settings.runs)):
        for label, (arguments, _) in PROCESSES.items():
            took = _process([warehouses.get(a, a) for a in arguments], settings.work)
            seconds[label] += [took] if number else []
    rows = []
    for label, (_, target) in PROCESSES.items():
        walls, used = zip(*seconds[label], strict=True)
        wall, cpu = statistics.median(walls), statistics.median(used)
        judged = [ms(target), verdict(wall, target)] if target else ["", ""]
        rows.append([label, ms(wall), ms(min(walls)), ms(cpu), ms(min(used)), *judged])
    header = [
        "a process, from its start to its end",
        "median",
        "least",
        "processor time, median",
        "least",
        "target",
        "",
    ]
    return table_of(header, rows)


def _process(arguments: list[str], folder: Path) -> tuple[float, float]:
    """Seconds and processor seconds of a process."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    environment = kept | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, used


def _small_table(folder: Path, version: int) -> None:
    import pyarrow as pa  # noqa: PLC0415  # other parts measure what importing takes

    import deletekit as dk  # noqa: PLC0415

    shutil.rmtree(folder, ignore_errors=True)
    rows = pa.table({"id": range(100), "name": [f"n{i}" for i in range(100)]})
    table = dk.create_table(dk.local_catalog(folder), "n.t", rows.schema, format_version=version)
    dk.append(table, rows)
    dk.delete(table, "id = 1", mode="deletion-vector" if version == 3 else "position-delete")
