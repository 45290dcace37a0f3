"""Changes as Debezium events: every type comes back by the decoder, and a table that applies them is equal."""

import base64
import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, NestedField, StringType

import deletekit as dk
from deletekit.stream.sources import Message, decoder
from deletekit.stream.sources.debezium_lines import DebeziumLines
from tests.interop.rows import same_rows
from tests.stream.replay import PEOPLE, random_batches
from tests.tables import MODES, items, make, new_catalog

TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "id": (pa.int64(), 2**62),
    "small": (pa.int32(), -7),
    "flag": (pa.bool_(), True),
    "single": (pa.float32(), 0.1),
    "double": (pa.float64(), float("-inf")),
    "text": (pa.string(), 'ü"\n\u2028'),
    "day": (pa.date32(), date(1, 2, 3)),
    "at": (pa.time64("us"), time(23, 59, 59, 999999)),
    "local": (pa.timestamp("us"), datetime(1969, 12, 31, 23, 59, 59, 1)),  # noqa: DTZ001  # a local time
    "zoned": (pa.timestamp("us", "UTC"), datetime(9999, 12, 31, 1, 2, 3, 4, UTC)),
    "nano": (pa.timestamp("ns"), 1_700_000_000_123_456_789),
    "nano_zoned": (pa.timestamp("ns", "UTC"), 1_700_000_000_123_456_789),
    "amount": (pa.decimal128(38, 10), Decimal("-9999999999999999999999999999.0000000001")),
    "whole": (pa.decimal128(9, 0), Decimal(128)),
    "data": (pa.binary(), b"\x00\xff"),
    "fixed": (pa.binary(3), b"abc"),
    "code": (pa.uuid(), UUID("00010203-0405-0607-0809-0a0b0c0d0e0f").bytes),
    "tags": (pa.list_(pa.binary()), [b"\x01", None]),
    "names": (pa.map_(pa.string(), pa.date32()), [("k", date(2026, 1, 1)), ("l", None)]),
    "numbers": (pa.map_(pa.int32(), pa.decimal128(9, 2)), [(1, Decimal("0.10"))]),
    "home": (
        pa.struct([("since", pa.timestamp("us", "UTC")), ("codes", pa.list_(pa.float64()))]),
        {"since": datetime(2026, 1, 1, tzinfo=UTC), "codes": [1.5, None]},
    ),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in TYPES.items()])


def rows(*numbers: int | None) -> pa.Table:
    """Rows of all types, of which those with None have an id only."""

    def column(name: str, kind: pa.DataType, value: Any) -> pa.Array:
        values = [(n if name == "id" else value) if n is not None else None for n in numbers]
        if name == "id":
            values = [n if n is not None else 99 for n in numbers]
        if kind == pa.uuid():
            return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
        return pa.array(values, kind)

    return pa.Table.from_arrays([column(n, *TYPES[n]) for n in SCHEMA.names], schema=SCHEMA)


def lines_of(result: dk.results.Changes) -> list[str]:
    return list(DebeziumLines(result).lines(result.to_batches()))


def decoded(lines: list[str], schema: Any) -> pa.Table:
    messages = [Message(None, line.encode(), "t", -1, number) for number, line in enumerate(lines)]
    return decoder("debezium-json").decode(messages, schema)


def payloads(result: dk.results.Changes) -> list[dict[str, Any]]:
    return [json.loads(line)["payload"] for line in lines_of(result)]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[dk.Catalog]:
    with new_catalog(tmp_path) as opened:
        yield opened


def head(table: dk.Table) -> int:
    found = table.refresh().current_snapshot
    assert found is not None
    return found.snapshot_id


def test_every_type_comes_back(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=SCHEMA, format_version=3)
    dk.append(table, rows(1, 2, None))
    start = head(table)
    dk.update(table, {"text": "new"}, where="id = 2")
    dk.delete(table, "id in (1, 99)")
    for result in (dk.changes(table, None, start), dk.changes(table, start, on="id")):
        expected, found = result.to_arrow(), decoded(lines_of(result), table.schema)
        kinds = expected["_change_type"].to_pylist()
        places = sorted(range(len(kinds)), key=lambda i: (kinds[i].startswith("update") is False, i))
        # The two rows of an update follow each other; the deletes of the next commit are behind them.
        assert found["_change_type"].to_pylist() == [kinds[i].upper() for i in places]
        for name in SCHEMA.names:
            assert found[name].combine_chunks().equals(expected[name].combine_chunks().take(places)), name


