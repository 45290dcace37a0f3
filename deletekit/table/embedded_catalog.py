"""Find the embedded catalog of a directory without making one."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from deletekit.errors import NotFoundError
from deletekit.table.any_catalog import Catalog
from deletekit.table.open_catalog import local_catalog


def existing_catalog(directory: Path, name: str) -> Catalog:
    """Open the embedded catalog of a directory. Raises NotFoundError if there is none: opening it would create one."""
    if catalog_names(directory) is None:
        message, file = "no embedded catalog here", str(directory)
        raise NotFoundError(message, kind="catalog-not-found", file=file, expected="its file, catalog.db")
    return local_catalog(directory, name)


def catalog_names(directory: Path) -> set[str] | None:
    """Return the catalog names under which `catalog.db` of a directory lists tables, or None if it is no catalog."""
    if not (directory / "catalog.db").is_file():
        return None
    file = quote(str((directory / "catalog.db").absolute()))
    with closing(sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=60)) as connection:
        try:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchall():
                return None
            return {str(row[0]) for row in connection.execute("SELECT DISTINCT catalog_name FROM iceberg_tables")}
        except sqlite3.OperationalError:
            raise  # locked, or not readable: it may well be a catalog
        except sqlite3.DatabaseError:
            return None
