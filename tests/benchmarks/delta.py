"""Part `delta`: what a sync of a Delta table costs, by how much has changed; and a vector too large to be held.

The table is made by hand: its data files are one file under many names, its vectors are in files of a hundred.
"""

# ruff: noqa: PLC0415  # a worker imports what it needs

from __future__ import annotations

import json
import os
import shutil
import statistics
import struct
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.java_program import java_command
from tests.benchmarks.measure import Worker
from tests.benchmarks.report import ms, table_of
from tests.benchmarks.settings import Settings

__all__ = ["open_sync", "run"]

FILES, ROWS, PER_BIN = 10_000, 2_000, 100
LARGE = 100_000_000
TARGET_RATIO = 10
JAVA_RUNS = 12


def run(settings: Settings) -> str:
    """Syncs of a table of many vectors, the work on one vector, and the memory that a large one takes."""
    files = 300 if settings.small else FILES
    large = LARGE // 100 if settings.small else LARGE
    folder = settings.work / "delta"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = syncs(folder / "many", files)
    header = ["sync", "seconds", "`.bin` files", "opened", "Parquet files opened", "vectors written"]
    parts = [
        table_of(header, rows),
        vectors(folder / "java", small=settings.small),
        memory(folder / "large", large, settings),
    ]
    shutil.rmtree(folder)
    return "\n\n".join(parts)


