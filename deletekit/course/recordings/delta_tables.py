"""A Delta table as `sync_delta` makes an Iceberg table of it: on trial, or as a table that follows it has it.

Law: neither table is changed; the one on trial refers to Delta's data files, and has delete files of its own.
"""

from __future__ import annotations

from deletekit.course.recordings.temporary_table import trial_table
from deletekit.delta.sync import sync_delta
from deletekit.delta.synced_table import watermark_of
from deletekit.errors import NotFoundError
from deletekit.table.ancestry import ancestors
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.table import Table

__all__ = ["followed_version", "following_snapshot", "synced_trial"]


def synced_trial(root: str, version: int) -> Table:
    """A new Iceberg table at a version of a Delta table. Raises as `sync_delta` does."""
    return trial_table(lambda catalog: sync_delta(root, catalog, "delta.trial", version=version).table)


def followed_version(metadata: TableMetadata) -> int | None:
    """The Delta version that a table is at; None for a table that follows none."""
    found = watermark_of(metadata, metadata.current_snapshot)
    return None if found is None else found.version


def following_snapshot(metadata: TableMetadata, version: int) -> Snapshot:
    """The newest snapshot of `main` that is at a Delta version, or before it where no file changed since.

    Raises NotFoundError when the table was not made by `sync_delta`, or not as early as that.
    """
    head = metadata.current_snapshot
    for snapshot in ancestors(metadata, head.snapshot_id if head else None):
        found = watermark_of(metadata, snapshot)
        if found is not None and found.version <= version:
            return snapshot
    raise NotFoundError(
        "no snapshot of the table is at this Delta version",
        kind="delta-version-not-found",
        field="version",
        found=version,
        expected="a version that sync_delta brought the table to",
    )
