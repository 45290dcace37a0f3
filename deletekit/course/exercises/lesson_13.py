"""What the functions that learners write in lesson 13 are tried with."""

from collections.abc import Sequence
from random import Random

from deletekit.course.exercise import Functions

_Changes = Sequence[tuple[str, int]]


def _checkpoint(random: Random) -> tuple[_Changes]:
    return ([(random.choice("++-"), random.randrange(4)) for _ in range(random.randrange(9))],)


FUNCTIONS = {
    "13.2": Functions(
        cases=[
            ([("+", 5), ("+", 5), ("+", 1), ("-", 3)],),
            ([("-", 2), ("+", 2), ("+", 2)],),
            ([("+", 1), ("-", 1)],),
            ([("+", 7), ("-", 7), ("+", 7)],),
            ([("+", 1), ("+", 2), ("-", 1)],),
            ([],),
        ],
        inputs=_checkpoint,
    )
}
