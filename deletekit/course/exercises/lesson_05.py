"""Exercises of 05_position_deletes_v2."""

from __future__ import annotations

from deletekit.course.answer_values import MAPPING, NUMBER, SEQUENCE, function
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

_ROWS = ["a", "b", "c", "d"]
_CASES = (
    (_ROWS, "file_1", [("file_1", 0), ("file_1", 2)]),
    (_ROWS, "file_1", [("file_2", 0), ("file_1", 3), ("file_1", 3)]),
    (_ROWS, "file_3", [("file_1", 0)]),
    (_ROWS, "file_1", [("file_1", 9)]),
)


def _live(rows: list[str], path: str, deletes: list[tuple[str, int]]) -> list[str]:
    gone = {position for file, position in deletes if file == path}
    return [row for position, row in enumerate(rows) if position not in gone]


def _any_file(rows: list[str], path: str, deletes: list[tuple[str, int]]) -> list[str]:
    gone = {position for _, position in deletes}
    return [row for position, row in enumerate(rows) if position not in gone]


def _from_one(rows: list[str], path: str, deletes: list[tuple[str, int]]) -> list[str]:
    return _live(rows, path, [(file, position - 1) for file, position in deletes])


def _one_by_one(rows: list[str], path: str, deletes: list[tuple[str, int]]) -> list[str]:
    left = list(rows)
    for file, position in deletes:
        if file == path and position < len(left):
            del left[position]
    return left


EXERCISES = (
    Exercise(
        id="05.1",
        form=NUMBER,
        accepts=(150,),
        mistakes=(
            Mistake(answers=(151,), hint="Positions begin at 0."),
            Mistake(
                answers=(123,), hint="123 is the value of the column id. A position says which row of the file it is."
            ),
        ),
        hints=("How many rows stand before Alice in the file?", "The first row has position 0."),
        why="150 rows stand before it, so its position is 150; that its id is 123 does not matter.",
    ),
    Exercise(
        id="05.2",
        form=SEQUENCE,
        accepts=([("a.parquet", 35), ("a.parquet", 36), ("b.parquet", 7), ("b.parquet", 9)],),
        mistakes=(
            Mistake(
                answers=([("b.parquet", 7), ("b.parquet", 9), ("a.parquet", 35), ("a.parquet", 36)],),
                hint="By path first, and then by position.",
            ),
            Mistake(
                answers=(
                    [("a.parquet", 35), ("a.parquet", 36), ("a.parquet", 36), ("b.parquet", 7), ("b.parquet", 9)],
                ),
                hint="A row can be deleted only once: each pair is written once.",
            ),
            Mistake(
                answers=([("a.parquet", 36), ("a.parquet", 35), ("b.parquet", 7), ("b.parquet", 9)],),
                hint="Within one path the positions ascend.",
            ),
        ),
        hints=("`sorted` compares pairs as it should here.", "`sorted(set(found))`"),
        why="Sorted by file_path and then pos, a reader can merge the file with its data files without loading all of it.",
    ),
    Exercise(
        id="05.3",
        form=MAPPING,
        accepts=({"added": 12, "total": 27, "files": 3},),
        mistakes=(
            Mistake(
                answers=({"added": 12, "total": 12, "files": 1}, {"added": 12, "total": 12, "files": 3}),
                hint="Totals count everything that is live in the snapshot, not only what its commit has added.",
            ),
            Mistake(
                answers=({"added": 27, "total": 27, "files": 3},),
                hint="`added-` counts this commit alone.",
            ),
            Mistake(
                answers=({"added": 1, "total": 3, "files": 3},),
                hint="`position-deletes` counts positions, `delete-files` counts files.",
            ),
        ),
        hints=("7, then 8, then 12 positions, a file each time.", "7 + 8 + 12"),
        why="12 positions were added in 1 file, and the snapshot has 27 in 3 files: two things that are easily mixed up.",
    ),
    Exercise(
        id="05.4",
        form=function(*_CASES),
        accepts=(_live,),
        mistakes=(
            Mistake(
                answers=(_any_file,), hint="A delete file may name several data files; take the lines of this one only."
            ),
            Mistake(answers=(_from_one,), hint="The first row of a file has position 0."),
            Mistake(
                answers=(_one_by_one,),
                hint="When a row is taken out, those behind it move up. Positions are those of the untouched file.",
            ),
        ),
        hints=(
            "Gather the positions for this path in a set first.",
            "Then keep each row whose index is not in the set.",
        ),
        why="Positions are ordinals of the file as it was written, so all of them are looked at before any row goes.",
    ),
    Exercise(
        id="05.5",
        form=MAPPING,
        accepts=({"position": True, "equality": False},),
        mistakes=(
            Mistake(
                answers=({"position": False, "equality": False},),
                hint="A position delete names one row of one file that is there. Why should it spare a row of its own commit?",
            ),
            Mistake(
                answers=({"position": True, "equality": True},),
                hint="An equality delete must not hide the new row of an update, which comes in the same commit.",
            ),
            Mistake(answers=({"position": False, "equality": True},), hint="Just the other way round."),
        ),
        hints=(
            "One of the two kinds compares by <, the other one by <=.",
            "Positions cannot mean a wrong row; values can.",
        ),
        why="Position deletes apply where data <= delete, equality deletes where data < delete.",
    ),
)
