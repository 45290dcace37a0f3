"""The embedded catalog of a directory, read without SQLAlchemy until more is asked for than where a table is."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deletekit.table.catalog import SqlStore, location_of
from deletekit.table.catalog_errors import asking
from deletekit.table.identifier import Identifier, dotted
from deletekit.table.metadata_file import KnownMetadata


class EmbeddedStore(SqlStore):
    """A SQL catalog in a SQLite file that is there.

    SQLAlchemy and pyiceberg's catalogs take longer to import than a small table takes to read, so pyiceberg's catalog
    is made when it is first used.

    Parameters
    ----------
    make: makes the catalog of these properties.
    """

    def __init__(self, name: str, directory: Path, properties: dict[str, str], make: Callable[[], Any]) -> None:
        self._name, self._directory, self._given, self._make = name, directory, properties, make
        self._files = KnownMetadata()

    @cached_property
    def pyiceberg(self) -> Any:  # type: ignore[override]  # written once, when it is first asked for
        return self._make()

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_open(self) -> bool:
        """Whether pyiceberg's catalog is made."""
        return "pyiceberg" in vars(self)

    @property
    def _properties(self) -> dict[str, str]:
        return self._given

    def _find(self, identifier: Identifier) -> str | None:
        if self.is_open:
            return super()._find(identifier)
        row = self._row(identifier)
        statement = f"SELECT * FROM iceberg_tables WHERE {' AND '.join(f'{name} = ?' for name in row)}"  # noqa: S608
        with asking(dotted(identifier)), closing(_connected(self._directory)) as connection:
            connection.row_factory = sqlite3.Row
            found = connection.execute(statement, tuple(row.values())).fetchone()
        return location_of(None if found is None else dict(found))


def catalog_names(directory: Path) -> set[str] | None:
    """Return the catalog names under which `catalog.db` of a directory lists tables, or None if it is not a catalog."""
    if not (directory / "catalog.db").is_file():
        return None
    with closing(_connected(directory)) as connection:
        try:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchall():
                return None
            return {str(row[0]) for row in connection.execute("SELECT DISTINCT catalog_name FROM iceberg_tables")}
        except sqlite3.OperationalError:
            raise  # locked, or not readable: it may well be a catalog
        except sqlite3.DatabaseError:
            return None


def _connected(directory: Path) -> sqlite3.Connection:
    file = quote(str((directory / "catalog.db").absolute()))
    return sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=60)
