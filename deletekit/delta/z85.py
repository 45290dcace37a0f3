"""Encode and decode Z85: four bytes as five printable characters. Delta writes uuids and inline vectors so.

Python's `base64` module has other alphabets. One to three bytes at the end have two forms. Delta pads them with zeros,
and the reader must know the length. The `z85` crate, which delta-kernel-rs uses, begins the last group with a `#` for
each missing byte; no group of four bytes begins so.
Spec: https://rfc.zeromq.org/spec/32/; Delta protocol, "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

import struct

from deletekit.errors import FormatError

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}


def decode_z85(text: str) -> bytes:
    """Return the bytes of a text, including zeros that pad it.

    Raise FormatError for a length that is not a multiple of 5, and for characters or groups that are not Z85.
    """
    if len(text) % 5:
        raise FormatError("not Z85", kind="z85", found=f"{len(text)} characters", expected="a multiple of 5")
    try:
        values = [_VALUES[character] for character in text]
    except KeyError as e:
        raise FormatError("not Z85", kind="z85", found=repr(e.args[0]), expected="a character of its alphabet") from e
    missing = _missing_bytes(text[-5:])
    values[len(values) - 5 : len(values) - 5 + missing] = [0] * missing
    numbers = [(((a * 85 + b) * 85 + c) * 85 + d) * 85 + e for a, b, c, d, e in zip(*[iter(values)] * 5, strict=True)]
    bits = [32] * (len(numbers) - 1) + [32 - 8 * missing]
    for i, number in enumerate(numbers):
        if number >> bits[i]:
            raise FormatError("not Z85", kind="z85", found=text[5 * i : 5 * i + 5], expected=f"at most {bits[i]} bits")
    data = struct.pack(f">{len(numbers)}I", *numbers)
    return data[:-4] + data[missing - 4 :] if missing else data


def _missing_bytes(group: str) -> int:
    """Return how many bytes the last group marks as missing; 0 if all would be missing."""
    marks = len(group) - len(group.lstrip("#"))
    return marks if marks < 4 else 0


def encode_z85(data: bytes) -> str:
    """Return the text of bytes, padded with zeros to a multiple of 4, as Delta pads inline vectors."""
    out = []
    for (number,) in struct.iter_unpack(">I", data + bytes(-len(data) % 4)):
        out += [_ALPHABET[number // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(out)
