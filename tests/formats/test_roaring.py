"""The extent of Roaring bitmaps, against what CRoaring and Iceberg Java wrote, and masks of rows."""

import struct
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from deletekit.errors import FormatError
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.roaring import bitmap_of, containers, serialized_size, split
from tests.golden_files import Entry, cases, content, positions


def bitmap(*parts: range | int, optimised: bool = True) -> bytes:
    found = BitMap()
    for part in parts:
        found |= BitMap(part if isinstance(part, range) else [part])
    if optimised:
        found.run_optimize()
    return found.serialize()


SAMPLES = {
    "empty": bitmap(),
    "array": bitmap(5, 7),
    "largest array": bitmap(range(0, 8192, 2)),
    "smallest bitmap": bitmap(range(0, 8194, 2)),
    "run": bitmap(range(100)),
    "full run": bitmap(range(65536)),
    "three runs, no offsets": bitmap(range(9), range(65536, 65545), range(131072, 131081)),
    "four runs, offsets": bitmap(*(range(i << 16, (i << 16) + 9) for i in range(4))),
    "nine runs, two bytes of flags": bitmap(*(range(i << 16, (i << 16) + 9) for i in range(9))),
    "one of each": bitmap(5, range(65536, 73732, 2), range(131072, 131172)),
    "last value": bitmap(0xFFFFFFFF),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_size_does_not_depend_on_what_is_around(name: str) -> None:
    data = SAMPLES[name]
    assert serialized_size(b"\xff" * 3 + data + b"\xff" * 9, 3) == len(data)


@pytest.mark.parametrize("name", SAMPLES)
def test_bitmap_cut_off_anywhere_is_refused(name: str) -> None:
    data = SAMPLES[name]
    for end in range(len(data)):
        with pytest.raises(FormatError) as error:
            serialized_size(data[:end])
        assert error.value.kind == "roaring"


@pytest.mark.golden
@pytest.mark.parametrize("entry", cases("deletion_vectors"))
def test_java_bitmaps_lie_end_to_end(entry: Entry) -> None:
    vector = content("deletion_vectors", entry["file"])[8:-4]
    (count,) = struct.unpack_from("<q", vector)
    at, found = 8, 0
    for _ in range(count):
        found += sum(c.cardinality for c in containers(vector, at + 4))
        at += 4 + serialized_size(vector, at + 4)
    assert at == len(vector)
    assert found == entry["cardinality"] == len(positions(entry))


values = st.lists(st.integers(0, 2**20 - 1) | st.integers(0, 2**32 - 1), max_size=50)
ranges = st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 70_000)), max_size=4)


@settings(deadline=None)
@given(values=values, ranges=ranges, optimised=st.booleans())
def test_croaring_agrees(values: list[int], ranges: list[tuple[int, int]], optimised: bool) -> None:
    found = BitMap(values)
    for start, length in ranges:
        found |= BitMap(range(start, start + length))
    if optimised:
        found.run_optimize()
    data = found.serialize()
    kinds = Counter(c.kind for c in containers(data))
    statistics = found.get_statistics()
    assert serialized_size(data) == len(data)
    assert sum(c.cardinality for c in containers(data)) == len(found)
    assert [kinds[k] for k in ("array", "bitmap", "run")] == [
        statistics[f"n_{k}_containers"] for k in ("array", "bitset", "run")
    ]


BAD = {
    "no cookie": (b"\x3a\x30\x00", "cookie"),
    "unknown cookie": (struct.pack("<II", 12345, 0), "cookie"),
    "too many containers": (struct.pack("<II", 12346, 65537), "container count"),
    "run flags missing": (struct.pack("<I", 12347 | (15 << 16)) + b"\xff", "run flags"),
    "run count missing": (struct.pack("<I", 12347) + b"\x01" + struct.pack("<HH", 0, 0), "run count"),
    "runs missing": (struct.pack("<I", 12347) + b"\x01" + struct.pack("<HHH", 0, 0, 65535), "containers"),
    "key of a container missing": (struct.pack("<IIH", 12346, 1, 0), "key-cardinality header"),
    "offset behind the end": (b"", "cookie"),
}


