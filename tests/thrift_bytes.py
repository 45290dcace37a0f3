"""Thrift's compact protocol, taken apart and put together, so that each number of a Parquet footer can be wrong."""

from typing import Any

from tests.orc_bytes import number, varint

TRUE, FALSE, BYTE, SHORT, INT, LONG, DOUBLE, TEXT, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
NUMBERS = (SHORT, INT, LONG)

Struct = list[list[Any]]
"""[field, type, value] of each field; a list's value is [type of its items, items, length it claims or None]."""


def decode(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """Give the struct at an offset, and the offset behind it."""
    fields: Struct = []
    last = 0
    while data[at]:
        kind, step = data[at] & 15, data[at] >> 4
        at += 1
        if step:
            last += step
        else:
            value, at = varint(data, at)
            last = (value >> 1) ^ -(value & 1)
        value, at = decode_value(data, at, kind)
        fields.append([last, kind, value])
    return fields, at + 1


def decode_value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (TRUE, FALSE):
        return None, at
    if kind == BYTE:
        return data[at], at + 1
    if kind in NUMBERS:
        return varint(data, at)
    if kind == DOUBLE:
        return data[at : at + 8], at + 8
    if kind == TEXT:
        length, at = varint(data, at)
        return data[at : at + length], at + length
    if kind == STRUCT:
        return decode(data, at)
    assert kind in (LIST, SET), f"Parquet has no type {kind}"
    return decode_list(data, at)


def decode_list(data: bytes, at: int) -> tuple[Any, int]:
    kind, length = data[at] & 15, data[at] >> 4
    at += 1
    if length == 15:
        length, at = varint(data, at)
    items = []
    for _ in range(length):
        item, at = (data[at], at + 1) if kind in (TRUE, FALSE) else decode_value(data, at, kind)
        items.append([0, kind, item])
    return [kind, items, None], at


def encode(fields: Struct) -> bytes:
    out = bytearray()
    last = 0
    for field, kind, value in fields:
        step = field - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + number((field << 1) ^ (field >> 15))
        out += encode_value(kind, value)
        last = field
    return bytes([*out, 0])


def encode_value(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return b""
    if kind == BYTE:
        return bytes([value & 255])
    if kind in NUMBERS:
        return number(value)
    if kind == TEXT:
        return number(len(value)) + value
    if kind == STRUCT:
        return encode(value)
    if kind == DOUBLE:
        return bytes(value)
    inner, items, claimed = value
    length = len(items) if claimed is None else claimed
    head = bytes([length << 4 | inner]) if length < 15 else bytes([0xF0 | inner]) + number(length)
    stored = [bytes([v & 255]) if inner in (TRUE, FALSE) else encode_value(inner, v) for _, _, v in items]
    return head + b"".join(stored)
