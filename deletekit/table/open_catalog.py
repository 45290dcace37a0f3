"""Open catalogs: the embedded one, or any of pyiceberg by its properties."""

import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog import load_catalog as load_pyiceberg_catalog
from pyiceberg.catalog.sql import SqlCatalog

from deletekit.table.any_catalog import Catalog
from deletekit.table.catalog import SqlStore
from deletekit.table.catalog_errors import opening
from deletekit.table.locations import normalised
from deletekit.table.pyiceberg_store import PyIcebergStore

_OPENING_RACES = 3


def local_catalog(path: str | Path, name: str = "local") -> Catalog:
    """Open an embedded catalog: a SQLite file `catalog.db` and the tables' files, all in one directory.

    Parameters
    ----------
    path: the directory, created if missing.
    name: catalog name. Iceberg's JdbcCatalog opens the same file from Spark under a catalog of this name.

    Several processes may commit to it at once.

    Examples
    --------
    >>> dk.local_catalog("warehouse").list_tables("demo")
    [('demo', 'users')]
    """
    root = Path(normalised(str(path), "path"))
    with opening(name):
        root.mkdir(parents=True, exist_ok=True)
    uri = sa.URL.create("sqlite", database=str(root / "catalog.db"), query={"timeout": "60"}).render_as_string()
    return _open(name, lambda: SqlCatalog(name, uri=uri, warehouse=str(root), init_catalog_tables="true"))


def load_catalog(name: str, **properties: Any) -> Catalog:
    """Open any pyiceberg catalog by its own properties (`type="rest"`, `uri=...`) or its configuration file.

    Format version 3 needs a REST or SQL catalog. Others refuse it before anything is written. Raises InvalidInputError
    for properties that make no catalog, EnvironmentMissingError for a missing package.
    """
    return _open(name, lambda: load_pyiceberg_catalog(name, **properties))


def wrap_catalog(catalog: PyIcebergCatalog, *, owned: bool = False) -> Catalog:
    """Return a deletekit catalog over a pyiceberg one. The SQL connections of an `owned` one are closed with it."""
    if not isinstance(catalog, SqlCatalog):
        return PyIcebergStore(catalog)
    if owned:
        weakref.finalize(catalog, catalog.engine.dispose)  # at the latest when Python ends
    return SqlStore(catalog)


def _open(name: str, make: Callable[[], PyIcebergCatalog]) -> Catalog:
    with opening(name):
        for _ in range(_OPENING_RACES):
            # pyiceberg looks for its SQL tables and then creates them; several processes may do so at once.
            with suppress(sa.exc.OperationalError, sa.exc.ProgrammingError, sa.exc.IntegrityError):
                return wrap_catalog(make(), owned=True)
        return wrap_catalog(make(), owned=True)
