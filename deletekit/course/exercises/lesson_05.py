"""Functions that learners write in lesson 05, right and wrong."""

from random import Random

from deletekit.course.exercise import Functions

_ROWS = ["a", "b", "c", "d"]
_Deletes = list[tuple[str, int]]


def _without(rows: list[str], positions: set[int]) -> list[str]:
    return [row for position, row in enumerate(rows) if position not in positions]


def _live_rows(rows: list[str], path: str, deletes: _Deletes) -> list[str]:
    return _without(rows, {position for file, position in deletes if file == path})


def _of_any_file(rows: list[str], path: str, deletes: _Deletes) -> list[str]:
    return _without(rows, {position for _, position in deletes})


def _counted_from_one(rows: list[str], path: str, deletes: _Deletes) -> list[str]:
    return _without(rows, {position - 1 for file, position in deletes if file == path})


def _removed_one_by_one(rows: list[str], path: str, deletes: _Deletes) -> list[str]:
    left = list(rows)
    for file, position in deletes:
        if file == path and position < len(left):
            del left[position]
    return left


def _file(random: Random) -> tuple[list[str], str, _Deletes]:
    path = random.choice(("data/a", "x/a", "b"))
    others = (path.upper(), f"old/{path}", f"{path}b", "data/b", "a")
    rows = random.choices("abc", k=random.randrange(7))
    deletes = [(random.choice((path, path, *others)), random.randrange(8)) for _ in range(random.randrange(7))]
    return rows, path, deletes


FUNCTIONS = {
    "05.4": Functions(
        cases=[
            (_ROWS, "file_1", [("file_1", 0), ("file_1", 2)]),
            (_ROWS, "file_1", [("file_2", 0), ("file_1", 3), ("file_1", 3)]),
            (_ROWS, "file_3", [("file_1", 0)]),
            (_ROWS, "file_1", [("file_1", 9)]),
        ],
        inputs=_file,
        by_name={
            "live_rows": _live_rows,
            "of_any_file": _of_any_file,
            "counted_from_one": _counted_from_one,
            "removed_one_by_one": _removed_one_by_one,
        },
    )
}
