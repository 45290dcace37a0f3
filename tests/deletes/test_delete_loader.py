"""What a loader shares between threads is made once, and merged reads of vectors give the bytes of reads one by one."""

from __future__ import annotations

import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from deletekit.deletes.delete_loader import BlobRanges, SharedValues
from deletekit.errors import FormatError
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


def test_a_file_that_ends_early() -> None:
    blobs = BlobRanges(MemoryFileIO({"f": bytes(100)}))
    blobs.expect([("f", 0, 10), ("f", 95, 10)])
    with pytest.raises(FormatError, match="shorter"):
        blobs.read("f", 0, 10)


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


def test_an_error_is_not_kept() -> None:
    once = SharedValues()
    with pytest.raises(ZeroDivisionError):
        once.get("key", lambda: 1 // 0)
    assert once.get("key", lambda: 7) == 7
    assert once.get("key", lambda: 8) == 7


def test_the_oldest_goes_first() -> None:
    once = SharedValues(size=2)
    assert [once.get(k, lambda k=k: k) for k in (1, 2, 3)] == [1, 2, 3]  # type: ignore[misc]
    assert once.get(2, lambda: "again") == 2
    assert once.get(1, lambda: "again") == "again"


def test_it_travels_empty() -> None:
    once = SharedValues(size=2)
    once.get("key", lambda: 1)
    assert pickle.loads(pickle.dumps(once)).get("key", lambda: 2) == 2  # noqa: S301  # our own bytes
