"""Hold the entries of a manifest in columns: planning and committing need millions, without an object for each.

An entry becomes an object when it is asked for, and its metrics are decoded when they are.
Spec: "Manifests", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deletekit.formats.avro_columns import Columns, to_numpy
from deletekit.formats.content_file import METRIC_MAPS, DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_schema import OPTIONAL_DATA_FILE

Rows = npt.NDArray[np.int64]
T = TypeVar("T")
Column: TypeAlias = pa.Array | list[Any]
"""One field of all entries: an Arrow array, or for a few entries a list. Null and None mean absent."""

MetricMaps = dict[str, dict[int, Any] | None]
"""The metric maps of one file by name; None where nothing was collected."""
MetricsOfRow = Callable[[int], MetricMaps]
"""Gives the metric maps of the file in a row of a manifest."""

_STATUS = tuple(sorted(EntryStatus))
_CONTENT = tuple(sorted(FileContent))
# More objects than these at a time, and Python's garbage collector would look at them again and again.
_AT_ONCE = 128
_DATA = int(FileContent.DATA)  # an attribute of an enum is slow
_set, _new = object.__setattr__, object.__new__
# For no more rows than these, one value after the other is faster than Arrow's `take`, and texts need not be shared.
_ROWS_TAKEN_SINGLY = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ManifestColumns:
    """The entries of one manifest, deleted ones too; row i is entry i.

    Attributes
    ----------
    status, content, snapshot_id, sequence_number, record_count, file_size_in_bytes: never null.
    file_path: never null; `shared_text` where many vectors are in one Puffin file. See `paths`.
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

    @property
    def all_paths(self) -> pa.Array:
        """`file_path` of all rows, as text."""
        return _plain(self.file_path)

    def paths(self, rows: Rows) -> pa.Array:
        """Return `file_path` of some rows, which ascend, as text."""
        return _plain(_of_rows(self.file_path, rows))

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
            yield from EntryGroup(self, rows[start : start + _AT_ONCE]).entries()

    def values(self, rows: Rows, name: str) -> list[Any]:
        """Return a field of the entries or of their files as Python values."""
        if name in OPTIONAL_DATA_FILE or name in self.optional:
            return _python(self.optional.get(name), rows)
        if name == "status":
            return [_STATUS[s] for s in self.status[rows].tolist()]
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
    """Return a column of whole numbers, with `missing` where they are absent. One number for all rows takes no memory.

    It cannot be written to.
    """
    if column is None:
        values = np.array([missing], np.int64)
    elif isinstance(column, list):
        values = np.array([missing if v is None else v for v in column], np.int64)
    else:
        values = np.asarray(to_numpy(column, missing), np.int64)
    is_one = len(values) > 0 and bool((values == values[0]).all())
    return np.broadcast_to(values[0], rows) if is_one else values


def is_known(column: Column | None, rows: int) -> npt.NDArray[np.bool_]:
    """Mark the rows where a column has a value."""
    if column is None:
        return np.zeros(rows, np.bool_)
    if isinstance(column, list):
        return np.array([v is not None for v in column], np.bool_)
    return to_numpy(column.is_valid())


