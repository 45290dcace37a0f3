"""Deletes that hide nothing go, and those that anything needs stay: judged by what a scan would apply."""

import pytest

import deletekit as dk
from tests.maintenance.model import between, other
from tests.maintenance.test_compact import MERGED, busy, clean, rows_of
from tests.stored import live_files
from tests.tables import expected, live, make, unchanged


def used(table: dk.Table) -> set[str]:
    return {d.file_path for task in dk.scan(table).plan() for d in task.delete_files}


def deletes(table: dk.Table) -> set[str]:
    return {f["file_path"] for f in live_files(table, 1)}


@pytest.mark.parametrize(("version", "kind"), MERGED)
def test_after_a_compaction(catalog: dk.Catalog, version: int, kind: str) -> None:
    table, rows = busy(catalog, version, kind)
    with unchanged(table):
        assert dk.remove_dangling_deletes(table).commit is None
    dk.compact(table, "id < 17", rewrite_all=True)
    with unchanged(table):
        tried = dk.remove_dangling_deletes(table, dry_run=True)
    done = dk.remove_dangling_deletes(table)
    assert (tried.equality_delete_files, tried.position_delete_files) == (
        done.equality_delete_files,
        done.position_delete_files,
    )
    assert used(table) <= deletes(table)
    assert live(table) == expected(rows)
    dk.compact(table, rewrite_all=True)
    dk.remove_dangling_deletes(table)
    assert deletes(table) == set()
    assert live(table) == expected(rows)
    clean(table)


@pytest.mark.parametrize("version", [2, 3])
def test_a_global_delete_is_judged_over_the_whole_table(catalog: dk.Catalog, version: int) -> None:
    """No data file is of the unpartitioned spec of these keys; Java's action would remove them, and a row came back."""
    table = make(catalog, rows_of(0), format_version=version, partition_by=["category"])
    dk.delete_keys(table, [{"id": 0}], scope="global")
    with unchanged(table):
        assert dk.remove_dangling_deletes(table).commit is None
    assert live(table) == expected([r for r in rows_of(0) if r["id"] != 0])


@pytest.mark.parametrize("version", [2, 3])
def test_an_older_file_comes_back_meanwhile(catalog: dk.Catalog, version: int) -> None:
    """Keys that nothing older is left for, until somebody rolls back to what they are about."""
    table = make(catalog, rows_of(0), format_version=version)
    dk.delete_keys(table, [{"id": 0}])
    target = table.refresh().current_snapshot
    assert target is not None
    dk.compact(table, rewrite_all=True)
    worker = other(table)
    with between(worker, before=lambda: dk.rollback(other(table), target.snapshot_id)):
        dk.remove_dangling_deletes(worker)
    assert live(table.refresh()) == expected([r for r in rows_of(0) if r["id"] != 0])
    clean(table)
