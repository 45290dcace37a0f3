"""Exercises of 01_table_anatomy."""

from __future__ import annotations

import struct

from deletekit.course.answer_values import NUMBER, TEXT, function
from deletekit.course.exercise import Exercise, Mistake

__all__ = ["EXERCISES"]

_BOUNDS = tuple((struct.pack("<i", number),) for number in (1, 300, -5, 2**31 - 1))


def _signed(value: bytes) -> int:
    return int.from_bytes(value, "little", signed=True)


EXERCISES = (
    Exercise(
        id="01.1",
        form=NUMBER,
        accepts=(4,),
        mistakes=(
            Mistake(
                answers=(1,),
                hint="That is the data file. How does a reader learn that it belongs to the table?",
            ),
            Mistake(
                answers=(2,),
                hint="Between the table metadata and the data file there are two more levels.",
            ),
            Mistake(
                answers=(3,), hint="A commit also writes a new table metadata file, for nothing is changed in place."
            ),
        ),
        hints=(
            "Go the way of a reader: which files does it open before it sees a row?",
            "Table metadata, manifest list, manifest, data file: which of them are new?",
        ),
        why="One data file, one manifest that lists it, one manifest list that lists the manifest, one new table metadata.",
    ),
    Exercise(
        id="01.2",
        form=TEXT,
        accepts=("table metadata", "metadata.json", "metadata", "the table metadata"),
        mistakes=(
            Mistake(
                answers=("manifest", "the manifest"),
                hint="A manifest names files of data or of deletes. It is often said to hold the snapshots, and never does.",
            ),
            Mistake(
                answers=("manifest list", "the manifest list"),
                hint="A manifest list belongs to one snapshot; which file names them all, each with its manifest list?",
            ),
            Mistake(answers=("data file",), hint="A data file holds rows and knows of no table."),
        ),
        hints=(
            "Look for the word `snapshots` in what was printed above.",
            "It is the only one of the four that is JSON.",
        ),
        why="The table metadata lists every snapshot; each snapshot has one manifest list, and that lists manifests.",
    ),
    Exercise(
        id="01.3",
        form=function(*_BOUNDS),
        accepts=(_signed, lambda value: struct.unpack("<i", value)[0]),
        mistakes=(
            Mistake(
                answers=(lambda value: int.from_bytes(value, "big", signed=True), lambda v: int.from_bytes(v, "big")),
                hint="The order of the bytes: Iceberg stores the lowest one first.",
            ),
            Mistake(
                answers=(lambda value: int.from_bytes(value, "little"),),
                hint="Ids may be negative: one of the values that your function is tried on is.",
            ),
        ),
        hints=("Four bytes, little-endian, with a sign.", '`int.from_bytes(value, "little", signed=True)`'),
        why="Bounds of an int are four bytes, little-endian and signed: Appendix D of the specification has one form for each type.",
    ),
    Exercise(
        id="01.4",
        form=TEXT,
        accepts=("D2",),
        mistakes=(
            Mistake(
                answers=("D1",),
                hint="Its bounds are 1 and 10, so it may hold id 7. Open it and see: bounds exclude, they do not prove.",
            ),
            Mistake(answers=("D3",), hint="Its lower bound is above 7, so a reader does not even open it."),
        ),
        hints=("Two of the three files may hold it by their bounds.", "Open both of them and look at the column id."),
        why="Bounds leave D1 and D2; only opening them shows that 7 is in D2. That is how a scan prunes, and where it must read.",
    ),
    Exercise(
        id="01.5",
        form=NUMBER,
        accepts=(3,),
        mistakes=(
            Mistake(
                answers=(1,),
                hint="The third commit wrote one manifest, but its list also names those that are still in force.",
            ),
            Mistake(answers=(4,), hint="The manifest list is no manifest; count the records in it."),
            Mistake(answers=(6,), hint="Each list is complete in itself: do not add up the lists of all snapshots."),
        ),
        hints=("Read L3 with fastavro and count its records.", "Every append added a manifest, and none has gone."),
        why="A manifest list is the whole snapshot: it names old manifests again instead of copying what is in them.",
    ),
)
