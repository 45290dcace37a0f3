"""Exercises of 02_copy_on_write."""

from __future__ import annotations

from deletekit.course.answer_values import IDS, MAPPING, NUMBER
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

EXERCISES = (
    Exercise(
        id="02.1",
        form=NUMBER,
        accepts=(2,),
        mistakes=(
            Mistake(
                answers=(4,), hint="The new file is written without the deleted rows: they are what it is written for."
            ),
            Mistake(
                answers=(0,),
                hint="Copy-on-write has no second file to note deletes in: the rows that stay must be written again.",
            ),
            Mistake(answers=(1, 3), hint="`id in (1, 3)` takes two of the four rows."),
        ),
        hints=("Which rows must be in the new file?", "All rows of the old file but ids 1 and 3."),
        why="The two rows that stay are copied into a new file; the old one leaves the table.",
    ),
    Exercise(
        id="02.2",
        form=MAPPING,
        accepts=({"D1": 2, "D2": 1},),
        mistakes=(
            Mistake(answers=({"D1": 1, "D2": 2},), hint="Swapped: 1 is added, 2 is deleted."),
            Mistake(
                answers=({"D1": 0, "D2": 1}, {"D1": 0, "D2": 0}),
                hint="0 is existing: a file that an older snapshot added and that is still there. Is D1 still there?",
            ),
            Mistake(
                answers=({"D2": 1},),
                hint="The file that left is written down too, by the snapshot that removed it: that makes a change readable.",
            ),
        ),
        hints=("Read the table of entries above.", "0 existing, 1 added, 2 deleted."),
        why="The snapshot's manifests say that D1 was deleted and D2 added; from this one can tell what the commit did.",
    ),
    Exercise(
        id="02.3",
        form=MAPPING,
        accepts=({"some": "overwrite", "all": "delete"},),
        mistakes=(
            Mistake(
                answers=({"some": "delete", "all": "delete"},),
                hint="When rows are left over, a file is added too, and the operation is named for both.",
            ),
            Mistake(
                answers=({"some": "overwrite", "all": "overwrite"}, {"some": "delete", "all": "overwrite"}),
                hint="With every row of a file gone there is nothing to write: files are removed and none is added.",
            ),
        ),
        hints=("Look at `operation` of the two commits.", "delete: files only leave. overwrite: files leave and come."),
        why="`overwrite` says that files left and came, `delete` that files only left, which needs no reading of rows.",
    ),
    Exercise(
        id="02.4",
        form=IDS,
        accepts=({1, 3},),
        mistakes=(
            Mistake(
                answers=({0, 1},),
                hint="Counted anew, a row would become another one with every rewrite. Row ids are there to prevent that.",
            ),
            Mistake(
                answers=({4, 5},),
                hint="New ids are for new rows. These rows are old: they have only moved.",
            ),
            Mistake(answers=({2, 4},), hint="These are values of the column id; `_row_id` counts rows from 0."),
        ),
        hints=("Which row ids had ids 2 and 4 before?", "A row that is only copied keeps its row id."),
        why="A rewrite copies `_row_id` along, so a row stays the same row; the new file stores the ids in a column of its own.",
    ),
    Exercise(
        id="02.5",
        form=NUMBER,
        accepts=(999,),
        mistakes=(
            Mistake(answers=(1,), hint="One row is deleted; how many are written?"),
            Mistake(answers=(1000,), hint="The deleted row itself is not written again."),
            Mistake(answers=(0,), hint="The file cannot be changed, so what stays in it must go into a new one."),
        ),
        hints=("Print `record_count` of the file that the commit added.", "1000 rows, less one."),
        why="999 rows are written to lose one. This is write amplification, and the price of copy-on-write.",
    ),
)
