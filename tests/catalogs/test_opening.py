"""A catalog that several open, and make tables in, at the same moment."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

import deletekit as dk
from tests.catalogs.stores import on_disk

SCHEMA = pa.schema([("id", pa.int32())])
AT_ONCE = 6


def together(action: Callable[[int], Any]) -> list[Any]:
    """What each of several threads got, error or not, when all began at once."""
    barrier = threading.Barrier(AT_ONCE)

    def one(number: int) -> Any:
        barrier.wait()
        try:
            return action(number)
        except dk.DeletekitError as e:
            return e

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(AT_ONCE)))


@pytest.fixture
def new_database(postgres_uri: str) -> Callable[[str], str]:
    """Make a PostgreSQL database in which nobody has been."""

    def make(name: str) -> str:
        engine = sa.create_engine(postgres_uri, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.text(f"create database {name}"))
        return postgres_uri.replace("/postgres?", f"/{name}?")

    return make


def open_and_create(opened: Callable[[int], dk.Catalog], folder: Path) -> None:
    catalogs = together(opened)
    assert [c for c in catalogs if not isinstance(c, dk.Catalog)] == []
    made = together(
        lambda n: dk.create_table(catalogs[n], f"n.t{n}", SCHEMA, format_version=3, location=str(folder / f"t{n}"))
    )
    assert [t for t in made if not isinstance(t, dk.Table)] == []
    same = together(lambda n: dk.create_table(catalogs[n], "n.same", SCHEMA, location=str(folder / f"same{n}")))
    (winner,) = [t for t in same if isinstance(t, dk.Table)]
    assert {e.kind for e in same if e is not winner} == {"table-exists"}
    assert {path for n in range(AT_ONCE) for path in on_disk(str(folder / f"same{n}"))} == {winner.metadata_location}
    assert sorted(catalogs[0].list_tables("n")) == sorted([("n", "same"), *(("n", f"t{n}") for n in range(AT_ONCE))])
    for catalog in catalogs:
        catalog.pyiceberg.engine.dispose()


@pytest.mark.parametrize("again", range(4))
def test_an_embedded_catalog_opened_by_many(tmp_path: Path, again: int) -> None:
    open_and_create(lambda _: dk.local_catalog(tmp_path / "warehouse"), tmp_path)


@pytest.mark.parametrize("again", range(2))
def test_a_postgresql_catalog_opened_by_many(tmp_path: Path, new_database: Callable[[str], str], again: int) -> None:
    uri = new_database(f"{tmp_path.name.lower()[:40]}_{again}")
    properties = {"type": "sql", "uri": uri, "warehouse": str(tmp_path)}
    open_and_create(lambda _: dk.load_catalog("shop", **properties), tmp_path)


def test_an_embedded_catalog_is_opened_with_no_configuration_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pyiceberg would add what a file or the environment says of a catalog of that name.
    monkeypatch.setenv("PYICEBERG_CATALOG__LOCAL__WAREHOUSE", "/nowhere")
    catalog = dk.local_catalog(tmp_path)
    assert catalog.pyiceberg.properties["warehouse"] == str(tmp_path)
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]
