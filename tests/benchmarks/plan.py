"""Part `plan`: planning scans of tables with many files, beside Iceberg Java, polars and pyiceberg."""

# ruff: noqa: PLC0415  # each engine is imported in its own process alone

import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.java_program import java_command
from tests.benchmarks.measure import Cell, Worker, in_turns
from tests.benchmarks.planning_tables import FILES_PER_GROUP, build, location_of
from tests.benchmarks.readers import Facts, Job
from tests.benchmarks.report import ms, notes_of, table_of, verdict
from tests.benchmarks.settings import Settings

FILES = 50_000
MANIFESTS = 20
SCALES = (10_000, 100_000, 1_000_000)
TIMES_JAVA = 1.2
FLAT = 1.5
"""How much dearer an entry may be in the largest table than in the one of 100,000 for the cost to be flat."""
BYTES_PER_ENTRY = 500
FILTERED_GROUP = 3
FILTER = f"grp = {FILTERED_GROUP}"
COLD_PROCESSES = 3


def run(settings: Settings) -> str:
    """The three tables of the part."""
    return "\n\n".join([beside_peers(settings), by_scale(settings), filtered(settings)])


def beside_peers(settings: Settings) -> str:
    """50,000 data files and as many vectors: each planner's first run in fresh processes, and its runs when warm."""
    files = _files(settings, FILES)
    job = _job(settings, files)
    engines = ["deletekit", *(name for name in PLANNERS if name in settings.peers)]
    workers: dict[str, Callable[[], Worker]] = {e: partial(_worker, e, job, settings) for e in engines}
    check = partial(_check, files)
    warm = in_turns(workers, job, runs=settings.runs, check=check, warm_ups=_warm_ups, say=settings.say)
    cold: dict[str, list[tuple[float, float]]] = {}
    for name in (name for name, cell in warm.items() if not cell.verdict):
        first = [in_turns({name: workers[name]}, job, runs=0, check=check)[name] for _ in range(COLD_PROCESSES)]
        cold[name] = [(c.first_seconds, c.facts["cpu"]) for c in first if c.first_seconds is not None]
    figures = {name: _figures(cell, cold.get(name, [])) for name, cell in warm.items()}
    java = figures.get("Spark", [None] * 4)
    rows = []
    for name, found in figures.items():
        cells = [part for mine, theirs in zip(found, java, strict=True) for part in (ms(mine), _ratio(mine, theirs))]
        cells[0] = warm[name].verdict or cells[0]
        beside = [mine and theirs and mine / theirs for mine, theirs in zip(found, java, strict=True)]
        judged = [
            verdict(ratio, target) if name == "deletekit" and ratio else ""
            for ratio, target in zip(beside, (TIMES_JAVA, TIMES_JAVA, 1, 1), strict=True)
        ]
        rows.append([NAMES[name], *cells, *judged])
        settings.say(f"plan {rows[-1]}")
    times = ("warm", "processor time", "first run", "processor time")
    targets = [f"{TIMES_JAVA} times Java, warm", "in processor time", "ahead, first run", "in processor time"]
    header = ["planner", *(part for time in times for part in (time, "to Java")), *targets]
    about = (
        f"{files:,} data files and as many DVs in {MANIFESTS} manifests; from the metadata file to the last task. "
        "Processor time is of all threads, in Java with compiler and collector."
    )
    return "\n\n".join(part for part in (about, table_of(header, rows), notes_of({"plan": warm})) if part)


def _figures(warm: Cell, cold: list[tuple[float, float]]) -> list[float | None]:
    """Medians: seconds and processor seconds of warm runs, and of first runs."""
    if warm.verdict or not warm.cpu or not cold:
        return [warm.median, None, None, None]
    first, used = zip(*cold, strict=True)
    return [warm.median, *map(statistics.median, (warm.cpu, first, used))]


