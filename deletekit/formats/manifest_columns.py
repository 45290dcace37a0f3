"""Manifests as columns: what planning and committing need of a million entries, without an object for each.

Law: an entry becomes an object when it is asked for, and its metrics are decoded when they are. The objects are those
of `read_manifest` and `inherit`.
Spec: "Manifests", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.lazy_file import SCALARS, LazyDataFile, LazyDeleteFile, Metrics, lazy_file

__all__ = ["OPTIONAL", "ManifestColumns", "Rows", "text_array"]

Rows = npt.NDArray[np.int64]

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ManifestColumns:
    """The entries of one manifest, deleted ones too, with everything inherited; row i is entry i.

    Attributes
    ----------
    status, content, snapshot_id, sequence_number, record_count, file_size_in_bytes, file_path: never null.
    file_format: canonical names, by `format_code`.
    partition: partition tuples, by `partition_code`; no tuple stands for two that `partition_key` tells apart.
    optional: other fields of the entry and its file by name; null where absent, missing where all are.
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
    optional: Mapping[str, pa.Array]
    metrics: Metrics

    def __len__(self) -> int:
        return len(self.status)

    @property
    def is_live(self) -> npt.NDArray[np.bool_]:
        live: npt.NDArray[np.bool_] = self.status != EntryStatus.DELETED
        return live

    @property
    def is_vector(self) -> npt.NDArray[np.bool_]:
        """Which rows are deletion vectors, as `DeleteFile.is_deletion_vector` says."""
        puffin = np.array([name == "PUFFIN" for name in self.file_format], np.bool_)
        vectors: npt.NDArray[np.bool_] = (self.content == FileContent.POSITION_DELETES) & puffin[self.format_code]
        return vectors

    def paths(self, rows: Rows) -> pa.Array:
        """`file_path` of some rows, ascending."""
        return _of_rows(self.file_path, rows)

    def referenced(self, rows: Rows) -> pa.Array:
        """`referenced_data_file` of some rows, ascending; null where absent."""
        array = self.optional.get("referenced_data_file")
        return pa.nulls(len(rows), pa.large_string()) if array is None else _of_rows(array, rows)

    def entry(self, row: int) -> ManifestEntry:
        """The entry of one row."""
        return next(self.entries(np.array([row])))

    def all_entries(self) -> tuple[ManifestEntry, ...]:
        """The entries of all rows."""
        return tuple(self.entries(np.arange(len(self))))

    def entries(self, rows: Rows) -> Iterator[ManifestEntry]:
        """The entries of some rows, made a few at a time while they are asked for."""
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
            self._values(rows, "snapshot_id"),
            self._values(rows, "sequence_number"),
            self._optional(rows, "file_sequence_number"),
            zip(*(self._values(rows, name) for name in names), strict=True),
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

    def _values(self, rows: Rows, name: str) -> list[Any]:
        """A field of `DataFile` or `DeleteFile` as Python values."""
        if name in OPTIONAL or name in self.optional:
            return self._optional(rows, name)
        if name == "spec_id":
            return [self.spec_id] * len(rows)
        if name == "file_path":
            return self.file_path.take(pa.array(rows)).to_pylist()  # type: ignore[no-any-return]
        if name == "content":
            return [_CONTENT[c] for c in self.content[rows].tolist()]
        if name == "file_format":
            return [self.file_format[c] for c in self.format_code[rows].tolist()]
        if name == "partition":
            return [self.partition[c] for c in self.partition_code[rows].tolist()]
        numbers: list[Any] = getattr(self, name)[rows].tolist()
        return numbers

    def _optional(self, rows: Rows, name: str) -> list[Any]:
        array = self.optional.get(name)
        return [None] * len(rows) if array is None else _python(array.take(pa.array(rows)))


def text_array(values: Iterable[str]) -> pa.Array:
    """Texts to look for in a column; those that no UTF-8 stands for are left out, because no column holds them."""
    known = {v for v in values if v.isascii() or v.encode(errors="ignore").decode() == v}
    return pa.array(sorted(known), pa.large_string())


def _of_rows(array: pa.Array, rows: Rows) -> pa.Array:
    return array if len(rows) == len(array) else array.take(pa.array(rows))  # all of them need no copy


def _python(array: pa.Array) -> list[Any]:
    """`to_pylist`, at a tenth of its time for numbers and lists; lists become tuples."""
    if pa.types.is_large_list(array.type):
        values, offsets = _python(array.values), array.offsets.to_numpy().tolist()
        valid = array.is_valid().to_numpy(zero_copy_only=False).tolist()
        return [tuple(values[a:b]) if v else None for a, b, v in zip(offsets, offsets[1:], valid, strict=False)]
    if pa.types.is_integer(array.type) and not array.null_count:
        return array.to_numpy().tolist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]
