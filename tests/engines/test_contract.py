"""One contract: every verb does the same on every engine. Equal rows, equal files up to their names, equal summaries.

Spark with Iceberg's Java runtime reads what came of it on the Spark engine.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from deletekit.spark.engine import SparkEngine
from tests.interop.rows import same_rows
from tests.invariants import check_table
from tests.optional_types import SparkSession
from tests.stored import entries, head_json, parquet
from tests.tables import VERSION_AND_MODE, Row, live, make

GROUPS = 2
OF_NAMES = (
    "file_path",
    "file_size_in_bytes",
    "column_sizes",
    "content_offset",
    "content_size_in_bytes",
    "split_offsets",
)
"""What of a file depends on its name, or on the length of the names in it."""
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("category", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
    ]
)


def rows(start: int, stop: int) -> list[Row]:
    return [
        {"id": i, "category": None if i % 11 == 0 else "abc"[i % 3], "value": i / 4 if i % 7 else None, "at": None}
        for i in range(start, stop)
    ]


SOURCE = [{"id": i, "value": -float(i)} for i in (3, 17, 41, 58, 90, 91)]


@dataclass(frozen=True)
class Verb:
    """One call, with an engine; and what it says of itself, which must be equal on both."""

    name: str
    call: Callable[[dk.Table, str, Any], Any]
    said: Callable[[Any], Any] = lambda _: None  # a field's default


ADDED = dk.expr("coalesce(value, 0.0) + id")
VERBS = [
    Verb("delete", lambda t, mode, e: dk.delete(t, "id in (5, 6, 30, 57)", mode=mode, engine=e)),
    Verb("delete a filter's rows", lambda t, mode, e: dk.delete(t, "id >= 20 and id < 24", mode=mode, engine=e)),
    Verb("update", lambda t, mode, e: dk.update(t, {"value": 1e9}, where="id in (1, 25, 40)", mode=mode, engine=e)),
    Verb("an expression", lambda t, mode, e: dk.update(t, {"value": ADDED}, where="id < 9", mode=mode, engine=e)),
    Verb(
        "update by a function",
        lambda t, mode, e: dk.update(
            t, {"value": lambda r: pc.add(pc.coalesce(r["value"], 0.0), 1.0)}, where="id < 9", mode=mode, engine=e
        ),
    ),
    Verb("merge", lambda t, mode, e: dk.merge(t, SOURCE, on=["id"], mode=mode, engine=e)),
    Verb(
        "revert",
        lambda t, mode, e: dk.revert(t, dk.merge(t, SOURCE, on=["id"], mode=mode).snapshot_id or 0, engine=e).commit,
    ),
    Verb(
        "merge that deletes",
        lambda t, mode, e: dk.merge(
            t, [{"id": 33}, {"id": 34}], on=["id"], when_matched="delete", when_not_matched=None, mode=mode, engine=e
        ),
    ),
    Verb("delete a file's rows", lambda t, mode, e: dk.delete(t, "id >= 40 and id < 60", mode=mode, engine=e)),
    Verb("explain", lambda t, _, e: dk.explain(t, "id < 12", engine=e), lambda found: len(found.versions)),
    Verb("scan", lambda t, _, e: dk.scan(t, engine=e), lambda scan: sorted(map(repr, scan.to_arrow().to_pylist()))),
    Verb("count", lambda t, _, e: dk.scan(t, engine=e).count(), lambda count: count),
    Verb("count a filter's rows", lambda t, _, e: dk.scan(t, "value > 3", engine=e).count(), lambda count: count),
    Verb("verify", lambda t, _, e: dk.verify(t, engine=e), lambda report: (report.findings, dict(report.checked))),
    Verb("convert equality deletes", lambda t, _, e: dk.convert_equality_deletes(t, engine=e), lambda d: d.data_files),
    Verb(
        "rewrite position deletes",
        lambda t, _, e: dk.rewrite_position_deletes(t, rewrite_all=True, engine=e),
        lambda done: len(done.rewritten_delete_files),
    ),
    Verb(
        "compact",
        lambda t, _, e: dk.compact(t, rewrite_all=True, engine=e),
        lambda done: (len(done.rewritten_data_files), len(done.added_data_files)),
    ),
    Verb("remove dangling deletes", lambda t, _, e: dk.remove_dangling_deletes(t, engine=e)),
    Verb(
        "remove orphan files",
        lambda t, _, e: dk.remove_orphan_files(t, engine=e),
        lambda done: len(done.orphan_files),
    ),
]


every_mode = pytest.mark.parametrize(
    ("version", "mode", "partition_by"),
    [(*pair, ("category",) if number % 2 else ()) for number, pair in enumerate(VERSION_AND_MODE)],
)


@pytest.mark.sampled(2)
@every_mode
def test_spark_does_the_same(
    spark: SparkSession, shared: dk.Catalog, version: int, mode: str, partition_by: Sequence[str]
) -> None:
    here, there = both(shared, SparkEngine(spark, GROUPS), version, mode, partition_by)
    same_rows((r.asDict() for r in spark.table(f"local.{there.name}").collect()), dk.scan(here).to_arrow().to_pylist())


@pytest.mark.sampled(2)
@every_mode
def test_an_executor_does_the_same(
    processes: Executor, catalog: dk.Catalog, version: int, mode: str, partition_by: Sequence[str]
) -> None:
    both(catalog, dk.engine.executor(processes, GROUPS), version, mode, partition_by)


# Their servers answer late on a busy machine, and leave sockets and tasks to the garbage collector.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_executors_of_others_do_the_same(pool: Executor, catalog: dk.Catalog) -> None:
    both(catalog, dk.engine.executor(pool, GROUPS), 3, "deletion-vector", ("category",))


def both(
    catalog: dk.Catalog, engine: Any, version: int, mode: str, partition_by: Sequence[str]
) -> tuple[dk.Table, dk.Table]:
    """Do every verb in threads on one table, and on the engine on another like it; give the two."""
    options = {"schema": SCHEMA, "format_version": version, "partition_by": partition_by}
    files = [rows(i, i + 20) for i in (0, 20, 40)]
    here, there = make(catalog, *files, **options), make(catalog, *files, **options)
    engines = LocalEngine(GROUPS), engine
    for verb in VERBS:
        said = [verb.said(verb.call(table, mode, e)) for table, e in zip((here, there), engines, strict=True)]
        assert said[0] == said[1], verb.name
        assert shape(here) == shape(there), verb.name
        assert live(here) == live(there), verb.name
        check_table(there)
    return here, there


def shape(table: dk.Table) -> tuple[list[str], Row]:
    """What the head consists of, without the names of files and what depends on their length."""
    files = sorted(repr(file_shape(entry)) for entry in entries(table))
    return files, {k: v for k, v in head_json(table)["summary"].items() if not k.endswith("-size")}


def file_shape(entry: Row) -> Row:
    file = {k: v for k, v in entry["data_file"].items() if k not in OF_NAMES}
    if file.get("content", 0) == 0:
        file["ids"] = stored_ids(entry["data_file"]["file_path"])
    if file.get("referenced_data_file") is not None:
        file["referenced_data_file"] = stored_ids(file["referenced_data_file"])
    if file.get("content") == 1:
        del file["lower_bounds"], file["upper_bounds"]
    return file | {"status": entry["status"], "sequence_number": entry["inherited"]}


@cache
def stored_ids(path: str) -> tuple[int, ...]:
    """The ids in a data file, a name that both tables have for it."""
    return tuple(parquet(path)["id"].to_pylist())
