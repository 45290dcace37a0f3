"""Commits that change metadata and no rows: schema, partitioning, properties, refs, format version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from deletekit.commit.change import schema_requirements
from deletekit.commit.swap import Waits
from deletekit.errors import CommitConflictError
from deletekit.table.consistency import check_writable
from deletekit.table.metadata import TableMetadata
from deletekit.table.table import Table

__all__ = ["commit_metadata"]


Updates = Sequence[Mapping[str, Any]]


def commit_metadata(
    table: Table,
    build: Callable[[TableMetadata], Updates],
    *,
    unchanged_ref: str | None = None,
    unchanged_refs: Collection[str] | None = (),
) -> None:
    """Apply the updates that `build` makes of the current metadata; plan them again when another commit was first.

    `build` returns REST updates, or none for nothing to do. What the updates were derived from is asserted: the
    schema, spec and id counters they saw must still be the table's, and `unchanged_ref` and `unchanged_refs` (None:
    every ref that the metadata has) must still point where they did, or still be missing. Raises FormatError for
    metadata that contradicts itself.
    """
    catalog = table.require_catalog()
    waits: Waits | None = None
    number = 0
    while True:
        number += 1
        metadata = table.refresh().metadata
        check_writable(metadata, table.metadata_location)
        updates = build(metadata)
        if not updates:
            return
        try:
            refs = {*(metadata.refs if unchanged_refs is None else unchanged_refs), *filter(None, [unchanged_ref])}
            table.adopt(catalog.commit(table.identifier, _requirements(metadata, sorted(refs)), updates))
            return
        except CommitConflictError:
            waits = waits or Waits(table.properties)  # not before: a bad value must not keep one from setting another
            if not waits.again(number):
                raise


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
