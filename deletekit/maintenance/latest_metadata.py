"""Reading all that the newest metadata leads to, while others expire snapshots.

Law: a file is missing only if it is missing from a snapshot that is still there. One that went with its snapshot while
we read is somebody's expiry, and what is left is read instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from deletekit.errors import NotFoundError
from deletekit.table.metadata import TableMetadata
from deletekit.table.table import Table

__all__ = ["on_newest"]

_R = TypeVar("_R")


def on_newest(table: Table, read: Callable[[TableMetadata], _R]) -> _R:
    """`read` of the table's newest metadata; again, of newer one, when snapshots expired under it.

    Raises what `read` raises, NotFoundError only for files of snapshots that are still there.
    """
    while True:
        metadata = table.refresh().metadata
        try:
            return read(metadata)
        except NotFoundError:
            if metadata.snapshots.keys() <= table.refresh().metadata.snapshots.keys():
                raise
