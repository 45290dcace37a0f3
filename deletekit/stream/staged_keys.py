"""Keep the keys of a job's new rows as hashes: a sorted file for each task, merged range by range of the hash.

No process holds the keys of all tasks. The files are runs of a key index that no root names. So they are removed after
the commit, and those of a killed process are found by `remove_orphan_files`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.deletes.keys import column_at
from deletekit.deletes.write_context import WriteContext
from deletekit.stream.key_hashes import KeyHasher, KeyHashes
from deletekit.stream.key_index import IndexRows, Run, is_null, new_run, pack
from deletekit.table.file_io import FileIO
from deletekit.table.index_files import Rows, RunInfo, RunTail, read_blocks, read_tail
from deletekit.table.sink_files import RUN, sink_path
from deletekit.verbs.upsert import not_unique

# So many keys of all tasks are in memory at a time.
_RANGE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedKeys:
    """The file with the keys of one task.

    Attributes
    ----------
    bounds: key columns with the least and the highest value of each, and a null if it has one.
    """

    path: str
    info: RunInfo
    bounds: pa.Table


@dataclass
class KeyCollector:
    """Collects the hashes of the keys of rows that pass by.

    Attributes
    ----------
    fields: the key columns.
    holds: whether the keys themselves are kept too.
    """

    fields: Sequence[NestedField]
    schema: Schema
    holds: bool = False
    _rows: list[IndexRows] = field(default_factory=list)
    _bounds: list[pa.Table] = field(default_factory=list)
    _kept: list[pa.Table] = field(default_factory=list)
    _count: int = 0

    def of(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the tables as they are, after their keys were taken."""
        hasher = KeyHasher(self.fields)
        for table in tables:
            if len(table):
                names = [str(f.field_id) for f in self.fields]
                keys = pa.table([column_at(table, self.schema, f.field_id) for f in self.fields], names=names)
                hashes = hasher(keys.columns)
                places = pack(0, np.arange(self._count, self._count + len(keys)), hashes.is_null)
                self._rows.append(IndexRows(hashes, places))
                self._count += len(keys)
                self._bounds = [_bounds([*self._bounds, keys])]
                if self.holds:
                    self._kept.append(keys)
            yield table

    @property
    def keys(self) -> pa.Table:
        """Return the keys that were kept, named by field id."""
        return pa.concat_tables(self._kept)

    @property
    def bounds(self) -> pa.Table:
        """Return the bounds as `StagedKeys` has them."""
        return self._bounds[0]

    def run(self) -> Run:
        """Return all hashes as a sorted run."""
        run = new_run(self._rows, (), wide=not KeyHasher(self.fields).exact)
        self._rows = []
        return run


def stage(context: WriteContext, run: Run, bounds: pa.Table) -> StagedKeys:
    """Write the keys of a task to a file."""
    path = sink_path(context.metadata, f"{context.operation_id}{RUN}")
    context.remember(path)
    run.save(context.io, path)
    assert run.saved is not None
    return StagedKeys(path=path, info=run.saved, bounds=bounds)


def joined_bounds(staged: Sequence[StagedKeys]) -> pa.Table:
    """Return the bounds of all keys."""
    return _bounds([s.bounds for s in staged])


def check_unique(io: FileIO, staged: Sequence[StagedKeys], fields: Sequence[NestedField]) -> None:
    """Raise InvalidInputError if two rows have one key."""
    for _ in _checked(io, staged, fields):
        pass


def sorted_keys(io: FileIO, staged: Sequence[StagedKeys], fields: Sequence[NestedField]) -> KeyHashes:
    """Return all hashes, sorted, from files of this machine that are read as they are needed.

    Raises InvalidInputError if two rows have one key.
    """
    with tempfile.TemporaryFile() as low, tempfile.TemporaryFile() as high, tempfile.TemporaryFile() as null:
        count, wide = 0, not KeyHasher(fields).exact
        for hashes in _checked(io, staged, fields):
            count += len(hashes)
            hashes.low.tofile(low)
            hashes.is_null.tofile(null)
            if hashes.high is not None:
                hashes.high.tofile(high)
        return KeyHashes(
            _mapped(low, np.uint64, count),
            _mapped(high, np.uint64, count) if wide else None,
            _mapped(null, bool, count),
        )


