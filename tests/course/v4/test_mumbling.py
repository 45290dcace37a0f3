"""Mumbling bitmaps and their PFOR: the draft's examples both ways, sets of pyroaring, damaged bytes, sizes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from deletekit.course.v4 import examples
from deletekit.course.v4.mumbling import (
    MOST_POSITIONS,
    container_bytes,
    decode,
    decode_container,
    encode,
    encode_container,
    take_apart,
)
from deletekit.course.v4.pfor import decode_bytes, encode_bytes, pack, unpack
from deletekit.errors import FormatError, InvalidInputError

# --- the examples of format/mumbling-spec.md, byte for byte -----------------------------------------------------------

PFOR = [
    (bytes(256), "00 00 00"),
    (bytes([5]) * 51, "00 00 05"),
    (bytes.fromhex("00 00 00 00 FF 00 00 FE"), "80 02 00 04 07 FF FE"),
    (bytes([6, 7, 8]), "02 00 06 18"),
    (bytes([6, 34, 8, 7]), "32 01 06 09 01 E0"),
]
DESCRIPTORS = [(0x00, 0), (0x05, 5), (0x1F, 31), (0x20, 32)]
CONTAINERS = [
    (0, b"", []),
    (3, bytes.fromhex("00 22 FF"), [0, 34, 255]),
    (31, bytes(range(31)), list(range(31))),  # the draft lists 0 to 31, one position too many
    (32, b"\xff" * 4 + bytes(28), list(range(32))),
    (32, b"\xff" * 4 + b"\x80" + bytes(27), list(range(33))),
    (32, b"\xff" * 2 + bytes(28) + b"\xff" * 2, [*range(16), *range(240, 256)]),
    (32, b"\xaa" * 32, list(range(0, 256, 2))),
]


@pytest.mark.parametrize(("values", "stored"), PFOR)
def test_pfor_examples_of_the_draft(values: bytes, stored: str) -> None:
    data = bytes.fromhex(stored)
    assert encode_bytes(values) == data
    assert decode_bytes(data, len(values)) == (values, len(data))


def test_lessons_show_the_examples_of_the_draft() -> None:
    assert [(values, stored) for stored, values in examples.CHUNKS] == PFOR
    assert [(kind, stored, list(places)) for kind, stored, places in examples.CONTAINERS] == CONTAINERS


def test_the_packing_example_of_the_draft() -> None:
    assert pack(np.array([3, 2, 1, 2, 3], np.uint8), 2) == bytes.fromhex("E6 C0")
    assert unpack(bytes.fromhex("E6 C0"), 2, 5).tolist() == [3, 2, 1, 2, 3]


@pytest.mark.parametrize(("descriptor", "size"), DESCRIPTORS)
def test_descriptor_examples_of_the_draft(descriptor: int, size: int) -> None:
    assert container_bytes(descriptor) == size


@pytest.mark.parametrize(("descriptor", "stored", "places"), CONTAINERS)
def test_container_examples_of_the_draft(descriptor: int, stored: bytes, places: list[int]) -> None:
    assert encode_container(bytes(places)) == stored
    assert list(decode_container(descriptor, stored)) == places
    whole = encode(places)
    assert whole[:6] == b"\x01" + len(places).to_bytes(3, "little") + (b"\x01\x00" if places else b"\x00\x00")
    assert whole.endswith(stored)
    assert list(decode(whole)) == places


# --- both ways --------------------------------------------------------------------------------------------------------

WIDE = st.sets(st.integers(0, MOST_POSITIONS - 1), max_size=200)
NARROW = st.sets(st.integers(0, 2000))
RUNS = st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 600)), max_size=6).map(
    lambda runs: {p for start, length in runs for p in range(start, start + length)}
)


@settings(deadline=None)
@given(st.one_of(WIDE, NARROW, RUNS))
def test_what_is_encoded_is_decoded(positions: set[int]) -> None:
    data = encode(positions)
    assert decode(data) == BitMap(positions)
    assert data == encode(sorted(positions, reverse=True))
    parts = take_apart(data)
    assert (parts.cardinality, len(parts.containers)) == (len(positions), max(positions, default=-1) // 256 + 1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 255), max_size=700).map(bytes))
def test_bytes_are_the_same_behind_pfor(values: bytes) -> None:
    data = encode_bytes(values)
    assert decode_bytes(data + b"behind", len(values)) == (values, len(data))
    assert len(data) <= len(values) + 3 * -(-len(values) // 256)


@pytest.mark.parametrize(
    "positions", [range(0), range(MOST_POSITIONS), [MOST_POSITIONS - 1], range(7, MOST_POSITIONS, 8)]
)
def test_the_largest_sets(positions: range | list[int]) -> None:
    assert decode(encode(positions)) == BitMap(positions)


@pytest.mark.parametrize("positions", [[MOST_POSITIONS], [-1], [0.5], ["1"]])
def test_what_it_cannot_hold_is_refused(positions: list[int]) -> None:
    with pytest.raises(InvalidInputError):
        encode(positions)


# --- damaged ----------------------------------------------------------------------------------------------------------

TWO = "01 020000 0200"  # a header: two positions, two containers
DAMAGED = {
    "no bytes": ("", "header"),
    "version": ("02 000000 0000", "format version"),
    "too many containers": ("01 000000 0120", "container count"),
    "too many positions": ("01 010100 0100 00 00 01 05", "cardinality"),
    "cardinality": ("01 020000 0100 00 00 01 05", "cardinality"),
    "no chunk": (TWO, "chunk header"),
    "width": (TWO + "09 00 00", "b1"),
    "widths together": (TWO + "72 01 00 00 00 00", "b2"),
    "wide exceptions of nothing": (TWO + "03 01 00 00 00", "b2"),
    "width 8 with exceptions": (TWO + "08 01 00 00 00 00", "b2"),
    "more exceptions than values": (TWO + "10 03 00 00 01 02 E0", "e"),
    "values end": (TWO + "08 00 00 01", "primary values"),
    "offsets end": (TWO + "10 02 00 00", "exception offsets"),
    "exceptions end": (TWO + "10 02 00 00 01", "exception values"),
    "offset behind the end": (TWO + "10 01 00 02 80", "exception offsets"),
    "offset twice": (TWO + "10 02 00 01 01 C0", "exception offsets"),
    "padding": (TWO + "01 00 00 C1 01 02", "primary values"),
    "more than a byte": (TWO + "01 00 FF C0", "m"),
    "unknown kind": (TWO + "00 00 40", "descriptor"),
    "containers end": (TWO + "00 00 01 05", "containers"),
    "bytes behind": (TWO + "00 00 01 05 06 07", "containers"),
    "places out of order": ("01 020000 0100 00 00 02 05 04", "sparse container"),
    "a place twice": ("01 020000 0100 00 00 02 05 05", "sparse container"),
    "too few bits": ("01 010000 0100 00 00 20 80" + "00" * 31, "dense container"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named(name: str) -> None:
    stored, field = DAMAGED[name]
    with pytest.raises(FormatError) as caught:
        decode(bytes.fromhex(stored))
    error = caught.value
    assert (error.kind, error.field) == ("mumbling", field)
    assert error.found is not None
    assert error.expected is not None


def test_readers_ignore_the_lower_bits_of_a_dense_descriptor() -> None:
    data = bytearray(encode(range(40)))
    assert data[8] == 0x20
    data[8] = 0x3F
    assert decode(bytes(data)) == BitMap(range(40))


def test_a_bitmap_cut_off_anywhere_is_refused() -> None:
    data = encode([*range(100), 700, *range(5000, 9000, 3)])
    for end in range(len(data)):
        with pytest.raises(FormatError):
            decode(data[:end])


def test_damaged_bytes_give_a_set_or_a_format_error() -> None:
    chance = random.Random(7)
    seeds = [encode(s) for s in ([], [5], range(300), range(0, 70_000, 9), [*range(64), 2_000_000])]
    refused = 0
    for _ in range(4000):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x20, 0x7F, 0xFF, chance.randrange(256)))
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        try:
            found = decode(bytes(data))
        except FormatError:
            refused += 1
        else:
            assert decode(encode(found)) == found
    assert refused > 1000


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_set_or_a_format_error(data: bytes) -> None:
    try:
        found = decode(b"\x01" + data)
    except FormatError:
        return
    assert decode(encode(found)) == found


# --- sizes ------------------------------------------------------------------------------------------------------------


def sizes(positions: range | list[int]) -> tuple[int, int]:
    roaring = BitMap(positions)
    roaring.run_optimize()
    return len(encode(positions)), len(roaring.serialize())


@pytest.mark.parametrize(
    ("positions", "smaller"),
    [
        ([5], "mumbling"),
        ([0, 34, 255], "mumbling"),
        (range(0, 100_000, 1000), "mumbling"),
        (range(0, 1_000_000, 100), "mumbling"),
        (range(0, 1_000_000, 2), "mumbling"),
        (range(10_000), "roaring"),
        (range(MOST_POSITIONS), "roaring"),
        ([MOST_POSITIONS - 1], "roaring"),
    ],
)
def test_which_is_smaller(positions: range | list[int], smaller: str) -> None:
    mumbling, roaring = sizes(positions)
    assert ("mumbling" if mumbling < roaring else "roaring") == smaller


def test_a_set_takes_a_byte_for_each_position_or_a_bit_for_each_row() -> None:
    assert sizes(range(0, 65_536, 256)) == (6 + 3 + 256, 16 + 2 * 256)  # one in each container
    assert sizes(range(0, 65_536, 2)) == (6 + 3 + 8192, 16 + 8192)
