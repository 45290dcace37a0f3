"""Deletion vectors: Iceberg Java's bytes both ways, and each check of the decoder on its own."""

import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pyroaring import BitMap

from deletekit.errors import FormatError, InvalidInputError
from deletekit.formats.deletion_vector import (
    MAGIC,
    MAX_POSITION,
    PositionBitmap,
    decode_blob,
    encode_blob,
    encode_vector,
)
from tests.golden_files import Entry, cases, content, positions

ALL = cases("deletion_vectors")
CANONICAL = cases("deletion_vectors", lambda e: e["canonical"])
MERGED = cases("deletion_vectors", lambda e: "merged_from" in e)
BY_RANGES = cases("deletion_vectors", lambda e: "delete_range_calls" in e)


def golden(entry: Entry) -> bytes:
    return content("deletion_vectors", entry["file"])


# --- golden -----------------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("entry", ALL)
def test_java_blob_is_read(entry: Entry) -> None:
    found = decode_blob(golden(entry), cardinality=entry["cardinality"])
    assert found == positions(entry)
    assert len(found) == entry["cardinality"]


@pytest.mark.golden
@pytest.mark.parametrize("entry", CANONICAL)
def test_blob_has_java_bytes(entry: Entry) -> None:
    assert encode_blob(positions(entry)) == golden(entry)


@pytest.mark.golden
@pytest.mark.parametrize("entry", MERGED)
def test_merge_of_two_has_what_java_merged(entry: Entry) -> None:
    previous, added = (positions(entry["merged_from"][name]) for name in ("previous", "added"))
    assert previous | added == decode_blob(golden(entry))
    assert (encode_blob(previous | added) == golden(entry)) == entry["canonical"]


@pytest.mark.golden
@pytest.mark.parametrize("entry", BY_RANGES)
def test_ranges_have_what_java_deleted_by_ranges(entry: Entry) -> None:
    found = PositionBitmap()
    for start, end in entry["delete_range_calls"]:
        found = found | PositionBitmap.from_range(start, end)
    assert encode_blob(found) == golden(entry)


@pytest.mark.golden
def test_largest_position_is_written_without_a_bitmap_for_every_key_below() -> None:
    entry = next(p.values[0] for p in ALL if p.id == "sparse_largest_position.bin")
    assert encode_blob(PositionBitmap([MAX_POSITION])) == golden(entry)


# --- layout -----------------------------------------------------------------------------------------------------------


def test_positions_within_a_range() -> None:
    found = [0, 5, 1 << 16, (1 << 32) - 1, 1 << 32, (1 << 32) + 7, 5 << 32]
    ends = [0, 1, 5, 6, (1 << 32) - 1, 1 << 32, (1 << 32) + 8, 5 << 32, (5 << 32) + 1]
    for start in ends:
        for stop in ends:
            within = PositionBitmap(np.array(found)).within(start, stop)
            assert within.tolist() == [p for p in found if start <= p < stop]
            assert within.dtype == np.int64


def test_encoding_leaves_the_positions_alone() -> None:
    found = PositionBitmap.from_range(0, 100_000)
    before = found.by_key[0].serialize()
    encode_blob(found)
    assert found.by_key[0].serialize() == before


# --- damage: each case breaks one rule and keeps every other ----------------------------------------------------------

SOME = PositionBitmap([1, 2, 3, 70_000, 5 << 32])


def blob_of(vector: bytes, magic: bytes = MAGIC) -> bytes:
    """Frame a vector, its length and CRC right, so that what is wrong inside is what is found."""
    body = magic + vector
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def vector_of(*keyed: tuple[int, bytes], count: int | None = None) -> bytes:
    parts = [struct.pack("<i", key) + bitmap for key, bitmap in keyed]
    return struct.pack("<q", len(parts) if count is None else count) + b"".join(parts)


def bitmap_of(*values: int) -> bytes:
    return BitMap(values).serialize()


def with_crc(crc: int) -> bytes:
    return encode_blob(SOME)[:-4] + struct.pack(">I", crc)


def with_length(difference: int) -> bytes:
    blob = encode_blob(SOME)
    return struct.pack(">I", len(blob) - 8 + difference) + blob[4:]


ONE = bitmap_of(1)
TWO_UNSORTED = bitmap_of(1, 2)[:-4] + struct.pack("<HH", 2, 1)

