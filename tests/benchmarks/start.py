"""Part `start`: how long `import deletekit` and first commands take, and that no Spark or Jupyter is imported."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

import deletekit as dk
from tests.benchmarks.report import ms, table_of, verdict
from tests.benchmarks.settings import Settings

__all__ = ["NEVER", "import_once", "run"]

TARGET_SECONDS = 0.3
NEVER = ("pyspark", "py4j", "IPython", "ipykernel", "ipywidgets", "anywidget", "jupyterlab", "notebook")
STATEMENTS = {
    "import deletekit": "import deletekit",
    "and its reading verbs": "import deletekit as dk; dk.scan, dk.from_metadata, dk.load_table",
    "and every public name": "import deletekit as dk; [getattr(dk, name) for name in dk.__all__]",
}
FIRST_SCAN = """
import sys, deletekit as dk
assert len(dk.scan(dk.load_table(dk.local_catalog(sys.argv[1]), sys.argv[2])).to_arrow()) == 99
"""
CLI = "from deletekit.cli import main; main()"
LEAST_IMPORTS = "import pyarrow.parquet, pyiceberg.partitioning"
ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys, time
begin = time.perf_counter()
exec(sys.argv[1])
print(json.dumps([time.perf_counter() - begin, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def run(settings: Settings) -> str:
    """Seconds of each, the median of fresh processes; only the first has a target."""
    times: dict[str, list[float]] = {label: [] for label in STATEMENTS}
    loaded: dict[str, set[str]] = {}
    processes = 1 if settings.small else 2 * settings.runs
    for number in range(processes + 1):
        for label, statement in STATEMENTS.items():
            seconds, modules = import_once(statement)
            loaded[label] = set(modules) & set(NEVER)
            if number:
                times[label].append(seconds)
    rows = []
    for label, seconds in times.items():
        median = statistics.median(seconds)
        kept = verdict(median, TARGET_SECONDS) if not rows else ""
        rows.append([label, ms(median), kept, ", ".join(sorted(loaded[label])) or "none"])
    header = ["statement", f"median of {processes}", f"target {ms(TARGET_SECONDS)}", f"of {', '.join(NEVER)}"]
    return "\n\n".join([table_of(header, rows), processes_of(processes)])


def processes_of(runs: int) -> str:
    """Whole processes that look at small tables, each the median of as many."""
    with TemporaryDirectory() as folder:
        for name, version, mode in (("n.old", 2, "position-delete"), ("n.t", 3, "deletion-vector")):
            schema = pa.schema([("id", pa.int64())])
            table = dk.create_table(dk.local_catalog(folder), name, schema, format_version=version)
            dk.append(table, pa.table({"id": range(100)}))
            dk.delete(table, "id = 7", mode=mode)
        commands = {
            "`deletekit --help`": (["-c", CLI, "--help"], 0.15),
            "open a local catalog, scan 100 rows with a vector": (["-c", FIRST_SCAN, folder, "n.t"], 0.5),
            "the same with a position delete file": (["-c", FIRST_SCAN, folder, "n.old"], 0.5),
            "`deletekit inspect --deletes` of the first": (["-c", CLI, "inspect", table.location, "--deletes"], 0.4),
            "beside them: `import pyarrow.parquet, pyiceberg.partitioning`": (["-c", LEAST_IMPORTS], None),
        }
        rows = []
        for label, (arguments, target) in commands.items():
            seconds = sorted(_process(arguments) for _ in range(runs + 1))
            judged = [ms(target), verdict(statistics.median(seconds), target)] if target else ["", ""]
            rows.append([label, ms(statistics.median(seconds)), ms(seconds[0]), *judged])
    return table_of(["a process, from its start to its end", "median", "least", "target", ""], rows)


def _process(arguments: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=True)
    return time.perf_counter() - begin


def import_once(statement: str) -> tuple[float, list[str]]:
    """Seconds that a statement takes in a fresh process, and the top-level modules that are loaded then."""
    command = [sys.executable, "-c", SCRIPT, statement]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, modules = json.loads(done.stdout)
    return seconds, modules
