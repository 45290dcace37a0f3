"""Exercises of 14_delta_to_iceberg."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from pyroaring import BitMap64

from deletekit.course.answer_values import MAPPING, NUMBER, function
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

_Versions = Sequence[Sequence[tuple[str, str, str | None]]]
_Live = dict[str, str | None]

_CREATED = [("add", "a", None)]
_DELETED = [("remove", "a", None), ("add", "a", "dv_1")]
_AGAIN = [("remove", "a", "dv_1"), ("add", "a", "dv_2")]
_OPTIMIZED = [("remove", "a", "dv_2"), ("add", "d", None)]
_RESTORED = [("remove", "d", None), ("add", "a", "dv_1")]

_LOGS: tuple[tuple[_Versions], ...] = (
    ([_CREATED, _DELETED],),
    ([_CREATED, _DELETED, _AGAIN],),
    ([_CREATED, _DELETED, _AGAIN, _OPTIMIZED],),
    ([_CREATED, _DELETED, _AGAIN, _OPTIMIZED, _RESTORED],),
    ([_CREATED, _DELETED[::-1]],),
    ([_CREATED, [("remove", "gone", None)], [("add", "a", None)]],),
)
_VECTORS = tuple(
    (struct.pack("<I", 1681511377) + BitMap64(positions).serialize(),) for positions in ([3, 5], range(1000), [2**32])
)


def _live_files(versions: _Versions) -> _Live:
    live: _Live = {}
    for version in versions:
        for kind, path, _ in version:
            if kind == "remove":
                live.pop(path, None)
        live |= {path: vector for kind, path, vector in version if kind == "add"}
    return live


def _as_listed(versions: _Versions) -> _Live:
    live: _Live = {}
    for version in versions:
        for kind, path, vector in version:
            if kind == "add":
                live[path] = vector
            else:
                live.pop(path, None)
    return live


def _only_adds(versions: _Versions) -> _Live:
    return {path: vector for version in versions for kind, path, vector in version if kind == "add"}


def _without_vectors(versions: _Versions) -> _Live:
    return dict.fromkeys(_live_files(versions))


def _pairs_cancel(versions: _Versions) -> _Live:
    """What removes and adds a path in one version is left as it was."""
    live: _Live = {}
    for version in versions:
        removed = {path for kind, path, _ in version if kind == "remove"}
        added = {path: vector for kind, path, vector in version if kind == "add"}
        live = {path: vector for path, vector in live.items() if path not in removed - set(added)}
        live |= {path: vector for path, vector in added.items() if path not in removed}
    return live


def _must_be_there(versions: _Versions) -> _Live:
    live: _Live = {}
    for version in versions:
        for kind, path, _ in version:
            if kind == "remove":
                del live[path]
        live |= {path: vector for kind, path, vector in version if kind == "add"}
    return live


def _blob(vector: bytes) -> bytes:
    return struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def _little_endian(vector: bytes) -> bytes:
    return struct.pack("<I", len(vector)) + vector + struct.pack("<I", zlib.crc32(vector))


def _length_of_all(vector: bytes) -> bytes:
    return struct.pack(">I", len(vector) + 8) + vector + struct.pack(">I", zlib.crc32(vector))


def _checksum_of_length_too(vector: bytes) -> bytes:
    counted = struct.pack(">I", len(vector)) + vector
    return counted + struct.pack(">I", zlib.crc32(counted))


def _checksum_without_magic(vector: bytes) -> bytes:
    return struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector[4:]))


def _second_magic(vector: bytes) -> bytes:
    return _blob(struct.pack("<I", 1681511377) + vector)


EXERCISES = (
    Exercise(
        id="14.1",
        form=NUMBER,
        accepts=(1000,),
        mistakes=(
            Mistake(
                answers=(900,),
                hint="That is what Delta has. But where does it stand that 100 rows are gone? In the one field that this converter does not read.",
            ),
            Mistake(
                answers=(2000, 1900),
                hint="The file is removed before it is added again, so its rows are there once.",
            ),
            Mistake(answers=(0,), hint="The file is added again in the same version, so it is live."),
        ),
        hints=(
            "Which data files are live after version 1, and how many rows do they hold?",
            "A data file is never changed: `file_a.parquet` holds 1,000 rows as before.",
        ),
        why="The data file is live and holds 1,000 rows. Only its vector knows that 100 of them are deleted.",
    ),
    Exercise(
        id="14.2",
        form=function(*_LOGS),
        accepts=(_live_files,),
        mistakes=(
            Mistake(
                answers=(_as_listed,),
                hint="Within a version the actions have no order: an `add` may stand before the `remove` of the same path. Do all removes first.",
            ),
            Mistake(answers=(_only_adds,), hint="A file that is removed and not added again is not live any more."),
            Mistake(
                answers=(_without_vectors,),
                hint="The files are right. Each `add` also says which vector its file has now.",
            ),
            Mistake(
                answers=(_pairs_cancel,),
                hint="A remove and an add of one path do not cancel each other: the file stays, and the vector is that of the `add`.",
            ),
            Mistake(
                answers=(_must_be_there,),
                hint="A `remove` may name a file that is not live; it is ignored and is no error.",
            ),
        ),
        hints=(
            "Keep a dict from path to vector, and go through the versions one by one.",
            "Two loops over each version: `live.pop(path, None)` for every remove, then `live[path] = vector` for every add.",
        ),
        why="Version by version, first what is removed and then what is added: this is how Delta's protocol reconciles actions.",
    ),
    Exercise(
        id="14.3",
        form=function(*_VECTORS),
        accepts=(_blob,),
        mistakes=(
            Mistake(
                answers=(_little_endian,),
                hint="Length and checksum are big-endian in both formats; only the vector between them is little-endian.",
            ),
            Mistake(
                answers=(_length_of_all,),
                hint="The length counts magic and bitmap only, not itself and not the checksum.",
            ),
            Mistake(
                answers=(_checksum_of_length_too,),
                hint="The checksum is of magic and bitmap, without the length before them.",
            ),
            Mistake(
                answers=(_checksum_without_magic,),
                hint="The checksum covers the magic as well.",
            ),
            Mistake(
                answers=(_second_magic,),
                hint="The magic is the first part of what you are given; do not write it twice.",
            ),
        ),
        hints=(
            "Four bytes of length, the vector, four bytes of CRC-32.",
            '`struct.pack(">I", n)` makes four bytes, and `zlib.crc32(vector)` is the checksum.',
        ),
        why="Length, vector, CRC-32: this is the frame in Delta's file, and the blob in Iceberg's Puffin file.",
    ),
    Exercise(
        id="14.4",
        form=NUMBER,
        accepts=(1,),
        mistakes=(
            Mistake(
                answers=(2,),
                hint="The old vector is removed in Delta's log, so it must leave the Iceberg table too. At most one may be live for a data file.",
            ),
            Mistake(answers=(0,), hint="Rows are still deleted, and the data file was not rewritten."),
            Mistake(answers=(110, 100, 10), hint="These are positions. A vector holds many of them."),
        ),
        hints=(
            "Which vectors are live in Delta after version 2?",
            "The new vector holds the old one's rows too, so the old one is not needed any more.",
        ),
        why="The new vector replaces the old one in the same commit, as in Delta's log.",
    ),
    Exercise(
        id="14.5",
        form=NUMBER,
        accepts=(110,),
        mistakes=(
            Mistake(
                answers=(210,),
                hint="So it is when the file of version 1 stays beside that of version 2. But it was replaced, as its vector was.",
            ),
            Mistake(
                answers=(10,),
                hint="Those are the new ones. The vector of version 2 holds the hundred of version 1 as well.",
            ),
            Mistake(answers=(1, 2), hint="A position delete file has one line for each deleted row."),
        ),
        hints=(
            "Which vector is live at version 2, and what is its cardinality?",
            "One position delete file stands for one vector, and goes with it.",
        ),
        why="One file for the one live vector, with its 110 positions; the file of the vector before it has left the table.",
    ),
    Exercise(
        id="14.6",
        form=NUMBER,
        accepts=(0,),
        mistakes=(
            Mistake(
                answers=(1,),
                hint="Whose rows would it hide? Its data file has left the table, and so has the vector in Delta's log.",
            ),
            Mistake(answers=(2,), hint="Vectors do not pile up: each one has left with what it was about."),
        ),
        hints=(
            "Which data files are live after version 3, and which of them has a vector?",
            "`file_d.parquet` was added without a vector.",
        ),
        why="The deleted rows are not in the new file, so nothing is left to hide, and the vector goes with its data file.",
    ),
    Exercise(
        id="14.7",
        form=NUMBER,
        accepts=(900,),
        mistakes=(
            Mistake(
                answers=(890,),
                hint="So it is when a delete, once added, is never taken back. Version 1 had not deleted ids from 990 on.",
            ),
            Mistake(
                answers=(1000,),
                hint="The file comes back together with a vector: the first one.",
            ),
            Mistake(answers=(1790, 1890), hint="`file_d.parquet` was removed; only one of the two files is live."),
        ),
        hints=("How many rows had version 1?", "`file_a.parquet` has 1,000 rows, and `dv_1` deletes 100 of them."),
        why="The file is back with its first vector, as in version 1: a state was taken over, not a sum of deletes.",
    ),
    Exercise(
        id="14.8",
        form=MAPPING,
        accepts=({"coalesce": 0, "each": 2},),
        mistakes=(
            Mistake(
                answers=({"coalesce": 1, "each": 2},),
                hint="Compare the two states: at version 1 the file had `dv_1`, at version 4 it has `dv_1`. What is there to write?",
            ),
            Mistake(
                answers=({"coalesce": 1, "each": 3}, {"coalesce": 0, "each": 3}),
                hint="Does every one of the three versions bring a vector? Look at the OPTIMIZE.",
            ),
            Mistake(
                answers=({"coalesce": 2, "each": 2},),
                hint="One commit for all three is a difference of two states: what came and went in between is not in it.",
            ),
            Mistake(
                answers=({"coalesce": 0, "each": 1}, {"coalesce": 1, "each": 1}),
                hint="Version 2 brings `dv_2`, and version 4 brings `dv_1` back, which had left the table.",
            ),
        ),
        hints=(
            "Go through it version by version: 2 has `dv_2`, 3 has none, 4 has `dv_1`.",
            "For the difference of versions 1 and 4: is any file or vector another?",
        ),
        why="Version 4 is what version 1 was, so nothing has to be written; step by step two vectors come and one of them goes.",
    ),
    Exercise(
        id="14.9",
        form=NUMBER,
        accepts=(40,),
        mistakes=(
            Mistake(
                answers=(39, 38), hint="Z85 writes whole groups of four bytes: pad to the next multiple of four first."
            ),
            Mistake(answers=(44, 42), hint="That is base64, which writes three bytes as four characters."),
            Mistake(
                answers=(50,),
                hint="Inline there is no length and no checksum: the text is magic and bitmap only.",
            ),
            Mistake(answers=(31, 32, 62, 64), hint="Four bytes become five characters, not four and not eight."),
        ),
        hints=("31 bytes are padded to 32.", "Eight groups of four bytes, five characters each."),
        why="31 bytes are padded to 32, eight groups of four, and each group becomes five characters.",
    ),
)
