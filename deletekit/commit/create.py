"""Create a table together with its first snapshot, in one step of the catalog: it is never seen empty.

If it fails, its files are deleted, unless the catalog's answer was lost.
Spec: REST catalog, "CreateTableRequest" with `stage-create`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import read_base
from deletekit.commit.snapshot import new_snapshot
from deletekit.commit.swap import Commit, commit_result
from deletekit.errors import CommitStateUnknownError
from deletekit.table.catalog import Catalog, TableState
from deletekit.table.file_io import FileIO
from deletekit.table.identifier import Identifier
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_update import apply_updates
from deletekit.table.table import Table


def create_with(
    catalog: Catalog,
    identifier: Identifier,
    metadata: TableMetadata,
    io: FileIO,
    plan: Callable[[Base], RowDelta],
    properties: Mapping[str, str] | None = None,
) -> tuple[Table, Commit]:
    """Create a table that holds the change that `plan` returns; an empty change makes an empty table.

    Parameters
    ----------
    metadata: of the table without a snapshot; its location is where files are written.
    properties: extra entries for the snapshot summary.

    Raises InvalidInputError when the table exists; else as `commit` does.
    """
    catalog.check_writable(metadata.format_version)
    staged = Table(identifier, TableState(metadata, metadata.location, io), catalog)
    base = read_base(staged)
    try:
        delta = plan(base)
        if delta.is_empty:
            return Table(identifier, catalog.create(identifier, metadata), catalog), Commit()
        made = new_snapshot(base, delta, properties or {})
        created = apply_updates(metadata, made.updates, int(time.time() * 1000))
        state = catalog.create(identifier, created)
    except CommitStateUnknownError:
        raise
    except BaseException:
        base.write.discard()
        raise
    return Table(identifier, state, catalog), commit_result(made)
