"""Describe the live files of one snapshot together. `verify` reports what is wrong with them, `repair` repairs it.

It also works for tables that readers refuse: two deletion vectors of a data file are two entries here.
Spec: "Scan Planning", "Deletion Vectors", https://iceberg.apache.org/spec/#scan-planning
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deletekit.deletes.which_apply import is_global, is_old_enough, newest_covered, referenced_path, scope_of
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent, ManifestEntry
from deletekit.table.metadata import TableMetadata
from deletekit.table.summary_counters import count_totals


class SnapshotFiles:
    """The live data and delete entries of one snapshot, with everything inherited.

    Attributes
    ----------
    by_path: the data entries by path.
    vectors: the deletion vectors of each data file, live or not, by its path.
    """

    def __init__(self, metadata: TableMetadata, live: Iterable[ManifestEntry]) -> None:
        entries = tuple(live)
        self.metadata = metadata
        self.data = tuple(e for e in entries if isinstance(e.data_file, DataFile))
        self.deletes = tuple(e for e in entries if isinstance(e.data_file, DeleteFile))
        self.by_path = {e.data_file.file_path: e for e in self.data}
        self.vectors: dict[str, list[ManifestEntry]] = {}
        for entry, delete in self.delete_files():
            if delete.is_deletion_vector and delete.referenced_data_file is not None:
                self.vectors.setdefault(delete.referenced_data_file, []).append(entry)

    def delete_files(self) -> list[tuple[ManifestEntry, DeleteFile]]:
        """Return the delete entries with their files."""
        return [(e, e.data_file) for e in self.deletes if isinstance(e.data_file, DeleteFile)]

    def duplicate_vectors(self) -> dict[str, list[ManifestEntry]]:
        """Return the data files, live or not, that have more than one deletion vector."""
        return {path: entries for path, entries in self.vectors.items() if len(entries) > 1}

    def dangling(self) -> list[ManifestEntry]:
        """Return the deletes that apply to no live data file, judged by scope and sequence number alone.

        A position delete also dangles if every data file that it could apply to has a deletion vector, which wins. A
        global equality delete is judged over the whole table; Java's action looks at one spec only.
        """
        oldest: dict[Any, int] = {}
        without_vector: dict[Any, int] = {}
        for entry in self.data:
            number, where = entry.sequence_number or 0, scope_of(entry.data_file)
            for key in (where, None):
                oldest[key] = min(oldest.get(key, number), number)
            if entry.data_file.file_path not in self.vectors:
                without_vector[where] = min(without_vector.get(where, number), number)
        return [e for e, d in self.delete_files() if self._is_dangling(e, d, oldest, without_vector)]

    def _is_dangling(
        self, entry: ManifestEntry, delete: DeleteFile, oldest: dict[Any, int], without_vector: dict[Any, int]
    ) -> bool:
        newest = newest_covered(entry)
        if delete.content == FileContent.EQUALITY_DELETES:
            spec = self.metadata.specs.get(delete.spec_id)
            key = None if spec is None or is_global(spec) else scope_of(delete)
            return not (key in oldest and oldest[key] <= newest)
        path = referenced_path(delete)
        if delete.is_deletion_vector:
            return path not in self.by_path
        if path is None:
            where = scope_of(delete)
            return not (where in without_vector and without_vector[where] <= newest)
        data = self.by_path.get(path)
        return data is None or path in self.vectors or not is_old_enough(data, entry)

    def totals(self) -> dict[str, int]:
        """Count the totals of the snapshot summary again."""
        return count_totals(e.data_file for e in (*self.data, *self.deletes))

    def wrong_totals(self, summary: Any) -> dict[str, tuple[str, int]]:
        """Return (found, expected) of each wrong total of a summary. A missing total is not wrong."""
        return {n: (summary[n], v) for n, v in self.totals().items() if n in summary and summary[n] != str(v)}


def dangling_kind(delete: DeleteFile) -> str:
    """Return the kind of finding for a dangling delete."""
    return f"dangling-{delete.kind}"
