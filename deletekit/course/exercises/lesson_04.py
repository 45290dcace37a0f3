"""What the functions that learners write in lesson 04 are tried with."""

from random import Random

from deletekit.course.exercise import Functions


def _numbers(random: Random) -> tuple[int, int]:
    delete = random.randrange(1, random.choice((4, 13, 1000)))
    return delete, max(0, random.choice((delete - 1, delete, delete + 1, random.randrange(1000), 0)))


FUNCTIONS = {
    "04.3": Functions(
        cases=[(3, 1), (3, 2), (3, 3), (3, 4), (9, 1)],
        inputs=_numbers,
    )
}
