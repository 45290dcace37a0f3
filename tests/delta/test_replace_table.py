"""CREATE OR REPLACE TABLE in one log: followed, or refused by name; a file's column is never read as another one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.commit.racing import Interfering
from tests.delta.handmade import HandMade, Json, remove, with_vector
from tests.delta.reading import arrow_by_deltalake, check_synced, our_rows, plain
from tests.interop.rows import same_rows

ARROW = {"long": pa.int64(), "string": pa.string(), "double": pa.float64(), "integer": pa.int32()}


@pytest.fixture
def delta(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "delta")


def sync(delta: HandMade, catalog: dk.Catalog, **options: Any) -> dk.DeltaSync:
    return dk.sync_delta(delta.path, catalog, "t.d", **options)


def ids(table: dk.Table) -> list[int]:
    return sorted(dk.scan(table).to_arrow()["id"].to_pylist())


def shape(delta: HandMade, *columns: tuple[str, str], mapped: dict[str, tuple[int, str]] | None = None) -> None:
    """Give the table columns; `mapped` has id and physical name of each."""
    fields: list[Json] = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns]
    for field in fields if mapped else ():
        number, name = (mapped or {})[field["name"]]
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}
    delta.schema = json.dumps({"type": "struct", "fields": fields})
    delta.configuration = {"delta.columnMapping.mode": "name"} if mapped else {}
    delta.features = ("deletionVectors", "columnMapping") if mapped else ("deletionVectors",)


def file(delta: HandMade, **values: Any) -> Json:
    """A data file with a row, written as Delta does: by physical names, with ids under column mapping."""
    arrays, fields, parts = [], [], {}
    for field in json.loads(delta.schema)["fields"]:
        if field["name"] not in delta.partition_columns and field["type"] != "void":
            name = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
            number = field["metadata"].get("delta.columnMapping.id")
            metadata = None if number is None else {b"PARQUET:field_id": str(number).encode()}
            fields.append(pa.field(name, ARROW[field["type"]], metadata=metadata))
            arrays.append(pa.array([values.get(field["name"])], fields[-1].type))
            continue
        physical = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
        if field["name"] in delta.partition_columns:
            parts[physical] = None if values.get(field["name"]) is None else str(values[field["name"]])
    stats = json.dumps({"numRecords": 1})
    return delta.data(pa.table(arrays, schema=pa.schema(fields)), partitionValues=parts, stats=stats)


@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.parametrize("options", [{}, {"commits": "each"}, {"verify": True}], ids=str)
def test_it_is_followed(delta: HandMade, catalog: dk.Catalog, options: dict[str, Any], format_version: int) -> None:
    """Once, several times between two syncs, with a restore of what was before, and by an empty table."""
    first, second, third = (delta.data(range(i, i + 3)) for i in (0, 10, 20))
    deleted = with_vector(first, delta.vector([1]))
    delta.commit(deleted)
    sync(delta, catalog, format_version=format_version)
    steps: list[tuple[list[list[Json]], list[int]]] = [
        ([[delta.metadata("b"), remove(deleted), second]], [10, 11, 12]),
        ([[delta.metadata("c"), remove(second), third], [delta.metadata("d"), remove(third), second]], [10, 11, 12]),
        ([[delta.metadata("e"), remove(second), third], [delta.metadata("d"), remove(third), second]], [10, 11, 12]),
        ([[delta.metadata(), delta.protocol(), remove(second), first]], [0, 1, 2]),
        ([[delta.metadata("f"), remove(first)]], []),
        ([[delta.metadata("g")]], []),
        ([[delta.metadata("h")], [third]], [20, 21, 22]),
    ]
    for commits, expected in steps:
        for actions in commits:
            delta.commit(*actions)
        done = sync(delta, catalog, **options)
        assert (done.version, ids(done.table)) == (delta.version - 1, expected)
        assert not sync(delta, catalog).commits
        check_synced(done.table)
    assert dk.verify(done.table, level="data").ok


def test_a_log_that_no_longer_reaches_back_is_refused(delta: HandMade, catalog: dk.Catalog) -> None:
    add = delta.data(range(3))
    delta.commit(add)
    sync(delta, catalog)
    delta.commit(delta.metadata("b"), remove(add), delta.data(range(3, 6)))
    delta.commit(delta.data(range(6, 9)))
    from tests.delta.test_sync import write_checkpoint  # noqa: PLC0415

    live = [json.loads(line) for v in (1, 2) for line in delta.log(v).read_text().splitlines()]
    state = [delta.protocol(), delta.metadata("b"), *(a for a in live if "add" in a)]
    write_checkpoint(delta, 2, state)
    for version in (0, 1):
        delta.log(version).unlink()
    with pytest.raises(dk.InvalidInputError) as e:
        sync(delta, catalog)
    assert (e.value.kind, e.value.found) == ("delta-table-replaced", "b")
    assert ids(dk.load_table(catalog, "t.d")) == [0, 1, 2]
    assert ids(sync(delta, catalog, force=True).table) == list(range(3, 9))


@pytest.mark.parametrize("versions", [1, 3], ids=["as long", "longer"])
def test_another_table_in_its_place_is_refused(delta: HandMade, catalog: dk.Catalog, versions: int) -> None:
    """A folder that was emptied and written anew has the id at no earlier version."""
    delta.commit(delta.data(range(3)))
    sync(delta, catalog)
    delta.version = 0
    for number in range(versions):
        first = [delta.protocol(), delta.metadata("b")] if number == 0 else [delta.metadata("b")]
        actions = [*first, delta.data(range(number, number + 1))]
        delta.log(number).write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(dk.InvalidInputError) as e:
        sync(delta, catalog)
    assert e.value.kind == "delta-table-replaced"


def test_a_sync_that_a_replacing_one_overtakes(delta: HandMade, catalog: dk.Catalog) -> None:
    add = delta.data(range(3))
    delta.commit(add)
    sync(delta, catalog)
    delta.commit(delta.data(range(3, 6)))
    racing = Interfering(catalog)

    def ahead() -> None:
        delta.commit(delta.metadata("b"), remove(add))
        sync(delta, catalog)

    racing.others.append(ahead)
    done = dk.sync_delta(delta.path, racing, "t.d")
    assert (done.version, done.commits, ids(done.table)) == (2, (), [3, 4, 5])


A, B = (1, "col-a"), (2, "col-b")
SHAPES: dict[str, Any] = {
    "the same": ([("a", "long"), ("b", "string")], None, ()),
    "in another order": ([("b", "string"), ("a", "long")], None, ()),
    "others": ([("x", "string"), ("y", "long")], None, ()),
    "one more, one less": ([("a", "long"), ("c", "double")], None, ()),
    "narrower": ([("a", "integer"), ("b", "string")], None, ()),
    "other types": ([("a", "string"), ("b", "long")], None, ()),
    "partitioned": ([("a", "long"), ("b", "string")], None, ("b",)),
    "partitioned by another": ([("a", "long"), ("b", "string")], None, ("a",)),
    "mapped": ([("a", "long"), ("b", "string")], {"a": A, "b": B}, ()),
    "mapped, partitioned": ([("a", "long"), ("b", "string")], {"a": A, "b": B}, ("b",)),
    "mapped anew": ([("a", "long"), ("b", "string")], {"a": (1, "new-a"), "b": (2, "new-b")}, ()),
    "mapped, ids again": ([("b", "string"), ("a", "long")], {"b": (1, "new-b"), "a": (2, "new-a")}, ()),
    "mapped, ids of others": ([("x", "long"), ("y", "string")], {"x": (1, "new-x"), "y": (2, "new-y")}, ()),
    "mapped, ids go on": ([("a", "long"), ("b", "string")], {"a": (7, "n7"), "b": (8, "n8")}, ()),
    "mapped, renamed": ([("z", "long"), ("b", "string")], {"z": A, "b": B}, ()),
    "mapped under plain names": ([("b", "string"), ("a", "long")], {"b": (1, "b"), "a": (2, "a")}, ()),
}
REFUSED = {"delta-schema-change", "delta-column-ids"}


@pytest.mark.peers
@pytest.mark.parametrize("seed", range(12))
def test_random_replacements_have_deltas_rows(  # noqa: PLR0915  # one history, step by step
    delta: HandMade, catalog: dk.Catalog, seed: int
) -> None:
    """Tables that are replaced by others, restored and appended to: each version has Delta's rows, and every older
    snapshot still has the rows that it had; or the sync is refused, and the table is as it was.
    """
    rng = random.Random(seed)
    version = rng.choice([2, 3])
    live: list[Json] = []
    states: list[tuple[Json, Json, list[Json], str]] = []
    seen: dict[int, list[dict[str, Any]]] = {}
    name, refused, value = "the same", 0, 0
    for number in range(14):
        what = rng.choice(["replace", "replace", "append", "restore"]) if number else "replace"
        if what == "restore":
            meta, protocol, old, name = rng.choice(states)
            columns, mapped, parts = SHAPES[name]
            shape(delta, *columns, mapped=mapped)
            delta.partition_columns = parts
            gone = [remove(a) for a in live if a not in old]
            delta.commit(meta, protocol, *gone, *(a for a in old if a not in live))
            live = list(old)
        else:
            if what == "replace":
                name = rng.choice(list(SHAPES)) if number else rng.choice(["the same", "mapped"])
            columns, mapped, parts = SHAPES[name]
            shape(delta, *columns, mapped=mapped)
            delta.partition_columns = parts
            kinds = dict(columns)
            value += 1
            row = {n: str(value) if kinds[n] == "string" else value for n in kinds}
            gone = [remove(a) for a in live] if what == "replace" else []
            first = [delta.metadata(f"table {number}"), delta.protocol()] if what == "replace" else []
            if delta.version == 0:
                first = []
            new = file(delta, **row)
            delta.commit(*first, *gone, new)
            live = [new] if what == "replace" else [*live, new]
            if what == "replace":
                meta, protocol = delta.metadata(f"table {number}" if number else "handmade"), delta.protocol()
        states.append((meta, protocol, list(live), name))
        if rng.random() < 0.3:
            continue  # the next sync takes several versions along
        before = dk.load_table(catalog, "t.d").metadata_location if seen else None
        try:
            table = sync(delta, catalog, format_version=version).table
        except dk.DeletekitError as e:
            assert e.kind in REFUSED and "sync" in str(e.expected)  # noqa: PT017, PT018  # most syncs are not refused
            assert before is None or dk.load_table(catalog, "t.d").metadata_location == before
            refused += 1
            continue
        expected = plain(arrow_by_deltalake(delta.path))
        same_rows(our_rows(table), expected)
        head = table.metadata.current_snapshot
        assert head is not None
        seen[head.snapshot_id] = our_rows(table)
        for snapshot_id, rows in seen.items():
            same_rows(plain(dk.scan(table, snapshot_id=snapshot_id).to_arrow()), rows)
    assert len(seen) > 1 or refused
    check_synced(dk.load_table(catalog, "t.d"))


def test_a_column_that_comes_back_has_its_id(delta: HandMade, catalog: dk.Catalog) -> None:
    """Else files without ids would have it under another id, and older snapshots would show NULL."""
    shape(delta, ("id", "long"), ("v", "string"))
    add = file(delta, id=1, v="x")
    delta.commit(add)
    first = sync(delta, catalog).commit.snapshot_id
    shape(delta, ("id", "long"))
    delta.commit(delta.metadata("b"), remove(add), other := file(delta, id=2))
    sync(delta, catalog)
    shape(delta, ("id", "long"), ("v", "string"))
    delta.commit(delta.metadata(), remove(other), add)
    table = sync(delta, catalog).table
    assert [f.field_id for f in table.schema.fields] == [1, 2]
    for at in (first, None):
        assert dk.scan(table, snapshot_id=at).to_arrow().to_pylist() == [{"id": 1, "v": "x"}]
    shape(delta, ("id", "long"))
    delta.commit(delta.metadata("c"), remove(add), other)
    sync(delta, catalog)
    shape(delta, ("id", "long"), ("v", "long"))
    delta.commit(delta.metadata("d"), remove(other), file(delta, id=3, v=4))
    with pytest.raises(dk.UnsupportedError) as e:
        sync(delta, catalog)
    assert (e.value.kind, e.value.field) == ("delta-schema-change", "v")
    dk.clean_up_delta(dk.load_table(catalog, "t.d"), older_than=2**61)
    table = sync(delta, catalog).table
    assert dk.scan(table).to_arrow().to_pylist() == [{"id": 3, "v": 4}], "no snapshot has the old column any more"


@pytest.mark.parametrize("restarts", [True, False])
def test_row_ids_that_begin_again_are_not_carried(delta: HandMade, catalog: dk.Catalog, restarts: bool) -> None:
    delta.configuration = {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col",
    }
    add = delta.data(range(3), baseRowId=0, defaultRowCommitVersion=0)
    delta.commit(add)
    sync(delta, catalog)
    again = delta.data(range(3, 6), baseRowId=0 if restarts else 3, defaultRowCommitVersion=1)
    delta.commit(delta.metadata("b"), remove(add), again)
    table = sync(delta, catalog).table
    found = dk.scan(table, columns=["_row_id"]).to_arrow()["_row_id"].to_pylist()
    assert found == [3, 4, 5], "no id is given twice"
    assert ("deletekit.delta-row-ids" in table.properties) is not restarts
