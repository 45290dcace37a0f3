"""Part `start`: how long `import deletekit` takes, and that it brings neither Spark nor Jupyter."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

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
    return table_of(header, rows)


def import_once(statement: str) -> tuple[float, list[str]]:
    """Seconds that a statement takes in a fresh process, and the top-level modules that are loaded then."""
    command = [sys.executable, "-c", SCRIPT, statement]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    seconds, modules = json.loads(done.stdout)
    return seconds, modules
