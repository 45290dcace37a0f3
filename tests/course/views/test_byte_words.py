"""Every byte range of every file has its words in every language, and counts read well for one thing and for many."""

import re

import pytest
from pyroaring import BitMap

from deletekit.course.translations import LANGUAGES, Messages
from deletekit.course.views.byte_layout import ByteRange, blob_layout, layout
from deletekit.course.views.byte_words import field_name, part_name, value_text
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.formats.puffin import Blob, puffin_parts
from tests.course.views.test_bitmap_bytes import FILES, frame
from tests.course.views.test_byte_layout import native, portable

languages = pytest.mark.parametrize("lang", LANGUAGES)
NEVER_TRANSLATED = {"blob", "cookie", "CRC", "PFA", "Roaring", "x"}


def ranges() -> list[ByteRange]:
    """One of each field of every kind of file."""
    delta = b"\x01" + frame(portable(BitMap([1, 3]))) + frame(native(BitMap(range(70_000))))
    parts, _ = puffin_parts([Blob(type="x", data=b"a" * 20), Blob(type="x", data=b"b" * 20)])
    other = b"".join(parts)
    gap = other.replace(b'"length":20}]', b'"length":15}]')
    found = [r for file in FILES if not file.stem.startswith("unknown_flag") for r in layout(file.read_bytes())]
    found += [*layout(delta), *layout(gap)]
    return list({(r.field, r.part.partition(" ")[0], r.counted): r for r in found}.values())


@languages
def test_every_field_and_part_has_a_name(lang: str) -> None:
    say, english = Messages(lang), Messages("en")
    for found in ranges():
        names = [field_name(say, found.field), part_name(say, found.part), value_text(say, found)]
        if lang not in ("en", "es"):
            # Values of their own: magics, types of blobs, names of codecs.
            words = set(re.findall("[A-Za-z]+", " ".join(names).replace(found.value, "")))
            assert words <= NEVER_TRANSLATED, (found, names)
        if lang != "en":
            assert names[0] != field_name(english, found.field)


@languages
@pytest.mark.parametrize("count", [1, 2, 5])
def test_counts_are_right_for_one_and_many(lang: str, count: int) -> None:
    blob = encode_blob(PositionBitmap([key << 16 for key in range(count)]))
    counts = {r.field: value_text(Messages(lang), r) for r in blob_layout(blob) if r.counted is not None}
    data = b"".join(puffin_parts([Blob(type="x", data=b"a")] * count)[0])
    counts |= {r.field: value_text(Messages(lang), r) for r in layout(data) if r.counted is not None}
    assert {"offsets", "payload"} <= set(counts)
    for said in counts.values():
        assert str(count) in re.findall(r"\d+", said)
        assert not re.search(r"\b1 (?:blobs|containers|runs|bloques|contenedores)\b", said)
