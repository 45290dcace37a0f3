"""Functions that learners write in lesson 06, right and wrong."""

import struct
from random import Random

from pyroaring import BitMap, BitMap64

from deletekit.course.exercise import Functions
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob


def _positions(blob: bytes) -> set[int]:
    return set(BitMap64.deserialize(blob[8:-4]))


def _plain_numbers(blob: bytes) -> set[int]:
    count = (len(blob) - 8) // 4  # the checksum is taken for a number too
    return set(struct.unpack(f"<{count}I", blob[8 : 8 + count * 4]))


def _blob(random: Random) -> tuple[bytes]:
    positions: set[int] = set()
    for _ in range(random.randrange(1, 4)):
        bits = random.choice((3, 8, 16, 18, 32, 34))
        first = random.getrandbits(bits)
        positions.update(range(first, first + random.choice((1, 1, 5, 200)), random.choice((1, 2))))
    return (encode_blob(PositionBitmap(sorted(positions))),)


FUNCTIONS = {
    "06.3": Functions(
        cases=[
            (encode_blob(PositionBitmap(positions)),)
            for positions in ((0, 2), (100, 150, 200), range(1000), range(0, 9000, 2), (7, 2**32 + 5))
        ],
        inputs=_blob,
        by_name={
            "positions": _positions,
            "first_bitmap": lambda blob: set(BitMap.deserialize(blob[20:-4])),
            "low_halves": lambda blob: {position & 0xFFFFFFFF for position in _positions(blob)},
            "plain_numbers": _plain_numbers,
        },
    )
}
