"""Every byte of a file of deletion vectors is accounted for exactly once, and means what its writer put there."""

import json
import random
import struct
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from pyroaring import BitMap

from deletekit.course.views.byte_layout import ByteRange, blob_layout, layout, puffin_layout
from deletekit.errors import FormatError
from deletekit.formats.puffin import Blob, puffin_parts

GOLDEN = Path(__file__).parents[2] / "golden"
PUFFINS = sorted(p for p in (GOLDEN / "puffin").glob("*.puffin") if not p.name.startswith("unknown_flag"))
VECTORS = sorted((GOLDEN / "deletion_vectors").glob("*.bin"))


def check_cover(ranges: tuple[ByteRange, ...], size: int) -> None:
    owners = [0] * size
    for r in ranges:
        assert r.length > 0
        for i in range(r.start, r.stop):
            owners[i] += 1
    assert owners == [1] * size


def containers_by_hand(bitmap: bytes) -> list[tuple[int, str, int]]:
    """(key, kind, cardinality) of a bitmap, by the Roaring format's own description."""
    (cookie,) = struct.unpack_from("<I", bitmap)
    runs, at = b"", 8
    count = struct.unpack_from("<I", bitmap, 4)[0] if cookie == 12346 else (cookie >> 16) + 1
    if cookie != 12346:
        runs = bitmap[4 : 4 + (count + 7) // 8]
        at = 4 + len(runs)
    found = []
    for i in range(count):
        key, less = struct.unpack_from("<HH", bitmap, at + 4 * i)
        is_run = bool(runs) and bool(runs[i // 8] >> (i % 8) & 1)
        found.append((key, "run" if is_run else "array" if less + 1 <= 4096 else "bitmap", less + 1))
    return found


@pytest.mark.golden
@pytest.mark.parametrize("path", PUFFINS, ids=lambda p: p.stem)
def test_every_byte_of_a_puffin_file_once(path: Path) -> None:
    data = path.read_bytes()
    ranges = puffin_layout(data)
    check_cover(ranges, len(data))
    index = {e["file"]: e for e in json.loads((GOLDEN / "puffin" / "index.json").read_text())}
    for number, blob in enumerate(index[path.name]["footer"]["blobs"]):
        mine = [r for r in ranges if r.part == f"blob {number}"]
        assert sum(r.length for r in mine) == blob["length"]
        assert not mine or mine[0].start == blob["offset"]


@pytest.mark.golden
@pytest.mark.parametrize("path", VECTORS, ids=lambda p: p.stem)
def test_every_byte_of_a_vector_once(path: Path) -> None:
    data = path.read_bytes()
    ranges = blob_layout(data)
    assert layout(data) == ranges
    assert [ranges[0].start, ranges[-1].stop] == [0, len(data)]
    assert all(a.stop == b.start for a, b in pairwise(ranges))
    assert ranges[-1].value == f"{zlib.crc32(data[4:-4]):#010x}"
    keys = [r for r in ranges if r.field == "key"]
    expected = []
    for key in keys:
        base = struct.unpack("<i", data[key.start : key.stop])[0] << 32
        expected += [(base | k << 16, f"{kind} container", n) for k, kind, n in containers_by_hand(data[key.stop :])]
    held = [r for r in ranges if r.first_position is not None]
    assert [(r.first_position, r.field, r.cardinality) for r in held] == expected


def frame(vector: bytes) -> bytes:
    return struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def portable(*bitmaps: BitMap) -> bytes:
    parts = [struct.pack("<i", key) + b.serialize() for key, b in enumerate(bitmaps)]
    return bytes.fromhex("d1d33964") + struct.pack("<q", len(parts)) + b"".join(parts)


def native(*bitmaps: BitMap) -> bytes:
    parts = [struct.pack("<i", len(b.serialize())) + b.serialize() for b in bitmaps]
    return bytes.fromhex("d0d33964") + struct.pack("<i", len(parts)) + b"".join(parts)


def test_a_wrong_checksum_is_shown_not_refused() -> None:
    blob = bytearray(frame(portable(BitMap([1, 3]))))
    blob[-1] ^= 1
    crc = blob_layout(bytes(blob))[-1]
    assert (crc.is_wrong, crc.value) == (True, f"0x{blob[-4:].hex()}")
    assert crc.computed == f"{zlib.crc32(blob[4:-4]):#010x}"


def test_blobs_that_overlap_are_refused() -> None:
    data = b"".join(puffin_parts([Blob(type="x", data=b"a" * 20), Blob(type="x", data=b"b" * 20)])[0])
    with pytest.raises(FormatError, match="overlap"):
        puffin_layout(data.replace(b'"offset":24', b'"offset":14'))


def test_a_gap_is_unused_bytes() -> None:
    data = b"".join(puffin_parts([Blob(type="x", data=b"a" * 20), Blob(type="x", data=b"b" * 20)])[0])
    ranges = puffin_layout(data.replace(b'"length":20}]', b'"length":15}]'))
    check_cover(ranges, len(data))
    assert [(r.start, r.length) for r in ranges if r.field == "unused"] == [(39, 5)]


def test_damaged_bytes_are_laid_out_or_refused() -> None:
    random.seed(7)
    good = [p.read_bytes() for p in PUFFINS if p.stat().st_size < 5_000]
    good.append(b"\x01" + frame(portable(BitMap([1, 3, 70_000]))) + frame(native(BitMap(range(9)))))
    laid_out = 0
    for _ in range(3_000):
        data = bytearray(random.choice(good))
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.randrange(256)
        data = data[: random.choice([len(data), random.randrange(len(data))])]
        try:
            ranges = layout(bytes(data))
        except FormatError:
            continue
        check_cover(ranges, len(data))
        laid_out += 1
    assert laid_out > 100
