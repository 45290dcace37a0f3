"""Build the tables of the capstone, in which deleted rows came back, five small ones and a big one; list their history.

Each has another cause, and every cause is a mistake of a real writer. deletekit's verbs do not make these mistakes, so
the wrong commits are made here. Every reader accepts the tables. They are the same in every run.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.course.aliases import Aliases
from deletekit.course.datasets import flights
from deletekit.course.workplace import Lesson
from deletekit.deletes.merge_previous_deletes import FilePositions, write_positions
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.rows.data_file_writer import write_data_files
from deletekit.table.table import Table
from deletekit.tools.refs import rollback
from deletekit.tools.schema import upgrade_format_version
from deletekit.verbs.delete import delete, delete_keys
from deletekit.verbs.scan import scan

_FLIGHT_COLUMNS = ("flight_id", "month", "day", "carrier", "origin", "dest", "dep_time")


def five_tables(here: Lesson) -> dict[str, Table]:
    """Build five tables of eight rows in two data files. Ids 3 and 6 were deleted on Monday and are back on Tuesday."""
    return {
        "accounts": _rolled_back(here),
        "baskets": _inserted_again(here),
        "contacts": _rewritten_as_new(here),
        "devices": _vector_not_merged(here),
        "events": _not_folded(here),
    }


def flights_on_tuesday(here: Lesson) -> Table:
    """Build a table of the flights of 2013 in three data files, in which two things went wrong after a delete.

    On Monday the cancelled flights were deleted. On Tuesday a writer deleted the flights of carrier OO without merging
    the old vectors, and a job loaded 8 and 9 February again.
    """
    rows = flights().select(_FLIGHT_COLUMNS)
    month = rows["month"]
    parts = [rows.filter(pc.and_(pc.greater_equal(month, m), pc.less(month, m + 4))) for m in (1, 5, 9)]
    table = here.table("flights", *parts, format_version=3)
    delete(table, "dep_time is null", mode="deletion-vector")
    ended = [np.flatnonzero(pc.equal(part["carrier"], "OO").to_numpy()).tolist() for part in parts]
    _put_vectors(table, ended, merged={0, 2})
    again = pc.and_(pc.equal(month, 2), pc.is_in(rows["day"], pa.array([8, 9], rows["day"].type)))
    here.append(table, rows.filter(again))
    return table


def history(table: Table, where: str) -> list[dict[str, Any]]:
    """Return a row for each snapshot, the oldest first, with the number of rows that a reader of it finds."""
    names = Aliases(table)
    snapshots = sorted(table.metadata.snapshots.values(), key=lambda snapshot: snapshot.sequence_number)
    return [
        {
            "snapshot": names.of(snapshot.snapshot_id),
            "parent": names.of(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None,
            "operation": snapshot.operation,
            where: scan(table, where, snapshot_id=snapshot.snapshot_id).count(),
        }
        for snapshot in snapshots
    ]


def live_deletes(table: Table) -> list[dict[str, Any]]:
    """Return a row for each delete of the current snapshot, with the keys or the positions that it holds."""
    names, found = Aliases(table), []
    for live in names.deletes():
        path = live["data_file"].get("referenced_data_file")
        positions = live.get("positions") or next(iter(live.get("positions_by_file", {}).values()), None)
        held = {"keys": live["rows"]} if "rows" in live else {"positions": positions}
        of = {"referenced_data_file": names.of(path)} if path else {}
        found.append({"name": live["name"], **held, **of, "sequence_number": live["sequence_number"]})
    return found


# --- one table for each cause -----------------------------------------------------------------------------------------


def _rolled_back(here: Lesson) -> Table:
    """Roll main back to a snapshot from before the delete, to get rid of a bad load."""
    table = here.table("accounts", *_parts("account"), format_version=3)
    loaded = table.current_snapshot
    assert loaded is not None
    delete(table, "id in (3, 6)", mode="deletion-vector")
    here.append(table, _rows("broken", 9, 13))
    rollback(table, loaded.snapshot_id)
    here.append(table, _rows("account", 9, 11))
    return table


def _inserted_again(here: Lesson) -> Table:
    """Append the deleted rows again, as a stream does that sends a batch twice."""
    table = here.table("baskets", *_parts("basket"))
    delete_keys(table, [{"id": 3}, {"id": 6}])
    here.append(table, pa.concat_tables([_rows("basket", 3, 4), _rows("basket", 6, 7), _rows("basket", 9, 10)]))
    return table


def _rewritten_as_new(here: Lesson) -> Table:
    """Commit a compaction that was planned before the delete; its file gets a new sequence number."""
    parts = _parts("contact")
    table = here.table("contacts", *parts)
    delete_keys(table, [{"id": 3}, {"id": 6}])

    def build(base: Base) -> RowDelta:
        files = write_data_files(base.write, pa.concat_tables(parts))
        assert base.snapshot is not None
        data = tuple(base.reader.live_entries(base.snapshot, ManifestContent.DATA))
        return RowDelta(removed_data_files=data, added_data_files=tuple(files), operation="replace")

    commit(plan_change(table, build))
    return table


def _vector_not_merged(here: Lesson) -> Table:
    """Replace the vector of a data file by one that has only the positions of a new delete."""
    table = here.table("devices", *_parts("device"), format_version=3)
    delete(table, "id in (3, 6)", mode="deletion-vector")
    _put_vectors(table, [[3]], merged=())
    return table


def _not_folded(here: Lesson) -> Table:
    """Add a vector after an upgrade, without merging the position deletes that readers then ignore."""
    table = here.table("events", *_parts("event"))
    delete(table, "id in (3, 6)", mode="position-delete")
    upgrade_format_version(table, 3)
    _put_vectors(table, [[3]], merged=())
    return table


# --- rows and vectors -------------------------------------------------------------------------------------------------


def _rows(what: str, first: int, stop: int) -> pa.Table:
    ids = range(first, stop)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"{what}-{i}" for i in ids]})


def _parts(what: str) -> tuple[pa.Table, pa.Table]:
    return _rows(what, 1, 5), _rows(what, 5, 9)


def _put_vectors(table: Table, positions: Sequence[Sequence[int]], *, merged: Collection[int]) -> None:
    """Write a vector for each of the oldest data files. Only the files in `merged`, by number, keep old positions."""

    def build(base: Base) -> RowDelta:
        tasks = sorted(plan_scan(base.metadata, base.snapshot, base.reader), key=lambda t: t.data.sequence_number or 0)
        loader = ReadContext(base.table.io, base.metadata).loader
        vectors, replaced = [], []
        for number, (task, new) in enumerate(zip(tasks, positions, strict=False)):
            before = loader.positions(task) if number in merged else PositionBitmap()
            vectors.append(FilePositions(task.data_file, before | PositionBitmap(new)))
            replaced += [
                entry
                for entry in task.deletes
                if isinstance(entry.data_file, DeleteFile) and entry.data_file.is_deletion_vector
            ]
        written = write_positions(base.write, vectors)
        return RowDelta(added_delete_files=tuple(written), removed_delete_files=tuple(replaced))

    commit(plan_change(table, build))
