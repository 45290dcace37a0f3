"""Opening the table that the arguments name."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

import click

import deletekit as dk
from deletekit.cli.options import TableSource
from deletekit.errors import InvalidInputError, NotFoundError

__all__ = ["open_catalog", "open_table"]

_MOST_NAMES = 20


def open_table(source: TableSource) -> dk.Table:
    """The table. Raises NotFoundError saying what was looked for and what is there instead."""
    if source.warehouse is not None:
        return _embedded(Path(source.warehouse), source.catalog_name, source.table)
    if source.catalog is not None:
        return dk.load_table(_closed_at_the_end(dk.load_catalog(source.catalog, **source.properties)), source.table)
    return _by_path(source)


def open_catalog(source: TableSource) -> dk.Catalog:
    """The catalog that TABLE is to be in. Raises InvalidInputError where the arguments name none."""
    if source.warehouse is not None:
        return _closed_at_the_end(dk.local_catalog(source.warehouse, source.catalog_name))
    if source.catalog is not None:
        return _closed_at_the_end(dk.load_catalog(source.catalog, **source.properties))
    raise InvalidInputError(
        "a table is made in a catalog",
        kind="table-argument",
        field="TABLE",
        found=source.table,
        expected="--warehouse DIR or --catalog NAME, with TABLE as namespace.table",
    )


def _by_path(source: TableSource) -> dk.Table:
    place = source.table
    if place.startswith("file:"):
        place = place.removeprefix("file:").replace("///", "/", 1)
    if place.endswith(".metadata.json"):
        return dk.from_metadata(place, **source.properties)
    if "://" in place:
        raise InvalidInputError(
            "only a local directory can be searched for its newest metadata file",
            kind="table-argument",
            field="TABLE",
            found=place,
            expected="the address of a *.metadata.json file",
        )
    if not Path(place).exists():
        raise NotFoundError(
            "no such metadata file or table directory",
            kind="table-not-found",
            file=place,
            expected="a path; or --warehouse DIR or --catalog NAME, with TABLE as namespace.table",
        )
    return dk.from_metadata(place, **source.properties)


def _closed_at_the_end(catalog: dk.Catalog) -> dk.Catalog:
    """The catalog, whose connections go with the command."""
    click.get_current_context().call_on_close(catalog.pyiceberg.close)
    return catalog


def _embedded(directory: Path, name: str, identifier: str) -> dk.Table:
    names = _catalog_names(directory / "catalog.db")
    if names is None:
        raise NotFoundError(
            "no embedded catalog here", kind="catalog-not-found", file=str(directory), expected="its file, catalog.db"
        )
    catalog = _closed_at_the_end(dk.local_catalog(directory, name))
    try:
        return dk.load_table(catalog, identifier)
    except NotFoundError as e:
        if e.kind != "table-not-found":
            raise
        raise _with_names(e, catalog, sorted(names - {name})) from e


def _catalog_names(file: Path) -> set[str] | None:
    """Names under which an SQLite file lists tables; None when it is no catalog, and opening it would make it one."""
    if not file.is_file():
        return None
    connection = sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=rw", uri=True, timeout=60)
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchall():
            return None
        return {str(row[0]) for row in connection.execute("SELECT DISTINCT catalog_name FROM iceberg_tables")}
    except sqlite3.OperationalError:
        raise  # locked, or not to be read: it may well be a catalog
    except sqlite3.DatabaseError:
        return None
    finally:
        connection.close()


def _with_names(error: NotFoundError, catalog: dk.Catalog, others: list[str]) -> NotFoundError:
    tables = [".".join(t) for n in catalog.list_namespaces() for t in catalog.list_tables(".".join(n))]
    if tables:
        more = len(tables) - _MOST_NAMES
        expected = "one of " + ", ".join(sorted(tables)[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    elif others:
        expected = f"--catalog-name {' or '.join(others)}: under {catalog.name} this file lists no table"
    else:
        expected = "a table; the catalog is empty"
    return NotFoundError(error.message, kind=error.kind, field="TABLE", found=error.found, expected=expected)
