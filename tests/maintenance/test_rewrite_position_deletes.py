"""Fewer position delete files, or deletion vectors in their place: the same rows hidden, whoever commits meanwhile."""

import pytest

import deletekit as dk
from tests.maintenance.model import history, lineage
from tests.maintenance.test_compact import clean, rows_of
from tests.stored import entries, head_json, live_files, position_deletes, vectors
from tests.tables import Row, expected, live, make, refused, unchanged


def spread(
    catalog: dk.Catalog, partition_by: list[str], granularity: str | None = "partition"
) -> tuple[dk.Table, list[Row]]:
    """A v2 table of six appends, of which seven commits deleted one row each, and one rewrote a whole file."""
    table = make(catalog, *[rows_of(i) for i in range(6)], format_version=2, partition_by=partition_by)
    gone = {1, 2, 9, 10, 17, 41, 42}
    for i in sorted(gone):
        dk.delete(table, f"id = {i}", mode="position-delete", granularity=granularity)
    dk.delete(table, "id in (8, 18)", mode="copy-on-write")
    return table, [r for i in range(6) for r in rows_of(i) if r["id"] not in gone | {8, 18}]


def hidden(table: dk.Table) -> set[tuple[str, int]]:
    """(path, position) that any position delete or vector of the head hides, of live data files."""
    data = {f["file_path"] for f in live_files(table, 0)}
    found = {pair for rows in position_deletes(table) for pair in rows}
    found |= {(path, p) for path, positions in vectors(table).items() for p in positions}
    return {pair for pair in found if pair[0] in data}


@pytest.mark.parametrize(
    ("partition_by", "granularity"), [([], "file"), ([], "partition"), (["category"], "partition")]
)
def test_v2(catalog: dk.Catalog, partition_by: list[str], granularity: str) -> None:
    table, rows = spread(catalog, partition_by)
    dk.set_properties(table, {"write.delete.granularity": granularity})
    before, past = hidden(table), history(table)
    old = {f["file_path"] for f in live_files(table, 1)}
    newest = max(e["inherited"] for e in entries(table, 1))
    with unchanged(table):
        tried = dk.rewrite_position_deletes(table, min_input_files=2, dry_run=True)
    done = dk.rewrite_position_deletes(table, min_input_files=2)
    assert set(tried.rewritten_delete_files) == set(done.rewritten_delete_files) <= old
    assert tried.dry_run
    assert not done.dry_run
    assert live(table) == expected(rows)
    assert past.items() <= history(table).items()
    assert head_json(table)["summary"]["operation"] == "replace"
    assert hidden(table) == before
    data = {f["file_path"] for f in live_files(table, 0)}
    new = [f for f in live_files(table, 1) if f["file_path"] in done.added_delete_files]
    assert {path for rows in position_deletes(table) for path, _ in rows} <= data
    by_file = granularity == "file"
    deleted_in = {path for path, _ in before}
    assert len(new) == (len(deleted_in) if by_file else len({path.rpartition("/")[0] for path in deleted_in}))
    numbers = {e["inherited"] for e in entries(table, 1) if e["data_file"]["file_path"] in done.added_delete_files}
    assert max(numbers) <= newest
    clean(table)
    if not by_file:
        with unchanged(table):
            assert dk.rewrite_position_deletes(table, min_input_files=2).commit is None


@pytest.mark.parametrize(("partition_by", "first"), [([], None), (["category"], "vector"), ([], "commit")])
def test_vectors_after_an_upgrade(catalog: dk.Catalog, partition_by: list[str], first: str | None) -> None:
    """Also where some data files have a vector already, which took in their position deletes."""
    table, rows = spread(catalog, partition_by)
    dk.upgrade_format_version(table, 3)
    if first == "vector":
        dk.delete(table, "id in (3, 11)", mode="deletion-vector")
        rows = [r for r in rows if r["id"] not in (3, 11)]
    elif first == "commit":
        dk.append(table, rows_of(7))
        rows += rows_of(7)
    before, rows_before = hidden(table), lineage(table)
    done = dk.rewrite_position_deletes(table)
    assert done.commit is not None
    assert live(table) == expected(rows)
    assert hidden(table) == before
    assert position_deletes(table) == []
    assert {(p, i) for p, positions in vectors(table).items() for i in positions} == before
    if first:
        assert lineage(table) == rows_before
    clean(table)
    assert dk.verify(table.refresh(), level="data", snapshots="heads").findings == ()
    with unchanged(table):
        assert dk.rewrite_position_deletes(table, rewrite_all=True) == dk.results.RewrittenPositionDeletes()


def test_positions_of_an_older_file_of_that_name_do_not_come_alive(catalog: dk.Catalog) -> None:
    """Only some partitions, by a filter; and what is of another partition stays as it was."""
    table, rows = spread(catalog, ["category"])
    before = {f["file_path"] for f in live_files(table, 1)}
    done = dk.rewrite_position_deletes(table, "category = 'b'", rewrite_all=True)
    gone = before - {f["file_path"] for f in live_files(table, 1)}
    assert set(done.rewritten_delete_files) == gone
    assert all("category=b" in path for path in gone)
    assert 0 < len(gone) < len(before)
    assert live(table) == expected(rows)
    clean(table)


def test_refused(catalog: dk.Catalog) -> None:
    table, _ = spread(catalog, [])
    for options, kind in (
        ({"min_input_files": 0}, "rewrite-option"),
        ({"where": "nope = 1"}, "filter"),
    ):
        with refused(table, dk.InvalidInputError, kind):
            dk.rewrite_position_deletes(table, **options)  # type: ignore[arg-type]


def test_a_large_rewrite_makes_several_files(catalog: dk.Catalog) -> None:
    table, rows = spread(catalog, [])
    size = sum(f["file_size_in_bytes"] for f in live_files(table, 1))
    done = dk.rewrite_position_deletes(table, rewrite_all=True, target_file_size_bytes=size // 3)
    assert 2 <= len(done.added_delete_files) <= 4
    assert live(table) == expected(rows)
    clean(table)


def test_a_table_without_position_deletes(catalog: dk.Catalog) -> None:
    for version in (1, 2, 3):
        table = make(catalog, rows_of(0), format_version=version)
        with unchanged(table):
            assert dk.rewrite_position_deletes(table, rewrite_all=True).commit is None
