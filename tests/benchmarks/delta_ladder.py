"""Part `delta_ladder`: what a sync of one changed file costs, by the files of the Delta table.

The data files are one file under many names, with other bounds each. Every change is of another file, chosen at random,
so that no sync finds warm what the last one wrote.
"""

# ruff: noqa: PLC0415  # the library is imported after the tables are made

import json
import os
import random
import shutil
import statistics
import time
import uuid
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.benchmarks.report import table_of
from tests.benchmarks.settings import Settings

SIZES = (1_000, 10_000, 100_000, 300_000)
ROWS, PER_BIN, MOST_LINKS = 2_000, 100, 40_000
TARGET = 1.5


def run(settings: Settings) -> str:
    """Seconds and opened files of syncs, each after one change, on larger and larger tables."""
    sizes = (200, 1_000) if settings.small else SIZES
    changes = 5 if settings.small else 21
    rows: list[list[str]] = []
    least: dict[str, tuple[float, float]] = {}
    for files in sizes:
        folder = settings.work / "delta_ladder"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, (first, seconds, processor, opened, state) in costs(folder, files, changes).items():
            base = least.setdefault(name, (processor, opened))
            ratios = (processor / base[0], opened / base[1])
            verdict = "met" if max(ratios) <= TARGET else "MISSED"
            times = [f"{first:.1f} s", f"{seconds * 1e3:.0f} ms", f"{processor * 1e3:.0f} ms"]
            figures = [*times, f"{opened:.0f}", f"{state / 1e6:.2f} MB"]
            rows.append([f"{files:,}", name, *figures, *(f"{r:.2f}" for r in ratios), verdict])
        shutil.rmtree(folder)
    measured = ["first sync", "a sync", "its processor time", "files opened", "state"]
    header = ["files", "change", *measured, "processor time to least", "files to least"]
    return table_of([*header, f"target {TARGET}"], rows)


def costs(folder: Path, files: int, changes: int) -> dict[str, tuple[float, float, float, float, int]]:
    """What syncs cost, by the kind of change.

    The seconds of the first sync. Then, as medians of syncs after one change: seconds, seconds of processor time, and
    opened files. Last, the bytes of the state that is written each time.
    """
    import deletekit as dk
    from tests.benchmarks.plan import watch_files
    from tests.delta.handmade import body_of, remove, with_vector

    import_module("polars")  # loaded or not, manifests are decoded in another way
    delta, adds = table_of_files(folder / "table", files)
    catalog = dk.local_catalog(folder / "warehouse")
    begin = time.perf_counter()
    dk.sync_delta(delta.path, catalog, "t.d")
    first = time.perf_counter() - begin
    paths, chance = watch_files(), random.Random(files)

    def vector() -> None:
        at = chance.randrange(files)
        body = body_of(range(at % 7, ROWS, 25))
        new = with_vector(adds[at], {**delta.vector_file(body)[0], "cardinality": len(range(at % 7, ROWS, 25))})
        delta.commit(new, remove(adds[at]))
        adds[at] = new

    def replaced() -> None:
        at = chance.randrange(files)
        new = delta.data(range(ROWS))
        delta.commit(new, remove(adds[at]))
        adds[at] = new

    def appended() -> None:
        delta.commit(delta.data(range(ROWS)))

    out = {}
    kinds: dict[str, Callable[[], None]] = {"a vector": vector, "a file for a file": replaced, "a new file": appended}
    for name, change in kinds.items():
        taken, worked, opened = [], [], []
        for _ in range(changes):
            change()
            paths.clear()
            begin, work = time.perf_counter(), time.process_time()
            dk.sync_delta(delta.path, catalog, "t.d")
            taken.append(time.perf_counter() - begin)
            worked.append(time.process_time() - work)
            opened.append(len(paths))
        state = max(p.stat().st_size for p in folder.rglob("*.state"))
        seconds, processor, files_opened = (statistics.median(values) for values in (taken, worked, opened))
        out[name] = first, seconds, processor, files_opened, state
    return out


def table_of_files(path: Path, files: int) -> tuple[Any, list[Any]]:
    """A Delta table by hand, and the add actions of its files, each with a vector of one row."""
    from tests.delta.handmade import HandMade, body_of, with_vector

    delta, chance = HandMade(path), random.Random(files)
    first = delta.data(range(ROWS), "part.parquet")
    adds = []
    for start in range(0, files, PER_BIN):
        numbers = range(start, min(start + PER_BIN, files))
        bodies = [body_of([n % ROWS]) for n in numbers]
        for number, vector in zip(numbers, delta.vector_file(*bodies), strict=True):
            source = path / f"source-{number // MOST_LINKS}.parquet"
            if not source.exists():
                shutil.copy(path / "part.parquet", source)
            name = f"part-{number:05d}-{uuid.UUID(int=chance.getrandbits(128))}-c000.snappy.parquet"
            os.link(source, path / name)
            low, high = chance.randrange(10**6), 10**6 + chance.randrange(10**6)
            stats = {"numRecords": ROWS, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
            add = {"add": {**first["add"], "path": name, "stats": json.dumps(stats)}}
            adds.append(with_vector(add, {**vector, "cardinality": 1}))
    delta.commit(*adds)
    return delta, adds
