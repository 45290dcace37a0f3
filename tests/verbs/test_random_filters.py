"""Random filters over random rows choose what DuckDB and Spark choose, through every kind of pruning.

`DELETEKIT_FILTERS=3000` makes the run as long as you like; `DELETEKIT_FILTERS_SEED` makes it another one.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import deletekit as dk
from tests.optional_types import SparkSession
from tests.random_filters import SCHEMA, Filter, random_filter, random_rows
from tests.tables import make, new_catalog

COUNT = int(os.environ.get("DELETEKIT_FILTERS", "100"))
SEED = int(os.environ.get("DELETEKIT_FILTERS_SEED", "7"))
ROWS = 60
# Spark 4.1 takes NULL for a value when an integer column is compared with such a number: `i >= -99999999999999999999`.
BEYOND_LONG = "99999999999999999999"
SPECS = [
    [],
    ["i", "truncate(2, s)"],
    ["day", "bucket(3, l)", "truncate(1, m)"],
    ["year(t)", "hour(z)", "d", "truncate(7, l)"],
    ["month(day)", "truncate(3, i)", "n"],
]


def filters(count: int, seed: int = SEED) -> list[Filter]:
    chance = random.Random(seed)
    return [random_filter(chance) for _ in range(count)]


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return random_rows(random.Random(SEED), ROWS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, rows: pa.Table) -> Iterator[list[dk.Table]]:
    """Give the same rows under every spec, in files and row groups of few rows, so that pruning is on trial."""
    with new_catalog(tmp_path_factory.mktemp("random")) as catalog:
        files = [rows.slice(at, 15).sort_by("s") for at in range(0, ROWS, 15)]
        made = []
        for spec in SPECS:
            properties = {"write.parquet.row-group-limit": "5"}
            made.append(
                make(catalog, *files, schema=SCHEMA, format_version=3, partition_by=spec, properties=properties)
            )
        yield made


def by_duckdb(rows: pa.Table, wanted: list[Filter]) -> list[list[int]]:
    """Rows' ids for each filter."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows", rows)
        tests = ", ".join(f"({f.duckdb}) AS c{i}" for i, f in enumerate(wanted))
        answer = connection.execute(f"SELECT id, {tests} FROM rows ORDER BY id").to_arrow_table()
    return chosen(answer, len(wanted))


def chosen(answer: pa.Table, count: int) -> list[list[int]]:
    ids = answer["id"].to_pylist()
    return [[n for n, yes in zip(ids, answer[f"c{i}"].to_pylist(), strict=True) if yes] for i in range(count)]


def scanned(table: dk.Table, where: str) -> list[int]:
    return sorted(dk.scan(table, where, ["id"]).to_arrow()["id"].to_pylist())


@pytest.mark.slow
@pytest.mark.peers
def test_the_rows_that_duckdb_chooses(tables: list[dk.Table], rows: pa.Table) -> None:
    wanted = filters(COUNT)
    answers = by_duckdb(rows, wanted)
    refused = 0
    for number, (one, ids) in enumerate(zip(wanted, answers, strict=True)):
        table = tables[number % len(tables)]
        if not one.is_exact:
            refused += 1
            with pytest.raises(dk.InvalidInputError, match="is not a value of"):
                scanned(table, one.ours)
            continue
        assert scanned(table, one.ours) == ids, one
    assert refused < COUNT / 4
    assert sum(0 < len(ids) < ROWS for ids in answers) > COUNT / 2, "most filters tell rows apart"


@pytest.mark.slow
@pytest.mark.peers
def test_a_delete_takes_exactly_the_rows_of_the_scan(tables: list[dk.Table], rows: pa.Table) -> None:
    wanted = [f for f in filters(COUNT // 6, SEED + 1) if f.is_exact]
    modes = ["copy-on-write", "deletion-vector"]
    for number, (one, ids) in enumerate(zip(wanted, by_duckdb(rows, wanted), strict=True)):
        table = tables[number % len(tables)]
        dk.create_branch(table, f"b{number}")
        dk.delete(table, one.ours, mode=modes[number % 2], ref=f"b{number}")
        left = dk.scan(table, columns=["id"], ref=f"b{number}").to_arrow()["id"].to_pylist()
        assert sorted(left) == sorted(set(range(ROWS)) - set(ids)), one


def test_the_rows_that_spark_chooses(
    spark: SparkSession, rows: pa.Table, tables: list[dk.Table], tmp_path: Path
) -> None:
    wanted = [f for f in filters(2 * COUNT, SEED + 2) if f.is_exact and BEYOND_LONG not in f.spark]
    frame = spark.createDataFrame(rows)
    for at in range(0, len(wanted), 50):
        some = wanted[at : at + 50]
        answer = frame.selectExpr("id", *(f"({f.spark}) AS c{i}" for i, f in enumerate(some))).toArrow()
        for one, ids in zip(some, chosen(answer.sort_by("id"), len(some)), strict=True):
            assert scanned(tables[at // 50 % len(tables)], one.ours) == ids, one
