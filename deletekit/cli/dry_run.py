"""A delete without its traces: planned and run as the real one, with nothing written and nothing committed.

Law: every error that the real delete would raise, this one raises too, and storage and catalog stay untouched.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import deletekit as dk
from deletekit.engines.local import Engine
from deletekit.errors import UnsupportedError
from deletekit.table.catalog import Catalog, Identifier, TableState
from deletekit.table.file_io import FileInfo, FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_update import apply_updates, check_requirements
from deletekit.table.table import Table

__all__ = ["matching_rows", "rehearsal"]


def matching_rows(table: Table, where: str, ref: str, engine: Engine) -> Counter[str]:
    """Live rows for which the filter is true, by data file."""
    counts: Counter[str] = Counter()
    for batch in dk.scan(table, where, columns=["_file"], ref=ref, engine=engine).to_batches():
        for found in batch["_file"].value_counts().to_pylist():
            counts[found["values"]] += found["counts"]
    return counts


def rehearsal(table: Table) -> Table:
    """A handle on the same state, whose commits nobody sees."""
    return Table(table.identifier, _without_writes(table.state), _Rehearsal(table))


def _without_writes(state: TableState) -> TableState:
    return TableState(state.metadata, state.metadata_location, _ReadOnly(state.io))


class _Rehearsal(Catalog):
    """A catalog of one table that says yes to a commit, and forgets it."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._state = table.state
        if table.catalog is not None:
            self.pyiceberg = table.catalog.pyiceberg

    def load(self, identifier: Identifier) -> TableState:
        del identifier
        return _without_writes(self._state)

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        del metadata
        raise UnsupportedError("a rehearsal creates no table", found=identifier)

    def default_location(self, identifier: Identifier) -> str:
        del identifier
        return ""

    def check_writable(self, format_version: int) -> None:
        if self._table.catalog is not None:
            self._table.catalog.check_writable(format_version)

    def commit(
        self, identifier: Identifier, requirements: Sequence[Mapping[str, Any]], updates: Sequence[Mapping[str, Any]]
    ) -> TableState:
        del identifier
        check_requirements(self._state.metadata, requirements)
        now = int(self._state.metadata.raw["last-updated-ms"])
        changed = apply_updates(self._state.metadata, updates, now)
        return TableState(changed, self._state.metadata_location, self._state.io)


class _ReadOnly:
    """Storage that reads what is there, and remembers of what is written only its length."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._written: dict[str, int] = {}

    def open(self, path: str) -> Any:
        return self._io.open(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._io.read(path, offset, length)

    def size(self, path: str) -> int:
        return self._written[path] if path in self._written else self._io.size(path)

    def exists(self, path: str) -> bool:
        return path in self._written or self._io.exists(path)

    def write(self, path: str, data: Any) -> None:
        self._written[path] = len(data)

    def create(self, path: str) -> Any:
        self._written[path] = 0
        return io.BytesIO()

    def delete(self, path: str) -> None:
        self._written.pop(path, None)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        return self._io.list(prefix)
