"""A TABLE ON TRIAL: made by the real verbs in a temporary directory, then opened read-only.

Law: the directory goes when nobody holds the table any more, and at the latest with the process.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable

from deletekit.table.catalog import Catalog, local_catalog
from deletekit.table.table import Table, from_metadata

__all__ = ["trial_table"]


def trial_table(make: Callable[[Catalog], Table]) -> Table:
    """The table that `make` leaves in the embedded catalog it is given. Raises what `make` raises."""
    folder = tempfile.mkdtemp(prefix="deletekit-trial-")
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
