"""Count what a snapshot's summary counts: the files and rows that it added and removed, and the totals.

The names are those of Java's SnapshotSummary.
Spec: "Optional Snapshot Summary Fields", https://iceberg.apache.org/spec/#optional-snapshot-summary-fields
"""

from collections import Counter
from collections.abc import Iterable

from deletekit.formats.content_file import ContentFile, DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry

TOTALS = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}
"""Each total, with the counters that raise and lower it."""

COUNTERS = (
    *(counter for pair in TOTALS.values() for counter in pair),
    *(
        f"{verb}-{what}"
        for verb in ("added", "removed")
        for what in ("dvs", "position-delete-files", "equality-delete-files")
    ),
)


def count_files(added: Iterable[ContentFile], removed: Iterable[ContentFile]) -> Counter[str]:
    """Count added and removed files, by the names of the summary. A counter that would be 0 is left out."""
    counts: Counter[str] = Counter()
    for files, verb, data_verb in ((added, "added", "added"), (removed, "removed", "deleted")):
        for file in files:
            if isinstance(file, DataFile):
                counts[f"{verb}-files-size"] += file.file_size_in_bytes
                counts[f"{data_verb}-data-files"] += 1
                counts[f"{data_verb}-records"] += file.record_count
            elif isinstance(file, DeleteFile):
                counts[f"{verb}-files-size"] += file.content_bytes
                counts[f"{verb}-delete-files"] += 1
                what = "equality" if file.content == FileContent.EQUALITY_DELETES else "position"
                counts[f"{verb}-dvs" if file.is_deletion_vector else f"{verb}-{what}-delete-files"] += 1
                counts[f"{verb}-{what}-deletes"] += file.record_count
    return counts


def count_entries(snapshot_id: int, entries: Iterable[ManifestEntry]) -> Counter[str]:
    """Count what a snapshot added and removed, as the entries of its manifests say."""
    files: dict[EntryStatus, list[ContentFile]] = {status: [] for status in EntryStatus}
    for entry in entries:
        if entry.snapshot_id == snapshot_id:
            files[entry.status].append(entry.data_file)
    return count_files(files[EntryStatus.ADDED], files[EntryStatus.DELETED])


def count_totals(live: Iterable[ContentFile]) -> dict[str, int]:
    """Count the totals of a snapshot from its live files. Of a deletion vector, the size of its blob counts."""
    counts = count_files(live, ())
    return {total: counts[added] for total, (added, _) in TOTALS.items()}
