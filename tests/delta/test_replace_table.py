"""CREATE OR REPLACE TABLE in one log: followed, or refused by name; a file's column is never read as another one."""

import json
import random
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.commit.racing import Interfering
from tests.delta.handmade import HandMade, Json, remove, with_vector
from tests.delta.reading import arrow_by_deltalake, check_synced, our_rows, plain, raises_kind, sync
from tests.interop.rows import same_rows
from tests.tables import ids, refused

ARROW = {"long": pa.int64(), "string": pa.string(), "double": pa.float64(), "integer": pa.int32()}


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
    """A data file with a row, written as Delta does: by physical names, with ids under column mapping.

    An empty partition value is NULL in the log, and stays in the file. No column of type void is in it.
    """
    arrays, fields, parts = [], [], {}
    for field in json.loads(delta.schema)["fields"]:
        value, is_part = values.get(field["name"]), field["name"] in delta.partition_columns
        name = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
        number = field["metadata"].get("delta.columnMapping.id")
        metadata = None if number is None else {b"PARQUET:field_id": str(number).encode()}
        if is_part:
            parts[name] = None if value in (None, "") else str(value)
        if field["type"] != "void" and (not is_part or value == ""):
            fields.append(pa.field(name, ARROW[field["type"]], metadata=metadata))
            arrays.append(pa.array([value], fields[-1].type))
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
    with raises_kind("delta-table-replaced", found="b"):
        sync(delta, catalog)
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
    with raises_kind("delta-table-replaced"):
        sync(delta, catalog)


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
    "void": ([("a", "long"), ("n", "void")], None, ()),
    "void with a type": ([("a", "long"), ("n", "double")], None, ()),
    "mapped, void": ([("a", "long"), ("n", "void")], {"a": A, "n": (3, "col-n")}, ()),
    "odd names": ([("a.b", "long"), ("é% ü", "string"), ("`", "long")], None, ()),
    "partitioned by odd names": ([("a.b", "long"), ("é% ü", "string")], None, ("é% ü",)),
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


class History:
    """A table that is replaced by others, restored and appended to, at random."""

    def __init__(self, delta: HandMade, seed: int) -> None:
        self.delta, self.rng = delta, random.Random(seed)
        self.live: list[Json] = []
        self.states: list[tuple[Json, Json, list[Json], str]] = []
        self.name = "the same"

    def step(self) -> None:
        delta, rng, is_first = self.delta, self.rng, not self.states
        what = "replace" if is_first else rng.choice(["replace", "replace", "append", "restore"])
        if what == "restore":
            meta, protocol, old, self.name = rng.choice(self.states)
            self._shape()
            gone = [remove(a) for a in self.live if a not in old]
            delta.commit(meta, protocol, *gone, *(a for a in old if a not in self.live))
            self.live = list(old)
        else:
            if what == "replace":
                self.name = rng.choice(["the same", "mapped"] if is_first else list(SHAPES))
            self._shape()
            meta, protocol = self._same() if what == "append" else (self._metadata(), delta.protocol())
            new = file(delta, **self._row())
            if what == "append":
                delta.commit(new)
            else:
                delta.commit(*([] if is_first else [meta, protocol]), *map(remove, self.live), new)
            self.live = [*self.live, new] if what == "append" else [new]
        self.states.append((meta, protocol, list(self.live), self.name))

    def rows(self, format_version: int) -> list[dict[str, Any]]:
        """The rows of Delta, without the columns that the version has no type for."""
        void = {n for n, kind in SHAPES[self.name][0] if kind == "void" and format_version == 2}
        found = plain(arrow_by_deltalake(self.delta.path))
        return [{n: v for n, v in row.items() if n not in void} for row in found]

    def _shape(self) -> None:
        columns, mapped, self.delta.partition_columns = SHAPES[self.name]
        shape(self.delta, *columns, mapped=mapped)

    def _same(self) -> tuple[Json, Json]:
        return self.states[-1][:2]

    def _metadata(self) -> Json:
        return self.delta.metadata(f"table {self.delta.version}" if self.states else "handmade")

    def _row(self) -> dict[str, Any]:
        value, empty = self.delta.version, self.rng.random() < 0.3
        kinds = dict(SHAPES[self.name][0])
        row: dict[str, Any] = {n: str(value) if kinds[n] == "string" else value for n in kinds}
        return row | {n: "" for n in self.delta.partition_columns if empty and kinds[n] == "string"}


@pytest.mark.sampled(3, tier=1)
@pytest.mark.peers
@pytest.mark.parametrize("seed", range(12))
def test_random_replacements_have_deltas_rows(delta: HandMade, catalog: dk.Catalog, seed: int) -> None:
    """Each version has Delta's rows, and every older snapshot still has the rows that it had; or the sync is refused,
    with the way out, and the table is as it was.
    """
    history, format_version = History(delta, seed), 2 + seed % 2
    seen: dict[int, list[dict[str, Any]]] = {}
    refused = 0
    for _ in range(14):
        history.step()
        if history.rng.random() < 0.3:
            continue  # the next sync takes several versions along
        before = dk.load_table(catalog, "t.d").metadata_location if seen else None
        try:
            table = sync(delta, catalog, format_version=format_version).table
        except dk.DeletekitError as e:
            assert e.kind in REFUSED  # noqa: PT017
            assert "sync" in str(e.expected)  # noqa: PT017
            assert before is None or dk.load_table(catalog, "t.d").metadata_location == before
            refused += 1
            continue
        same_rows(our_rows(table), history.rows(format_version))
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
    for options in ({}, {"commits": "each"}):
        with refused(table, dk.UnsupportedError, "delta-schema-change", field="v"):  # and nothing is written
            sync(delta, catalog, **options)
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