DAMAGE: dict[str, tuple[bytes, str, str | None]] = {
    "nothing": (b"", "deletion-vector-length", None),
    "shorter than the shortest blob": (encode_blob(PositionBitmap())[:-1], "deletion-vector-length", None),
    "length too small": (with_length(-1), "deletion-vector-length", "length"),
    "length too large": (with_length(1), "deletion-vector-length", "length"),
    "length little-endian": (
        struct.pack("<I", len(encode_blob(SOME)) - 8) + encode_blob(SOME)[4:],
        "deletion-vector-length",
        "length",
    ),
    "byte behind the blob": (encode_blob(SOME) + b"\0", "deletion-vector-length", "length"),
    "magic": (blob_of(encode_vector(SOME), b"\xd1\xd3\x39\x65"), "deletion-vector-magic", "magic"),
    "magic backwards": (blob_of(encode_vector(SOME), MAGIC[::-1]), "deletion-vector-magic", "magic"),
    "crc": (with_crc(0), "deletion-vector-crc", "crc"),
    "crc little-endian": (
        with_crc(int.from_bytes(encode_blob(SOME)[-4:], "little")),
        "deletion-vector-crc",
        "crc",
    ),
    "count negative": (blob_of(vector_of((0, ONE), count=-1)), "deletion-vector-keys", "bitmap count"),
    "count over the largest": (blob_of(vector_of((0, ONE), count=2**31)), "deletion-vector-keys", "bitmap count"),
    "count larger than the bitmaps": (blob_of(vector_of((0, ONE), count=2)), "deletion-vector-length", "key"),
    "count smaller than the bitmaps": (blob_of(vector_of((0, ONE), count=0)), "deletion-vector-length", "vector"),
    "key negative": (blob_of(vector_of((-1, ONE))), "deletion-vector-keys", "key"),
    "key too large": (blob_of(vector_of((0x7FFFFFFF, ONE))), "deletion-vector-keys", "key"),
    "keys descending": (blob_of(vector_of((1, ONE), (0, ONE))), "deletion-vector-keys", "key"),
    "key twice": (blob_of(vector_of((1, ONE), (1, ONE))), "deletion-vector-keys", "key"),
    "byte behind the last bitmap": (blob_of(vector_of((0, ONE)) + b"\0"), "deletion-vector-length", "vector"),
    "bitmap cut off": (blob_of(vector_of((0, ONE[:-1]))), "roaring", "containers"),
    "bitmap missing": (blob_of(vector_of((0, b""))), "roaring", "cookie"),
    "bitmap with an unknown cookie": (blob_of(vector_of((0, b"\x00" + ONE[1:]))), "roaring", "cookie"),
    "positions out of order": (blob_of(vector_of((0, TWO_UNSORTED))), "roaring", "bitmap"),
    "64-bit bitmap for a 32-bit one": (blob_of(vector_of((0, struct.pack("<qi", 1, 0) + ONE))), "roaring", "cookie"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name: str) -> None:
    blob, kind, field = DAMAGE[name]
    with pytest.raises(FormatError) as error:
        decode_blob(blob)
    assert (error.value.kind, error.value.field) == (kind, field)
    assert error.value.found is not None


@pytest.mark.parametrize("wrong", [0, 4, 6])
def test_cardinality_of_the_manifest_is_compared(wrong: int) -> None:
    with pytest.raises(FormatError) as error:
        decode_blob(encode_blob(SOME), cardinality=wrong)
    assert error.value.kind == "deletion-vector-cardinality"
    assert (error.value.field, error.value.found, error.value.expected) == ("record_count", 5, wrong)


def test_crc_error_tells_both_sums() -> None:
    with pytest.raises(FormatError) as error:
        decode_blob(with_crc(0xDEADBEEF))
    assert error.value.expected == "0xdeadbeef"
    assert error.value.found == f"{int.from_bytes(encode_blob(SOME)[-4:], 'big'):#010x}"


def test_blob_cut_off_anywhere_is_refused() -> None:
    blob = encode_blob(SOME)
    for end in range(len(blob)):
        with pytest.raises(FormatError):
            decode_blob(blob[:end])


def test_any_flipped_bit_is_found() -> None:
    blob = encode_blob(SOME)
    for bit in range(len(blob) * 8):
        flipped = bytearray(blob)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError):
            decode_blob(bytes(flipped))


# --- positions a caller gives -----------------------------------------------------------------------------------------

BAD_POSITIONS: dict[str, Callable[[], Any]] = {
    "negative": lambda: PositionBitmap([-1]),
    "over the largest": lambda: PositionBitmap([MAX_POSITION + 1]),
    "over 64 bits": lambda: PositionBitmap([2**64]),
    "unsigned over the largest": lambda: PositionBitmap(np.array([2**63], dtype=np.uint64)),
    "a fraction": lambda: PositionBitmap([1.5]),  # type: ignore[list-item]
    "an array of fractions": lambda: PositionBitmap(np.array([1.0])),
    "a mask": lambda: PositionBitmap(np.array([True, False])),
    "a table": lambda: PositionBitmap(np.array([[1, 2], [3, 4]])),
    "text": lambda: PositionBitmap(["1"]),  # type: ignore[list-item]
    "a range from below zero": lambda: PositionBitmap.from_range(-1, 5),
    "a range over the end": lambda: PositionBitmap.from_range(0, MAX_POSITION + 2),
}


@pytest.mark.parametrize("name", BAD_POSITIONS)
def test_position_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        BAD_POSITIONS[name]()
    assert error.value.kind == "position"


def test_blob_over_two_gigabytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deletekit.formats.deletion_vector._MAX_BLOB_BYTES", 30)
    with pytest.raises(InvalidInputError) as error:
        encode_blob(SOME)
    assert error.value.kind == "deletion-vector-size"
