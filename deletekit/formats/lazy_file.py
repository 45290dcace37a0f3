"""Content files whose fields are filled in from a manifest's columns when the first of them is asked for.

Law: a lazy file is its `DataFile` or `DeleteFile` in all that can be seen of it: fields, equality, hash, repr, pickle.
Metrics are decoded again from the manifest's bytes, for a whole manifest at once, and only a few manifests' are kept.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import pyarrow as pa

from deletekit.formats.avro_columns import Columns
from deletekit.formats.content_file import ContentFile, DataFile, DeleteFile
from deletekit.formats.manifest_shape import BOUND_MAPS, COUNT_MAPS

__all__ = [
    "SCALARS",
    "DecodedMetrics",
    "FileMetrics",
    "LazyDataFile",
    "LazyDeleteFile",
    "Metrics",
    "MetricsCache",
    "RecordMetrics",
    "lazy_file",
]

_MAPS = (*COUNT_MAPS, *BOUND_MAPS)
_SHARED = (
    "content",
    "spec_id",
    "file_path",
    "file_format",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "key_metadata",
    "split_offsets",
    "sort_order_id",
)
SCALARS: dict[type[ContentFile], tuple[str, ...]] = {
    DataFile: (*_SHARED, "first_row_id"),
    DeleteFile: (*_SHARED, "equality_ids", "referenced_data_file", "content_offset", "content_size_in_bytes"),
}
"""The fields of each class that are not metrics, in the order that `of` takes them."""

_set = object.__setattr__


class Metrics(ABC):
    """The metric maps of one manifest's files."""

    @abstractmethod
    def of(self, row: int) -> dict[str, dict[int, Any] | None]:
        """The maps of one file by name; None where nothing was collected."""


class RecordMetrics(Metrics):
    """Metrics as Avro records hold them: each map is a list of {key, value}."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self._records = records

    def of(self, row: int) -> dict[str, dict[int, Any] | None]:
        record = self._records[row]
        return {name: {i["key"]: i["value"] for i in record[name]} if record[name] else None for name in _MAPS}


class FileMetrics(Metrics):
    """Metrics of files at hand."""

    def __init__(self, files: Sequence[ContentFile]) -> None:
        self._files = files

    def of(self, row: int) -> dict[str, dict[int, Any] | None]:
        return {name: getattr(self._files[row], name) for name in _MAPS}


class DecodedMetrics(Metrics):
    """Metrics that `decode` gives as columns by canonical name, when they are asked for."""

    def __init__(self, decode: Callable[[], Columns], cache: MetricsCache) -> None:
        self._decode = decode
        self._cache = cache

    def of(self, row: int) -> dict[str, dict[int, Any] | None]:
        columns = self._cache.columns(self, self._decode)
        return {name: _map(columns.get(("data_file", name)), row) for name in _MAPS}


class MetricsCache:
    """The metric columns of the manifests that were asked for last."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._kept: OrderedDict[int, tuple[Metrics, Columns]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return MetricsCache, (self._most,)  # what travels decodes again

    def columns(self, metrics: Metrics, decode: Callable[[], Columns]) -> Columns:
        """The columns of one manifest, decoded unless they are kept."""
        key = id(metrics)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = (metrics, decode())
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return self._kept[key][1]


def _map(column: pa.Array | None, row: int) -> dict[int, Any] | None:
    if column is None or not column[row].is_valid:
        return None
    items = column[row].values
    return dict(zip(items.field(0).to_pylist(), items.field(1).to_pylist(), strict=True)) or None


def _slot_setters(kind: type[ContentFile]) -> tuple[Callable[[Any, Any], None], ...]:
    """How to fill the slots of a frozen dataclass; half the time of `object.__setattr__`."""
    return tuple(getattr(kind, name).__set__ for name in SCALARS[kind])


class _Lazy:
    """Fills slots that are empty; a mixin before the dataclass, whose slots they are."""

    __slots__ = ()
    _base: type[ContentFile]
    _setters: tuple[Callable[[Any, Any], None], ...]
    _source: tuple[Metrics, int, tuple[Any, ...]]

    def __getattr__(self, name: str) -> Any:  # only called for a slot that is empty
        if name in _MAPS:
            metrics, row, _ = self._source
            for key, value in metrics.of(row).items():
                _set(self, key, value)
        elif name in SCALARS[self._base]:
            for set_slot, value in zip(self._setters, self._source[2], strict=True):
                set_slot(self, value)
        else:
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def plain(self) -> ContentFile:
        """The same file with every field filled in."""
        return self._base(**_fields(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, self._base):
            return NotImplemented
        return _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return hash(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(self._base, **_fields(self)), ()


class LazyDataFile(_Lazy, DataFile):
    """A `DataFile` that is row `row` of a manifest."""

    __slots__ = ("_source",)
    _base = DataFile
    _setters = _slot_setters(DataFile)


class LazyDeleteFile(_Lazy, DeleteFile):
    """A `DeleteFile` that is row `row` of a manifest."""

    __slots__ = ("_source",)
    _base = DeleteFile
    _setters = _slot_setters(DeleteFile)


def lazy_file(kind: type[LazyDataFile | LazyDeleteFile], metrics: Metrics, row: int, values: tuple[Any, ...]) -> Any:
    """A lazy file; `values` are its `SCALARS`."""
    file = kind.__new__(kind)
    _set(file, "_source", (metrics, row, values))
    return file


def _fields(file: Any) -> dict[str, Any]:
    return {f.name: getattr(file, f.name) for f in fields(file)}
