"""Exercises of 12_engines_lab."""

from __future__ import annotations

from deletekit.course.answer_values import IDS, MAPPING, NUMBER, TEXT
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

EXERCISES = (
    Exercise(
        id="12.1",
        form=TEXT,
        accepts=("position-delete", "position delete", "position deletes"),
        mistakes=(
            Mistake(
                answers=("equality-delete", "equality delete"),
                hint="Spark runs DELETE as a query: it finds the rows first. Who has found a row knows its place.",
            ),
            Mistake(
                answers=("deletion-vector", "deletion vector"),
                hint="That is merge-on-read in format version 3. Which version has this table?",
            ),
            Mistake(
                answers=("copy-on-write", "data files", "new data files"),
                hint="That is the default, but this table asks for another mode.",
            ),
        ),
        hints=(
            "Merge-on-read means one thing in version 2 and another one in version 3.",
            "Spark finds the rows, so it writes positions; and version 2 has no vectors.",
        ),
        why="Merge-on-read in version 2 is a position delete file: Spark finds the rows, and notes where they are.",
    ),
    Exercise(
        id="12.2",
        form=IDS,
        accepts=({2},),
        mistakes=(
            Mistake(
                answers=({2, 4},),
                hint="That would be a reader that passes equality deletes over. Every reader must apply every delete of its snapshot.",
            ),
            Mistake(
                answers=({1, 2, 3},),
                hint="Spark's own delete is still there: a second delete does not undo the first one.",
            ),
            Mistake(answers=({4},), hint="Id 4 is the one that goes now."),
        ),
        hints=(
            "Two deletes apply: Spark's of ids 1 and 3, and ours of id 4.",
            "Of 1, 2, 3 and 4 a single one is left.",
        ),
        why="Spark reads both kinds of deletes, whoever wrote them; it only never writes equality deletes itself.",
    ),
    Exercise(
        id="12.3",
        form=NUMBER,
        accepts=(2,),
        mistakes=(
            Mistake(
                answers=(3,),
                hint="Three rows are hidden, but one of them by its value. Is there a position for it anywhere?",
            ),
            Mistake(answers=(1,), hint="One file, but two positions in it: each of them is a row here."),
            Mistake(answers=(4,), hint="Live rows have no position in a delete file."),
        ),
        hints=(
            "Which of the two delete files holds positions?",
            "Ids 1 and 3 were deleted by position.",
        ),
        why="Ids 1 and 3 have positions. An equality delete has none, so whoever counts here misses it.",
    ),
    Exercise(
        id="12.4",
        form=MAPPING,
        accepts=({"one row": "WriteDelta", "whole file": "DeleteFromTable", "no property": "ReplaceData"},),
        mistakes=(
            Mistake(
                answers=({"one row": "WriteDelta", "whole file": "WriteDelta", "no property": "ReplaceData"},),
                hint="ids 1 to 4 are all that is in the first file. What has to be written when a whole file goes?",
            ),
            Mistake(
                answers=({"one row": "WriteDelta", "whole file": "DeleteFromTable", "no property": "WriteDelta"},),
                hint="What is the default of `write.delete.mode`?",
            ),
            Mistake(
                answers=({"one row": "ReplaceData", "whole file": "DeleteFromTable", "no property": "WriteDelta"},),
                hint="It is the other way round: which of the two tables asks for merge-on-read?",
            ),
            Mistake(
                answers=(
                    {"one row": "DeleteFromTable", "whole file": "DeleteFromTable", "no property": "ReplaceData"},
                ),
                hint="Metadata alone can drop whole files. One row of a file needs more.",
            ),
        ),
        hints=(
            "A whole file needs no rewriting, whatever the mode is.",
            "The default is copy-on-write, which replaces data files.",
        ),
        why="A whole file goes by metadata alone; else merge-on-read writes a delta, and copy-on-write replaces data.",
    ),
    Exercise(
        id="12.5",
        form=MAPPING,
        accepts=({"data": 1, "deletes": 0},),
        mistakes=(
            Mistake(
                answers=({"data": 1, "deletes": 1},),
                hint="That is merge-on-read. Which property is for UPDATE, and does this table have it?",
            ),
            Mistake(
                answers=({"data": 0, "deletes": 1},),
                hint="An update also writes the changed row.",
            ),
        ),
        hints=(
            "DELETE, UPDATE and MERGE have a property each.",
            "`write.update.mode` is not set, and its default is copy-on-write.",
        ),
        why="`write.delete.mode` is for DELETE only. UPDATE goes by `write.update.mode`, which is copy-on-write here.",
    ),
    Exercise(
        id="12.6",
        form=IDS,
        accepts=({0, 2},),
        mistakes=(
            Mistake(
                answers=({2},),
                hint="Where there is a vector, readers ignore position delete files of that data file. What would become of id 1?",
            ),
            Mistake(answers=({1, 3}, {3}), hint="These are ids. Positions begin with 0."),
            Mistake(answers=({0},), hint="That was deleted before the upgrade. Where does the second delete go?"),
        ),
        hints=(
            "A new vector takes in what older deletes of the file say.",
            "The position of id 1 and that of id 3.",
        ),
        why="The vector holds the old position, 0, and the new one, 2, because readers look at nothing but the vector.",
    ),
    Exercise(
        id="12.7",
        form=NUMBER,
        accepts=(1,),
        mistakes=(
            Mistake(
                answers=(4,),
                hint="That would be the number of a new row. A merge that updates a row keeps its number.",
            ),
            Mistake(answers=(2,), hint="2 is its id. Row numbers begin with 0."),
            Mistake(answers=(0,), hint="Row 0 of the file was id 1."),
        ),
        hints=(
            "The first commit after the upgrade gives numbers to all files that are there, from 0.",
            "Row 1 of the first file has the number 0 + 1.",
        ),
        why="The first commit in version 3 numbers the rows that are there, and the merge writes the number with the row.",
    ),
    Exercise(
        id="12.8",
        form=TEXT,
        accepts=("D2",),
        mistakes=(
            Mistake(
                answers=("D1",),
                hint="D1 has the vector V3 now, in a file of its own. Which vector lay beside V1?",
            ),
            Mistake(answers=("D3",), hint="D3 has no vector at all, so nothing that it needs can be missing."),
        ),
        hints=(
            "Which file did the entry of V1 name, and what else lies in it?",
            "V2 lay in the same file, and V2 is the vector of D2.",
        ),
        why="V1 and V2 lay in one file. It was removed for V1, and with it went V2, which D2 needs.",
    ),
)
