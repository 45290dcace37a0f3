"""Functions that learners write: wrong ones that one may think of are refused, right ones in other words are not."""

# a lambda has the parameters of its exercise

from __future__ import annotations

import struct
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap, BitMap64

from deletekit.course.checking import judge
from deletekit.course.exercise import Exercise
from deletekit.course.exercises.all import EXERCISES, SOLUTIONS
from deletekit.course.function_answers import written

WRONG = tomllib.loads(Path(__file__).with_name("wrong_functions.toml").read_text(encoding="utf-8"))


def positions_by_hand(blob: bytes) -> set[int]:
    at, found = 16, set[int]()
    for _ in range(struct.unpack("<q", blob[8:16])[0]):
        bitmap = BitMap.deserialize(blob[at + 4 :])
        found |= {(struct.unpack("<I", blob[at : at + 4])[0] << 32) + n for n in bitmap}
        at += 4 + len(bitmap.serialize())
    return found


def applies(delete: Any, data: Any) -> bool:
    by_value = delete["kind"] == "equality-delete"
    here = all(delete[field] == data[field] for field in ("spec_id", "partition"))
    named = delete["referenced_data_file"] in (None, data["file_path"])
    older = data["sequence_number"] - by_value < delete["sequence_number"] + (not by_value) - by_value
    return bool(older and ((not delete["partition"] and by_value) or (here and named)))


def hidden(position: int, row: Any, deletes: Any) -> bool:
    return any(
        position in one if isinstance(one, set) else any(line.items() <= row.items() for line in one) for one in deletes
    )


def overlaps(data: Any, delete: Any) -> bool:
    """Use each bound that is known."""
    pairs = ((data["lower"], delete["upper"]), (delete["lower"], data["upper"]))
    apart = any(None not in (lower, upper) and lower > upper for lower, upper in pairs)
    return (data["nulls"] and delete["nulls"]) or not apart


def deletes_of(changes: Any) -> dict[str, set[int]]:
    rows = [key if change == "+" else None for change, key in changes]
    written = [key for key in rows if key is not None]
    live = {key: change for change, key in changes}
    last = {key: n for n, key in enumerate(written) if live[key] == "+"}
    return {"equality": {key for _, key in changes}, "positions": set(range(len(written))) - set(last.values())}


def live_files(versions: Any) -> dict[str, Any]:
    live: dict[str, Any] = {}
    for version in versions:
        added = {path: vector for kind, path, vector in version if kind == "add"}
        live = {
            path: vector for path, vector in live.items() if ("remove", path) not in [a[:2] for a in version]
        } | added
    return live


def applied(copy: Any, changes: Any) -> Any:
    for kind, key, value in changes:
        others = {k: v for k, v in copy.items() if k != key}
        copy = others if kind in ("delete", "update_before") else others | {key: value}
    return copy


RIGHT: dict[str, Callable[..., Any]] = {
    "01.3": lambda value: struct.unpack("<i", value)[0],
    "04.3": lambda delete, data: not delete - data <= 0,
    "05.4": lambda rows, path, deletes: tuple(row for n, row in enumerate(rows) if (path, n) not in deletes),
    "06.3": positions_by_hand,
    "07.2": lambda p: [p // 2**32, p // 2**16 % 2**16, p % 2**16],
    "07.5": lambda n, runs: min((2 * n, 0, "array"), (8192, 1, "bitmap"), (2 + 4 * runs, 2, "run"))[2],
    "07.6": lambda container, number: container[number >> 3] & 1 << (number & 7) != 0,
    "08.2": applies,
    "08.4": hidden,
    "08.6": overlaps,
    "09.2": lambda there, read, new: {read: new}.get(there, there),
    "09.5": lambda reports: {name: set().union(*(p for n, p in reports if n == name)) for name, p in reports if p},
    "11.4": lambda delete, data: min(data, default=delete) >= delete,
    "13.2": deletes_of,
    "14.2": live_files,
    "14.3": lambda v: b"".join((len(v).to_bytes(4, "big"), v, zlib.crc32(v).to_bytes(4, "big"))),
    "17.4": applied,
}


@pytest.mark.parametrize("exercise", [e for e in EXERCISES.values() if e.answer_kind.cases], ids=lambda one: one.id)
def test_wrong_functions_are_refused_and_right_ones_in_other_words_are_not(exercise: Exercise) -> None:
    code, wrong = SOLUTIONS[exercise.id], WRONG[exercise.id]
    assert len(wrong) >= 5
    for edits in wrong:
        assert edits[0] in code
        assert judge(exercise, written(code, *edits)).status == "not-yet", edits
    right = judge(exercise, RIGHT[exercise.id])
    assert right.status == "correct", right.said


def test_a_bitmap_is_a_set() -> None:
    assert judge(EXERCISES["06.3"], lambda blob: BitMap64.deserialize(blob[8:-4])).status == "correct"
