"""Exercises of 08_readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deletekit.course.answer_values import NAMES, NUMBER, function
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

File = Mapping[str, Any]
Rule = Callable[[File, File], bool]

_NORTH, _SOUTH = {"shop": "north"}, {"shop": "south"}


def _data(number: int, partition: dict[str, str] = _NORTH, spec_id: int = 0) -> dict[str, Any]:
    return {"file_path": "D1", "sequence_number": number, "spec_id": spec_id, "partition": partition}


def _delete(
    kind: str, number: int, partition: dict[str, str] = _NORTH, spec_id: int = 0, about: str | None = None
) -> dict[str, Any]:
    place = {"spec_id": spec_id, "partition": partition}
    return {"kind": kind, "sequence_number": number, **place, "referenced_data_file": about}


_PLACES = (
    *((_delete("deletion-vector", number, about="D1"), _data(3)) for number in (3, 4)),
    (_delete("deletion-vector", 4, about="D2"), _data(3)),
    *((_delete("position-delete", number), _data(3)) for number in (2, 3, 4)),
    *((_delete("position-delete", 4, about=path), _data(3)) for path in ("D1", "D2")),
    (_delete("position-delete", 4, _SOUTH), _data(3)),
    (_delete("position-delete", 4, spec_id=1), _data(3)),
    (_delete("position-delete", 4, {}, 2), _data(3)),
    *((_delete("equality-delete", number), _data(3)) for number in (2, 3, 4)),
    (_delete("equality-delete", 4, _SOUTH), _data(3)),
    (_delete("equality-delete", 4, spec_id=1), _data(3)),
    *((_delete("equality-delete", number, {}, 2), _data(3)) for number in (2, 3, 4)),
    (_delete("equality-delete", 4, {}, 2), _data(3, _SOUTH, 1)),
)


def _rule(
    *,
    equality_tie: bool = False,
    position_tie: bool = True,
    is_global: bool = True,
    spec: bool = True,
    path: bool = True,
) -> Rule:
    """The rule of scan planning, or one with a part of it taken away."""

    def applies(delete: File, data: File) -> bool:
        is_equality = delete["kind"] == "equality-delete"
        tie = equality_tie if is_equality else position_tie
        if not (data["sequence_number"] < delete["sequence_number"] + tie):
            return False
        here = delete["partition"] == data["partition"] and (delete["spec_id"] == data["spec_id"] or not spec)
        if is_equality:
            return here or (is_global and delete["partition"] == {})
        about = delete["referenced_data_file"]
        return bool(here and (about in (None, data["file_path"]) or not path))

    return applies


def _everywhere(delete: File, data: File) -> bool:
    return bool(data["sequence_number"] < delete["sequence_number"] + (delete["kind"] != "equality-delete"))


_LINES = [{"shop": "north", "id": 2}, {"shop": "south", "id": 3}]
_NONE = [{"id": 8, "item": None}]
_ROWS: tuple[tuple[int, dict[str, Any], list[Any]], ...] = (
    (1, {"shop": "north", "id": 5, "item": "tea"}, [{1, 3}]),
    (2, {"shop": "north", "id": 5, "item": "tea"}, [{1, 3}]),
    (0, {"shop": "north", "id": 2, "item": "tea"}, [{1, 3}, _LINES]),
    (0, {"shop": "north", "id": 3, "item": "tea"}, [{1, 3}, _LINES]),
    (0, {"shop": "south", "id": 3, "item": "tea"}, [_LINES, {1, 3}]),
    (3, {"shop": "north", "id": 9, "item": None}, [_LINES, {1, 3}]),
    (4, {"shop": "north", "id": 8, "item": None}, [_NONE]),
    (4, {"shop": "north", "id": 8, "item": "tea"}, [_NONE]),
    (4, {"shop": "north", "id": 9, "item": None}, [_NONE]),
    (4, {"shop": "north", "id": 7, "item": None}, [_NONE, [{"id": 7}]]),
    (0, {"shop": "north", "id": 0, "item": "tea"}, []),
)


def _hidden(
    *, lines: Callable[[Any], bool] = all, nulls: bool = True, deletes: Callable[[Any], bool] = any
) -> Callable[[int, File, list[Any]], bool]:
    def by_line(row: File, line: File) -> bool:
        return lines(row[column] == value and (nulls or value is not None) for column, value in line.items())

    def by_delete(position: int, row: File, delete: Any) -> bool:
        return position in delete if isinstance(delete, set) else any(by_line(row, line) for line in delete)

    def is_hidden(position: int, row: File, found: list[Any]) -> bool:
        return deletes(by_delete(position, row, delete) for delete in found)

    return is_hidden


def _positions_only(position: int, row: File, deletes: list[Any]) -> bool:
    return any(position in delete for delete in deletes if isinstance(delete, set))


def _bounds(lower: int | None, upper: int | None, *, nulls: bool = False) -> dict[str, Any]:
    return {"lower": lower, "upper": upper, "nulls": nulls}


_RANGES = (
    (_bounds(0, 5), _bounds(4, 99)),
    (_bounds(2, 2), _bounds(4, 99)),
    (_bounds(100, 120), _bounds(4, 99)),
    (_bounds(0, 4), _bounds(4, 99)),
    (_bounds(99, 120), _bounds(4, 99)),
    (_bounds(10, 12), _bounds(4, 99)),
    (_bounds(0, 500), _bounds(4, 99)),
    (_bounds(2, 2, nulls=True), _bounds(4, 99, nulls=True)),
    (_bounds(2, 2, nulls=True), _bounds(4, 99)),
    (_bounds(2, 2), _bounds(4, 99, nulls=True)),
    (_bounds(None, None), _bounds(4, 99)),
    (_bounds(2, 2), _bounds(None, None)),
    (_bounds(2, None), _bounds(4, 99)),
)


def _may_match(
    *, nulls: bool = True, unknown: bool = True, strict: bool = False, inside: bool = False
) -> Callable[[File, File], bool]:
    def may_match(data: File, delete: File) -> bool:
        if nulls and data["nulls"] and delete["nulls"]:
            return True
        if None in (data["lower"], data["upper"], delete["lower"], delete["upper"]):
            return unknown
        if inside:
            return bool(data["lower"] <= delete["lower"] and delete["upper"] <= data["upper"])
        if strict:
            return bool(data["lower"] < delete["upper"] and delete["lower"] < data["upper"])
        return bool(data["lower"] <= delete["upper"] and delete["lower"] <= data["upper"])

    return may_match


EXERCISES = (
    Exercise(
        id="08.1",
        form=NUMBER,
        accepts=(9,),
        mistakes=(
            Mistake(
                answers=(16,), hint="That is how many rows have ever been written. Now take the deleted ones away."
            ),
            Mistake(
                answers=(10,),
                hint="The last delete is for all shops: order 4 is in north and in south.",
            ),
            Mistake(
                answers=(8,),
                hint="The new version of order 2 has the same sequence number as the equality delete, and stays.",
            ),
            Mistake(
                answers=(15, 14),
                hint="An update adds a row and hides one. Go through the table once more, line by line.",
            ),
        ),
        hints=(
            "Of north's first six orders, 0 and 5 are left; order 2 has a new version.",
            "North has 0, 2, 5, 10 and 12. South loses 4 and 7.",
        ),
        why="North has orders 0, 2, 5, 10 and 12, south 5, 6, 8 and 9; order 99 never was.",
    ),
    Exercise(
        id="08.2",
        form=function(*_PLACES),
        accepts=(_rule(),),
        mistakes=(
            Mistake(
                answers=(_rule(equality_tie=True),),
                hint="An equality delete leaves rows of its own commit alone, else an update would lose its new row: <.",
            ),
            Mistake(
                answers=(_rule(position_tie=False),),
                hint="Positions may be about a file of the same commit: for them the numbers compare by <=.",
            ),
            Mistake(
                answers=(_rule(is_global=False),),
                hint="An equality delete whose partition is {} is for the whole table, whatever the partition of the data file.",
            ),
            Mistake(
                answers=(_rule(spec=False),),
                hint="Partitions of two specs are never the same place, even when their values look alike.",
            ),
            Mistake(
                answers=(_rule(path=False),),
                hint="A delete that names its data file is for that one only.",
            ),
            Mistake(
                answers=(_everywhere,),
                hint="The numbers are right. Now look at where the delete applies, too.",
            ),
        ),
        hints=(
            "Two questions: do the numbers allow it, and is the data file in the delete's place?",
            "For equality deletes < and place, or partition {}; for the others <= and place, and the path where one is named.",
        ),
        why="Sequence numbers say when, spec and partition say where; a path narrows it, and an equality delete under a spec "
        "without fields is for all.",
    ),
    Exercise(
        id="08.3",
        form=NAMES,
        accepts=({"V1", "E1", "E2"},),
        mistakes=(
            Mistake(
                answers=({"P1", "V1", "E1", "E2"},),
                hint="P1 fits by number and place. But what does the vector of D1 do to it?",
            ),
            Mistake(
                answers=({"V1"}, {"V1", "P1"}),
                hint="A vector takes the place of position deletes; values it knows nothing of.",
            ),
            Mistake(
                answers=({"V1", "E1"},), hint="E2 has an empty partition, so it is for all data files that are older."
            ),
            Mistake(
                answers=({"V1", "E2"},),
                hint="D1 has number 1 and is in north; E1 has number 4 and is in north too.",
            ),
        ),
        hints=(
            "Which of the four are younger than D1, and in its partition or in all?",
            "All four; and then the vector wins over P1.",
        ),
        why="V1 stands for what P1 says about D1 as well; equality deletes always count beside a vector.",
    ),
    Exercise(
        id="08.4",
        form=function(*_ROWS),
        accepts=(_hidden(),),
        mistakes=(
            Mistake(
                answers=(_hidden(lines=any),),
                hint="All columns of a line must match: order 3 of north is another one than order 3 of south.",
            ),
            Mistake(
                answers=(_hidden(nulls=False),),
                hint="In an equality delete NULL matches NULL.",
            ),
            Mistake(
                answers=(_hidden(deletes=all),),
                hint="One delete that hides the row is enough, and where there is none the row is live.",
            ),
            Mistake(answers=(_positions_only,), hint="You have left out the lists: lines of equality deletes."),
        ),
        hints=(
            "`isinstance(delete, set)` tells the two kinds apart.",
            "For a list: any line of which all columns are equal to those of the row.",
        ),
        why="Any delete, any line of it, all columns of the line: that is the whole of it.",
    ),
    Exercise(
        id="08.5",
        form=NAMES,
        accepts=({"shop", "id"}, {"shop", "id", "item"}),
        mistakes=(
            Mistake(
                answers=({"item"},),
                hint="Two equality deletes apply to D1. Which columns do they compare?",
            ),
            Mistake(
                answers=({"id"}, {"id", "item"}), hint="That is enough for E2. E1 compares another column as well."
            ),
            Mistake(
                answers=({"shop"}, {"shop", "item"}),
                hint="The partition says where a delete applies, but not which row it is about.",
            ),
        ),
        hints=("E1 was written for shop and id, E2 for id alone.", "The columns in equality_ids of both."),
        why="The columns of equality deletes are read whatever the query selects, and left out of the result afterwards.",
    ),
    Exercise(
        id="08.6",
        form=function(*_RANGES),
        accepts=(_may_match(),),
        mistakes=(
            Mistake(
                answers=(_may_match(nulls=False),),
                hint="NULL matches NULL, and it is in no range: where both may have one, the delete must be opened.",
            ),
            Mistake(
                answers=(_may_match(unknown=False),),
                hint="None means that nobody knows. A delete that may match must be opened.",
            ),
            Mistake(
                answers=(_may_match(strict=True),),
                hint="A bound may itself be a value of the file: ranges that touch do meet.",
            ),
            Mistake(
                answers=(_may_match(inside=True),),
                hint="One range need not lie within the other; it is enough that they have a value in common.",
            ),
        ),
        hints=(
            "Ask for NULL first, then for bounds that are not known, and then for the ranges.",
            'Two ranges meet when `data["lower"] <= delete["upper"]` and `delete["lower"] <= data["upper"]`.',
        ),
        why="Whoever leaves a delete out must be certain. Opening one for nothing costs time; leaving one out brings rows back.",
    ),
    Exercise(
        id="08.7",
        form=NAMES,
        accepts=({"D4"},),
        mistakes=(
            Mistake(
                answers=({"D3", "D4"},),
                hint="P1 has no referenced_data_file, and D3 is in its partition and older: it may have positions of D3.",
            ),
            Mistake(
                answers=({"D2", "D4"},),
                hint="No position delete is about D2. But the range of E2 meets the one of D2.",
            ),
            Mistake(
                answers=(set(),),
                hint="E1 is not newer than D4, and the ranges of E2 and D4 do not meet: what is left that could hide its row?",
            ),
            Mistake(
                answers=({"D1", "D4"}, {"D1"}),
                hint="D1 has a deletion vector: some of its rows are hidden for certain.",
            ),
        ),
        hints=(
            "A data file qualifies if no delete can apply to it, by number, place and bounds.",
            "Go through D1 to D4 with the list of files and the list of bounds.",
        ),
        why="No delete can concern D4. For every other file a reader has to open deletes before it can count.",
    ),
)