def test_what_an_event_says(catalog: dk.Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), ("day", pa.date32()), ("n", pa.decimal128(9, 2))])
    table = dk.create_table(catalog, "shop.orders", schema)
    dk.append(table, [{"id": 1, "day": date(1970, 1, 11), "n": Decimal("-1.27")}])
    line = json.loads(lines_of(dk.changes(table))[0])
    day, n = 10, base64.b64encode((-127).to_bytes(1, "big", signed=True)).decode()
    assert line["payload"]["after"] == {"id": 1, "day": day, "n": n}
    snapshot = table.metadata.current_snapshot
    source = {"version": dk.__version__, "connector": "deletekit", "db": "shop", "table": "orders"}
    source |= {"ts_ms": snapshot.timestamp_ms, "snapshot_id": snapshot.snapshot_id, "ordinal": 0}
    assert (line["payload"]["op"], line["payload"]["before"], line["payload"]["source"]) == ("c", None, source)
    fields = {f["field"]: f for f in line["schema"]["fields"]}
    assert {*fields} == {"before", "after", "source", "op"}
    assert fields["after"]["fields"] == [
        {"type": "int32", "field": "id", "optional": False},
        {"type": "int32", "name": "io.debezium.time.Date", "version": 1, "field": "day", "optional": True},
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "9"},
            "field": "n",
            "optional": True,
        },
    ]


def test_an_update_is_one_event_while_its_key_stays(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)), format_version=3)
    start = head(table)
    change_places(table)
    by_row_id = payloads(dk.changes(table, start))
    assert [p["op"] for p in by_row_id] == ["d", "d", "d", "c", "c", "c"]  # no key is known
    by_key = payloads(dk.changes(table, start, on="id"))
    assert sorted((p["op"], p["before"]["id"], p["after"]["id"]) for p in by_key) == [("u", i, i) for i in (1, 2, 3)]
    net = payloads(dk.changes(table, start, on="id", mode="upsert"))
    assert [(p["op"], p["before"]) for p in net] == [("u", None)] * 3
    dk.delete(table, "id = 1")
    assert [p["op"] for p in payloads(dk.changes(table, start, mode="net", columns=["value"]))] == ["d"] * 3 + ["c"] * 2


def change_places(table: dk.Table) -> None:
    """Give the rows 1 and 2 each other's key, and all rows another value, in one commit."""
    rows = pa.table({"old": [1, 2, 3], "new": pa.array([2, 1, 3], pa.int32())})
    clause = dk.Clause("update", {"id": dk.expr("source.new"), "value": 9.0})
    dk.merge(table, rows, on={"id": "old"}, when_matched=clause, mode="deletion-vector")


def test_rows_that_change_places_are_not_lost(catalog: dk.Catalog, tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=True),
        NestedField(2, "category", StringType()),
        NestedField(3, "value", DoubleType()),
        identifier_field_ids=[1],
    )
    source, copy = (make(catalog, schema=schema, format_version=3) for _ in range(2))
    dk.append(source, items((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)))
    start = head(source)
    change_places(source)
    told = [(p["op"], p["before"] or p["after"]) for p in payloads(dk.changes(source, start))]
    assert [(op, row["id"]) for op, row in told] == [("d", 1), ("d", 2), ("u", 3), ("c", 2), ("c", 1)]
    apply(copy, lines_of(dk.changes(source)), tmp_path)
    same_rows(dk.scan(copy.refresh()).to_arrow().to_pylist(), dk.scan(source).to_arrow().to_pylist())


def apply(copy: dk.Table, lines: list[str], folder: Path) -> None:
    """Apply events from a file, one of its lines after another."""
    file = folder / f"{len(list(folder.iterdir()))}.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    with dk.stream.sink(copy, "copy", on="id") as sink:
        list(sink.run_files([file], format="debezium-json"))


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_that_applies_the_events_is_equal(catalog: dk.Catalog, tmp_path: Path, version: int) -> None:
    choose = random.Random(version)
    source = make(catalog, schema=PEOPLE, format_version=version)
    copies = [make(catalog, schema=PEOPLE, format_version=version) for _ in range(2)]
    with dk.stream.sink(source, "in", on="id", mode="eq-only") as sink:
        for number, batch in enumerate(random_batches(version * 2, batches=5, rows=9, keys=7)):
            sink.write(batch, number)
            if number % 2:
                dk.update(source, {"name": "x"}, where="id < 3", mode=choose.choice(MODES[version]))
                dk.compact(source, rewrite_all=True)
    for copy, key in zip(copies, ("id", None), strict=True):
        apply(copy, lines_of(dk.changes(source, on=key)), tmp_path)
        same_rows(dk.scan(copy.refresh()).to_arrow().to_pylist(), dk.scan(source.refresh()).to_arrow().to_pylist())
