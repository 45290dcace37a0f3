"""Every history that Spark with Delta writes, synced at every version and all at once: the rows are Delta's own.

DeltaBridge shows the same bytes on both sides. Spark takes minutes to write all histories: CI has four of them.
"""

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.course.recordings.temporary_table import synced_table
from deletekit.course.views.bitmap_bytes import bitmap_bytes
from deletekit.course.views.byte_layout import delta_layout
from deletekit.course.views.delta_bridge import delta_bridge
from deletekit.course.views.delta_view import DeltaView
from deletekit.course.views.page import Facts, Grid, Page
from tests.delta.delta_tables import HISTORIES, DeltaTable, plain_rows
from tests.delta.reading import check_synced, live_delete_entries, live_vectors, of_a_peer, our_rows
from tests.interop.rows import same_rows
from tests.interop.test_peers import by_duckdb, by_polars, by_pyiceberg, quiet_polars
from tests.optional_types import SparkSession

MakeDelta = Callable[[str], DeltaTable]
IN_CI = {"dml": 3, "mapped": 2, "checkpoints": 3, "features": 2}
"""The histories of the second tier, and of which format version their tables are there."""


def in_ci(is_chosen: bool, *case: Any) -> Any:
    return pytest.param(*case, marks=() if is_chosen else pytest.mark.long)


# What a peer refuses: pyiceberg the INT96 timestamps that Spark writes.
UNREADABLE: dict[str, tuple[str, ...]] = {"pyiceberg": ("places", "types"), "polars": (), "duckdb": ()}


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Iterator[dk.Catalog]:
    """The embedded catalog that the shared session has as `local`."""
    catalog = dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.delta")
    yield catalog
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "format_version"), [in_ci(IN_CI.get(name) == v, name, v) for name in HISTORIES for v in (2, 3)]
)
def test_each_version_has_deltas_rows(
    spark: SparkSession, catalog: dk.Catalog, delta_table: MakeDelta, name: str, format_version: int
) -> None:
    delta = delta_table(name)
    identifier = f"delta.{name}_v{format_version}"
    for version, expected in delta.rows.items():
        synced = dk.sync_delta(delta.path, catalog, identifier, version=version, format_version=format_version)
        assert synced.version == version
        assert len(synced.commits) <= 1, "one snapshot for a sync"
        same_rows(our_rows(synced.table), expected)
        assert len(live_delete_entries(synced.table)) == live_vectors(delta.path, version)
        if version in (delta.latest // 2, delta.latest):
            same_rows(plain_rows(spark.table(f"local.{identifier}")), expected)
            assert dk.scan(synced.table).count() == len(expected)
    table = dk.load_table(catalog, identifier)
    assert dk.verify(table).ok
    check_synced(table)
    assert not dk.sync_delta(delta.path, catalog, identifier).commits, "nothing is left to do"
    once = dk.sync_delta(delta.path, catalog, f"{identifier}_once", format_version=format_version).table
    assert len(once.metadata.snapshots) == 1
    same_rows(our_rows(once), delta.rows[delta.latest])
    check_synced(once)


READERS: dict[str, tuple[Callable[[str], list[dict[str, Any]]], int]] = {
    "pyiceberg": (by_pyiceberg, 3),
    "polars": (by_polars, 3),
    "duckdb": (by_duckdb, 2),
}


@pytest.mark.peers
@quiet_polars
@pytest.mark.parametrize(
    ("peer", "name"),
    [in_ci(name in IN_CI, peer, name) for peer in READERS for name in HISTORIES if name not in UNREADABLE[peer]],
)
def test_peers_read_snapshots(catalog: dk.Catalog, delta_table: MakeDelta, peer: str, name: str) -> None:
    delta = delta_table(name)
    read, format_version = READERS[peer]
    identifier = f"delta.{name}_{peer}"
    for version in (delta.latest // 2, delta.latest):
        table = dk.sync_delta(delta.path, catalog, identifier, version=version, format_version=format_version).table
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Iceberg does not yet support 'ns'")
            same_rows(of_a_peer(read(table.metadata_location)), delta.rows[version])


@pytest.mark.peers
def test_spark_reads_references_and_all_read_repacked(
    spark: SparkSession, catalog: dk.Catalog, delta_table: MakeDelta
) -> None:
    delta = delta_table("mapped")
    table = dk.sync_delta(delta.path, catalog, "delta.referred", version=1, deletion_vectors="reference").table
    assert {Path(e["file_path"]).parent for e in live_delete_entries(table)} == {delta.path}
    same_rows(plain_rows(spark.table("local.delta.referred")), delta.rows[1])
    with pytest.raises(ValueError, match="magic"):
        by_pyiceberg(table.metadata_location)
    assert dk.repack(table).vectors == live_vectors(delta.path, 1)
    same_rows(plain_rows(spark.table("local.delta.referred")), delta.rows[1])
    same_rows(by_pyiceberg(table.metadata_location), delta.rows[1])
    after = dk.sync_delta(delta.path, catalog, "delta.referred")
    same_rows(our_rows(after.table), delta.rows[delta.latest])


def test_vacuum_leaves_what_lies_below_a_hidden_folder(
    spark: SparkSession, catalog: dk.Catalog, tmp_path: Path
) -> None:
    path = tmp_path / "delta"
    name = f"delta.`{path}`"
    properties = "'delta.enableDeletionVectors'='true'"
    spark.sql(f"CREATE TABLE {name} USING delta TBLPROPERTIES ({properties}) AS SELECT id FROM range(0, 20, 1, 1)")
    spark.sql(f"DELETE FROM {name} WHERE id < 2")
    table = dk.sync_delta(path, catalog, "delta.hidden", location=str(path / "_iceberg")).table
    spark.sql(f"DELETE FROM {name} WHERE id < 4")
    spark.sql(f"DELETE FROM {name} WHERE id < 5")
    for file in path.rglob("*"):
        os.utime(file, (1, 1))
    before = {file for file in path.rglob("*.bin") if file.parent == path}
    spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    assert {file for file in path.rglob("*.bin") if file.parent == path} < before, "it did delete vectors"
    same_rows(our_rows(table), [{"id": i} for i in range(2, 20)])
    synced = dk.sync_delta(path, catalog, "delta.hidden", commits="each")
    same_rows(our_rows(synced.table), [{"id": i} for i in range(5, 20)])
    same_rows(plain_rows(spark.table("local.delta.hidden")), [{"id": i} for i in range(5, 20)])
    assert dk.verify(synced.table).ok


# --- DeltaBridge ------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", [in_ci(name in ("dml", "checkpoints"), name) for name in HISTORIES])
def test_both_sides_have_the_same_at_each_version(delta_table: MakeDelta, name: str) -> None:
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
def test_a_log_of_which_the_beginning_is_gone(delta_table: MakeDelta, tmp_path: Path, name: str) -> None:
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


@pytest.mark.parametrize("name", [in_ci(name in IN_CI, name) for name in HISTORIES])
def test_every_byte_of_a_bin_that_delta_wrote_once(delta_table: MakeDelta, name: str) -> None:
    for file in delta_table(name).path.rglob("*.bin"):
        ranges = delta_layout(file.read_bytes())
        assert [r.start for r in ranges] == [0, *(r.stop for r in ranges[:-1])]
        assert ranges[-1].stop == file.stat().st_size
        assert not any(r.field == "unused" or ", but " in r.value for r in ranges)
        page = bitmap_bytes(file)
        assert not page.error
        assert "map" in {b.name for b in page.blocks}
