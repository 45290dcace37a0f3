"""VERIFY and REPAIR, files that a table lost: a parent or a summary speaks of them, and nothing deleted them."""

from collections.abc import Callable
from typing import Any

import pytest

import deletekit as dk
from tests.absent_fields import COUNTS
from tests.maintenance.damage import Record, edit_list, edit_manifest, head_of, with_metadata
from tests.stored import manifest_list, metadata_json
from tests.tables import ids, items, make, refused, unchanged

ROWS = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0))
MORE = items((4, "a", 4.0), (5, None, 5.0))
FAR = "2100-01-01T00:00:00Z"


def kinds(table: dk.Table, **options: Any) -> set[str]:
    return {f.kind for f in dk.verify(table, **options).errors}


def first(rows: list[Record]) -> list[Record]:
    return rows[1:]


def last(rows: list[Record]) -> list[Record]:
    return rows[:-1]


def nothing(_: list[Record]) -> list[Record]:
    return []


def no_older_files(rows: list[Record]) -> list[Record]:
    """As writers do that take an unknown count for none: it is not listed by the next commit."""
    return [rows[0], *(row | dict.fromkeys(COUNTS, 0) for row in rows[1:])]


def a_table(catalog: dk.Catalog, version: int = 2) -> dk.Table:
    return make(catalog, ROWS, MORE, format_version=version, properties={"commit.manifest-merge.enabled": "false"})


@pytest.mark.parametrize(("version", "lose"), [(1, first), (2, last), (3, nothing), (3, last)])
def test_a_list_that_lacks_manifests(catalog: dk.Catalog, version: int, lose: Callable[[Any], Any]) -> None:
    """Those of the parent, the snapshot's own, or all: alone, after more commits, and after the parent has expired."""
    table = a_table(catalog, version)
    assert dk.verify(table, level="data").findings == ()
    edit_list(table, lose)
    for level in ("metadata", "deletes", "data"):
        assert kinds(table, level=level) == {"lost-files"}
        assert kinds(table, level=level, snapshots="heads") == {"lost-files"}
    if lose is nothing:
        with unchanged(table), refused(table, dk.FormatError, "lost-files"):
            dk.append(table, MORE)
        return
    for _ in range(2):
        dk.append(table, MORE)
        assert kinds(table) == {"lost-files"}
        assert kinds(table, snapshots="heads") == {"lost-files"}
    with pytest.raises(AssertionError):
        assert ids(table) == sorted([1, 2, 3, *[4, 5] * 3])
    dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    assert kinds(table) == {"lost-files"}


def test_a_list_that_is_emptied_without_a_parent(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS)
    edit_list(table, nothing)
    assert kinds(table, level="data") == {"lost-files"}


def test_counts_of_none_for_unknown_ones(catalog: dk.Catalog) -> None:
    """What a commit makes of a list whose counts say that no file of a manifest is live."""
    table = a_table(catalog)
    edit_list(table, no_older_files)
    dk.append(table, MORE)
    assert ids(table) == [4, 4, 5, 5]
    found = [f for f in dk.verify(table, snapshots="heads").errors if f.field == "parent-snapshot-id"]
    assert found == [], "the parent lists no more live files, for a reader"
    assert kinds(table, snapshots="heads") == {"lost-files"}


@pytest.mark.parametrize("version", [2, 3])
def test_a_lost_delete_brings_rows_back(catalog: dk.Catalog, version: int) -> None:
    """In the snapshot that wrote it, and in the next one."""
    for later in (False, True):
        table = a_table(catalog, version)
        dk.delete(table, "id = 1", mode="merge-on-read")
        if later:
            dk.append(table, MORE)
        edit_list(table, lambda rows: [row for row in rows if row["content"] == 0])
        assert 1 in ids(table)
        assert kinds(table, snapshots="heads") == {"lost-files"}


def test_an_entry_that_is_gone_from_a_manifest(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, MORE, properties={"commit.manifest.min-count-to-merge": "2"})
    assert len(manifest_list(table)) == 1
    edit_manifest(table, lambda stored: [e for e in stored if e["status"] == 1])
    found = {f.field for f in dk.verify(table).errors if f.kind == "lost-files"}
    assert found == {"parent-snapshot-id", "total-data-files"}


def test_what_was_deleted_or_rewritten_is_not_lost(catalog: dk.Catalog) -> None:
    """Each verb leaves an entry for what it removes, also on branches and after a rollback."""
    for version in (1, 3):
        table = make(catalog, ROWS, MORE, format_version=version)
        head = table.metadata.current_snapshot
        assert head is not None
        dk.create_branch(table, "b")
        dk.delete(table, "id = 1", mode="copy-on-write")
        dk.delete(table, "true", mode="copy-on-write", ref="b")
        dk.append(table, ROWS, ref="b")
        dk.compact(table, rewrite_all=True)
        dk.rewrite_manifests(table)
        dk.overwrite(table, MORE, "true")
        dk.rollback(table, head.snapshot_id)
        dk.append(table, MORE)
        assert dk.verify(table, level="data").errors == ()


def test_a_summary_that_only_miscounts(catalog: dk.Catalog) -> None:
    """All snapshots are there, and none lost a file: a writer has erred, which no reader sees and `repair` mends."""
    table = a_table(catalog)
    wrong = with_metadata(table, lambda raw: head_of(raw)["summary"].update({"total-data-files": "7"}))
    (finding,) = dk.verify(wrong).findings
    assert (finding.severity, finding.kind, finding.repair) == ("warning", "summary-total", "summary-total")
    (action,) = dk.repair(wrong, dry_run=True).actions
    assert action.kind == "summary-total"

    def without_first(raw: Any) -> None:
        head_of(raw)["summary"]["total-data-files"] = "7"
        raw["snapshots"] = raw["snapshots"][1:]

    assert kinds(with_metadata(table, without_first), snapshots="heads") >= {"lost-files"}


@pytest.mark.parametrize("lose", [last, nothing])
def test_repair_leaves_what_is_lost_and_names_it(catalog: dk.Catalog, lose: Callable[[Any], Any]) -> None:
    table = a_table(catalog)
    edit_list(table, lose)
    for kind in (None, "summary-total"):
        before = metadata_json(table)
        report = dk.repair(table, kind)
        assert (report.actions, report.commit) == ((), None)
        assert [(r.kind, "lost" in (r.refused or "")) for r in report.refused] == [("summary-total", True)]
        assert {f.kind for f in report.unrepaired} == {"lost-files"}
        assert metadata_json(table) == before


def test_repair_names_what_mends_wrong_bounds(catalog: dk.Catalog) -> None:
    """It looks at no data file. What it says of them is true: a rewrite of all files mends them."""
    table = a_table(catalog)

    def narrow(entry: Record) -> Record:
        file = entry["data_file"]
        return entry | {"data_file": file | {"upper_bounds": [b | {"value": file["lower_bounds"][0]["value"]}
                                                              for b in file["upper_bounds"][:1]]}}  # fmt: skip

    edit_manifest(table, lambda stored: [narrow(e) for e in stored])
    assert kinds(table, level="data") == {"bounds"}
    report = dk.repair(table)
    assert report.commit is None
    assert {"bounds", "compact(rewrite_all=True)"} <= set(report.not_looked_at.replace("(bounds,", " bounds ").split())
    dk.compact(table, rewrite_all=True)
    assert kinds(table, level="data", snapshots="heads") == set()
