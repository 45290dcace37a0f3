"""Fill in the fields of a content file from a manifest's columns, when the first of them is asked for.

A lazy file equals its `DataFile` or `DeleteFile` in all that can be seen of it: fields, equality, hash, repr, pickle.
Metrics are decoded again from the manifest's bytes, for a whole manifest at once, and only a few manifests' are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import pyarrow as pa

from deletekit.formats.avro_columns import Columns
from deletekit.formats.content_file import METRIC_MAPS, ContentFile, DataFile, DeleteFile

MetricMaps = dict[str, dict[int, Any] | None]
"""The metric maps of one file by name; None where nothing was collected."""
MetricsOfRow = Callable[[int], MetricMaps]
"""Gives the metric maps of the file in a row of a manifest."""

SCALARS: dict[type[ContentFile], tuple[str, ...]] = {
    kind: tuple(f.name for f in fields(kind) if f.name not in METRIC_MAPS) for kind in (DataFile, DeleteFile)
}
"""The fields of each class that are no metric maps, in the order that `lazy_file` takes them."""

_set = object.__setattr__


class DecodedMetrics:
    """Metrics that `decode` gives as columns, by the spec's names, when they are asked for."""

    def __init__(self, decode: Callable[[], Columns], cache: MetricsCache) -> None:
        self._decode = decode
        self._cache = cache

    def __call__(self, row: int) -> MetricMaps:
        columns = self._cache.columns(self, self._decode)
        return {name: _map(columns.get(("data_file", name)), row) for name in METRIC_MAPS}


class MetricsCache:
    """The metric columns of the manifests that were asked for last."""

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._kept: OrderedDict[int, tuple[DecodedMetrics, Columns]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return MetricsCache, (self._most,)  # a copy in another process decodes again

    def columns(self, metrics: DecodedMetrics, decode: Callable[[], Columns]) -> Columns:
        """Return the columns of one manifest, decoding them unless they are kept."""
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
    """Return what fills the slots of a frozen dataclass, in half the time of `object.__setattr__`."""
    return tuple(getattr(kind, name).__set__ for name in SCALARS[kind])


class _Lazy:
    """A mixin that fills the empty slots of the dataclass behind it."""

    __slots__ = ()
    _base: type[ContentFile]
    _setters: tuple[Callable[[Any, Any], None], ...]
    _source: tuple[MetricsOfRow, int, tuple[Any, ...]]

    def __getattr__(self, name: str) -> Any:  # only called for a slot that is empty
        if name in METRIC_MAPS:
            metrics, row, _ = self._source
            for key, value in metrics(row).items():
                _set(self, key, value)
        elif name in SCALARS[self._base]:
            for set_slot, value in zip(self._setters, self._source[2], strict=True):
                set_slot(self, value)
        else:
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def plain(self) -> ContentFile:
        """Return the same file with every field filled in."""
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


def lazy_file(
    kind: type[LazyDataFile | LazyDeleteFile], metrics: MetricsOfRow, row: int, values: tuple[Any, ...]
) -> Any:
    """Return a lazy file; `values` are its `SCALARS`."""
    file = kind.__new__(kind)
    _set(file, "_source", (metrics, row, values))
    return file


def _fields(file: Any) -> dict[str, Any]:
    return {f.name: getattr(file, f.name) for f in fields(file)}
