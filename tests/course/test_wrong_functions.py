"""Functions that learners write: wrong ones that one may think of are refused, right ones in other words are not."""

# a lambda has the parameters of its exercise

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyroaring import BitMap, BitMap64

from deletekit.course.checking import judge
from deletekit.course.exercise import Exercise
from deletekit.course.exercises.all import EXERCISES, SOLUTIONS
from deletekit.course.function_answers import written

_KEPT = "    return [row for position, row in enumerate(rows) if position not in gone]"
_PLACE = '(delete["spec_id"], delete["partition"]) == (data["spec_id"], data["partition"])'
_ABOUT = 'delete["referenced_data_file"] == data["file_path"]'
_READ = "BitMap64.deserialize(blob[8:-4])"
_RANGES = 'data["lower"] <= delete["upper"] and delete["lower"] <= data["upper"]'
_RUN = '"run" if 2 + 4 * runs < size else kind'

WRONG: dict[str, Sequence[tuple[str, ...]]] = {
    "01.3": [
        ("int.from_bytes(value", "int.from_bytes(value[:2]"),
        ("int.from_bytes(value", "abs(int.from_bytes(value", "True)", "True))"),
        ("int.from_bytes(value", "str(int.from_bytes(value", "True)", "True))"),
        ("True)", "True) or None"),
        ("True)", "value[3] == 255)"),
        ("True)", "True) if value in (b'\\1\\0\\0\\0', b',\\1\\0\\0', b'\\xfb\\xff\\xff\\xff') else 2**31 - 1"),
    ],
    "04.3": [
        ("data < delete", "0 < delete - data <= 3"),
        ("data < delete", "str(data) < str(delete)"),
        ("data < delete", "int(data < delete)"),
        ("data < delete", "data != delete"),
        ("data < delete", "0 < data < delete"),
        ("data < delete", "data < min(delete, 9)"),
    ],
    "05.4": [
        ("file == path", "file[-1] == path[-1]"),
        ("file == path", "path.startswith(file)"),
        ("file == path", "path.endswith(file)"),
        ("file == path", "file.lower() == path.lower()"),
        ("in deletes", "in deletes[:3]"),
        ("position not in gone]", "row not in [rows[p] for p in gone if p < len(rows)]]"),
        ("in gone]", "in gone and row not in rows[:position]]"),
        (_KEPT, "    return sorted(row for position, row in enumerate(rows) if position not in gone)"),
        (_KEPT, "    return {row for position, row in enumerate(rows) if position not in gone}"),
        (
            _KEPT,
            "    for n in sorted(gone, reverse=True):\n        rows[n : n + 1] = []\n    return rows",
        ),
    ],
    "06.3": [
        (f"set({_READ})", f"list({_READ})"),
        (f"set({_READ})", f"len({_READ})"),
        (f"set({_READ})", f"set({_READ}) - {{0}}"),
        (f"set({_READ})", f"set({_READ} & BitMap64(range(2**32)))"),
        (f"set({_READ})", f"set(list({_READ})[:1000])"),
        (f"set({_READ})", f"set(range({_READ}.min(), {_READ}.min() + len({_READ})))"),
    ],
    "07.2": [
        (", position & 0xFFFF", ""),
        ("position >> 32", "0"),
        ("position >> 32", "position >> 33"),
        ("position >> 32", "str(position >> 32)"),
        ("position >> 32", "position >> 32 & 0xF"),
        (">> 16 & 0xFFFF", ">> 16 & 0x7FFF"),
    ],
    "07.5": [
        ("< size", "< 2 * numbers"),
        ("< size", "< 8192"),
        ("2 + 4 * runs < size", "runs == 1"),
        ("2 + 4 * runs < size", "runs < numbers / 2"),
        (_RUN, f'({_RUN}) if kind == "bitmap" else kind'),
        (_RUN, f"({_RUN}).upper()"),
    ],
    "07.6": [
        ("bool(container[number // 8] >> number % 8 & 1)", "container[number // 8] >> number % 8 & 1"),
        (" >> number % 8 & 1", ""),
        (" & 1", ""),
        ("% 8", "% 7"),
        ("bool(container[number // 8] >> number % 8 & 1)", "number % 10 == 0"),
        ("number // 8]", "number // 8 & 0xFF]"),
    ],
    "08.2": [
        (_PLACE, f'{_PLACE} and None not in data["partition"].values()'),
        (_PLACE, '[*delete["partition"].values()][:1] == [*data["partition"].values()][:1]'),
        (_ABOUT, 'data["file_path"].startswith(delete["referenced_data_file"])'),
        ('delete["partition"] == {} or same_place', 'not delete["partition"] and not data["partition"] or same_place'),
        (
            'data["sequence_number"]',
            'str(data["sequence_number"])',
            '< delete["sequence_number"]',
            '< str(delete["sequence_number"])',
            '> delete["sequence_number"]',
            '> str(delete["sequence_number"])',
        ),
        ("    return same_place", "    return int(same_place)"),
        ('return data["sequence_number"] < delete["sequence_number"] and', "return"),
    ],
    "08.4": [
        ("row[column] == value", "str(row[column]) == str(value)"),
        ("row[column] == value", "row[column] and row[column] == value"),
        ("in deletes:", "in deletes[:1]:"),
        ("in line.items()) for line in delete)", "in line.items()) for line in delete[:1])"),
        ("in line.items()", "in list(line.items())[:1]"),
        ("if position in delete", "if position and position in delete"),
        ("        if isinstance", "        deletes.remove(delete)\n        if isinstance"),
        ("return True", "return 1"),
    ],
    "08.6": [
        ('if data["nulls"] and', 'if data["nulls"] or'),
        ('if data["nulls"] and delete["nulls"]', 'if delete["nulls"]'),
        ("if None in", "if not all", ', delete["upper"])', ', delete["upper"]))', "all (", "all(("),
        ('data["upper"], delete["lower"], delete["upper"])', 'data["upper"])'),
        (f"return {_RANGES}", f"return int({_RANGES})"),
        (_RANGES, 'data["lower"] <= delete["lower"] <= data["upper"]'),
        (_RANGES, 'data["lower"] in range(delete["lower"], delete["upper"] + 1)'),
    ],
    "09.2": [
        ("there == read", "there.startswith(read)"),
        ("there == read", "there.lower() == read.lower()"),
        ("there == read", "there <= read"),
        ("else there", "else None"),
        ("new if", "max(new, there) if"),
        ("return new if there == read else there", "return (new, True) if there == read else (there, False)"),
    ],
    "09.5": [
        (
            "vectors.get(name, set()) | positions",
            "vectors.setdefault(name, positions)\n            vectors[name] |= positions",
        ),
        ("(reports):", "(reports, vectors={}):", "    vectors = {}\n", ""),
        ("in reports", "in dict(reports).items()"),
        ("in reports", "in reports[:4]"),
        ("[name]", "[name.upper()]", "get(name", "get(name.upper()"),
        ("| positions", "^ positions"),
        ("return vectors", "return {name: sorted(found) for name, found in vectors.items()}"),
        ("return vectors", "return set(vectors)"),
    ],
    "11.4": [
        ("in data", "in data[:1] + data[-1:]"),
        ("in data", "in data[:1]"),
        ("number < delete", "str(number) < str(delete)"),
        ("number < delete", "number == delete - 1"),
        ("not any(number < delete for number in data)", "not data or sum(data) / len(data) >= delete"),
        ("not any(number < delete for number in data)", "data.sort() or not data or data[0] >= delete"),
        ("not any(number < delete for number in data)", "[number for number in data if number < delete]"),
    ],
    "13.2": [
        ("positions.add(place.pop(key))", "positions.add(written - 1)\n            place.pop(key)"),
        ("if key in place", "if place.get(key)"),
        ("place[key] = written", "place.setdefault(key, written)", "place.pop(key)", "place[key]"),
        ("else:", 'elif change == "+":'),
        ("in changes", "in sorted(changes)"),
        ("in changes", "in dict.fromkeys(changes)"),
        ("(changes):", "(changes, place={}):", "place, written = {}, 0", "written = 0"),
        ('"positions": positions', '"positions": sorted(positions)'),
        ('{"equality": equality, "positions": positions}', "equality, positions"),
    ],
    "14.2": [
        ("in versions", "in versions[-1:]"),
        ("in versions", "in reversed(versions)"),
        (
            '"remove"',
            '"x"',
            '"add"',
            '"remove"',
            '"x"',
            '"add"',
            "live.pop(path, None)",
            "live[path] = _",
            "live[path] = vector",
            "live.pop(path, None)",
        ),
        ('if kind == "add"', 'if kind == "add" and path not in live'),
        ('if kind == "add"', 'if kind == "add" and vector'),
        ("path, _ in", "path, old in", 'if kind == "remove"', 'if kind == "remove" and live.get(path) == old'),
        ("return live", "return set(live)"),
        ("return live", "return sorted(live.items(), key=str)"),
    ],
    "14.3": [
        ("len(vector)", "len(vector) & 0xFF"),
        ("crc32", "adler32"),
        (' + struct.pack(">I", zlib', ' + struct.pack("<I", zlib'),
        (' + struct.pack(">I", zlib.crc32(vector))', ""),
        ("len(vector)", "zlib.crc32(vector)", "vector + struct", 'vector + struct.pack(">I", len(vector)) or struct'),
        ("return ", "return (", "crc32(vector))", "crc32(vector))).hex()"),
    ],
    "17.4": [
        ("copy.pop(key)", "copy.pop(key) if key in before else None", "    for", "    before = dict(copy)\n    for"),
        ("in changes:", "in dict.fromkeys(changes):", "pop(key)", "pop(key, None)"),
        ("in changes:", "in sorted(changes):", "pop(key)", "pop(key, None)"),
        ("in changes:", "in changes[:3]:"),
        ("else:", "elif value:", "pop(key)", "pop(key, None)"),
        ("copy[key] = value", "copy.setdefault(key, value)", '"update_before"', '"x"'),
        ("return copy", "return sorted(copy.items())"),
        ("return copy", "return None"),
    ],
}


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
