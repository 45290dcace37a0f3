"""Find the data files whose live rows differ between two snapshots. Only manifests are read.

A data file's live rows can only differ if the file was added or removed, or if other deletes apply to it. So files and
deletes that both snapshots have are never opened for it.
Spec: "Manifests", "Scan Planning", https://iceberg.apache.org/spec/#scan-planning
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.deletes.plan import delete_index, keeps_file
from deletekit.deletes.scan_task import ScanTask
from deletekit.formats.content_file import EntryStatus, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns, int64s, text_array
from deletekit.formats.manifest_list import ManifestContent, ManifestFile
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader, manifest_key, rows_with_paths

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A data file whose live rows may differ between two snapshots.

    Attributes
    ----------
    before, after: the file and all deletes that apply to it in each snapshot; None where it is not live.
    """

    before: ScanTask | None
    after: ScanTask | None

    @property
    def delete_paths(self) -> frozenset[str]:
        """The delete files that must be read to know the rows that changed."""
        tasks = (task for task in (self.before, self.after) if task is not None)
        return frozenset(d.file_path for task in tasks for d in task.delete_files)


def changed_files(
    metadata: TableMetadata,
    reader: SnapshotReader,
    before: Snapshot | None,
    after: Snapshot | None,
    where: BooleanExpression | None = None,
    schema: Schema | None = None,
) -> list[FileChange]:
    """Return the data files whose live rows may differ between two snapshots of a table.

    Parameters
    ----------
    before, after: None is a table without rows.
    where, schema: leave out files without rows of an unbound filter on columns of `schema`.

    Raises FormatError for metadata that breaks the rules of `DeleteFileIndex`. Spec: "Scan Planning".
    """
    old, new = (_Side(metadata, reader, snapshot) for snapshot in (before, after))
    keeps = keeps_file(metadata, where, schema)
    sides = (old, new), (new, old)
    removed, added = ([e for e in _only_in(*pair, ManifestContent.DATA) if keeps(e)] for pair in sides)
    again: defaultdict[str, list[ManifestEntry]] = defaultdict(list)  # one path may be added twice, as two files
    for e in added:
        again[e.data_file.file_path].append(e)
    pairs = [(e, again[e.data_file.file_path]) for e in removed]
    found = [FileChange(old.task(e), new.task(others.pop() if others else None)) for e, others in pairs]
    found += [FileChange(None, new.task(e)) for others in again.values() for e in others]
    known = {e.identity for e in added}
    kept = [e for e in _under_other_deletes(metadata, old, new) if e.identity not in known and keeps(e)]
    # A file may have another entry in each snapshot: the first commit after an upgrade to v3 gives its rows their ids,
    # on each branch others.
    own = old.entries_unlike(new, kept)
    found += [change for e in kept if _differ(change := FileChange(old.task(own.get(e.identity, e)), new.task(e)))]
    return found


class _Side:
    """One of the two snapshots: its manifests, and its deletes if they are needed."""

    def __init__(self, metadata: TableMetadata, reader: SnapshotReader, snapshot: Snapshot | None) -> None:
        self._metadata, self._reader, self._snapshot = metadata, reader, snapshot
        self.listed = reader.manifests(snapshot) if snapshot is not None else ()

    def task(self, data: ManifestEntry | None) -> ScanTask | None:
        """Return a data file with all its deletes in this snapshot."""
        return None if data is None else ScanTask(data, self._index.for_data_file(data))

    def manifests(self, content: ManifestContent, other: _Side | None = None) -> list[ManifestColumns]:
        """Return the manifests of live files, without those that `other` has too, with the same files."""
        theirs = set[Any]() if other is None else {_files_of(m) for m in other.listed}
        listed = (m for m in self.listed if _files_of(m) not in theirs)
        return [self._reader.columns(m) for m in listed if m.content == content and m.has_live_files]

    def entries_unlike(
        self, other: _Side, wanted: Sequence[ManifestEntry]
    ) -> dict[tuple[str, int | None], ManifestEntry]:
        """Return this side's entries of some data files, without those that `other` has from the same manifest."""
        paths, theirs = text_array(e.data_file.file_path for e in wanted), {manifest_key(m) for m in other.listed}
        listed = (m for m in self.listed if m.content == ManifestContent.DATA and m.has_live_files and wanted)
        columns = [self._reader.columns(m) for m in listed if manifest_key(m) not in theirs]
        return {e.identity: e for c in columns for e in c.entries(rows_with_paths(c, paths))}

    @cached_property
    def _index(self) -> DeleteFileIndex:
        if self._snapshot is None:
            return DeleteFileIndex((), {}, {})
        return delete_index(self._metadata, self._snapshot, self._reader)


