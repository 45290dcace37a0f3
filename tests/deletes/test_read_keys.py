"""Scans under equality deletes against plain Python: row groups passed over by bounds, columns that are read late."""

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from deletekit.deletes import delete_loader
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.formats import tabular

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "grp": pa.int32(),
        "name": pa.string(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "flag": pa.bool_(),
        "place": pa.struct({"city": pa.string(), "zip": pa.int32()}),
    }
)
KEYS = [["id"], ["name"], ["grp", "name"], ["id", "name"], ["day", "grp"], ["at"], ["flag", "at", "name"]]
KEYS += [["place.city"], ["place.zip", "grp"], ["name", "place.city"]]
NAMES = [None, "", "a", "ä", "é", "e\u0301", "longer than twelve bytes", "\U0001f600"]
SMALL = {"write.parquet.row-group-limit": "16"}


def row_of(rng: random.Random, number: int) -> dict[str, Any]:
    grp = rng.choice([number // 20, number // 20, None, rng.randrange(5)])
    return {
        "id": rng.choice([number, number, None, rng.randrange(-(2**62), 2**62)]),
        "grp": grp,
        "name": rng.choice([*NAMES, f"name {number // 9}"]),
        "day": rng.choice([None, dt.date(1970, 1, 1) + dt.timedelta(number // 7)]),
        "at": rng.choice([None, dt.datetime(1969, 12, 31, 23, 59) + dt.timedelta(minutes=number // 5)]),  # noqa: DTZ001
        "flag": rng.choice([None, True, False]),
        "place": rng.choice([None, {"city": rng.choice(NAMES), "zip": rng.choice([None, number // 10])}]),
    }


def value_of(row: dict[str, Any], name: str) -> Any:
    top, _, leaf = name.partition(".")
    return (row[top] or {}).get(leaf) if leaf else row[top]


def keys_table(names: list[str], keys: list[tuple[Any, ...]]) -> pa.Table:
    kinds = [SCHEMA.field("place").type.field(n[6:]).type if "." in n else SCHEMA.field(n).type for n in names]
    return pa.table({n: pa.array([k[i] for k in keys], kinds[i]) for i, n in enumerate(names)})


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("seed", range(12))
def test_scans_against_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(tabular, "JOINED_ROWS", (0, 40, tabular.JOINED_ROWS)[seed % 3])
    monkeypatch.setattr(delete_loader, "_TIMES_READ_TO_SHARE", (0, delete_loader._TIMES_READ_TO_SHARE)[seed % 2])
    check(tmp_path, random.Random(seed))


def check(folder: Path, rng: random.Random) -> None:
    catalog = dk.local_catalog(folder)
    table = dk.create_table(catalog, "db.t", SCHEMA, format_version=2, properties=SMALL)
    live: list[dict[str, Any]] = []
    for _ in range(3):
        rows = [row_of(rng, n) for n in range(rng.randrange(1, 90))]
        dk.append(table, pa.Table.from_pylist(rows, schema=SCHEMA))
        live += rows
        for names in rng.sample(KEYS, 3):
            near = rng.sample(live, min(len(live), rng.choice([0, 1, 1, 8])))
            found = [row_of(rng, rng.randrange(400)) for _ in range(rng.randrange(4))] + near
            keys = [tuple(value_of(row, n) for n in names) for row in found]
            if keys:
                dk.delete_keys(table, keys_table(names, keys))
            live = [row for row in live if tuple(value_of(row, n) for n in names) not in set(keys)]
    for columns in (None, ["flag"], ["name"], ["grp", "place"], rng.sample(SCHEMA.names, 3)):
        got = dk.scan(table.refresh(), columns=columns).to_arrow().to_pylist()
        expected = [{n: row[n] for n in columns or SCHEMA.names} for row in live]
        assert sorted(map(repr, got)) == sorted(map(repr, expected)), columns
    assert dk.scan(table.refresh()).count() == len(live)


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("seed", range(6))
def test_keys_that_many_files_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Each data file has deletes of its own age and partition, and all of them are looked up in one set."""
    monkeypatch.setattr(delete_loader, "_TIMES_READ_TO_SHARE", 0)
    rng = random.Random(seed)
    schema = pa.schema({"id": pa.int64(), "grp": pa.int32(), "name": pa.string()})
    where = rng.choice([(), ("grp",), ("bucket(2, grp)",)])
    table = dk.create_table(dk.local_catalog(tmp_path), "db.t", schema, format_version=2 + seed % 2, partition_by=where)
    live: list[dict[str, Any]] = []

    def some() -> dict[str, Any]:
        name = rng.choice([None, "", "a", f"name {rng.randrange(4)}"])
        return {"id": rng.choice([None, *range(6), 2**62]), "grp": rng.choice([None, 1, 2]), "name": name}

    for step in range(12):
        if step == 8:
            dk.add_partition_field(table, "truncate(1, name)")
        rows = [some() for _ in range(rng.randrange(1, 12))]
        dk.append(table, pa.Table.from_pylist(rows, schema=schema))
        live += rows
        if rng.random() < 0.3:
            dk.delete(table, f"id = {step % 6}", mode="position-delete" if seed % 2 == 0 else "deletion-vector")
            live = [row for row in live if row["id"] != step % 6]
        names = rng.choice([["id"], ["name"], ["id", "name"], ["grp", "id"], ["name", "grp", "id"]])
        keys = [tuple(row[n] for n in names) for row in (some(), some(), rng.choice([*live, some()]))]
        dk.delete_keys(
            table, pa.table({n: pa.array([k[i] for k in keys], schema.field(n).type) for i, n in enumerate(names)})
        )
        live = [row for row in live if tuple(row[n] for n in names) not in set(keys)]
        got = dk.scan(table, columns=schema.names).to_arrow().to_pylist()
        assert sorted(map(repr, got)) == sorted(map(repr, live))
        assert dk.scan(table).count() == len(live)
        two = dk.scan(table, "id = 2", ["name"], engine=dk.engine.local(1)).to_arrow().num_rows
        assert two == sum(row["id"] == 2 for row in live)


def test_a_delete_after_each_append_makes_one_set_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = dk.create_table(dk.local_catalog(tmp_path), "db.t", pa.schema({"id": pa.int64()}))
    live: list[int] = []
    for step in range(20):
        dk.append(table, pa.table({"id": [*range(step)]}))
        dk.delete_keys(table, pa.table({"id": [step // 2, step - 1, 999]}))
        live = [i for i in [*live, *range(step)] if i not in (step // 2, step - 1)]
    made: list[Any] = []
    before = delete_loader.KeySet

    def noted(*args: Any) -> Any:
        made.append(args)
        return before(*args)

    monkeypatch.setattr(delete_loader, "KeySet", noted)
    assert sorted(dk.scan(table).to_arrow()["id"].to_pylist()) == sorted(live)
    assert len(made) == 1


@pytest.mark.parametrize("last", [True, False])
def test_keys_of_a_delete_file_that_is_listed_twice(tmp_path: Path, *, last: bool) -> None:
    """The younger entry counts, wherever it stands: the set of keys that the data files share is made of paths."""
    table = dk.create_table(dk.local_catalog(tmp_path), "db.t", pa.schema({"id": pa.int64()}))
    for step in range(12):
        dk.append(table, pa.table({"id": [1, 2, 9]}))
        dk.delete_keys(table, pa.table({"id": [1, 8] if step == 3 else [2, 8]}))
    tasks = list(dk.scan(table).plan())
    (other,) = {d.sequence_number: d for task in tasks for d in task.deletes if d.sequence_number == 8}.values()
    younger = replace(other, sequence_number=99)
    deletes = [[d for d in task.deletes if d != other] for task in tasks]
    older = [[other] if other in task.deletes else [] for task in tasks]
    parts = zip(tasks, deletes, older, strict=True)
    tasks = [ScanTask(t.data, (*some, *old, younger) if last else (younger, *some, *old)) for t, some, old in parts]
    context = ReadContext(table.io, table.metadata)
    context.loader.share_keys(tasks)
    request = ReadRequest(tuple(table.metadata.schema.fields))
    batches = [batch for task in tasks for batch in read_task(context, task, request)]
    assert [batch.deleted.tolist() for batch in batches] == [[True, True, False]] * 12


@pytest.fixture
def sorted_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dk.Table, Callable[[Any], list[Any]]]:
    """A table of four row groups, and a function that scans `value` and tells which columns of which were read."""
    monkeypatch.setattr(tabular, "JOINED_ROWS", 0)
    rows = {"id": range(0, 128, 2), "grp": [n // 16 for n in range(64)], "name": [f"n{n:02}" for n in range(64)]}
    table = dk.create_table(
        dk.local_catalog(tmp_path),
        "db.t",
        pa.schema({"id": pa.int64(), "grp": pa.int32(), "name": pa.string(), "value": pa.float64()}),
        format_version=2,
        properties=SMALL,
    )
    dk.append(table, pa.table({**rows, "value": [n / 2 for n in range(64)]}))
    read: list[Any] = []
    before = tabular._ParquetRows.read

    def noted(self: Any, group: Any, columns: Any) -> Any:
        read.append((group.index, *columns))
        return before(self, group, columns)

    def scanned(expected: Any) -> list[Any]:
        with monkeypatch.context() as patched:
            patched.setattr(tabular._ParquetRows, "read", noted)
            assert dk.scan(table.refresh(), columns=["value"]).to_arrow()["value"].to_pylist() == [
                n / 2 for n in expected
            ]
        return sorted(r for r in read if r[1] != "value" and len(r[1:]) == 1)

    return table, scanned


def test_only_row_groups_within_all_bounds_read_key_columns(sorted_table: Any) -> None:
    table, scanned = sorted_table
    keys = {"grp": pa.array([2, 2], pa.int32()), "name": ["n40", "n63"]}
    dk.delete_keys(table, pa.table(keys))
    assert scanned([n for n in range(64) if n != 40]) == [(2, "grp"), (2, "name")]


def test_text_is_not_read_where_no_number_agrees(sorted_table: Any) -> None:
    table, scanned = sorted_table
    dk.delete_keys(table, pa.table({"id": [41, 80], "name": ["n20", "n40"]}))
    assert scanned([n for n in range(64) if n != 40]) == [(1, "id"), (2, "id"), (2, "name")]


def test_text_that_is_no_utf8_is_named_though_it_is_only_compared(tmp_path: Path) -> None:
    rows = pa.table({"name": ["abcdefgh", "ijklmnop"], "value": [1, 2]})
    table = dk.create_table(
        dk.local_catalog(tmp_path), "db.t", rows.schema, properties={"write.parquet.compression-codec": "uncompressed"}
    )
    (file,) = dk.append(table, rows).added_data_files
    dk.delete_keys(table, pa.table({"name": ["c"]}))
    path = Path(file.file_path.removeprefix("file://"))
    assert pq.read_table(path).num_rows == 2
    path.write_bytes(path.read_bytes().replace(b"mnop", b"mn\xffp"))
    with pytest.raises(dk.FormatError, match="UTF8"):
        dk.scan(table.refresh(), columns=["value"]).to_arrow()
