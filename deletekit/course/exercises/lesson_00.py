"""Exercises of 00_start_here."""

from __future__ import annotations

from deletekit.course.answer_values import IDS, NUMBER
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

EXERCISES = (
    Exercise(
        id="00.1",
        form=NUMBER,
        accepts=(2,),
        mistakes=(
            Mistake(
                answers=(4,),
                hint="All four rows are still in the data file, but a reader does not return the two that are deleted.",
            ),
            Mistake(answers=(1,), hint="`id in (1, 3)` names two ids, 1 and 3; it is not the range from 1 to 3."),
            Mistake(answers=(0,), hint="Only the rows for which the filter is true go; ids 2 and 4 stay."),
        ),
        hints=("How many of the four ids are in the list of the filter?", "Four rows, less those with id 1 and id 3."),
        why="Ids 1 and 3 are deleted, ids 2 and 4 are left.",
    ),
    Exercise(
        id="00.2",
        form=IDS,
        accepts=({2, 4},),
        mistakes=(
            Mistake(answers=({1, 3},), hint="These are the ids that the delete asked for; which ones are left?"),
            Mistake(answers=({4},), hint="`id in (1, 3)` is a list of two values and spares id 2."),
            Mistake(answers=({1, 2, 3, 4},), hint="That is the table before the delete; scan it after."),
        ),
        hints=(
            "Run `show(dk.scan(users).to_arrow())` and read the column `id`.",
            "A set is written in braces: {1, 2}.",
        ),
        why="A scan returns the live rows only.",
    ),
    Exercise(
        id="00.3",
        form=NUMBER,
        accepts=(4,),
        mistakes=(
            Mistake(
                answers=(2,),
                hint="The scan returns two rows, but the question is about the data file, which nobody has touched.",
            ),
            Mistake(answers=(0,), hint="Deleting rows of a file does not empty the file."),
        ),
        hints=("Look at the ids in the data file, which stand above.", "An Iceberg data file is never changed."),
        why="The file still has all four rows; a second, small file says which of them no longer count.",
    ),
)
