"""One rule for what hides rows by position, whichever verb writes it: the rows of a plain list are left, each hidden
row is counted once, and positions behind the end of a data file are not carried on.
"""

from collections.abc import Callable
from typing import Any

import pytest

import deletekit as dk
from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.merge_previous_deletes import FilePositions, write_deletion_vectors, write_position_deletes
from deletekit.deletes.plan import plan_scan
from deletekit.engines.local import LocalEngine
from deletekit.formats.deletion_vector import PositionBitmap
from tests.commit.racing import QUICK, racing
from tests.invariants import check_table
from tests.maintenance.damage import edit_file, edit_list, findings
from tests.stored import head_json, live_files, manifest_list, position_deletes, vectors
from tests.tables import MODES, Row, ids, items, make, raises

FIVE = items(*((i, "a", float(i)) for i in range(5)))
OTHER = items((10, "b", 1.0), (11, "b", 2.0))
BEHIND = (1, 5, 6, 7)
"""Row 1 of the first file, and three positions behind its end: with one more they are as many as the file has rows."""
BY_FILE = {**QUICK, "write.delete.granularity": "file"}
MODE = {2: "position-delete", 3: "deletion-vector"}


def put_positions(table: dk.Table, *positions: int, ref: str = "main") -> None:
    """Commit a delete of the first data file's positions, as a writer does that is told nothing of its rows."""

    def build(base: Base) -> RowDelta:
        (task,) = [t for t in plan_scan(base.metadata, base.snapshot, base.reader) if t.data_file.record_count == 5]
        write = write_deletion_vectors if base.metadata.format_version == 3 else write_position_deletes
        files = write(base.write, [FilePositions(task.data_file, PositionBitmap(positions))])
        old = [d for d in task.deletes if base.metadata.format_version == 3]
        return RowDelta(added_delete_files=tuple(files), removed_delete_files=tuple(old))

    commit(plan_change(table, build, ref=ref))


def sink(table: dk.Table, change: str, row: Row, mode: str = "auto") -> None:
    with dk.stream.sink(table, "s", on=["id"], mode=mode) as to:  # type: ignore[arg-type]
        to.write([row | {"_change_type": change}], 0)


def convert_with_an_index(table: dk.Table, _: str) -> None:
    with dk.stream.sink(table, "s", on=["id"]) as to:
        dk.delete_keys(table, [{"id": 0}])
        dk.stream.convert(to)


def convert(table: dk.Table, _: str) -> None:
    dk.delete_keys(table, [{"id": 0}])
    dk.convert_equality_deletes(table)


def promote(table: dk.Table, mode: str) -> None:
    dk.delete(table, "id = 0", mode=mode, ref="branch")
    put_positions(table, *BEHIND)
    dk.stream.promote(table, "branch", on=["id"])


WAYS: dict[str, Callable[[dk.Table, str], Any]] = {
    "delete": lambda t, mode: dk.delete(t, "id = 0", mode=mode),
    "update": lambda t, mode: dk.update(t, {"value": 9.0}, where="id = 0", mode=mode),
    "merge": lambda t, mode: dk.merge(
        t, [{"id": 0}], on=["id"], when_matched="delete", when_not_matched=None, mode=mode
    ),
    "upsert": lambda t, mode: dk.upsert(t, items((0, "z", 9.0)), on=["id"], mode=mode),
    "sink that deletes": lambda t, _: sink(t, "DELETE", {"id": 0}),
    "sink that puts": lambda t, _: sink(t, "INSERT", {"id": 0, "category": "z", "value": 9.0}, "index-only"),
    "convert": convert,
    "convert with an index": convert_with_an_index,
    "promote": promote,
}
PUTS = ("update", "upsert", "sink that puts")


def check_counts(table: dk.Table, hidden: int) -> None:
    """Of the data files' rows so many are hidden; no delete has more positions than it hides rows."""
    rows = {f["file_path"]: f["record_count"] for f in live_files(table, 0)}
    found = [(path, at) for path, positions in vectors(table).items() for at in positions]
    found += [pair for file in position_deletes(table) for pair in file]
    assert len(found) == len(set(found)) == hidden
    assert all(at < rows[path] for path, at in found)
    assert head_json(table)["summary"]["total-position-deletes"] == str(hidden)
    assert dk.scan(table).count() == sum(rows.values()) - hidden, "as readers count that believe cardinalities"
    check_table(table)
    assert dk.verify(table, level="data").findings == ()


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_positions_behind_the_end_are_left_behind(catalog: dk.Catalog, way: str, version: int) -> None:
    table = make(catalog, FIVE, OTHER, format_version=version, properties=BY_FILE)
    if way == "promote":
        dk.create_branch(table, "branch")
    else:
        put_positions(table, *BEHIND)
        assert head_json(table)["summary"]["total-position-deletes"] == "4"
        assert dk.scan(table.refresh()).count() == len(ids(table)) == 6  # of which no entry tells
    WAYS[way](table, MODE[version])
    assert ids(table.refresh()) == [*([0] if way in PUTS else []), 2, 3, 4, 10, 11]
    assert {len(p) for p in vectors(table).values()} == ({2} if version == 3 else set())
    check_counts(table, 2)


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_a_data_file_without_a_row_left_is_dropped_with_its_deletes(
    catalog: dk.Catalog, way: str, version: int
) -> None:
    table = make(catalog, FIVE, OTHER, format_version=version, properties=BY_FILE)
    if way == "promote":
        dk.delete(table, "id in (1, 2, 3, 4)", mode=MODE[version])
        dk.create_branch(table, "branch")
        dk.delete(table, "id = 0", mode=MODE[version], ref="branch")
        dk.stream.promote(table, "branch", on=["id"])
    else:
        put_positions(table, 1, 2, 3, 4, 6)
        WAYS[way](table, MODE[version])
    assert ids(table.refresh()) == [*([0] if way in PUTS else []), 10, 11]
    assert 5 not in {f["record_count"] for f in live_files(table, 0)}
    assert live_files(table, 1) == []
    check_counts(table, 0)


