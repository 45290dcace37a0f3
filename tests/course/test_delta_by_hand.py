"""The Delta table that lesson 14 writes by hand: its bytes, against code that shares nothing with deletekit's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyroaring import BitMap64

import deletekit as dk
from deletekit.course.delta_by_hand import DeltaByHand
from deletekit.table.open_catalog import local_catalog
from tests.delta import handmade


@pytest.mark.parametrize("positions", [range(100), [0, 7, 2**33], []])
def test_vectors_have_their_bytes_in_a_file_and_in_the_log(tmp_path: Path, positions: range | list[int]) -> None:
    delta = DeltaByHand(tmp_path / "delta")
    in_file, inline = delta.write_vector("dv.bin", positions), delta.inline_vector(positions)
    stored = (delta.folder / "dv.bin").read_bytes()
    body = stored[5:-4]
    assert stored == b"\x01" + handmade.frame(body)
    assert list(BitMap64.deserialize(body[4:])) == list(positions)
    assert inline == handmade.inline(body, len(positions))
    assert (in_file["offset"], in_file["sizeInBytes"], in_file["cardinality"]) == (1, len(body), len(positions))
    assert in_file["pathOrInlineDv"] == (delta.folder / "dv.bin").as_uri()


def test_an_iceberg_table_follows_it_and_a_second_begin_finds_nothing(tmp_path: Path) -> None:
    delta = DeltaByHand(tmp_path / "delta")
    catalog = local_catalog(tmp_path / "warehouse")
    delta.write_rows("a.parquet", range(10))
    vector = delta.write_vector("dv.bin", [1, 2])
    for _ in range(2):  # a cell may be run again
        delta.commit(0, delta.protocol, delta.table, delta.add("a.parquet"))
        delta.commit(1, delta.remove("a.parquet"), delta.add("a.parquet", vector))
    table = dk.sync_delta(delta.folder, catalog, "lesson.followed").table
    assert sorted(dk.scan(table).to_arrow()["id"].to_pylist()) == [0, 3, 4, 5, 6, 7, 8, 9]
    assert [(row["version"], row["Type"], row["Path"], row["DV Path"]) for row in delta.log()] == [
        (0, "AddFile", "a.parquet", None),
        (1, "RemoveFile", "a.parquet", None),
        (1, "AddFile", "a.parquet", "dv.bin"),
    ]
    assert DeltaByHand(delta.folder).log() == []


def test_what_it_did_not_write_stays(tmp_path: Path) -> None:
    (kept := tmp_path / "_delta_log").mkdir()
    with pytest.raises(dk.InvalidInputError, match="not empty"):
        DeltaByHand(tmp_path)
    assert kept.exists()
