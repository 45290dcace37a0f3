"""Open catalogs: the embedded one, or any of pyiceberg by its properties."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deletekit.deferred import Deferred
from deletekit.errors import NotFoundError
from deletekit.table.any_catalog import Catalog
from deletekit.table.catalog import SqlStore
from deletekit.table.catalog_errors import opening
from deletekit.table.embedded_catalog import EmbeddedStore, catalog_names
from deletekit.table.locations import normalised

if TYPE_CHECKING:
    import sqlalchemy as sa
    from pyiceberg import catalog as theirs
    from pyiceberg.catalog import sql

    from deletekit.table import pyiceberg_store
else:
    sa, theirs, sql = map(Deferred, ("sqlalchemy", "pyiceberg.catalog", "pyiceberg.catalog.sql"))
    pyiceberg_store = Deferred("deletekit.table.pyiceberg_store")

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
        is_there = catalog_names(root) is not None
    properties = {"warehouse": str(root), "init_catalog_tables": "true"}

    def make() -> theirs.Catalog:
        # SQLAlchemy makes the text: its releases do not agree what is quoted in it.
        uri = sa.URL.create("sqlite", database=str(root / "catalog.db"), query={"timeout": "60"}).render_as_string()
        return _made(lambda: sql.SqlCatalog(name, uri=uri, **properties))

    with opening(name):
        return EmbeddedStore(name, root, properties, make) if is_there else wrap_catalog(make())


def existing_catalog(directory: Path, name: str) -> Catalog:
    """Open the embedded catalog of a directory. Raises NotFoundError if there is none: opening it would create one."""
    if catalog_names(directory) is None:
        message, file = "no embedded catalog here", str(directory)
        raise NotFoundError(message, kind="catalog-not-found", file=file, expected="its file, catalog.db")
    return local_catalog(directory, name)


def load_catalog(name: str, **properties: Any) -> Catalog:
    """Open any pyiceberg catalog by its own properties (`type="rest"`, `uri=...`) or its configuration file.

    Format version 3 needs a REST or SQL catalog. Others refuse it before anything is written. Raises InvalidInputError
    for properties that make no catalog, EnvironmentMissingError for a missing package.
    """
    with opening(name):
        return wrap_catalog(_made(lambda: theirs.load_catalog(name, **properties)))


def wrap_catalog(catalog: theirs.Catalog) -> Catalog:
    """Return a deletekit catalog over a pyiceberg one."""
    return SqlStore(catalog) if isinstance(catalog, sql.SqlCatalog) else pyiceberg_store.PyIcebergStore(catalog)


def close(catalog: Catalog) -> None:
    """Close the connections of a catalog, if it has any."""
    if not isinstance(catalog, EmbeddedStore) or catalog.is_open:
        catalog.pyiceberg.close()


def _made(make: Callable[[], theirs.Catalog]) -> theirs.Catalog:
    """Return a catalog of pyiceberg, whose SQL connections are closed with it."""
    catalog = None
    for _ in range(_OPENING_RACES):
        # pyiceberg looks for its SQL tables and then creates them; several processes may do so at once.
        with suppress(sa.exc.OperationalError, sa.exc.ProgrammingError, sa.exc.IntegrityError):
            catalog = make()
            break
    catalog = catalog or make()
    if isinstance(catalog, sql.SqlCatalog):
        weakref.finalize(catalog, catalog.engine.dispose)  # at the latest when Python ends
    return catalog
