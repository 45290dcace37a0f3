"""Every history that Spark with Delta writes, synced at every version and all at once: the rows are Delta's own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import deletekit as dk
from tests.delta.delta_tables import HISTORIES, DeltaTable, plain_rows
from tests.delta.reading import check_synced, live_delete_entries, live_vectors, of_a_peer, our_rows
from tests.interop.rows import same_rows
from tests.interop.test_peers import by_duckdb, by_polars, by_pyiceberg, quiet_polars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeDelta = Callable[[str], DeltaTable]

# What a peer refuses: pyiceberg the INT96 timestamps that Spark writes.
UNREADABLE: dict[str, tuple[str, ...]] = {"pyiceberg": ("places", "types"), "polars": (), "duckdb": ()}


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Iterator[dk.Catalog]:
    """The embedded catalog that the shared session has as `local`."""
    catalog = dk.local_catalog(Path(spark.conf.get("spark.sql.catalog.local.warehouse")))
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.delta")
    yield catalog
    catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("format_version", [3, 2])
@pytest.mark.parametrize("name", HISTORIES)
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


@pytest.mark.sampled(2)
@pytest.mark.peers
@quiet_polars
@pytest.mark.parametrize(
    ("peer", "name"), [(peer, name) for peer in READERS for name in HISTORIES if name not in UNREADABLE[peer]]
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
