"""Exercises of 04_equality_deletes."""

from __future__ import annotations

from deletekit.course.answer_values import IDS, NUMBER, function
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

_SEQUENCES = ((3, 1), (3, 2), (3, 3), (3, 4), (1, 1))

EXERCISES = (
    Exercise(
        id="04.1",
        form=NUMBER,
        accepts=(0,),
        mistakes=(
            Mistake(
                answers=(1,),
                hint="To note values one need not know where they are, nor whether they are there at all.",
            ),
            Mistake(
                answers=(4, 2), hint="These are rows. The question is how many data files must be opened for writing."
            ),
        ),
        hints=("What does the delete file hold: places, or values?", "Nothing about any data file is in it."),
        why="An equality delete is written blind: it holds values, and whoever reads must find the rows.",
    ),
    Exercise(
        id="04.2",
        form=NUMBER,
        accepts=(3,),
        mistakes=(
            Mistake(answers=(50331648,), hint="The other way round: the lowest byte comes first."),
            Mistake(answers=(1,), hint="That is the lower bound."),
            Mistake(answers=(4,), hint="Not the upper bound of the table: that of the values in the delete file."),
        ),
        hints=(
            "base64 of four bytes; the integer in them is little-endian.",
            '`int.from_bytes(base64.b64decode("AwAAAA=="), "little")`',
        ),
        why="The bounds are 1 and 3: with them a reader sees which data files the delete cannot concern.",
    ),
    Exercise(
        id="04.3",
        form=function(*_SEQUENCES),
        accepts=(lambda delete, data: data < delete,),
        mistakes=(
            Mistake(
                answers=(lambda delete, data: data <= delete,),
                hint="With <= the new row of an update would fall to the delete of its own commit.",
            ),
            Mistake(
                answers=(lambda delete, data: data > delete, lambda delete, data: data >= delete),
                hint="A delete looks back, not forward: it is about rows that were there before it.",
            ),
            Mistake(
                answers=(lambda delete, data: True,),
                hint="Then a deleted key could never be inserted again.",
            ),
        ),
        hints=("An update writes delete and new row with one sequence number.", "Strictly older rows are hidden."),
        why="Data file and delete compare by `<`: what was written in the same commit, or later, stays.",
    ),
    Exercise(
        id="04.4",
        form=IDS,
        accepts=({1, 2, 5, 6, 7},),
        mistakes=(
            Mistake(
                answers=({2, 6, 7},),
                hint="Rows of the delete's own commit stay: 3 < 3 is false, and 5 < 5 too.",
            ),
            Mistake(
                answers=({6},),
                hint="You went by the values alone. Which rows came after the delete?",
            ),
            Mistake(answers=({0, 3, 4},), hint="These are the hidden ones; the question is which ones are live."),
        ),
        hints=(
            "Take E1 and the three rows with id 1 first.",
            "Then E2 and the four rows with id 2; id 3 is in no delete.",
        ),
        why="Each delete hides the rows with its values whose sequence number is smaller than its own, and no other.",
    ),
    Exercise(
        id="04.5",
        form=IDS,
        accepts=({1, 2, 3},),
        mistakes=(
            Mistake(
                answers=({1, 2},),
                hint="All values of a row of the delete file must match at once: id 3 has no category either, but another id.",
            ),
            Mistake(
                answers=({1, 2, 3, 4},),
                hint="In a filter NULL = NULL is unknown. An equality delete is not a filter: NULL matches NULL.",
            ),
            Mistake(answers=({4},), hint="That is the row that goes; which ones stay?"),
        ),
        hints=("The columns of one row are joined by AND.", "Only Polar has id 4 and no category."),
        why="(4, NULL) matches rows with id 4 whose category is NULL: columns are joined by AND, and NULL equals NULL.",
    ),
    Exercise(
        id="04.6",
        form=IDS,
        accepts=({1, 2},),
        mistakes=(
            Mistake(
                answers=({1, 2, 3, 4},),
                hint="NULL in an equality delete does match: it hides every row whose category is NULL.",
            ),
            Mistake(answers=({3, 4},), hint="These are hidden; which ones stay?"),
            Mistake(answers=({1, 2, 3}, {1, 2, 4}), hint="Two rows have no category, and one NULL matches both."),
        ),
        hints=("Which rows have no category?", "Grizzly and Polar have none."),
        why="One value, NULL, hides two rows: a single line of an equality delete may hide any number of them.",
    ),
    Exercise(
        id="04.7",
        form=NUMBER,
        accepts=(1,),
        mistakes=(
            Mistake(
                answers=(0,),
                hint="The delete file knows columns by their field id, and renaming a column leaves that as it is.",
            ),
            Mistake(answers=(2,), hint="The number of deleted rows has not changed by the new name."),
        ),
        hints=("What is in equality_ids: names or numbers?", "Field ids never change."),
        why="equality_ids holds field ids. The row stays hidden whatever its columns are called later.",
    ),
)
