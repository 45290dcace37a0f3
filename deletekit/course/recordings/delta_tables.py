"""Sync a Delta table to a temporary Iceberg table.

Neither table is changed afterwards. The Iceberg table refers to Delta's data files and has delete files of its own.
"""

from __future__ import annotations

from deletekit.course.recordings.temporary_table import temporary_table
from deletekit.delta.sync import sync_delta
from deletekit.table.table import Table


def synced_table(root: str, version: int) -> Table:
    """Return a new Iceberg table at a version of a Delta table. Raises as `sync_delta` does."""
    return temporary_table(lambda catalog: sync_delta(root, catalog, "delta.trial", version=version).table)
