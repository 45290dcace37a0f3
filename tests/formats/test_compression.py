"""Decompression gives all of the input back or refuses, and never more than it was allowed."""

import random
import zlib

import pyarrow as pa
import pytest

from deletekit.errors import FormatError
from deletekit.formats.compression import CODECS, decompress

TEXT = b"the same words again and again, " * 3000
COMPRESSED = [codec for codec in CODECS if codec != "none"]


def deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def compress(codec: str, data: bytes) -> bytes:
    if codec in ("none", "deflate"):
        return deflate(data) if codec == "deflate" else data
    if codec == "lz4":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "lz4") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    return pa.compress(data, codec={"lz4_block": "lz4_raw"}.get(codec, codec), asbytes=True)


def original(codec: str, data: bytes, limit: int = 1 << 20) -> bytes:
    return decompress(codec, data, limit=limit, kind="some-kind", field="some field")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, random.Random(1).randbytes(70_000)], ids=["empty", "x", "text", "noise"]
)
def test_gives_the_original(codec: str, data: bytes) -> None:
    assert original(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_limit_is_the_largest_that_passes(codec: str) -> None:
    stored = compress(codec, TEXT)
    assert original(codec, stored, len(TEXT)) == TEXT
    with pytest.raises(FormatError) as error:
        original(codec, stored, len(TEXT) - 1)
    assert (error.value.kind, error.value.field) == ("some-kind", "some field")
    assert error.value.expected == f"<= {len(TEXT) - 1} bytes"


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bomb_is_refused_below_the_limit(codec: str) -> None:
    with pytest.raises(FormatError):
        original(codec, compress(codec, bytes(1 << 24)), limit=1 << 10)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("cut", [1, 2, 5, 100])
def test_what_is_cut_off_is_refused(codec: str, cut: int) -> None:
    with pytest.raises(FormatError) as error:
        original(codec, compress(codec, TEXT)[:-cut])
    assert error.value.message == f"cannot decompress {codec}"
    assert error.value.found


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("stored", [b"", b"\xff" * 40, b"\0" * 3 + b"\xff" * 40], ids=["nothing", "ones", "mix"])
def test_what_was_never_compressed_is_refused(codec: str, stored: bytes) -> None:
    with pytest.raises(FormatError):
        original(codec, stored)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_bytes_behind_the_end_are_refused(codec: str) -> None:
    with pytest.raises(FormatError):
        original(codec, compress(codec, TEXT) + b"\xff" * 9)


def test_rest_of_a_zlib_checksum_behind_raw_deflate_is_fastavro_and_passes() -> None:
    assert original("deflate", zlib.compress(TEXT)[2:-1]) == TEXT


@pytest.mark.parametrize("codec", COMPRESSED)
def test_damage_gives_bytes_or_a_format_error(codec: str) -> None:
    stored = compress(codec, TEXT)
    chance = random.Random(2)
    refused = 0
    for _ in range(300):
        damaged = bytearray(stored)
        for _ in range(chance.choice([1, 2, 5])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            assert len(original(codec, bytes(damaged))) <= 1 << 20
        except FormatError:
            refused += 1
    assert refused > 50
