"""The live files of one snapshot, and what can be said of them together; verifying reports it and repairing acts on it.

Law: pure, and right for tables that readers refuse: two deletion vectors of a file are two entries here.
Spec: "Scan Planning", "Deletion Vectors", https://iceberg.apache.org/spec/#scan-planning
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from deletekit.deletes.scope import is_global, is_old_enough, newest_covered, referenced_path, scope_of
from deletekit.formats.content_file import ContentFile, DeleteFile, FileContent, ManifestEntry
from deletekit.table.metadata import TableMetadata

__all__ = ["LiveFiles", "dangling_kind"]


@dataclass(frozen=True)
class LiveFiles:
    """Live data and delete entries, with everything inherited."""

    metadata: TableMetadata
    data: tuple[ManifestEntry, ...]
    deletes: tuple[ManifestEntry, ...]
    by_path: dict[str, ManifestEntry] = field(init=False)
    vectors: dict[str, list[ManifestEntry]] = field(init=False)

    def __post_init__(self) -> None:
        vectors: dict[str, list[ManifestEntry]] = defaultdict(list)
        for entry, delete in self.delete_files():
            if delete.is_deletion_vector and delete.referenced_data_file is not None:
                vectors[delete.referenced_data_file].append(entry)
        object.__setattr__(self, "by_path", {e.data_file.file_path: e for e in self.data})
        object.__setattr__(self, "vectors", dict(vectors))

    def delete_files(self) -> list[tuple[ManifestEntry, DeleteFile]]:
        """Delete entries with their files."""
        return [(e, e.data_file) for e in self.deletes if isinstance(e.data_file, DeleteFile)]

    def duplicate_vectors(self) -> dict[str, list[ManifestEntry]]:
        """Data files with more than one deletion vector, live or not."""
        return {path: entries for path, entries in self.vectors.items() if len(entries) > 1}

    def dangling(self) -> list[ManifestEntry]:
        """Delete entries that apply to no live data file, by scope and sequence number alone.

        A position delete is one too when every data file it could apply to has a deletion vector, which wins. A global
        equality delete is judged over the whole table (Java's action looks at one spec only).
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
        """The totals of a snapshot summary, counted anew (Java SnapshotSummary; of a vector its blob's size counts)."""
        deletes = [d for _, d in self.delete_files()]
        return {
            "total-records": _rows(e.data_file for e in self.data),
            "total-files-size": sum(e.data_file.file_size_in_bytes for e in self.data)
            + sum(d.content_bytes for d in deletes),
            "total-data-files": len(self.data),
            "total-delete-files": len(deletes),
            "total-position-deletes": _rows(d for d in deletes if d.content == FileContent.POSITION_DELETES),
            "total-equality-deletes": _rows(d for d in deletes if d.content == FileContent.EQUALITY_DELETES),
        }

    def wrong_totals(self, summary: Any) -> dict[str, tuple[str, int]]:
        """(found, expected) of totals that a summary has and that are not so; one it lacks says nothing wrong."""
        return {n: (summary[n], v) for n, v in self.totals().items() if n in summary and summary[n] != str(v)}


def dangling_kind(delete: DeleteFile) -> str:
    """The kind of finding that a dangling delete is."""
    return f"dangling-{delete.kind}"


def _rows(files: Iterable[ContentFile]) -> int:
    return sum(f.record_count for f in files)
