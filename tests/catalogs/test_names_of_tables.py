"""Namespaces, names and metadata files of tables, on every kind of catalog; pyiceberg alone looks at the result."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.maintenance.reachable import Reachability
from tests.catalogs.stores import SCHEMA, Store, on_disk
from tests.delta.handmade import HandMade
from tests.invariants import check_table
from tests.tables import expected, items, live, raises

ROWS = items((1, "a", 10.0), (2, "b", 20.0))
CANNOT = {"metastore"}
"""Catalogs whose pyiceberg class has no request to rename or register."""


def test_a_namespace_is_made_once(store: Store) -> None:
    catalog = store.open()
    catalog.create_namespace(store.namespace)
    assert (store.namespace,) in store.peer().list_namespaces()
    with raises(dk.InvalidInputError, "namespace-exists", found=store.namespace):
        catalog.create_namespace([store.namespace])
    for bad in ("", "a..b", []):
        with raises(dk.InvalidInputError, "identifier", field="namespace"):
            catalog.create_namespace(bad)


NO_NAMES = (
    "..",
    ".",
    "../x",
    "x/../../y",
    "/x",
    "x/",
    "a/b",
    "a\\b",
    "..\\x",
    "a\0",
    "\0",
    "a\nb",
    "\t",
    "\x7f",
    "\x85",
    "\ud800",
)
ODD_NAMES = ("...", "..x", "x..", "%2e%2e", "a b", "a:b", "h\u00f6he", "-", "~")


def test_no_name_leads_out_of_the_warehouse(place: tuple[Store, int]) -> None:
    """Each way that gives a table or a namespace its name, wherever the bad name is among the levels."""
    store, version = place
    catalog, table = store.open(), store.create("t", SCHEMA, format_version=version)
    before, tables = {*store.folder.parent.rglob("*")}, catalog.list_tables(store.namespace)
    namespaces = catalog.list_namespaces()
    delta = HandMade(store.folder.parent / f"delta-{store.folder.name}")
    delta.commit(delta.data(range(3)))
    before |= {*delta.path.rglob("*"), delta.path}
    location = str(store.folder / "elsewhere")
    makers: list[Callable[[Any], Any]] = [
        lambda names: dk.create_table(catalog, names, SCHEMA, format_version=version),
        lambda names: dk.create_table(catalog, names, SCHEMA, format_version=version, location=location),
        lambda names: dk.create_table(catalog, names, SCHEMA, format_version=version, replace=True),
        catalog.create_namespace,
        lambda names: catalog.rename_table(store.full("t"), names),
        lambda names: catalog.register_table(names, table.metadata_location),
        lambda names: dk.sync_delta(delta.path, catalog, names, location=location),
        lambda names: dk.sync_delta(delta.path, catalog, names, location=location, dry_run=True),
    ]
    for number, bad in enumerate(NO_NAMES):
        names = ((store.namespace, bad), (bad, "t"), (store.namespace, bad, "t"))[number % 3]
        for make in makers:
            with pytest.raises(dk.InvalidInputError) as caught:
                make(names)
            assert (caught.value.kind, caught.value.found) == ("identifier", repr(bad))
            assert repr(bad) in str(caught.value)
    assert (catalog.list_tables(store.namespace), catalog.list_namespaces()) == (tables, namespaces)
    assert {*store.folder.parent.rglob("*")} == before


def test_odd_names_are_names(sql_store: Store) -> None:
    catalog = sql_store.open()
    for name in ODD_NAMES:
        for names in ((sql_store.namespace, name), (f"{sql_store.namespace}{name}", "t")):
            table = dk.create_table(catalog, names, SCHEMA)
            assert table.location == str(sql_store.folder.joinpath(*names))
            dk.append(table, ROWS)
            assert live(dk.load_table(sql_store.open(), names)) == expected(ROWS)


def test_a_table_exists_or_not(place: tuple[Store, int]) -> None:
    store, version = place
    catalog = store.open()
    assert not catalog.table_exists(store.full("t"))
    assert not catalog.table_exists("nowhere.t")
    store.create("t", SCHEMA, format_version=version)
    assert catalog.table_exists(store.full("t"))
    catalog.drop_table(store.full("t"))
    assert not catalog.table_exists(store.full("t"))


def test_a_renamed_table_is_the_same_table(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version)
    dk.append(table, ROWS)
    catalog, other = store.open(), f"{store.namespace}x"
    if store.kind in CANNOT:
        with raises(dk.UnsupportedError, "catalog", field=store.full("t")):
            catalog.rename_table(store.full("t"), store.full("u"))
        return
    with pytest.raises(dk.NotFoundError):
        catalog.rename_table(store.full("t"), f"{other}.u")
    catalog.create_namespace(other)
    catalog.rename_table(store.full("t"), f"{other}.u")
    assert not store.open().table_exists(store.full("t"))
    found = dk.load_table(store.open(), f"{other}.u")
    assert (found.metadata.table_uuid, found.location) == (table.metadata.table_uuid, table.location)
    dk.append(found, items((3, "c", 30.0)))
    assert store.peer().load_table(f"{other}.u").scan().to_arrow().num_rows == 3
    with pytest.raises(dk.NotFoundError):
        catalog.rename_table(store.full("t"), f"{other}.v")
    store.create("t", SCHEMA, format_version=version, location=str(store.folder / "new"))
    with raises(dk.InvalidInputError, "table-exists"):
        catalog.rename_table(store.full("t"), f"{other}.u")
    assert len(live(dk.load_table(store.open(), f"{other}.u"))) == 3


def test_a_dropped_table_is_registered_again(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version)
    dk.append(table, ROWS)
    catalog = store.open()
    catalog.drop_table(store.full("t"))
    if store.kind in CANNOT:
        with pytest.raises(dk.UnsupportedError):
            catalog.register_table(store.full("t"), table.metadata_location)
        return
    before = on_disk(table.location)
    catalog.register_table(store.full("again"), table.metadata_location)
    again = store.load("again")
    assert live(again) == expected(ROWS)
    assert again.metadata.table_uuid == table.metadata.table_uuid
    assert before <= on_disk(table.location)
    with raises(dk.InvalidInputError, "table-exists"):
        catalog.register_table(store.full("again"), table.metadata_location)
    with pytest.raises(dk.DeletekitError):
        catalog.register_table(store.full("nothing"), f"{table.location}/metadata/none.metadata.json")
    assert not store.open().table_exists(store.full("nothing"))
    dk.append(again, items((3, "c", 30.0)))
    assert len(live(store.load("again"))) == 3


def test_a_sort_order_is_set_and_ended(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version)
    for order, fields in (("value desc", [3]), ("id", [1]), ((), []), ("value desc", [3])):
        dk.set_sort_order(table, order)
        raw = store.load("t").metadata.raw
        default = next(o for o in raw["sort-orders"] if o["order-id"] == raw["default-sort-order-id"])
        assert [f["source-id"] for f in default["fields"]] == fields
        assert (default["order-id"] == 0) == (not fields)
    assert len(raw["sort-orders"]) == 3
    dk.append(table, ROWS)
    assert live(store.load("t")) == expected(ROWS)


def test_a_schema_and_a_spec_that_were_there_before(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version, partition_by="category")
    dk.append(table, ROWS)
    dk.add_column(table, "more", "int")
    dk.drop_column(table, "more")
    dk.add_partition_field(table, "id")
    dk.drop_partition_field(table, "id")
    found = store.load("t")
    assert [f.name for f in found.schema.fields] == SCHEMA.names
    assert [f.name for f in found.metadata.spec.fields if str(f.transform) != "void"] == ["category"]
    dk.append(found, items((3, "c", 30.0)))
    assert len(live(store.load("t"))) == 3


def test_a_table_is_replaced_or_purged(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version, sort_by="value desc")
    assert store.load("t").metadata.raw["sort-orders"][-1]["fields"][0]["direction"] == "desc"
    dk.append(table, ROWS)
    if version > 1:
        other = pa.schema([("value", pa.float64()), ("new", pa.string())])
        dk.create_table(store.open(), store.full("t"), other, format_version=version, sort_by="new", replace=True)
        found = store.load("t")
        assert [(f.name, f.field_id) for f in found.schema.fields] == [("value", 3), ("new", 4)]
        assert (live(found), found.metadata.table_uuid) == ([], table.metadata.table_uuid)
        dk.append(found, [{"value": 1.0, "new": "x"}])
        assert len(live(store.load("t"))) == 1
    location = store.load("t").location
    gone = dk.drop_table(store.open(), store.full("t"), purge=True)
    assert gone.failed_files == {}
    assert on_disk(location) == set()
    assert not store.open().table_exists(store.full("t"))


def purged_while(store: Store, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> dk.results.DroppedTable:
    """Purge `t` while somebody acts: once, after its files were found and before it is dropped."""
    whole, acts = Reachability.files, iter([act])

    def files(self: Reachability, metadata: object) -> dict[str, str]:
        found = whole(self, metadata)  # type: ignore[arg-type]
        for one in acts:
            one()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Reachability, "files", files)
        return dk.drop_table(store.open(), store.full("t"), purge=True)


def test_a_purge_that_races_a_rename(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the renamed table nor the one that has its name by then loses a file."""
    if store.kind in CANNOT:
        return
    catalog, folder = store.open(), str(store.folder / "other")
    table = store.create("t", SCHEMA)
    dk.append(table, ROWS)
    with pytest.raises(dk.NotFoundError):
        purged_while(store, monkeypatch, lambda: catalog.rename_table(store.full("t"), store.full("u")))
    catalog.rename_table(store.full("u"), store.full("t"))

    def replaced() -> None:
        catalog.rename_table(store.full("t"), store.full("u"))
        dk.append(store.create("t", SCHEMA, location=folder), ROWS)

    with pytest.raises(dk.NotFoundError) as caught:
        purged_while(store, monkeypatch, replaced)
    assert caught.value.field == "table-uuid"
    for name in ("t", "u"):
        found = store.load(name)
        assert live(found) == expected(ROWS)
        check_table(found, orphans=False)  # the REST server puts checksums beside its files


def test_a_purge_that_races_a_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = store.create("t", SCHEMA)
    dk.append(table, ROWS)
    done = purged_while(store, monkeypatch, lambda: dk.append(store.load("t"), ROWS))
    assert (on_disk(table.location), done.failed_files) == (set(), {})
