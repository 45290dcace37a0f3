"""DeltaBridge over every version of every history that Spark with Delta writes: both sides have the same bytes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deletekit.course.recordings.temporary_table import synced_table
from deletekit.course.views.bitmap_bytes import bitmap_bytes
from deletekit.course.views.byte_layout import delta_layout
from deletekit.course.views.delta_bridge import delta_bridge
from deletekit.course.views.delta_view import DeltaView
from deletekit.course.views.page import Facts, Grid, Page
from tests.delta.delta_tables import HISTORIES, DeltaTable
from tests.delta.reading import live_vectors


def lines(page: Page, name: str) -> list[tuple[str, ...]]:
    grid = page.block(name)
    assert isinstance(grid, Grid)
    return [line.cells for line in grid.lines]


def size_in_bytes(page: Page) -> int:
    """The descriptor's sizeInBytes, of the vector that a page shows."""
    facts = page.block("vector")
    assert isinstance(facts, Facts)
    return int(dict(facts.items)["Delta: sizeInBytes"])


def marks(source: DeltaView, version: int, mark: str) -> list[tuple[str, ...]]:
    """The actions with a mark, page by page."""
    found: list[tuple[str, ...]] = []
    start: int | None = 0
    while start is not None:
        grid = delta_bridge(source, version=version, start=start).block("actions")
        assert isinstance(grid, Grid)
        found += [line.cells for line in grid.lines if line.mark == mark]
        start = grid.next
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", HISTORIES)
def test_both_sides_have_the_same_at_each_version(delta_table: Callable[[str], DeltaTable], name: str) -> None:
    delta = delta_table(name)
    source = DeltaView(delta.path, None, synced_table)
    for version, rows in delta.rows.items():
        page = delta_bridge(source, version=version)
        assert not page.error, page.sentence
        counters = lines(page, "counters")
        assert {c[3] for c in counters} == {"same"}, counters
        live = marks(source, version, "live")
        with_vectors = [c for c in live if c[3] != "-"]
        assert len(with_vectors) == live_vectors(delta.path, version)
        assert sum(int(c[5]) for c in live) - sum(int(c[4]) for c in with_vectors) == len(rows)
        for cells in with_vectors:
            aligned = delta_bridge(source, version=version, vector=cells[3])
            assert {c[-1] for c in lines(aligned, "bytes")} == {"same"}
            assert sum(int(c[3].replace(",", "")) for c in lines(aligned, "bytes")) == size_in_bytes(aligned) + 8
            assert "positions in Delta and Iceberg: same" in aligned.sentence


@pytest.mark.parametrize("name", ["checkpoints", "features"])
def test_a_log_of_which_the_beginning_is_gone(
    delta_table: Callable[[str], DeltaTable], tmp_path: Path, name: str
) -> None:
    """Checkpoints of Spark's, classic and V2 with sidecars, in place of the commits before them."""
    delta = delta_table(name)
    whole, cut = DeltaView(delta.path, None, synced_table), tmp_path / name
    shutil.copytree(delta.path, cut)
    versions = {
        int(f.name[:20]) for f in (cut / "_delta_log").iterdir() if f.name[0] == "0" and ".checkpoint." in f.name
    }
    assert versions
    for commit in (cut / "_delta_log").glob("*.json"):
        if ".checkpoint." not in commit.name and int(commit.stem) <= min(versions):
            commit.unlink()
    source = DeltaView(cut, None, synced_table)
    for version in range(min(versions), delta.latest + 1):
        page = delta_bridge(source, version=version)
        assert not page.error
        assert lines(page, "counters") == lines(delta_bridge(whole, version=version), "counters")
        assert lines(page, "actions")[0][1] == "checkpoint: add"
        left, right = (sorted(c[4:] for c in marks(s, version, "live")) for s in (source, whole))
        assert left == right


@pytest.mark.parametrize("name", HISTORIES)
def test_every_byte_of_a_bin_that_delta_wrote_once(delta_table: Callable[[str], DeltaTable], name: str) -> None:
    for file in delta_table(name).path.rglob("*.bin"):
        ranges = delta_layout(file.read_bytes())
        assert [r.start for r in ranges] == [0, *(r.stop for r in ranges[:-1])]
        assert ranges[-1].stop == file.stat().st_size
        assert not any(r.field == "unused" or ", but " in r.value for r in ranges)
        page = bitmap_bytes(file)
        assert not page.error
        assert "map" in {b.name for b in page.blocks}
