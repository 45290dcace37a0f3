"""Read and write Puffin files: blobs between magics, and a JSON footer that says what they are.

    PFA1 | blob | blob | ... | PFA1 | footer payload (JSON, maybe LZ4) | payload size i32 LE | flags u32 LE | PFA1

Spec: https://iceberg.apache.org/puffin-spec/
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deletekit.errors import FormatError
from deletekit.formats.compression import decompress, json_limit

MAGIC = b"PFA1"
DELETION_VECTOR_V1 = "deletion-vector-v1"
FOOTER_TAIL_BYTES = 12
"""Footer payload size (4) + flags (4) + magic (4): what must be read first."""

ReadRange = Callable[[int, int], bytes]
_SMALLEST_FILE = len(MAGIC) * 2 + FOOTER_TAIL_BYTES
_FLAG_PAYLOAD_COMPRESSED = 1
_CODECS = ("lz4", "zstd")
_MAX_UNCOMPRESSED = 1 << 28
_INT_64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobMetadata:
    """One entry of the footer's `blobs` list; `fields` are field ids, and -1 is a snapshot that is not known yet."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetadata:
    """The footer payload: blobs in order, and file properties such as `created-by`."""

    blobs: tuple[BlobMetadata, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """A blob to write; `data` is stored as it is (deletion vectors are never compressed)."""

    type: str
    data: bytes
    fields: tuple[int, ...] = ()
    snapshot_id: int = -1
    sequence_number: int = -1
    properties: Mapping[str, str] = field(default_factory=dict)


def write_puffin(blobs: Sequence[Blob], properties: Mapping[str, str] | None = None) -> tuple[bytes, FileMetadata]:
    """Return a Puffin file with an uncompressed footer, and its metadata with the offset and length of each blob.

    The footer's JSON has Java's key order (FileMetadataParser), so equal input gives Java's bytes.
    """
    placed: list[BlobMetadata] = []
    parts: list[bytes] = [MAGIC]
    at = len(MAGIC)
    for blob in blobs:
        placed.append(
            BlobMetadata(
                type=blob.type,
                fields=blob.fields,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                offset=at,
                length=len(blob.data),
                properties=dict(blob.properties),
            )
        )
        parts.append(blob.data)
        at += len(blob.data)
    metadata = FileMetadata(blobs=tuple(placed), properties=dict(properties or {}))
    payload = json.dumps(_footer_json(metadata), ensure_ascii=False, separators=(",", ":")).encode()
    parts += [MAGIC, payload, struct.pack("<ii", len(payload), 0), MAGIC]
    return b"".join(parts), metadata


def footer_size(tail: bytes, file_size: int) -> int:
    """Return the size of the whole footer, both magics included, from the last `FOOTER_TAIL_BYTES` of a file.

    Raises FormatError for a file too short, a wrong end magic, or a payload size that the file cannot hold.
    """
    if file_size < _SMALLEST_FILE or len(tail) < FOOTER_TAIL_BYTES:
        raise FormatError(
            "file too short for Puffin", kind="puffin-footer", found=f"{file_size} bytes", expected=">= 20 bytes"
        )
    if tail[-4:] != MAGIC:
        raise FormatError(
            "not a Puffin file",
            kind="puffin-magic",
            field="magic at the end",
            found=tail[-4:].hex(),
            expected=MAGIC.hex(),
        )
    (payload_size,) = struct.unpack_from("<i", tail, len(tail) - FOOTER_TAIL_BYTES)
    room = file_size - _SMALLEST_FILE
    if not 0 <= payload_size <= room:
        raise FormatError(
            "Puffin footer payload does not fit the file",
            kind="puffin-footer",
            field="FooterPayloadSize",
            found=payload_size,
            expected=f"0 .. {room}",
        )
    return int(payload_size) + len(MAGIC) + FOOTER_TAIL_BYTES


def read_footer(
    read: ReadRange, file_size: int, *, largest: int | None = None, check_start: bool = False
) -> FileMetadata:
    """Read the footer from the end of a file.

    Parameters
    ----------
    read: gives `length` bytes of the file from an offset: `read(offset, length)`.
    largest: how many bytes the payload may have, decompressed; None for what `json_limit` says.
    check_start: also read the magic at the start of the file, which no reader of blobs needs.

    Raises FormatError for a larger payload, bad magic, unknown flags, a broken payload, or blobs outside the file.
    """
    if check_start and (file_size < len(MAGIC) or read(0, len(MAGIC)) != MAGIC):
        raise FormatError(
            "file does not begin as Puffin", kind="puffin-magic", field="magic at the start", expected=MAGIC.hex()
        )
    tail = read(max(file_size - FOOTER_TAIL_BYTES, 0), FOOTER_TAIL_BYTES) if file_size >= _SMALLEST_FILE else b""
    size = footer_size(tail, file_size)
    limit = json_limit(size) if largest is None else largest
    footer = read(file_size - size, size)
    if len(footer) < size:
        raise FormatError(
            "Puffin footer cut off", kind="puffin-footer", found=f"{len(footer)} bytes", expected=f"{size} bytes"
        )
    if footer[:4] != MAGIC:
        raise FormatError(
            "Puffin footer does not begin with the magic",
            kind="puffin-magic",
            field="magic before the footer",
            found=footer[:4].hex(),
            expected=MAGIC.hex(),
        )
    (flags,) = struct.unpack_from("<I", footer, size - 8)
    if flags & ~_FLAG_PAYLOAD_COMPRESSED:
        raise FormatError(
            "unknown Puffin flags", kind="puffin-flags", field="flags", found=f"{flags:#010x}", expected="bit 0 only"
        )
    payload = footer[4 : size - FOOTER_TAIL_BYTES]
    if flags & _FLAG_PAYLOAD_COMPRESSED:
        payload = decompress("lz4", payload, limit=limit, kind="puffin-codec", field="footer payload")
    if len(payload) > limit:
        raise FormatError(
            "Puffin footer is too large",
            kind="puffin-footer",
            field="footer payload",
            found=f"{len(payload)} bytes",
            expected=f"<= {limit} bytes",
        )
    return _parse_footer(payload, file_size - size)


def read_puffin(data: bytes, *, largest_footer: int | None = None) -> FileMetadata:
    """Parse a whole Puffin file held in memory; the first magic is checked too. Raises as `read_footer`."""
    if data[:4] != MAGIC:
        raise FormatError(
            "not a Puffin file",
            kind="puffin-magic",
            field="magic at the start",
            found=data[:4].hex(),
            expected=MAGIC.hex(),
        )
    return read_footer(lambda offset, length: data[offset : offset + length], len(data), largest=largest_footer)


def blob_payload(stored: bytes, metadata: BlobMetadata) -> bytes:
    """Return a blob's bytes, decompressed. Raises FormatError for a wrong length or an unknown codec."""
    if len(stored) != metadata.length:
        raise FormatError(
            "blob cut off",
            kind="puffin-blob",
            field="length",
            found=f"{len(stored)} bytes",
            expected=f"{metadata.length} bytes",
        )
    if metadata.compression_codec is None:
        return bytes(stored)
    if metadata.type == DELETION_VECTOR_V1:
        raise FormatError(
            "deletion vectors are never compressed",
            kind="puffin-codec",
            field="compression-codec",
            found=metadata.compression_codec,
            expected="none",
        )
    _check_codec(metadata.compression_codec)
    return decompress(
        metadata.compression_codec, bytes(stored), limit=_MAX_UNCOMPRESSED, kind="puffin-codec", field="blob"
    )


def _footer_json(metadata: FileMetadata) -> dict[str, Any]:
    blobs = []
    for b in metadata.blobs:
        entry: dict[str, Any] = {
            "type": b.type,
            "fields": list(b.fields),
            "snapshot-id": b.snapshot_id,
            "sequence-number": b.sequence_number,
            "offset": b.offset,
            "length": b.length,
        }
        if b.compression_codec is not None:
            entry["compression-codec"] = b.compression_codec
        if b.properties:
            entry["properties"] = dict(b.properties)
        blobs.append(entry)
    out: dict[str, Any] = {"blobs": blobs}
    if metadata.properties:
        out["properties"] = dict(metadata.properties)
    return out


def _parse_footer(payload: bytes, blobs_end: int) -> FileMetadata:
    try:
        raw = json.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError) as e:
        raise FormatError(
            "Puffin footer is not JSON", kind="puffin-footer", field="footer payload", found=str(e)
        ) from e
    if not isinstance(raw, dict) or not isinstance(raw.get("blobs"), list):
        raise FormatError("Puffin footer has no blobs list", kind="puffin-footer", field="blobs", expected="a list")
    return FileMetadata(
        blobs=tuple(_parse_blob(b, blobs_end) for b in raw["blobs"]), properties=_strings(raw.get("properties"))
    )


