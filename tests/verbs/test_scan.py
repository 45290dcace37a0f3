"""Scans and counts: which rows, which columns, of which snapshot."""

import datetime as dt
import json
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import EqualTo, Not, NotIn

import deletekit as dk
from deletekit.formats.reserved_fields import POS_ID
from deletekit.verbs.scan import METADATA_COLUMNS
from tests.maintenance.damage import edit_file
from tests.storage import stored_at
from tests.stored import entries, head_json, live_files, metadata_json, parquet, snapshots_json
from tests.tables import VERSION_AND_MODE, Row, expected, ids, items, live, make, raises
from tests.verbs.three_valued import FILTERS, LOGIC, ROWS, sqlite_ids

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
EVERY_VERSION = pytest.mark.parametrize("version", [1, 2, 3])


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
@pytest.mark.parametrize("partition_by", [["a"], ["truncate(1, s)", "bucket(2, b)"]], ids=str)
def test_the_rows_that_sqlite_finds(catalog: dk.Catalog, version: int, mode: str, partition_by: list[str]) -> None:
    """NULL is neither equal nor unequal to anything, also where files are skipped by their partitions and bounds."""
    table = make(
        catalog, ROWS[:10], ROWS[10:30], ROWS[30:], schema=LOGIC, format_version=version, partition_by=partition_by
    )
    dk.delete(table, "id = 3 or id = 17", mode=mode)
    left = [row for row in ROWS if row["id"] not in (3, 17)]
    at = VERSION_AND_MODE.index((version, mode))
    for number, where in enumerate(FILTERS[at::3]):  # all of them in some mode
        chosen = sqlite_ids(left, where)
        assert ids(table, where) == chosen if number % 2 else dk.scan(table, where).count() == len(chosen), where


