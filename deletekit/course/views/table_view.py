"""A table as the views see it: read-only, its manifests decoded once.

Nothing here or in the views may write. A table is opened by its metadata file, never by a catalog that could commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deletekit.course.aliases import Aliases
from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.deletes.plan import delete_index
from deletekit.deletes.read import ReadContext
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.formats.content_file import DeleteFile, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.table import Table, from_metadata
from deletekit.text import brief, short

LESSON_FOLDER = "deletekit-lesson-"
"""How the name of a lesson's folder begins."""


class TableView:
    """A table, opened once for all views of it.

    Parameters
    ----------
    source: a deletekit or pyiceberg table, or the path of a metadata file or table directory.

    Raises NotFoundError, FormatError, and InvalidInputError if `source` is not a table.
    """

    def __init__(self, source: Any) -> None:
        self._opened = _open(source)  # the files of a temporary table exist as long as this object does
        self.table = copy(self._opened)  # a table that changes later is shown as it is now
        self.metadata: TableMetadata = self.table.metadata
        self.aliases = Aliases(self.table)
        self.reader = self.aliases.reader
        self.context = ReadContext(self.table.io, self.metadata)
        self._indexes: dict[int, DeleteFileIndex] = {}
        self._live: dict[tuple[int, ManifestContent], LiveEntries] = {}

    @property
    def in_lesson(self) -> bool:
        """Whether a lesson made the table: what differs from run to run is left out there, and shown elsewhere."""
        return f"/{LESSON_FOLDER}" in self.metadata.location

    @cached_property
    def name(self) -> str:
        """The table's name, safe to print."""
        return brief(self.table.identifier[-1])

    def snapshot(self, name: str | None) -> Snapshot | None:
        """Return a snapshot by alias; None is the head of main, if there is one. Raises NotFoundError."""
        return self.aliases.snapshot(name) if name else self.metadata.current_snapshot

    def index(self, snapshot: Snapshot) -> DeleteFileIndex:
        """Return the snapshot's delete file index."""
        if snapshot.snapshot_id not in self._indexes:
            self._indexes[snapshot.snapshot_id] = delete_index(self.metadata, snapshot, self.reader)
        return self._indexes[snapshot.snapshot_id]

    def live(self, snapshot: Snapshot, content: ManifestContent) -> LiveEntries:
        """Return the snapshot's live data files, or delete files."""
        key = snapshot.snapshot_id, content
        if key not in self._live:
            self._live[key] = LiveEntries(list(self.reader.live_columns(snapshot, content)))
        return self._live[key]

    def data_file(self, snapshot: Snapshot, name: str) -> ManifestEntry:
        """Return a live data file by alias. Raises NotFoundError."""
        return self._entry(snapshot, name, ManifestContent.DATA)

    def delete_file(self, snapshot: Snapshot, name: str) -> ManifestEntry:
        """Return a live delete file or deletion vector by alias. Raises NotFoundError."""
        return self._entry(snapshot, name, ManifestContent.DELETES)

    def shown_path(self, path: str) -> str:
        """Return a path, relative to the table's location if it is inside."""
        return short(path, self.metadata.location)

    def _entry(self, snapshot: Snapshot, name: str, content: ManifestContent) -> ManifestEntry:
        found = self.live(snapshot, content).find(self.aliases.identity(name))
        if found is None:
            alias = self.aliases.snapshot_name(snapshot.snapshot_id)
            raise NotFoundError("file is not live in this snapshot", kind="file-not-found", field=name, found=alias)
        return found


class LiveEntries:
    """The manifest entries of a snapshot's live files, in manifest order; an entry is made when it is asked for."""

    def __init__(self, manifests: Sequence[ManifestColumns]) -> None:
        self._parts = [(columns, np.flatnonzero(columns.is_live)) for columns in manifests]

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._parts)

    def __getitem__(self, at: slice) -> list[ManifestEntry]:
        start, stop, _ = at.indices(len(self))
        found: list[ManifestEntry] = []
        first = 0
        for columns, rows in self._parts:
            found += columns.entries(rows[max(start - first, 0) : max(stop - first, 0)])
            first += len(rows)
        return found

    def __iter__(self) -> Iterator[ManifestEntry]:
        return iter(self[:])

    def find(self, identity: tuple[Any, ...]) -> ManifestEntry | None:
        """Return the entry of a file or deletion vector; None without one."""
        for columns, rows in self._parts:
            at = np.flatnonzero(np.asarray(columns.paths(rows).to_numpy(zero_copy_only=False) == identity[0]))
            for entry in columns.entries(rows[at]):
                if entry.data_file.identity == identity:
                    return entry
        return None


def as_table_view(source: Any) -> TableView:
    """Return `source` itself if it is a TableView, else a new one of it."""
    return source if isinstance(source, TableView) else TableView(source)


def _open(source: Any) -> Table:
    if isinstance(source, Table):
        return source
    if isinstance(source, str | Path):
        return from_metadata(source)
    location = getattr(source, "metadata_location", None)
    properties = getattr(getattr(source, "io", None), "properties", None)
    if isinstance(location, str) and isinstance(properties, dict):  # a pyiceberg table
        return from_metadata(location, **{k: str(v) for k, v in properties.items()})
    raise InvalidInputError("not a table", "table-argument", "table", type(source).__name__, "a table or a path")


def delete_of(entry: ManifestEntry) -> DeleteFile:
    """Return the delete file of an entry of a delete manifest."""
    assert isinstance(entry.data_file, DeleteFile)
    return entry.data_file


def kind_of(entry: ManifestEntry) -> str:
    """Return `data-file`, or the kind of a delete: `deletion-vector`, `position-delete` or `equality-delete`."""
    return entry.data_file.kind if isinstance(entry.data_file, DeleteFile) else "data-file"
