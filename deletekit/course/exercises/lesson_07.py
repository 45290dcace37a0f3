"""What the functions that learners write in lesson 07 are tried with."""

from random import Random

from pyroaring import BitMap

from deletekit.course.exercise import Functions

_POSITIONS = (0, 7, 65_535, 65_536, 100_000, 2**32 - 1, 2**32 + 5, (3 << 32) + (7 << 16) + 9)
_NUMBERS_AND_RUNS = (
    *((1, 1), (3, 1), (4, 1), (100, 1), (100, 49), (100, 50), (4096, 4096), (4097, 4097), (4097, 2)),
    *((30_000, 2047), (30_000, 2048), (65_535, 2)),
)
_HEADER_BYTES = 16  # cookie, count, one key and cardinality, one offset
_EVERY_TENTH = BitMap(range(0, 65_536, 10)).serialize()[_HEADER_BYTES:]


def _position(random: Random) -> tuple[int]:
    bits = random.choice((4, 16, 17, 32, 33, 48, 62))
    near = (random.getrandbits(bits) >> 16 << 16) + random.choice((-1, 0, 1))
    return (max(0, random.choice((near, random.getrandbits(bits)))),)


def _counts(random: Random) -> tuple[int, int]:
    numbers = random.choice((random.randrange(1, 20), random.randrange(4090, 4103), random.randrange(1, 65_537)))
    most = min(numbers, 65_537 - numbers)
    even = min(2 * numbers, 8192) // 4  # so many runs take about as many bytes
    return numbers, min(most, max(1, random.choice((even - 1, even, even + 1, random.randint(1, most)))))


def _container(random: Random) -> tuple[bytes, int]:
    container = bytearray(8192)
    numbers = [random.choice((random.getrandbits(16), random.randrange(65_528, 65_536), n)) for n in range(20)]
    for number in numbers[: random.randrange(1, 20)]:
        container[number // 8] |= 1 << number % 8
    return bytes(container), random.choice((*numbers, min(65_535, numbers[0] + 1), random.getrandbits(16)))


FUNCTIONS = {
    "07.2": Functions(
        cases=[(position,) for position in _POSITIONS],
        inputs=_position,
    ),
    "07.5": Functions(
        cases=_NUMBERS_AND_RUNS,
        inputs=_counts,
    ),
    "07.6": Functions(
        cases=[(_EVERY_TENTH, number) for number in (0, 1, 5, 7, 8, 10, 12, 20, 30, 65_530, 65_535)],
        inputs=_container,
    ),
}