def test_filters_may_be_expressions(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    assert ids(table, Not(EqualTo("category", "a"))) == [3], "NULL is not chosen by NOT either"
    assert ids(table, NotIn("category", ["a", "z"])) == [3]


PERSON = pa.schema(
    [("id", pa.int32()), ("p", pa.struct([("name", pa.string()), ("n", pa.struct([("x", pa.int64())]))]))]
)
PEOPLE: list[Row] = [
    {"id": 1, "p": {"name": "Ann", "n": {"x": 1}}},
    {"id": 2, "p": {"name": None, "n": None}},
    {"id": 3, "p": None},
    {"id": 4, "p": {"name": "Bob", "n": {"x": None}}},
]


@EVERY_VERSION
def test_nested_fields_in_filters_and_columns(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, PEOPLE, schema=PERSON, format_version=version)
    assert ids(table, "p.name = 'Ann'") == [1]
    assert ids(table, "p.n.x is null") == [2, 3, 4]
    assert ids(table, "p.name != 'Ann'") == [4]
    assert dk.scan(table, columns=["p.name"]).to_arrow().to_pylist() == [
        {"p": {"name": "Ann"}}, {"p": {"name": None}}, {"p": None}, {"p": {"name": "Bob"}},
    ]  # fmt: skip
    assert dk.scan(table, "p.n.x = 1", columns=["id"]).to_arrow().to_pylist() == [{"id": 1}]


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_metadata_columns(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, FIVE, format_version=version, partition_by=["category"])
    dk.delete(table, "id in (1, 3)", mode=mode)
    dk.drop_partition_field(table, "category")
    dk.append(table, FIVE[:1])
    found = dk.scan(table, columns=["_pos", "id", "_file", "_spec_id", "_deleted"]).to_arrow()
    for row in found.to_pylist():
        assert parquet(row["_file"])["id"][row["_pos"]].as_py() == row["id"]
    spec_of = {f["file_path"]: spec for f, spec in files_and_specs(table)}
    assert {(r["_file"], r["_spec_id"]) for r in found.to_pylist()} == set(spec_of.items())
    stored = [r for path in spec_of for r in parquet(path)["id"].to_pylist()]
    assert sorted(found["id"].to_pylist()) == sorted(stored), "with _deleted, deleted rows come too"
    kept = found.filter(pc.invert(found["_deleted"]))
    assert sorted(kept["id"].to_pylist()) == ids(table)


def files_and_specs(table: dk.Table) -> list[tuple[dict[str, Any], int]]:

    return [(e["data_file"], e["listed"]["partition_spec_id"]) for e in entries(table, 0) if e["status"] != 2]


def test_deleted_is_false_where_nothing_is_deleted(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    assert dk.scan(table, columns=["_deleted"]).to_arrow()["_deleted"].to_pylist() == [False] * 5


@pytest.mark.parametrize("columns", [["nope"], ["id", "_nope"], ["p.name"], []], ids=str)
def test_columns_that_are_not_there(catalog: dk.Catalog, columns: list[str]) -> None:
    table = make(catalog, FIVE)
    with raises(dk.InvalidInputError, "column-not-found", field=columns[-1] if columns else "columns"):
        dk.scan(table, columns=columns)


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize(
    "where",
    ["nope = 1", "id =", "id = 'one'", "id = 1.5", "category = 1", "category like 5", "id = 1 and", 5, "p.x = 1"],
    ids=str,
)
@pytest.mark.parametrize("verb", ["scan", "delete", "update", "explain"])
def test_filters_that_cannot_be(catalog: dk.Catalog, where: Any, verb: str) -> None:
    table = make(catalog, FIVE)
    calls = {
        "scan": lambda: dk.scan(table, where),
        "delete": lambda: dk.delete(table, where),
        "update": lambda: dk.update(table, {"value": 1.0}, where=where),
        "explain": lambda: dk.explain(table, where),
    }
    with raises(dk.InvalidInputError, "argument" if where == 5 else "filter", field="where"):
        calls[verb]()


# --- batches and counts -----------------------------------------------------------------------------------------------


def test_a_table_without_a_snapshot(catalog: dk.Catalog) -> None:
    table = make(catalog)
    scan = dk.scan(table)
    assert (scan.snapshot, scan.plan(), list(scan.to_batches()), scan.count()) == (None, [], [], 0)
    assert scan.to_arrow().column_names == ["id", "category", "value"]


@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_count_is_the_number_of_rows(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, FIVE, FIVE[:1], format_version=version, partition_by=["category"])
    for i in range(1, 6):
        assert dk.scan(table).count() == len(live(table))
        assert dk.scan(table, "category = 'a'").count() == len(live(table, "category = 'a'"))
        assert dk.scan(table, columns=["_deleted"]).count() == len(dk.scan(table, columns=["_deleted"]).to_arrow())
        dk.delete(table, f"id = {i}", mode=mode)
    assert dk.scan(table).count() == 0


@pytest.mark.parametrize(("version", "mode"), [vm for vm in VERSION_AND_MODE if vm[1] != "equality-delete"])
def test_count_reads_no_data_file_where_it_need_not(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, FIVE, format_version=version)
    dk.delete(table, "id = 1", mode=mode)
    for file in live_files(table, 0):
        stored_at(file["file_path"]).unlink()
    assert dk.scan(table).count() == 8
    with pytest.raises(dk.NotFoundError):
        dk.scan(table, "id > 0").count()


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_count_opens_no_vector_of_ours(catalog: dk.Catalog, granularity: str) -> None:
    properties = {"write.delete.granularity": granularity}
    table = make(catalog, FIVE, FIVE, items((8, "z", 1.0)), format_version=3, properties=properties)
    dk.delete(table, "id in (1, 5)", mode="deletion-vector")
    dk.update(table, {"value": 7.0}, where="id = 4", mode="deletion-vector")
    dk.delete(table, "id = 2", mode="deletion-vector")  # merged into the vectors that are there
    expected_rows = len(live(table))
    vectors = live_files(table, 1)
    assert sum(v["record_count"] for v in vectors) == 8
    assert dk.verify(table, level="data").findings == ()
    dk.rewrite_manifests(table)
    for path in {v["file_path"] for v in vectors}:
        stored_at(path).unlink()
    assert dk.scan(table.refresh()).count() == expected_rows == 5
    assert dk.scan(table, limit=2).count() == 2
    with pytest.raises(dk.NotFoundError):
        dk.scan(table).to_arrow()


BOUNDS = {"none": None, "of the last row": 4, "behind the end": 5, "below the cardinality": 0, "negative": -1}


@pytest.mark.parametrize("case", BOUNDS)
def test_count_opens_a_vector_unless_its_entry_proves_that_no_position_is_behind_the_end(
    catalog: dk.Catalog, case: str
) -> None:
    table = make(catalog, FIVE, format_version=3)
    dk.delete(table, "id in (1, 5)", mode="deletion-vector")
    bound = None if BOUNDS[case] is None else BOUNDS[case].to_bytes(8, "little", signed=True)  # type: ignore[union-attr]
    edit_file(table, 1, upper_bounds=[{"key": POS_ID, "value": bound}] if bound else None)
    assert dk.scan(table).count() == len(live(table)) == 3
    stored_at(live_files(table, 1)[0]["file_path"]).unlink()
    if case == "of the last row":
        assert dk.scan(table).count() == 3
    else:
        with pytest.raises(dk.NotFoundError):
            dk.scan(table).count()


def test_count_reads_what_equality_deletes_may_hide(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, items((8, "z", 1.0)))
    dk.delete_keys(table, [{"id": 1}, {"id": 77}])
    assert dk.scan(table).count() == 5


# --- time travel ------------------------------------------------------------------------------------------------------


def as_utc(millis: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=millis)


def test_as_of(catalog: dk.Catalog) -> None:
    table = make(catalog)
    log: list[tuple[int, list[int]]] = []
    for row in FIVE:
        dk.append(table, [row])
        log.append((head_json(table)["timestamp-ms"], ids(table)))
        time.sleep(0.002)
    assert len({at for at, _ in log}) == 5
    for at, found in log:
        assert ids(table, as_of=at) == found
        assert ids(table, as_of=as_utc(at)) == found
        assert ids(table, as_of=as_utc(at).replace(tzinfo=None)) == found, "without a zone it is UTC"
        assert ids(table, as_of=as_utc(at).astimezone(dt.timezone(dt.timedelta(hours=-7)))) == found
        assert ids(table, as_of=as_utc(at).isoformat()) == found
        assert ids(table, as_of=at - 1) == found[:-1] if len(found) > 1 else True
    assert ids(table, as_of=log[-1][0] + 10**9) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("millis", [1_700_000_000_123, 1_726_541_234_567, 999])
def test_as_of_is_exact_to_the_millisecond(catalog: dk.Catalog, millis: int) -> None:
    """A snapshot of that very millisecond is found, whichever way the moment is given."""
    table = make(catalog, FIVE[:1])
    moved = metadata_json(table)
    moved["snapshots"][0]["timestamp-ms"] = moved["snapshot-log"][0]["timestamp-ms"] = millis
    stored_at(table.metadata_location).write_text(json.dumps(moved))
    table.refresh()
    for at in (millis, as_utc(millis), as_utc(millis).isoformat()):
        assert ids(table, as_of=at) == [1]
    for at in (millis - 1, as_utc(millis) - dt.timedelta(microseconds=1)):
        with raises(dk.NotFoundError, "snapshot-not-found"):
            dk.scan(table, as_of=at)


def test_the_log_of_snapshots_need_not_be_sorted(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:1], FIVE[1:2])
    moved = metadata_json(table)
    first, second = moved["snapshot-log"]
    first["timestamp-ms"], second["timestamp-ms"] = 2000, 1000
    moved["snapshot-log"] = [first, second]
    stored_at(table.metadata_location).write_text(json.dumps(moved))
    table.refresh()
    assert ids(table, as_of=1500) == [1, 2]
    assert ids(table, as_of=2500) == [1]


@EVERY_VERSION
def test_schemas_of_the_past(catalog: dk.Catalog, version: int) -> None:
    """A snapshot and a tag are read with the schema they were written with, a branch with the table's."""
    table = make(catalog, FIVE[:2], format_version=version)
    then = head_json(table)["snapshot-id"]
    dk.create_branch(table, "branch")
    dk.create_tag(table, "tag")
    dk.rename_column(table, "category", "kind")
    dk.drop_column(table, "value")
    dk.append(table, [{"id": 9, "kind": "z"}])
    old, new = ["id", "category", "value"], ["id", "kind"]
    assert dk.scan(table).to_arrow().column_names == new
    assert dk.scan(table, ref="branch").to_arrow().column_names == new
    assert dk.scan(table, ref="tag").to_arrow().column_names == old
    assert dk.scan(table, snapshot_id=then).to_arrow().column_names == old
    assert live(table, snapshot_id=then) == live(table, ref="tag") == expected(FIVE[:2])
    assert ids(table, "kind = 'a'", ref="branch") == ids(table, "category = 'a'", ref="tag") == [1]


@pytest.mark.parametrize(
    ("options", "error", "kind"),
    [
        ({"snapshot_id": 1}, dk.NotFoundError, "snapshot-not-found"),
        ({"ref": "nope"}, dk.NotFoundError, "ref-not-found"),
        ({"as_of": 5}, dk.NotFoundError, "snapshot-not-found"),
        ({"as_of": "yesterday"}, dk.InvalidInputError, "time-travel"),
        ({"as_of": 1.5}, dk.InvalidInputError, "argument"),
        ({"as_of": 5, "ref": "b"}, dk.InvalidInputError, "time-travel"),
        ({"snapshot_id": 1, "as_of": 5}, dk.InvalidInputError, "time-travel"),
    ],
    ids=str,
)
def test_snapshots_that_are_not_there(
    catalog: dk.Catalog, options: dict[str, Any], error: type[dk.DeletekitError], kind: str
) -> None:
    table = make(catalog, FIVE)
    for verb in (dk.scan, dk.inspect, lambda t, **o: dk.explain(t, "true", **o)):
        with pytest.raises(error) as caught:
            verb(table, **options)
        assert (type(caught.value), caught.value.kind) == (error, kind)


# --- handles ----------------------------------------------------------------------------------------------------------


def test_a_handle_sees_the_state_it_loaded(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:1])
    other = dk.load_table(catalog, table.name)
    dk.append(other, FIVE[1:])
    assert (ids(table), ids(other)) == ([1], [1, 2, 3, 4, 5])
    assert ids(table.refresh()) == [1, 2, 3, 4, 5]


