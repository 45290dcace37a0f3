"""Puffin files: Iceberg Java's bytes both ways, and each check of the reader on its own."""

import json
import struct
from typing import Any

import pyarrow as pa
import pytest

from deletekit.errors import FormatError
from deletekit.formats import compression, puffin
from deletekit.formats.deletion_vector import decode_blob
from deletekit.formats.puffin import (
    FOOTER_TAIL_BYTES,
    MAGIC,
    Blob,
    FileMetadata,
    footer_size,
    puffin_parts,
    read_footer,
    read_puffin,
)
from tests.golden_files import Entry, cases, content

READABLE = cases("puffin", lambda e: not e["file"].startswith("unknown_flag"))
REFUSED = cases("puffin", lambda e: e["file"].startswith("unknown_flag"))
UNCOMPRESSED = cases(
    "puffin",
    lambda e: e["written_by"] != "regenerate.py" and not any("compression-codec" in b for b in e["footer"]["blobs"]),
)
WITH_VECTORS = cases("puffin", lambda e: "deleted_positions" in e)


def golden(entry: Entry) -> bytes:
    return content("puffin", entry["file"])


def stored_blobs(data: bytes, metadata: FileMetadata) -> list[bytes]:
    return [data[b.offset : b.offset + b.length] for b in metadata.blobs]


def to_json(metadata: FileMetadata) -> Entry:
    return puffin._footer_json(metadata)


# --- golden -----------------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("entry", READABLE)
def test_footer_is_read(entry: Entry) -> None:
    data = golden(entry)
    assert len(data) == entry["file_size"]
    assert to_json(read_puffin(data)) == entry["footer"]


@pytest.mark.golden
@pytest.mark.parametrize("entry", READABLE)
def test_footer_is_read_from_the_end_of_the_file_alone(entry: Entry) -> None:
    data = golden(entry)
    size = footer_size(data[-FOOTER_TAIL_BYTES:], len(data))
    end = b"?" * (len(data) - size) + data[-size:]
    assert read_footer(lambda offset, length: end[offset : offset + length], len(data)) == read_puffin(data)


@pytest.mark.golden
@pytest.mark.parametrize("entry", UNCOMPRESSED)
def test_file_has_java_bytes(entry: Entry) -> None:
    data = golden(entry)
    metadata = read_puffin(data)
    blobs = [
        Blob(
            type=b.type,
            data=stored,
            fields=b.fields,
            snapshot_id=b.snapshot_id,
            sequence_number=b.sequence_number,
            properties=b.properties,
        )
        for b, stored in zip(metadata.blobs, stored_blobs(data, metadata), strict=True)
    ]
    parts, written = puffin_parts(blobs, metadata.properties)
    assert (b"".join(parts), written) == (data, metadata)


@pytest.mark.golden
@pytest.mark.parametrize("entry", WITH_VECTORS)
def test_vectors_lie_where_java_says_and_hold_what_it_deleted(entry: Entry) -> None:
    data = golden(entry)
    assert len(entry["delete_files"]) == len(entry["deleted_positions"])
    for delete in entry["delete_files"]:
        blob = data[delete["content_offset"] :][: delete["content_size_in_bytes"]]
        found = decode_blob(blob, cardinality=delete["record_count"])
        assert list(found) == entry["deleted_positions"][delete["referenced_data_file"]]


@pytest.mark.golden
@pytest.mark.parametrize("entry", REFUSED)
def test_flag_that_nobody_has_defined_is_refused(entry: Entry) -> None:
    with pytest.raises(FormatError) as error:
        read_puffin(golden(entry))
    assert (error.value.kind, error.value.field) == ("puffin-flags", "flags")


# --- layout -----------------------------------------------------------------------------------------------------------


def test_smallest_file() -> None:
    parts, metadata = puffin_parts([])
    data = b"".join(parts)
    assert data == b'PFA1PFA1{"blobs":[]}\x0c\0\0\0\0\0\0\0PFA1'
    assert metadata == FileMetadata() == read_puffin(data)