def by_scale(settings: Settings) -> str:
    """deletekit's cost per entry: time, and the peak of memory in a fresh process."""
    rows, costs, memory = [], [], []
    for entries in SCALES:
        files = _files(settings, entries // 2)
        job = _job(settings, files)
        cell = in_turns({"deletekit": partial(_worker, "deletekit", job, settings)}, job, runs=settings.runs)[
            "deletekit"
        ]
        costs.append((cell.median or 0.0) / (2 * files))
        memory.append((cell.peak_bytes or 0) / (2 * files))
        figures = [cell.verdict or ms(cell.median), f"{costs[-1] * 1e6:.2f} µs", f"{memory[-1]:,.0f}"]
        rows.append([f"{2 * files:,}", *figures, verdict(memory[-1] or None, BYTES_PER_ENTRY)])
        settings.say(f"plan scale {rows[-1]}")
    flat = costs[2] / costs[1] if costs[1] else None
    about = (
        f"An entry of {rows[2][0]} costs {flat or 0:.2f} times one of {rows[1][0]} "
        f"(flat: at most {FLAT}): {verdict(flat or None, FLAT)}."
    )
    header = ["entries", "plan", "an entry", "peak bytes an entry", f"target {BYTES_PER_ENTRY:,} bytes"]
    return f"{table_of(header, rows)}\n\n{about}"


def filtered(settings: Settings) -> str:
    """With a partition filter, the files that planning reads."""
    files = _files(settings, FILES)
    job = _job(settings, files)
    worker = Worker("tests.benchmarks.plan:watched_plan", seconds=settings.seconds)
    try:
        whole, part = (worker.run(job | {"where": where})[1] for where in (None, FILTER))
    finally:
        worker.stop()
    rows = [
        [f"`{where}`" if where else "none", f"{f['tasks']:,}", str(f["manifests"]), f"{f['bytes']:,}"]
        for where, f in ((None, whole), (FILTER, part))
    ]
    files_each = files // (MANIFESTS // 2)
    first, last = FILTERED_GROUP * FILES_PER_GROUP, (FILTERED_GROUP + 1) * FILES_PER_GROUP - 1
    matching = 2 * (last // files_each - first // files_each + 1)
    judged = "met" if part["manifests"] == matching and part["tasks"] == FILES_PER_GROUP else "MISSED"
    about = f"Only the {matching} matching manifests, half of data and half of deletes, are read: {judged}."
    return f"{table_of(['filter', 'tasks', 'manifests read', 'bytes read'], rows)}\n\n{about}"


def watched_plan() -> Callable[[Job], Facts]:
    """In the worker: a plan, and the manifests read for it."""
    import deletekit as dk

    paths = watch_files()

    def plan(job: Job) -> Facts:
        paths.clear()
        before = bytes_read()
        tasks = dk.scan(dk.from_metadata(job["location"]), job["where"]).plan()
        manifests = [path for path in paths if path.endswith("-m0.avro")]
        return {"tasks": len(tasks), "manifests": len(manifests), "bytes": bytes_read() - before}

    return plan


def watch_files() -> set[str]:
    """From now on, the paths that deletekit's storage opens or reads in this process."""
    from deletekit.table.file_io import PyIcebergIO

    paths: set[str] = set()

    def noting(method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: PyIcebergIO, path: str, *arguments: Any, **named: Any) -> Any:
            paths.add(path.removeprefix("file://"))
            return method(self, path, *arguments, **named)

        return noted

    for name in ("open", "read"):
        setattr(PyIcebergIO, name, noting(getattr(PyIcebergIO, name)))
    return paths


def bytes_read() -> int:
    """Bytes this process has read so far by any call but a memory map's; 0 where there is no /proc."""
    try:
        return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0


def _deletekit(job: Job) -> Callable[[Job], Facts]:
    import deletekit as dk

    _ = dk.scan, dk.from_metadata  # imported when first named
    del job

    def plan(job: Job) -> Facts:
        files = deletes = 0
        for task in dk.scan(dk.from_metadata(job["location"])).plan():
            files += 1
            deletes += len(task.delete_files)
        return {"files": files, "deletes": deletes}

    return plan


def _java(job: Job) -> Callable[[Job], Facts]:
    """java/PlanFiles.java in a process of its own: no session of Spark is needed to plan."""
    command = java_command("PlanFiles", Path(job["folder"]).parents[2] / "java")
    java = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert java.stdin is not None
    assert java.stdout is not None
    lines, answers = java.stdin, java.stdout
    names = ("files", "deletes", "seconds", "cpu", "threads")

    def plan(job: Job) -> Facts:
        print(job["location"], file=lines, flush=True)
        answer = next(line for line in answers if line.startswith("PLANNED ")).split()[1:6]
        return {
            name: kind(found) for name, kind, found in zip(names, (int, int, float, float, float), answer, strict=True)
        }

    return plan


def _polars(job: Job) -> Callable[[Job], Facts]:
    import polars as pl

    del job

    def plan(job: Job) -> Facts:
        shown = pl.scan_iceberg(job["location"]).explain()
        return {"files": int(shown.partition("... ")[2].partition(" ")[0] or 0) + 1}

    return plan


def _pyiceberg(job: Job) -> Callable[[Job], Facts]:
    from pyiceberg.table import StaticTable

    del job

    def plan(job: Job) -> Facts:
        return {"files": len(list(StaticTable.from_metadata(job["location"]).scan().plan_files()))}

    return plan


PLANNERS = {"deletekit": _deletekit, "Spark": _java, "polars": _polars, "pyiceberg": _pyiceberg}
NAMES = {"Spark": "Iceberg Java planFiles", "deletekit": "deletekit", "polars": "polars", "pyiceberg": "pyiceberg"}


def open_planner(name: str, job: Job) -> Callable[[Job], Facts]:
    """In the worker: the engine's planning, and the processor time that it takes."""
    plan = PLANNERS[name](job)

    def timed(job: Job) -> Facts:
        before = time.process_time()
        facts = plan(job)
        return {"cpu": time.process_time() - before} | facts

    return timed


def _worker(engine: str, job: Job, settings: Settings) -> Worker:
    return Worker("tests.benchmarks.plan:open_planner", engine, job, seconds=settings.seconds)


def _warm_ups(engine: str) -> int:
    return 10 if engine == "Spark" else 2


def _check(files: int, _: str, facts: Facts) -> str | None:
    wrong = {name: found for name, found in facts.items() if name in ("files", "deletes") and found != files}
    return f"{wrong}, not {files}" if wrong else None


def _files(settings: Settings, files: int) -> int:
    return max(files // 100, MANIFESTS) if settings.small else files


def _job(settings: Settings, files: int) -> dict[str, Any]:
    """The table of that many files, built once."""
    root = settings.work / f"plan-{files}"
    folder = Path(location_of(root))
    location = folder / "metadata" / "v1.metadata.json"
    if not location.exists():
        build(_empty(root), files, MANIFESTS)
        settings.say(f"planning table of {files:,} files built")
    return {"location": str(location), "folder": str(folder)}


def _empty(folder: Path) -> Path:
    """Without what a build that was interrupted left there."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _ratio(seconds: float | None, java: float | None) -> str:
    return f"**{seconds / java:.2f}**" if seconds and java else ""