def test_a_table_opened_by_its_files(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    for where in (table.location, table.metadata_location):
        assert live(dk.from_metadata(where)) == expected(FIVE[1:])


def test_a_table_of_pyiceberg(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.delete(table, "id = 1", mode="position-delete")
    theirs = catalog.pyiceberg.load_table(table.name)
    ours = dk.from_pyiceberg(theirs)
    assert live(ours) == expected(FIVE[1:]) == expected(theirs.scan().to_arrow().to_pylist())
    assert len(snapshots_json(ours)) == 2


@pytest.mark.parametrize("where", [None, "id > 1"])
@pytest.mark.parametrize("name", METADATA_COLUMNS)
def test_a_tables_own_column_is_read_before_a_metadata_column(
    catalog: dk.Catalog, name: str, where: str | None
) -> None:
    rows = pa.table({"id": [1, 2, 3], name: ["a", "b", "c"]})
    table = dk.create_table(catalog, "demo.own", rows.schema, format_version=2)
    dk.append(table, rows)
    dk.delete(table, "id = 2", mode="position-delete")
    found = dk.scan(table, where)
    expected = [row for row in rows.to_pylist() if row["id"] != 2 and (where is None or row["id"] > 1)]
    assert found.to_arrow().to_pylist() == expected
    assert dk.scan(table, where, columns=[name]).to_arrow().to_pylist() == [{name: row[name]} for row in expected]
    assert found.count() == len(expected)


@EVERY_VERSION
def test_columns_come_in_the_order_asked_for(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version)
    found = dk.scan(table, "id < 3", columns=["value", "id"]).to_arrow()
    assert found.to_pydict() == {"value": [1.0, 2.0], "id": [1, 2]}
    assert found.schema.field("id").nullable is False
    assert found.schema.field("value").nullable is True
