"""Exercises of 10_time_travel_and_lineage."""

from __future__ import annotations

from deletekit.course.answer_values import IDS, MAPPING, NAMES, NUMBER, TEXT
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

EXERCISES = (
    Exercise(
        id="10.1",
        form=NUMBER,
        accepts=(4,),
        mistakes=(
            Mistake(
                answers=(2,),
                hint="These are the rows of S2. Does a reader of S1 ever come across the vector that S2 brought?",
            ),
            Mistake(
                answers=(0,),
                hint="The older snapshot is still there: a commit adds a snapshot and removes none.",
            ),
        ),
        hints=(
            "What does a reader of S1 open first, and when was that written?",
            "The manifest list of S1 names D1 and no delete.",
        ),
        why="S1 has a manifest list of its own, written before the delete: all four rows are in it.",
    ),
    Exercise(
        id="10.2",
        form=TEXT,
        accepts=("S4",),
        mistakes=(
            Mistake(
                answers=("S1",),
                hint="Here id 3 is there for the first time. It has to be away before it can come back.",
            ),
            Mistake(answers=("S2",), hint="Here id 3 goes. In which later snapshot is it there again?"),
            Mistake(answers=("S3",), hint="This one brought the new user, id 5. Is id 3 in it?"),
        ),
        hints=(
            "Read each of the four snapshots and look for id 3.",
            '`dk.scan(users, "id = 3", snapshot_id=names.snapshot_id("S2")).count()` is 0: there it is away.',
        ),
        why="S1 has id 3, S2 and S3 have not, S4 has it again. That is how one finds the commit which changed a row.",
    ),
    Exercise(
        id="10.3",
        form=MAPPING,
        accepts=({"tag": 4, "branch": 5},),
        mistakes=(
            Mistake(
                answers=({"tag": 5, "branch": 5},),
                hint="A tag is for reading what was there then. Which columns did the table have when its snapshot was made?",
            ),
            Mistake(
                answers=({"tag": 4, "branch": 4},),
                hint="A branch is for going on. The next commit on it will write rows of the present schema.",
            ),
            Mistake(
                answers=({"tag": 5, "branch": 4},),
                hint="It is the other way round: which of the two goes on, and which stays as it was?",
            ),
        ),
        hints=(
            "A table has one present schema, and each snapshot remembers the id of its own.",
            "A tag is read with the schema of its snapshot, a branch with the present one.",
        ),
        why="A tag is read as it was, with four columns; the head of a branch with the present schema, and city is NULL.",
    ),
    Exercise(
        id="10.4",
        form=NUMBER,
        accepts=(3,),
        mistakes=(
            Mistake(
                answers=(4,),
                hint="That is what main has now. The question is what a reader saw at that time.",
            ),
            Mistake(
                answers=(0,),
                hint="A rollback removes no snapshot: S5 is still in the table, and the branch audit points to it.",
            ),
            Mistake(
                answers=(5,),
                hint="No snapshot of this table has five rows: count those that were published.",
            ),
        ),
        hints=(
            "Who remembers what was current when?",
            "The snapshot log of the table metadata has the publication too; S5 has three rows.",
        ),
        why="By time means what was current on main at that time. The snapshot log knows it, and a rollback adds to the log.",
    ),
    Exercise(
        id="10.5",
        form=NUMBER,
        accepts=(1,),
        mistakes=(
            Mistake(
                answers=(6,),
                hint="That would be the number of a new row. Copy-on-write reads the old row, so it knows its number.",
            ),
            Mistake(answers=(2,), hint="2 is its id, a value. Row numbers began with 0 at the first row of D1."),
            Mistake(answers=(0,), hint="In D1 row 0 was id 1. Look at the output above."),
        ),
        hints=(
            "The number says which row it is, not where it lies or what it holds.",
            "An update changes values of a row; the output above has the number of that row.",
        ),
        why="An update changes a row, it does not make another one: the number 1 is written into the new file with the row.",
    ),
    Exercise(
        id="10.6",
        form=IDS,
        accepts=({2, 3, 5},),
        mistakes=(
            Mistake(
                answers=({3, 5},),
                hint="These were inserted. A changed row has a new sequence number as well.",
            ),
            Mistake(
                answers=({2, 3, 4, 5},),
                hint="Id 4 lies in a new file, but it was only copied: which sequence number has it kept?",
            ),
            Mistake(answers=({2},), hint="That is the changed one. Rows that came after S2 belong to the answer too."),
        ),
        hints=(
            "Take the rows whose `_last_updated_sequence_number` is greater than 2.",
            "Id 4 has 1; all others have more than 2.",
        ),
        why="`_last_updated_sequence_number` is that of the commit which inserted or changed the row; copying keeps it.",
    ),
    Exercise(
        id="10.7",
        form=NUMBER,
        accepts=(2,),
        mistakes=(
            Mistake(
                answers=(1,),
                hint="Cherry-pick is a new commit on main, and it adds the data file anew. When are row numbers given out?",
            ),
            Mistake(answers=(3,), hint="Count commits that add the data file of id 6: there is one on each branch."),
        ),
        hints=(
            "A row's number is `first_row_id` of its data file's entry plus its position.",
            "Each commit that adds the file gives it a `first_row_id` of its own.",
        ),
        why="Each commit that adds the file reserves new numbers for it; only a fast-forward keeps the commit, and so the numbers.",
    ),
    Exercise(
        id="10.8",
        form=NAMES,
        accepts=({"S4", "S5", "S8", "S10"},),
        mistakes=(
            Mistake(
                answers=({"S10"},),
                hint="main is not the only name of a snapshot. Which other names does the table have?",
            ),
            Mistake(
                answers=({"S5", "S8", "S10"},),
                hint="These are the heads of the branches. A tag retains its snapshot as well.",
            ),
            Mistake(
                answers=({"S4", "S10"},),
                hint="A tag retains its snapshot, and a branch at least its head, main or not.",
            ),
        ),
        hints=(
            "Which snapshots are the heads of branches, and which one has a tag?",
            "Three branches and one tag: four snapshots.",
        ),
        why="What a branch or tag points to is retained. All else may expire, and its files go if nothing else needs them.",
    ),
)
