"""Equality deletes that a rewrite removed although data files needed them: what they hid is back.

Law: told from history, and proved on rows. A conversion removes equality deletes too, rightly; only rows that are live
in the head, older than the delete, and with one of its keys have come back.
Spec: "Scan Planning", "Snapshots" (a `replace` changes no row); Java MergingSnapshotProducer drops deletes that are
older than all data files that it looks at, and not at those it adds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from deletekit.deletes.plan import ScanTask, plan_scan
from deletekit.deletes.read import ReadContext, deleted_positions
from deletekit.deletes.scope import covers, is_old_enough
from deletekit.errors import UNREADABLE, DeletekitError
from deletekit.formats.content_file import DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.maintenance.verify.report import Finding, error, warning
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader

__all__ = ["DROPPED", "DroppedDelete", "check_dropped_deletes", "dropped_deletes"]

DROPPED = "dropped-equality-delete"


@dataclass(frozen=True)
class DroppedDelete:
    """An equality delete that snapshot `removed_by` removed.

    Attributes
    ----------
    entry: the delete, with its sequence number.
    rows: data files of the head, each with the positions of the rows that are back; none when `unread` is set.
    unread: why it cannot be told which rows are back: the delete file itself is gone or damaged.
    """

    entry: ManifestEntry
    removed_by: int
    rows: tuple[tuple[ScanTask, PositionBitmap], ...] = ()
    unread: DeletekitError | None = None

    @property
    def count(self) -> int:
        return sum(len(positions) for _, positions in self.rows)


def check_dropped_deletes(context: ReadContext, head: Snapshot, reader: SnapshotReader) -> Iterator[Finding]:
    """The same as findings."""
    for dropped in dropped_deletes(context, head, reader):
        path, number = dropped.entry.data_file.file_path, dropped.entry.sequence_number
        if dropped.unread is not None:
            yield warning(
                DROPPED,
                "a rewrite removed an equality delete, and whether rows came back cannot be told without its file",
                file=path,
                field=f"removed by snapshot {dropped.removed_by}",
                found=dropped.unread.message,
            )
            continue
        first = dropped.rows[0][0].data_file.file_path
        yield error(
            DROPPED,
            "a rewrite removed an equality delete that older rows need: they are live again",
            file=path,
            field=f"removed by snapshot {dropped.removed_by}",
            found=f"{dropped.count} rows, the first in {first}",
            expected=f"none of its keys in data files older than {number}",
            repair=DROPPED,
        )


def dropped_deletes(context: ReadContext, head: Snapshot, reader: SnapshotReader) -> Iterator[DroppedDelete]:
    """What rewrites among the ancestors of `head` removed too early. Raises FormatError where the head is damaged."""
    metadata = context.metadata
    removed = list(_removed(metadata, head, reader))
    if not removed:
        return
    live = {e.data_file.identity for e in reader.live_entries(head, ManifestContent.DELETES)}
    tasks = plan_scan(metadata, head, reader)
    for entry, snapshot_id in removed:
        delete = entry.data_file
        assert isinstance(delete, DeleteFile)
        if delete.identity in live:
            continue
        older = [t for t in tasks if is_old_enough(t.data, entry) and covers(delete, t.data_file, metadata.specs)]
        if not older:
            continue
        try:
            found = ((task, _came_back(context, task, entry)) for task in older)
            rows = tuple((task, positions) for task, positions in found if positions)
        except UNREADABLE as e:
            if e.file == delete.file_path:
                yield DroppedDelete(entry, snapshot_id, unread=e)
            continue  # what is wrong with another file has a finding of its own
        if rows:
            yield DroppedDelete(entry, snapshot_id, rows)


def _removed(metadata: TableMetadata, head: Snapshot, reader: SnapshotReader) -> Iterator[tuple[ManifestEntry, int]]:
    """Equality deletes that rewrites removed, each with its snapshot; the manifest that says so is that snapshot's."""
    at: Snapshot | None = head
    seen: set[int] = set()
    while at is not None and at.snapshot_id not in seen:
        seen.add(at.snapshot_id)
        if at.operation == "replace":
            with suppress(*UNREADABLE):  # the snapshot is checked, and reported, on its own
                yield from [(e, at.snapshot_id) for e in _removed_by(at, reader)]
        at = metadata.snapshots.get(at.parent_snapshot_id or 0)


def _removed_by(snapshot: Snapshot, reader: SnapshotReader) -> Iterator[ManifestEntry]:
    for listed in reader.manifests(snapshot):
        if listed.content == ManifestContent.DELETES and listed.added_snapshot_id == snapshot.snapshot_id:
            for entry in reader.entries(listed):
                is_removed = entry.status == EntryStatus.DELETED and entry.snapshot_id == snapshot.snapshot_id
                if is_removed and entry.data_file.content == FileContent.EQUALITY_DELETES:
                    yield entry


def _came_back(context: ReadContext, task: ScanTask, delete: ManifestEntry) -> PositionBitmap:
    """Rows that the delete would hide, and that no delete of the head hides."""
    again = replace(task, deletes=(*task.deletes, delete))
    return deleted_positions(context, again) - deleted_positions(context, task)
