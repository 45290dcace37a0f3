"""What a catalog cannot do is refused by name before anything is written; what it raises arrives as our own errors."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import requests
import sqlalchemy as sa
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog.rest import RestCatalog

import deletekit as dk
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.identifier import Identifier
from deletekit.table.open_catalog import wrap_catalog
from deletekit.table.pyiceberg_store import PyIcebergStore
from tests.catalogs.metastore import Metastore
from tests.catalogs.stores import ROWS, SCHEMA, Store, on_disk
from tests.rest_server import free_port
from tests.tables import expected, live, new_catalog, raises


@pytest.fixture
def metastore(tmp_path: Path) -> dk.Catalog:
    """Give a catalog as pyiceberg's Hive and Glue ones are, which cannot serialise version 3."""
    return dk.load_catalog("hive", warehouse=str(tmp_path), **{"py-catalog-impl": "tests.catalogs.metastore.Metastore"})


def refused(action: Callable[[], Any]) -> None:
    with pytest.raises(dk.UnsupportedError) as caught:
        action()
    error = caught.value
    assert (error.kind, error.field, error.found) == ("catalog-format-version", "Metastore", 3)
    assert "REST or SQL" in error.expected


def test_a_metastore_gets_no_table_of_version_3(metastore: dk.Catalog, tmp_path: Path) -> None:
    refused(lambda: dk.create_table(metastore, "n.t", SCHEMA, format_version=3))
    assert on_disk(str(tmp_path)) == set()
    assert metastore.list_namespaces() == []
    table = dk.create_table(metastore, "n.t", SCHEMA, format_version=2)
    dk.append(table, ROWS)
    files = on_disk(str(tmp_path))
    refused(lambda: dk.upgrade_format_version(table, 3))
    assert on_disk(str(tmp_path)) == files


def test_somebodys_table_of_version_3_in_a_metastore_is_only_read(
    metastore: dk.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark may have put it there.
    with new_catalog(tmp_path / "local") as local:
        made = dk.create_table(local, "n.t", SCHEMA, format_version=3, partition_by=["category"])
        dk.append(made, ROWS)
        dk.delete(made, "id = 1", mode="deletion-vector")
    metastore.pyiceberg.create_namespace("n")
    (tmp_path / "pointers" / "n" / "t").write_text(made.metadata_location)
    table = dk.load_table(metastore, "n.t")
    assert live(table) == expected(ROWS[1:])
    files = on_disk(str(tmp_path))
    written: list[Any] = []
    monkeypatch.setattr(PyIcebergIO, "write", lambda *arguments: written.append(arguments))
    for action in (
        lambda: dk.append(table, ROWS),
        lambda: dk.delete(table, "id = 2"),
        lambda: dk.delete_keys(table, [{"id": 2}]),
        lambda: dk.update(table, {"value": 0.0}, where="id = 2"),
        lambda: dk.merge(table, ROWS, on=["id"]),
        lambda: dk.add_column(table, "x", "int"),
        lambda: dk.add_partition_field(table, "bucket(2, id)"),
        lambda: dk.set_properties(table, {"a": "b"}),
        lambda: dk.create_branch(table, "b"),
    ):
        refused(action)
    assert written == []  # refused before, not cleaned up after
    assert on_disk(str(tmp_path)) == files


def test_a_subclass_of_the_rest_catalog_holds_version_3() -> None:
    class Signed(RestCatalog):
        def __init__(self) -> None:
            PyIcebergCatalog.__init__(self, "signed")

    wrap_catalog(Signed()).check_writable(3)


# --- opening ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"type": "rest"}, dk.InvalidInputError),
        ({"type": "no such type"}, dk.InvalidInputError),
        ({"uri": "gopher://x"}, dk.InvalidInputError),
        ({"type": "sql", "uri": "no uri at all"}, dk.InvalidInputError),
        ({"type": "sql", "uri": "nosuch://x"}, dk.InvalidInputError),
        ({"type": "sql", "uri": "mysql+pymysql://x/y"}, dk.EnvironmentMissingError),
        ({"type": "hive", "uri": "thrift://127.0.0.1:1"}, dk.EnvironmentMissingError),
        ({"type": "sql", "uri": "sqlite:////no/such/folder/catalog.db"}, dk.DeletekitError),
    ],
)
def test_a_catalog_that_cannot_be_opened(properties: dict[str, str], error: type[dk.DeletekitError]) -> None:
    with pytest.raises(error) as caught:
        dk.load_catalog("prod", **properties)
    assert type(caught.value) is error
    assert caught.value.__cause__ is not None


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(dk.DeletekitError) as caught:
        dk.load_catalog("prod", type="rest", uri=f"http://127.0.0.1:{free_port()}")
    assert caught.value.kind == "catalog-failed"
    assert isinstance(caught.value.__cause__, requests.ConnectionError)


# --- what libraries raise ---------------------------------------------------------------------------------------------


