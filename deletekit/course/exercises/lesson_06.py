"""Exercises of 06_deletion_vectors."""

from __future__ import annotations

import struct

from pyroaring import BitMap, BitMap64

from deletekit.course.answer_values import IDS, MAPPING, NUMBER, TEXT, function
from deletekit.course.exercise import Exercise, Mistake
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob

__all__ = ["EXERCISES"]

_BLOBS = tuple(
    (encode_blob(PositionBitmap(positions)),) for positions in ((0, 2), (100, 150, 200), range(1000), (7, 2**32 + 5))
)


def _positions(blob: bytes) -> set[int]:
    return set(BitMap64.deserialize(blob[8:-4]))


def _sorted_positions(blob: bytes) -> list[int]:
    return sorted(_positions(blob))


def _first_bitmap(blob: bytes) -> set[int]:
    return set(BitMap.deserialize(blob[20:-4]))


def _low_halves(blob: bytes) -> set[int]:
    return {position & 0xFFFFFFFF for position in _positions(blob)}


def _checksum_left_in(blob: bytes) -> set[int]:
    return set(struct.unpack(f"<{(len(blob) - 8) // 4}I", blob[8 : 8 + (len(blob) - 8) // 4 * 4]))


EXERCISES = (
    Exercise(
        id="06.1",
        form=IDS,
        accepts=({0, 2},),
        mistakes=(
            Mistake(
                answers=({1, 3},),
                hint="1 and 3 are values of the column id. A vector holds positions, and the first row has position 0.",
            ),
            Mistake(answers=({0, 1},), hint="Positions count all rows of the file, not only those that are deleted."),
            Mistake(answers=({1, 2, 3}, {0, 1, 2}), hint="`id in (1, 3)` names two rows, not a range."),
        ),
        hints=("In which row of the file is id 1, counted from 0?", "The file holds ids 1, 2, 3, 4 in this order."),
        why="Id 1 is in row 0 and id 3 in row 2 of the data file: positions are ordinals from 0, whatever the values are.",
    ),
    Exercise(
        id="06.2",
        form=TEXT,
        accepts=("PFA1", b"PFA1", "50464131", "0x50464131"),
        mistakes=(
            Mistake(
                answers=("D1D33964", "d1d33964", "D1 D3 39 64", b"\xd1\xd39d"),
                hint="That is the magic of the vector inside the blob; the file has a magic of its own before any blob.",
            ),
            Mistake(
                answers=("00000024", "length", "36"),
                hint="The length is the first field of the blob, so it stands behind content_offset, not before it.",
            ),
        ),
        hints=(
            "Print the first four bytes of the file.",
            "Every Puffin file begins and ends with the same four letters.",
        ),
        why="A Puffin file begins with its magic PFA1, so the first blob starts at byte 4.",
    ),
    Exercise(
        id="06.3",
        form=NUMBER,
        accepts=(32,),
        mistakes=(
            Mistake(answers=(36,), hint="The length field counts the magic too; take its four bytes off as well."),
            Mistake(answers=(44, 40), hint="44 is the whole blob: length, magic, vector and checksum."),
            Mistake(
                answers=(2, 8), hint="The bitmap needs a header too: how many bytes are left between magic and CRC?"
            ),
        ),
        hints=(
            "44 bytes are length + magic + vector + CRC.",
            "Length, magic and CRC take four bytes each.",
        ),
        why="44 - 4 (length) - 4 (magic) - 4 (CRC) = 32 bytes for the vector itself.",
    ),
    Exercise(
        id="06.4",
        form=function(*_BLOBS),
        accepts=(_positions, _sorted_positions),
        mistakes=(
            Mistake(
                answers=(_first_bitmap,),
                hint="This reads the first 32-bit bitmap only. A vector has one for each key, and the count says how many.",
            ),
            Mistake(
                answers=(_low_halves,),
                hint="The key is the upper half of each position: position = key * 2**32 + number in the bitmap.",
            ),
            Mistake(
                answers=(_checksum_left_in,),
                hint="These are raw numbers of the serialised bitmap; let pyroaring read it.",
            ),
        ),
        hints=(
            "The vector lies between the magic, which ends at byte 8, and the four bytes of CRC.",
            "`BitMap64.deserialize(blob[8:-4])` reads count, keys and bitmaps in one go.",
        ),
        why="Behind length and magic comes a 64-bit Roaring bitmap in its portable format; the last four bytes are the CRC.",
    ),
    Exercise(
        id="06.5",
        form=IDS,
        accepts=({0, 2, 3},),
        mistakes=(
            Mistake(
                answers=({3},),
                hint="Only one vector may be live for a data file, so the new one has to hold what the old one said too.",
            ),
            Mistake(answers=({0, 2, 4}, {4}), hint="Id 4 is in row 3: positions begin at 0."),
            Mistake(answers=({0, 1, 2, 3},), hint="Id 2 was never deleted."),
        ),
        hints=("The first vector goes when the second one comes.", "The union of {0, 2} and the position of id 4."),
        why="The new vector is the union of the old one and the new position, and replaces it in the same commit.",
    ),
    Exercise(
        id="06.6",
        form=NUMBER,
        accepts=(2,),
        mistakes=(
            Mistake(answers=(3,), hint="The third worker finds no row, and an empty vector is never written."),
            Mistake(answers=(1,), hint="Workers share no file: each one that finds rows writes its own."),
            Mistake(answers=(4, 0), hint="Count the workers that find at least one of the four ids."),
        ),
        hints=(
            "In which of the three files are ids 0, 6, 16 and 28?",
            "Ids of file C leave the remainder 2 when divided by 3.",
        ),
        why="Workers A and B write one Puffin file each; worker C writes nothing, and one commit takes both in.",
    ),
    Exercise(
        id="06.7",
        form=IDS,
        accepts=({200},),
        mistakes=(
            Mistake(
                answers=({100, 200},),
                hint="They are not united by readers: where there is a vector, position delete files of that data file are ignored.",
            ),
            Mistake(answers=({100},), hint="It is the other way round: the vector wins."),
            Mistake(answers=(set(),), hint="A vector never switches itself off: what it holds is hidden."),
        ),
        hints=(
            "Which of the two does a v3 reader look at when both are there?",
            "The specification says that readers ignore position delete files for a data file that has a vector.",
        ),
        why="The vector wins, so a writer that adds one must fold the positions of older delete files into it.",
    ),
    Exercise(
        id="06.8",
        form=MAPPING,
        accepts=(
            {"magic": "deletion-vector-magic", "bitmap": "deletion-vector-crc", "count": "deletion-vector-cardinality"},
        ),
        mistakes=(
            Mistake(
                answers=(
                    {
                        "magic": "deletion-vector-crc",
                        "bitmap": "deletion-vector-crc",
                        "count": "deletion-vector-cardinality",
                    },
                ),
                hint="The CRC covers the magic as well, but the magic is looked at first: it says what the bytes are.",
            ),
            Mistake(
                answers=(
                    {
                        "magic": "deletion-vector-magic",
                        "bitmap": "deletion-vector-cardinality",
                        "count": "deletion-vector-cardinality",
                    },
                ),
                hint="A flipped bit in the bitmap may leave the number of positions as it was; what notices it every time?",
            ),
        ),
        hints=("Run the cell above and read the kinds.", "Each damage is found by the check that is nearest to it."),
        why="Length, magic, CRC and the manifest's record_count are four independent checks, and a reader makes all of them.",
    ),
)
