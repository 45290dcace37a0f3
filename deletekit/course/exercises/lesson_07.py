"""What the functions that learners write in lesson 07 are tried with."""

from random import Random

from deletekit.course.exercise import Functions

_POSITIONS = (0, 7, 65_535, 65_536, 100_000, 2**32 - 1, 2**32 + 5, (3 << 32) + (7 << 16) + 9)
_NUMBERS_AND_RUNS = (
    *((1, 1), (3, 1), (4, 1), (100, 1), (100, 49), (100, 50), (4096, 4096), (4097, 4097), (4097, 2)),
    *((30_000, 2047), (30_000, 2048), (65_535, 2), (65_536, 1)),
)


def _position(random: Random) -> tuple[int]:
    bits = random.choice((4, 16, 17, 32, 33, 48, 62))
    near = (random.getrandbits(bits) >> 16 << 16) + random.choice((-1, 0, 1))
    return (max(0, random.choice((near, random.getrandbits(bits)))),)


def _counts(random: Random) -> tuple[int, int]:
    numbers = random.choice((random.randrange(1, 20), random.randrange(4090, 4103), random.randrange(1, 65_537)))
    most = min(numbers, 65_537 - numbers)
    even = min(2 * numbers, 8192) // 4  # so many runs take about as many bytes
    return numbers, min(most, max(1, random.choice((even - 1, even, even + 1, random.randint(1, most)))))


FUNCTIONS = {
    "07.2": Functions(
        cases=[(position,) for position in _POSITIONS],
        inputs=_position,
    ),
    "07.5": Functions(
        cases=_NUMBERS_AND_RUNS,
        inputs=_counts,
    ),
}
