"""Functions that learners write in lesson 08, right and wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deletekit.course.exercise import Functions

_File = Mapping[str, Any]
_Rule = Callable[[_File, _File], bool]

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
) -> _Rule:
    """Return the rule of scan planning, or the rule without one of its parts."""

    def applies(delete: _File, data: _File) -> bool:
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


def _everywhere(delete: _File, data: _File) -> bool:
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
    *, columns: Callable[[Any], bool] = all, nulls: bool = True, deletes: Callable[[Any], bool] = any
) -> Callable[[int, _File, list[Any]], bool]:
    def by_line(row: _File, line: _File) -> bool:
        return columns(row[column] == value and (nulls or value is not None) for column, value in line.items())

    def by_delete(position: int, row: _File, delete: Any) -> bool:
        return position in delete if isinstance(delete, set) else any(by_line(row, line) for line in delete)

    def is_hidden(position: int, row: _File, found: list[Any]) -> bool:
        return deletes(by_delete(position, row, delete) for delete in found)

    return is_hidden


def _bounds(lower: int | None, upper: int | None, *, nulls: bool = False) -> dict[str, Any]:
    return {"lower": lower, "upper": upper, "nulls": nulls}


_DELETED = _bounds(4, 99)
_RANGES = (
    *((_bounds(lower, upper), _DELETED) for lower, upper in ((0, 5), (2, 2), (100, 120), (0, 4), (99, 120), (10, 12))),
    (_bounds(0, 500), _DELETED),
    (_bounds(2, 2, nulls=True), _bounds(4, 99, nulls=True)),
    (_bounds(2, 2, nulls=True), _DELETED),
    (_bounds(2, 2), _bounds(4, 99, nulls=True)),
    (_bounds(None, None), _DELETED),
    (_bounds(2, 2), _bounds(None, None)),
    (_bounds(2, None), _DELETED),
)


def _may_match(
    *, nulls: bool = True, unknown: bool = True, strict: bool = False, inside: bool = False
) -> Callable[[_File, _File], bool]:
    def may_match(data: _File, delete: _File) -> bool:
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


FUNCTIONS = {
    "08.2": Functions(
        cases=_PLACES,
        by_name={
            "applies": _rule(),
            "equality_tie": _rule(equality_tie=True),
            "no_position_tie": _rule(position_tie=False),
            "no_global_scope": _rule(is_global=False),
            "any_spec": _rule(spec=False),
            "any_path": _rule(path=False),
            "everywhere": _everywhere,
        },
    ),
    "08.4": Functions(
        cases=_ROWS,
        by_name={
            "hidden": _hidden(),
            "any_column": _hidden(columns=any),
            "null_is_not_null": _hidden(nulls=False),
            "by_every_delete": _hidden(deletes=all),
            "positions_only": lambda position, row, found: any(position in d for d in found if isinstance(d, set)),
        },
    ),
    "08.6": Functions(
        cases=_RANGES,
        by_name={
            "may_match": _may_match(),
            "nulls_forgotten": _may_match(nulls=False),
            "unknown_is_no": _may_match(unknown=False),
            "strict": _may_match(strict=True),
            "inside": _may_match(inside=True),
        },
    ),
}
