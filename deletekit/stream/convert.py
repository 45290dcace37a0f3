"""Replace equality deletes by positions, with the index of a sink if there is one."""

from __future__ import annotations

from deletekit.commit.swap import Commit
from deletekit.maintenance.convert_equality_deletes import convert_equality_deletes
from deletekit.public import public
from deletekit.stream.maintain import convert_by_index
from deletekit.stream.sink import Sink
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table


@public
def convert(table: Table | Sink, *, ref: str = MAIN) -> Commit:
    """Replace all equality deletes of a branch by deletion vectors (v3) or position deletes (v2), in one commit.

    Parameters
    ----------
    table: a table, or a sink, whose branch and index are used.
    ref: the branch of a table.

    No row changes. The index of a sink knows the hidden positions, so no data file is read. Without it, every data file
    that equality deletes apply to is read (`convert_equality_deletes`).

    Returns the commit. Its `snapshot_id` is None if there was nothing to do, so the call may be repeated at any time.
    Raises CommitConflictError, CommitStateUnknownError as every commit; FormatError for files that cannot be read.
    """
    if isinstance(table, Table):
        return convert_equality_deletes(table, ref=ref).commit or Commit()
    return convert_by_index(table.state)