def _parse_blob(raw: Any, blobs_end: int) -> BlobMetadata:
    if not isinstance(raw, dict):
        raise FormatError(
            "Puffin blob is not an object", kind="puffin-footer", field="blobs", found=raw, expected="an object"
        )
    codec = raw.get("compression-codec")
    if codec is not None:
        _check_codec(codec)
    fields = raw.get("fields")
    if not isinstance(fields, list) or not all(_is_int(f) for f in fields):
        raise FormatError(
            "bad Puffin blob fields", kind="puffin-footer", field="fields", found=fields, expected="integers"
        )
    if not isinstance(raw.get("type"), str):
        raise FormatError(
            "bad Puffin blob type", kind="puffin-footer", field="type", found=raw.get("type"), expected="a string"
        )
    blob = BlobMetadata(
        type=raw["type"],
        fields=tuple(fields),
        snapshot_id=_integer(raw, "snapshot-id"),
        sequence_number=_integer(raw, "sequence-number"),
        offset=_integer(raw, "offset"),
        length=_integer(raw, "length"),
        compression_codec=codec,
        properties=_strings(raw.get("properties")),
    )
    if blob.offset < len(MAGIC) or blob.length < 0 or blob.offset + blob.length > blobs_end:
        raise FormatError(
            "Puffin blob outside the file",
            kind="puffin-offset",
            field="offset",
            found=f"{blob.offset}+{blob.length}",
            expected=f"{len(MAGIC)} .. {blobs_end}",
        )
    return blob


def _check_codec(codec: Any) -> None:
    if codec not in _CODECS:
        raise FormatError(
            "unknown Puffin compression codec",
            kind="puffin-codec",
            field="compression-codec",
            found=codec,
            expected="lz4 or zstd",
        )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT_64


def _integer(raw: Mapping[str, Any], name: str) -> int:
    value = raw.get(name)
    if not _is_int(value):
        raise FormatError("bad Puffin blob field", kind="puffin-footer", field=name, found=value, expected="a long")
    assert isinstance(value, int)
    return value


def _strings(raw: Any) -> dict[str, str]:
    if raw is None:
        return {}
    if not isinstance(raw, dict) or not all(isinstance(v, str) for v in raw.values()):
        raise FormatError(
            "bad Puffin properties", kind="puffin-footer", field="properties", found=raw, expected="strings"
        )
    return dict(raw)