def test_what_two_writers_hide_is_united_without_what_is_behind_the_end(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, OTHER, format_version=3, properties=QUICK)
    late = racing(catalog, table, lambda t: put_positions(t, *BEHIND))
    done = dk.delete(late, "id = 0", mode="deletion-vector")
    assert (done.plans, done.attempts) == (1, 2)
    assert ids(table.refresh()) == [2, 3, 4, 10, 11]
    check_counts(table, 2)


@pytest.mark.parametrize("version", [2, 3])
def test_positions_behind_the_end_that_come_while_a_sink_runs(catalog: dk.Catalog, version: int) -> None:
    """They are not taken for rows that are gone, or the data file would be dropped with rows that are live."""
    table = make(catalog, FIVE, OTHER, format_version=version, properties=BY_FILE)
    with dk.stream.sink(table, "s", on=["id"]) as to:
        to.write([{"id": 99, "_change_type": "DELETE"}], 0)
        put_positions(table, *BEHIND)
        to.write([{"id": 0, "_change_type": "DELETE"}], 1)
        assert ids(table.refresh()) == [2, 3, 4, 10, 11]
        check_counts(table, 2)
        put_positions(table, *range(2), *range(5, 9))
        to.write([{"id": 2, "_change_type": "DELETE"}], 2)
    assert ids(table.refresh()) == [3, 4, 10, 11]


@pytest.mark.parametrize("version", [2, 3])
def test_rewritten_position_deletes(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, OTHER, format_version=2)
    put_positions(table, *BEHIND)
    put_positions(table, 0, 9)
    dk.delete(table, "id = 10", mode="position-delete")
    dk.upgrade_format_version(table, version) if version == 3 else None
    dk.rewrite_position_deletes(table, rewrite_all=True)
    assert ids(table.refresh()) == [2, 3, 4, 11]
    assert len(live_files(table, 0)) == 2
    check_counts(table, 3)


def test_repaired_vectors(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, OTHER, format_version=3)
    dk.create_branch(table, "dev")
    put_positions(table, *BEHIND, ref="dev")
    put_positions(table, 0, 9)
    known = {row["manifest_path"] for row in manifest_list(table)}
    borrowed = [row for row in manifest_list(table, "dev") if row["manifest_path"] not in known and row["content"] == 1]
    edit_list(table, lambda rows: rows.extend(borrowed))
    dk.drop_ref(table, "dev")
    assert dk.repair(table).commit is not None
    assert ids(table.refresh()) == [2, 3, 4, 10, 11]
    assert list(vectors(table).values()) == [{0, 1}]
    assert findings(table) == ()


def test_position_deletes_of_a_partition_stay_beside_a_file_of_one_data_file(catalog: dk.Catalog) -> None:
    """They may be about other data files too; what is in them is not written twice."""
    table = make(catalog, FIVE, OTHER, format_version=2)
    dk.delete(table, "id in (1, 10)", mode="position-delete", granularity="partition", engine=LocalEngine(1))
    scoped = live_files(table, 1)
    dk.delete(table, "id = 2", mode="position-delete", granularity="file")
    dk.delete(table, "id = 3", mode="position-delete", granularity="file")
    assert ids(table) == [0, 4, 11]
    assert [f in live_files(table, 1) for f in scoped] == [True]
    assert sorted(len(file) for file in position_deletes(table)) == [2, 2]
    check_counts(table, 4)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("where", ["id = 4", "id < 3", "id in (0, 3, 4)"])
def test_a_data_file_with_more_rows_than_its_entry_says(catalog: dk.Catalog, where: str, version: int) -> None:
    """A row behind the end is not let back in, and a file is not dropped for as many rows as it is said to have."""
    table = make(catalog, FIVE, format_version=version)
    edit_file(table, 0, record_count=3)
    edit_list(table, lambda rows: rows[0].update(added_rows_count=3))
    for mode in MODES[version]:
        with raises(dk.FormatError, "record-count", field="record_count", expected="3 rows"):
            dk.update(table.refresh(), {"value": 9.0}, where=where, mode=mode)
    assert live_files(table, 1) == []
