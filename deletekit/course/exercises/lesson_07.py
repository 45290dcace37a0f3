"""Exercises of 07_roaring_bitmaps."""

from __future__ import annotations

from collections.abc import Callable

from pyroaring import BitMap

from deletekit.course.answer_values import MAPPING, NUMBER, SEQUENCE, function
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

_POSITIONS = tuple((n,) for n in (0, 7, 65_535, 65_536, 100_000, 2**32 - 1, 2**32 + 5, (3 << 32) + (7 << 16) + 9))

_CONTAINERS = (
    *((1, 1), (3, 1), (4, 1), (100, 1), (100, 49), (100, 50), (4096, 4096), (4097, 4097), (4097, 2)),
    *((30_000, 2047), (30_000, 2048), (65_535, 2)),
)

_HEADER_BYTES = 16  # cookie, count, one key and cardinality, one offset
_TENTHS = BitMap(range(0, 65_536, 10)).serialize()[_HEADER_BYTES:]
_CASES = tuple((_TENTHS, number) for number in (0, 1, 5, 7, 8, 10, 12, 20, 30, 65_530, 65_535))


def _split(position: int) -> tuple[int, int, int]:
    return position >> 32, position >> 16 & 0xFFFF, position & 0xFFFF


def _kind_of(numbers: int, runs: int) -> str:
    kind, size = ("array", 2 * numbers) if numbers <= 4096 else ("bitmap", 8192)
    return "run" if 2 + 4 * runs < size else kind


def _without_the_run_count(numbers: int, runs: int) -> str:
    kind, size = ("array", 2 * numbers) if numbers <= 4096 else ("bitmap", 8192)
    return "run" if 4 * runs < size else kind


def _ties_are_runs(numbers: int, runs: int) -> str:
    kind, size = ("array", 2 * numbers) if numbers <= 4096 else ("bitmap", 8192)
    return "run" if 2 + 4 * runs <= size else kind


def _array_below(limit: int) -> Callable[[int, int], str]:
    def kind_of(numbers: int, runs: int) -> str:
        size = min(2 * numbers, 8192)
        return "run" if 2 + 4 * runs < size else "array" if numbers < limit else "bitmap"

    return kind_of