def syncs(folder: Path, files: int) -> list[list[str]]:
    """The first sync, and then ones of few changed files, each timed with what it opened."""
    import deletekit as dk
    from tests.benchmarks.count import watch_files

    delta, adds = _table(folder / "table", files)
    catalog = dk.local_catalog(folder / "warehouse")
    paths = watch_files()
    out = []
    for changed in (None, 1, max(1, files // 100)):
        bins = files // PER_BIN
        if changed is not None:
            bins = _change(delta, adds, changed)
        paths.clear()
        begin = time.perf_counter()
        done = dk.sync_delta(delta.path, catalog, "t.d")
        took = time.perf_counter() - begin
        opened = [sum(p.endswith(end) for p in paths) for end in (".bin", ".parquet")]
        name = f"first, {files:,} files" if changed is None else f"{changed:,} of {files:,} files changed"
        written = len(done.commit.added_delete_files)
        out.append([name, f"{took:.2f} s", f"{bins:,}", *(f"{n:,}" for n in opened), f"{written:,}"])
    return out


def vectors(folder: Path, *, small: bool) -> str:
    """Vectors of some sizes into one Puffin file: checked and copied, decoded and encoded anew, and by Iceberg Java."""
    from deletekit.delta.deletion_vector import DeletionVectorDescriptor, blob_of_frame
    from deletekit.formats.deletion_vector import PositionBitmap, decode_blob, encode_blob

    folder.mkdir()
    java = JavaWriter(folder)
    rows = []
    for count, space, each in ((20, 10_000, 5_000), (1_000, 100_000, 1_000), (100_000, 1_000_000, 50)):
        vectors = each // 50 if small else each
        positions = np.random.default_rng(7).choice(space, count, replace=False)
        frame = encode_blob(PositionBitmap(positions))
        descriptor = DeletionVectorDescriptor(
            storage_type="u", path_or_inline_dv="x" * 20, size_in_bytes=len(frame) - 8, cardinality=count
        )
        file = folder / "ours.puffin"
        copied = _written(file, vectors, lambda f=frame, d=descriptor, s=space: blob_of_frame(f, d, s))
        encoded = _written(file, vectors, lambda f=frame: encode_blob(PositionBitmap(decode_blob(f).to_numpy())))
        theirs = java.seconds(frame, count, vectors)
        verdict = "met" if theirs / copied >= TARGET_RATIO else "MISSED"
        figures = [ms(copied), ms(encoded), ms(theirs), f"{encoded / copied:.1f}", f"**{theirs / copied:.1f}**"]
        rows.append([f"{vectors:,} of {count:,} rows of {space:,}", *figures, verdict])
    header = ["vectors", "checked and copied", "decoded, encoded", "Iceberg Java", "to ours", "to Java", "target 10"]
    return table_of(header, rows)


class JavaWriter:
    """java/VectorWriter.java."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = java_command("VectorWriter", folder)

    def seconds(self, blob: bytes, cardinality: int, vectors: int) -> float:
        """Of a vector, once Java is warm."""
        file = self._folder / "blob"
        file.write_bytes(blob)
        arguments = [file, cardinality, vectors, JAVA_RUNS, self._folder]
        done = subprocess.run([*self._command, *map(str, arguments)], check=True, capture_output=True, text=True)
        return float(done.stdout.split()[-1])


def _written(file: Path, vectors: int, blob_of: Callable[[], bytes]) -> float:
    """Seconds of a vector among so many in one Puffin file."""
    from deletekit.formats.puffin import Blob, write_puffin

    def write() -> None:
        blobs = [
            Blob(
                type="deletion-vector-v1",
                data=blob_of(),
                fields=(2147483645,),
                properties={"referenced-data-file": f"part-{n}.parquet", "cardinality": "1"},
            )
            for n in range(vectors)
        ]
        file.write_bytes(write_puffin(blobs)[0])

    return _seconds(write) / vectors


def memory(folder: Path, large: int, settings: Settings) -> str:
    """Peak memory of a sync of one vector, to format version 2 and 3."""
    rows = []
    for version in (2, 3):
        delta = _large(folder / f"v{version}", large)
        worker = Worker("tests.benchmarks.delta:open_sync", seconds=max(settings.seconds, 300))
        job = {"path": str(delta), "warehouse": str(folder / f"warehouse{version}"), "version": version}
        try:
            took, facts, peak = worker.run_with_memory(job)
        finally:
            worker.stop()
        shown = "" if peak is None else f"{peak / 1e6:,.0f} MB"
        rows.append([f"v{version}", f"{facts['deleted']:,}", f"{took:.1f} s", shown, f"{facts['bytes'] / 1e6:,.1f} MB"])
    return table_of(["one vector", "rows deleted", "seconds", "peak memory", "written"], rows)


def open_sync() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """In the worker: a sync."""
    import deletekit as dk

    catalogs = []

    def sync(job: dict[str, Any]) -> dict[str, Any]:
        catalogs.append(dk.local_catalog(job["warehouse"]))
        done = dk.sync_delta(job["path"], catalogs[-1], "t.d", format_version=job["version"]).commit
        files = done.added_delete_files
        return {"deleted": sum(f.record_count for f in files), "bytes": sum(f.file_size_in_bytes for f in files)}

    return sync


def _table(path: Path, files: int) -> tuple[Any, list[Any]]:
    from tests.delta.handmade import HandMade, body_of, with_vector

    delta = HandMade(path)
    first = delta.data(range(ROWS), "part-0.parquet")
    adds = []
    for start in range(0, files, PER_BIN):
        numbers = range(start, min(start + PER_BIN, files))
        bodies = [body_of(range(n % 50, ROWS, 50)) for n in numbers]
        for number, vector in zip(numbers, delta.vector_file(*bodies), strict=True):
            name = f"part-{number}.parquet"
            if number:
                os.link(path / "part-0.parquet", path / name)
            add = {"add": {**first["add"], "path": name}}
            adds.append(with_vector(add, {**vector, "cardinality": ROWS // 50}))
    delta.commit(*adds)
    return delta, adds


def _change(delta: Any, adds: list[Any], changed: int) -> int:
    """New vectors for the first files; how many files they are in."""
    from tests.delta.handmade import body_of, remove, with_vector

    vectors = delta.vector_file(*(body_of(range(n % 50, ROWS, 25)) for n in range(changed)))
    actions = []
    for n, vector in enumerate(vectors):
        new = with_vector(adds[n], {**vector, "cardinality": len(range(n % 50, ROWS, 25))})
        actions += [new, remove(adds[n])]
        adds[n] = new
    delta.commit(*actions)
    return 1


def _large(path: Path, deleted: int) -> Path:
    """A table of one file whose every other row is deleted."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyroaring import BitMap

    from tests.delta.handmade import HandMade

    delta = HandMade(path)
    bitmap = BitMap(range(0, 2 * deleted, 2)).serialize()
    body = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    vector = {**delta.vector_file(body)[0], "cardinality": deleted}
    assert zlib.crc32(body)
    file, schema = path / "nulls.parquet", pa.schema([("id", pa.int64())])
    with pq.ParquetWriter(file, schema) as writer:
        for start in range(0, 2 * deleted, 10_000_000):
            rows = min(10_000_000, 2 * deleted - start)
            writer.write_table(pa.table([pa.nulls(rows, pa.int64())], schema), row_group_size=rows)
    stats, size = json.dumps({"numRecords": 2 * deleted}), file.stat().st_size
    add = {"path": file.name, "partitionValues": {}, "size": size, "dataChange": True, "stats": stats}
    delta.commit({"add": {**add, "deletionVector": vector}})
    return path


def _seconds(work: Callable[[], Any]) -> float:
    """Median of one call."""
    work()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
