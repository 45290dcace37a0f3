"""What the functions that learners write in lesson 11 are tried with."""

from random import Random

from deletekit.course.exercise import Functions


def _scope(random: Random) -> tuple[int, list[int]]:
    delete = random.randrange(1, 13)
    newer = [delete + random.randrange(4) for _ in range(random.randrange(6))]
    older = [random.randrange(delete) for _ in range(random.choice((0, 1, 1, 5)))]
    return delete, random.sample([*newer, *older], len(newer) + len(older))


FUNCTIONS = {
    "11.4": Functions(
        cases=[(8, [8]), (8, [8, 9]), (8, [7, 8]), (8, []), (3, [1, 2]), (2, [5, 2]), (7, [6])],
        inputs=_scope,
    )
}
