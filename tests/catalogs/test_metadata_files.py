"""Metadata files: their log, their codec, and that deletekit keeps them as Java's server and pyiceberg do."""

import gzip
import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

import deletekit as dk
from tests.catalogs.stores import ROWS, SCHEMA, Store, on_disk
from tests.tables import expected, live

LOG = "write.metadata.previous-versions-max"
CODEC = "write.metadata.compression-codec"
DELETE = "write.metadata.delete-after-commit.enabled"


def raw(table: dk.Table) -> dict[str, Any]:
    return json.loads(Path(table.metadata_location).read_bytes())


def logged(table: dk.Table) -> list[str]:
    return [entry["metadata-file"] for entry in raw(table)["metadata-log"]]


def test_the_log_has_every_file_that_came_before(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version)
    locations, updated = [table.metadata_location], [raw(table)["last-updated-ms"]]
    for number in range(4):
        dk.set_properties(table, {"n": str(number)})
        assert logged(table) == locations
        assert [entry["timestamp-ms"] for entry in raw(table)["metadata-log"]] == updated
        locations.append(table.metadata_location)
        updated.append(raw(table)["last-updated-ms"])
    assert [Path(p).name[:6] for p in locations] == [f"{n:05d}-" for n in range(5)]
    assert updated == sorted(updated)
    assert on_disk(table.location) == set(locations)


def test_the_log_is_trimmed(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version, properties={LOG: "3"})
    locations = [table.metadata_location]
    for number in range(6):
        dk.append(table, [{"id": number}])
        locations.append(table.metadata_location)
    assert logged(table) == locations[-4:-1]
    dk.set_properties(table, {LOG: "1"})
    assert logged(table) == locations[-1:]
    dk.set_properties(table, {LOG: "0"})  # Java keeps one
    assert len(logged(table)) == 1
    assert set(locations) <= on_disk(table.location)


def test_files_out_of_the_log_are_deleted_when_the_table_says_so(v3_store: Store) -> None:
    # The REST server is Java's own code, so that what deletekit does on SQL catalogs is compared with Java.
    table = v3_store.create("t", SCHEMA, format_version=2, properties={LOG: "2", DELETE: "true"})
    locations = [table.metadata_location]
    for number in range(5):
        dk.append(table, [{"id": number}])
        locations.append(table.metadata_location)
    files = {p for p in on_disk(table.location) if p.endswith(".metadata.json")}
    assert files == set(locations[-3:])
    assert live(v3_store.load("t"), columns=["id"]) == [{"id": n} for n in range(5)]


def test_metadata_is_compressed_when_the_table_says_so(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version, properties={CODEC: "gzip"})
    dk.append(table, ROWS)
    dk.delete(table, "id = 2", mode="copy-on-write")
    plain = expected([ROWS[0], ROWS[2]])
    if store.kind != "metastore":  # pyiceberg does not know this property
        data = Path(table.metadata_location).read_bytes()
        assert table.metadata_location.endswith(".gz.metadata.json")
        assert json.loads(gzip.decompress(data))["table-uuid"] == table.metadata.table_uuid
    assert live(store.load("t")) == plain
    assert expected(store.peer().load_table(store.full("t")).scan().to_arrow().to_pylist()) == plain
    dk.set_properties(table, {CODEC: "none"})
    assert not table.metadata_location.endswith(".gz.metadata.json")
    assert raw(table)["table-uuid"] == table.metadata.table_uuid
    assert live(store.load("t")) == plain


def test_metadata_goes_where_the_table_says(sql_store: Store) -> None:
    elsewhere = str(sql_store.folder / "elsewhere")
    table = sql_store.create("t", SCHEMA, properties={"write.metadata.path": elsewhere})
    dk.append(table, ROWS)
    assert table.metadata_location.startswith(f"{elsewhere}/00001-")
    assert {Path(p).suffix for p in on_disk(table.location)} == {".parquet"}
    assert live(sql_store.load("t")) == expected(ROWS)


def test_the_row_of_a_sql_catalog(sql_store: Store) -> None:
    """The columns as Iceberg's JdbcCatalog and pyiceberg's SqlCatalog write them, read with plain SQL."""
    table = sql_store.create("t", SCHEMA, format_version=3)

    def row() -> dict[str, Any]:
        statement = sa.text("select * from iceberg_tables where table_namespace = :n").bindparams(n=sql_store.namespace)
        with sql_store.peer().engine.connect() as connection:
            (found,) = connection.execute(statement).mappings()
            return dict(found)

    kept = {
        "catalog_name": sql_store.name,
        "table_namespace": sql_store.namespace,
        "table_name": "t",
        "iceberg_type": "TABLE",
    }
    first = table.metadata_location
    assert row() == {**kept, "metadata_location": first, "previous_metadata_location": None}
    dk.append(table, ROWS)
    assert row() == {**kept, "metadata_location": table.metadata_location, "previous_metadata_location": first}
