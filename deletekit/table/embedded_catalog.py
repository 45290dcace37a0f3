"""Open an embedded catalog only if it exists: opening a misspelt directory would create an empty one."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from deletekit.errors import NotFoundError
from deletekit.table.catalog import Catalog, local_catalog


def existing_catalog(directory: Path, name: str) -> Catalog:
    """Open the embedded catalog of a directory. Raise NotFoundError if the directory has none."""
    if catalog_names(directory) is None:
        raise NotFoundError(
            "no embedded catalog here", kind="catalog-not-found", file=str(directory), expected="its file, catalog.db"
        )
    return local_catalog(directory, name)


def catalog_names(directory: Path) -> set[str] | None:
    """Return the catalog names under which `catalog.db` of a directory lists tables, or None if it is no catalog."""
    file = directory / "catalog.db"
    if not file.is_file():
        return None
    connection = sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=rw", uri=True, timeout=60)
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchall():
            return None
        return {str(row[0]) for row in connection.execute("SELECT DISTINCT catalog_name FROM iceberg_tables")}
    except sqlite3.OperationalError:
        raise  # locked, or not readable: it may well be a catalog
    except sqlite3.DatabaseError:
        return None
    finally:
        connection.close()
