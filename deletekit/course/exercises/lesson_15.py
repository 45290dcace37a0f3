"""Exercises of 15_capstone."""

from __future__ import annotations

from deletekit.course.answer_values import MAPPING, NUMBER, TEXT
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

EXERCISES = (
    Exercise(
        id="15.1",
        form=NUMBER,
        accepts=(0,),
        mistakes=(
            Mistake(
                answers=(5,),
                hint="A table is not damaged because a row is in it. How should a check know which rows were meant to be gone?",
            ),
            Mistake(
                answers=(1, 2, 3, 4),
                hint="Something was done wrong in each of them. But what the commits have left is well-formed, all five times.",
            ),
        ),
        hints=(
            "The rules of the specification are about files and how they fit together, not about what anyone wanted.",
            "Readers read all five tables without complaint.",
        ),
        why="All five are well-formed. The wrong was in what somebody did, and a check of the files sees what there is.",
    ),
    Exercise(
        id="15.2",
        form=TEXT,
        accepts=("rolled-back",),
        mistakes=(
            Mistake(
                answers=("delete-file-removed",),
                hint="The delete file was not taken out: no commit after the delete removes one. Look at the parent of the newest snapshot.",
            ),
            Mistake(
                answers=("on-a-branch",),
                hint="The delete was on `main`, and was seen there in its own snapshot. What became of that snapshot? Follow the parents from the newest one.",
            ),
            Mistake(
                answers=("inserted-again",),
                hint="The row is row 2 of `D1`, which was there from the beginning. Nobody has written it a second time.",
            ),
            Mistake(
                answers=("vector-not-merged", "not-folded", "rewritten-as-new", "wrong-scope"),
                hint="No delete is live in this table, neither a right one nor a wrong one. Where has Monday's commit gone?",
            ),
        ),
        hints=(
            "Each snapshot names its parent. Go from the newest one back to the first.",
            "The newest snapshot has S2 for a parent. S3, the delete, is not on the way.",
        ),
        why="S5 was built on S2: main had been moved there, to get rid of S4, and the delete S3 went with it.",
    ),
    Exercise(
        id="15.3",
        form=TEXT,
        accepts=("inserted-again",),
        mistakes=(
            Mistake(
                answers=("rewritten-as-new",),
                hint="Close: the row that is seen is in a newer file. But the old row is still in its old file, and hidden there; and the operation was `append`.",
            ),
            Mistake(
                answers=("wrong-scope",),
                hint="The table has no partitions, and the delete does hide the old row. Whose row is the live one?",
            ),
            Mistake(
                answers=("delete-file-removed", "rolled-back", "on-a-branch"),
                hint="The delete is live, and does what it should: look at the hidden row. Then look at the other one.",
            ),
            Mistake(
                answers=("vector-not-merged", "not-folded"),
                hint="There is no deletion vector in this table.",
            ),
        ),
        hints=(
            "There are two rows with id 3. In which files are they, and which commit brought the live one?",
            "The live row came with the append S4, after the delete.",
        ),
        why="The old row is hidden as it should be. S4 appended a row with the same id, and a delete never looks forward.",
    ),
    Exercise(
        id="15.4",
        form=TEXT,
        accepts=("rewritten-as-new",),
        mistakes=(
            Mistake(
                answers=("inserted-again",),
                hint="Then the old row would still be in `D1`, hidden. But there is one row with id 3 only, and the operation of S4 is no append.",
            ),
            Mistake(
                answers=("delete-file-removed",),
                hint="The delete file is still there, with the id 3 in it. Why does it not apply? Compare the sequence numbers.",
            ),
            Mistake(
                answers=("rolled-back", "on-a-branch"),
                hint="S3, the delete, is the parent of the newest snapshot, so it is in its history. What did S4 do?",
            ),
            Mistake(
                answers=("wrong-scope",),
                hint="The table has no partitions; the delete covers all of it. By which other rule may a delete not apply?",
            ),
            Mistake(
                answers=("vector-not-merged", "not-folded"),
                hint="There is no deletion vector in this table.",
            ),
        ),
        hints=(
            "The operation of S4 is `replace`: files were rewritten. What had been read for that, and which number did the new file get?",
            "The file has the sequence number 4 and the delete has 3, so 4 < 3 is false.",
        ),
        why="A compaction copied rows that it had read before the delete, and gave the file the number 4: the delete is too old for it.",
    ),
    Exercise(
        id="15.5",
        form=TEXT,
        accepts=("vector-not-merged",),
        mistakes=(
            Mistake(
                answers=("not-folded",),
                hint="There are no position delete files in this table. What did the vector that was replaced hold?",
            ),
            Mistake(
                answers=("delete-file-removed",),
                hint="A vector did go, but another one came for the same data file in the same commit. Compare what the two hold.",
            ),
            Mistake(
                answers=("rolled-back", "on-a-branch"),
                hint="S3 is in the history of the newest snapshot, and id 6, which it deleted as well, is still gone.",
            ),
            Mistake(
                answers=("inserted-again", "rewritten-as-new"),
                hint="No data file came on Tuesday. The row is where it always was, in `D1`.",
            ),
            Mistake(
                answers=("wrong-scope",),
                hint="A deletion vector has no scope: it is about one data file, which it names.",
            ),
        ),
        hints=(
            "Which row of `D1` did the vector V1 hide on Monday, and which one does V3 hide now?",
            "Row 2 was in the old vector and is not in the new one.",
        ),
        why="The writer that deleted id 4 put {3} in the place of {2}. It should have read the old vector, and written {2, 3}.",
    ),
    Exercise(
        id="15.6",
        form=TEXT,
        accepts=("not-folded",),
        mistakes=(
            Mistake(
                answers=("vector-not-merged",),
                hint="It was the first vector of its data file, so no vector was lost. What else was there for `D1`?",
            ),
            Mistake(
                answers=("delete-file-removed",),
                hint="`P1` is still there and still says row 2 of `D1`. Why does nobody listen to it?",
            ),
            Mistake(
                answers=("rolled-back", "on-a-branch"),
                hint="Monday's delete files are live: you can see them in the list. What came beside them?",
            ),
            Mistake(
                answers=("inserted-again", "rewritten-as-new"),
                hint="No data file came on Tuesday. The row is where it always was, in `D1`.",
            ),
            Mistake(
                answers=("wrong-scope",),
                hint="`P1` names the right file and the right row. It is not wrong, it is ignored.",
            ),
        ),
        hints=(
            "Which deletes are there for `D1`, and which of them does a reader of format version 3 look at?",
            "Where there is a vector, position delete files of the same data file are ignored.",
        ),
        why="With the vector {3} the position delete of row 2 became void. The writer had to take it into the vector: {2, 3}.",
    ),
    Exercise(
        id="15.7",
        form=MAPPING,
        accepts=({"accounts": "S5", "baskets": "S4", "contacts": "S4", "devices": "S4", "events": "S4"},),
        mistakes=(
            Mistake(
                answers=({"accounts": "S4", "baskets": "S4", "contacts": "S4", "devices": "S4", "events": "S4"},),
                hint="Read `accounts` at S4: S4 has S3 for a parent, so the delete still holds there.",
            ),
            Mistake(
                answers=({"accounts": "S2", "baskets": "S4", "contacts": "S4", "devices": "S4", "events": "S4"},),
                hint="Main was moved to S2, but S2 is older than the delete. In which snapshot after the delete is the row there?",
            ),
            Mistake(
                answers=({"accounts": "S3", "baskets": "S3", "contacts": "S3", "devices": "S3", "events": "S3"},),
                hint="S3 is the delete itself: in it the row is gone, in all five tables.",
            ),
        ),
        hints=(
            "`history` shows for each snapshot whether id 3 is there.",
            "Four tables have four snapshots, and one has five.",
        ),
        why="In four tables the commit after the delete brought the row back; in `accounts` it was the first one after the rollback.",
    ),
    Exercise(
        id="15.8",
        form=MAPPING,
        accepts=({"vector-not-merged": 2998, "inserted-again": 865},),
        mistakes=(
            Mistake(
                answers=({"vector-not-merged": 2998, "inserted-again": 1614},),
                hint="1,614 rows were appended, but not all of these flights were cancelled.",
            ),
            Mistake(
                answers=(
                    {"vector-not-merged": 2998, "inserted-again": 3863},
                    {"vector-not-merged": 3863, "inserted-again": 865},
                ),
                hint="3,863 is what both have brought back together. Count the cancelled flights of each data file.",
            ),
            Mistake(
                answers=({"vector-not-merged": 865, "inserted-again": 2998},),
                hint="The numbers are right, and the other way round: which data file came on Tuesday, and which one has a vector that is much too small?",
            ),
            Mistake(
                answers=({"rewritten-as-new": 865, "vector-not-merged": 2998},),
                hint="The operation of S6 is `append`: no file left the table, so nothing was rewritten.",
            ),
            Mistake(
                answers=({"not-folded": 2998, "inserted-again": 865},),
                hint="There was never a position delete file in this table, so there was none to fold.",
            ),
        ),
        hints=(
            '`dk.scan(flights, "dep_time is null", columns=["_file"])` says in which data file each cancelled flight is; `names.of` gives its short name.',
            "`D2` has a vector with 6 positions, and had one with 2,998 on Monday. `D4` came with an append.",
        ),
        why="The vector of D2 was replaced by one with the 6 flights of OO only; D4 holds two days of February, loaded again.",
    ),
    Exercise(
        id="15.9",
        form=NUMBER,
        accepts=(328492,),
        mistakes=(
            Mistake(
                answers=(329241,),
                hint="749 flights of February are still there twice: they took off, so deleting the cancelled ones does not reach them.",
            ),
            Mistake(
                answers=(328521,),
                hint="The flights of OO are back: you went back too far. Only the last commit has to go.",
            ),
            Mistake(
                answers=(327743,),
                hint="The 749 flights that were there twice are gone altogether. One of each should have stayed.",
            ),
            Mistake(
                answers=(331490,),
                hint="The doubles are gone. The cancelled flights of the months from May to August are not.",
            ),
            Mistake(
                answers=(333104,),
                hint="Nothing is repaired yet. Which of the two causes can be undone by leaving out one commit?",
            ),
        ),
        hints=(
            "The last commit brought nothing that is wanted. Which verb goes back to the snapshot before it?",
            '`dk.rollback(flights, names.snapshot_id("S5"))`, and then delete what should be gone.',
        ),
        why="The last commit was nothing but doubles, so going back behind it loses nothing; and what a vector forgot is deleted again.",
    ),
)
