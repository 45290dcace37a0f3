"""What the functions that learners write in lesson 06 are tried with."""

from random import Random

from deletekit.course.exercise import Functions
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob


def _blob(random: Random) -> tuple[bytes]:
    positions: set[int] = set()
    for _ in range(random.randrange(1, 4)):
        bits = random.choice((3, 8, 16, 18, 32, 34, 62))
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
    )
}
