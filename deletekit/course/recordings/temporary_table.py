"""Make a table in a temporary directory with the real verbs, then open it read-only.

The directory is removed with the last reference to the table, and at the latest when the process ends.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable

from deletekit.delta.sync import sync_delta
from deletekit.table.catalog import Catalog
from deletekit.table.open_catalog import local_catalog
from deletekit.table.table import Table, from_metadata

_FOLDER_LENGTH = 80


def temporary_table(make: Callable[[Catalog], Table]) -> Table:
    """Return, read-only, the table that `make` makes in an embedded catalog. Raises what `make` raises."""
    # Position delete files hold paths. Paths of one length on every machine cost the same on each.
    folder = tempfile.mkdtemp(prefix="deletekit-trial-".ljust(_FOLDER_LENGTH - len(tempfile.gettempdir()), "-"))
    try:
        catalog = local_catalog(folder)
        try:
            table = from_metadata(make(catalog).refresh().metadata_location)
        finally:
            catalog.pyiceberg.close()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(table, shutil.rmtree, folder, ignore_errors=True)
    return table


def synced_table(root: str, version: int) -> Table:
    """Return, read-only, a new Iceberg table at a version of a Delta table. Raises as `sync_delta` does."""
    return temporary_table(lambda catalog: sync_delta(root, catalog, "delta.trial", version=version).table)