@pytest.mark.parametrize("name", BAD)
def test_damage_is_named(name: str) -> None:
    data, field = BAD[name]
    with pytest.raises(FormatError) as error:
        serialized_size(data, 5 if name == "offset behind the end" else 0)
    assert (error.value.kind, error.value.field) == ("roaring", field)
    assert error.value.found is not None
    assert error.value.expected is not None


# --- masks, against numpy's membership test, over every kind of container and across the 32-bit keys ------------------

ROWS = 3 << 16
RANDOM = np.random.default_rng(11)
SETS = {
    "array": RANDOM.choice(ROWS, 900, replace=False),
    "bitmap": np.flatnonzero(RANDOM.random(ROWS) < 0.4),
    "run": np.concatenate([np.arange(5, 70_000), np.arange(70_002, 131_072), [131_073]]),
    "whole": np.arange(ROWS),
    "edges": np.array([0, 65_535, 65_536, 131_071, ROWS - 1]),
}


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("base", [0, (1 << 32) - (1 << 16) - 3, 5 << 32])
def test_masks(kind: str, base: int) -> None:
    rows = SETS[kind] + base
    found = PositionBitmap(rows)
    for start, length in product([0, 1, 65_535, 65_536, 100_001], [0, 1, 7, 65_536, 131_080]):
        expected = np.isin(np.arange(base + start, base + start + length), rows)
        assert (found.mask(base + start, length) == expected).all(), (start, length)
        arrow = found.to_arrow(base + start, length)
        arrow.validate(full=True)
        assert (len(arrow), arrow.null_count) == (length, 0)
        assert found.count_in(base + start, base + start + length) == expected.sum(), (start, length)


LAST = 1 << 32
DENSE = {
    "an array too few": np.arange(0, 2 * 4096, 2),
    "a bitmap": np.arange(0, 2 * 4097, 2),
    "a container of each kind": np.concatenate(
        [np.arange(0, 65_536, 3), [65_540, 70_001], np.arange(131_072, 196_608)]
    ),
    "an empty container between": np.r_[np.arange(0, 60_000, 2), np.arange(131_072, 190_000, 2)],
    "up to the last number": np.arange(LAST - 150_001, LAST, 3),
    "all of the last container": np.arange(LAST - 65_536, LAST),
    "random": np.flatnonzero(RANDOM.random(400_000) < 0.3) + 65_535,
    "too far apart": np.r_[np.arange(10_000), LAST - 1],
}


@pytest.mark.parametrize("name", DENSE)
def test_numbers_laid_out_are_those_that_were_added(name: str) -> None:
    numbers = DENSE[name]
    added = BitMap(numbers.tolist())
    shuffled = RANDOM.permutation(numbers)
    for given_numbers in (numbers, numbers[::-1], np.repeat(numbers, 2), shuffled):
        found = bitmap_of(given_numbers)
        assert found == added
        assert found.serialize() == added.serialize()  # the same containers too
        assert (len(found), found.min(), found.max()) == (len(added), added.min(), added.max())


def test_a_large_bitmap_in_parts() -> None:
    """Arrays, bitmaps and runs in 300 containers, at an offset, against CRoaring's own reading of the whole."""
    kinds = (range(60_000), range(0, 60_000, 2), range(0, 60_000, 40), range(5, 6))
    data = bitmap(*(range(k << 16 | r.start, k << 16 | r.stop, r.step) for k in range(300) for r in [kinds[k % 4]]))
    for whole in (data, BitMap.deserialize(data[:]).serialize(), bitmap(*range(0, 300 << 16, 1 << 16))):
        parts, end = split(b"xy" + whole + b"z", 2)
        found = [BitMap.deserialize(part) for part in parts]
        assert (len(found), end) == (3, 2 + len(whole))
        assert BitMap.union(*found) == BitMap.deserialize(whole)
    begin = whole.index(struct.pack("<4H", 127, 0, 128, 0))
    with pytest.raises(FormatError, match="order"):
        split(whole[:begin] + struct.pack("<4H", 128, 0, 127, 0) + whole[begin + 8 :])
