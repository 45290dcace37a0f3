"""Random events of Debezium, with tombstones and values that were not sent, beside a dict: in process and on Spark."""

import random
from typing import Any

import pytest

import deletekit as dk
from deletekit.stream import decoder
from tests.optional_types import SparkSession
from tests.stream.sources.random_events import ROWS, Events
from tests.tables import make

DECODER = {"binary": "base64", "sequence": "lsn"}


def held(table: dk.Table) -> dict[int, dict[str, Any]]:
    rows = dk.scan(table.refresh()).to_arrow().drop_columns("_sequence").to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


@pytest.mark.sampled(2, tier=1)
@pytest.mark.parametrize("seed", range(6))
def test_the_table_is_the_dict(catalog: dk.Catalog, seed: int) -> None:
    """With a sink of each mode, each opened again and again, and batches that come again."""
    source, form = Events(random.Random(seed)), decoder("debezium-json", **DECODER)
    modes: list[dict[str, Any]] = [
        {"mode": "auto"}, {"mode": "index-only"}, {"mode": "eq-only"},
        {"sequence_by": "_sequence"}, {"order": "_sequence"},
    ]  # fmt: skip
    options = modes[seed % len(modes)]
    table = make(catalog, schema=ROWS, format_version=2 + seed % 2)
    batches: list[Any] = []
    for _ in range(4):
        start = len(source.messages)
        for _ in range(source.random.randrange(5, 20)):
            source.step()
        new = source.cut(start)
        with dk.stream.sink(table, "cdc", on="id", **options) as sink:
            if batches and source.random.random() < 0.5:
                again = source.random.randrange(len(batches))
                assert sink.write(form.decode(batches[again], table.schema), again).status == "skipped"
            for batch in new:
                rows = form.decode(batch, table.schema)
                assert sink.write(rows, len(batches)).status in ("committed", "empty")
                batches.append(batch)
        assert held(table) == source.rows


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_that_is_read_again_from_its_beginning(catalog: dk.Catalog, seed: int) -> None:
    """`sequence_by` drops what is older. A tombstone alone deletes, and what came after it brings the row back.

    That row must have all its values. Where each delete has an event, tombstones can be left out.
    """
    whole = seed % 2 == 0
    source = Events(random.Random(100 + seed), compacted=whole, leaves_out=not whole)
    form = decoder("debezium-json", **DECODER, tombstones="delete" if whole else "ignore")
    table = make(catalog, schema=ROWS, format_version=3)
    for _ in range(40):
        source.step()
    with dk.stream.sink(table, "cdc", on="id", sequence_by="_sequence") as sink:
        number = 0
        for batches in (source.cut(0), source.cut(0)):
            for batch in batches:
                sink.write(form.decode(batch, table.schema), number)
                number += 1
            assert held(table) == source.rows


@pytest.mark.parametrize("options", [{}, {"sequence_by": "_sequence"}], ids=["plain", "sequence_by"])
def test_rows_on_executors_are_the_dict_too(spark: SparkSession, options: dict[str, Any]) -> None:
    """A DataFrame has no order: a column says it, of tombstones too."""
    source, form = Events(random.Random(7)), decoder("debezium-json", **DECODER)
    catalog = dk.local_catalog(str(spark.conf.get("spark.sql.catalog.local.warehouse")))
    table = make(catalog, schema=ROWS, format_version=3)
    ddl = "id long, bio string, data binary, tags array<string>, n long, _sequence long, _change_type string, _at long"
    row = "id long, bio string, data binary, tags array<string>, n long, _sequence long"
    ddl += f", _unchanged array<string>, _key_before struct<{row.replace(' ', ':').replace(',:', ',')}>"
    with dk.stream.sink(table, "spark", on="id", order="_at", **options) as sink:
        for number in range(3):
            start = len(source.messages)
            for _ in range(15):
                source.step()
            rows = form.decode(source.messages[start:], table.schema).to_pylist()
            given = [{**change, "_at": at} for at, change in enumerate(rows)]
            names = [part.split()[0] for part in ddl.split(", ")]
            frame = spark.createDataFrame([tuple(change.get(n) for n in names) for change in given], ddl)
            assert sink.write(frame.repartition(3), number, ordered=False).status == "committed"
            assert held(table) == source.rows
