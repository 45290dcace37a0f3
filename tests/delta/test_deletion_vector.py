"""Delta's descriptors, Z85 and frames: the protocol's examples, Spark's own bytes, and vectors built by struct."""

import random
from typing import Any

import pytest
from pyroaring import BitMap64

from deletekit.delta.convert_vectors import _pieces
from deletekit.delta.deletion_vector import (
    DeletionVectorDescriptor,
    blob_of_frame,
    decode_body,
    decode_z85,
    encode_z85,
    frame_of_body,
)
from deletekit.errors import FormatError
from deletekit.formats.deletion_vector import MAGIC, PositionBitmap, decode_blob, encode_blob
from tests.delta.handmade import body_of, native_body, z85
from tests.golden_files import Entry, cases, content, positions


def descriptor(**fields: Any) -> DeletionVectorDescriptor:
    raw = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 40, "cardinality": 6}
    return DeletionVectorDescriptor.from_json({**raw, **fields})


def test_z85_of_its_specification() -> None:
    assert encode_z85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"
    assert decode_z85("HelloWorld") == bytes.fromhex("864FD26FB559F75B")
    for size in range(0, 40, 4):
        data = random.Random(size).randbytes(size)
        assert encode_z85(data) == z85(data)
        assert decode_z85(z85(data)) == data


def test_z85_with_marks_for_bytes_that_are_lacking() -> None:
    """As the `z85` crate encodes bytes that are not a multiple of four: padded in front, and marked."""
    for size in range(1, 40):
        data = random.Random(size).randbytes(size)
        lacking = -size % 4
        text = z85(data[: size - size % 4] + bytes(lacking) + data[size - size % 4 :])
        marked = text[:-5] + "#" * lacking + text[-5 + lacking :]
        assert decode_z85(marked) == data


@pytest.mark.parametrize(
    "text", ["abcd", "ab c\x00", "#####", "äbcde", "####0", "###35", "##961", "#$$$$", "##093Hello", "%nSc1"]
)
def test_what_is_no_z85(text: str) -> None:
    with pytest.raises(FormatError):
        decode_z85(text)


def test_paths_of_the_protocol() -> None:
    found = descriptor(pathOrInlineDv="ab^-aqEH.-t@S}K{vb[*k^").file_path("s3://bucket/table")
    assert found == "s3://bucket/table/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    absolute = descriptor(storageType="p", pathOrInlineDv="file:/some/test%25dv.bin")
    assert absolute.file_path("/table") == "/some/test%dv.bin"
    assert absolute.file_path("file:///table") == "file:///some/test%dv.bin"
    assert descriptor().unique_id == "u" + "x" * 20 + "@1"
    assert descriptor(offset=None).unique_id == "u" + "x" * 20
    for short in ("x" * 15 + "##093", "x" * 15, "x" * 19):
        with pytest.raises(FormatError) as caught:
            descriptor(pathOrInlineDv=short)
        assert caught.value.field == "pathOrInlineDv"


@pytest.mark.golden
@pytest.mark.parametrize("entry", cases("delta_deletion_vectors", lambda e: "vectors" in e))
def test_sparks_vectors_are_icebergs_blobs(entry: Entry) -> None:
    data = content("delta_deletion_vectors", entry["file"])
    assert data[0] == 1
    for vector in entry["vectors"]:
        found = DeletionVectorDescriptor.from_json({**vector, "pathOrInlineDv": "x" * 20})
        frame = data[found.offset or 0 :][: found.size_in_bytes + 8]
        assert blob_of_frame(frame, found, 200) is frame
        assert decode_blob(frame, cardinality=found.cardinality) == positions(vector)
        assert encode_blob(positions(vector)) == frame, "Spark's bytes are canonical"
        assert list(BitMap64.deserialize(frame[8:-4])) == list(positions(vector))


@pytest.mark.parametrize("seed", range(30))
def test_streamed_is_decoded(seed: int) -> None:
    """Arrays, bitmaps and runs, in one high half and in several, against pyroaring's own reader."""
    rng = random.Random(seed)
    chosen: set[int] = set()
    for _ in range(rng.randrange(1, 6)):
        start = rng.choice((0, 65_500, 1 << 20, (1 << 32) - 40, 5 << 32))
        run, scattered = range(start, start + rng.randrange(1, 9_000)), range(start, start + 200_000)
        chosen |= set(run) if rng.random() < 0.5 else set(rng.sample(scattered, 5_000))
    bitmap = BitMap64(chosen)
    data = encode_blob(PositionBitmap(sorted(chosen)))[8:-4] if seed % 3 else bitmap.serialize()
    found = [position for piece in _pieces(decode_body(MAGIC + data)) for position in piece.tolist()]
    assert found == sorted(chosen)


@pytest.mark.parametrize("order", ["<", ">"])
def test_native_vectors_are_encoded_anew(order: str) -> None:
    frame = frame_of_body(native_body([1, 5, 70_000], order))
    found = descriptor(sizeInBytes=len(frame) - 8, cardinality=3)
    assert blob_of_frame(frame, found, None) == encode_blob(PositionBitmap([1, 5, 70_000]))
    assert decode_body(frame[4:-4]) == PositionBitmap([1, 5, 70_000])


@pytest.mark.parametrize(
    ("change", "rows"),
    [({"cardinality": 2}, 10), ({"sizeInBytes": 41}, 10), ({}, 5), ({"sizeInBytes": 4}, 10)],
    ids=["cardinality", "size", "rows", "too small"],
)
def test_what_a_frame_has_to_keep(change: dict[str, Any], rows: int) -> None:
    frame = frame_of_body(body_of([1, 2, 5]))
    right = {"sizeInBytes": len(frame) - 8, "cardinality": 3}
    assert blob_of_frame(frame, descriptor(**right), 6) is frame
    with pytest.raises(FormatError):
        blob_of_frame(frame, descriptor(**{**right, **change}), rows)


def test_bytes_behind_the_bitmap_are_damage() -> None:
    frame = frame_of_body(body_of([1, 2, 5]) + b"\0\0")
    with pytest.raises(FormatError):
        blob_of_frame(frame, descriptor(sizeInBytes=len(frame) - 8, cardinality=3), 10)
