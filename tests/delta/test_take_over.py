"""A sync goes on with Iceberg tables that XTable and UniForm made of the same Delta table."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from tests.delta.handmade import HandMade, remove, with_vector
from tests.delta.reading import check_synced, raises_kind
from tests.tables import ids

# As XTable's main of 2026 writes it.
XTABLE = {
    "lastInstantSynced": "2026-08-22T16:10:52Z",
    "instantsToConsiderForNextSync": [],
    "version": 0,
    "sourceTableFormat": "DELTA",
    "sourceIdentifier": "1",
}
MARKS = [{"XTABLE_METADATA": json.dumps(XTABLE)}, {"delta-version": "1", "delta-timestamp": "1756000000000"}]


def made_elsewhere(catalog: dk.Catalog, delta: HandMade, marks: dict[str, str], **more: str) -> dk.Table:
    """An Iceberg table with Delta's data files, without its vectors, as those tools make it."""
    table = dk.create_table(catalog, "t.d", pa.schema([("id", pa.int64())]), format_version=3, **more)
    dk.add_files(table, [str(p) for p in sorted(delta.path.glob("*.parquet"))])
    dk.set_properties(table, marks)
    return table


@pytest.mark.parametrize("marks", MARKS, ids=["xtable", "uniform"])
def test_every_file_is_compared_and_the_next_sync_goes_on(
    delta: HandMade, catalog: dk.Catalog, marks: dict[str, str]
) -> None:
    """XTable shows deleted rows, and may have missed a removed file; the sync mends both."""
    gone, add = delta.data(range(4), "gone.parquet"), delta.data(range(4, 8), "kept.parquet")
    delta.commit(gone, add)
    made_elsewhere(catalog, delta, marks)
    delta.commit(remove(gone), remove(add), with_vector(add, delta.vector([0])))
    synced = dk.sync_delta(delta.path, catalog, "t.d")
    assert (synced.version, synced.previous_version) == (1, None)
    assert ids(synced.table) == [5, 6, 7]
    check_synced(synced.table)
    assert not marks.keys() & synced.table.properties.keys(), "so that the other tool does not continue from there"
    delta.commit(delta.data(range(9, 10)))
    synced = dk.sync_delta(delta.path, catalog, "t.d")
    assert (synced.version, synced.previous_version, ids(synced.table)) == (2, 1, [5, 6, 7, 9])


@pytest.mark.parametrize("marks", MARKS, ids=["xtable", "uniform"])
def test_a_table_in_deltas_folder_is_refused(delta: HandMade, catalog: dk.Catalog, marks: dict[str, str]) -> None:
    delta.commit(delta.data(range(4), "a.parquet"))
    made_elsewhere(catalog, delta, marks, location=str(delta.path))
    with raises_kind("delta-take-over"):
        dk.sync_delta(delta.path, catalog, "t.d")
    assert ids(dk.sync_delta(delta.path, catalog, "t.another_name").table) == [0, 1, 2, 3], "what the message says"


def test_a_table_of_another_delta_table_is_refused(delta: HandMade, catalog: dk.Catalog, tmp_path: Path) -> None:
    other = HandMade(tmp_path / "other")
    other.commit(other.data(range(3), "a.parquet"))
    delta.commit(delta.data(range(4), "a.parquet"))
    table = made_elsewhere(catalog, other, MARKS[0])
    with raises_kind("delta-take-over", found=f"{other.path}/a.parquet"):
        dk.sync_delta(delta.path, catalog, "t.d")
    assert ids(table.refresh()) == [0, 1, 2]
    assert ids(dk.sync_delta(delta.path, catalog, "t.d", force=True).table) == [0, 1, 2, 3], "what the message says"


def test_a_table_of_another_source_format_is_foreign(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(delta.data(range(4), "a.parquet"))
    made_elsewhere(catalog, delta, {"XTABLE_METADATA": json.dumps({**XTABLE, "sourceTableFormat": "HUDI"})})
    with raises_kind("delta-foreign-table"):
        dk.sync_delta(delta.path, catalog, "t.d")
