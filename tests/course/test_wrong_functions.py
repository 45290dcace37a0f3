"""Functions that learners write: wrong ones that one may think of are refused, right ones in other words are not."""

# ruff: noqa: ARG005  # a lambda has the parameters of its exercise

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import groupby
from typing import Any

import pytest
from pyroaring import BitMap, BitMap64

from deletekit.course.checking import judge
from deletekit.course.exercise import Exercise
from deletekit.course.exercises.all import EXERCISES

_Function = Callable[..., Any]
_WITH_FUNCTIONS = [exercise for exercise in EXERCISES.values() if exercise.answer_kind.cases]


# --- 05.4, 06.3 -------------------------------------------------------------------------------------------------------


def live_by_value(rows: list[str], path: str, deletes: Any) -> list[str]:
    gone = {rows[position] for file, position in deletes if file == path and position < len(rows)}
    return [row for row in rows if row not in gone]


def live_by(same: Callable[[str, str], bool]) -> _Function:
    return lambda rows, path, deletes: [
        row for n, row in enumerate(rows) if not any(n == position and same(file, path) for file, position in deletes)
    ]


def live_in_place(rows: list[str], path: str, deletes: Any) -> list[str]:
    for position in sorted({p for file, p in deletes if file == path and p < len(rows)}, reverse=True):
        del rows[position]
    return rows


def live_twice(rows: list[str], path: str, deletes: Any) -> list[str]:
    """Forget that one row may be deleted twice."""
    left = list(rows)
    for position in sorted((p for file, p in deletes if file == path and p < len(rows)), reverse=True):
        left[position : position + 1] = []
    return left


def positions_by_hand(blob: bytes) -> set[int]:
    """Read bitmap after bitmap, each with its key."""
    (count,) = struct.unpack("<q", blob[8:16])
    at, found = 16, set[int]()
    for _ in range(count):
        bitmap = BitMap.deserialize(blob[at + 4 :])
        found |= {(struct.unpack("<I", blob[at : at + 4])[0] << 32) + n for n in bitmap}
        at += 4 + len(bitmap.serialize())
    return found


def as_range(blob: bytes) -> set[int]:
    found = BitMap64.deserialize(blob[8:-4])
    return set(range(min(found), min(found) + len(found)))


# --- 08.2, 08.4, 08.6 -------------------------------------------------------------------------------------------------


def applies(delete: Any, data: Any, *, without: str = "") -> Any:
    here = (delete["spec_id"], delete["partition"]) == (data["spec_id"], data["partition"])
    if without == "null partition":
        here = here and None not in data["partition"].values()
    if without == "second field":
        here = list(delete["partition"].items())[:1] == list(data["partition"].items())[:1]
    if delete["kind"] == "equality-delete":
        older = data["sequence_number"] < delete["sequence_number"]
        return older and (here or delete["partition"] == {} or without == "scope")
    if data["sequence_number"] > delete["sequence_number"] and (without, delete["kind"]) != ("age", "deletion-vector"):
        return False
    about = delete["referenced_data_file"]
    if about is not None:
        return data["file_path"].startswith(about) if without == "whole path" else about == data["file_path"]
    return 1 if without == "bool" and here else here


def hidden(position: int, row: Any, deletes: Any, *, without: str = "") -> bool:
    """Look at deletes as a reader does, or in one of the ways that learners take for the same."""

    def same(one: Any, other: Any) -> bool:
        ways = {"types": str(one) == str(other), "falsy": bool(one and one == other)}
        return ways.get(without, one == other)

    for delete in deletes[:1] if without == "later deletes" else deletes:
        if isinstance(delete, set):
            if position in delete and not (without == "first row" and not position):
                return True
        elif without == "mixed lines":
            if delete and all(row[c] in [line[c] for line in delete] for c in delete[0]):
                return True
        elif any(all(same(row[c], v) for c, v in line.items()) for line in delete[: 1 if without == "lines" else None]):
            return True
    return False


def hidden_while(position: int, row: Any, deletes: Any) -> bool:
    while deletes:
        delete = deletes.pop()
        if position in delete if isinstance(delete, set) else any(line.items() <= row.items() for line in delete):
            return True
    return False


