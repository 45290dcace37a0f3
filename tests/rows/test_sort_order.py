"""Rows of each data file are in the table's sort order; a model in plain Python says what that is."""

import datetime as dt
import math
import random
import struct
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from tests.maintenance.model import lineage
from tests.storage import stored_at
from tests.stored import entries, metadata_json
from tests.stream.replay import PEOPLE, check, random_batches, replay
from tests.tables import items, live, make, refused

NAN, NEGATIVE_NAN = math.nan, struct.unpack(">d", bytes.fromhex("fff8000000000000"))[0]
FLOATS = [3.5, None, NAN, -0.0, 0.0, -math.inf, math.inf, -2.0, NEGATIVE_NAN, 2**-30, None]


def total_order(value: float) -> tuple[int, float]:
    """The specification: -NaN, -inf, negative, -0, 0, positive, inf, NaN."""
    sign = math.copysign(1, value)
    return (int(2 * sign), 0.0) if math.isnan(value) else (int(sign), value)


def files(table: dk.Table) -> list[tuple[pa.Table, int]]:
    """The rows of each live data file as pyarrow reads them, and the sort order id in the manifest."""
    live_files = [e["data_file"] for e in entries(table, 0) if e["status"] != 2]
    # An old pyarrow takes `name=value` in a path for a column, unless told.
    return [(pq.read_table(stored_at(f["file_path"]), partitioning=None), f["sort_order_id"]) for f in live_files]


def compare(a: Any, b: Any, desc: bool, nulls_first: bool) -> int:
    if a is None or b is None:
        return 0 if a is b else (-1 if (a is None) == nulls_first else 1)
    return (-1 if a < b else int(a > b)) * (-1 if desc else 1)


def test_floats_have_a_total_order(catalog: dk.Catalog) -> None:
    rows = pa.table({"x": pa.array(FLOATS, pa.float64()), "y": pa.array(FLOATS, pa.float32())})
    for column in ("x", "y"):
        for text, desc, first in (("", False, True), (" desc nulls first", True, True), (" nulls last", False, False)):
            table = make(catalog, rows, schema=rows, sort_by=column + text)
            ((read, order_id),) = files(table)
            expected = sorted(
                (None if v is None else total_order(v) for v in FLOATS),
                key=cmp_to_key(lambda a, b, d=desc, f=first: compare(a, b, d, f)),  # type: ignore[misc]
            )
            found = [None if v is None else total_order(v) for v in read[column].to_pylist()]
            assert (found, order_id) == (expected, 1), (column, text)


VALUES: dict[str, list[Any]] = {
    "i": [3, -1, None, 7, 7, 0],
    "s": ["b", "", None, "ä", "a\u0000", "Z"],
    "b": [b"\x80", b"", None, b"\x00\xff", b"\x7f", b"\x80\x00"],
    "d": [Decimal("1.50"), Decimal("-20.00"), None, Decimal("0.00"), Decimal("99.99"), Decimal("1.49")],
    "t": [dt.datetime(2020 + i, 1, 1) if i != 2 else None for i in (3, 1, 2, 0, 5, 4)],  # noqa: DTZ001
    "f": [b"abcd", b"\xff\x00\x00\x00", None, b"\x00\x00\x00\x01", b"abce", b"zzzz"],
    "o": [True, False, None, True, False, True],
}
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("d", pa.decimal128(9, 2)),
        ("t", pa.timestamp("us")),
        ("f", pa.binary(4)),
        ("o", pa.bool_()),
    ]
)


@pytest.mark.parametrize("column", VALUES)
def test_every_type_sorts_as_python_does(catalog: dk.Catalog, column: str) -> None:
    rows = pa.table(VALUES, schema=SCHEMA)
    for text, desc, first in (("", False, True), (" DESC", True, False), (" desc nulls first", True, True)):
        ((read, _),) = files(make(catalog, rows, schema=rows, sort_by=[column + text]))

        def key(v: Any) -> Any:
            return v.encode() if isinstance(v, str) else v

        expected = sorted(map(key, VALUES[column]), key=cmp_to_key(lambda a, b, d=desc, f=first: compare(a, b, d, f)))  # type: ignore[misc]
        assert [key(v) for v in read[column].to_pylist()] == expected, text


