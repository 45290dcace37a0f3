"""Read a deletion vector from its bytes, straight from the Roaring and Puffin specs, by hand."""

import struct
from collections.abc import Iterator

COOKIE, COOKIE_NO_RUNS, NO_OFFSETS_BELOW = 12347, 12346, 4


def positions(blob: bytes, broken: str | None) -> Iterator[int]:
    """Yield the positions of a `deletion-vector-v1` blob: length, magic, count, (key, bitmap)*, checksum."""
    (count,) = struct.unpack_from("<q", blob, 8)
    at = 16
    for number in range(count):
        (key,) = struct.unpack_from("<i", blob, at)
        values, at = bitmap(blob, at + 4, broken)
        if broken == "sparse-keys-vector":
            key = number
        if broken == "high-positions":
            key = 0
        yield from (key << 32 | value for value in values)


def bitmap(data: bytes, at: int, broken: str | None) -> tuple[list[int], int]:
    """Return the values of a 32-bit bitmap in the portable form, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    runs = b""
    if cookie & 0xFFFF == COOKIE:
        size = (cookie >> 16) + 1
        runs = data[at : at + (size + 7) // 8]
        at += len(runs)
    else:
        assert cookie == COOKIE_NO_RUNS
        (size,) = struct.unpack_from("<I", data, at)
        at += 4
    described = [struct.unpack_from("<HH", data, at + 4 * i) for i in range(size)]
    at += 4 * size
    if not runs or size >= NO_OFFSETS_BELOW:
        at += 4 * size
    values: list[int] = []
    for number, (high, last) in enumerate(described):
        if runs and runs[number // 8] >> number % 8 & 1:
            (n,) = struct.unpack_from("<H", data, at)
            pairs = [struct.unpack_from("<HH", data, at + 2 + 4 * i) for i in range(n)]
            more = 0 if broken == "run-length-minus-one" else 1
            low = [v for start, length in pairs for v in range(start, start + length + more)]
            at += 2 + 4 * n
        elif last + 1 > 4096:
            low = [v for v in range(65536) if data[at + v // 8] >> v % 8 & 1]
            at += 8192
        else:
            low = list(struct.unpack_from(f"<{last + 1}H", data, at))
            at += 2 * (last + 1)
        values += [high << 16 | v for v in low]
    return values, at
