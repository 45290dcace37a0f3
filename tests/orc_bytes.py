"""An ORC file taken apart into its protobuf messages, so that each number can be wrong alone."""

from collections.abc import Callable
from typing import Any

Message = list[list[Any]]
Change = Callable[[Message], None]


def decode(data: bytes) -> Message:
    """Give [field, value] pairs: numbers for varints, bytes for everything that has a length."""
    fields: Message = []
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
            fields.append([key >> 3, value])
        else:
            assert key & 7 == 2, "ORC's tail has no other wire type here"
            length, at = varint(data, at)
            fields.append([key >> 3, data[at : at + length]])
            at += length
    return fields


def encode(message: Message) -> bytes:
    parts = []
    for field, value in message:
        if isinstance(value, int):
            parts.append(number(field << 3) + number(value))
        else:
            parts.append(number(field << 3 | 2) + number(len(value)) + value)
    return b"".join(parts)


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def get(message: Message, field: int, nth: int = 0) -> Any:
    return [value for name, value in message if name == field][nth]


def put(field: int, value: int | bytes, nth: int = 0) -> Change:
    """Change one value, or add it where the field is missing."""

    def change(message: Message) -> None:
        found = [pair for pair in message if pair[0] == field]
        if found:
            found[nth][1] = value
        else:
            message.append([field, value])

    return change


def within(field: int, inner: Change, nth: int = 0) -> Change:
    """Change a message inside a message."""

    def change(message: Message) -> None:
        part = decode(get(message, field, nth))
        inner(part)
        put(field, encode(part), nth)(message)

    return change


def drop(field: int) -> Change:
    """Take the first value of a field away."""

    def change(message: Message) -> None:
        message.remove(next(pair for pair in message if pair[0] == field))

    return change


def nothing(message: Message) -> None:
    del message


def rebuilt(
    data: bytes,
    *,
    stripe_footer: Change = nothing,
    stripe: Change = nothing,
    footer: Change = nothing,
    postscript: Change = nothing,
) -> bytes:
    """Give an uncompressed file of one stripe with changes; lengths are set right just before each of them."""
    last = decode(data[-1 - data[-1] : -1])
    end = len(data) - 1 - data[-1]
    tail = decode(data[end - get(last, 1) : end])
    statistics = data[end - get(last, 1) - get(last, 5) : end - get(last, 1)]
    (one,) = (decode(value) for field, value in tail if field == 3)
    body = sum(get(one, field) for field in (1, 2, 3))
    streams = decode(data[body : body + get(one, 4)])
    stripe_footer(streams)
    put(4, len(encode(streams)))(one)
    stripe(one)
    put(3, encode(one))(tail)
    footer(tail)
    put(1, len(encode(tail)))(last)
    postscript(last)
    ending = encode(last)
    return data[:body] + encode(streams) + statistics + encode(tail) + ending + bytes([len(ending)])
