"""A table and its first snapshot, made by the catalog in one step: nobody ever sees it empty.

Law: as `commit`, nothing of a failed attempt stays, unless the catalog could not say whether it failed.
Spec: REST catalog, "CreateTableRequest" with `stage-create`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from deletekit.commit.change import Base, RowDelta, produce
from deletekit.commit.swap import Attempt, Commit, commit_result
from deletekit.deletes.write_context import WriteContext
from deletekit.errors import CommitStateUnknownError
from deletekit.table.catalog import Catalog, Identifier, TableState
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_update import apply_updates
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table

__all__ = ["create_with"]


def create_with(
    catalog: Catalog,
    identifier: Identifier,
    metadata: TableMetadata,
    io: FileIO,
    build: Callable[[Attempt], RowDelta],
    properties: Mapping[str, str] | None = None,
) -> tuple[Table, Commit]:
    """Create a table that holds what `build` plans; an empty change makes an empty table.

    Parameters
    ----------
    metadata: of the table without a snapshot; its location is where files are written.
    properties: extra entries for the snapshot summary.

    Raises InvalidInputError when the table exists; else as `commit`.
    """
    catalog.check_writable(metadata.format_version)
    base = Base(metadata=metadata, snapshot=None, reader=SnapshotReader(io, metadata))
    staged = Table(identifier, TableState(metadata, metadata.location, io), catalog)
    write = WriteContext(io, metadata)
    try:
        delta = build(Attempt(staged, base, write))
        if delta.is_empty:
            return Table(identifier, catalog.create(identifier, metadata), catalog), Commit()
        produced = produce(base, delta, write, properties)
        created = apply_updates(metadata, produced.updates, int(time.time() * 1000))
        state = catalog.create(identifier, created)
    except CommitStateUnknownError:
        raise
    except BaseException:
        write.discard()
        raise
    return Table(identifier, state, catalog), commit_result(produced)
