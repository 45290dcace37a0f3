"""Mumbling bitmaps, both ways: small sets of positions, as a draft for format version 4 stores them. See `DRAFT`.

    +--------+------------------+----------------------+-----------------+--------------------------------+
    | 01     | cardinality      | number of containers | descriptors     | containers                     |
    |        | 3 bytes LE       | 2 bytes LE           | PFOR            | 0 .. 32 bytes each             |
    +--------+------------------+----------------------+-----------------+--------------------------------+

A container covers 256 positions. Up to 31 of them are a byte each; 32 and more are 256 bits. A descriptor has one byte:
how many positions, or 32 for bits.
Spec: apache/iceberg, format/mumbling-spec.md
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from pyroaring import BitMap

from deletekit.course.v4.pfor import bad, decode_bytes, encode_bytes
from deletekit.errors import InvalidInputError
from deletekit.formats.deletion_vector import PositionBitmap

CONTAINER_POSITIONS = 256
MOST_CONTAINERS = 8192
MOST_POSITIONS = MOST_CONTAINERS * CONTAINER_POSITIONS
"""A position is less than this: 2,097,152."""

DENSE = 32
"""The descriptor of 256 bits, their number of bytes, and the least number of positions that they hold."""

_HEADER_BYTES = 6
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A bitmap taken apart: what its bytes say, in their order."""

    cardinality: int
    encoded_descriptors: bytes
    descriptors: bytes
    containers: tuple[bytes, ...]


def encode(positions: Iterable[int]) -> bytes:
    """Return a bitmap of these positions, in any order. Raises InvalidInputError for one that it cannot hold."""
    numbers = PositionBitmap(positions).to_numpy()
    if len(numbers) and numbers[-1] >= MOST_POSITIONS:
        message, expected = "a Mumbling bitmap cannot hold this position", f"0 .. {MOST_POSITIONS - 1}"
        raise InvalidInputError(message, kind="mumbling", field="positions", found=int(numbers[-1]), expected=expected)
    count = int(numbers[-1]) // CONTAINER_POSITIONS + 1 if len(numbers) else 0
    starts = np.searchsorted(numbers, np.arange(1, count) * CONTAINER_POSITIONS)
    places = np.split((numbers % CONTAINER_POSITIONS).astype(np.uint8), starts) if count else []
    descriptors = bytes(min(len(inside), DENSE) for inside in places)
    header = bytes((_VERSION,)) + len(numbers).to_bytes(3, "little") + count.to_bytes(2, "little")
    containers = (encode_container(inside.tobytes()) for inside in places)
    return header + encode_bytes(descriptors) + b"".join(containers)


def decode(data: bytes) -> BitMap:
    """Return the positions of a bitmap. Raises FormatError for bytes that break the draft."""
    parts = take_apart(data)
    found = BitMap()
    for number, (descriptor, container) in enumerate(zip(parts.descriptors, parts.containers, strict=True)):
        base = number * CONTAINER_POSITIONS
        found.update(base + place for place in decode_container(descriptor, container))
    if len(found) != parts.cardinality:
        raise bad("the containers hold another number of positions", "cardinality", parts.cardinality, len(found))
    return found


def take_apart(data: bytes) -> Parts:
    """Return the parts of a bitmap, without looking into its containers. Raises FormatError."""
    if len(data) < _HEADER_BYTES:
        raise bad("the bytes end too early", "header", f"{len(data)} bytes", f"{_HEADER_BYTES} bytes")
    if data[0] != _VERSION:
        raise bad("unknown version of the bitmap", "format version", data[0], _VERSION)
    cardinality, count = int.from_bytes(data[1:4], "little"), int.from_bytes(data[4:6], "little")
    if count > MOST_CONTAINERS:
        raise bad("too many containers", "container count", count, f"0 .. {MOST_CONTAINERS}")
    most = count * CONTAINER_POSITIONS
    if cardinality > most:
        raise bad("more positions than the containers hold", "cardinality", cardinality, f"0 .. {most}")
    descriptors, taken = decode_bytes(data[_HEADER_BYTES:], count)
    at = _HEADER_BYTES + taken
    encoded = data[_HEADER_BYTES:at]
    containers = []
    for descriptor in descriptors:
        size = container_bytes(descriptor)
        containers.append(data[at : at + size])
        at += size
    if at != len(data):
        raise bad("the containers take another number of bytes", "containers", f"{len(data)} bytes", f"{at} bytes")
    return Parts(
        cardinality=cardinality, encoded_descriptors=encoded, descriptors=descriptors, containers=tuple(containers)
    )


def container_bytes(descriptor: int) -> int:
    """Return how many bytes a container takes. Raises FormatError if the draft has no such kind."""
    if descriptor >= 2 * DENSE:
        raise bad("unknown kind of container", "descriptor", f"{descriptor:08b}", "000xxxxx or 00100000")
    return min(descriptor, DENSE)  # the draft has readers ignore the lower bits behind 001


def encode_container(places: bytes) -> bytes:
    """Return the container of ascending places, a byte each: as they are, or from 32 of them as 256 bits."""
    if len(places) < DENSE:
        return places
    bits = np.zeros(CONTAINER_POSITIONS, np.uint8)
    bits[np.frombuffer(places, np.uint8)] = 1
    return np.packbits(bits).tobytes()  # place 0 is the highest bit of the first byte


def decode_container(descriptor: int, container: bytes) -> bytes:
    """Return the places in a container, a byte each. Raises FormatError if they are not in order, or are too few."""
    if container_bytes(descriptor) < DENSE:
        if any(a >= b for a, b in pairwise(container)):
            raise bad("places are not ascending", "sparse container", container.hex(" "), "each above the one before")
        return container
    places = np.nonzero(np.unpackbits(np.frombuffer(container, np.uint8)))[0].astype(np.uint8).tobytes()
    if len(places) < DENSE:
        raise bad("a dense container has too few positions", "dense container", len(places), f"{DENSE} or more")
    return places
