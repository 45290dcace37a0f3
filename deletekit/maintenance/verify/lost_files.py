"""Find files that a table lost: a snapshot's parent or its summary speaks of them, and nothing says they were deleted.

A file that leaves a table has an entry with status DELETED in the snapshot that it left. No reader needs that entry, so
a file that is gone without one can be found only by comparing snapshots.
Spec: "Manifest Entry Fields" (status), "Snapshots", "Optional Snapshot Summary Fields".
"""

from collections.abc import Iterator, Mapping

from deletekit.formats.content_file import EntryStatus, ManifestEntry
from deletekit.maintenance.verify.report import DAMAGE, Finding, error
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.summary_counters import count_entries

LOST = "lost-files"
_TOTALS = ("total-data-files", "total-delete-files")
_ADDED = ("added-data-files", "added-delete-files")


def check_lost_files(
    snapshot: Snapshot, unexplained: Mapping[str, tuple[str, int]], history: "History"
) -> Iterator[Finding]:
    """Report what a snapshot lost. `unexplained` is what its history says of its summary."""
    file = snapshot.manifest_list
    if lost := history.lost(snapshot):
        message = "files of the parent are not listed, and no entry says that they were deleted"
        found = f"{len(lost)} files, the first {lost[0].data_file.file_path}"
        yield error(LOST, message, "parent-snapshot-id", found, "each file listed, or deleted", file=file)
    for name, (stated, listed) in unexplained.items():
        yield error(LOST, "summary says more than the snapshot lists", name, stated, listed, file=file)


class History:
    """What snapshots lost, as far as a table's metadata reaches back."""

    def __init__(self, metadata: TableMetadata, reader: SnapshotReader) -> None:
        self._metadata, self._reader = metadata, reader

    def lost(self, snapshot: Snapshot) -> list[ManifestEntry]:
        """Return the live files of the parent that the snapshot neither lists nor deletes.

        There are none if there is no parent, or if one of the two cannot be read.
        """
        parent = self._metadata.snapshots.get(snapshot.parent_snapshot_id or 0)
        if parent is None:
            return []
        try:
            before, after = self._reader.manifests(parent), self._reader.manifests(snapshot)
            old, kept = {m.manifest_path for m in before}, {m.manifest_path for m in after if m.has_live_files}
            gone = [m for m in before if m.has_live_files and m.manifest_path not in kept]
            new = [m for m in after if gone and m.manifest_path not in old]
            named = {e.data_file.identity for m in new for e in self._reader.entries(m)}
            entries = (e for m in gone for e in self._reader.entries(m))
            return [e for e in entries if e.is_live and e.data_file.identity not in named]
        except DAMAGE:
            return []

    def unexplained(self, snapshot: Snapshot, totals: Mapping[str, int]) -> dict[str, tuple[str, int]]:
        """Return (stated, listed) of each number of a summary that is too high, unless the writer can only have erred.

        That is so for totals if all snapshots back to the first are there, and none of them lost a file.
        """
        names = _TOTALS if totals["total-data-files"] else (*_TOTALS, "total-records")
        more = _more(snapshot.summary, {name: totals[name] for name in names})
        if more and self._is_whole(snapshot):
            more = {}
        return more | self._added(snapshot)

    def _is_whole(self, snapshot: Snapshot) -> bool:
        line = list(self._metadata.ancestors(snapshot.snapshot_id))
        return line[-1].parent_snapshot_id is None and not any(self.lost(s) or self._added(s) for s in line)

    def _added(self, snapshot: Snapshot) -> dict[str, tuple[str, int]]:
        """Compare what a snapshot says that it added with what it lists as added."""
        try:
            changed = list(self._reader.changed_entries(snapshot))
        except DAMAGE:
            return {}
        counts = count_entries(snapshot.snapshot_id, (e for e in changed if e.status == EntryStatus.ADDED))
        return _more(snapshot.summary, {name: counts[name] for name in _ADDED})


def _more(summary: Mapping[str, str], listed: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    stated = {name: str(summary.get(name, "")) for name in listed}
    return {n: (stated[n], v) for n, v in listed.items() if stated[n].isdecimal() and int(stated[n]) > v}
