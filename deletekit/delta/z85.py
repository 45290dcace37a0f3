"""Z85: four bytes as five printable characters, as Delta Lake writes uuids and inline deletion vectors.

Law: text <-> bytes. Not base85 of Python's `base64` module, whose alphabets are others. One to three bytes at the end
have two forms: padded with zeros, as Delta writes them and the reader has to know, or as the `z85` crate does, which
delta-kernel-rs uses: the last group begins with a `#` for each byte that it lacks, as none of four bytes can.
Spec: https://rfc.zeromq.org/spec/32/; Delta protocol, "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

import struct

from deletekit.errors import FormatError

__all__ = ["decode_z85", "encode_z85"]

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}


def decode_z85(text: str) -> bytes:
    """The bytes of a text, zeros that pad it among them.

    Raises FormatError for a length that is no multiple of 5 and for what is no Z85.
    """
    if len(text) % 5:
        raise FormatError("not Z85", kind="z85", found=f"{len(text)} characters", expected="a multiple of 5")
    try:
        values = [_VALUES[character] for character in text]
    except KeyError as e:
        raise FormatError("not Z85", kind="z85", found=repr(e.args[0]), expected="a character of its alphabet") from e
    lacking = _lacking(text[-5:])
    values[len(values) - 5 : len(values) - 5 + lacking] = [0] * lacking
    numbers = [(((a * 85 + b) * 85 + c) * 85 + d) * 85 + e for a, b, c, d, e in zip(*[iter(values)] * 5, strict=True)]
    bits = [32] * (len(numbers) - 1) + [32 - 8 * lacking]
    for i, number in enumerate(numbers):
        if number >> bits[i]:
            raise FormatError("not Z85", kind="z85", found=text[5 * i : 5 * i + 5], expected=f"at most {bits[i]} bits")
    data = struct.pack(f">{len(numbers)}I", *numbers)
    return data[:-4] + data[lacking - 4 :] if lacking else data


def _lacking(group: str) -> int:
    """How many bytes the last group says that it lacks; none when it would have no byte."""
    marks = len(group) - len(group.lstrip("#"))
    return marks if marks < 4 else 0


def encode_z85(data: bytes) -> str:
    """The text of bytes, padded with zeros to a multiple of 4, as Delta pads inline vectors."""
    out = []
    for (number,) in struct.iter_unpack(">I", data + bytes(-len(data) % 4)):
        out += [_ALPHABET[number // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(out)
