"""Metadata that contradicts itself: no commit builds on it, of rows or of metadata; reading goes on with a warning."""

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import deletekit as dk
from tests.absent_fields import COUNTS
from tests.maintenance.damage import Json, edit_list, head_of, put_back
from tests.maintenance.test_verify_metadata import CASES, ROWS, oldest, set_in
from tests.storage import stored_at
from tests.stored import head_json, metadata_json, snapshots_json
from tests.tables import ids, items, make, raises, refused, unchanged


def edit_metadata(table: dk.Table, change: Callable[[Json], Any]) -> None:
    """Change the metadata file that the catalog points to."""
    raw = metadata_json(table)
    change(raw)
    stored_at(table.metadata_location).write_bytes(json.dumps(raw).encode())


COMMITS: dict[str, Callable[[dk.Table], Any]] = {
    "append": lambda t: dk.append(t, items((9, "z", 9.0))),
    "delete": lambda t: dk.delete(t, "id = 2", mode="deletion-vector"),
    "delete by key": lambda t: dk.delete_keys(t, [{"id": 2}]),
    "rewrite manifests": dk.rewrite_manifests,
    "add a column": lambda t: dk.add_column(t, "more", "string"),
    "set a property": lambda t: dk.set_properties(t, {"a": "b"}),
    "tag": lambda t: dk.create_tag(t, "new"),
    "rename a column": lambda t: dk.rename_column(t, "value", "worth"),
}

# What makes a table that cannot be opened at all, and what a writer does not rely on.
UNREADABLE = {"current schema", "default spec", "tag to nothing", "circle", "main as a tag"}
HARMLESS = {
    "no uuid", "schema of a snapshot", "sort column", "partition field id", "log out of order", "log's end",
    "no row ids", "row ids taken", "name mapping's ids", "name mapping", "default below v3",
}  # fmt: skip
LIES = sorted(set(CASES) - UNREADABLE - HARMLESS)


def test_no_commit_builds_on_metadata_that_contradicts_itself(catalog: dk.Catalog) -> None:
    """Each damage that verify finds in what writing relies on, and each way to commit."""
    table = make(catalog, ROWS, ROWS, format_version=3, partition_by=["category"])
    dk.create_tag(table, "loaded")
    dk.delete(table, "id = 1", mode="deletion-vector")
    assert len(LIES) >= 13
    for i, case in enumerate(LIES):
        kind, _, change = CASES[case]
        with put_back(table):
            edit_metadata(table, change)
            # Each case with one way to commit rows, and one to commit metadata.
            for name in (list(COMMITS)[i % 4], list(COMMITS)[4 + i % 4]):
                with refused(table, dk.FormatError, kind, file=table.metadata_location) as refusal:
                    COMMITS[name](table)
                assert refusal.error.field, f"{case}: {name}"


def test_what_writing_does_not_rely_on_is_no_obstacle(catalog: dk.Catalog) -> None:
    for case in sorted(HARMLESS):
        table = make(catalog, ROWS, ROWS, format_version=3, partition_by=["category"])
        edit_metadata(table, CASES[case][2])
        before = table.refresh().metadata_location
        dk.set_properties(table, {"a": case})
        assert table.metadata_location != before, case


@pytest.mark.parametrize("version", [2, 3])
def test_an_appended_row_is_not_hidden_by_an_older_delete(catalog: dk.Catalog, version: int) -> None:
    """The counter and the snapshot are behind the manifests: a new row would get the number of an older delete."""
    table = make(catalog, ROWS, format_version=version)
    dk.delete_keys(table, [{"id": 9}])
    dk.delete_keys(table, [{"id": 9}])

    def behind(raw: Json) -> None:
        raw["last-sequence-number"] = 1
        raw["snapshots"] = [head_of(raw) | {"sequence-number": 1}]
        raw["snapshots"][0].pop("parent-snapshot-id")

    edit_metadata(table, behind)
    with refused(table, dk.FormatError, "manifest-list", field="sequence_number"):
        dk.append(table, items((9, "z", 9.0)))
    with pytest.raises(dk.FormatError, match="another sequence number"):
        ids(table)  # by such numbers a delete would no longer find its rows
    edit_metadata(
        table, lambda raw: (raw.update({"last-sequence-number": 3}), head_of(raw).update({"sequence-number": 3}))
    )
    dk.append(table, items((9, "z", 9.0)))
    assert ids(table) == [1, 2, 3, 4, 9]


