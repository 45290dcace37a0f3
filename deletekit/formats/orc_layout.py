"""Check the numbers that an ORC file declares, before Arrow reads it.

Arrow's ORC reader believes the postscript, the footer and the stripe footers. A false number there ends the process
(Arrow 26: a segmentation fault for a stripe of 2^63 rows, an abort for a decimal of 39 digits).
Spec: https://orc.apache.org/specification/ORCv1/
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.compression import decompress

_MAGIC = b"ORC"
_TAIL_BYTES = 1 << 14
_CODECS = {0: "none", 1: "deflate", 2: "snappy", 4: "lz4_block", 5: "zstd"}
_MAX_BLOCK_BYTES = 1 << 23  # a chunk's header has 23 bits for its length
_DEFAULT_BLOCK_BYTES = 1 << 18
_MAX_FOOTER_BYTES = 1 << 28
_MAX_DEPTH = 100
_DECIMAL = 14
_DECIMAL_DIGITS = 38

# Run lengths and compression: one byte can stand for many rows, but not for any number of them. Arrow allocates all
# rows of a stripe at once.
_MAX_ROWS_PER_BYTE = 1 << 18
_MAX_ROWS = 1 << 27

Message = Mapping[int, Sequence[int | bytes]]


def check_orc(source: BinaryIO) -> None:
    """Read the tail and the stripe footers of a file, and leave it at its start.

    Raises FormatError where they contradict each other or the file's size, UnsupportedError for LZO and for stripes of
    more than 2^27 rows.
    """
    size = source.seek(0, 2)
    tail_size = min(size, _TAIL_BYTES)
    tail = _read(source, size - tail_size, tail_size)
    postscript = _postscript(tail, size)
    codec, block = _codec(postscript)
    footer_length = _number(postscript, 1)
    footer_end = size - 1 - tail[-1]
    stripes_end = footer_end - footer_length - _number(postscript, 5) - _number(postscript, 7)
    if stripes_end < len(_MAGIC):
        raise _bad("ORC footer does not fit the file", "footerLength", footer_length, f"<= {footer_end}")
    footer = _message(_section(_read(source, footer_end - footer_length, footer_length), codec, block))
    types, stripes = _messages(footer, 4), _messages(footer, 3)
    _check_types(types)
    _check_stripes(stripes, stripes_end, _number(footer, 6))
    for stripe in stripes:
        start = _number(stripe, 1) + _number(stripe, 2) + _number(stripe, 3)
        stored = _read(source, start, _number(stripe, 4))
        _check_stripe_footer(_message(_section(stored, codec, block)), stripe, len(types))
    source.seek(0)


def _postscript(tail: bytes, size: int) -> Message:
    length = tail[-1] if tail else 0
    if length == 0 or length >= len(tail):
        raise _bad("file too short for ORC", "postscript", f"{size} bytes", f"> {length + 1} bytes")
    postscript = _message(tail[-1 - length : -1])
    magic = postscript.get(8000, [b""])[-1]
    if magic != _MAGIC:
        raise _bad("not an ORC file", "magic", magic, _MAGIC)
    return postscript


def _codec(postscript: Message) -> tuple[str, int]:
    kind, block = _number(postscript, 2), _number(postscript, 3, _DEFAULT_BLOCK_BYTES)
    if kind == 3:
        raise UnsupportedError("ORC compression is not supported", kind="orc", field="compression", found="LZO")
    if kind not in _CODECS:
        raise _bad("unknown ORC compression", "compression", kind, "none, zlib, snappy, lz4 or zstd")
    if kind and not 0 < block <= _MAX_BLOCK_BYTES:
        raise _bad("bad ORC compression block", "compressionBlockSize", block, f"1 .. {_MAX_BLOCK_BYTES}")
    return _CODECS[kind], block


def _check_types(types: Sequence[Message]) -> None:
    """Check that the types are a tree in preorder, of bounded depth, with decimals that Arrow has."""
    if not types:
        raise _bad("ORC file without types", "types", "none", "a struct")
    depths, seen = [0] * len(types), {0}
    for i, kind in enumerate(types):
        for child in _packed(kind, 2):
            if not i < child < len(types) or child in seen:
                raise _bad("ORC types are not a tree", "subtypes", child, f"{i + 1} .. {len(types) - 1}, each once")
            seen.add(child)
            depths[child] = depths[i] + 1
        if depths[i] > _MAX_DEPTH:
            raise _bad("ORC types are nested too deeply", "types", depths[i], f"<= {_MAX_DEPTH}")
        precision, scale = _number(kind, 5, bits=32), _number(kind, 6, bits=32)
        if _number(kind, 1, bits=32) == _DECIMAL and not scale <= (precision or _DECIMAL_DIGITS) <= _DECIMAL_DIGITS:
            raise _bad("bad ORC decimal", "precision", f"decimal({precision},{scale})", f"<= {_DECIMAL_DIGITS} digits")


def _check_stripes(stripes: Sequence[Message], end: int, rows: int) -> None:
    for stripe in stripes:
        offset, index, data, footer, count = (_number(stripe, i) for i in range(1, 6))
        if offset < len(_MAGIC) or offset + index + data + footer > end:
            raise _bad("ORC stripe outside the file", "stripes", f"{offset}+{index}+{data}+{footer}", f"<= {end}")
        if count > _MAX_ROWS_PER_BYTE * (index + data + footer):
            raise _bad("ORC stripe claims more rows than it has bytes for", "numberOfRows", count, "fewer rows")
        if count > _MAX_ROWS:
            raise UnsupportedError("ORC stripe of too many rows", "orc", "numberOfRows", count, f"<= {_MAX_ROWS}")
    total = sum(_number(stripe, 5) for stripe in stripes)
    if total != rows:
        raise _bad("ORC stripes do not add up to the file's rows", "numberOfRows", rows, total)


def _check_stripe_footer(footer: Message, stripe: Message, types: int) -> None:
    room = _number(stripe, 2) + _number(stripe, 3)
    streams, encodings = _messages(footer, 1), _messages(footer, 2)
    taken = sum(_number(s, 3) for s in streams)
    if taken > room:
        raise _bad("ORC streams do not fit their stripe", "streams", f"{taken} bytes", f"<= {room} bytes")
    places = [(_number(s, 2, bits=32), _number(s, 1, bits=32)) for s in streams]  # (column, kind)
    if any(column >= types for column, _ in places):
        raise _bad("ORC stream of no column", "streams", [column for column, _ in places], f"< {types}")
    if len(set(places)) < len(places):
        raise _bad("ORC column has two streams of one kind", "streams", places, "each once")
    if len(encodings) != types:
        raise _bad("ORC stripe has another number of columns", "columns", len(encodings), types)
    words = max(_number(encoding, 2, bits=32) for encoding in encodings)
    if words > min(_MAX_ROWS, _MAX_ROWS_PER_BYTE * room):
        raise _bad("ORC dictionary is larger than its stripe", "dictionarySize", words, f"{room} bytes of words")
    for zone in _strings(footer, 3):
        # liborc opens a file of this name in the directory of time zones.
        if not re.fullmatch(rb"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", zone):
            raise _bad("bad ORC time zone", "writerTimezone", zone, "a name of the time zone database")


# --- bytes ------------------------------------------------------------------------------------------------------------


def _read(source: BinaryIO, start: int, length: int) -> bytes:
    source.seek(start)
    data = source.read(length)
    if len(data) != length:
        raise _bad("ORC file is cut off", "length", f"{len(data)} bytes", f"{length} bytes")
    return data


def _section(stored: bytes, codec: str, block: int) -> bytes:
    """Decompress a section of the file: chunks behind a header of 3 bytes (length, and whether stored)."""
    if codec == "none":
        return stored
    parts, at, size = [], 0, 0
    while at < len(stored):
        header = int.from_bytes(stored[at : at + 3], "little")
        end = at + 3 + (header >> 1)
        if end > len(stored):
            raise _bad("ORC chunk is cut off", "chunk", f"{len(stored) - at} bytes", f"{end - at} bytes")
        used = "none" if header & 1 else codec
        parts.append(decompress(used, stored[at + 3 : end], limit=block, kind="orc", field="chunk"))
        size += len(parts[-1])
        if size > _MAX_FOOTER_BYTES:
            raise _bad("ORC footer is too large", "footer", f"> {_MAX_FOOTER_BYTES} bytes", f"<= {_MAX_FOOTER_BYTES}")
        at = end
    return b"".join(parts)


def _message(data: bytes) -> Message:
    """Parse a protobuf message: every value of each field, numbers and byte strings, in order."""
    fields: dict[int, list[int | bytes]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
            fields.setdefault(key >> 3, []).append(value)
            continue
        if key & 7 == 2:
            length, at = _varint(data, at)
        else:
            length = {1: 8, 5: 4}.get(key & 7, len(data))
        if at + length > len(data):
            raise _bad("ORC message is cut off", "protobuf", f"{len(data) - at} bytes", f"{length} bytes")
        fields.setdefault(key >> 3, []).append(data[at : at + length])
        at += length
    return fields


def _varint(data: bytes, start: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(data[start : start + 10]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, start + i + 1
    raise _bad("ORC message is cut off", "protobuf", data[start : start + 10], "a number")


def _number(message: Message, field: int, default: int = 0, *, bits: int = 64) -> int:
    """Return the last number of a field, as protobuf reads it: cut to the field's width."""
    values = [v for v in message.get(field, ()) if isinstance(v, int)]
    return values[-1] & ((1 << bits) - 1) if values else default


def _strings(message: Message, field: int) -> list[bytes]:
    return [v for v in message.get(field, ()) if isinstance(v, bytes)]


def _messages(message: Message, field: int) -> list[Message]:
    return [_message(v) for v in _strings(message, field)]


def _packed(message: Message, field: int) -> Iterator[int]:
    """Yield the numbers of a repeated uint32, packed or not."""
    for value in message.get(field, ()):
        if isinstance(value, int):
            yield value & 0xFFFFFFFF
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            yield number & 0xFFFFFFFF


def _bad(message: str, field: str, found: Any, expected: Any) -> FormatError:
    return FormatError(message, kind="orc", field=field, found=found, expected=expected)
