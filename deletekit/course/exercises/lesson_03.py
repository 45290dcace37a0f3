"""Exercises of 03_choose_a_mode."""

from __future__ import annotations

from deletekit.course.answer_values import MAPPING, NAMES, NUMBER
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

_DATA, _DELETES = "data", "deletes"

EXERCISES = (
    Exercise(
        id="03.1",
        form=MAPPING,
        accepts=({_DATA: 1, _DELETES: 0},),
        mistakes=(
            Mistake(
                answers=({_DATA: 0, _DELETES: 1},),
                hint="That is merge-on-read. This table has no `write.delete.mode`: what is the default of the property?",
            ),
            Mistake(
                answers=({_DATA: 1, _DELETES: 1},),
                hint="Either the rows that stay are written again, or the deleted ones are noted; never both for one file.",
            ),
            Mistake(
                answers=({_DATA: 0, _DELETES: 0},),
                hint="One row of four goes, so something has to be written about it.",
            ),
        ),
        hints=("The default of `write.delete.mode` is copy-on-write.", "What does copy-on-write write?"),
        why="Without the property a table is copy-on-write, in every format version: a new data file, and no deletion vector.",
    ),
    Exercise(
        id="03.2",
        form=NAMES,
        accepts=({"equality-delete"},),
        mistakes=(
            Mistake(
                answers=({"position-delete"}, {"deletion-vector"}, {"position-delete", "equality-delete"}),
                hint="To know a position one must find the row, and so read.",
            ),
            Mistake(answers=({"copy-on-write"},), hint="Copy-on-write reads every row that it copies."),
            Mistake(
                answers=({"merge-on-read"},),
                hint="That is the name of the whole family; one of them reads, one does not.",
            ),
        ),
        hints=("Which mode holds values instead of places?", "Lesson 04 is about it."),
        why="Only equality deletes are written blind; all other modes read before they write.",
    ),
    Exercise(
        id="03.3",
        form=MAPPING,
        accepts=(
            {
                "default": "the table is copy-on-write",
                "whole file": "the file itself left the table",
                "overridden": "the call asked for another mode",
            },
            {"default": 1, "whole file": 2, "overridden": 3},
        ),
        mistakes=(
            Mistake(
                answers=({"default": 3, "whole file": 2, "overridden": 1},),
                hint="Nobody overrode anything in the first table: it only has no property.",
            ),
            Mistake(
                answers=({"default": 1, "whole file": 1, "overridden": 3},),
                hint="The second table is merge-on-read. Which rows of its first file were deleted?",
            ),
            Mistake(
                answers=({"default": 2, "whole file": 1, "overridden": 3},),
                hint="Look at the operations: one of the two only removed a file and wrote nothing.",
            ),
        ),
        hints=(
            "Look at the property, at the operation, and at what the call said.",
            "1 is the reason of a table without the property.",
        ),
        why="The three usual reasons for a deletion vector that does not appear: the default, a whole file, another mode.",
    ),
    Exercise(
        id="03.4",
        form=NUMBER,
        accepts=(20,),
        mistakes=(
            Mistake(
                answers=(1,),
                hint="The deletes hit rows in every file, one in each.",
            ),
            Mistake(
                answers=(0,), hint="Copy-on-write cannot note anything: each file with a deleted row is written anew."
            ),
            Mistake(answers=(1980, 2000), hint="These are rows; the question is how many data files are rewritten."),
        ),
        hints=(
            "In how many of the 20 files is a row deleted?",
            "One row of each file has an id that can be divided by 100.",
        ),
        why="One row in each of 20 files: all 20 are rewritten. It is the spread of the deletes that makes copy-on-write dear.",
    ),
)
