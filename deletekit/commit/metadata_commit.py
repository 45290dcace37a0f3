"""Commit a change of metadata and no rows: schema, partitioning, properties, refs, format version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from deletekit.commit.snapshot import schema_requirements
from deletekit.table.back_off import BackOff, retry
from deletekit.table.consistency import check_writable
from deletekit.table.metadata import TableMetadata
from deletekit.table.table import Table

Updates = Sequence[Mapping[str, Any]]


def commit_metadata(
    table: Table,
    build: Callable[[TableMetadata], Updates],
    *,
    unchanged_refs: Collection[str] | None = (),
) -> None:
    """Apply the updates that `build` makes of the current metadata; call it again after a lost race.

    Parameters
    ----------
    build: returns REST updates, or none if there is nothing to do.
    unchanged_refs: refs that must still point where `build` saw them, or still be missing; None: every ref of the
        metadata.

    The schema, spec and id counters that `build` saw must still be the table's. Raises FormatError for metadata that
    contradicts itself; CommitConflictError after too many lost races; CommitStateUnknownError.
    """
    catalog = table.require_catalog()

    def attempt() -> None:
        metadata = table.refresh().metadata
        check_writable(metadata, table.metadata_location)
        updates = build(metadata)
        if updates:
            refs = sorted(metadata.refs if unchanged_refs is None else unchanged_refs)
            table.adopt(catalog.commit(table.identifier, _requirements(metadata, refs), updates))

    retry(attempt, BackOff(table.properties))


def _requirements(metadata: TableMetadata, refs: Sequence[str]) -> list[Mapping[str, Any]]:
    out: list[Mapping[str, Any]] = [*schema_requirements(metadata)]
    if metadata.table_uuid is not None:
        out.append({"type": "assert-table-uuid", "uuid": metadata.table_uuid})
    for ref in refs:
        found = metadata.refs.get(ref)
        out.append(
            {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": found["snapshot-id"] if found else None}
        )
    return out
