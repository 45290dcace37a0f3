"""Read and write Puffin files: blobs between magics, and a JSON footer that says what they are.

    PFA1 | blob | blob | ... | PFA1 | footer payload (JSON, maybe LZ4) | payload size i32 LE | flags u32 LE | PFA1

Spec: https://iceberg.apache.org/puffin-spec/
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
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


def puffin_parts(
    blobs: Sequence[Blob], properties: Mapping[str, str] | None = None
) -> tuple[tuple[bytes, ...], FileMetadata]:
    """Return a Puffin file in parts, and its metadata with the offset and length of each blob.

    The parts are the blobs themselves, and what is around them: the footer is not compressed, and its JSON has Java's
    key order (FileMetadataParser), so equal input gives Java's bytes.
    """
    placed: list[BlobMetadata] = []
    at = len(MAGIC)
    for blob in blobs:
        described = {f.name: getattr(blob, f.name) for f in fields(blob) if f.name != "data"}
        placed.append(BlobMetadata(**described, offset=at, length=len(blob.data)))
        at += len(blob.data)
    metadata = FileMetadata(blobs=tuple(placed), properties=dict(properties or {}))
    payload = json.dumps(_footer_json(metadata), ensure_ascii=False, separators=(",", ":")).encode()
    footer = (MAGIC, payload, struct.pack("<ii", len(payload), 0), MAGIC)
    return (MAGIC, *(blob.data for blob in blobs), *footer), metadata


def footer_size(tail: bytes, file_size: int) -> int:
    """Return the size of the whole footer, both magics included, from the last `FOOTER_TAIL_BYTES` of a file.

    Raises FormatError for a file too short, a wrong end magic, or a payload size that the file cannot hold.
    """
    if file_size < _SMALLEST_FILE or len(tail) < FOOTER_TAIL_BYTES:
        raise _bad("file too short for Puffin", None, f"{file_size} bytes", ">= 20 bytes")
    _check_magic(tail[-4:], "at the end", "not a Puffin file")
    (payload_size,) = struct.unpack_from("<i", tail, len(tail) - FOOTER_TAIL_BYTES)
    room = file_size - _SMALLEST_FILE
    if not 0 <= payload_size <= room:
        message = "Puffin footer payload does not fit the file"
        raise _bad(message, "FooterPayloadSize", payload_size, f"0 .. {room}")
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
    if check_start:
        _check_magic(read(0, min(len(MAGIC), file_size)), "at the start", "file does not begin as Puffin")
    tail = read(max(file_size - FOOTER_TAIL_BYTES, 0), FOOTER_TAIL_BYTES) if file_size >= _SMALLEST_FILE else b""
    size = footer_size(tail, file_size)
    limit = json_limit(size) if largest is None else largest
    footer = read(file_size - size, size)
    if len(footer) < size:
        raise _bad("Puffin footer cut off", None, f"{len(footer)} bytes", f"{size} bytes")
    _check_magic(footer[:4], "before the footer", "Puffin footer does not begin with the magic")
    (flags,) = struct.unpack_from("<I", footer, size - 8)
    if flags & ~_FLAG_PAYLOAD_COMPRESSED:
        raise _bad("unknown Puffin flags", "flags", f"{flags:#010x}", "bit 0 only", kind="puffin-flags")
    payload = footer[4 : size - FOOTER_TAIL_BYTES]
    if flags & _FLAG_PAYLOAD_COMPRESSED:
        payload = decompress("lz4", payload, limit=limit, kind="puffin-codec", field="footer payload")
    if len(payload) > limit:
        raise _bad("Puffin footer is too large", "footer payload", f"{len(payload)} bytes", f"<= {limit} bytes")
    return _parse_footer(payload, file_size - size)


def read_puffin(data: bytes, *, largest_footer: int | None = None) -> FileMetadata:
    """Parse a whole Puffin file held in memory; the first magic is checked too. Raises as `read_footer`."""
    return read_footer(lambda at, size: data[at : at + size], len(data), largest=largest_footer, check_start=True)


def _footer_json(metadata: FileMetadata) -> dict[str, Any]:
    return _present(metadata) | {"blobs": [_present(b) for b in metadata.blobs]}


def _present(described: BlobMetadata | FileMetadata) -> dict[str, Any]:
    """Return the JSON of a description without what is absent or has no properties."""
    # `asdict` copies every value, which takes longer than all the rest.
    found = {f.name.replace("_", "-"): getattr(described, f.name) for f in fields(described)}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items() if v is not None and v != {}}


def _parse_footer(payload: bytes, blobs_end: int) -> FileMetadata:
    try:
        raw = json.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError) as e:
        raise _bad("Puffin footer is not JSON", "footer payload", str(e), None) from e
    if not isinstance(raw, dict) or not isinstance(raw.get("blobs"), list):
        raise _bad("Puffin footer has no blobs list", "blobs", None, "a list")
    blobs = tuple(_parse_blob(b, blobs_end) for b in raw["blobs"])
    return FileMetadata(blobs=blobs, properties=_strings(raw.get("properties")))


def _parse_blob(raw: Any, blobs_end: int) -> BlobMetadata:
    if not isinstance(raw, dict):
        raise _bad("Puffin blob is not an object", "blobs", raw, "an object")
    kind, codec, field_ids = raw.get("type"), raw.get("compression-codec"), raw.get("fields")
    if codec is not None:
        _check_codec(codec)
    if not isinstance(field_ids, list) or not all(_is_long(f) for f in field_ids):
        raise _bad("bad Puffin blob fields", "fields", field_ids, "integers")
    if not isinstance(kind, str):
        raise _bad("bad Puffin blob type", "type", kind, "a string")
    for name in ("snapshot-id", "sequence-number", "offset", "length"):
        if not _is_long(raw.get(name)):
            raise _bad("bad Puffin blob field", name, raw.get(name), "a long")
    offset, length = raw["offset"], raw["length"]
    if offset < len(MAGIC) or length < 0 or offset + length > blobs_end:
        expected = f"{len(MAGIC)} .. {blobs_end}"
        raise _bad("Puffin blob outside the file", "offset", f"{offset}+{length}", expected, kind="puffin-offset")
    return BlobMetadata(
        type=kind,
        fields=tuple(field_ids),
        snapshot_id=raw["snapshot-id"],
        sequence_number=raw["sequence-number"],
        offset=offset,
        length=length,
        compression_codec=codec,
        properties=_strings(raw.get("properties")),
    )


def _check_codec(codec: Any) -> None:
    if codec not in ("lz4", "zstd"):
        message = "unknown Puffin compression codec"
        raise _bad(message, "compression-codec", codec, "lz4 or zstd", kind="puffin-codec")


def _check_magic(found: bytes, where: str, message: str) -> None:
    if found != MAGIC:
        raise _bad(message, f"magic {where}", found.hex(), MAGIC.hex(), kind="puffin-magic")


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _strings(raw: Any) -> dict[str, str]:
    if raw is None:
        return {}
    if not isinstance(raw, dict) or not all(isinstance(v, str) for v in raw.values()):
        raise _bad("bad Puffin properties", "properties", raw, "strings")
    return dict(raw)


def _bad(message: str, field: str | None, found: Any, expected: Any, *, kind: str = "puffin-footer") -> FormatError:
    return FormatError(message, kind=kind, field=field, found=found, expected=expected)
