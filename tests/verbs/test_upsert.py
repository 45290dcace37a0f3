"""dk.upsert: the table against a dict from key to row, in every mode of every format version."""

import datetime as dt
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import deletekit as dk
from tests.commit.racing import Interfering
from tests.invariants import check_table
from tests.storage import stored_at
from tests.stored import entries, vectors
from tests.tables import MODES, Row, expected, items, live, make, refused

ALL_MODES = [(version, mode) for version, modes in MODES.items() for mode in modes]
SCHEMA = pa.schema([pa.field("id", pa.int64()), ("part", pa.string()), ("value", pa.float64()), ("day", pa.date32())])


def model(rows: Sequence[Row], new: Sequence[Row], key: Sequence[str]) -> list[Row]:
    """What an upsert means: Python's None equals None."""
    keys = {tuple(r[k] for k in key) for r in new}
    return [r for r in rows if tuple(r[k] for k in key) not in keys] + list(new)


def row(number: int | None, part: str | None, value: float, day: int = 1) -> Row:
    return {"id": number, "part": part, "value": value, "day": dt.date(2024, 1, day)}


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("partition_by", [(), ("part",), ("bucket(3, id)",), ("day",)])
@pytest.mark.parametrize(("version", "mode"), ALL_MODES)
def test_rows_are_those_of_a_dict(catalog: dk.Catalog, version: int, mode: str, partition_by: tuple[str, ...]) -> None:
    dice = random.Random(f"{version} {mode} {partition_by}")
    keys = [(i, p) for i in (None, *range(9)) for p in (None, "a", "b")]
    rows = [row(*key, 0.0, dice.randint(1, 3)) for key in keys[:20]]
    table = make(catalog, rows[:12], rows[12:], schema=SCHEMA, format_version=version, partition_by=partition_by)
    for step in range(1, 4):
        new = [row(*key, float(step), dice.randint(1, 3)) for key in dice.sample(keys, 6)]
        dk.upsert(table, new, on=["id", "part"], mode=mode)
        rows = model(rows, new, ["id", "part"])
        assert live(table) == expected(rows)
    assert dk.verify(table).ok
    check_table(table)


def test_equality_deletes_read_nothing(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)))
    for entry in entries(table, 0):
        stored_at(entry["data_file"]["file_path"]).unlink()
    commit = dk.upsert(table, items((2, "z", 9.0)), on=["id"], mode="equality-delete")
    assert [f.record_count for f in commit.added_delete_files] == [1]
    assert [f.record_count for f in commit.added_data_files] == [1]


def test_files_without_the_keys_are_not_read(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)), items((11, "a", 1.0), (12, "b", 2.0)), format_version=3)
    first = next(e["data_file"]["file_path"] for e in entries(table, 0) if e["inherited"] == 1)
    stored = stored_at(first).read_bytes()
    stored_at(first).unlink()
    dk.upsert(table, items((12, "z", 9.0), (30, "n", 0.0)), on=["id"], mode="deletion-vector")
    stored_at(first).write_bytes(stored)
    assert {r["id"] for r in live(table) if r["category"] in ("z", "n")} == {12, 30}
    assert list(vectors(table).values()) == [{1}]


def test_the_key_defaults_to_the_identifier_fields(catalog: dk.Catalog) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType(), required=False),
        identifier_field_ids=[1],
    )
    table = make(catalog, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], schema=schema)
    dk.upsert(table, [{"id": 2, "name": "z"}])
    assert live(table) == [{"id": 1, "name": "a"}, {"id": 2, "name": "z"}]


def test_missing_columns_are_null(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)))
    dk.upsert(table, [{"id": 2, "category": "z"}], on=["id"], mode="position-delete")
    assert live(table) == expected(items((1, "a", 1.0), (2, "z", None)))


@pytest.mark.parametrize("mode", ["copy-on-write", "deletion-vector", "equality-delete"])
def test_a_nested_key(catalog: dk.Catalog, mode: str) -> None:
    person = pa.struct([("name", pa.string()), ("zip", pa.int32())])
    schema = pa.schema([("id", pa.int32()), ("person", person)])
    rows: list[Row] = [
        {"id": 1, "person": {"name": "Ann", "zip": 1}},
        {"id": 2, "person": {"name": "Bob", "zip": None}},
        {"id": 3, "person": None},
    ]
    table = make(catalog, rows, schema=schema, format_version=3)
    dk.upsert(table, [{"id": 9, "person": {"name": None, "zip": 7}}], on=["person.name"], mode=mode)
    # The name of no person is NULL, as in an equality delete.
    assert live(table) == expected([*rows[:2], {"id": 9, "person": {"name": None, "zip": 7}}])


def test_a_branch_and_the_summary(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0)))
    dk.create_branch(table, "side")
    dk.upsert(table, items((1, "z", 0.0)), on=["id"], ref="side", commit_properties={"why": "test"})
    assert live(table) == items((1, "a", 1.0))
    assert live(table, ref="side") == items((1, "z", 0.0))
    assert table.metadata.snapshot_of_ref("side").summary["why"] == "test"


REFUSED: list[tuple[str, Any, dict[str, Any], str, str]] = [
    ("two rows of a key", items((1, "a", 1.0), (1, "b", 2.0)), {"on": ["id"]}, "upsert-key-not-unique", "id"),
    ("two NULLs", items((1, None, 1.0), (2, None, 2.0)), {"on": ["category"]}, "upsert-key-not-unique", "category"),
    ("no key", items((1, "a", 1.0)), {}, "upsert-key", "on"),
    ("an empty key", items((1, "a", 1.0)), {"on": []}, "upsert-key", "on"),
    ("a float", items((1, "a", 1.0)), {"on": ["value"]}, "equality-key", "value"),
    ("no such column", items((1, "a", 1.0)), {"on": ["nope"]}, "column-not-found", "nope"),
    ("a column too many", [{"id": 1, "x": 1}], {"on": ["id"]}, "column-not-found", "x"),
    ("a mode of v3", items((1, "a", 1.0)), {"on": ["id"], "mode": "deletion-vector"}, "delete-kind", "mode"),
    ("a tag", items((1, "a", 1.0)), {"on": ["id"], "ref": "tagged"}, "ref", "ref"),
]


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("mode", MODES[2])
@pytest.mark.parametrize(("rows", "arguments", "kind", "field"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused_before_anything_is_written(
    catalog: dk.Catalog, mode: str, rows: Any, arguments: dict[str, Any], kind: str, field: str
) -> None:
    # Equality deletes by `id` would need another spec here, which is not to be added either.
    table = make(catalog, items((1, "a", 1.0)), partition_by=["category"])
    dk.create_tag(table, "tagged")
    with refused(table, dk.InvalidInputError, kind, field=field):
        dk.upsert(table, rows, **{"mode": mode, **arguments})


@pytest.mark.parametrize(("version", "mode"), [(2, "position-delete"), (3, "deletion-vector"), (3, "equality-delete")])
def test_a_row_that_lands_meanwhile_is_replaced_too(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, items((1, "a", 1.0)), format_version=version)
    store = Interfering(catalog)
    store.others.append(lambda: dk.append(dk.load_table(catalog, table.name), items((5, "theirs", 0.0))))
    ours = dk.load_table(store, table.name)
    commit = dk.upsert(ours, items((5, "ours", 0.0)), on=["id"], mode=mode)
    assert commit.attempts == 2
    assert live(table.refresh()) == expected(items((1, "a", 1.0), (5, "ours", 0.0)))
    assert dk.verify(table).ok
