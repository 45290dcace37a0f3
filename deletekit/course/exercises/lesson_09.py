"""Exercises of 09_commits_and_conflicts."""

from __future__ import annotations

from deletekit.course.answer_values import IDS, NAMES, NUMBER, function
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

Reports = list[tuple[str, set[int]]]

_LOCATIONS = (("v1", "v1", "v2"), ("v2", "v1", "v3"), ("v5", "v4", "v5"), ("v7", "v7", "v8"))

_REPORTS: tuple[tuple[Reports], ...] = (
    ([("A", {0, 2}), ("B", {5, 9}), ("A", {7}), ("C", set())],),
    ([("A", {1}), ("A", {1, 2}), ("A", set())],),
    ([("A", {0, 1, 2}), ("A", {2, 3})],),
    ([("C", set())],),
    ([("A", set()), ("A", {4})],),
)


def _united(reports: Reports) -> dict[str, set[int]]:
    vectors: dict[str, set[int]] = {}
    for name, positions in reports:
        if positions:
            vectors[name] = vectors.get(name, set()) | positions
    return vectors


def _with_empty_ones(reports: Reports) -> dict[str, set[int]]:
    vectors: dict[str, set[int]] = {}
    for name, positions in reports:
        vectors[name] = vectors.get(name, set()) | positions
    return vectors


def _last_wins(reports: Reports) -> dict[str, set[int]]:
    return dict(reports)


def _last_full_wins(reports: Reports) -> dict[str, set[int]]:
    return {name: positions for name, positions in reports if positions}


def _first_wins(reports: Reports) -> dict[str, set[int]]:
    return dict(reversed([report for report in reports if report[1]]))


def _in_both(reports: Reports) -> dict[str, set[int]]:
    vectors: dict[str, set[int]] = {}
    for name, positions in reports:
        vectors[name] = vectors.get(name, positions) & positions
    return vectors


