"""Hold the entries of a manifest in columns: planning and committing need millions, without an object for each.

An entry becomes an object when it is asked for, and its metrics are decoded when they are.
Spec: "Manifests", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.lazy_file import SCALARS, LazyDataFile, LazyDeleteFile, MetricsOfRow, lazy_file

Rows = npt.NDArray[np.int64]
Column: TypeAlias = pa.Array | list[Any]
"""One field of all entries: an Arrow array, or for a few entries a list. Null and None mean absent."""

OPTIONAL = (
    "sort_order_id",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
    "key_metadata",
    "split_offsets",
    "equality_ids",
)
"""Fields of a file that may be absent and are no metrics."""
_STATUS = tuple(sorted(EntryStatus))
_CONTENT = tuple(sorted(FileContent))
_AT_ONCE = 1024
# For no more rows than these, one value after the other is faster than Arrow's `take`.
_FEW = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ManifestColumns:
    """The entries of one manifest, deleted ones too; row i is entry i.

    Attributes
    ----------
    status, content, snapshot_id, sequence_number, record_count, file_size_in_bytes, file_path: never null.
    file_format: canonical names, by `format_code`.
    partition: partition tuples, by `partition_code`; no tuple stands for two that `partition_key` tells apart.
    optional: other fields of the entry and its file by name; a name may be missing where all values are absent.
    metrics: gives the metric maps of a row's file.
    """

    spec_id: int
    partition_field_ids: tuple[int, ...]
    status: npt.NDArray[np.int8]
    content: npt.NDArray[np.int8]
    snapshot_id: Rows
    sequence_number: Rows
    file_path: pa.Array
    format_code: npt.NDArray[np.int32]
    file_format: tuple[str, ...]
    partition_code: npt.NDArray[np.int32]
    partition: tuple[tuple[Any, ...], ...]
    record_count: Rows
    file_size_in_bytes: Rows
    optional: Mapping[str, Column]
    metrics: MetricsOfRow

    def __len__(self) -> int:
        return len(self.status)

    @property
    def is_live(self) -> npt.NDArray[np.bool_]:
        live: npt.NDArray[np.bool_] = self.status != EntryStatus.DELETED
        return live

    @property
    def is_vector(self) -> npt.NDArray[np.bool_]:
        """Mark the rows that are deletion vectors, as `DeleteFile.is_deletion_vector` does."""
        puffin = np.array([name == "PUFFIN" for name in self.file_format], np.bool_)
        vectors: npt.NDArray[np.bool_] = (self.content == FileContent.POSITION_DELETES) & puffin[self.format_code]
        return vectors

    def paths(self, rows: Rows) -> pa.Array:
        """Return `file_path` of some rows, which ascend."""
        return _of_rows(self.file_path, rows)

    def referenced(self, rows: Rows) -> pa.Array:
        """Return `referenced_data_file` of some rows, which ascend; null where absent."""
        column = self.optional.get("referenced_data_file")
        return pa.nulls(len(rows), pa.large_string()) if column is None else _of_rows(as_text(column), rows)

    def entry(self, row: int) -> ManifestEntry:
        """Return the entry of one row."""
        return next(self.entries(np.array([row])))

    def all_entries(self) -> tuple[ManifestEntry, ...]:
        """Return the entries of all rows."""
        return tuple(self.entries(np.arange(len(self))))

    def entries(self, rows: Rows) -> Iterator[ManifestEntry]:
        """Yield the entries of some rows, made a few at a time."""
        for start in range(0, len(rows), _AT_ONCE):
            yield from self._made(rows[start : start + _AT_ONCE])

    def _made(self, rows: Rows) -> Iterator[ManifestEntry]:
        is_data = self.content[rows] == FileContent.DATA
        if is_data.any() != is_data.all():
            for row in rows:
                yield from self._made(np.array([row]))
            return
        kind, names = (LazyDataFile, SCALARS[DataFile]) if is_data.all() else (LazyDeleteFile, SCALARS[DeleteFile])
        entries = zip(
            rows.tolist(),
            self.status[rows].tolist(),
            self.values(rows, "snapshot_id"),
            self.values(rows, "sequence_number"),
            self.values(rows, "file_sequence_number"),
            zip(*(self.values(rows, name) for name in names), strict=True),
            strict=True,
        )
        for row, status, snapshot_id, number, file_number, scalars in entries:
            yield ManifestEntry(
                status=_STATUS[status],
                snapshot_id=snapshot_id,
                sequence_number=number,
                file_sequence_number=file_number,
                data_file=lazy_file(kind, self.metrics, row, scalars),
            )

    def values(self, rows: Rows, name: str) -> list[Any]:
        """Return a field of the entries or of their files as Python values."""
        if name in OPTIONAL or name in self.optional:
            return _python(self.optional.get(name), rows)
        if name == "spec_id":
            return [self.spec_id] * len(rows)
        if name == "file_path":
            return _python(self.file_path, rows)
        if name == "content":
            return [_CONTENT[c] for c in self.content[rows].tolist()]
        if name == "file_format":
            return [self.file_format[c] for c in self.format_code[rows].tolist()]
        if name == "partition":
            return [self.partition[c] for c in self.partition_code[rows].tolist()]
        numbers: list[Any] = getattr(self, name)[rows].tolist()
        return numbers


def int64s(column: Column | None, rows: int, missing: int) -> Rows:
    """Return a column of whole numbers, with `missing` where they are absent."""
    if column is None:
        return np.full(rows, missing, np.int64)
    if isinstance(column, list):
        return np.array([missing if v is None else v for v in column], np.int64)
    return np.asarray((column.fill_null(missing) if column.null_count else column).to_numpy(), np.int64)


def is_known(column: Column | None, rows: int) -> npt.NDArray[np.bool_]:
    """Mark the rows where a column has a value."""
    if column is None:
        return np.zeros(rows, np.bool_)
    if isinstance(column, list):
        return np.array([v is not None for v in column], np.bool_)
    known: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return known


def as_text(column: Column) -> pa.Array:
    """Return a column of text as Arrow."""
    return pa.array(column, pa.large_string()) if isinstance(column, list) else column


def text_array(values: Iterable[str]) -> pa.Array:
    """Return texts to look for in a column. Those that UTF-8 cannot express are left out: no column holds them."""
    known = {v for v in values if v.isascii() or v.encode(errors="ignore").decode() == v}
    return pa.array(sorted(known), pa.large_string())


def _of_rows(array: pa.Array, rows: Rows) -> pa.Array:
    return array if len(rows) == len(array) else array.take(pa.array(rows))  # all of them need no copy


def _python(column: Column | None, rows: Rows) -> list[Any]:
    """Return the values of some rows."""
    if column is None:
        return [None] * len(rows)
    if isinstance(column, list):
        return [column[row] for row in rows.tolist()]
    if len(rows) <= _FEW:
        values = (column[row].as_py() for row in rows.tolist())
        return [tuple(v) if isinstance(v, list) else v for v in values]
    return _to_pylist(column.take(pa.array(rows)))


def _to_pylist(array: pa.Array) -> list[Any]:
    """Do `to_pylist`, in a tenth of its time for numbers and lists; lists become tuples."""
    if pa.types.is_large_list(array.type):
        values, offsets = _to_pylist(array.values), array.offsets.to_numpy().tolist()
        valid = array.is_valid().to_numpy(zero_copy_only=False).tolist()
        return [tuple(values[a:b]) if v else None for a, b, v in zip(offsets, offsets[1:], valid, strict=False)]
    if pa.types.is_integer(array.type) and not array.null_count:
        return array.to_numpy().tolist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]
