"""Decoding a manifest to columns: every check of `EntryShape.entry` and every rule of `inherit`, by column.

Law: the same entries as `read_manifest` and `inherit` give, or None where those must decide; never an error of its own.
Spec: "Manifests", "Sequence Number Inheritance", "First Row ID Inheritance", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.errors import DeletekitError
from deletekit.formats.avro import ContainerFile, read_container
from deletekit.formats.avro_columns import Columns, Leaf, leaves, read_columns
from deletekit.formats.content_file import EntryStatus, FileContent, file_format_of
from deletekit.formats.lazy_file import Metrics, MetricsCache
from deletekit.formats.manifest import check_version
from deletekit.formats.manifest_columns import OPTIONAL, ManifestColumns, Rows
from deletekit.formats.manifest_entry import (
    BOUND_MAPS,
    COUNT_MAPS,
    NEVER_NEGATIVE,
    REQUIRED_DATA_FILE,
    VECTOR_FIELDS,
    EntryShape,
    entry_shape,
)
from deletekit.formats.manifest_list import ManifestFile

__all__ = ["read_manifest_columns"]

_METRICS = frozenset(("data_file", name) for name in (*COUNT_MAPS, *BOUND_MAPS))
# Sums of record counts are exact in 64 bits below this.
_MOST_ROWS = 2.0**62


def read_manifest_columns(data: bytes, listed: ManifestFile, cache: MetricsCache) -> ManifestColumns | None:
    """Decode a manifest and inherit, or None where `read_manifest` and `inherit` must say what is wrong with it.

    Parameters
    ----------
    data: the whole file; kept, for the metrics.
    listed: its row in the manifest list, which says what is inherited.
    cache: holds metrics once they are asked for.
    """
    try:
        container = read_container(data, distinct=True)
        check_version(container)
        found = leaves(container)
        if found is None or container.has_plain_fixed:
            return None
        shape = entry_shape(container.schema_text)
        names = {leaf.path: shape.canonical(leaf.path) for leaf in found}
        if len(set(names.values())) < len(names):
            return None
        wanted = {path for path, name in names.items() if name not in _METRICS}
        stored = read_columns(container, found, wanted)
    except DeletekitError:
        return None
    if stored is None or not all(_is_there(stored, path) for path in wanted):
        return None
    columns = {names[path]: array for path, array in stored.items()}
    return _Decoded(columns, shape, listed).manifest(_metrics(container, found, names, cache))


def _is_there(stored: Columns, path: tuple[str, ...]) -> bool:
    return stored.get(path) is not None


def _metrics(
    container: ContainerFile,
    found: tuple[Leaf, ...],
    names: Mapping[tuple[str, ...], tuple[str, ...]],
    cache: MetricsCache,
) -> Metrics:
    wanted = {path for path, name in names.items() if name in _METRICS}

    def decode() -> Columns:
        columns = read_columns(container, found, wanted, check=False)
        assert columns is not None, "decoded before, from the same bytes"
        return {names[path]: array for path, array in columns.items()}

    return Metrics(decode, cache)


# --- from stored values to entries ------------------------------------------------------------------------------------


class _Decoded:
    """The columns of a manifest as stored; every check of `EntryShape.entry` and every rule of `inherit`, by column."""

    def __init__(self, columns: Columns, shape: EntryShape, listed: ManifestFile) -> None:
        self._columns = columns
        self._shape = shape
        self._listed = listed
        self._rows = len(next(iter(columns.values())))

    def manifest(self, metrics: Metrics) -> ManifestColumns | None:
        """The manifest, or None when a value is not what the spec allows."""
        if not self._counts_hold():
            return None
        status, content = self._code(("status",), EntryStatus), self._code(("data_file", "content"), FileContent)
        formats = self._formats()
        if status is None or content is None or formats is None:
            return None
        format_code, file_format = formats
        numbers, partitions = self._sequence_numbers(status), self._partitions()
        if numbers is None or partitions is None:
            return None
        code, partition = partitions
        sequence_number, file_sequence_number = numbers
        optional = {name: self._file(name) for name in OPTIONAL}
        optional["first_row_id"] = self._first_row_id(status, content)
        optional["file_sequence_number"] = file_sequence_number
        found = ManifestColumns(
            spec_id=self._listed.partition_spec_id,
            partition_field_ids=self._shape.partition_field_ids,
            status=status,
            content=content,
            snapshot_id=self._numbers(self._column(("snapshot_id",)), self._listed.added_snapshot_id),
            sequence_number=sequence_number,
            file_path=self._file("file_path"),
            format_code=format_code,
            file_format=file_format,
            partition_code=code,
            partition=partition,
            record_count=self._file("record_count").to_numpy(),
            file_size_in_bytes=self._file("file_size_in_bytes").to_numpy(),
            optional={name: a for name, a in optional.items() if a is not None and a.null_count < len(a)},
            metrics=metrics,
        )
        return found if self._deletes_hold(found) else None

    def _column(self, name: tuple[str, ...]) -> pa.Array | None:
        return self._columns.get(name)

    def _file(self, name: str) -> Any:
        return self._columns.get(("data_file", name))

    def _counts_hold(self) -> bool:
        required = [self._column(("status",)), *(self._file(name) for name in REQUIRED_DATA_FILE)]
        if any(array is None or array.null_count for array in required):
            return False
        counts = [a for a in map(self._file, NEVER_NEGATIVE) if a is not None]
        if any((pc.min(a).as_py() or 0) < 0 for a in counts):
            return False
        rows = float(self._file("record_count").to_numpy().astype(np.float64).sum())
        return rows + (self._listed.first_row_id or 0) < _MOST_ROWS

    def _code(self, name: tuple[str, ...], kind: type[EntryStatus | FileContent]) -> Any:
        """An enum's column; None for a value that it does not have. Absent is 0."""
        values = self._numbers(self._column(name), 0)
        return values.astype(np.int8) if np.isin(values, [int(k) for k in kind]).all() else None

    def _numbers(self, array: pa.Array | None, missing: int) -> Rows:
        if array is None:
            return np.full(self._rows, missing, np.int64)
        return np.asarray(array.fill_null(missing).to_numpy(), np.int64)

    def _formats(self) -> tuple[npt.NDArray[np.int32], tuple[str, ...]] | None:
        encoded = self._file("file_format").dictionary_encode()
        try:
            names = tuple(file_format_of(name) for name in encoded.dictionary.to_pylist())
        except DeletekitError:
            return None
        return encoded.indices.to_numpy().astype(np.int32), names

    def _sequence_numbers(self, status: npt.NDArray[np.int8]) -> tuple[Rows, pa.Array] | None:
        inherits = (status == EntryStatus.ADDED) | (self._listed.sequence_number == 0)
        out = []
        for name in ("sequence_number", "file_sequence_number"):
            array = self._column((name,))
            known = np.zeros(self._rows, np.bool_) if array is None else array.is_valid().to_numpy(zero_copy_only=False)
            out.append((self._numbers(array, self._listed.sequence_number), known | inherits))
        (number, has_number), (file_number, has_file_number) = out
        return (number, pa.array(file_number, mask=~has_file_number)) if has_number.all() else None

    def _first_row_id(self, status: npt.NDArray[np.int8], content: npt.NDArray[np.int8]) -> pa.Array | None:
        first = self._listed.first_row_id
        if first is None:
            return None
        stored = self._file("first_row_id")
        known = np.zeros(self._rows, np.bool_) if stored is None else stored.is_valid().to_numpy(zero_copy_only=False)
        takes = ~known & (status != EntryStatus.DELETED) & (content == FileContent.DATA)
        counts = np.where(takes, self._file("record_count").to_numpy(), 0)
        ids = np.where(known, self._numbers(stored, 0), first + np.cumsum(counts) - counts)
        return pa.array(ids, mask=~(known | takes))

    def _partitions(self) -> tuple[npt.NDArray[np.int32], tuple[tuple[Any, ...], ...]] | None:
        columns = [self._column(("data_file", "partition", name)) for name in self._shape.partition_names]
        if any(column is not None and pa.types.is_nested(column.type) for column in columns):
            return None
        codes = np.zeros(self._rows, np.int64)
        for column in columns:
            if column is not None:
                more = _codes(column)
                _, codes = np.unique(codes * (int(more.max()) + 1) + more, return_inverse=True)
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        values = [[None] * len(first) if c is None else c.take(pa.array(first)).to_pylist() for c in columns]
        return codes.astype(np.int32), tuple(zip(*values, strict=True)) if columns else ((),)

    def _deletes_hold(self, found: ManifestColumns) -> bool:
        vectors = found.is_vector
        if vectors.any():
            for name in VECTOR_FIELDS:
                array = found.optional.get(name)
                if array is None or array.filter(pa.array(vectors)).null_count:
                    return False
        equality = found.content == FileContent.EQUALITY_DELETES
        if equality.any():
            ids = found.optional.get("equality_ids")
            lengths = None if ids is None else pc.list_value_length(ids.filter(pa.array(equality)))
            return lengths is not None and not lengths.null_count and pc.min(lengths).as_py() > 0
        return True


def _codes(column: pa.Array) -> Rows:
    """A number for each value, null included; floats by their bits, so that -0.0 and 0.0 stay two."""
    if pa.types.is_floating(column.type):
        column = column.view(pa.int32() if column.type == pa.float32() else pa.int64())
    codes: Rows = column.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    return codes
