"""Functions that learners write in lesson 13, right and wrong."""

from collections.abc import Sequence
from random import Random

from deletekit.course.exercise import Functions, versions

_Changes = Sequence[tuple[str, int]]


def _deletes_of(version: str, changes: _Changes) -> dict[str, set[int]]:
    """Write as the exercise asks for, or with one mistake."""
    place: dict[int, int] = {}
    rows = 0
    equality: set[int] = set()
    positions: set[int] = set()
    for number, (change, key) in enumerate(changes):
        own = number if version == "counts_changes" else rows
        if key in place:
            positions.add(own if version == "hides_itself" and change == "+" else place.pop(key))
        elif change == "-" if version == "no_upsert" else version != "positions_only":
            equality.add(key)
        if change == "+":
            place[key] = own
            rows += 1
    return {"equality": equality, "positions": positions}


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
        by_name=versions(_deletes_of, "writer", "no_upsert", "positions_only", "counts_changes", "hides_itself"),
    )
}
