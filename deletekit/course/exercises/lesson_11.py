"""Functions that learners write in lesson 11, right and wrong."""

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
        by_name={
            "none_older": lambda delete, data: not any(number < delete for number in data),
            "none_of_same_age": lambda delete, data: not any(number <= delete for number in data),
            "newest_not_older": lambda delete, data: not data or max(data) >= delete,
            "any_not_older": lambda delete, data: any(number >= delete for number in data),
            "not_all_older": lambda delete, data: not all(number < delete for number in data),
            "no_empty_scope": lambda delete, data: min(data) >= delete,
            "still_applies": lambda delete, data: any(number < delete for number in data),
        },
    )
}
