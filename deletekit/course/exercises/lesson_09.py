"""What the functions that learners write in lesson 09 are tried with."""

from random import Random

from deletekit.course.exercise import Functions

_Reports = list[tuple[str, set[int]]]


def _drawn_reports(random: Random) -> tuple[_Reports]:
    def positions() -> set[int]:
        return set(random.choices(range(6), k=random.randrange(4)))

    return ([(random.choice(("A", "B", "a", "AB")), positions()) for _ in range(random.randrange(7))],)


FUNCTIONS = {
    "09.5": Functions(
        cases=[
            ([("A", {0, 2}), ("B", {5, 9}), ("A", {7}), ("C", set())],),
            ([("A", {1}), ("A", {1, 2}), ("A", set())],),
            ([("A", set()), ("A", {4})],),
        ],
        inputs=_drawn_reports,
    ),
}
