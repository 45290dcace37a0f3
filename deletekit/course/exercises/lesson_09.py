"""Functions that learners write in lesson 09, right and wrong."""

from random import Random

from deletekit.course.exercise import Functions

_Reports = list[tuple[str, set[int]]]


def _with_empty_ones(reports: _Reports) -> dict[str, set[int]]:
    vectors: dict[str, set[int]] = {}
    for name, positions in reports:
        vectors[name] = vectors.get(name, set()) | positions
    return vectors


def _filled(reports: _Reports) -> _Reports:
    return [(name, positions) for name, positions in reports if positions]


def _in_both(reports: _Reports) -> dict[str, set[int]]:
    vectors: dict[str, set[int]] = {}
    for name, positions in reports:
        vectors[name] = vectors.get(name, positions) & positions
    return vectors


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
        by_name={
            "swapped": lambda there, read, new: new if there == read else there,
            "always_new": lambda there, read, new: new,
            "the_other_way": lambda there, read, new: there if there == read else new,
            "returns_read": lambda there, read, new: new if there == read else read,
            "whether": lambda there, read, new: there == read,
        },
    ),
    "09.5": Functions(
        cases=[
            ([("A", {0, 2}), ("B", {5, 9}), ("A", {7}), ("C", set())],),
            ([("A", {1}), ("A", {1, 2}), ("A", set())],),
            ([("A", {0, 1, 2}), ("A", {2, 3})],),
            ([("C", set())],),
            ([("A", set()), ("A", {4})],),
        ],
        inputs=_drawn_reports,
        by_name={
            "merged": lambda reports: _with_empty_ones(_filled(reports)),
            "with_empty_ones": _with_empty_ones,
            "last_wins": dict,
            "last_full_wins": lambda reports: dict(_filled(reports)),
            "first_wins": lambda reports: dict(reversed(_filled(reports))),
            "in_both": _in_both,
        },
    ),
}