def test_text_that_is_not_ascii_is_not_escaped() -> None:
    data = b"".join(puffin_parts([], {"name": "größe\N{SNOWMAN}"})[0])
    assert '"größe\N{SNOWMAN}"'.encode() in data


# --- damage: each case breaks one rule and keeps every other ----------------------------------------------------------

BLOB: Entry = {"type": "t", "fields": [1], "snapshot-id": 2, "sequence-number": 3, "offset": 4, "length": 5}


def file_of(
    footer: Any = None,
    *,
    payload: bytes | None = None,
    size: int | None = None,
    flags: int = 0,
    magics: tuple[bytes, bytes, bytes] = (MAGIC, MAGIC, MAGIC),
) -> bytes:
    """Lay out a file of one blob of five bytes, with the parts given in place of the right ones."""
    if payload is None:
        payload = json.dumps({"blobs": [BLOB]} if footer is None else footer).encode()
    tail = payload + struct.pack("<iI", len(payload) if size is None else size, flags)
    return magics[0] + b"12345" + magics[1] + tail + magics[2]


def blob_with(**changes: Any) -> bytes:
    fields = {k.replace("_", "-"): v for k, v in changes.items()}
    blob = {k: v for k, v in (BLOB | fields).items() if v is not ...}
    return file_of({"blobs": [blob]})


