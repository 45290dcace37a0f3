"""What the functions that learners write in lesson 01 are tried with."""

import struct
from random import Random

from deletekit.course.exercise import Functions


def _bound(random: Random) -> tuple[bytes]:
    bits = random.choice((1, 3, 8, 16, 24, 31))
    return (struct.pack("<i", random.choice((-(2**bits), 2**bits - 1, random.randrange(-(2**bits), 2**bits)))),)


FUNCTIONS = {
    "01.3": Functions(
        cases=[(struct.pack("<i", number),) for number in (1, 300, -5, 2**31 - 1)],
        inputs=_bound,
    )
}
