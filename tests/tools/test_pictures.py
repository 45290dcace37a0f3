"""Every widget has a picture for README, and none is so large that a page of eight is slow."""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install 'deletekit[test]'")

from deletekit.course import widgets
from tests.tools.pictures import LARGEST_PICTURE, PICTURES, TALLEST, WIDGETS, WIDTH


def test_every_widget_has_a_picture() -> None:
    shown = {code.partition("(")[0].removeprefix("w.") for code in WIDGETS.values()}
    assert shown == set(widgets.__all__) - {"Explorer", "explore"}
    assert {file.stem for file in PICTURES.glob("*")} == set(WIDGETS)


@pytest.mark.parametrize("name", WIDGETS)
def test_a_picture_is_a_small_png(name: str) -> None:
    data = (PICTURES / f"{name}.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert 500 < width <= WIDTH
    assert 200 < height <= TALLEST + 1
    assert len(data) <= LARGEST_PICTURE
