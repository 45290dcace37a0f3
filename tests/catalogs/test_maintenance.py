"""Maintenance through each kind of catalog: each takes the updates, and refuses what came too late."""

import deletekit as dk
from tests.catalogs.stores import ROWS, SCHEMA, Store
from tests.maintenance.model import FAR, history, snapshot_ids, staged
from tests.tables import ids, items


def made(place: tuple[Store, int]) -> dk.Table:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version)
    dk.append(table, ROWS)
    dk.delete(table, "id = 1")
    dk.append(table, items((4, "d", 40.0)))
    return table


def test_verbs_one_after_the_other(place: tuple[Store, int]) -> None:
    table = made(place)
    past, order = history(table), snapshot_ids(table)
    dk.create_branch(table, "audit")
    dk.append(table, items((5, "e", 50.0)), ref="audit")
    assert dk.fast_forward(table, "main", "audit").moved
    assert ids(table) == [2, 3, 4, 5]
    dk.rollback(table, order[1])
    assert ids(table) == [2, 3]
    picked = staged(table, items((9, "z", 90.0)), wap_id="w")
    dk.append(table, items((6, "f", 60.0)))
    done = dk.cherry_pick(table, picked)
    assert done.commit is not None
    assert set(table.metadata.refs) == {"main", "audit"}
    assert dk.rewrite_manifests(table).commit is not None
    assert ids(table) == [2, 3, 6, 9]
    assert history(table).items() >= past.items()
    expired = dk.expire_snapshots(table, older_than=FAR)
    assert {order[0], picked} <= set(expired.snapshot_ids)
    assert expired.failed_files == {}
    assert (ids(table), ids(table, ref="audit")) == ([2, 3, 6, 9], [2, 3, 4, 5])
    reopened = place[0].load("t")
    assert set(snapshot_ids(reopened)) == {int(r["snapshot-id"]) for r in reopened.metadata.refs.values()}
    assert dk.remove_orphan_files(table, older_than=FAR, force=True).failed_files == {}
    assert (ids(reopened), ids(reopened, ref="audit")) == ([2, 3, 6, 9], [2, 3, 4, 5])
