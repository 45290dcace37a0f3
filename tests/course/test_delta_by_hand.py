"""The Delta table that lesson 14 writes by hand: its bytes, against code that shares nothing with deletekit's."""

from pathlib import Path

import pytest
from pyroaring import BitMap64

import deletekit as dk
from deletekit.course.delta_by_hand import DeltaByHand
from tests.delta import handmade


@pytest.mark.parametrize("positions", [range(100), [0, 7, 2**33], []])
def test_a_vector_has_its_bytes_in_a_file(tmp_path: Path, positions: range | list[int]) -> None:
    delta = DeltaByHand(tmp_path / "delta")
    in_file = delta.write_vector("dv.bin", positions)
    stored = (delta.folder / "dv.bin").read_bytes()
    body = stored[5:-4]
    assert stored == b"\x01" + handmade.frame(body)
    assert list(BitMap64.deserialize(body[4:])) == list(positions)
    assert (in_file["offset"], in_file["sizeInBytes"], in_file["cardinality"]) == (1, len(body), len(positions))
    assert in_file["pathOrInlineDv"] == (delta.folder / "dv.bin").as_uri()


def test_what_it_did_not_write_stays(tmp_path: Path) -> None:
    (kept := tmp_path / "_delta_log").mkdir()
    with pytest.raises(dk.InvalidInputError, match="not empty"):
        DeltaByHand(tmp_path)
    assert kept.exists()
