"""Find equality deletes that a rewrite removed although data files needed them, so that their rows came back.

Candidates come from the history, the proof from the rows. A conversion rightly removes equality deletes too. A row has
come back only if it is live in the head, older than the delete, and has one of its keys.
Spec: "Scan Planning", "Snapshots" (a `replace` changes no row); Java MergingSnapshotProducer drops deletes that are
older than all data files that it looks at, and not at those it adds.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, deleted_positions
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import covers, is_old_enough
from deletekit.errors import UNREADABLE, DeletekitError
from deletekit.formats.content_file import DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.maintenance.verify.report import Finding, error, warning
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.text import without_secrets

DROPPED = "dropped-equality-delete"


@dataclass(frozen=True)
class DroppedDelete:
    """An equality delete that snapshot `removed_by` removed.

    Attributes
    ----------
    entry: the delete, with its sequence number.
    rows: data files of the head, each with the positions of the rows that are back. Empty if `unread` is set.
    unread: why the rows that are back cannot be found: the delete file itself is missing or damaged.
    """

    entry: ManifestEntry
    removed_by: int
    rows: tuple[tuple[ScanTask, PositionBitmap], ...] = ()
    unread: DeletekitError | None = None

    @property
    def count(self) -> int:
        return sum(len(positions) for _, positions in self.rows)


def check_dropped_deletes(context: ReadContext, head: Snapshot, reader: SnapshotReader) -> Iterator[Finding]:
    """Report dropped deletes of the head as findings."""
    for dropped in dropped_deletes(context, head, reader):
        path, number = dropped.entry.data_file.file_path, dropped.entry.sequence_number
        removed_by = f"removed by snapshot {dropped.removed_by}"
        if dropped.unread is not None:
            message = "a rewrite removed an equality delete, and whether rows came back cannot be told without its file"
            yield warning(DROPPED, message, removed_by, dropped.unread.message, file=path)
            continue
        message = "a rewrite removed an equality delete that older rows need: they are live again"
        found = f"{dropped.count} rows, the first in {dropped.rows[0][0].data_file.file_path}"
        expected = f"none of its keys in data files older than {number}"
        yield error(DROPPED, message, removed_by, found, expected, file=path, repair=DROPPED)


def dropped_deletes(context: ReadContext, head: Snapshot, reader: SnapshotReader) -> Iterator[DroppedDelete]:
    """Find what rewrites among the ancestors of `head` removed too early. Raises FormatError for a damaged head."""
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
            if e.file == without_secrets(delete.file_path):
                yield DroppedDelete(entry, snapshot_id, unread=e)
            continue  # another file that cannot be read has a finding of its own
        if rows:
            yield DroppedDelete(entry, snapshot_id, rows)


def _removed(metadata: TableMetadata, head: Snapshot, reader: SnapshotReader) -> Iterator[tuple[ManifestEntry, int]]:
    """Find the equality deletes that rewrites removed, each with the id of the snapshot that removed it."""
    for snapshot in metadata.ancestors(head.snapshot_id):
        if snapshot.operation == "replace":
            with suppress(*UNREADABLE):  # the snapshot has findings of its own
                changed = list(reader.changed_entries(snapshot, ManifestContent.DELETES))
                removed = (e for e in changed if e.status == EntryStatus.DELETED)
                yield from (
                    (e, snapshot.snapshot_id) for e in removed if e.data_file.content == FileContent.EQUALITY_DELETES
                )


def _came_back(context: ReadContext, task: ScanTask, delete: ManifestEntry) -> PositionBitmap:
    """Return the rows that the delete would hide, and that no delete of the head hides."""
    again = replace(task, deletes=(*task.deletes, delete))
    return deleted_positions(context, again) - deleted_positions(context, task)