EXERCISES = (
    Exercise(
        id="09.1",
        form=IDS,
        accepts=({1, 2},),
        mistakes=(
            Mistake(
                answers=({2},),
                hint="Then the first delete would be undone, though it was committed. Nobody may lose a commit unawares.",
            ),
            Mistake(
                answers=({1},),
                hint="The second writer loses the race, that is right. But losing it once is no reason to give up.",
            ),
            Mistake(
                answers=(set(),),
                hint="Two deletes do not cancel each other: the first one is committed, whatever comes after.",
            ),
        ),
        hints=(
            "Both deletes shall count, and one data file has one vector.",
            "What would be in the vector if the two had come one after the other?",
        ),
        why="Both deletes count. The second writer sees that another commit came first, and commits the union.",
    ),
    Exercise(
        id="09.2",
        form=function(*_LOCATIONS),
        accepts=(lambda there, read, new: new if there == read else there,),
        mistakes=(
            Mistake(
                answers=(lambda there, read, new: new,),
                hint="You never compare: whoever comes last would wipe out the commit of somebody else.",
            ),
            Mistake(
                answers=(lambda there, read, new: there if there == read else new,),
                hint="The other way round: exchange if nobody has been there since you read.",
            ),
            Mistake(
                answers=(lambda there, read, new: new if there == read else read,),
                hint="A writer who loses must not put the old location back either: the catalog stays as it is.",
            ),
            Mistake(
                answers=(lambda there, read, new: there == read,),
                hint="Whether it worked is the answer to the writer. Here the location that the catalog has afterwards is asked for.",
            ),
        ),
        hints=("First compare, then swap.", "`new` if `there == read`, and otherwise what is there."),
        why="The catalog compares and swaps in one step, so of two writers who have read the same only one can win.",
    ),
    Exercise(
        id="09.3",
        form=NAMES,
        accepts=({"new rows", "compacted", "update"},),
        mistakes=(
            Mistake(
                answers=({"same file", "new rows", "compacted", "update"},),
                hint="To plan same file anew would be right, but there is no need: both writers only add positions.",
            ),
            Mistake(
                answers=({"compacted", "update"}, {"compacted"}),
                hint="Think of new rows: the filter says ids below 3. Are there any that the plan has never seen?",
            ),
            Mistake(
                answers=({"new rows", "update"}, {"update"}, {"same file", "new rows", "update"}),
                hint="Think of compacted: which data file does the vector name, and is it in the table?",
            ),
            Mistake(
                answers=({"new rows", "compacted"}, {"same file", "new rows", "compacted"}),
                hint="Think of update: it writes a new version of a row that has been deleted meanwhile.",
            ),
        ),
        hints=(
            "For each race ask: would the plan be the same if one had read after the other's commit?",
            "In other file it would; in same file the positions would, beside those that landed.",
        ),
        why="New rows of the filter, a data file that is gone, and a row that is gone: each takes away what the plan rested on.",
    ),
    Exercise(
        id="09.4",
        form=IDS,
        accepts=({0, 1, 3, 4, 5, 6, 7, 8, 9},),
        mistakes=(
            Mistake(
                answers=({3, 4, 5, 6, 7, 8, 9},),
                hint="That is what `serializable` gives. With `snapshot` the delete is about the rows that it has read.",
            ),
            Mistake(
                answers=(set(range(10)),),
                hint="The appended rows are 0 and 1. Nobody has appended a new id 2.",
            ),
            Mistake(
                answers=({0, 1},),
                hint="The other rows of the table are still there: only ids below 3 were to be deleted.",
            ),
        ),
        hints=(
            "Which rows had the delete read when it was planned?",
            "The old 0, 1 and 2 are deleted; the new 0 and 1 are not.",
        ),
        why="The delete was planned on ten rows and hides three of them. Rows that landed meanwhile it leaves alone.",
    ),
    Exercise(
        id="09.5",
        form=function(*_REPORTS),
        accepts=(_united,),
        mistakes=(
            Mistake(
                answers=(_with_empty_ones,),
                hint="Where nothing was found there is no vector: an empty one is never written.",
            ),
            Mistake(
                answers=(_last_wins, _last_full_wins),
                hint="The last report about a data file wipes out what others have found in it.",
            ),
            Mistake(
                answers=(_first_wins,),
                hint="You keep the first report about a data file and forget the later ones.",
            ),
            Mistake(
                answers=(_in_both,),
                hint="A row is deleted if one worker has found it: the union, and not what all have in common.",
            ),
        ),
        hints=(
            "One dict, from the name of the data file to a set that grows.",
            "`vectors[name] = vectors.get(name, set()) | positions`, if there are positions.",
        ),
        why="One vector for each data file, the union of all reports about it, and none where nothing was found.",
    ),
    Exercise(
        id="09.6",
        form=NUMBER,
        accepts=(2,),
        mistakes=(
            Mistake(
                answers=(1,),
                hint="That is so on the branch. Which sequence numbers have the three files on main?",
            ),
            Mistake(
                answers=(0,),
                hint="An equality delete hides older rows only, and none of the two is older than it.",
            ),
            Mistake(answers=(3,), hint="One of the three changes is a delete: it adds no row."),
        ),
        hints=(
            "In one commit all added files have the same sequence number.",
            "The rule of equality deletes is data < delete. What does it say about equal numbers?",
        ),
        why="Data and delete have the same number, so the delete applies to neither: both values are live.",
    ),
    Exercise(
        id="09.7",
        form=IDS,
        accepts=({1, 2, 3, 9},),
        mistakes=(
            Mistake(
                answers=({9}, {1, 2}, {2, 3}),
                hint="Whichever one you choose, rows of the other two come back.",
            ),
            Mistake(answers=({2}, set()), hint="A row need not be in all of them to be deleted: one is enough."),
            Mistake(answers=({1, 3, 9},), hint="2 was deleted twice, and that does not bring it back."),
        ),
        hints=("All three deletes shall count.", "The union."),
        why="The union is the only vector under which no deleted row comes back.",
    ),
)
