"""Exercises of 11_compaction."""

from __future__ import annotations

from deletekit.course.answer_values import IDS, MAPPING, NUMBER, TEXT, function
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

_SCOPES: tuple[tuple[int, list[int]], ...] = (
    (8, [8]),
    (8, [8, 9]),
    (8, [7, 8]),
    (8, []),
    (3, [1, 2]),
    (2, [5, 2]),
    (7, [6]),
)

EXERCISES = (
    Exercise(
        id="11.1",
        form=MAPPING,
        accepts=({"data": 1, "deletes": 1},),
        mistakes=(
            Mistake(
                answers=({"data": 1, "deletes": 0},),
                hint="Two of the three name the data file that they are about. How should compaction know that nothing else needs the third?",
            ),
            Mistake(
                answers=({"data": 1, "deletes": 3},),
                hint="The new file has no deleted row, and a vector is about one data file: what becomes of it when that file goes?",
            ),
            Mistake(
                answers=({"data": 7, "deletes": 3}, {"data": 7, "deletes": 0}, {"data": 7, "deletes": 1}),
                hint="The old files stay on the disk, for older snapshots. Live means: in the newest snapshot.",
            ),
            Mistake(
                answers=({"data": 1, "deletes": 2},),
                hint="Vectors or equality delete: which of them know the file that they are about?",
            ),
        ),
        hints=(
            "Which deletes name a data file, and which only values?",
            "Both vectors go with their files; the equality delete stays.",
        ),
        why="Vectors leave with their data files. An equality delete names no file, so compaction leaves it where it is.",
    ),
    Exercise(
        id="11.2",
        form=NUMBER,
        accepts=(8,),
        mistakes=(
            Mistake(
                answers=(9,),
                hint="That is the commit which added the file. How old are the rows in it?",
            ),
            Mistake(
                answers=(6, 1),
                hint="Then the equality delete, 8, would apply to the new file again: correct, but work for nothing. Which deletes have been applied already?",
            ),
            Mistake(answers=(7,), hint="The equality delete of commit 8 was applied, too, when the files were read."),
        ),
        hints=(
            "The rows are as they were in the snapshot that compaction has read.",
            "The newest snapshot before the compaction.",
        ),
        why="8: everything up to the snapshot that was read has been applied, and what comes later still applies.",
    ),
    Exercise(
        id="11.3",
        form=NUMBER,
        accepts=(59,),
        mistakes=(
            Mistake(
                answers=(60,),
                hint="That would be a deleted row come back. Compare the number of the delete with that of the new file.",
            ),
            Mistake(
                answers=(50, 0),
                hint="Neither of the two loses: the compaction keeps the rows, and the delete hides one of them.",
            ),
        ),
        hints=(
            "The new file has the number of the snapshot that was read: 6.",
            "An equality delete applies to data files with a smaller number: 6 < 7.",
        ),
        why="The new file has the number 6, so the delete with 7 applies to it: one row is hidden, and 59 are left.",
    ),
    Exercise(
        id="11.4",
        form=function(*_SCOPES),
        accepts=(
            lambda delete, data: not any(number < delete for number in data),
            lambda delete, data: all(number >= delete for number in data),
        ),
        mistakes=(
            Mistake(
                answers=(lambda delete, data: not any(number <= delete for number in data),),
                hint="`<=` is the rule of position deletes. Files with the delete's own number are not hidden by an equality delete.",
            ),
            Mistake(
                answers=(
                    lambda delete, data: not data or max(data) >= delete,
                    lambda delete, data: any(number >= delete for number in data),
                    lambda delete, data: not all(number < delete for number in data),
                ),
                hint="One newer file is not enough: as long as a single older file is there, the delete has work to do.",
            ),
            Mistake(
                answers=(lambda delete, data: min(data) >= delete,),
                hint="What if there is no data file in the scope at all?",
            ),
            Mistake(
                answers=(lambda delete, data: any(number < delete for number in data),),
                hint="That says when it still applies; dangling is the opposite.",
            ),
        ),
        hints=(
            "When does an equality delete apply to a data file? It dangles when it applies to none.",
            "`all(number >= delete for number in data)`; for an empty list that is true.",
        ),
        why="It dangles when no data file in its scope has a smaller number, and so also when there is none.",
    ),
    Exercise(
        id="11.5",
        form=NUMBER,
        accepts=(0,),
        mistakes=(
            Mistake(
                answers=(1,),
                hint="V1 may go, but a file goes as a whole. What else lies in the file of V1?",
            ),
            Mistake(
                answers=(2,), hint="There are two Puffin files, and each has a vector that the last snapshot needs."
            ),
        ),
        hints=(
            "In which files are the vectors that are live in the last snapshot?",
            "V2 is live, and it lies in one file with V1.",
        ),
        why="V2 is live and shares the file with V1: whoever goes by removed entries alone would destroy it.",
    ),
    Exercise(
        id="11.6",
        form=TEXT,
        accepts=("expire",),
        mistakes=(
            Mistake(
                answers=("delete",), hint="A vector is a note beside the data file; the file itself is not touched."
            ),
            Mistake(
                answers=("compact",),
                hint="That writes a new file without the row. Who removes the old one, and who still leads to it?",
            ),
        ),
        hints=(
            "The first snapshot can still be read. What does it need for that?",
            "The old data file goes with the last snapshot that leads to it.",
        ),
        why="The old file stays as long as a snapshot leads to it. Only when that expires the file is removed.",
    ),
    Exercise(
        id="11.7",
        form=TEXT,
        accepts=("manifest", "manifests"),
        mistakes=(
            Mistake(
                answers=("data file", "data files"),
                hint="No Parquet file has it any more: look at the last line of the output above.",
            ),
            Mistake(
                answers=("manifest list", "manifest lists"),
                hint="An Avro file is right. A manifest list has bounds of partition values only, and this table has no partitions.",
            ),
            Mistake(
                answers=("table metadata", "Puffin file", "puffin file"),
                hint="It is an Avro file: look at the last line of the output above.",
            ),
        ),
        hints=(
            "Which files are Avro files?",
            "Who stores lower and upper bounds of the columns of each data file?",
        ),
        why="A manifest stores bounds, which are values of rows, of removed files too until it is written anew.",
    ),
    Exercise(
        id="11.8",
        form=NUMBER,
        accepts=(2,),
        mistakes=(
            Mistake(answers=(1,), hint="What does an equality delete file hold?"),
            Mistake(answers=(0,), hint="The delete changes no data file; and what does it write down itself?"),
        ),
        hints=(
            "The data file still has the row. Which other Parquet file is there?",
            "An equality delete on the address holds the address.",
        ),
        why="The data file has it, and the equality delete file holds it as its key: a copy more than before.",
    ),
    Exercise(
        id="11.9",
        form=IDS,
        accepts=({7},),
        mistakes=(
            Mistake(
                answers=({7, 8},),
                hint="The delete of id 8 has the number 8, which is not below 8: it stays.",
            ),
            Mistake(
                answers=(set(),),
                hint="The new file holds both rows, and its number is 6: it needs both deletes.",
            ),
            Mistake(answers=({8},), hint="Which of the two deletes is older?"),
        ),
        hints=(
            "Rows 7 and 8 are in the new file. Which delete is dropped?",
            "The one with the number 7.",
        ),
        why="The delete with 7 was needed by the file with 6. Without it id 7 is live again, and nothing says so.",
    ),
)
