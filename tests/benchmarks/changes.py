"""Part `changes`: a stream of changes, its promotion, looking keys up, and an upsert beside pyiceberg's."""

# ruff: noqa: PLC0415  # imported in the worker alone

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks.measure import Stopped, Worker
from tests.benchmarks.readers import Facts
from tests.benchmarks.report import megabytes, ms, table_of, verdict
from tests.benchmarks.settings import Settings

__all__ = ["open_changes", "run"]

FILE_ROWS = 1_000_000
SECONDS = 560


def run(settings: Settings) -> str:
    """Each line in a process of its own."""
    size = {
        "rows": settings.rows // 2,
        "batch": 100 if settings.small else 10_000,
        "batches": 20 if settings.small else 100,
        "work": str(settings.work),
    }
    upsert = {"keys": settings.rows // 20, "theirs": 100 if settings.small else 10_000}
    rows: list[list[str]] = []
    settings.work.mkdir(parents=True, exist_ok=True)
    for part in ("integers", "texts", "promote", "lookup", "upsert"):
        worker = Worker("tests.benchmarks.changes:open_changes", part, seconds=SECONDS)
        try:
            _, facts, peak = worker.run_with_memory({**size, **upsert})
            rows += _lines(part, facts, peak)
        except Stopped as stopped:
            rows.append([part, str(stopped), "", "", "MISSED"])
        finally:
            worker.stop()
        settings.say(f"changes {rows[-1]}")
    header = ["what", "found", "to", "ratio (target)", ""]
    about = (
        f"{size['rows']:,} keys in files of {FILE_ROWS:,} rows; {size['batches']} batches of {size['batch']:,} changes"
    )
    return f"{about}: half updates, 3 in 10 inserts, 2 in 10 deletes.\n\n{table_of(header, rows)}"


def _lines(part: str, facts: Facts, peak: int | None) -> list[list[str]]:
    def line(what: str, found: float, to: float, target: float) -> list[str]:
        ratio = found / to
        return [what, ms(found), ms(to), f"**{ratio:.2f}** ({target})", verdict(ratio, target)]

    if part in ("integers", "texts"):
        memory = f"{facts['bytes_a_row']:.1f} bytes a row"
        return [
            line(f"last ten batches to the first ten, keys {part}", facts["last"], facts["first"], 1.5),
            [f"index, keys {part}", memory, "", f"peak of all {megabytes(peak)}", ""],
            line(
                f"scan after the batches to one after compaction, keys {part}", facts["scan"], facts["compacted"], 1.3
            ),
        ]
    if part == "promote":
        left = f"{facts['equality']} equality deletes, {facts['vectors']} vectors for {facts['files']} files"
        kept = facts["equality"] == 0 and facts["most"] <= 1
        return [["promotion of all batches", ms(facts["promote"]), "", left, "met" if kept else "MISSED"]]
    if part == "lookup":
        keys = f"{facts['keys']:,} keys among {facts['rows']:,}"
        return [line(f"{keys}, to numpy's sort and search", facts["find"], facts["numpy"], 10)]
    ratio = facts["theirs_a_key"] / facts["ours_a_key"]
    shown = f"**{ratio:.1f}** times as fast a key (20)"
    keys = f"upsert of {facts['keys']:,} keys, to pyiceberg's of {facts['their_keys']:,}"
    return [[keys, ms(facts["ours"]), ms(facts["theirs"]), shown, "met" if ratio >= 20 else "MISSED"]]


def open_changes(part: str) -> Callable[[dict[str, Any]], Facts]:
    """In the worker: one part."""

    def measure(job: dict[str, Any]) -> Facts:
        with tempfile.TemporaryDirectory(dir=job["work"]) as folder:
            if part == "lookup":
                return _lookup(job["rows"] * 2, job["keys"])
            if part == "upsert":
                return _upsert(folder, job)
            return _promote(folder, job) if part == "promote" else _batches(folder, job, texts=part == "texts")

    return measure


def _batches(folder: str, job: dict[str, Any], *, texts: bool) -> Facts:
    import deletekit as dk

    table = _table(folder, job["rows"], texts=texts)
    times = []
    with dk.stream.sink(table, "benchmark", equality_fields=["id"]) as sink:
        for number in range(job["batches"] + 1):  # the first one builds the index
            changes = _changes(number, job, texts=texts)
            begin = time.perf_counter()
            progress = sink.write(changes, number)
            times.append(time.perf_counter() - begin)
    scan = _scan(table)
    dk.compact(table, rewrite_all=True)
    return {
        "first": statistics.median(times[1:11]),
        "last": statistics.median(times[-10:]),
        "bytes_a_row": progress.index_bytes / progress.index_rows,
        "scan": scan,
        "compacted": _scan(table),
    }


def _promote(folder: str, job: dict[str, Any]) -> Facts:
    import deletekit as dk

    table = _table(folder, job["rows"], texts=False)
    dk.create_branch(table, "ingestion")
    with dk.stream.sink(table, "benchmark", equality_fields=["id"], mode="eq-only", ref="ingestion") as sink:
        for number in range(job["batches"]):
            sink.write(_changes(number, job, texts=False), number)
    begin = time.perf_counter()
    dk.stream.promote(table, "ingestion", equality_fields=["id"])
    took = time.perf_counter() - begin
    entries = [e["data_file"] for m in dk.inspect(table)["manifests"] for e in m["entries"] if e["status"] != 2]
    vectors = [f["referenced_data_file"] for f in entries if f["content"] == 1]
    return {
        "promote": took,
        "equality": sum(f["content"] == 2 for f in entries),
        "vectors": len(vectors),
        "most": max(map(vectors.count, vectors), default=0),
        "files": sum(f["content"] == 0 for f in entries),
    }


def _lookup(rows: int, keys: int) -> Facts:
    import numpy as np

    from deletekit.stream.key_hashes import KeyHashes
    from deletekit.stream.key_index import IndexRows, Run, new_run, pack, with_run
    from deletekit.stream.saved_index import find_in_runs

    def of(low: Any) -> KeyHashes:
        return KeyHashes(low, None, np.zeros(len(low), np.bool_))

    random = np.random.default_rng(0)
    runs: list[Run] = []
    all_hashes = []
    for number in range(max(rows // FILE_ROWS, 1)):
        hashes = of(random.integers(0, 2**63, min(rows, FILE_ROWS)).astype(np.uint64))
        places = pack(number, np.arange(len(hashes)), hashes.is_null)
        runs = with_run(runs, new_run([IndexRows(hashes, places)], (), wide=False), np.ones(1, np.bool_))
        all_hashes.append(hashes.low)
    whole = np.sort(np.concatenate(all_hashes))
    asked = random.choice(whole, keys)
    finds, searches = [], []
    for _ in range(3):
        begin = time.perf_counter()
        found = find_in_runs(runs, of(asked))
        finds.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        np.searchsorted(whole, np.sort(asked))
        searches.append(time.perf_counter() - begin)
    assert len(found) >= keys
    return {
        "find": statistics.median(finds),
        "numpy": statistics.median(searches),
        "keys": keys,
        "rows": sum(map(len, runs)),
    }


def _upsert(folder: str, job: dict[str, Any]) -> Facts:
    """Half of the keys are there. pyiceberg's takes far longer for a key when there are more, so it gets fewer."""
    import numpy as np
    import pyarrow as pa

    import deletekit as dk

    def rows(keys: int) -> Any:
        ids = np.arange(keys) + job["keys"] - keys // 2
        return pa.table({"id": ids, "value": np.ones(keys), "name": pa.array(["new"] * keys)})

    table = _table(folder, job["keys"], texts=False, version=2)
    with dk.stream.sink(table, "benchmark", equality_fields=["id"], change_type=None) as sink:
        begin = time.perf_counter()
        sink.write(rows(job["keys"]), 0)
        ours = time.perf_counter() - begin
    other = _table(folder, job["keys"], texts=False, version=2, name="b.theirs")
    peer = other.catalog.pyiceberg.load_table("b.theirs")  # type: ignore[union-attr]
    begin = time.perf_counter()
    peer.upsert(rows(job["theirs"]).cast(peer.schema().as_arrow()), join_cols=["id"])
    theirs = time.perf_counter() - begin
    return {
        "ours": ours,
        "theirs": theirs,
        "ours_a_key": ours / job["keys"],
        "theirs_a_key": theirs / job["theirs"],
        "keys": job["keys"],
        "their_keys": job["theirs"],
    }


def _table(folder: str, rows: int, *, texts: bool, version: int = 3, name: str = "b.t") -> Any:
    import numpy as np
    import pyarrow as pa

    import deletekit as dk

    catalog = dk.local_catalog(folder)
    schema = pa.schema([("id", pa.string() if texts else pa.int64()), ("value", pa.float64()), ("name", pa.string())])
    table = dk.create_table(catalog, name, schema, format_version=version)
    for start in range(0, rows, FILE_ROWS):
        ids = np.arange(start, min(rows, start + FILE_ROWS))
        columns = [_keys(ids, texts=texts), np.zeros(len(ids)), pa.array(["x"] * len(ids))]
        dk.append(table, pa.Table.from_arrays([pa.array(c) for c in columns], schema=schema))
    return table


def _changes(number: int, job: dict[str, Any], *, texts: bool) -> Any:
    import numpy as np
    import pyarrow as pa

    random, size = np.random.default_rng(number), job["batch"]
    updated, inserted = (
        random.integers(0, job["rows"], size // 2),
        job["rows"] + np.arange(3 * size // 10) * 101 + number,
    )
    deleted = random.integers(0, job["rows"], size - len(updated) - len(inserted))
    parts = {"UPDATE_AFTER": updated, "INSERT": inserted, "DELETE": deleted}
    return pa.table(
        {
            "id": _keys(np.concatenate(list(parts.values())), texts=texts),
            "value": random.random(size),
            "name": pa.array(["y"] * size),
            "_change_type": np.repeat(list(parts), [len(p) for p in parts.values()]),
        }
    )


def _keys(ids: Any, *, texts: bool) -> Any:
    import pyarrow as pa

    return pa.array([f"customer-{i:012d}" for i in ids.tolist()]) if texts else pa.array(ids)


def _scan(table: Any) -> float:
    import deletekit as dk

    times = []
    for _ in range(4):
        begin = time.perf_counter()
        dk.scan(table).to_arrow()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])
