"""Replace equality deletes by positions, with the index of a sink if there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import check_same_table, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.formats.content_file import FileContent
from deletekit.maintenance.convert_equality_deletes import convert_equality_deletes
from deletekit.maintenance.head_files import Head
from deletekit.public import public
from deletekit.stream.batch_delta import by_position
from deletekit.stream.sink_state import SinkState
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table

if TYPE_CHECKING:
    from deletekit.stream.sink import Sink


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


def convert_by_index(state: SinkState, properties: Mapping[str, str] | None = None) -> Commit:
    """Convert with the index of a sink, as `convert`. `properties` are extra entries of the snapshot summary."""

    def build(base: Base) -> RowDelta:
        head = Head(base)
        deletes = [entry for entry, _ in head.deletes(FileContent.EQUALITY_DELETES)]
        if not deletes:
            return RowDelta()
        new, _ = state.with_index(base, lambda index: list(index.hidden_by_value()))
        delta = by_position(base, new)
        return replace(delta, removed_delete_files=(*delta.removed_delete_files, *deletes), operation="replace")

    with state.lock:
        check_same_table(state.table.refresh(), state.table_uuid)
        return commit(
            plan_change(state.table, build, ref=state.options.ref, properties=properties, reader=state.reader)
        )
