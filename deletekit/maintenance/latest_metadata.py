"""Read what the latest metadata leads to while others expire snapshots.

A file is missing only if its snapshot is still in the metadata. If the snapshot expired while we read, read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from deletekit.errors import NotFoundError
from deletekit.table.metadata import TableMetadata
from deletekit.table.table import Table

_R = TypeVar("_R")


def read_latest(table: Table, read: Callable[[TableMetadata], _R]) -> _R:
    """Return `read` of the table's latest metadata. Read again if snapshots expired meanwhile.

    Raises what `read` raises, and NotFoundError only for files of snapshots that are still in the metadata.
    """
    while True:
        metadata = table.refresh().metadata
        try:
            return read(metadata)
        except NotFoundError:
            if metadata.snapshots.keys() <= table.refresh().metadata.snapshots.keys():
                raise
