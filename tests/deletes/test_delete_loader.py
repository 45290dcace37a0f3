"""What a loader shares between threads is made once, and merged reads of vectors give the bytes of reads one by one."""

import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from deletekit.deletes import delete_loader
from deletekit.deletes.delete_loader import BlobRanges, DeleteLoader, SharedValues
from deletekit.errors import FormatError
from deletekit.formats.content_file import DeleteFile, FileContent
from tests.counting_io import CountingIO
from tests.memory_io import MemoryFileIO


def test_ranges_near_each_other_are_one_read() -> None:
    data = random.Random(1).randbytes(400_000)
    counting = CountingIO(MemoryFileIO({"a": data, "b": data[::-1]}))
    ranges = [("a", 10, 50), ("a", 60, 5), ("a", 300, 1000), ("a", 390_000, 9), ("b", 5, 5)]
    blobs = BlobRanges(counting)
    blobs.expect(ranges)
    for path, offset, size in reversed(ranges):
        assert blobs.read(path, offset, size) == (data if path == "a" else data[::-1])[offset : offset + size]
    assert counting.opened == {"a": 2, "b": 1}
    assert counting.bytes["a"] == 1290 + 9


@pytest.mark.parametrize("seed", range(20))
def test_any_ranges(seed: int) -> None:
    """Overlapping, empty, doubled, taken twice, taken without a word before."""
    chance = random.Random(seed)
    data = chance.randbytes(200_000)
    blobs = BlobRanges(MemoryFileIO({"f": data}))
    ranges = []
    for _ in range(60):
        start = chance.randrange(200_000)
        ranges.append(("f", start, chance.randrange(min(90_000, 200_000 - start) + 1)))
    blobs.expect(chance.sample(ranges, 40))
    blobs.expect(chance.sample(ranges, 10))
    for path, offset, size in chance.sample(ranges, 60) + ranges[:5]:
        assert blobs.read(path, offset, size) == data[offset : offset + size]


@pytest.mark.parametrize("room", [1 << 27, 3000], ids=["as much as there is", "few at a time"])
def test_a_file_of_many_vectors_is_read_once(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Whatever the order that they are asked for in; what is held at a time has a bound."""
    monkeypatch.setattr(delete_loader, "_MAX_HELD", room)
    data = random.Random(2).randbytes(90_000)
    counting = CountingIO(MemoryFileIO({"f": data}))
    blobs = BlobRanges(counting)
    ranges = [("f", at, 30) for at in range(0, 90_000, 30)]
    blobs.expect(ranges)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda one: blobs.read(*one), random.Random(3).sample(ranges, len(ranges)))
    assert b"".join(sorted(found)) == b"".join(sorted(data[at : at + 30] for _, at, _ in ranges))
    assert counting.opened == {"f": 1 if room > len(data) else 1 + (90_000 - room) // 30}


def test_a_file_that_ends_early() -> None:
    blobs = BlobRanges(MemoryFileIO({"f": bytes(100)}))
    blobs.expect([("f", 0, 10), ("f", 95, 10)])
    assert blobs.read("f", 0, 10) == bytes(10)
    with pytest.raises(FormatError, match="shorter"):
        blobs.read("f", 95, 10)


def test_threads_share_one_value() -> None:
    made: list[int] = []
    started = threading.Barrier(4)

    def make() -> object:
        made.append(1)
        return object()

    once = SharedValues()

    def get(_: int) -> object:
        started.wait()
        return once.get("key", make)

    with ThreadPoolExecutor(4) as pool:
        values = set(map(id, pool.map(get, range(4))))
    assert len(values) == len(made) == 1


def test_the_oldest_goes_first() -> None:
    once = SharedValues(size=2)
    assert [once.get(k, lambda k=k: k) for k in (1, 2, 3)] == [1, 2, 3]  # type: ignore[misc]
    assert once.get(2, lambda: "again") == 2
    assert once.get(1, lambda: "again") == "again"


@pytest.mark.parametrize("seed", range(4))
def test_row_groups_of_positions_are_read_by_several_threads(tmp_path: Path, seed: int) -> None:
    """Paths in any order, some in many row groups, positions twice: as when row by row."""
    chance = random.Random(seed)
    rows = [(f"{tmp_path}/{chance.randrange(5)}", chance.randrange(1 << 33)) for _ in range(3000)]
    rows += chance.sample(rows, 100)
    rows = sorted(rows) if seed % 2 else rows
    loader, delete = position_deletes(tmp_path, rows, row_group_size=chance.randrange(50, 700))
    expected: dict[str, set[int]] = {}
    for path, position in rows:
        expected.setdefault(path, set()).add(position)
    assert {path: set(found) for path, found in loader.positions_by_path(delete).items()} == expected


def test_the_first_bad_row_group_of_positions_is_told(tmp_path: Path) -> None:
    rows = [("a", -1 - i if i >= 30 else i) for i in range(100)]
    loader, delete = position_deletes(tmp_path, rows, row_group_size=10)
    with pytest.raises(FormatError, match="bad position") as told:
        loader.positions_by_path(delete)
    assert told.value.file == delete.file_path
    assert told.value.found == -40


def position_deletes(folder: Path, rows: list[tuple[str, int]], *, row_group_size: int) -> tuple[DeleteLoader, Any]:
    path = folder / "deletes.parquet"
    columns = {"file_path": [path for path, _ in rows], "pos": [position for _, position in rows]}
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    table = dk.create_table(dk.local_catalog(folder / "warehouse"), "t.t", pa.schema({"id": pa.int64()}))
    delete = DeleteFile(
        content=FileContent.POSITION_DELETES,
        file_path=str(path),
        file_format="parquet",
        spec_id=0,
        partition=(),
        record_count=len(rows),
        file_size_in_bytes=path.stat().st_size,
    )
    return DeleteLoader(table.io, table.metadata), delete


def test_it_travels_empty() -> None:
    once = SharedValues(size=2)
    once.get("key", lambda: 1)
    assert pickle.loads(pickle.dumps(once)).get("key", lambda: 2) == 2  # noqa: S301  # our own bytes