def _only_in(side: _Side, other: _Side, content: ManifestContent) -> Iterator[ManifestEntry]:
    for columns in _parts_only_in(side, other, content):
        yield from columns.entries(np.flatnonzero(columns.is_live))


def _parts_only_in(side: _Side, other: _Side, content: ManifestContent) -> Iterator[ManifestColumns]:
    """Yield the manifests of one side, in which only those files are live that the other side has not.

    A file with another sequence number is another file: other deletes apply to it.
    """
    ours, theirs = side.manifests(content, other), other.manifests(content, side)
    if not ours:
        return
    known = pl.concat([_files(columns) for columns in theirs]) if theirs else None
    for columns in ours:
        live = columns.is_live
        if known is not None:
            files = _files(columns)
            unknown = files.with_row_index("row").join(known, on=files.columns, how="anti", nulls_equal=True)
            only = np.zeros(len(columns), np.bool_)
            only[np.flatnonzero(live)[unknown["row"].to_numpy()]] = True
            live = only
        yield _narrowed(columns, live)


def _files(columns: ManifestColumns) -> pl.DataFrame:
    """Return what tells the live files of a manifest apart; a Puffin file holds many vectors, each at its offset."""
    rows = np.flatnonzero(columns.is_live)
    offsets = int64s(columns.optional.get("content_offset"), len(columns), -1)
    paths = pl.Series(columns.paths(rows)).cast(pl.String)
    return pl.DataFrame({"path": paths, "offset": offsets[rows], "number": columns.sequence_number[rows]})


def _narrowed(columns: ManifestColumns, live: _Mask) -> ManifestColumns:
    status = np.where(live, columns.status, EntryStatus.DELETED).astype(columns.status.dtype)
    return replace(columns, status=status)


def _under_other_deletes(metadata: TableMetadata, old: _Side, new: _Side) -> Iterator[ManifestEntry]:
    """Yield data files of the new snapshot that a delete may apply to which only one of the snapshots has."""
    seen: set[tuple[str, int | None]] = set()
    for side, other in ((old, new), (new, old)):
        parts = list(_parts_only_in(side, other, ManifestContent.DELETES))
        if not any(columns.is_live.any() for columns in parts):
            continue
        index = DeleteFileIndex(parts, metadata.specs, metadata.all_fields, metadata.untrusted_bounds)
        for columns in new.manifests(ManifestContent.DATA):
            rows = np.flatnonzero(columns.is_live)
            (numbers,) = index.vectors.find([(columns, rows)])
            hit = numbers >= 0
            hit[index.with_other_deletes(columns, rows)] = True
            for entry in columns.entries(rows[hit]):
                if entry.identity not in seen:
                    seen.add(entry.identity)
                    yield entry


def _files_of(listed: ManifestFile) -> tuple[str, int]:
    """Return what tells which files a manifest holds. They inherit its sequence number, which decides on deletes."""
    return listed.manifest_path, listed.sequence_number


def _differ(change: FileChange) -> bool:
    before, after = ({d.identity for d in task.delete_files} for task in (change.before, change.after) if task)
    return before != after