def as_text(column: Column) -> pa.Array:
    """Return a column of text as Arrow."""
    if not isinstance(column, list):
        return column
    encoded = [b"" if v is None else v.encode() for v in column]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    known = _bits(np.array([v is not None for v in column], np.bool_))
    return pa.Array.from_buffers(
        pa.large_string(), len(column), [known, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    )


def shared_text(texts: pa.Array) -> pa.Array:
    """Return texts with each distinct one kept once, if there are at most half as many, and more than a few."""
    if len(texts) <= _ROWS_TAKEN_SINGLY:
        return texts  # to encode them would import pyarrow.compute
    encoded = texts.dictionary_encode()
    return encoded if 2 * len(encoded.dictionary) <= len(texts) else texts


def as_numbers(values: Rows, known: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers as Arrow, null where they are not known.

    `pa.array` would import pandas where that is installed: a third of a second, which reading a manifest need not take.
    """
    buffers = [None if known is None else _bits(known), pa.py_buffer(np.ascontiguousarray(values, np.int64))]
    return pa.Array.from_buffers(pa.int64(), len(values), buffers)


def text_array(values: Iterable[str]) -> pa.Array:
    """Return texts to look for in a column. Those that UTF-8 cannot express are left out: no column holds them."""
    known = {v for v in values if v.isascii() or v.encode(errors="ignore").decode() == v}
    return as_text(sorted(known))


def _bits(known: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    return None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))


def _of_rows(array: pa.Array, rows: Rows) -> pa.Array:
    return array if len(rows) == len(array) else array.take(as_numbers(rows))  # all of them need no copy


def _plain(array: pa.Array) -> pa.Array:
    """Undo `shared_text`."""
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def _python(column: Column | None, rows: Rows) -> list[Any]:
    """Return the values of some rows."""
    if column is None:
        return [None] * len(rows)
    if isinstance(column, list):
        return [column[row] for row in rows.tolist()]
    if len(rows) <= _ROWS_TAKEN_SINGLY:
        values = (column[row].as_py() for row in rows.tolist())
        return [tuple(v) if isinstance(v, list) else v for v in values]
    return _to_pylist(column.take(as_numbers(rows)))


def _to_pylist(array: pa.Array) -> list[Any]:
    """Do `to_pylist`, in a tenth of its time for numbers and lists; lists become tuples."""
    if pa.types.is_large_list(array.type):
        values, offsets = _to_pylist(array.values), to_numpy(array.offsets).tolist()
        valid = to_numpy(array.is_valid()).tolist()
        return [tuple(values[a:b]) if v else None for a, b, v in zip(offsets, offsets[1:], valid, strict=False)]
    if pa.types.is_integer(array.type) and not array.null_count:
        return to_numpy(array).tolist()  # type: ignore[no-any-return]
    return _plain(array).to_pylist()  # type: ignore[no-any-return]


# --- values that are filled in when they are asked for ----------------------------------------------------------------


class EntryGroup:
    """Some rows of a manifest. A field becomes Python values when it is first asked for, for all rows at once."""

    def __init__(self, columns: ManifestColumns, rows: Rows) -> None:
        self.rows = rows
        self._columns = columns
        self._values: dict[str, Sequence[Any]] = {}
        self._metrics: tuple[int, MetricMaps] = (-1, {})

    def entries(self) -> list[ManifestEntry]:
        """Return the entries of the rows, with their files: who asks for an entry looks at its file."""
        kinds = set((self._columns.content[self.rows] == _DATA).tolist())
        if len(kinds) > 1:  # which a table may not have
            return [e for row in self.rows for e in EntryGroup(self._columns, np.array([row])).entries()]
        sources = [(self, place) for place in range(len(self.rows))]
        files = filled(LazyDataFile if kinds == {True} else LazyDeleteFile, _source=sources)
        return filled(LazyEntry, _source=sources, data_file=files)

    def values(self, name: str) -> Sequence[Any]:
        """Return a field of the entries or of their files."""
        found = self._values.get(name)
        if found is None:
            found = self._values[name] = self._made(name)
        return found

    def metrics(self, place: int) -> MetricMaps:
        """Return the metric maps of one file; they are asked for one after the other."""
        known, maps = self._metrics
        if known != place:
            self._metrics = place, (maps := self._columns.metrics(int(self.rows[place])))
        return maps

    def _made(self, name: str) -> Any:
        return _MetricOf(self, name) if name in METRIC_MAPS else self._columns.values(self.rows, name)


@dataclass(frozen=True, slots=True)
class _MetricOf:
    """One metric map of each file of a group."""

    group: EntryGroup
    name: str

    def __getitem__(self, place: int) -> Any:
        return self.group.metrics(place)[self.name]


class Lazy:
    """A mixin that fills the empty slots of the dataclass behind it, each when it is asked for.

    A lazy value equals that of its class in all that can be seen: fields, equality, hash, repr, pickle.
    `_source` is a group that knows the fields, and a place in it.
    """

    __slots__ = ()
    _base: type[Any]
    _source: tuple[Any, int]

    def __getattr__(self, name: str) -> Any:  # only called for a slot that is empty
        if name not in self._base.__dataclass_fields__:
            raise AttributeError(name)
        group, place = self._source
        value = group.values(name)[place]
        _set(self, name, value)
        return value

    def _plain(self) -> Any:
        """Return the same value with every field filled in."""
        return _made(self._base, _fields(self))

    def __eq__(self, other: object) -> bool:
        return _fields(self) == _fields(other) if isinstance(other, self._base) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._plain())

    def __repr__(self) -> str:
        return repr(self._plain())

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._base, _fields(self))


def filled(kind: type[T], **slots: Sequence[Any]) -> list[T]:
    """Return values of a class with slots, with only these slots filled in: each has a value for every one of them.

    A slot of many values at once takes a fraction of the time that `__init__` takes.
    """
    made = list(map(_new, repeat(kind, len(next(iter(slots.values()))))))
    for name, values in slots.items():
        deque(map(getattr(kind, name).__set__, made, values), 0)
    return made


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    return kind(**values)


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


class LazyDataFile(Lazy, DataFile):
    """A `DataFile` in a row of a manifest."""

    __slots__ = ("_source",)
    _base = DataFile


class LazyDeleteFile(Lazy, DeleteFile):
    """A `DeleteFile` in a row of a manifest."""

    __slots__ = ("_source",)
    _base = DeleteFile


class LazyEntry(Lazy, ManifestEntry):
    """A `ManifestEntry` in a row of a manifest."""

    __slots__ = ("_source",)
    _base = ManifestEntry


@dataclass(frozen=True, eq=False)
class DecodedMetrics:
    """Metrics that `decode` gives as columns, by the spec's names, when they are asked for."""

    decode: Callable[[], Columns]
    cache: MetricsCache

    def __call__(self, row: int) -> MetricMaps:
        columns = self.cache.columns(self.decode)
        return {name: _map(columns.get(("data_file", name)), row) for name in METRIC_MAPS}


class MetricsCache:
    """The metric columns of the manifests that were asked for last."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._kept = lru_cache(maxsize=most)(lambda decode: decode())
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return MetricsCache, (self._most,)  # a copy in another process decodes again

    def columns(self, decode: Callable[[], Columns]) -> Columns:
        """Return the columns of one manifest, decoding them unless they are kept."""
        with self._lock:
            kept: Columns = self._kept(decode)
        return kept


def _map(column: pa.Array | None, row: int) -> dict[int, Any] | None:
    if column is None or not column[row].is_valid:
        return None
    items = column[row].values
    return dict(zip(items.field(0).to_pylist(), items.field(1).to_pylist(), strict=True)) or None
