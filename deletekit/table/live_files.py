"""Find live files of one snapshot by path, without an object for each file of a large table.

The files are those of `SnapshotReader.live_entries`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns, Rows, text_array
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot
from deletekit.table.snapshot import SnapshotReader


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Live files of a snapshot that a change asked for.

    Attributes
    ----------
    data, deletes: entries of the paths that were asked for.
    vectors: deletion vectors of the data files that were asked for.
    duplicate_vectors: all deletion vectors whose data file has another one.
    """

    data: tuple[ManifestEntry, ...]
    deletes: tuple[ManifestEntry, ...]
    vectors: tuple[ManifestEntry, ...]
    duplicate_vectors: tuple[ManifestEntry, ...]


def find_live_files(
    reader: SnapshotReader,
    snapshot: Snapshot | None,
    *,
    data: Iterable[str] = (),
    deletes: Iterable[str] = (),
    vectors_of: Iterable[str] = (),
) -> FoundFiles:
    """Find live data files and delete files by path, and deletion vectors by the path of their data file."""
    data_files = LiveFiles(reader, snapshot, ManifestContent.DATA)
    delete_files = LiveFiles(reader, snapshot, ManifestContent.DELETES)
    return FoundFiles(
        data=tuple(data_files.with_paths(data)),
        deletes=tuple(delete_files.with_paths(deletes)),
        vectors=tuple(delete_files.vectors_of(vectors_of)),
        duplicate_vectors=tuple(delete_files.vectors_twice()),
    )


class LiveFiles:
    """The live data files, or the live delete files, of a snapshot. Without a snapshot there are none."""

    def __init__(self, reader: SnapshotReader, snapshot: Snapshot | None, content: ManifestContent) -> None:
        self._manifests = [] if snapshot is None else list(reader.live_columns(snapshot, content))
        self._starts = np.cumsum([0, *(len(columns) for columns in self._manifests)])
        self._paths = pa.chunked_array([columns.file_path for columns in self._manifests], pa.large_string())

    def with_paths(self, paths: Iterable[str]) -> Iterator[ManifestEntry]:
        """Yield the files of these paths, in manifest order: several for a Puffin file with several vectors."""
        wanted = text_array(paths)
        if not len(wanted):
            return
        # All manifests at once: many small commits leave hundreds of manifests with an entry or two.
        found = np.flatnonzero(_is_in(self._paths, wanted))
        for number, rows in _by_manifest(np.searchsorted(self._starts, found, side="right") - 1, found):
            own, columns = rows - self._starts[number], self._manifests[number]
            yield from columns.entries(own[columns.is_live[own]])

    def vectors_of(self, data_paths: Iterable[str]) -> Iterator[ManifestEntry]:
        """Yield the deletion vectors of these data files, in manifest order."""
        wanted = text_array(data_paths)
        for columns, rows in self._vectors():
            yield from columns.entries(rows[_is_in(columns.referenced(rows), wanted)])

    def vectors_twice(self) -> Iterator[ManifestEntry]:
        """Yield the deletion vectors whose data file has another one, in manifest order."""
        parts = list(self._vectors())
        paths = pa.chunked_array([columns.referenced(rows) for columns, rows in parts], pa.large_string()).drop_null()
        if pc.count_distinct(paths).as_py() == len(paths):
            return
        counts = pc.value_counts(paths.combine_chunks())
        twice = counts.field(0).filter(pc.greater(counts.field(1), 1))
        for columns, rows in parts:
            yield from columns.entries(rows[_is_in(columns.referenced(rows), twice)])

    def _vectors(self) -> Iterator[tuple[ManifestColumns, Rows]]:
        for columns in self._manifests:
            yield columns, np.flatnonzero(columns.is_live & columns.is_vector)


def rows_with_paths(columns: ManifestColumns, paths: pa.Array) -> Rows:
    """Return the rows of a manifest's live files with these paths."""
    if not len(paths):
        return np.zeros(0, np.int64)
    return np.flatnonzero(columns.is_live & _is_in(columns.file_path, paths))


def _by_manifest(manifests: Rows, rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Group rows, which are in the order of their manifests, by manifest."""
    numbers, starts = np.unique(manifests, return_index=True)
    # numpy splits an empty array into one part, for which there is no number.
    yield from zip(numbers.tolist(), np.split(rows, starts[1:]), strict=False)


def _is_in(values: pa.Array | pa.ChunkedArray, wanted: pa.Array) -> npt.NDArray[np.bool_]:
    found = pc.and_(pc.is_in(values, value_set=wanted), values.is_valid())
    mask: npt.NDArray[np.bool_] = np.asarray(found)
    return mask
