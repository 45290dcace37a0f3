"""Whether an Iceberg table follows a Delta table, and follows it alone: what is asked before each commit of a sync.

Law: read-only. A table that follows another Delta table, or one of which others know more, is refused with the reason.
Spec: Delta protocol, "Change Metadata" (`id`).
"""

from __future__ import annotations

from deletekit.delta.log import DeltaLog
from deletekit.delta.target import DELTA_LOCATION, Watermark, watermark_of
from deletekit.errors import InvalidInputError
from deletekit.table.locations import SpellingRules
from deletekit.table.metadata import TableMetadata

__all__ = ["as_known", "check_same_delta", "checked_watermark"]


def as_known(root: str, metadata: TableMetadata) -> str:
    """The spelling that the table knows the folder `root` by, if it is the same folder: its files are named so."""
    found = watermark_of(metadata, metadata.current_snapshot)
    known = metadata.properties.get(DELTA_LOCATION) if found is None else found.location
    return known if known is not None and _is_same_folder(root, known) else root


def _is_same_folder(one: str, other: str) -> bool:
    rules = SpellingRules()
    return rules.folder(one) == rules.folder(other)


def checked_watermark(metadata: TableMetadata, log: DeltaLog, wanted: int, *, force: bool) -> Watermark | None:
    """How far the table is; None when every file has to be compared.

    Raises InvalidInputError for a table that does not follow this Delta table, or not alone.
    """
    if force:
        return None
    found = watermark_of(metadata, metadata.current_snapshot)
    if found is None:
        if metadata.current_snapshot is None and metadata.properties.get(DELTA_LOCATION) == log.root:
            return None  # an empty Delta table was synced
        raise InvalidInputError(
            "the table was not made by sync_delta from this Delta table",
            kind="delta-foreign-table",
            field=DELTA_LOCATION,
            found=metadata.properties.get(DELTA_LOCATION),
            expected=f"{log.root}, or force",
        )
    check_same_delta(found, log, wanted)
    if found.foreign is not None:
        raise InvalidInputError(
            "someone else has committed to the table since the last sync",
            kind="delta-foreign-commit",
            field="snapshot-id",
            found=found.foreign.snapshot_id,
            expected="none, or force",
        )
    if found.version > wanted:
        newest = " than the newest of the Delta log" if found.version > log.latest else ""
        raise InvalidInputError(
            f"the table is at a later Delta version{newest}",
            kind="delta-version-behind",
            field="version",
            found=wanted,
            expected=f">= {found.version}; force would take the table back",
        )
    return found


def check_same_delta(found: Watermark, log: DeltaLog, wanted: int) -> None:
    """Raise InvalidInputError when the table follows another Delta table, or this one in another folder."""
    table_id = log.state(min(wanted, log.latest)).metadata.id
    if found.table_id not in (None, table_id):
        raise InvalidInputError(
            "the table follows another Delta table than the one that is here now",
            kind="delta-table-replaced",
            file=log.root,
            field="metaData.id",
            found=table_id,
            expected=f"{found.table_id}, or force",
        )
    if found.location is not None and not _is_same_folder(log.root, found.location):
        raise InvalidInputError(
            "the table follows this Delta table in another folder: it was moved, or this is a copy",
            kind="delta-moved",
            field=DELTA_LOCATION,
            found=log.root,
            expected=f"{found.location}; or force, which makes the table refer to the data files in the new folder",
        )
