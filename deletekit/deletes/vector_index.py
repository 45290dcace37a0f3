"""Find the deletion vectors of a snapshot by data file, without an object for each.

A data file may have at most one deletion vector (spec "Deletion Vectors"). `DeleteFileIndex` judges whether it applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.deletes.which_apply import Scope, partition_scopes
from deletekit.errors import FormatError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_columns import ManifestColumns

Numbers = npt.NDArray[np.int64]


class VectorIndex:
    """Deletion vectors, numbered from 0.

    Parameters
    ----------
    vectors: manifests, and the rows in each that are live deletion vectors.

    Raises FormatError for two deletion vectors of one data file, or for one that names no data file.
    """

    def __init__(self, vectors: Sequence[tuple[ManifestColumns, Numbers]]) -> None:
        self._parts = [(columns, rows) for columns, rows in vectors if len(rows)]
        self._ends = np.cumsum([len(rows) for _, rows in self._parts], dtype=np.int64)
        self._paths = pa.chunked_array([columns.referenced(rows) for columns, rows in self._parts], pa.large_string())
        if self._paths.null_count or pc.count_distinct(self._paths).as_py() < len(self._paths):
            self._refuse()
        self._scopes: dict[Scope, int] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def entries(self, numbers: Numbers) -> list[ManifestEntry]:
        """Return deletion vectors by number."""
        part = np.searchsorted(self._ends, numbers, side="right")
        found: list[Any] = [None] * len(numbers)
        for i in np.unique(part).tolist():
            columns, rows = self._parts[i]
            places = np.flatnonzero(part == i)
            local = numbers[places] - (self._ends[i] - len(rows))
            for place, entry in zip(places.tolist(), columns.entries(rows[local]), strict=True):
                found[place] = entry
        return found

    def of(self, path: str) -> ManifestEntry | None:
        """Return the deletion vector of one data file, None if it has none."""
        number = self._by_path.get(path)
        return None if number is None else self.entries(np.array([number]))[0]

    def find(self, files: Sequence[tuple[ManifestColumns, Numbers]]) -> list[Numbers]:
        """Return the number of each data file's deletion vector, -1 for none, for rows of manifests."""
        if not len(self) or not files:
            return [np.full(len(rows), -1, np.int64) for _, rows in files]
        # One call for all, because each call hashes the paths of all vectors.
        paths = pa.chunked_array([columns.paths(rows) for columns, rows in files], pa.large_string())
        found = pc.index_in(paths, value_set=self._paths).fill_null(-1).to_numpy().astype(np.int64)
        return np.split(found, np.cumsum([len(rows) for _, rows in files])[:-1])

    def doubtful(self, columns: ManifestColumns, rows: Numbers, numbers: Numbers) -> Numbers:
        """Return the rows whose vector is older than they are, or of another spec or partition."""
        has = np.flatnonzero(numbers >= 0)
        if not len(has):
            return rows[:0]
        of_vectors, scopes = self._facts
        number = numbers[has]
        older = of_vectors[number] < columns.sequence_number[rows[has]]
        elsewhere = scopes[number] != self._scope_codes(columns)[columns.partition_code[rows[has]]]
        doubtful: Numbers = rows[has[older | elsewhere]]
        return doubtful

    @cached_property
    def _facts(self) -> tuple[Numbers, Numbers]:
        """Return the sequence number and the scope of each vector."""
        sequence = [columns.sequence_number[rows] for columns, rows in self._parts]
        scopes = [self._scope_codes(columns)[columns.partition_code[rows]] for columns, rows in self._parts]
        return np.concatenate(sequence), np.concatenate(scopes)

    @cached_property
    def _by_path(self) -> dict[str, int]:
        return {path: i for i, path in enumerate(self._paths.to_pylist())}

    def _scope_codes(self, columns: ManifestColumns) -> Numbers:
        """Return a number for each partition of a manifest: one number for one spec and partition in all manifests."""
        scopes = partition_scopes(columns)
        return np.array([self._scopes.setdefault(scope, len(self._scopes)) for scope in scopes], np.int64)

    def _refuse(self) -> None:
        seen: dict[str, ManifestEntry] = {}
        for path, entry in zip(self._paths.to_pylist(), self.entries(np.arange(len(self))), strict=True):
            delete = entry.data_file
            if path is None:
                raise FormatError(
                    "deletion vector lacks a required field",
                    kind="deletion-vector",
                    file=delete.file_path,
                    field="referenced_data_file",
                )
            other = seen.setdefault(path, entry)
            if other is not entry:
                raise FormatError(
                    "two deletion vectors for one data file",
                    kind="duplicate-deletion-vector",
                    file=path,
                    field="referenced_data_file",
                    found=f"{delete.file_path} and {other.data_file.file_path}",
                    expected="at most one",
                )