def _mapped(file: Any, kind: Any, count: int) -> Any:
    """Map a file into memory. It stays when the file is closed, and the system may drop its pages at any time."""
    file.flush()
    return np.memmap(file, kind, "r", shape=(count,)) if count else np.empty(0, kind)


def _checked(io: FileIO, staged: Sequence[StagedKeys], fields: Sequence[NestedField]) -> Iterator[KeyHashes]:
    """Yield the hashes of all tasks in order, in pieces. Raise at the end if there were equal ones."""
    rows = again = 0
    for hashes in _merged(io, staged):
        rows += len(hashes)
        again += _repeated(hashes)
        yield hashes
    if again:
        raise not_unique(fields, f"{rows} rows of {rows - again} keys")


def _merged(io: FileIO, staged: Sequence[StagedKeys]) -> Iterator[KeyHashes]:
    tails = [read_tail(io, s.path, s.info) for s in staged]
    bits = (sum(s.info.rows for s in staged) // _RANGE_ROWS).bit_length()
    for number in range(1 << bits):
        parts = [_range(io, s, tail, number, bits) for s, tail in zip(staged, tails, strict=True)]
        low = np.concatenate([np.empty(0, np.uint64), *(rows["low"] for rows in parts)])
        order = np.argsort(low, kind="stable")
        wide = bool(parts) and "high" in (parts[0].dtype.names or ())
        high = np.concatenate([rows["high"] for rows in parts])[order] if wide else None
        null = np.concatenate([np.empty(0, np.bool_), *(is_null(rows["place"]) for rows in parts)])
        yield KeyHashes(low[order], high, null[order])


def _range(io: FileIO, staged: StagedKeys, tail: RunTail, number: int, bits: int) -> Rows:
    """Return the rows of one file whose hash begins with the bits of a number."""
    own = staged.info.bits
    first, last = (number << own) >> bits, (((number + 1) << own) - 1) >> bits
    read = read_blocks(io, staged.path, staged.info, tail, np.arange(first, last + 1))
    rows = np.concatenate([np.empty(0, staged.info.row_type), *(rows for _, _, rows in read)])
    begin = np.searchsorted(rows["low"], np.uint64(number << (64 - bits)))
    if number + 1 == 1 << bits:
        return rows[begin:]
    return rows[begin : np.searchsorted(rows["low"], np.uint64((number + 1) << (64 - bits)))]


def _repeated(hashes: KeyHashes) -> int:
    """Return how many hashes, which are sorted by `low`, are equal to one before."""
    same = np.flatnonzero(hashes.low[1:] == hashes.low[:-1])
    if not len(same):
        return 0
    some = hashes.take(np.unique(np.append(same, same + 1)))
    columns = [some.low, some.is_null.astype(np.uint64)] + ([] if some.high is None else [some.high])
    return len(some) - len(np.unique(np.column_stack(columns), axis=0))


def _bounds(tables: Sequence[pa.Table]) -> pa.Table:
    keys = pa.concat_tables(tables)
    columns = []
    for column in keys.columns:
        ends = pc.min_max(column) if _is_ordered(column.type) else {}
        values = [ends[name] if ends else pa.scalar(None, column.type) for name in ("min", "max")]
        columns.append(pa.array([*values, *[None] * bool(column.null_count)], column.type))
    longest = max(map(len, columns), default=0)
    padded = [c if len(c) == longest else pa.concat_arrays([c, c.slice(0, 1)]) for c in columns]
    return pa.table(padded, names=keys.column_names)


def _is_ordered(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))