def test_fields_transforms_and_partitions(catalog: dk.Catalog) -> None:
    rng = random.Random(5)
    rows = [{"id": i, "category": rng.choice("abc"), "value": float(rng.randrange(50))} for i in range(300)]
    schema = pa.schema([("id", pa.int64()), ("category", pa.string()), ("value", pa.float64())])
    sort_by = ["truncate(100, id) desc", "value nulls last"]
    table = make(catalog, rows, schema=schema, partition_by="category", sort_by=sort_by)
    for read, order_id in files(table):
        assert order_id == 1
        keys = [(-(r["id"] // 100), r["value"]) for r in read.to_pylist()]
        assert keys == sorted(keys)
    assert metadata_json(table)["sort-orders"] == [
        {
            "order-id": 1,
            "fields": [
                {"source-id": 1, "transform": "truncate[100]", "direction": "desc", "null-order": "nulls-last"},
                {"source-id": 3, "transform": "identity", "direction": "asc", "null-order": "nulls-last"},
            ],
        }
    ]


def test_every_writing_verb_sorts(catalog: dk.Catalog) -> None:
    table = make(catalog, items((3, "a", 1.0), (1, "b", 2.0), (2, "c", 3.0)), format_version=3)
    assert [order_id for _, order_id in files(table)] == [0]
    dk.set_sort_order(table, "id")
    dk.append(table, items((9, "a", 1.0), (7, "b", 2.0), (8, "c", 3.0)))
    dk.upsert(table, items((12, "x", 0.0), (10, "y", 0.0), (7, "z", 0.0)), on=["id"])
    dk.update(table, {"category": "new"}, where="id in (3, 1)", mode="copy-on-write")
    found = [(read["id"].to_pylist(), order_id) for read, order_id in files(table)]
    assert all(keys == sorted(keys) and order_id == 1 for keys, order_id in found), found
    assert sorted(i for keys, _ in found for i in keys) == [1, 2, 3, 7, 8, 9, 10, 12]
    before: Any = lineage(table)
    dk.compact(table, rewrite_all=True)
    assert [(read["id"].to_pylist(), order_id) for read, order_id in files(table)] == [([1, 2, 3, 7, 8, 9, 10, 12], 1)]
    assert lineage(table) == before
    assert not dk.verify(table).findings
    dk.set_sort_order(table, ())
    dk.append(table, items((30, "a", 1.0), (20, "a", 1.0)))
    assert ([30, 20], 0) in [(read["id"].to_pylist(), order_id) for read, order_id in files(table)]
    assert [o["order-id"] for o in metadata_json(table)["sort-orders"]] == [0, 1]


def test_a_stream_is_sorted_a_file_at_a_time(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deletekit.rows.data_file_writer.HELD_BYTES", 4000)
    table = make(catalog, schema=pa.schema([("id", pa.int64())]), sort_by="id")
    dk.append(table, (pa.table({"id": [(7 * (100 * n + i)) % 1000 for i in range(100)]}) for n in range(10)))
    found = files(table)
    assert len(found) == 2
    for read, order_id in found:
        assert (read["id"].to_pylist(), order_id) == (sorted(read["id"].to_pylist()), 1)
    assert sorted(row["id"] for row in live(table)) == list(range(1000))


def test_packing_a_sorted_table_ends(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than are held at a time are packed without an order; else each part would be a small file again."""
    for module in ("rows.data_file_writer", "deletes.rewrite"):
        monkeypatch.setattr(f"deletekit.{module}.HELD_BYTES", 4000)
    rows = [pa.table({"id": [(7 * (100 * n + i)) % 1000 for i in range(100)]}) for n in range(10)]
    table = make(catalog, *rows, schema=pa.schema([("id", pa.int64())]), sort_by="id")
    assert len(dk.compact(table).added_data_files) == 1
    assert [order_id for _, order_id in files(table)] == [0]
    assert dk.compact(table).commits == ()
    dk.compact(table, strategy="sort", rewrite_all=True)
    assert [(read["id"].to_pylist(), order_id) for read, order_id in files(table)] == [(list(range(1000)), 1)]


@pytest.mark.parametrize("mode", ["auto", "eq-only", "index-only"])
def test_a_sink_hides_the_right_rows_of_a_sorted_table(catalog: dk.Catalog, mode: str) -> None:
    table = make(catalog, schema=PEOPLE, format_version=3, partition_by="name", sort_by="id desc")
    batches = list(random_batches(1, batches=4, rows=12, keys=9))
    with dk.stream.sink(table, "people", on=["id"], mode=mode) as sink:
        for number, batch in enumerate(batches):
            sink.write(batch, number)
            check(table, replay(batches[: number + 1]))
    for read, order_id in files(table):
        keys = [(i is not None, i) for i in read["id"].to_pylist()]
        assert keys == sorted(keys, key=lambda k: (k[0], k[1] or 0), reverse=True)
        assert order_id == 1


def test_compact_sorts_what_is_there(catalog: dk.Catalog) -> None:
    table = make(catalog, format_version=2)
    for start in range(6):
        dk.append(table, items(*((i, "x", float(-i)) for i in range(start, 60, 6))))
    rows = live(table)
    with refused(table, dk.InvalidInputError, "sort-order", field="sort_order"):
        dk.compact(table, strategy="sort")
    with refused(table, dk.InvalidInputError, "rewrite-option", field="strategy"):
        dk.compact(table, sort_order="id")
    size = sum(e["data_file"]["file_size_in_bytes"] for e in entries(table)) // 3
    dk.compact(table, strategy="sort", sort_order="value", rewrite_all=True, target_file_size_bytes=size)
    found = [(read["id"].to_pylist(), order_id) for read, order_id in files(table)]
    assert len(found) > 1
    assert [i for part, _ in sorted(found, reverse=True) for i in part] == list(range(59, -1, -1)), "no ranges overlap"
    assert {order_id for _, order_id in found} == {0}, "the table has no such order"
    assert live(table) == rows
    dk.set_sort_order(table, "value")
    dk.compact(table, strategy="sort", rewrite_all=True)
    assert [order_id for _, order_id in files(table)] == [1]


def test_z_order_keeps_both_columns_near(catalog: dk.Catalog) -> None:
    side = 16
    cells = [(x, y) for x in range(side) for y in range(side)]
    random.Random(1).shuffle(cells)
    rows = pa.table({"x": [x for x, _ in cells], "y": pa.array([y for _, y in cells], pa.float64())})
    table = make(catalog, rows, schema=rows)
    dk.compact(table, strategy="sort", sort_order="zorder(x, y)", rewrite_all=True)
    ((read, order_id),) = files(table)
    assert order_id == 0
    points = np.column_stack([read["x"].to_numpy(), read["y"].to_numpy()])
    for part in np.split(points, 16):  # a quarter of each side, where a plain sort has a whole row of y
        assert (np.ptp(part, axis=0) == 3).all()
    bits = [(f"{int(x):04b}", f"{int(y):04b}") for x, y in points]
    assert [int("".join(a + b for a, b in zip(x, y, strict=True)), 2) for x, y in bits] == list(range(side * side)), (
        "the curve itself, computed bit by bit"
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [("nope", "sort-order"), ("void(id)", "sort-order"), (["id", "id desc"], "sort-order"), ("day(id)", "sort-order")],
)
def test_bad_orders_are_refused(catalog: dk.Catalog, text: Any, kind: str) -> None:
    table = make(catalog, items((1, "a", 1.0)))
    with refused(table, dk.InvalidInputError, kind):
        dk.set_sort_order(table, text)


@pytest.mark.parametrize(
    "change", [{"transform": "curve[3]"}, {"source-ids": [1, 2]}, {"source-id": 99}], ids=lambda c: next(iter(c))
)
def test_an_order_that_nobody_can_follow_is_warned_of(catalog: dk.Catalog, change: dict[str, Any]) -> None:
    table = make(catalog, items((2, "a", 1.0)), sort_by="id")
    raw = metadata_json(table)
    raw["sort-orders"][0]["fields"][0] |= change
    from deletekit.rows.sort_order import RowOrder  # noqa: PLC0415
    from deletekit.table.metadata import TableMetadata  # noqa: PLC0415

    with pytest.warns(UserWarning, match="does not know the table's sort order 1"):
        assert RowOrder.of(TableMetadata(raw)) == RowOrder()
