"""What the functions that learners write in lesson 09 are tried with."""

from random import Random

from deletekit.course.exercise import Functions

_Reports = list[tuple[str, set[int]]]


def _locations(random: Random) -> tuple[str, str, str]:
    there, other, new = random.choices(("v1", "V1", "v2", "v10", "v20"), k=3)
    return there, random.choice((there, other)), new


def _drawn_reports(random: Random) -> tuple[_Reports]:
    def positions() -> set[int]:
        return set(random.choices(range(6), k=random.randrange(4)))

    return ([(random.choice(("A", "B", "a", "AB")), positions()) for _ in range(random.randrange(7))],)


FUNCTIONS = {
    "09.2": Functions(
        cases=[("v1", "v1", "v2"), ("v2", "v1", "v3"), ("v5", "v4", "v5"), ("v7", "v7", "v8")],
        inputs=_locations,
    ),
    "09.5": Functions(
        cases=[
            ([("A", {0, 2}), ("B", {5, 9}), ("A", {7}), ("C", set())],),
            ([("A", {1}), ("A", {1, 2}), ("A", set())],),
            ([("A", set()), ("A", {4})],),
        ],
        inputs=_drawn_reports,
    ),
}
