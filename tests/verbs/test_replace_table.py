"""CREATE OR REPLACE: another schema, no row, and the same table."""

import pyarrow as pa
import pytest

import deletekit as dk
from tests.commit.racing import QUICK, Interfering
from tests.invariants import check_table
from tests.stored import live_files, metadata_json
from tests.tables import ITEMS, files_of, items, live, make, refused

OTHER = pa.schema(
    [
        ("value", pa.float64()),
        ("id", pa.string()),
        ("s", pa.struct([("a", pa.int32()), ("l", pa.list_(pa.string()))])),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)


@pytest.mark.parametrize("version", [2, 3])
def test_a_replaced_table_is_empty_and_remembers(catalog: dk.Catalog, version: int) -> None:
    table = make(
        catalog, items((1, "a", 1.0)), format_version=version, partition_by="category", properties={"owner": "ada"}
    )
    dk.create_tag(table, "before")
    first, uuid = table.current_snapshot, table.metadata.table_uuid
    new = dk.create_table(
        catalog,
        table.identifier,
        OTHER,
        partition_by=["bucket(4, id)"],
        sort_by="value desc",
        properties={"write.delete.mode": "merge-on-read"},
        replace=True,
    )
    raw = metadata_json(new)
    assert (new.metadata.table_uuid, new.location, new.format_version) == (uuid, table.location, version)
    assert new.current_snapshot is None
    assert live(new) == []
    assert new.properties == {"owner": "ada", "write.delete.mode": "merge-on-read"}
    found = {f.name: f.field_id for f in new.schema.fields}
    assert found == {"value": 3, "id": 4, "s": 5, "m": 9}, "value is the column it was, id has another type"
    assert raw["last-column-id"] == 11
    assert [f["field-id"] for f in raw["partition-specs"][-1]["fields"]] == [1001]
    assert raw["sort-orders"][-1]["fields"][0]["source-id"] == 3
    dk.append(new, [{"value": 1.0, "id": "x", "s": {"a": 1, "l": ["y"]}, "m": [("k", 2)]}])
    assert len(live(new)) == 1
    assert first is not None
    old = dk.scan(new, snapshot_id=first.snapshot_id).to_arrow()
    assert old.to_pylist() == items((1, "a", 1.0))
    check_table(new)
    assert not [f for f in dk.verify(new).findings if f.severity == "error"]


def test_what_is_the_same_keeps_its_ids(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0)), partition_by="category")
    before = metadata_json(table)
    dk.create_table(catalog, table.identifier, ITEMS, partition_by="category", replace=True)
    after = metadata_json(table.refresh())
    for name in ("schemas", "partition-specs", "sort-orders", "last-column-id", "last-partition-id"):
        assert after[name] == before[name], name
    assert live(table) == []


def test_a_table_that_is_not_there_is_created(catalog: dk.Catalog) -> None:
    table = dk.create_table(catalog, "test.new", ITEMS, replace=True)
    assert live(table) == []


def test_rows_that_land_meanwhile_are_replaced_too(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=ITEMS, properties=QUICK)
    store = Interfering(catalog)
    store.others.append(lambda: dk.append(dk.load_table(catalog, table.name), items((1, "a", 1.0))))
    new = dk.create_table(store, table.identifier, OTHER, replace=True)
    assert (new.current_snapshot, live(new)) == (None, [])


def test_refusals_change_nothing(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0)))
    with refused(table, dk.InvalidInputError, "table-exists"):
        dk.create_table(catalog, table.identifier, OTHER)
    with refused(table, dk.InvalidInputError, "location", field="location"):
        dk.create_table(catalog, table.identifier, OTHER, location="s3://other/place", replace=True)
    with refused(table, dk.InvalidInputError, "property"):
        dk.create_table(catalog, table.identifier, OTHER, properties={"write.delete.mode": "bad"}, replace=True)
    old = make(catalog, items((1, "a", 1.0)), format_version=1)
    with refused(old, dk.UnsupportedError, "format-version", field="replace"):
        dk.create_table(catalog, old.identifier, OTHER, replace=True)


def test_a_dropped_table_leaves_nothing_only_if_asked(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0)), items((2, "b", 2.0)), format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    dk.compact(table, rewrite_all=True)
    files = files_of(table)
    assert dk.drop_table(catalog, table.identifier) == dk.results.DroppedTable()
    assert files_of(table) == files
    assert not catalog.table_exists(table.identifier)
    catalog.register_table("again.t", table.metadata_location)
    again = dk.load_table(catalog, "again.t")
    assert live(again) == items((2, "b", 2.0))
    dk.set_properties(again, {"gc.enabled": "false"})
    with refused(again, dk.InvalidInputError, "gc-disabled"):
        dk.drop_table(catalog, "again.t", purge=True)
    dk.set_properties(again, {"gc.enabled": None})
    gone = dk.drop_table(catalog, "again.t", purge=True)
    assert (gone.kept_files, gone.failed_files) == ((), {})
    assert files_of(again) == set()
    with pytest.raises(dk.NotFoundError):
        dk.drop_table(catalog, "again.t", purge=True)


def test_purging_spares_files_of_others(catalog: dk.Catalog) -> None:
    owner = make(catalog, items((1, "a", 1.0)))
    guest = make(catalog, items((2, "b", 2.0)))
    (foreign,) = (f["file_path"] for f in live_files(owner, 0))
    dk.add_files(guest, [foreign])
    gone = dk.drop_table(catalog, guest.identifier, purge=True)
    assert gone.kept_files == (foreign,)
    assert live(owner) == items((1, "a", 1.0))
