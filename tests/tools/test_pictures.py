"""Every widget has a picture for README, none so large that a page of eight is slow; the drawing is as it is made."""

import struct

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install 'deletekit[test]'")

from deletekit.course import widgets
from tests.tools.pictures import DRAWING, LARGEST_PICTURE, PICTURES, TALLEST, WIDGETS, WIDTH, drawing


def test_every_widget_has_a_picture() -> None:
    shown = {code.partition("(")[0].removeprefix("w.") for code in WIDGETS.values()}
    assert shown == set(widgets.__all__) - {"Explorer", "explore"}
    assert {file.stem for file in PICTURES.glob("*")} == {*WIDGETS, DRAWING.stem}


def test_the_drawing_is_as_it_is_made() -> None:
    made = drawing()
    assert DRAWING.read_text(encoding="utf-8") == made.markup, "run `python -m tests.tools.pictures`"
    facts = ["M1, data manifest: D1", "M2, delete manifest: V1", "V1, deletion vector, added: record_count 2"]
    assert {*facts, "V1 applies to D1."} <= set(made.text.splitlines())


@pytest.mark.parametrize("name", WIDGETS)
def test_a_picture_is_a_small_png(name: str) -> None:
    data = (PICTURES / f"{name}.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert 500 < width <= WIDTH
    assert 200 < height <= TALLEST + 1
    assert len(data) <= LARGEST_PICTURE
