"""Maintenance of a synced table, also at the same time as others: the version stays right, and nothing is hidden."""

import time

import pyarrow as pa
import pytest

import deletekit as dk
from tests.commit.racing import Interfering
from tests.delta.handmade import HandMade, Json, remove, with_vector
from tests.delta.reading import check_synced, raises_kind
from tests.tables import ids

NO_DATA: Json = {"commitInfo": {"operation": "SET TBLPROPERTIES"}}


def expire_all_but_the_head(table: dk.Table) -> dk.Table:
    time.sleep(0.01)  # a snapshot is expired when it is older than the cut-off
    dk.clean_up_delta(table, older_than=time.time_ns() // 1_000_000)
    assert len(table.refresh().metadata.snapshots) == 1
    return table


@pytest.mark.parametrize("no_data", [False, True])
@pytest.mark.parametrize(
    ("verb", "format_version"), [("rewrite_manifests", 2), ("rewrite_manifests", 3), ("rewrite_position_deletes", 2)]
)
def test_the_snapshot_that_names_the_version_expires(
    delta: HandMade, catalog: dk.Catalog, verb: str, format_version: int, no_data: bool
) -> None:
    adds = [with_vector(delta.data(range(n, n + 5), f"{n}.parquet"), delta.vector([1])) for n in (0, 10)]
    delta.commit(*adds)
    dk.sync_delta(delta.path, catalog, "t.d", format_version=format_version)
    last = delta.commit(delta.data(range(50, 52)))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    if no_data:
        last = delta.commit(NO_DATA)
        table = dk.sync_delta(delta.path, catalog, "t.d").table
    if verb == "rewrite_manifests":
        dk.rewrite_manifests(table)
    else:
        dk.rewrite_position_deletes(table, rewrite_all=True)
    expire_all_but_the_head(table)
    assert dk.sync_delta(delta.path, catalog, "t.d").previous_version == last
    delta.commit(remove(adds[0]), with_vector(adds[0], delta.vector([1, 2])), remove(adds[1]))
    synced = dk.sync_delta(delta.path, catalog, "t.d")
    assert (synced.previous_version, ids(synced.table)) == (last, [0, 3, 4, 50, 51])
    check_synced(synced.table)


def test_a_foreign_commit_stays_foreign_when_snapshots_expire(delta: HandMade, catalog: dk.Catalog) -> None:
    """What the message tells to do works."""
    delta.commit(delta.data(range(3)))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    dk.append(table, [{"id": 99}])
    expire_all_but_the_head(table)
    with pytest.raises(dk.InvalidInputError, match="tells any more which version") as e:
        dk.sync_delta(delta.path, catalog, "t.d")
    assert e.value.kind == "delta-foreign-table"
    assert ids(dk.sync_delta(delta.path, catalog, "t.other").table) == [0, 1, 2]
    assert ids(dk.sync_delta(delta.path, catalog, "t.d", force=True).table) == [0, 1, 2]


def test_a_sync_is_faster_than_repack(delta: HandMade, catalog: dk.Catalog) -> None:
    """The version is that of the head that repack commits on, not of the one it began on."""
    before = with_vector(delta.data(range(10), "a.parquet"), delta.vector([1]))
    delta.commit(before)
    dk.sync_delta(delta.path, catalog, "t.d", deletion_vectors="reference")
    delta.commit(remove(before), with_vector(before, delta.vector([1, 2])), delta.data(range(20, 23)))
    racing = Interfering(catalog)
    racing.others.append(lambda: dk.sync_delta(delta.path, catalog, "t.d", deletion_vectors="reference"))
    dk.repack(dk.load_table(racing, "t.d"))
    synced = dk.sync_delta(delta.path, catalog, "t.d")
    assert (synced.previous_version, synced.commits) == (1, ())
    assert ids(synced.table) == [0, *range(3, 10), 20, 21, 22]
    check_synced(synced.table)


def test_repack_hides_nobody_who_was_faster(delta: HandMade, catalog: dk.Catalog) -> None:
    """Someone else puts as many rows in as out, so that no counter would tell."""
    delta.commit(with_vector(delta.data(range(10)), delta.vector([1])), delta.data(range(40, 45)))
    dk.sync_delta(delta.path, catalog, "t.d", deletion_vectors="reference")
    rows = pa.table({"id": pa.array(range(60, 65), pa.int64())})
    racing = Interfering(catalog)
    racing.others.append(lambda: dk.overwrite(dk.load_table(catalog, "t.d"), rows, "id >= 40"))
    dk.repack(dk.load_table(racing, "t.d"))
    delta.commit(delta.data(range(90, 91)))
    with raises_kind("delta-foreign-commit"):
        dk.sync_delta(delta.path, catalog, "t.d")
    assert ids(dk.sync_delta(delta.path, catalog, "t.d", force=True).table) == [0, *range(2, 10), *range(40, 45), 90]
