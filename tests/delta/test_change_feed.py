"""Delta's change data feed, and `dk.changes` of the Iceberg table that follows, give the same between two versions."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.delta.reading import plain
from tests.optional_types import SparkSession

VERSIONS = pytest.mark.parametrize("format_version", [3, 2])
Changes = Counter[tuple[str, int, str | None]]
MERGE = """
    MERGE INTO {} t USING (SELECT id FROM range(95, 105)) s ON t.id = s.id WHEN MATCHED AND s.id = 99 THEN DELETE
    WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, NULL)
"""
_LEFT = ("delete", "update_preimage", "update_before")


def counted(rows: list[dict[str, Any]]) -> Changes:
    """Rows that left and came, by number. Which rows an update pairs, the two tell in their own ways."""
    sides = [("left" if row["_change_type"] in _LEFT else "came", row["id"], row["v"]) for row in rows]
    return Counter(sides)


def by_deletekit(synced: dk.results.DeltaSync, first: int, last: int) -> Changes:
    """The changes after one Delta version up to another: a snapshot for each version."""
    at = {int(s.summary["deletekit.delta-version"]): s.snapshot_id for s in synced.table.metadata.snapshots.values()}
    rows = dk.changes(synced.table, at[first], at[last]).to_arrow()
    return counted(plain(rows.select(["_change_type", "id", "v"])))


@pytest.mark.sampled(3, tier=1)
@pytest.mark.peers
@VERSIONS
@pytest.mark.parametrize("seed", range(3))
def test_as_deltalake_has_it(tmp_path: Path, catalog: dk.Catalog, format_version: int, seed: int) -> None:
    """delta-rs deletes by writing files again, so rows that it only wrote again must be no changes."""
    import deltalake  # noqa: PLC0415  # a peer

    path, chance = tmp_path / "delta", random.Random(seed)
    on = {"delta.enableChangeDataFeed": "true"}
    deltalake.write_deltalake(path, pa.table({"id": range(20), "v": ["a"] * 20}), configuration=on)
    for step in range(6):
        table, at = deltalake.DeltaTable(path), chance.randrange(20)
        match chance.choice(["append", "delete", "update", "merge"]):
            case "append":
                rows = pa.table({"id": range(100 * step, 100 * step + 3), "v": [None, "b", "b"]})
                deltalake.write_deltalake(path, rows, mode="append")
            case "delete":
                table.delete(f"id < {at}")
            case "update":
                table.update(predicate=f"id >= {at}", updates={"v": f"'u{step}'"})
            case "merge":
                source = pa.table({"id": [at, 1000 + step], "v": [f"m{step}"] * 2})
                merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
                merge.when_matched_update_all().when_not_matched_insert_all().execute()
    synced = dk.sync_delta(path, catalog, "t.d", commits="each", format_version=format_version)
    known = {int(s.summary["deletekit.delta-version"]) for s in synced.table.metadata.snapshots.values()}
    pairs = [(a, b) for a in sorted(known) for b in sorted(known) if a < b]
    assert pairs
    for first, last in pairs:
        feed = deltalake.DeltaTable(path).load_cdf(starting_version=first + 1, ending_version=last)
        theirs = counted(plain(pa.table(feed).select(["_change_type", "id", "v"])))
        assert by_deletekit(synced, first, last) == theirs, (first, last)


@pytest.mark.slow
def test_as_spark_has_it(spark: SparkSession, tmp_path: Path, catalog: dk.Catalog) -> None:
    """With deletion vectors; OPTIMIZE and REORG change nothing."""
    path = tmp_path / "delta"
    name = f"delta.`{path}`"
    properties = "'delta.enableDeletionVectors'='true', 'delta.enableChangeDataFeed'='true'"
    for statement in (
        f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta TBLPROPERTIES ({properties})",
        f"INSERT INTO {name} SELECT /*+ REPARTITION(1) */ id, 'a' FROM range(100)",
        f"DELETE FROM {name} WHERE id < 10",
        f"UPDATE {name} SET v = 'b' WHERE id % 20 = 0",
        MERGE.format(name),
        f"OPTIMIZE {name}",
        f"DELETE FROM {name} WHERE id = 50",
        f"REORG TABLE {name} APPLY (PURGE)",
    ):
        spark.sql(statement)
    feeds: dict[tuple[int, int], Changes] = {}
    for format_version in (2, 3):
        synced = dk.sync_delta(path, catalog, f"t.v{format_version}", commits="each", format_version=format_version)
        known = sorted(int(s.summary["deletekit.delta-version"]) for s in synced.table.metadata.snapshots.values())
        assert len(known) == 7
        for first, last in [*pairwise(known), (known[0], known[-1]), (known[1], known[4])]:
            if (first, last) not in feeds:
                query = f"SELECT _change_type, id, v FROM table_changes_by_path('{path}', {first + 1}, {last})"
                feeds[first, last] = counted([row.asDict() for row in spark.sql(query).collect()])
            assert by_deletekit(synced, first, last) == feeds[first, last], (format_version, first, last)