def test_a_broken_sql_catalog_speaks_in_our_errors(sql_store: Store) -> None:
    table = sql_store.create("t", SCHEMA)
    dk.append(table, ROWS)
    catalog, files = table.require_catalog(), on_disk(table.location)
    with catalog.pyiceberg.engine.begin() as connection:
        connection.execute(sa.text("alter table iceberg_tables rename to hidden"))
    try:
        for action in (
            table.refresh,
            lambda: dk.append(table, ROWS),
            lambda: dk.load_table(catalog, sql_store.full("t")),
            lambda: dk.create_table(catalog, sql_store.full("u"), SCHEMA),
            lambda: catalog.drop_table(sql_store.full("t")),
            lambda: catalog.list_tables(sql_store.namespace),
            catalog.list_namespaces,
        ):
            with pytest.raises(dk.DeletekitError) as caught:
                action()
            assert caught.value.kind == "catalog-failed"
            assert isinstance(caught.value.__cause__, sa.exc.DBAPIError)
    finally:
        with catalog.pyiceberg.engine.begin() as connection:
            connection.execute(sa.text("alter table hidden rename to iceberg_tables"))
    assert on_disk(table.location) == files
    assert live(table.refresh()) == expected(ROWS)


def test_a_metadata_file_that_is_gone(store: Store) -> None:
    table = store.create("t", SCHEMA)
    dk.append(table, ROWS)
    shutil.rmtree(Path(table.location) / "metadata")
    for action in (table.refresh, lambda: dk.append(table, ROWS), lambda: store.load("t")):
        with pytest.raises(dk.DeletekitError):
            action()


def test_a_table_that_pyiceberg_cannot_parse(metastore: dk.Catalog) -> None:
    table = dk.create_table(metastore, "n.t", SCHEMA)
    path = Path(table.metadata_location)
    text = path.read_text()
    path.write_text(text.replace('"format-version":2', '"format-version":4'))
    with raises(dk.UnsupportedError, "format-version", found=4):
        dk.load_table(metastore, "n.t")
    path.write_text(text.replace('"type":"string"', '"type":"geo(1)"'))
    with pytest.raises(dk.UnsupportedError, match="pyiceberg cannot read this table"):
        dk.load_table(metastore, "n.t")


# --- names and paths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["with space", "100%", "what?", "a#b", "ünï çödé", "a&b=c", "it's", "a%20b"])
def test_an_embedded_catalog_in_a_folder_of_any_name(tmp_path: Path, name: str) -> None:
    with new_catalog(tmp_path / name) as catalog:
        table = dk.create_table(catalog, "n.t", SCHEMA, format_version=3)
        dk.append(table, ROWS)
    assert sorted(p.name for p in (tmp_path / name).iterdir()) == ["catalog.db", "n"]
    assert [p.name for p in tmp_path.iterdir()] == [name]
    with new_catalog(tmp_path / name) as catalog:
        assert live(dk.load_table(catalog, "n.t")) == expected(ROWS)


def test_names_are_values_and_not_sql(sql_store: Store) -> None:
    sql_store.namespace += "'; drop table iceberg_tables; --"
    name = 't"; delete from iceberg_tables where 1 = 1; --'
    key = (sql_store.namespace, name)
    catalog = sql_store.open()
    other = sql_store.create("other", SCHEMA)
    table = dk.create_table(catalog, key, SCHEMA, location=str(sql_store.folder / "odd"))
    dk.append(table, ROWS)
    assert live(dk.load_table(sql_store.open(), key)) == expected(ROWS)
    assert set(catalog.list_tables(sql_store.namespace)) == {key, other.identifier}
    catalog.drop_table(key)
    assert catalog.list_tables(sql_store.namespace) == [other.identifier]


def test_the_namespaces_own_location_counts(sql_store: Store) -> None:
    home = str(sql_store.folder / "home")
    catalog = sql_store.open()
    catalog.pyiceberg.create_namespace(sql_store.namespace, {"location": f"{home}/"})
    table = dk.create_table(catalog, sql_store.full("t"), SCHEMA)
    assert table.location == f"{home}/t"
    theirs = sql_store.peer().create_table(sql_store.full("u"), SCHEMA)
    assert theirs.location() == f"{home}/u"


def test_no_warehouse_and_no_location(tmp_path: Path) -> None:
    catalog = dk.load_catalog("bare", type="sql", uri=f"sqlite:///{tmp_path / 'catalog.db'}")
    with raises(dk.InvalidInputError, "location", field="warehouse"):
        dk.create_table(catalog, "n.t", SCHEMA)
    table = dk.create_table(catalog, "n.t", SCHEMA, location=str(tmp_path / "t"))
    dk.append(table, ROWS)
    assert live(dk.load_table(catalog, "n.t")) == expected(ROWS)
    catalog.pyiceberg.engine.dispose()


def test_the_metastore_of_these_tests_is_what_pyiceberg_makes() -> None:
    # So that the refusals above speak of pyiceberg and not of a test double: it has no code for metadata of its own.
    own = {name for name in vars(Metastore) if not name.startswith("__")}
    assert not own & {"_update_and_stage_table", "_write_metadata", "_create_staged_table", "_convert_schema_if_needed"}


def test_what_was_made_and_cannot_be_read_tells_why(metastore: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: PyIcebergStore, identifier: Identifier) -> NoReturn:
        raise dk.StorageError("storage refuses the keys", file=f"s3://{identifier[-1]}")

    quick = {"commit.status-check.num-retries": "0"}
    monkeypatch.setattr(PyIcebergStore, "load", refuse)
    with pytest.raises(dk.CommitStateUnknownError, match=r"made.*no\.keys.*refuses the keys.*s3://keys") as caught:
        dk.create_table(metastore, "no.keys", SCHEMA, format_version=2, properties=quick)
    assert isinstance(caught.value.__cause__, dk.StorageError)
