"""Exercises of 13_streaming_deletes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deletekit.course.answer_values import IDS, MAPPING, NUMBER, function
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

_Changes = Sequence[tuple[str, int]]
_Deletes = dict[str, set[int]]

_CHECKPOINTS: tuple[tuple[_Changes], ...] = (
    ([("+", 5), ("+", 5), ("+", 1), ("-", 3)],),
    ([("-", 2), ("+", 2), ("+", 2)],),
    ([("+", 1), ("-", 1)],),
    ([("+", 7), ("-", 7), ("+", 7)],),
    ([],),
)


def _writer(
    *, upsert: bool = True, by_value: bool = True, counts_changes: bool = False, hides_itself: bool = False
) -> Callable[[_Changes], _Deletes]:
    """A writer as the exercise asks for it, and with one mistake each."""

    def deletes_of(changes: _Changes) -> _Deletes:
        place: dict[int, int] = {}
        rows = 0
        equality: set[int] = set()
        positions: set[int] = set()
        for number, (change, key) in enumerate(changes):
            own = number if counts_changes else rows
            if key in place:
                positions.add(own if hides_itself and change == "+" else place.pop(key))
            elif by_value and (upsert or change == "-"):
                equality.add(key)
            if change == "+":
                place[key] = own
                rows += 1
        return {"equality": equality, "positions": positions}

    return deletes_of


EXERCISES = (
    Exercise(
        id="13.1",
        form=IDS,
        accepts=({1, 3, 5},),
        mistakes=(
            Mistake(
                answers=({1, 3},),
                hint="5 is new, but how should a writer know that has read nothing? In upsert mode it deletes every key before it writes.",
            ),
            Mistake(
                answers=({3},),
                hint="An update is a delete and an insert: the old row of id 1 has to go too.",
            ),
            Mistake(
                answers=({1, 2, 3, 4}, {1, 2, 3, 4, 5}), hint="Only keys that are in the changes: 2 and 4 are not."
            ),
        ),
        hints=(
            "Before each row that it writes, the writer deletes the row's key.",
            "Which keys are in the four changes? Each of them once.",
        ),
        why="In upsert mode every key of the checkpoint gets an equality delete, a new one too: the writer reads nothing.",
    ),
    Exercise(
        id="13.2",
        form=function(*_CHECKPOINTS),
        accepts=(_writer(),),
        mistakes=(
            Mistake(
                answers=(_writer(upsert=False),),
                hint='A row that is put may replace one that is in the table: a "+" whose key is not in the map needs an equality delete too.',
            ),
            Mistake(
                answers=(_writer(by_value=False),),
                hint="A key that is not in the map may be in the table. Without reading, only an equality delete reaches it.",
            ),
            Mistake(
                answers=(_writer(counts_changes=True),),
                hint="A position counts the rows of the data file, and a delete writes no row.",
            ),
            Mistake(
                answers=(_writer(hides_itself=True),),
                hint="It is the earlier row that goes. Take its place from the map before you note the new one.",
            ),
        ),
        hints=(
            "Keep a dict from each key to the position of the row that was written last with it, and count the rows.",
            "For each change: is the key in the dict? Then its position is deleted and leaves the dict; else the key goes to the equality deletes.",
            'Only then, for a "+", note the position of the new row and count it.',
        ),
        why="What the checkpoint has written itself goes by position, what may be older by value. This is Flink's upsert writer.",
    ),
    Exercise(
        id="13.3",
        form=NUMBER,
        accepts=(0,),
        mistakes=(
            Mistake(
                answers=(1,),
                hint="Id 5 was written by this sink, but in the checkpoint before. What does the map remember of that?",
            ),
            Mistake(
                answers=(2,),
                hint="To delete by position the writer would have to know where both rows lie, and it has not read the table.",
            ),
        ),
        hints=(
            "When is the map of the writer thrown away?",
            "At the beginning of a checkpoint the map is empty.",
        ),
        why="The map is empty at the beginning of each checkpoint, so both keys get equality deletes.",
    ),
    Exercise(
        id="13.4",
        form=NUMBER,
        accepts=(1,),
        mistakes=(
            Mistake(
                answers=(0,),
                hint="Every place that the index knew is gone. Without reading the new file it could not find a single row.",
            ),
            Mistake(
                answers=(2, 3, 4),
                hint="The old files are out of the table, and what is in them need not be known. How many files has the compacted table?",
            ),
        ),
        hints=(
            "Which files of the table has the sink neither written nor read?",
            "Compaction has put all live rows into one new data file.",
        ),
        why="The index drops the files that have left the table and reads the one that came, and finds the row in its new place.",
    ),
    Exercise(
        id="13.5",
        form=MAPPING,
        accepts=({"eq-only": 12, "auto": 1},),
        mistakes=(
            Mistake(
                answers=({"eq-only": 12, "auto": 12},),
                hint="Twelve vectors are written, but all for one data file: how many of them may be live?",
            ),
            Mistake(
                answers=({"eq-only": 1, "auto": 1},),
                hint="Nobody puts equality delete files together unasked: each batch adds one, and they all stay.",
            ),
            Mistake(
                answers=({"eq-only": 8255, "auto": 8255}, {"eq-only": 8255, "auto": 1}, {"eq-only": 12, "auto": 8255}),
                hint="These are the deleted rows. A delete file holds many of them.",
            ),
            Mistake(
                answers=({"eq-only": 12, "auto": 0},),
                hint="By position, too, a delete has to be written down: in a deletion vector.",
            ),
        ),
        hints=(
            "What does each of the twelve batches write?",
            "A new deletion vector replaces the one before it; a new equality delete file replaces nothing.",
        ),
        why="Equality delete files add up, one for each batch; of vectors one is live for each data file.",
    ),
    Exercise(
        id="13.6",
        form=NUMBER,
        accepts=(8255,),
        mistakes=(
            Mistake(
                answers=(12,),
                hint="That is the number of equality delete files. One vector holds what all of them hide.",
            ),
            Mistake(answers=(328521,), hint="These are the rows that are left; a vector holds those that are not."),
            Mistake(answers=(336776,), hint="That is every row of the data file, and not all are deleted."),
        ),
        hints=("How many rows of the data file do the twelve files hide?", "As many as there were cancelled flights."),
        why="The vector hides exactly the rows that the twelve equality delete files hid, and reads need no comparison any more.",
    ),
    Exercise(
        id="13.7",
        form=MAPPING,
        accepts=({"snapshots": 1, "equality": 0},),
        mistakes=(
            Mistake(
                answers=({"snapshots": 3, "equality": 3},),
                hint="Promotion is no copy of the commits: it brings the difference of two states, in one commit.",
            ),
            Mistake(
                answers=({"snapshots": 3, "equality": 0},),
                hint="The deletes are right. But readers of main see all three batches at once, in one snapshot.",
            ),
            Mistake(
                answers=({"snapshots": 1, "equality": 3}, {"snapshots": 1, "equality": 1}),
                hint="One snapshot is right. What is the promotion for? On main every delete has been found by position.",
            ),
        ),
        hints=("A promotion is one commit.", "What came by value on the branch arrives as positions."),
        why="One commit brings what three batches have changed, and their equality deletes arrive as deletion vectors.",
    ),
    Exercise(
        id="13.8",
        form=NUMBER,
        accepts=(12,),
        mistakes=(
            Mistake(
                answers=(9,),
                hint="That is what it should be. After the restart, is batch 0 among the batches that were noted?",
            ),
            Mistake(
                answers=(6,),
                hint="The rows of batch 0 are not lost: its commit was done before the writer died.",
            ),
            Mistake(answers=(15,), hint="Only batch 0 comes twice; batch 1 had not been tried when the writer died."),
        ),
        hints=(
            "Go through it: 3 rows before, then the commit of batch 0. What is noted at this moment?",
            "3 rows, 3 of batch 0, 3 of batch 0 once more, 3 of batch 1.",
        ),
        why="The commit was in the table and not in the notes, so batch 0 came again and was appended again.",
    ),
    Exercise(
        id="13.9",
        form=IDS,
        accepts=({1, 4},),
        mistakes=(
            Mistake(
                answers=({1},),
                hint="Batch 1 is one of them. Is there another batch that inserts without looking for an old row?",
            ),
            Mistake(
                answers=({1, 3, 4},),
                hint="Batch 3 inserts id 4 too, but upserts it right after that: the delete of the upsert hides the row of the first time.",
            ),
            Mistake(
                answers=({1, 2, 3, 4},),
                hint="Look at batch 2 twice: an upsert and a delete, applied again, find their own rows and replace them.",
            ),
            Mistake(
                answers=({2, 3},),
                hint="These are the ones after which it is right: upserts replace what they have written.",
            ),
        ),
        hints=(
            "Set `step` to 1, 2, 3 and 4 in turn, and read the sentence below the title.",
            "Which batches have a row that is inserted and never upserted in the same batch?",
        ),
        why="Only batches with a plain insert leave rows twice. All others repair themselves, and hide that the marker is missing.",
    ),
    Exercise(
        id="13.10",
        form=IDS,
        accepts=({1, 2, 3, 4},),
        mistakes=(
            Mistake(
                answers=({1, 3, 4},),
                hint="So it should be. But which row did the delete find: the old one, or the one that was just written?",
            ),
            Mistake(
                answers=(set(), {2}),
                hint="Ids 1, 3 and 4 are in no delete; nothing happens to them.",
            ),
        ),
        hints=(
            "What stands in the map when the delete of 2 comes?",
            "The delete found the new row in the map, and wrote no equality delete. What is left of the older row?",
        ),
        why="The delete hit the new row, and nobody spoke of the older one: id 2 was deleted and is still there.",
    ),
)