def overlaps(data: Any, delete: Any) -> bool:
    """Use each bound that is known."""

    def below(lower: int | None, upper: int | None) -> bool:
        return lower is None or upper is None or lower <= upper

    nulls = data["nulls"] and delete["nulls"]
    return nulls or (below(data["lower"], delete["upper"]) and below(delete["lower"], data["upper"]))


def overlaps_falsy(data: Any, delete: Any) -> bool:
    bounds = (data["lower"], data["upper"], delete["lower"], delete["upper"])
    return not all(bounds) or overlaps(data, delete)


# --- 09.5, 13.2, 14.2, 17.4 -------------------------------------------------------------------------------------------


def merged_in_place(reports: Any) -> dict[str, set[int]]:
    vectors: dict[str, set[int]] = {}
    for name, positions in reports:
        if positions:
            vectors.setdefault(name, positions).update(positions)
    return vectors


def merged_neighbours(reports: Any) -> dict[str, set[int]]:
    groups = ((name, set().union(*(p for _, p in group))) for name, group in groupby(reports, key=lambda one: one[0]))
    return {name: positions for name, positions in groups if positions}


def merged_from_before(reports: Any, vectors: dict[str, set[int]] = {}) -> dict[str, set[int]]:  # noqa: B006
    for name, positions in reports:
        if positions:
            vectors[name] = vectors.get(name, set()) | positions
    return dict(vectors)


def writer(changes: Any, *, wrong: str = "", place: dict[int, int] | None = None) -> Any:
    place = {} if place is None else place
    rows, equality, positions = 0, set[int](), set[int]()
    for change, key in changes:
        if place.get(key) if wrong == "row 0 is falsy" else key in place:
            positions.add(rows - 1 if wrong == "the last row" else place[key])
            if wrong not in ("a row is hidden again", "the first row"):
                del place[key]
        elif wrong != "new keys at a plus" or change == "-":
            equality.add(key)
        if wrong == "both":
            equality.add(key)
        if change == "+":
            if wrong != "the first row" or key not in place:
                place[key] = rows
            rows += 1
    return {"equality": equality, "positions": sorted(positions) if wrong == "a list" else positions}


def live_log(versions: Any, *, wrong: str = "") -> Any:
    live: dict[str, Any] = {}
    for version in versions[-1:] if wrong == "the last version" else versions:
        for kind in ("add", "remove") if wrong == "adds first" else ("remove", "add"):
            for action, path, vector in version:
                if action == kind == "add" and not (wrong == "add once" and path in live):
                    live[path] = vector
                elif action == kind == "remove" and not (wrong == "the vector" and live.get(path) != vector):
                    live.pop(path, None)
    return {p: v for p, v in live.items() if v} if wrong == "vectors only" else live


def applied(copy: Any, changes: Any, *, wrong: str = "") -> Any:
    touched = {key for _, key, _ in changes}
    before = dict(copy)
    for kind, key, value in changes:
        if kind in ("delete", "update_before") and not (wrong == "only old rows go" and key not in before):
            copy = {k: v for k, v in copy.items() if k != key}
        elif kind in ("insert", "update_after") and not (wrong == "zero" and not value):
            copy = {**copy, key: before.get(key, value) if wrong == "insert restores" else value}
    if wrong == "net":
        put = {key: value for kind, key, value in changes if kind in ("insert", "update_after")}
        return {k: v for k, v in before.items() if k not in touched} | put
    return sorted(copy.items()) if wrong == "pairs" else copy


def versions_of(function: _Function, word: str, *names: str) -> list[_Function]:
    return [lambda *given, name=name: function(*given, **{word: name}) for name in names]


def overlapping(data: Any, delete: Any) -> bool:
    return bool(data["lower"] <= delete["upper"] and delete["lower"] <= data["upper"])


_WHERE_ONE_LIES = (0, 7, 65_535, 65_536)

