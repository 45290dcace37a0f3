"""Read and write the files of a key index: a root, and runs of rows sorted by the hash of their key.

    root   magic, JSON: the table's uuid, the key's fields and types, the runs
    run    magic, blocks of rows, tail
    tail   length u32, JSON; rows of each block u32; CRC-32 of each block u32; zlib of JSON: the data files
    row    low u64, place u64, high u64 if the hash has 128 bits, row id i64 if a data file stores row ids

All numbers are little-endian. A block has the rows whose hash begins with the same bits. A place is a bit for a NULL
key, 27 bits for the number of a data file, and 36 bits for the position in it.

Every byte has a checksum: a root's name ends with its BLAKE2b, a root has the BLAKE2b of each run's tail, and a tail
has the CRC-32 of each block. A file is never changed.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from deletekit.errors import UNREADABLE, FormatError, NotFoundError
from deletekit.table.file_io import FileIO, is_remote
from deletekit.table.sinks.files import ROOT, RUN, is_name, new_name

ROOT_MAGIC = b"deletekit key index 1\n"
RUN_MAGIC = b"DKRUN-1\n"
BLOCK_ROWS = 256
_MOST_BITS = 24
_LOCAL_GAP, _REMOTE_GAP = 1 << 14, 1 << 20
_LONGEST_READ = 1 << 26

_T = TypeVar("_T")
Rows = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]


class DamagedIndexError(FormatError):
    """A file of a key index is damaged, missing or another table's. The index can be made again from the data files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFile:
    """A data file of an index: its number, path, and rows, hidden ones too, and its bytes."""

    number: int
    path: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run as its root has it.

    Attributes
    ----------
    rows: how many; bits: how many bits of the hash tell the block.
    wide, ids: whether rows have `high`, and row ids.
    tail, digest: bytes of the tail, and its BLAKE2b of 128 bits in hexadecimal.
    """

    name: str
    rows: int
    bits: int
    wide: bool
    ids: bool
    tail: int
    digest: str

    @property
    def row_type(self) -> np.dtype[Any]:
        """The type of a row."""
        return row_type(wide=self.wide, ids=self.ids)

    @property
    def tail_offset(self) -> int:
        """Where the tail begins."""
        return len(RUN_MAGIC) + self.rows * self.row_type.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRoot:
    """An index.

    Attributes
    ----------
    key: field ids and types of the key columns, in the order in which they are hashed.
    snapshot_id: the head that it was made on; None for an empty branch.
    next_number: the number of the next data file.
    """

    table_uuid: str | None
    key: tuple[tuple[int, str], ...]
    snapshot_id: int | None
    next_number: int
    runs: tuple[RunInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTail:
    """What a run says of its blocks and data files.

    Attributes
    ----------
    starts: the first row of each block, and the number of rows.
    checks: the CRC-32 of each block.
    """

    starts: Numbers
    checks: npt.NDArray[np.uint32]
    files: tuple[IndexedFile, ...]


@cache
def row_type(*, wide: bool, ids: bool) -> np.dtype[Any]:
    """Return the type of a row."""
    more = [("high", "<u8")] * wide + [("id", "<i8")] * ids
    return np.dtype([("low", "<u8"), ("place", "<u8"), *more])


# --- the root ---------------------------------------------------------------------------------------------------------


def encode_root(root: IndexRoot) -> tuple[str, bytes]:
    """Return the name and the bytes of a root."""
    runs = [{n: getattr(r, n) for n in RunInfo.__slots__} for r in root.runs]
    values = {
        "table-uuid": root.table_uuid,
        "key": root.key,
        "snapshot-id": root.snapshot_id,
        "next-number": root.next_number,
        "runs": runs,
    }
    data = ROOT_MAGIC + json.dumps(values).encode()
    return new_name(ROOT, _digest(data)), data


def read_root(io: FileIO, path: str) -> IndexRoot:
    """Read a root. Raise DamagedIndexError for a file that is missing, or is not the one that was written."""
    data = _read(io, path)
    if path.removesuffix(ROOT).rpartition("-")[2] != _digest(data) or not data.startswith(ROOT_MAGIC):
        raise _damaged(path, "other bytes than the name says")
    return _decoded(path, lambda: _root(json.loads(data[len(ROOT_MAGIC) :])))


def _root(values: Mapping[str, Any]) -> IndexRoot:
    runs = tuple(RunInfo(**run) for run in values["runs"])
    for run in runs:
        numbers = (run.rows, run.bits, run.tail)
        if any(type(n) is not int or not 0 <= n < 1 << 50 for n in numbers) or run.bits > _MOST_BITS:
            raise ValueError("a size")
        if not (is_name(run.name) and run.name.endswith(RUN) and run.tail >= 4):
            raise ValueError("a name")
    return IndexRoot(
        table_uuid=values["table-uuid"],
        key=tuple((int(i), str(kind)) for i, kind in values["key"]),
        snapshot_id=values["snapshot-id"],
        next_number=int(values["next-number"]),
        runs=runs,
    )


# --- runs -------------------------------------------------------------------------------------------------------------


def write_run(io: FileIO, path: str, columns: Mapping[str, npt.NDArray[Any]], files: Sequence[IndexedFile]) -> RunInfo:
    """Write a run. Return what a root says of it.

    Parameters
    ----------
    columns: the rows by the columns of `row_type`, in the order of `low`.
    """
    count, wide, ids = len(columns["low"]), "high" in columns, "id" in columns
    kind = row_type(wide=wide, ids=ids)
    bits = min(max(count // BLOCK_ROWS - 1, 0).bit_length(), _MOST_BITS)
    starts = _starts(columns["low"], bits)
    checks = np.zeros(1 << bits, "<u4")
    with io.create(path) as stream:
        stream.write(RUN_MAGIC)
        step = max(1, (1 << bits) * (1 << 18) // max(count, 1))
        for first in range(0, 1 << bits, step):
            last = min(first + step, 1 << bits)
            begin, end = int(starts[first]), int(starts[last])
            rows = np.empty(end - begin, kind)
            for name in kind.names or ():
                rows[name] = columns[name][begin:end]
            data = memoryview(rows.tobytes())
            places = ((starts[first : last + 1] - begin) * kind.itemsize).tolist()
            for block in range(last - first):
                checks[first + block] = zlib.crc32(data[places[block] : places[block + 1]])
            stream.write(data)
        tail = _tail(np.diff(starts).astype("<u4"), checks, files)
        stream.write(tail)
    name = path.rpartition("/")[2]
    return RunInfo(name=name, rows=count, bits=bits, wide=wide, ids=ids, tail=len(tail), digest=_digest(tail))


def _starts(low: npt.NDArray[np.uint64], bits: int) -> Numbers:
    edges = (np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)) if bits else np.zeros(1, np.uint64)
    return np.append(np.searchsorted(low, edges), len(low)).astype(np.int64)


def _tail(counts: Rows, checks: Rows, files: Sequence[IndexedFile]) -> bytes:
    listed = [[f.number, f.path, f.rows, f.size] for f in files]
    packed = zlib.compress(json.dumps(listed).encode(), 1)
    head = json.dumps({"blocks": len(counts), "files": len(packed)}).encode()
    return b"".join([len(head).to_bytes(4, "little"), head, counts.tobytes(), checks.tobytes(), packed])


def read_tail(io: FileIO, path: str, info: RunInfo) -> RunTail:
    """Read the tail of a run. Raise DamagedIndexError."""
    if _size(io, path) != info.tail_offset + info.tail:
        raise _damaged(path, "another size than the root says")
    data = _read(io, path, info.tail_offset, info.tail)
    if _digest(data) != info.digest:
        raise _damaged(path, "another tail than the root says")
    return _decoded(path, lambda: _run_tail(data, info))


def _run_tail(data: bytes, info: RunInfo) -> RunTail:
    at = 4 + int.from_bytes(data[:4], "little")
    head = json.loads(data[4:at])
    blocks, packed = 1 << info.bits, int(head["files"])
    if head["blocks"] != blocks or len(data) != at + 8 * blocks + packed:
        raise ValueError("blocks")
    counts = np.frombuffer(data, "<u4", blocks, at).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if starts[-1] != info.rows:
        raise ValueError("rows")
    listed = json.loads(zlib.decompress(data[at + 8 * blocks :]))
    files = tuple(IndexedFile(number=int(n), path=str(p), rows=int(r), size=int(s)) for n, p, r, s in listed)
    if any(f.number < 0 or f.rows < 0 for f in files):
        raise ValueError("files")
    return RunTail(starts=starts, checks=np.frombuffer(data, "<u4", blocks, at + 4 * blocks), files=files)


def read_blocks(
    io: FileIO, path: str, info: RunInfo, tail: RunTail, blocks: Numbers
) -> Iterator[tuple[int, int, Rows]]:
    """Read blocks, in ascending order, and those between near ones. Yield the first one, the one after, and the rows.

    Raises DamagedIndexError.
    """
    kind = info.row_type
    width = kind.itemsize
    spans = _spans(tail.starts, blocks, width, _REMOTE_GAP if is_remote(path) else _LOCAL_GAP)
    try:
        with io.open(path) as stream:
            for first, last in spans:
                begin, end = int(tail.starts[first]), int(tail.starts[last])
                stream.seek(len(RUN_MAGIC) + begin * width)
                data = bytes(stream.read((end - begin) * width))
                _check(path, tail, width, first, last, data)
                yield first, last, np.frombuffer(data, kind)
    except NotFoundError as e:
        raise _damaged(path, "no file") from e


def _spans(starts: Numbers, blocks: Numbers, width: int, gap: int) -> Iterator[tuple[int, int]]:
    if not len(blocks):
        return
    far = (starts[blocks[1:]] - starts[blocks[:-1] + 1]) * width > gap
    cuts = np.flatnonzero(far)
    firsts, ends = blocks[np.append(0, cuts + 1)], blocks[np.append(cuts, -1)] + 1
    long = ((starts[ends] - starts[firsts]) * width > _LONGEST_READ).tolist()
    for first, end, is_long in zip(firsts.tolist(), ends.tolist(), long, strict=True):
        at = first
        while is_long and at < end:  # a long read in pieces
            most = int(np.searchsorted(starts, starts[at] + _LONGEST_READ // width, side="right")) - 1
            last = min(max(most, at + 1), end)
            yield at, last
            at = last
        if not is_long:
            yield first, end


def _check(path: str, tail: RunTail, width: int, first: int, last: int, data: bytes) -> None:
    view = memoryview(data)
    places = ((tail.starts[first : last + 1] - tail.starts[first]) * width).tolist()
    if len(data) != places[-1]:
        raise _damaged(path, "a file that is too short")
    checks = tail.checks[first:last].tolist()
    for i, check in enumerate(checks):
        if zlib.crc32(view[places[i] : places[i + 1]]) != check:
            raise _damaged(path, f"another checksum of block {first + i}")


# --- helpers ----------------------------------------------------------------------------------------------------------


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _read(io: FileIO, path: str, offset: int = 0, length: int | None = None) -> bytes:
    try:
        return io.read(path, offset, length)
    except NotFoundError as e:
        raise _damaged(path, "no file") from e
    except FormatError as e:
        raise _damaged(path, "a file that is too short") from e


def _size(io: FileIO, path: str) -> int:
    try:
        return io.size(path)
    except NotFoundError as e:
        raise _damaged(path, "no file") from e


def _decoded(path: str, decode: Callable[[], _T]) -> _T:
    try:
        return decode()
    except (*UNREADABLE, ValueError, TypeError, KeyError, AttributeError, OverflowError, zlib.error) as e:
        raise _damaged(path, f"{type(e).__name__}: {e}") from e


def _damaged(path: str, found: str) -> DamagedIndexError:
    return DamagedIndexError(
        "a file of the key index is damaged or missing",
        kind="key-index",
        file=path,
        found=found,
        expected="what was written there",
    )
