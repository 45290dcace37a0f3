"""Functions that learners write in lesson 01, right and wrong."""

import struct
from random import Random

from deletekit.course.exercise import Functions


def _bound(random: Random) -> tuple[bytes]:
    bits = random.choice((1, 3, 8, 16, 24, 31))
    return (struct.pack("<i", random.randrange(-(2**bits), 2**bits)),)


FUNCTIONS = {
    "01.3": Functions(
        cases=[(struct.pack("<i", number),) for number in (1, 300, -5, 2**31 - 1)],
        inputs=_bound,
        by_name={
            "signed": lambda value: int.from_bytes(value, "little", signed=True),
            "big_endian": lambda value: int.from_bytes(value, "big", signed=True),
            "big_endian_unsigned": lambda value: int.from_bytes(value, "big"),
            "unsigned": lambda value: int.from_bytes(value, "little"),
        },
    )
}
