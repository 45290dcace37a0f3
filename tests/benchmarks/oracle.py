"""Part `oracle`: millions of changes through a sink, equal to what DuckDB folds them to, read by deletekit and Spark.

The changes are Parquet files made of a seed. DuckDB takes the last change of each key by its sequence, and knows
nothing of the table. What deletekit and Iceberg in Spark read is written to Parquet again, and DuckDB compares it.
"""

# ruff: noqa: PLC0415  # imported in the worker alone

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Stopped, Worker
from tests.benchmarks.readers import Facts
from tests.benchmarks.report import megabytes, ms, table_of
from tests.benchmarks.settings import Settings

__all__ = ["open_oracle", "run"]

SECONDS = 6 * 3600
BATCHES = 100
NAME = "test.oracle"


def run(settings: Settings) -> str:
    """Make the changes, apply them, fold them, read the table twice, and compare: each in a process of its own."""
    folder = settings.work / "oracle"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    batches = 10 if settings.small else BATCHES
    job = {"folder": str(folder), "rows": settings.rows // batches * batches, "batches": batches}
    rows: list[list[str]] = []
    for part in PARTS if settings.peers else list(PARTS)[:-1]:  # Spark is a peer
        worker = Worker("tests.benchmarks.oracle:open_oracle", part, seconds=SECONDS)
        try:
            seconds, facts, peak = worker.run_with_memory(job)
            rows.append([PARTS[part], ms(seconds), megabytes(peak), facts["what"], facts.get("verdict", "")])
        except Stopped as stopped:
            rows.append([PARTS[part], str(stopped), "", stopped.why, "MISSED"])
        finally:
            worker.stop()
        settings.say(f"oracle {rows[-1]}")
    about = f"{job['rows']:,} changes of {job['rows'] // 4:,} keys in {batches} batches, in no order within a batch."
    shutil.rmtree(folder)
    return f"{about}\n\n{table_of(['what', 'time', 'peak memory', 'found', ''], rows)}"


PARTS = {
    "make": "changes made",
    "apply": "applied by the sink",
    "fold": "folded by DuckDB",
    "read": "read by deletekit, compared",
    "spark": "read by Spark's Iceberg, compared",
}


def open_oracle(part: str) -> Callable[[dict[str, Any]], Facts]:
    """In the worker: one part."""
    steps: dict[str, Callable[[Path, dict[str, Any]], Facts]] = {
        "make": _make,
        "apply": _apply,
        "fold": _fold,
        "read": _read,
        "spark": _spark,
    }
    return lambda job: steps[part](Path(job["folder"]), job)


def _make(folder: Path, job: dict[str, Any]) -> Facts:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "changes").mkdir()
    size = job["rows"] // job["batches"]
    kinds = pa.array(["INSERT", "UPDATE_AFTER", "DELETE"])
    names = pa.array([f"name {number:04d}" for number in range(1000)])
    for number in range(job["batches"]):
        random = np.random.default_rng(number)
        ids = random.integers(0, max(job["rows"] // 4, 1), size)
        columns = {
            "id": pa.array(ids),
            "name": names.take(pa.array(random.integers(0, 1000, size))),
            "amount": pa.array(random.integers(-(10**9), 10**9, size)),
            "_change_type": kinds.take(pa.array(random.choice(3, size, p=[0.5, 0.3, 0.2]))),
            "_at": pa.array(number * size + random.permutation(size)),
        }
        pq.write_table(pa.table(columns), folder / "changes" / f"{number:06d}.parquet")
    return {"what": f"{job['rows']:,} changes"}


def _apply(folder: Path, job: dict[str, Any]) -> Facts:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import deletekit as dk

    del job
    schema = pa.schema({"id": pa.int64(), "name": pa.string(), "amount": pa.int64()})
    table = dk.create_table(dk.local_catalog(folder / "wh"), NAME, schema, format_version=3)
    with dk.stream.sink(table, "oracle", equality_fields=["id"], order="_at") as sink:
        for number, path in enumerate(sorted((folder / "changes").iterdir())):
            sink.write(pq.read_table(path), number, ordered=False)
    return {"what": f"{len(table.refresh().metadata.snapshots)} snapshots"}


def _fold(folder: Path, job: dict[str, Any]) -> Facts:
    import duckdb

    del job
    fold = f"""COPY (
        SELECT id, last.name AS name, last.amount AS amount FROM (
            SELECT id, arg_max({{'name': name, 'amount': amount, 'kind': _change_type}}, _at) AS last
            FROM read_parquet('{folder}/changes/*.parquet') GROUP BY id)
        WHERE last.kind <> 'DELETE') TO '{folder}/folded.parquet'"""
    with duckdb.connect() as db:
        db.execute(fold)
        ((count,),) = db.execute(f"SELECT count(*) FROM '{folder}/folded.parquet'").fetchall()
    return {"what": f"{count:,} rows"}


def _read(folder: Path, job: dict[str, Any]) -> Facts:
    import pyarrow.parquet as pq

    import deletekit as dk

    del job
    out = folder / "deletekit"
    out.mkdir()
    table = dk.load_table(dk.local_catalog(folder / "wh"), NAME)
    reader = dk.scan(table).to_batches()
    with pq.ParquetWriter(out / "rows.parquet", table_schema(table)) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return compared(folder, f"{out}/*.parquet")


def table_schema(table: Any) -> Any:
    """The Arrow schema of what a scan gives."""
    import deletekit as dk

    return dk.scan(table, where="id < 0").to_arrow().schema


def _spark(folder: Path, job: dict[str, Any]) -> Facts:
    from deletekit.spark import sessions

    del job
    spark = sessions.session(folder / "wh", settings={"spark.sql.shuffle.partitions": "2"})
    out = folder / "spark"
    try:
        spark.table(f"local.{NAME}").write.parquet(str(out))
    finally:
        spark.stop()
    return compared(folder, f"{out}/*.parquet")


def compared(folder: Path, theirs: str) -> Facts:
    """Compare all rows with the folded ones: counts, sums, and what either has and the other has not."""
    import duckdb

    sums = "count(*), count(DISTINCT id), sum(id)::VARCHAR, sum(amount)::VARCHAR, sum(length(name))::VARCHAR"
    with duckdb.connect() as db:
        found, folded = (
            db.execute(f"SELECT {sums} FROM '{files}'").fetchone() for files in (theirs, f"{folder}/folded.parquet")
        )
        differing = 0
        for left, right in ((theirs, f"{folder}/folded.parquet"), (f"{folder}/folded.parquet", theirs)):
            same = "l.id = r.id AND l.name IS NOT DISTINCT FROM r.name AND l.amount IS NOT DISTINCT FROM r.amount"
            query = f"SELECT count(*) FROM '{left}' l ANTI JOIN '{right}' r ON {same}"
            differing += db.execute(query).fetchall()[0][0]
    assert found is not None
    equal = found == folded and differing == 0
    sums = "equal" if found == folded else "DIFFER"
    return {
        "what": f"{found[0]:,} rows, {found[1]:,} keys, {differing:,} that differ, sums {sums}",
        "verdict": "met" if equal else "MISSED",
    }
