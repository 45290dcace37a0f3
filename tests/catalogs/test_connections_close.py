"""The SQL connections of a catalog are closed when it goes; Python 3.13 warns of each that is not."""

import gc
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import deletekit as dk
from tests.tables import ITEMS, items


def open_connections(before: set[int]) -> list[sqlite3.Connection]:
    return [c for c in gc.get_objects() if isinstance(c, sqlite3.Connection) and id(c) not in before]


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


def embedded(folder: Path) -> dk.Catalog:
    return dk.local_catalog(folder)


def by_properties(folder: Path) -> dk.Catalog:
    return dk.load_catalog("c", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=str(folder))


@pytest.mark.parametrize("opened", [embedded, by_properties])
def test_connections_are_closed_when_the_catalog_goes(opened: Callable[[Path], dk.Catalog], tmp_path: Path) -> None:
    before = {id(c) for c in open_connections(set())}
    catalog = opened(tmp_path)
    table = dk.create_table(catalog, "test.t", ITEMS)
    dk.append(table, items((1, "a", 1.0)))
    mine = open_connections(before)
    assert any(is_open(each) for each in mine)
    del catalog
    gc.collect()
    assert any(is_open(each) for each in mine), "the table holds its catalog"
    assert dk.scan(table.refresh()).count() == 1
    del table
    gc.collect()
    assert not any(is_open(each) for each in mine)


def test_the_catalog_that_a_caller_made_is_left_alone(tmp_path: Path) -> None:
    """A database in memory is gone with its last connection."""
    ours = dk.load_catalog("c", type="sql", uri="sqlite:///:memory:", warehouse=str(tmp_path))
    theirs = ours.pyiceberg
    dk.create_table(ours, "test.t", ITEMS)
    wrapped = dk.from_pyiceberg(theirs.load_table("test.t"))
    del ours, wrapped
    gc.collect()
    assert theirs.table_exists("test.t")