def test_row_ids_of_manifests_are_not_given_twice(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=3)
    edit_list(table, lambda rows: rows[0].update({"first_row_id": 7}))
    with refused(table, dk.FormatError, "next-row-id", found=4, expected=">= 11"):
        dk.append(table, ROWS)


def test_reading_goes_on_with_a_warning(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=3)
    edit_metadata(table, set_in("next-row-id")(1))
    for read in (ids, lambda t: dk.explain(t, "id = 1"), dk.inspect):
        with pytest.warns(UserWarning, match=r"contradicts itself.*next-row-id; found 1; expected >= 4"):
            assert read(table.refresh())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ids(table) == [1, 2, 3, 4]


def test_an_id_of_two_things_is_not_read(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, ROWS, format_version=3)
    edit_metadata(
        table, lambda raw: raw["snapshots"].append({**oldest(raw), "snapshot-id": head_of(raw)["snapshot-id"]})
    )
    with raises(dk.FormatError, "duplicate-id", field="snapshots.snapshot-id"):
        ids(table.refresh())


LISTS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "no row": lambda _: [],
    "no data manifest": lambda rows: [r for r in rows if r["content"] == 1],
    "no live file": lambda rows: [r | dict.fromkeys(COUNTS, 0) for r in rows],
}


@pytest.mark.parametrize("lose", LISTS.values(), ids=LISTS)
def test_no_commit_builds_on_a_list_that_lost_its_files(
    catalog: dk.Catalog, lose: Callable[[list[Any]], list[Any]]
) -> None:
    """The rows would be hidden for ever, and the next expiry would delete their files."""
    table = make(catalog, ROWS, ROWS, format_version=2)
    dk.delete(table, "id = 1", mode="position-delete")
    edit_list(table, lose)
    path = head_json(table)["manifest-list"]
    for name in ("append", "delete by key", "rewrite manifests"):
        with unchanged(table), refused(table, dk.FormatError, "lost-files", file=path, field="total-data-files"):
            COMMITS[name](table)
    dk.rollback(table, snapshots_json(table)[0]["snapshot-id"])
    dk.append(table, items((9, "z", 9.0)))
    assert 9 in ids(table)


def test_totals_that_only_miscount_no_live_file_are_counted_again(catalog: dk.Catalog) -> None:
    """A writer has erred, every file's deletion is listed: `repair` commits, and the table takes rows again."""
    table = make(catalog, ROWS)
    dk.delete(table, "true", mode="copy-on-write")

    def miscount(raw: Json) -> None:
        head_of(raw)["summary"]["total-data-files"] = "2"

    edit_metadata(table, miscount)
    with unchanged(table), refused(table, dk.FormatError, "lost-files"):
        dk.append(table, ROWS)
    assert [a.kind for a in dk.repair(table.refresh()).actions] == ["summary-total"]
    dk.append(table, items((9, "z", 9.0)))
    assert ids(table) == [9]


@pytest.mark.parametrize("total", [None, "-3", "0", "many"])
def test_a_summary_that_counts_no_file_is_no_obstacle(catalog: dk.Catalog, total: str | None) -> None:
    """Totals are optional, and other writers let them drift below zero."""
    table = make(catalog, ROWS)
    dk.delete(table, "true", mode="copy-on-write")

    def change(raw: Json) -> None:
        summary = head_of(raw)["summary"]
        summary.pop("total-records")
        summary |= {"total-data-files": total}
        if total is None:
            summary.pop("total-data-files")

    edit_metadata(table, change)
    dk.append(table, items((9, "z", 9.0)))
    assert ids(table) == [9]