WRONG: dict[str, Sequence[_Function]] = {
    "01.3": [
        lambda value: value[0],
        lambda value: int.from_bytes(value[:2], "little", signed=True),
        lambda value: float(int.from_bytes(value, "little", signed=True)) + 0.5,
        lambda value: str(int.from_bytes(value, "little", signed=True)),
        lambda value: abs(int.from_bytes(value, "little", signed=True)),
        lambda value: struct.unpack("<i", value),
        lambda value: int.from_bytes(value, "little") - 2**32 * (value[3] == 255),
    ],
    "04.3": [
        lambda delete, data: 0 < delete - data <= 3,
        lambda delete, data: str(data) < str(delete),
        lambda delete, data: int(data < delete),
        lambda delete, data: data != delete,
        lambda delete, data: bool(data) and data < delete,
        lambda delete, data: data == delete - 1,
        lambda delete, data: data < min(delete, 9),
    ],
    "05.4": [
        live_by_value,
        live_in_place,
        live_twice,
        live_by(lambda file, path: file[-1] == path[-1]),
        live_by(str.startswith),
        live_by(lambda file, path: file in path),
        live_by(lambda file, path: file.lower() == path.lower()),
        lambda rows, path, deletes: tuple(sorted(live_by(str.__eq__)(rows, path, deletes))),
        lambda rows, path, deletes: set(live_by(str.__eq__)(rows, path, deletes)),
        lambda rows, path, deletes: [row for n, row in enumerate(rows) if (path, n) not in deletes[:2]],
    ],
    "06.3": [
        as_range,
        lambda blob: list(BitMap64.deserialize(blob[8:-4])),
        lambda blob: len(BitMap64.deserialize(blob[8:-4])),
        lambda blob: set(BitMap64.deserialize(blob[8:-4])) - {0},
        lambda blob: {n for n in BitMap64.deserialize(blob[8:-4]) if n < 2**32},
        lambda blob: set(list(BitMap64.deserialize(blob[8:-4]))[:1000]),
        lambda blob: {str(n) for n in BitMap64.deserialize(blob[8:-4])},
    ],
    "07.2": [
        lambda p: (p >> 32, p >> 16 & 0xFFFF),
        lambda p: (0, p >> 16, p & 0xFFFF),
        lambda p: (p >> 32, (p & 0xFFFFFFFF) // 65_537, p & 0xFFFF),
        lambda p: (p >> 32 & 0xF, p >> 16 & 0xFFFF, p & 0xFFFF),
        lambda p: (str(p >> 32), p >> 16 & 0xFFFF, p & 0xFFFF),
        lambda p: dict(zip(_WHERE_ONE_LIES, [(0, 0, 0), (0, 0, 7), (0, 0, 65_535), (0, 1, 0)], strict=True)).get(p, p),
    ],
    "07.5": [
        lambda numbers, runs: "run" if 2 + 4 * runs < 2 * numbers else "array" if numbers <= 4096 else "bitmap",
        lambda numbers, runs: "run" if runs == 1 else "array" if numbers <= 4096 else "bitmap",
        lambda numbers, runs: "run" if 2 + 4 * runs < 8192 else "array" if numbers <= 4096 else "bitmap",
        lambda numbers, runs: "array" if numbers <= 4096 else "run" if runs < 2048 else "bitmap",
        lambda numbers, runs: "run" if runs < numbers / 2 else "array" if numbers <= 4096 else "bitmap",
        lambda numbers, runs: ("run" if 2 + 4 * runs < 2 * min(numbers, 4096) else "array").upper(),
    ],
    "07.6": [
        lambda container, number: container[number // 8] >> number % 8 & 1,
        lambda container, number: container[number // 8] != 0,
        lambda container, number: bool(container[number // 8] >> number % 7 & 1),
        lambda container, number: bool(int.from_bytes(container, "big") >> number & 1),
        lambda container, number: number % 10 == 0,
        lambda container, number: bool(container[number >> 3 & 0xFF] >> (number & 7) & 1),
    ],
    "08.2": [
        *versions_of(applies, "without", "null partition", "second field", "scope", "age", "whole path", "bool"),
        lambda delete, data: applies(delete, data) if data["partition"] else False,
    ],
    "08.4": [
        *versions_of(hidden, "without", "types", "falsy", "later deletes", "lines", "first row", "mixed lines"),
        hidden_while,
        lambda position, row, deletes: hidden(position, {**row, "item": row["item"] or None}, deletes),
    ],
    "08.6": [
        overlaps_falsy,
        lambda data, delete: data["nulls"] or delete["nulls"] or overlaps(data, delete),
        lambda data, delete: overlaps({**data, "nulls": False}, delete),
        lambda data, delete: None in data.values() or overlaps(data, delete) if delete["lower"] else True,
        lambda data, delete: data["lower"] is None or overlapping(data, delete),
        lambda data, delete: 1 if overlaps(data, delete) else 0,
        lambda data, delete: True,
    ],
    "09.2": [
        lambda there, read, new: new if there.startswith(read) else there,
        lambda there, read, new: new if there.lower() == read.lower() else there,
        lambda there, read, new: new if there <= read else there,
        lambda there, read, new: new if there == read else None,
        lambda there, read, new: max(there, new) if there == read else there,
        lambda there, read, new: (new, there == read) if there == read else (there, False),
    ],
    "09.5": [
        merged_in_place,
        merged_neighbours,
        merged_from_before,
        lambda reports: {name: sorted(found) for name, found in merged_in_place(reports).items()},
        lambda reports: set(merged_in_place(reports)),
        lambda reports: {name: found - {0} for name, found in merged_in_place(reports).items()},
        lambda reports: {name.upper(): found for name, found in merged_in_place(reports).items()},
    ],
    "11.4": [
        lambda delete, data: not data or (data[0] >= delete and data[-1] >= delete),
        lambda delete, data: not data or data[0] >= delete,
        lambda delete, data: not data or str(min(data)) >= str(delete),
        lambda delete, data: not data or sum(data) / len(data) >= delete,
        lambda delete, data: delete - 1 not in data,
        lambda delete, data: [number for number in data if number < delete],
        lambda delete, data: data.sort() or not data or data[0] >= delete,
    ],
    "13.2": [
        *versions_of(writer, "wrong", "the last row", "row 0 is falsy", "the first row"),
        *versions_of(writer, "wrong", "new keys at a plus", "a list"),
        lambda changes, place={}: writer(changes, place=place),
        lambda changes: writer(sorted(changes)),
        lambda changes: writer(changes)["equality"],
    ],
    "14.2": [
        *versions_of(live_log, "wrong", "the last version", "adds first", "add once", "the vector", "vectors only"),
        lambda versions: set(live_log(versions)),
        lambda versions: list(live_log(versions).items()),
        lambda versions: live_log([*versions, *[[versions[0][0]]] * (len(versions) > 3 and len(versions[0]) > 0)]),
    ],
    "14.3": [
        lambda v: struct.pack(">I", len(v) & 0xFF) + v + struct.pack(">I", zlib.crc32(v)),
        lambda v: struct.pack(">I", len(v)) + v + struct.pack(">I", zlib.adler32(v)),
        lambda v: struct.pack(">I", len(v)) + v + struct.pack("<I", zlib.crc32(v)),
        lambda v: struct.pack(">I", len(v)) + v,
        lambda v: struct.pack(">I", zlib.crc32(v)) + v + struct.pack(">I", len(v)),
        lambda v: (struct.pack(">I", len(v)) + v + struct.pack(">I", zlib.crc32(v))).hex(),
    ],
    "17.4": [
        *versions_of(applied, "wrong", "net", "only old rows go", "zero", "insert restores", "pairs"),
        lambda copy, changes: applied(copy, sorted(changes)),
        lambda copy, changes: applied(copy, changes[:2]),
        lambda copy, changes: copy.update(applied(copy, changes)) or copy,
    ],
}

RIGHT: dict[str, Sequence[_Function]] = {
    "01.3": [lambda value: struct.unpack("<i", value)[0], lambda value: memoryview(value).cast("i")[0]],
    "04.3": [lambda delete, data: delete - data > 0, lambda delete, data: not data >= delete],
    "05.4": [live_by(str.__eq__), lambda *given: tuple(live_twice(*given[:2], set(given[2])))],
    "06.3": [positions_by_hand, lambda blob: BitMap64.deserialize(blob[8:-4])],
    "07.2": [lambda p: [p // 2**32, p // 2**16 % 2**16, p % 2**16]],
    "07.5": [lambda n, runs: min((2 * n, 0, "array"), (8192, 1, "bitmap"), (2 + 4 * runs, 2, "run"))[2]],
    "07.6": [lambda container, number: container[number >> 3] & 1 << (number & 7) != 0],
    "08.2": [applies],
    "08.4": [hidden],
    "08.6": [overlaps],
    "09.2": [lambda there, read, new: {read: new}.get(there, there)],
    "09.5": [lambda reports: {name: set().union(*(p for n, p in reports if n == name)) for name, p in reports if p}],
    "11.4": [lambda delete, data: min(data, default=delete) >= delete],
    "13.2": [writer, *versions_of(writer, "wrong", "a row is hidden again", "both")],
    "14.2": [live_log],
    "14.3": [lambda v: b"".join((len(v).to_bytes(4, "big"), v, zlib.crc32(v).to_bytes(4, "big")))],
    "17.4": [applied],
}

# The same mistakes as the exercises know, in other words: each gets its hint.
KNOWN: dict[str, Sequence[tuple[_Function, str]]] = {
    "01.3": [(lambda value: struct.unpack("<I", value)[0], "unsigned"), (lambda v: int(v.hex(), 16), "big_endian")],
    "04.3": [(lambda delete, data: data <= delete, "not_newer"), (lambda delete, data: not data <= delete, "newer")],
    "05.4": [(live_by(lambda *_: True), "of_any_file")],
    "06.3": [(lambda blob: {n % 2**32 for n in BitMap64.deserialize(blob[8:-4])}, "low_halves")],
    "07.2": [(lambda p: (p // 2**32, p // 2**16, p % 2**16), "middle_not_cut")],
    "07.5": [(lambda n, runs: "array" if n < 4097 else "bitmap", "never_runs")],
    "07.6": [(lambda container, n: container[n // 8] & 128 >> n % 8 > 0, "from_the_left")],
    "08.2": [(lambda delete, data: applies({**delete, "referenced_data_file": None}, data), "any_path")],
    "08.4": [
        (lambda position, row, deletes: any(position in d for d in deletes if isinstance(d, set)), "positions_only")
    ],
    "08.6": [(lambda data, delete: overlaps({**data, "nulls": False}, delete), "nulls_forgotten")],
    "09.2": [(lambda there, read, new: read == there, "whether")],
    "09.5": [
        (lambda reports: {n: p for n, p in reports if p}, "last_full_wins"),
        (lambda r: dict(iter(r)), "last_wins"),
    ],
    "11.4": [(lambda delete, data: min(data, default=delete + 1) > delete, "none_of_same_age")],
    "13.2": [(lambda changes: {**writer(changes), "equality": set()}, "positions_only")],
    "14.2": [(lambda versions: dict.fromkeys(live_log(versions)), "without_vectors")],
    "14.3": [(lambda v: struct.pack("<I", len(v)) + v + struct.pack("<I", zlib.crc32(v)), "little_endian")],
    "17.4": [(lambda copy, changes: applied(copy, [c for c in changes if c[0] != "update_before"]), "no_before")],
}


@pytest.mark.parametrize("exercise", _WITH_FUNCTIONS, ids=lambda exercise: exercise.id)
def test_wrong_functions_are_refused_and_right_ones_in_other_words_are_not(exercise: Exercise) -> None:
    wrong = WRONG[exercise.id]
    assert len(wrong) >= 5
    accepted = [n for n, function in enumerate(wrong) if judge(exercise, function).status != "not-yet"]
    assert not accepted
    for function, name in KNOWN[exercise.id]:
        by_name = import_module(f"deletekit.course.exercises.lesson_{exercise.lesson}").FUNCTIONS[exercise.id].by_name
        found = judge(exercise, function).mistake
        assert found is not None, name
        assert by_name[name] in exercise.mistakes[found - 1].answers
    for right in RIGHT[exercise.id]:
        assert judge(exercise, right).status == "correct", judge(exercise, right).said