def lz4(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


DAMAGE: dict[str, tuple[bytes, str, str | None]] = {
    "nothing": (b"", "puffin-magic", "magic at the start"),
    "magic alone": (MAGIC, "puffin-footer", None),
    "19 bytes": (MAGIC + bytes(11) + MAGIC, "puffin-footer", None),
    "first magic": (file_of(magics=(b"PFA2", MAGIC, MAGIC)), "puffin-magic", "magic at the start"),
    "magic before the footer": (file_of(magics=(MAGIC, b"PFA2", MAGIC)), "puffin-magic", "magic before the footer"),
    "last magic": (file_of(magics=(MAGIC, MAGIC, b"PFA2")), "puffin-magic", "magic at the end"),
    "byte behind the file": (file_of() + b"\0", "puffin-magic", "magic at the end"),
    "footer size one too small": (
        file_of(size=len(json.dumps({"blobs": [BLOB]})) - 1),
        "puffin-magic",
        "magic before the footer",
    ),
    "footer size one too large": (
        file_of(size=len(json.dumps({"blobs": [BLOB]})) + 1),
        "puffin-magic",
        "magic before the footer",
    ),
    "footer size negative": (file_of(size=-1), "puffin-footer", "FooterPayloadSize"),
    "footer size over the file": (file_of(size=1 << 30), "puffin-footer", "FooterPayloadSize"),
    "flag of another byte": (file_of(flags=1 << 8), "puffin-flags", "flags"),
    "flag bit 1": (file_of(flags=2), "puffin-flags", "flags"),
    "footer not compressed as its flag says": (file_of(flags=1), "puffin-codec", "footer payload"),
    "footer compressed without a flag": (file_of(payload=lz4(b'{"blobs":[]}')), "puffin-footer", "footer payload"),
    "footer cut off inside LZ4": (
        file_of(payload=lz4(b'{"blobs":[]}')[:-3], flags=1),
        "puffin-codec",
        "footer payload",
    ),
    "footer is not UTF-8": (file_of(payload=b'{"blobs":[],"\xff":1}'), "puffin-footer", "footer payload"),
    "footer is not JSON": (file_of(payload=b'{"blobs":[}'), "puffin-footer", "footer payload"),
    "footer is empty": (file_of(payload=b""), "puffin-footer", "footer payload"),
    "footer is nested beyond reason": (file_of(payload=b"[" * 100_000), "puffin-footer", "footer payload"),
    "footer has a number beyond reason": (
        file_of(payload=b'{"blobs":[],"x":' + b"9" * 5000 + b"}"),
        "puffin-footer",
        "footer payload",
    ),
    "footer is a list": (file_of([]), "puffin-footer", "blobs"),
    "no blobs": (file_of({}), "puffin-footer", "blobs"),
    "blobs is an object": (file_of({"blobs": {}}), "puffin-footer", "blobs"),
    "blob is a number": (file_of({"blobs": [1]}), "puffin-footer", "blobs"),
    "properties is a list": (file_of({"blobs": [], "properties": []}), "puffin-footer", "properties"),
    "property is a number": (file_of({"blobs": [], "properties": {"a": 1}}), "puffin-footer", "properties"),
    "blob property is a number": (blob_with(properties={"a": 1}), "puffin-footer", "properties"),
    "no type": (blob_with(type=...), "puffin-footer", "type"),
    "type is a number": (blob_with(type=1), "puffin-footer", "type"),
    "no fields": (blob_with(fields=...), "puffin-footer", "fields"),
    "fields is a number": (blob_with(fields=1), "puffin-footer", "fields"),
    "field is text": (blob_with(fields=["1"]), "puffin-footer", "fields"),
    "field is true": (blob_with(fields=[True]), "puffin-footer", "fields"),
    "field is beyond 64 bits": (blob_with(fields=[2**63]), "puffin-footer", "fields"),
    "no snapshot id": (blob_with(snapshot_id=...), "puffin-footer", "snapshot-id"),
    "snapshot id is beyond 64 bits": (blob_with(snapshot_id=2**63), "puffin-footer", "snapshot-id"),
    "sequence number is text": (blob_with(sequence_number="3"), "puffin-footer", "sequence-number"),
    "offset is a fraction": (blob_with(offset=4.0), "puffin-footer", "offset"),
    "length is null": (blob_with(length=None), "puffin-footer", "length"),
    "offset inside the first magic": (blob_with(offset=3), "puffin-offset", "offset"),
    "offset negative": (blob_with(offset=-1), "puffin-offset", "offset"),
    "length negative": (blob_with(length=-1), "puffin-offset", "offset"),
    "blob reaches into the footer": (blob_with(length=6), "puffin-offset", "offset"),
    "blob behind the file": (blob_with(offset=1 << 40), "puffin-offset", "offset"),
    "codec unknown": (blob_with(compression_codec="gzip"), "puffin-codec", "compression-codec"),
    "codec is a list": (blob_with(compression_codec=[]), "puffin-codec", "compression-codec"),
    "codec in capitals": (blob_with(compression_codec="ZSTD"), "puffin-codec", "compression-codec"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name: str) -> None:
    data, kind, field = DAMAGE[name]
    with pytest.raises(FormatError) as error:
        read_puffin(data)
    assert (error.value.kind, error.value.field) == (kind, field)


def test_file_that_the_damage_starts_from_is_read() -> None:
    assert to_json(read_puffin(file_of())) == {"blobs": [BLOB]}
    assert to_json(read_puffin(blob_with())) == {"blobs": [BLOB]}


def test_file_cut_off_anywhere_is_refused() -> None:
    data = file_of()
    for end in range(len(data)):
        with pytest.raises(FormatError):
            read_puffin(data[:end])


def test_footer_that_was_not_read_whole_is_refused() -> None:
    data = file_of()
    size = footer_size(data[-FOOTER_TAIL_BYTES:], len(data))
    with pytest.raises(FormatError, match="cut off") as error:
        read_footer(lambda offset, length: data[offset : offset + length][: size - 1], len(data))
    assert (error.value.kind, error.value.expected) == ("puffin-footer", f"{size} bytes")


def test_footer_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_JSON_MAX_BYTES", 1000)
    with pytest.raises(FormatError) as error:
        read_puffin(file_of(payload=lz4(b'{"blobs":[]}' + b" " * 1000), flags=1))
    assert (error.value.kind, error.value.expected) == ("puffin-codec", "<= 1000 bytes")
