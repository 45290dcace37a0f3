"""BitmapBytes on files that others wrote, and on files that mean harm: every byte once, or an error that says where."""

import json
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import deletekit as dk
from deletekit.course.views.bitmap_bytes import bitmap_bytes
from deletekit.course.views.byte_layout import MOST_RANGES
from deletekit.course.views.page import Cells, Grid, Page
from tests.delta.handmade import native_body

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = sorted([*(GOLDEN / "puffin").glob("*.puffin"), *(GOLDEN / "delta_deletion_vectors").glob("*.bin")])
MAGIC = bytes.fromhex("d1d33964")
LONGEST = 4
"""Seconds of processor time; what is opened in the tests takes less than two."""


def grid(page: Page) -> Grid:
    found = page.block("bytes")
    assert isinstance(found, Grid)
    return found


def all_lines(source: Any, **state: Any) -> Iterator[tuple[str, ...]]:
    start: int | None = 0
    while start is not None:
        shown = grid(bitmap_bytes(source, start=start, **state))
        yield from (line.cells for line in shown.lines)
        start = shown.next


@pytest.mark.golden
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_byte_of_a_golden_file_is_shown_once(path: Path) -> None:
    if path.stem.startswith("unknown_flag"):
        with pytest.raises(dk.FormatError) as caught:
            bitmap_bytes(path)
        assert (caught.value.file, caught.value.field) == (str(path), "flags")
        return
    at = 0
    for cells in all_lines(path):
        assert int(cells[0].replace(",", "")) == at
        at += int(cells[1].replace(",", ""))
    assert at == path.stat().st_size


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def puffin(payload: bytes, blobs: bytes = b"", flags: int = 0) -> bytes:
    return b"PFA1" + blobs + b"PFA1" + payload + struct.pack("<iI", len(payload), flags) + b"PFA1"


def footer(*places: tuple[int, int]) -> bytes:
    blobs = [
        {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": o, "length": n}
        for o, n in places
    ]
    return json.dumps({"blobs": blobs}).encode()


def many_containers() -> bytes:
    """Ten million containers of one position each."""
    count = 1 << 16
    keys = np.zeros((count, 2), "<u2")
    keys[:, 0] = np.arange(count)
    offsets = (8 + 8 * count + 2 * np.arange(count)).astype("<u4")
    one = struct.pack("<II", 12346, count) + keys.tobytes() + offsets.tobytes() + bytes(2 * count)
    bitmaps = [struct.pack("<i", key) + one for key in range(153)]
    return MAGIC + struct.pack("<q", len(bitmaps)) + b"".join(bitmaps)


def empty_bitmaps(claimed: int, real: int) -> bytes:
    one = np.zeros((real, 3), "<u4")
    one[:, 0], one[:, 1] = np.arange(real), 12346
    return MAGIC + struct.pack("<q", claimed) + one.tobytes()


SMALL = MAGIC + struct.pack("<qi", 1, 0) + BitMap([1, 3]).serialize()
HOSTILE: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "a frame of 4 GB": (b"\x01" + b"\xff" * 60, "blob 0, byte 1: length"),
    "another magic": (b"\x01" + frame(b"\xde\xad\xbe\xef" + bytes(16)), "blob 0, byte 5: magic"),
    "2^31 bitmaps": (b"\x01" + frame(empty_bitmaps(1 << 31, 3)), "blob 0, byte 53: key"),
    "a million empty bitmaps": (lambda: b"\x01" + frame(empty_bitmaps(1 << 20, 1 << 20)), "blob 0, byte "),
    "ten million containers": (lambda: b"\x01" + frame(many_containers()), "blob 0, byte "),
    "2^32 containers": (
        b"\x01" + frame(MAGIC + struct.pack("<qiII", 1, 0, 12346, 0xFFFFFFFF)),
        "blob 0, bitmap at byte 21: container count",
    ),
    "runs without end": (
        b"\x01" + frame(MAGIC + struct.pack("<qiIBHHH", 1, 0, 12347, 1, 0, 0, 0xFFFF)),
        "blob 0, bitmap at byte 21: containers",
    ),
    "no bytes": (b"", "magic at the start"),
    "a footer of 2 GB": (puffin(b"{}")[:-12] + struct.pack("<iI", 2**31 - 1, 0) + b"PFA1", "FooterPayloadSize"),
    "a footer of -1": (puffin(b"{}")[:-12] + struct.pack("<iI", -1, 0) + b"PFA1", "FooterPayloadSize"),
    "a large footer": (lambda: puffin(b'{"blobs":[]}' + b" " * (1 << 24)), "footer payload"),
    "a footer that swells": (
        lambda: puffin(pa.compress(b" " * (1 << 26), codec="lz4", asbytes=True), flags=1),
        "footer payload",
    ),
    "one place for 50,000 blobs": (
        puffin(footer(*[(4, len(frame(SMALL)))] * 50_000), frame(SMALL)),
        "blob 1",
    ),
    "a blob behind the end": (puffin(footer((4, 2**40)), frame(SMALL)), "offset"),
    "a blob of one byte": (puffin(footer((4, 1)), frame(SMALL)), "blob 0, byte 4: length"),
}  # fmt: skip


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("name", HOSTILE)
def test_harm_is_refused_in_time_and_says_where(tmp_path: Path, name: str) -> None:
    made, field = HOSTILE[name]
    data = made() if callable(made) else made
    path = tmp_path / ("x.bin" if data[:1] == b"\x01" else "x.puffin")
    path.write_bytes(data)
    start = time.process_time()
    with pytest.raises(dk.DeletekitError) as caught:
        bitmap_bytes(path)
    assert time.process_time() - start < LONGEST
    assert isinstance(caught.value, dk.FormatError | dk.UnsupportedError)
    assert caught.value.file == str(path)
    assert str(caught.value.field).startswith(field)


@pytest.mark.slow
def test_as_many_parts_as_there_may_be_are_shown_in_time() -> None:
    bitmaps = (MOST_RANGES - 20) // 3
    data = b"\x01" + frame(empty_bitmaps(bitmaps, bitmaps))
    start = time.process_time()
    page = bitmap_bytes(data, start=MOST_RANGES - 70)
    assert time.process_time() - start < 2 * LONGEST
    assert len(json.dumps(page.to_json())) < 200_000


@pytest.mark.parametrize("order", ["<", ">"])
def test_deltas_older_form_is_mapped_too(order: str) -> None:
    body = native_body([1, 3, 70_000], order)
    page = bitmap_bytes(b"\x01" + frame(body), position=3)
    assert isinstance(page.block("map"), Cells)
    assert page.sentence == "Position 3 is in 0: its row is hidden."
    assert sum(int(line.cells[1]) for line in grid(page).lines) == len(body) + 9


def test_a_length_that_is_not_the_blobs_is_marked() -> None:
    blob = bytearray(frame(SMALL))
    blob[3] ^= 1
    page = bitmap_bytes(puffin(footer((4, len(blob))), bytes(blob)))
    (wrong,) = [line.cells for line in grid(page).lines if line.mark == "wrong"]
    assert (wrong[3], wrong[4]) == ("length", f"{len(SMALL) ^ 1}, but the bytes give {len(SMALL)}")


@pytest.mark.parametrize("name", ["1", "-1", "x", "²", "9" * 5000])
def test_a_blob_that_is_not_there(name: str) -> None:
    with pytest.raises(dk.InvalidInputError) as caught:
        bitmap_bytes(b"\x01" + frame(SMALL), delete_file=name)
    assert caught.value.field == "delete_file"