def _bit(container: bytes, number: int) -> bool:
    return bool(container[number // 8] >> number % 8 & 1)


def _from_the_left(container: bytes, number: int) -> bool:
    return bool(container[number // 8] >> (7 - number % 8) & 1)


def _value_of_a_byte(container: bytes, number: int) -> bool:
    return number % 256 in container


def _byte_for_each(container: bytes, number: int) -> bool:
    return bool(container[number])


EXERCISES = (
    Exercise(
        id="07.1",
        form=SEQUENCE,
        accepts=(["first", "scattered", "most", "half"],),
        mistakes=(
            Mistake(
                answers=(["first", "scattered", "half", "most"], ["scattered", "first", "half", "most"]),
                hint="That is the order of how many rows are deleted. What else could one store than each of them?",
            ),
            Mistake(
                answers=(["scattered", "first", "most", "half"],),
                hint="Both have 10,000 rows. Which of the two can you tell somebody in one short sentence with two numbers?",
            ),
            Mistake(
                answers=(["half", "most", "scattered", "first"], ["most", "half", "scattered", "first"]),
                hint="You have put the largest first.",
            ),
        ),
        hints=(
            "A block of rows can be stored as where it begins and how long it is.",
            '"most" is made of 10,000 blocks of 99 rows; "half" has no two rows beside each other.',
        ),
        why="What counts is how many runs of neighbours there are, and not how many rows: one, 10,000, 10,000 and 500,000.",
    ),
    Exercise(
        id="07.2",
        form=function(*_POSITIONS),
        accepts=(_split, lambda p: [p // 2**32, p // 2**16 % 2**16, p % 2**16]),
        mistakes=(
            Mistake(
                answers=(lambda p: (p >> 32, p >> 16, p & 0xFFFF),),
                hint="The container has 16 bits: the key must not be in it a second time.",
            ),
            Mistake(
                answers=(lambda p: (p >> 32, p // 65_535 % 65_536, p % 65_535),),
                hint="A container covers 65,536 positions, 0 to 65,535.",
            ),
            Mistake(
                answers=(lambda p: (p >> 32, p >> 16 & 0xFFFF, p & 0xFFFFFFFF),),
                hint="Only 16 bits are stored in the container; the number of the container says the others.",
            ),
            Mistake(
                answers=(lambda p: (p & 0xFFFF, p >> 16 & 0xFFFF, p >> 32),),
                hint="The key comes first, then the container, then what is stored.",
            ),
        ),
        hints=(
            "`>> 32` leaves the upper half, `& 0xFFFF` leaves 16 bits.",
            "`position >> 32`, `position >> 16 & 0xFFFF`, `position & 0xFFFF`.",
        ),
        why="32 bits for the key, 16 for the container, and 16 that are stored: 2 bytes are enough for any position.",
    ),
    Exercise(
        id="07.3",
        form=MAPPING,
        accepts=({"a": "run", "b": "array", "c": "bitmap", "d": "array", "e": "run"},),
        mistakes=(
            Mistake(
                answers=({"a": "run", "b": "array", "c": "bitmap", "d": "run", "e": "run"},),
                hint="A single number is a run of length one, but that takes 6 bytes. What does it take in an array?",
            ),
            Mistake(
                answers=(
                    {"a": "run", "b": "array", "c": "bitmap", "d": "array", "e": "bitmap"},
                    {"a": "array", "b": "array", "c": "bitmap", "d": "array", "e": "bitmap"},
                ),
                hint="You went by how many numbers there are. Count the runs too: 99 neighbours are one, and e has two.",
            ),
            Mistake(
                answers=({"a": "run", "b": "array", "c": "array", "d": "array", "e": "run"},),
                hint="c has 6,554 numbers, at two bytes each in an array. What is the largest size that a container has?",
            ),
            Mistake(
                answers=({"a": "run", "b": "run", "c": "run", "d": "run", "e": "run"},),
                hint="Numbers at a distance are no run: each would be one of its own, with 4 bytes.",
            ),
        ),
        hints=(
            "Work out all three sizes for each set: `2 * numbers`, 8192, and `2 + 4 * runs`.",
            "a: 200, 8192, 6. b: 20, 8192, 42. c: 13108, 8192, 26218.",
        ),
        why="The smallest of three sizes wins: a 6 bytes, b 20, c 8192, d 2, e 10.",
    ),
    Exercise(
        id="07.4",
        form=NUMBER,
        accepts=(4097,),
        mistakes=(
            Mistake(
                answers=(4096,),
                hint="4096 numbers of two bytes are 8192 bytes, the same as a bitmap: they stay an array.",
            ),
            Mistake(answers=(8192, 8193), hint="These are bytes, and a number in an array takes two of them."),
            Mistake(
                answers=(2048, 2049),
                hint="That is where runs stop saving anything. Here there are none: compare array and bitmap.",
            ),
            Mistake(
                answers=(65_536, 32_768), hint="It need not be full: when does an array take more bytes than a bitmap?"
            ),
        ),
        hints=("A bitmap takes 8192 bytes, whatever is in it.", "`2 * numbers` must be more than 8192."),
        why="An array of 4096 numbers takes 8192 bytes, as a bitmap does; with the next number the bitmap is smaller.",
    ),
    Exercise(
        id="07.5",
        form=function(*_CONTAINERS),
        accepts=(_kind_of,),
        mistakes=(
            Mistake(
                answers=(_without_the_run_count, _ties_are_runs),
                hint="Three neighbours take 2 + 4 bytes as one run, and 6 as an array: nothing is saved, so it stays an array.",
            ),
            Mistake(
                answers=(_array_below(4096),),
                hint="With exactly 4096 numbers it is still an array: a reader goes by that limit.",
            ),
            Mistake(
                answers=(lambda numbers, runs: "array" if numbers <= 4096 else "bitmap",),
                hint="You leave out the runs: a hundred neighbours take 6 bytes.",
            ),
            Mistake(
                answers=(lambda numbers, runs: "run" if runs < numbers else "array" if numbers <= 4096 else "bitmap",),
                hint="That there are neighbours is not enough: a run takes 4 bytes, and two numbers of an array do as well.",
            ),
        ),
        hints=(
            "First choose between array and bitmap, by the number 4096, and note the bytes.",
            "Then it is a run if `2 + 4 * runs` is less than these bytes.",
        ),
        why="Array up to 4096 numbers, bitmap above, and runs where they are smaller than that.",
    ),
    Exercise(
        id="07.6",
        form=function(*_CASES),
        accepts=(_bit, lambda container, number: container[number >> 3] & 1 << (number & 7) != 0),
        mistakes=(
            Mistake(
                answers=(_from_the_left,),
                hint="Within a byte the lowest number is the lowest bit, which is printed at the right end.",
            ),
            Mistake(
                answers=(_value_of_a_byte,),
                hint="The number is not a byte of the container, but says which bit to look at.",
            ),
            Mistake(
                answers=(_byte_for_each,),
                hint="There are 8 numbers in a byte: 65,536 bits are 8192 bytes.",
            ),
            Mistake(
                answers=(lambda container, number: not _bit(container, number),),
                hint="A bit of 1 means that it is in the set.",
            ),
        ),
        hints=(
            "Byte `number // 8`, and in it bit `number % 8`.",
            "`container[number // 8] >> number % 8 & 1`, as a bool.",
        ),
        why="One byte is looked at, wherever the number is; that is why bitmaps are quick to ask.",
    ),
    Exercise(
        id="07.7",
        form=NUMBER,
        accepts=(6,),
        mistakes=(
            Mistake(answers=(12_000,), hint="That would be an array of 6000 numbers, and an array has 4096 at most."),
            Mistake(
                answers=(8192,),
                hint="6000 numbers are too many for an array, that is right. But look how they lie once they are united.",
            ),
            Mistake(answers=(6000, 6016), hint="That is one of the two. The union has both the even and the odd ones."),
            Mistake(answers=(4,), hint="One run is four bytes, and the number of runs takes two more."),
        ),
        hints=("Which positions below 6000 are in neither of the two?", "All of 0 to 5999: how many runs is that?"),
        why="Even and odd together are one run, 0 to 5999: two bytes for the number of runs, and four for the run.",
    ),
    Exercise(
        id="07.8",
        form=NUMBER,
        accepts=(70,),
        mistakes=(
            Mistake(answers=(855,), hint="That is how many flights the runs hold."),
            Mistake(answers=(141,), hint="A run takes four bytes, two for its first number and two for its length."),
            Mistake(
                answers=(71,), hint="The first two bytes say how many runs there are; take them off before you divide."
            ),
        ),
        hints=("`2 + 4 * runs` is 282.", "280 bytes of runs, at 4 bytes each."),
        why="282 is `2 + 4 * 70`: on 70 of the 73 days in it flights were cancelled, and those of one day are one run.",
    ),
)
