"""Remember the deletes of a sink with `sequence_by`, so that an older insert that comes later brings no row back.

A deleted row leaves no value to compare with. So each commit that deletes writes an immutable file: the hash of each
deleted key, and the value of its delete. The summary of the batch's snapshot names the files that count, so the memory
belongs to the snapshot: a rollback of the branch also takes the memory back. Small files are merged into the new one.

A file's name begins with the checksum of its bytes. A missing or damaged file is an error, never an empty memory.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.types import NestedField

from deletekit.errors import FormatError, NotFoundError
from deletekit.rows.write_context import WriteContext
from deletekit.stream.key_hashes import KeyHasher
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.table.sinks.files import DELETES, SEQUENCE_DELETES, sink_path
from deletekit.table.types import arrow_type

_NAME = re.compile(r"[0-9a-f]{32}-[0-9a-f]{12}\.deletes")
_BYTES = 16

Keys = npt.NDArray[np.bytes_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Which files of deletes count in a snapshot, and how many batches of the sink there were, as its summary says."""

    batches: int = 0
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The entry of the summary."""
        return ",".join([str(self.batches), *self.names])

    def with_batch(self) -> Memory:
        """Return the memory after a batch that deletes nothing."""
        return replace(self, batches=self.batches + 1)


def memory_of(summary: Mapping[str, str]) -> Memory:
    """Return the memory that a snapshot names. Raise FormatError for an entry that cannot be read."""
    text = summary.get(SEQUENCE_DELETES)
    if text is None:
        return Memory()
    batches, *names = text.split(",")
    if not re.fullmatch(r"[0-9]{1,18}", batches) or not all(map(_NAME.fullmatch, names)):
        message, expected = "a snapshot names its remembered deletes in a way that cannot be read", "number,name,..."
        raise FormatError(message, kind="sequence-deletes", field=SEQUENCE_DELETES, found=text, expected=expected)
    return Memory(batches=int(batches), names=tuple(names))


@dataclass(frozen=True, slots=True)
class Deletes:
    """Deleted keys, sorted and each once: the hash, the value of the newest delete, and the batch that had it."""

    keys: Keys
    values: pl.Series
    batches: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.keys)

    def at(self, wanted: Keys, since: int) -> pl.Series:
        """Return the value of each wanted key, or null. Deletes before the batch `since` are forgotten."""
        place = np.minimum(np.searchsorted(self.keys, wanted), max(len(self) - 1, 0))
        if not len(self):
            return pl.Series("value", [None] * len(wanted), self.values.dtype)
        hit = (self.keys[place] == wanted) & (self.batches[place] >= since)
        return self.values.gather(place).zip_with(pl.Series(hit), pl.Series("value", [None], self.values.dtype))


@dataclass(slots=True)
class RememberedDeletes:
    """The deletes of one sink, with the files that were read before.

    Attributes
    ----------
    key: the key columns; `column`: that of `sequence_by`.
    keep: for how many batches a delete is remembered; None for ever.
    without_lost: go on without files that are missing or damaged.
    """

    key: Sequence[NestedField]
    column: NestedField
    keep: int | None
    without_lost: bool = False
    _read: dict[str, Deletes] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return RememberedDeletes, (self.key, self.column, self.keep, self.without_lost)  # tasks read their own

    def hashes(self, columns: Sequence[Any]) -> Keys:
        """Return 16 bytes for each key: the same ones in every process, and for a key whose type was promoted."""
        found = KeyHasher(self.key)(columns)
        words = np.empty((len(found), 2), "<u8")
        words[:, 0] = found.low
        words[:, 1] = found.is_null if found.high is None else found.high
        return np.frombuffer(words.tobytes(), f"S{_BYTES}")

    def newest(self, io: FileIO, metadata: TableMetadata, memory: Memory, wanted: Keys) -> pl.Series:
        """Return the value of the newest delete of each key that is remembered, or null."""
        files = self._files(io, metadata, memory)
        found = pl.Series("value", [None] * len(wanted), _dtype(self.column))
        for deletes in files.values():
            found = newer(found, deletes.at(wanted, self._since(memory)))
        return found

    def written(self, write: WriteContext, io: FileIO, memory: Memory, keys: Keys, values: pl.Series) -> Memory:
        """Write the deletes of one more batch, and return the memory after it.

        Files that are not much bigger than the new one are merged into it, so there are few.
        """
        now = memory.batches + 1
        files = self._files(io, write.metadata, memory)
        names, rows = list(files), len(keys)
        if not rows:
            return Memory(batches=now, names=tuple(names))
        merged = [_sorted(keys, values, np.full(rows, now, np.int64))]
        while names and len(files[names[-1]]) <= 2 * rows:
            merged.append(files[names.pop()])
            rows += len(merged[-1])
        new = _merged(merged, self._since(memory))
        data = _encoded(new)
        name = f"{_checksum(data)}-{uuid.uuid4().hex[:12]}{DELETES}"
        write.write(sink_path(write.metadata, name), data)
        self._read[name] = new
        return Memory(batches=now, names=(*names, name))

    def _since(self, memory: Memory) -> int:
        return 0 if self.keep is None else memory.batches + 1 - self.keep

    def _files(self, io: FileIO, metadata: TableMetadata, memory: Memory) -> dict[str, Deletes]:
        """Return the files of a memory, in its order. Only those that were not read before are read.

        The others must still be there: `erase` removes them, and what it erased must not be written again.
        """
        kind = _dtype(self.column)
        if any(d.values.dtype != kind for d in self._read.values()):  # the column was promoted since
            self._read.clear()
        found: dict[str, Deletes] = {}
        for name in memory.names:
            deletes = self._load(io, sink_path(metadata, name), name)
            if deletes is not None:
                found[name] = deletes
        self._read = dict(found)
        return found

    def _load(self, io: FileIO, path: str, name: str) -> Deletes | None:
        try:
            if name in self._read:
                io.size(path)
                return self._read[name]
            return self._decoded(io.read(path), path, name)
        except (NotFoundError, FormatError) as e:
            if self.without_lost:
                return None
            if isinstance(e, FormatError):
                raise
            raise _lost(path, "no file", "the file that the snapshot names") from e

    def _decoded(self, data: bytes, path: str, name: str) -> Deletes:
        if not name.startswith(_checksum(data)):
            raise _lost(path, _checksum(data), name[:32])
        table = pq.read_table(BytesIO(data))
        wanted = arrow_type(self.column.field_type)
        try:
            values = table.column("value").cast(wanted)
        except pa.ArrowException as e:
            raise _lost(path, str(table.schema.field("value").type), str(wanted)) from e
        keys = np.frombuffer(b"".join(table.column("key").to_pylist()), f"S{_BYTES}")
        return Deletes(keys, pl.Series("value", values), table.column("batch").to_numpy())


def _lost(path: str, found: str, expected: str) -> FormatError:
    message = (
        "remembered deletes of a sink are missing or damaged, so an older change could bring a row back; "
        "allow_rewind=True goes on without them"
    )
    return FormatError(message, kind="sequence-deletes", file=path, found=found, expected=expected)


def newer(left: pl.Series, right: pl.Series) -> pl.Series:
    """Return the higher of two values in each row; null only where both are."""
    return right.zip_with(left.is_null() | (right > left).fill_null(value=False), left)


def _sorted(keys: Keys, values: pl.Series, batches: npt.NDArray[np.int64]) -> Deletes:
    order = np.argsort(keys, kind="stable")
    return Deletes(keys[order], values.gather(order), batches[order])


def _merged(parts: Iterable[Deletes], since: int) -> Deletes:
    """Merge deletes: those before a batch are forgotten, then each key keeps its highest value, last deleted by it."""
    parts = list(parts)
    keys = np.concatenate([p.keys for p in parts])
    values = pl.concat([p.values.rename("value") for p in parts])
    batches = np.concatenate([p.batches for p in parts])
    order = np.lexsort((batches, values.rank("dense").to_numpy(), keys))
    order = order[batches[order] >= since]  # first: a forgotten delete hides no newer one of a lower value
    chosen = order[np.append(keys[order][1:] != keys[order][:-1], True)[: len(order)]]
    return Deletes(keys[chosen], values.gather(chosen), batches[chosen])


def _encoded(deletes: Deletes) -> bytes:
    raw = pa.py_buffer(deletes.keys.tobytes())
    keys = pa.Array.from_buffers(pa.binary(_BYTES), len(deletes), [None, raw])
    out = BytesIO()
    table = pa.table({"key": keys, "value": deletes.values.to_arrow(), "batch": deletes.batches})
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def _checksum(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _dtype(column: NestedField) -> pl.DataType:
    return pl.Series("value", pa.nulls(0, arrow_type(column.field_type))).dtype
