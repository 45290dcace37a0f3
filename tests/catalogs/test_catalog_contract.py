"""One contract for every catalog: what is created, changed and dropped through it is so for everyone who looks.

What a verb did is compared with the same steps on a Python list, and with pyiceberg's own reader where it can read
that kind of delete.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IntegerType, NestedField, StringType

import deletekit as dk
from tests.catalogs.stores import SCHEMA, Store, on_disk
from tests.tables import MODES, Row, expected, items, live, raises

FIRST = items((1, "a", 10.0), (2, "b", 20.0), (3, None, 30.0))
SECOND = items((4, "a", 40.0), (5, "b", 50.0))


def read_by_pyiceberg(store: Store, name: str) -> list[Row]:
    return expected(store.peer().load_table(store.full(name)).scan().to_arrow().to_pylist())


# --- creating and finding ---------------------------------------------------------------------------------------------


def test_a_created_table_is_what_was_asked_for(place: tuple[Store, int]) -> None:
    store, version = place
    location = str(store.folder / "here")
    table = store.create(
        "t",
        SCHEMA,
        format_version=version,
        partition_by=["category", "bucket(4, id)"],
        properties={"owner": "ada", "commit.retry.num-retries": "7"},
        location=location,
    )
    peer = store.peer().load_table(store.full("t"))
    for found in (table, store.load("t")):
        assert found.format_version == version == peer.metadata.format_version
        assert found.location == location == peer.metadata.location
        assert found.metadata_location == peer.metadata_location
        assert found.metadata.table_uuid == str(peer.metadata.table_uuid)
        assert found.schema == peer.schema()
        assert [str(f.field_type) for f in found.schema.fields] == ["int", "string", "double"]
        assert [f.required for f in found.schema.fields] == [True, False, False]
        assert [(f.name, str(f.transform), f.field_id) for f in found.spec.fields] == [
            ("category", "identity", 1000),
            ("id_bucket", "bucket[4]", 1001),
        ]
        assert found.current_snapshot is None
        assert dk.scan(found).to_arrow().num_rows == 0
        assert {k: found.properties.get(k) for k in ("owner", "commit.retry.num-retries", "format-version")} == {
            "owner": "ada",
            "commit.retry.num-retries": "7",
            "format-version": None,
        }
    assert on_disk(location) == {table.metadata_location}


def test_a_table_that_names_no_location_gets_one_from_the_catalog(place: tuple[Store, int]) -> None:
    store, version = place
    for name in ("t", "u"):
        table = dk.create_table(store.open(), store.full(name), SCHEMA, format_version=version)
        assert Path(table.location).parts[-1] == name
        assert store.namespace in Path(table.location).parts[-2]
        dk.append(table, FIRST)
        assert {Path(f).is_relative_to(table.location) for f in on_disk(table.location)} == {True}
        assert read_by_pyiceberg(store, name) == expected(FIRST)


def test_a_table_that_exists_is_not_made_again(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version)
    dk.append(table, FIRST)
    elsewhere = str(store.folder / "elsewhere")
    with raises(dk.InvalidInputError, "table-exists"):
        store.create("t", SCHEMA, format_version=version, location=elsewhere)
    assert on_disk(elsewhere) == set()
    assert live(store.load("t")) == expected(FIRST)


def test_what_is_not_there_is_not_found(store: Store) -> None:
    catalog = store.open()
    missing = f"{store.namespace}.missing"
    for wanted in (missing, "nowhere.missing"):
        with raises(dk.NotFoundError, "table-not-found", found=wanted):
            dk.load_table(catalog, wanted)
        with pytest.raises(dk.NotFoundError):
            catalog.drop_table(wanted)
    with raises(dk.NotFoundError, "namespace-not-found", found="nowhere"):
        catalog.list_tables("nowhere")
    for bad in ("t", "", "n.", ".t", "n..t"):
        with raises(dk.InvalidInputError, "identifier"):
            dk.load_table(catalog, bad)


def test_tables_are_listed_dropped_and_made_again(place: tuple[Store, int]) -> None:
    store, version = place
    kept = store.create("kept", SCHEMA, format_version=version)
    gone = store.create("gone", SCHEMA, format_version=version)
    dk.append(gone, FIRST)
    files = on_disk(gone.location)
    catalog = store.open()
    assert sorted(catalog.list_tables(store.namespace)) == [(store.namespace, "gone"), (store.namespace, "kept")]
    assert (store.namespace,) in catalog.list_namespaces()
    catalog.drop_table(store.full("gone"))
    assert store.open().list_tables(store.namespace) == [(store.namespace, "kept")]
    assert on_disk(gone.location) == files  # the catalog forgets the table, the files stay
    for use in (gone.refresh, lambda: dk.append(gone, SECOND), lambda: dk.delete(gone, "true")):
        with pytest.raises(dk.NotFoundError):
            use()
    assert on_disk(gone.location) == files
    again = store.create("gone", SCHEMA, format_version=version, location=str(store.folder / "again"))
    assert live(again) == []
    assert again.metadata.table_uuid != gone.metadata.table_uuid
    assert kept.refresh().current_snapshot is None


def test_a_namespace_may_have_levels(place: tuple[Store, int]) -> None:
    store, version = place
    store.namespace = f"{store.namespace}.inner"
    if store.kind == "metastore":
        with pytest.raises(dk.InvalidInputError, match="hierarchical namespaces are not supported"):
            store.create("t", SCHEMA, format_version=version)
        assert on_disk(str(store.folder)) == set()
        return
    table = store.create("t", SCHEMA, format_version=version)
    dk.append(table, FIRST)
    assert store.load("t").identifier == (*store.namespace.split("."), "t")
    assert live(store.load("t")) == expected(FIRST) == read_by_pyiceberg(store, "t")
    assert store.open().list_tables(store.namespace) == [table.identifier]


# --- rows -------------------------------------------------------------------------------------------------------------


def test_every_verb_in_every_mode(place: tuple[Store, int]) -> None:
    store, version = place
    for mode in MODES[version]:
        name = mode.replace("-", "_")
        table = store.create(name, SCHEMA, format_version=version, partition_by=["category"])
        rows = [dict(r) for r in FIRST + SECOND]
        commits = [dk.append(table, FIRST), dk.append(table, SECOND)]
        commits.append(dk.delete(table, "id = 2", mode=mode))
        rows = [r for r in rows if r["id"] != 2]
        commits.append(dk.update(table, {"value": -1.0}, where="id in (3, 4)", mode=mode))
        rows = [{**r, "value": -1.0} if r["id"] in (3, 4) else r for r in rows]
        source = items((4, "a", 400.0), (6, "c", 600.0))
        commits.append(dk.merge(table, source, on=["id"], mode=mode))
        rows = [r for r in rows if r["id"] != 4] + source
        assert live(table) == expected(rows) == live(store.load(name))
        assert dk.scan(store.load(name)).count() == len(rows)
        if mode != "equality-delete":
            assert read_by_pyiceberg(store, name) == expected(rows)
        assert [c.attempts for c in commits] == [1] * 5
        peer = store.peer().load_table(store.full(name)).metadata
        assert [s.snapshot_id for s in peer.snapshot_log] == [c.snapshot_id for c in commits]
        numbers = [0] * 5 if version == 1 else [1, 2, 3, 4, 5]
        assert [peer.snapshot_by_id(c.snapshot_id).sequence_number for c in commits] == numbers
        assert getattr(peer, "last_sequence_number", 0) == numbers[-1]


# --- schema, partitioning, refs, properties ---------------------------------------------------------------------------


def test_schema_and_partitioning_evolve(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version, partition_by=["category"])
    dk.append(table, FIRST)
    dk.add_column(table, "note", "string", doc="why")
    dk.rename_column(table, "value", "amount")
    dk.update_column(table, "id", type="long")
    dk.add_partition_field(table, "truncate(1, note)")
    dk.append(table, [{"id": 4_000_000_000, "category": "c", "amount": 1.5, "note": "new"}])
    dk.drop_partition_field(table, "category")
    dk.drop_column(table, "amount")
    dk.append(table, [{"id": 7, "category": None, "note": None}])
    old = [{"id": r["id"], "category": r["category"], "note": None} for r in FIRST]
    new = [{"id": 4_000_000_000, "category": "c", "note": "new"}, {"id": 7, "category": None, "note": None}]
    reopened = store.load("t")
    assert live(reopened) == expected(old + new) == read_by_pyiceberg(store, "t")
    assert live(reopened, where="note = 'new'") == new[:1]
    peer = store.peer().load_table(store.full("t"))
    assert peer.schema() == reopened.schema
    assert [(f.field_id, f.name, str(f.field_type), f.doc) for f in peer.schema().fields] == [
        (1, "id", "long", None),
        (2, "category", "string", None),
        (4, "note", "string", "why"),
    ]
    transforms = [(f.name, str(f.transform)) for f in peer.spec().fields]
    kept = [("category", "void")] if version == 1 else []
    assert transforms == [*kept, ("note_trunc", "truncate[1]")]
    assert len(peer.metadata.partition_specs) == 3
    assert peer.metadata.last_column_id == 4
    dk.add_column(table, "amount", "double")  # a new column of the old name, with an id of its own
    assert store.load("t").schema.find_field("amount").field_id == 5
    assert live(store.load("t")) == expected([{**r, "amount": None} for r in old + new])


def test_properties_are_set_and_removed(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version, properties={"keep": "1", "drop": "2"})
    dk.set_properties(table, {"new": "3", "drop": None, "was never there": None})
    before = table.metadata_location
    dk.set_properties(table, {})
    assert store.load("t").metadata_location == before
    for properties in (
        table.properties,
        store.load("t").properties,
        store.peer().load_table(store.full("t")).properties,
    ):
        assert {k: properties.get(k) for k in ("keep", "drop", "new")} == {"keep": "1", "drop": None, "new": "3"}


def test_a_table_goes_up_through_the_versions(store: Store) -> None:
    table = store.create("t", SCHEMA, format_version=1)
    dk.append(table, FIRST + SECOND)
    dk.upgrade_format_version(table, 2)
    dk.delete(table, "id = 1", mode="position-delete")
    dk.delete(table, "id = 2", mode="equality-delete")
    assert live(store.load("t")) == expected([r for r in FIRST + SECOND if r["id"] > 2])
    if store.kind == "metastore":
        files = on_disk(table.location)
        with pytest.raises(dk.UnsupportedError):
            dk.upgrade_format_version(table, 3)
        assert on_disk(table.location) == files
        return
    dk.upgrade_format_version(table, 3)
    assert table.metadata.next_row_id == 0
    dk.delete(table, "id = 3", mode="deletion-vector")
    dk.append(table, items((6, "c", 60.0)))
    reopened = store.load("t")
    assert live(reopened) == expected([r for r in FIRST + SECOND if r["id"] > 3] + items((6, "c", 60.0)))
    assert reopened.format_version == 3 == store.peer().load_table(store.full("t")).metadata.format_version
    with pytest.raises(dk.InvalidInputError):
        dk.upgrade_format_version(table, 2)


# --- format version 3 -------------------------------------------------------------------------------------------------


def lineage(table: dk.Table) -> dict[int, tuple[int, int]]:
    rows = dk.scan(table, columns=["id", "_row_id", "_last_updated_sequence_number"]).to_arrow().to_pylist()
    return {r["id"]: (r["_row_id"], r["_last_updated_sequence_number"]) for r in rows}


def test_row_ids_are_handed_out_with_each_commit(v3_store: Store) -> None:
    table = v3_store.create("t", SCHEMA, format_version=3)
    seen: list[tuple[Any, ...]] = []

    def look() -> None:
        # The numbers of the catalog's own metadata, by pyiceberg: on REST, Java has counted them.
        metadata = v3_store.peer().load_table(v3_store.full("t")).metadata
        head = metadata.current_snapshot()
        seen.append((metadata.next_row_id, head.first_row_id, head.added_rows))

    assert v3_store.load("t").metadata.next_row_id == 0
    dk.append(table, FIRST)
    look()
    dk.append(table, SECOND)
    look()
    dk.delete(table, "id = 1", mode="deletion-vector")
    look()
    assert seen == [(3, 0, 3), (5, 3, 2), (5, 5, 0)]
    assert lineage(v3_store.load("t")) == {2: (1, 1), 3: (2, 1), 4: (3, 2), 5: (4, 2)}
    dk.update(table, {"value": 0.0}, where="id = 2", mode="copy-on-write")
    dk.append(table, items((6, "f", 6.0)))
    ids = lineage(v3_store.load("t"))
    assert {k: ids[k] for k in (2, 3, 4, 5)} == {2: (1, 4), 3: (2, 1), 4: (3, 2), 5: (4, 2)}
    look()
    assert ids[6] == (seen[-1][1], 5)
    assert seen[-1] == (ids[6][0] + 1, ids[6][0], 1)


def test_column_defaults_survive_creation(v3_store: Store) -> None:
    schema = Schema(
        NestedField(1, "id", IntegerType(), required=True),
        NestedField(2, "kind", StringType(), initial_default="plain", write_default="plain"),
        NestedField(3, "day", DateType(), initial_default="2020-02-29", write_default="2024-02-29"),
    )
    for name, location in (("with", str(v3_store.folder / "with")), ("without", None)):
        full = v3_store.full(name)
        table = dk.create_table(
            v3_store.open(),
            full,
            schema,
            format_version=3,
            partition_by=["kind"],
            location=location,
            properties={"p": "q"},
        )
        found = v3_store.load(name)
        (stored,) = json.loads(Path(found.metadata_location).read_bytes())["schemas"]
        assert [(f.get("initial-default"), f.get("write-default")) for f in stored["fields"]] == [
            (None, None),
            ("plain", "plain"),
            ("2020-02-29", "2024-02-29"),
        ]
        assert found.properties["p"] == "q"
        assert [f.name for f in found.spec.fields] == ["kind"]
        dk.append(table, [{"id": 1}, {"id": 2, "kind": "odd"}])
        assert [r["kind"] for r in live(found.refresh())] == ["plain", "odd"]
        with raises(dk.InvalidInputError, "table-exists"):
            dk.create_table(v3_store.open(), full, schema, format_version=3, location=location)
