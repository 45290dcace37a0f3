"""What MERGE and UPSERT read: in kind, so that no change makes it worse unseen; and the rows, to a plain model."""

import random
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from deletekit.formats import tabular
from tests.counting_io import FilesUsed
from tests.stored import parquet
from tests.tables import VERSION_AND_MODE, Row, expected, live, make

EVERY_MODE = pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("value", pa.float64()), ("tags", pa.list_(pa.int32()))])


def rows(start: int, count: int) -> pa.Table:
    ids = np.arange(start, start + count)
    tags = [None if i % 5 == 0 else [i % 3] * (i % 4) for i in ids.tolist()]
    columns = [ids, [f"name {i}" for i in ids], ids / 4, tags]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@pytest.fixture
def columns_read(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many values each column gave that was read from a Parquet file."""
    found: dict[str, int] = defaultdict(int)
    read = tabular._ParquetRows.read

    def counting(self: Any, group: Any, columns: Any) -> pa.Table:
        for name in columns:
            found[name] += group.num_rows
        return read(self, group, columns)

    monkeypatch.setattr(tabular._ParquetRows, "read", counting)
    return found


@pytest.mark.parametrize(("version", "mode"), [(2, "position-delete"), (3, "deletion-vector")])
@pytest.mark.parametrize(
    ("clause", "columns", "also"),
    [
        ("update", SCHEMA.names, set()),
        ("update", ["id", "name"], {"value", "tags"}),
        ("delete", SCHEMA.names, set()),
        (
            dk.Clause("update", {"value": dk.expr("target.value + source.value")}),
            SCHEMA.names,
            {*SCHEMA.names} - {"id"},
        ),
        (dk.Clause("update", where="source.value > target.value"), SCHEMA.names, {"value"}),
        (dk.Clause("update", dict.fromkeys(["name", "value", "tags"])), SCHEMA.names, set()),
    ],
)
def test_a_merge_reads_what_it_needs(
    catalog: dk.Catalog,
    columns_read: dict[str, int],
    version: int,
    mode: str,
    clause: Any,
    columns: list[str],
    also: set[str],
) -> None:
    table = make(catalog, rows(0, 50), rows(50, 50), schema=SCHEMA, format_version=version)
    dk.merge(table, rows(40, 20).select(columns), on="id", when_matched=clause, mode=mode)
    keeps_id = isinstance(clause, dk.Clause) and clause.assignments is not None
    assert columns_read.pop("id") == (200 if keeps_id else 100)
    assert set(columns_read) == also


@pytest.mark.parametrize("mode", ["copy-on-write", "deletion-vector"])
@pytest.mark.parametrize("verb", ["merge", "upsert"])
@pytest.mark.parametrize("key", ["id", "text"])
def test_files_and_row_groups_without_the_keys_are_not_read(
    catalog: dk.Catalog, columns_read: dict[str, int], monkeypatch: pytest.MonkeyPatch, mode: str, verb: str, key: str
) -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    parts = [pa.table({"id": range(i, i + 30), "text": [f"{n:04}" for n in range(i, i + 30)]}) for i in (0, 30, 60)]
    properties = {"write.parquet.row-group-limit": "10"}
    table = make(catalog, *parts, schema=schema, format_version=3, properties=properties)
    nowhere = pa.table({"id": [41, None, 45], "text": ["0041", None, "0045"]}, schema=schema)
    used = FilesUsed(monkeypatch)
    source = nowhere if verb == "merge" else nowhere.drop_null()
    if verb == "merge":
        dk.merge(table, source, on=key, mode=mode, engine=LocalEngine(1))
    else:
        dk.upsert(table, source, on=key, mode=mode, engine=LocalEngine(1))
    (data,) = (path for path in used.opened if path.endswith(".parquet"))
    assert parquet(data)["id"].to_pylist() == list(range(30, 60)), "the file with the keys"
    assert columns_read[key] <= (10 if mode == "deletion-vector" else 40)
    new = [{"id": None, "text": None}] if verb == "merge" else []
    assert live(table.refresh()) == expected([*pa.concat_tables(parts).to_pylist(), *new])


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("partition_by", [(), ("bucket(4, id)",), ("truncate(2, text)",)])
@pytest.mark.parametrize("verb", ["merge", "upsert"])
@pytest.mark.parametrize("key", [["id"], ["text"], ["id", "text"]])
def test_files_between_keys_that_lie_far_apart_are_not_read(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, verb: str, key: list[str], partition_by: tuple[str, ...]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("n", pa.int64())])
    parts = [[{"id": i, "text": f"{i:04}", "n": 0} for i in range(at, at + 20)] for at in range(-20, 100, 20)]
    parts += [[{"id": None, "text": None, "n": 0}]]
    table = make(catalog, *parts, schema=schema, format_version=2, partition_by=partition_by)
    source = [{"id": i, "text": f"{i:04}", "n": 1} for i in (-5, 3, 99, 1000)]
    nowhere = [{"id": None, "text": None, "n": 1}] if verb == "merge" else []
    used = FilesUsed(monkeypatch)
    if verb == "merge":
        dk.merge(table, pa.Table.from_pylist([*source, *nowhere], schema), on=key, mode="position-delete")
    else:
        dk.upsert(table, pa.Table.from_pylist(source, schema), on=key, mode="position-delete")
    opened = [parquet(path)["id"].to_pylist() for path in used.opened if path.endswith(".parquet")]
    assert opened
    assert all(any(min(ids) <= i <= max(ids) for i in (-5, 3, 99)) for ids in opened)
    kept = [row for part in parts for row in part if row["id"] not in (-5, 3, 99)]
    assert live(table.refresh()) == expected([*kept, *source, *nowhere])


def test_rows_without_a_source_row_are_all_read(catalog: dk.Catalog) -> None:
    table = make(catalog, rows(0, 30), rows(30, 30), schema=SCHEMA, format_version=3)
    dk.merge(table, rows(40, 5), on="id", when_not_matched_by_source="delete", mode="deletion-vector")
    assert live(table) == expected(rows(40, 5).to_pylist())


@EVERY_MODE
def test_a_table_that_changed_its_shape(catalog: dk.Catalog, version: int, mode: str) -> None:
    """Files with a narrower key, fewer columns and other partitions; rows keep their ids and what nobody set."""
    choice = random.Random(version)
    small = pa.schema([("id", pa.int32()), ("name", pa.string()), ("value", pa.float64())])
    old = [{"id": n, "name": None if n % 4 == 0 else f"n{n}", "value": [0.0, -0.0, None][n % 3]} for n in range(40)]
    table = make(catalog, pa.Table.from_pylist(old, small), schema=small, format_version=version)
    dk.update_column(table, "id", type="long")
    dk.add_column(table, "tags", "string")
    dk.add_partition_field(table, "bucket(3, id)")
    new = [{"id": n, "name": f"m{n}", "value": n / 2, "tags": "t" * (n % 3)} for n in (*range(40, 60), 2**40)]
    new.append({"id": None, "name": "no id", "value": None, "tags": "t"})
    dk.append(table, new)
    model: list[Row] = [row | {"tags": None} for row in old] + new
    for names in (["id", "tags"], ["id", "name", "value", "tags"], ["id"], ["id", "value"]):
        keys = [*choice.sample([*range(30, 70), 2**40, -5], 12), None]
        given = [{"id": k, "name": f"s{k}", "value": 0.5, "tags": None} for k in keys]
        source = [{n: row[n] for n in names} for row in given]
        before = row_ids(table, version)
        clause: Any = dk.Clause("update", where="source.id is not null or target.value > 0")
        dk.merge(table, source, on="id", when_matched=clause, mode=mode, engine=LocalEngine(2))
        by_key = {row["id"]: row for row in source if row["id"] is not None}
        known = {row["id"] for row in model}
        model = [row | by_key.get(row["id"], {}) for row in model]
        none = dict.fromkeys(["id", "name", "value", "tags"])
        model += [none | row for row in source if row["id"] is None or row["id"] not in known]
        assert live(table) == expected(model)
        if mode != "equality-delete":
            after = row_ids(table, version)
            assert {k: after[k] for k in before} == before


def row_ids(table: dk.Table, version: int) -> dict[Any, Any]:
    """The row ids of a v3 table by `id`, of the rows that have a key."""
    if version < 3:
        return {}
    found = dk.scan(table, "id is not null", columns=["id", "_row_id"]).to_arrow().to_pydict()
    return dict(zip(found["id"], found["_row_id"], strict=True))
