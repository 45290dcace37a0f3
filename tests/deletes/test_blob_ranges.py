"""Merged reads of byte ranges give the bytes that reads one by one would give."""

from __future__ import annotations

import random

import pytest

from deletekit.deletes.blob_ranges import BlobRanges
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
