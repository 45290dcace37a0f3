"""Number what a table consists of: S1 a snapshot, D1 a data file, E1 an equality delete file, P1 a position
delete file, V1 a deletion vector.

The order is that in which the table got them, so the same steps give the same names whatever the engine, the ids and
the paths. Snapshots are ordered by sequence number, files by the first snapshot that still lists them. Files of one
commit are ordered by their content, never by their random names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from deletekit.deletes.which_apply import referenced_path
from deletekit.errors import DeletekitError, NotFoundError
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader

MOST_ORDERED = 1_000
"""Files of one commit that are ordered by content. If there are more, the manifest's order counts."""

Identity = tuple[Any, ...]


class ShortNames:
    """The short names of one table's metadata. The first question about a file reads each manifest."""

    def __init__(self, metadata: TableMetadata, reader: SnapshotReader) -> None:
        self._reader = reader
        self.snapshots: tuple[Snapshot, ...] = tuple(
            sorted(metadata.snapshots.values(), key=lambda s: (s.sequence_number, s.timestamp_ms))
        )
        self._snapshot = {s.snapshot_id: f"S{i}" for i, s in enumerate(self.snapshots, 1)}
        self._by_name: dict[str, Identity] = {}
        self._names: dict[Identity, str] = {}

    def snapshot(self, snapshot_id: int | None) -> str:
        """Return the name of a snapshot; `S?` if it is unknown or has expired."""
        return self._snapshot.get(snapshot_id or 0, "S?")

    def snapshot_of(self, name: str) -> Snapshot:
        """Return the snapshot of a name. Raises NotFoundError."""
        for snapshot in self.snapshots:
            if self._snapshot[snapshot.snapshot_id] == name:
                return snapshot
        raise NotFoundError(
            "no such snapshot",
            kind="snapshot-not-found",
            field="snapshot",
            found=name,
            expected=f"S1 .. S{len(self.snapshots)}",
        )

    def file(self, entry: ManifestEntry) -> str:
        """Return the name of a file or deletion vector."""
        return self._known().get(entry.data_file.identity, f"{_letter(entry)}?")

    def number(self, entry: ManifestEntry) -> int:
        """Return the number in a file's name, to sort files of one letter by."""
        return alias_number(self.file(entry))

    def order(self, entry: ManifestEntry) -> tuple[str, int]:
        """Return the letter and number of a file's name, to sort by."""
        name = self.file(entry)
        return name[0], alias_number(name)

    def path(self, path: str) -> str | None:
        """Return the name of a data file by its path; None if no manifest has it."""
        return self._known().get((path,))

    def identity(self, name: str) -> Identity:
        """Return the identity of the file of a name. Raises NotFoundError."""
        self._known()
        if name not in self._by_name:
            raise NotFoundError("no such file", kind="file-not-found", field="file", found=name, expected="D1, E1, ...")
        return self._by_name[name]

    def files(self) -> list[str]:
        """Return the names of all files, data files first."""
        return sorted(self._known().values(), key=lambda name: name[0] != "D")

    def _known(self) -> dict[Identity, str]:
        if self._names:
            return self._names
        counts: dict[str, int] = {}
        seen: set[str] = set()
        for snapshot in self.snapshots:
            new = list(self._new(snapshot, seen))
            named = self._in_order(new) if sum(map(len, new)) <= MOST_ORDERED else _as_listed(new)
            for letter, identity in named:
                if identity not in self._names:
                    counts[letter] = counts.get(letter, 0) + 1
                    self._names[identity] = name = f"{letter}{counts[letter]}"
                    self._by_name[name] = identity
        return self._names

    def _in_order(self, new: list[ManifestColumns]) -> Iterator[tuple[str, Identity]]:
        """Return letter and identity of each file, data files first: the order of deletes follows their data files."""
        entries = [e for columns in new for e in columns.entries(np.arange(len(columns)))]
        for of_data in (True, False):
            some = [e for e in entries if isinstance(e.data_file, DeleteFile) != of_data]
            for entry in sorted(some, key=self._order):
                yield _letter(entry), entry.data_file.identity

    def _order(self, entry: ManifestEntry) -> tuple[Any, ...]:
        file = entry.data_file
        place, bounds = 0, tuple[tuple[int, bytes], ...]()
        with suppress(DeletekitError):  # the view that shows the file reports what is wrong with it
            path = referenced_path(file)
            place = alias_number(self._names.get((path,), ""))
            if file.content != FileContent.POSITION_DELETES:  # their bounds are paths
                bounds = tuple(sorted((file.lower_bounds or {}).items()))
        return (entry.sequence_number or 0, place, repr(file.partition), bounds, file.record_count, file.identity)

    def _new(self, snapshot: Snapshot, seen: set[str]) -> Iterator[ManifestColumns]:
        """Return the manifests that no earlier snapshot lists. A damaged one is left out."""
        with suppress(DeletekitError):
            for listed in self._reader.manifests(snapshot):
                if listed.manifest_path not in seen:
                    seen.add(listed.manifest_path)
                    with suppress(DeletekitError):
                        yield self._reader.columns(listed)


def alias_number(name: str) -> int:
    """Return the number in a short name, to sort by; 0 without one."""
    return int(name[1:]) if name[1:].isdecimal() and len(name) < 20 else 0


def _as_listed(new: list[ManifestColumns]) -> list[tuple[str, Identity]]:
    """Return letter and identity of each file by sequence number, then in the order of the manifests."""
    found = [item for columns in new for item in _files(columns)]
    return [(letter, identity) for _, letter, identity in sorted(found, key=lambda item: item[0])]


def _files(columns: ManifestColumns) -> Iterator[tuple[int, str, Identity]]:
    """Return sequence number, letter and identity of each file of a manifest."""
    numbers, paths = columns.sequence_number.tolist(), columns.file_path.to_pylist()
    if (columns.content == FileContent.DATA).all():
        yield from ((number, "D", (path,)) for number, path in zip(numbers, paths, strict=True))
        return
    for entry in columns.entries(np.arange(len(columns))):
        yield entry.sequence_number or 0, _letter(entry), entry.data_file.identity


def _letter(entry: ManifestEntry) -> str:
    file = entry.data_file
    if not isinstance(file, DeleteFile):
        return "D"
    return {"deletion-vector": "V", "position-delete": "P", "equality-delete": "E"}[file.kind]
