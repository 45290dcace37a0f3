"""What users of Apache XTable ask for or report, each with the number of the issue in apache/incubator-xtable.

The Delta tables are made by hand. The Iceberg tables are read by pyiceberg and polars, the Delta tables by deltalake.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from tests.delta.handmade import HandMade, Json, body_of, inline, remove, with_vector
from tests.delta.reading import by_deltalake, check_synced, live_delete_entries
from tests.interop.test_peers import by_duckdb, by_polars, by_pyiceberg, quiet_polars

pytestmark = [pytest.mark.peers, quiet_polars]
VERSIONS = pytest.mark.parametrize("format_version", [3, 2])


@pytest.fixture
def delta(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "delta")


def ids(rows: list[dict[str, object]]) -> list[object]:
    return sorted(row["id"] for row in rows)  # type: ignore[type-var]


def seen_by_all(table: dk.Table) -> list[object]:
    """The ids that deletekit, pyiceberg and polars read, which must be the same."""
    location = table.refresh().metadata_location
    ours = sorted(dk.scan(table).to_arrow()["id"].to_pylist())
    assert ids(by_pyiceberg(location)) == ids(by_polars(location)) == ours
    return ours


@VERSIONS
def test_issue_657_a_delete_after_the_first_sync(delta: HandMade, catalog: dk.Catalog, format_version: int) -> None:
    """#657: 1,000 rows, DELETE id < 100, and a sync that succeeds: XTable wrote no delete file; DuckDB reads it."""
    adds = [delta.data(range(n, n + 250)) for n in range(0, 1000, 250)]
    delta.commit(*adds)
    dk.sync_delta(delta.path, catalog, "t.d", format_version=format_version)
    delta.commit(remove(adds[0]), with_vector(adds[0], delta.vector(range(100))))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    head = table.metadata.current_snapshot
    assert head is not None
    totals = {name: head.summary[f"total-{name}"] for name in ("records", "data-files", "delete-files")}
    assert totals == {"records": "1000", "data-files": "4", "delete-files": "1"}
    assert head.summary["total-position-deletes"] == "100"
    assert seen_by_all(table) == ids(by_duckdb(table.metadata_location)) == list(range(100, 1000))
    check_synced(table)


@VERSIONS
def test_issue_938_a_vector_older_than_the_last_sync(delta: HandMade, catalog: dk.Catalog, format_version: int) -> None:
    """#938: vectors that are older than the last sync, and a sync without new commits, must not lose deletes."""
    add = with_vector(delta.data(range(10)), delta.vector([1, 2]))
    delta.commit(add)
    for _ in range(2):
        table = dk.sync_delta(delta.path, catalog, "t.d", format_version=format_version).table
    delta.commit(delta.data(range(10, 12)))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert seen_by_all(table) == [0, *range(3, 12)]


def test_issue_938_what_cannot_be_converted_fails(delta: HandMade, catalog: dk.Catalog) -> None:
    """#938: by default a sync fails instead of a target that shows deleted rows."""
    delta.commit(delta.data(range(3)))
    dk.sync_delta(delta.path, catalog, "t.d")
    vector = {"storageType": "x", "pathOrInlineDv": "abc", "sizeInBytes": 40, "cardinality": 1}
    add = delta.data(range(3, 6))
    delta.commit(with_vector(add, vector))
    with pytest.raises(dk.UnsupportedError) as e:
        dk.sync_delta(delta.path, catalog, "t.d")
    assert e.value.kind == "delta-storage-type"
    assert seen_by_all(dk.load_table(catalog, "t.d")) == [0, 1, 2]


@VERSIONS
@pytest.mark.parametrize("storage", ["u", "i"])
def test_issue_343_and_348_each_kind_of_vector(
    delta: HandMade, catalog: dk.Catalog, format_version: int, storage: str
) -> None:
    """#343, #348: vectors in files and inline become deletes of the Iceberg target, of the same data file."""
    add = delta.data(range(6), "a.parquet")
    vector: Json = delta.vector([0, 5]) if storage == "u" else inline(body_of([0, 5]), 2)
    delta.commit(with_vector(add, vector), delta.data(range(6, 8), "b.parquet"))
    table = dk.sync_delta(delta.path, catalog, "t.d", format_version=format_version).table
    assert [e["referenced_data_file"] for e in live_delete_entries(table)] == [f"{delta.path}/a.parquet"]
    assert seen_by_all(table) == [1, 2, 3, 4, 6, 7]


@VERSIONS
def test_issue_348_a_vector_that_is_replaced_and_cleared(
    delta: HandMade, catalog: dk.Catalog, format_version: int
) -> None:
    """#348: a new vector replaces the old one of its file (the commit has a remove and an add of the same path), a
    cleared one is gone, and the data file is never counted twice (#595).
    """
    plain = delta.data(range(6))
    one, two = (with_vector(plain, delta.vector(range(n))) for n in (1, 3))
    delta.commit(plain)
    seen = []
    for old, new in ((None, None), (plain, one), (one, two), (two, plain)):
        if old is not None and new is not None:
            delta.commit(remove(old), new)
        table = dk.sync_delta(delta.path, catalog, "t.d", format_version=format_version).table
        seen.append(seen_by_all(table))
        head = table.metadata.current_snapshot
        assert head is not None
        assert head.summary["total-data-files"] == "1"
    assert seen == [list(range(n, 6)) for n in (0, 1, 3, 0)]
    assert live_delete_entries(table) == []


def test_issue_346_position_deletes_of_an_iceberg_source(catalog: dk.Catalog, tmp_path: Path) -> None:
    """#346: deletes of an Iceberg table arrive in the Delta target; position delete files after they became vectors."""
    table = dk.create_table(catalog, "t.i", pa.schema([("id", pa.int64())]), format_version=2)
    dk.append(table, pa.table({"id": range(10)}))
    dk.delete(table, "id < 3", mode="merge-on-read")
    dk.upgrade_format_version(table, 3)
    with pytest.raises(dk.UnsupportedError) as e:
        dk.export_delta(table, tmp_path / "exported")
    assert e.value.kind == "delta-deletes"
    dk.rewrite_position_deletes(table)
    dk.export_delta(table, tmp_path / "exported")
    assert ids(by_deltalake(tmp_path / "exported")) == list(range(3, 10))


def test_issue_339_there_and_back(delta: HandMade, catalog: dk.Catalog, tmp_path: Path) -> None:
    """#339: a table with vectors, Delta to Iceberg and Iceberg to Delta, has the same rows everywhere."""
    adds = [delta.data(range(n, n + 5)) for n in (0, 5)]
    delta.commit(with_vector(adds[0], delta.vector([0])), adds[1])
    for step in (None, with_vector(adds[1], delta.vector([2, 3]))):
        if step is not None:
            delta.commit(remove(adds[1]), step)
        table = dk.sync_delta(delta.path, catalog, "t.d").table
        dk.export_delta(table, tmp_path / "back")
        rows = seen_by_all(table)
        assert ids(by_deltalake(tmp_path / "back")) == ids(by_deltalake(delta.path)) == rows
    assert rows == [1, 2, 3, 4, 5, 6, 9]
