"""What the functions that learners write in lesson 05 are tried with."""

from random import Random

from deletekit.course.exercise import Functions

_ROWS = ["a", "b", "c", "d"]
_Deletes = list[tuple[str, int]]


def _file(random: Random) -> tuple[list[str], str, _Deletes]:
    path = random.choice(("data/ab", "x/ab", "ba"))
    others = (path.upper(), f"old/{path}", f"{path}b", path[:-1], "ab", "data/b")
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
    )
}
