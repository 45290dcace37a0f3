"""The cases that Iceberg Java 1.11 gets wrong, each against a plain model: no row comes back, and none is lost.

The numbers are those of the reference that lists them: DV validation by a filter (3.2.5), a live vector that is not
removed (3.2.6), several vectors in the window (3.2.7), a rewrite against a new vector (3.4.2), and deletes dropped by
their sequence number (4.1.3). A shared Puffin file that expires (4.4.2) is in maintenance/test_expire_snapshots.py.
"""

from dataclasses import replace

import pytest
from pyiceberg.expressions import EqualTo

import deletekit as dk
from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.merge_previous_deletes import FilePositions, write_deletion_vectors
from deletekit.deletes.plan import plan_scan
from deletekit.formats.deletion_vector import PositionBitmap
from tests.commit.racing import QUICK, racing
from tests.invariants import check_table
from tests.stored import live_files, vectors
from tests.tables import ids, items, make, refused

FIRST = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))
SECOND = items((4, "b", 4.0), (5, "b", 5.0))


def vector_for(base: Base, record_count: int, *positions: int) -> RowDelta:
    """Write a vector for the data file of that many rows, and remove nothing."""
    (task,) = [
        t for t in plan_scan(base.metadata, base.snapshot, base.reader) if t.data_file.record_count == record_count
    ]
    written = write_deletion_vectors(base.write, [FilePositions(task.data_file, PositionBitmap(positions))])
    return RowDelta(added_delete_files=tuple(written))


def test_3_2_5_a_filter_narrower_than_what_is_touched_hides_no_concurrent_vector(catalog: dk.Catalog) -> None:
    """Java looks for concurrent vectors within the conflict filter only; the file's other vector then stays, too."""
    table = make(catalog, FIRST, format_version=3, partition_by=["bucket(1, id)"], properties=QUICK)

    def build(base: Base) -> RowDelta:
        return replace(vector_for(base, 3, 0), read_set=ReadSet(where=EqualTo("category", "nowhere")))

    done = commit(plan_change(racing(catalog, table, lambda t: dk.delete(t, "id = 3", mode="deletion-vector")), build))
    assert ids(table.refresh()) == [2]
    assert list(vectors(table).values()) == [{0, 2}]
    assert (done.plans, done.attempts) == (1, 2)
    check_table(table)
    assert dk.verify(table, level="data").ok


def test_3_2_6_a_vector_that_was_live_before_is_removed_or_the_change_refused(catalog: dk.Catalog) -> None:
    table = make(catalog, FIRST, format_version=3, properties=QUICK)
    dk.delete(table, "id = 1", mode="deletion-vector")
    with refused(table, dk.InvalidInputError, "duplicate-deletion-vector"):
        commit(plan_change(table, lambda base: vector_for(base, 3, 1)))
    with refused(table, dk.InvalidInputError, "duplicate-deletion-vector"):
        commit(plan_change(table, lambda base: replace(vector_for(base, 3, 1), read_set=ReadSet())))
    done = dk.delete(table, "id = 2", mode="deletion-vector")
    assert [f.record_count for f in done.removed_delete_files] == [1]
    assert ids(table) == [3]
    assert list(vectors(table).values()) == [{0, 1}]
    check_table(table)


@pytest.mark.parametrize("mode", ["copy-on-write", "deletion-vector"])
def test_3_2_7_several_vectors_of_one_file_in_the_window(catalog: dk.Catalog, mode: str) -> None:
    """Java indexes every vector of the window, the superseded too, and fails even for an unrelated file."""
    table = make(catalog, FIRST, SECOND, format_version=3, properties=QUICK)

    def twice(t: dk.Table) -> None:
        dk.delete(t, "id = 1", mode="deletion-vector")
        dk.delete(t, "id = 2", mode="deletion-vector")

    done = dk.delete(racing(catalog, table, twice), "id = 4", mode=mode)
    assert (done.plans, done.attempts) == (1, 2)
    assert ids(table.refresh()) == [3, 5]
    dk.append(table, items((6, "c", 6.0), (7, "c", 7.0), (8, "c", 8.0), (9, "c", 9.0)))

    def thrice(t: dk.Table) -> None:
        for i in (6, 7, 8):
            dk.delete(t, f"id = {i}", mode="deletion-vector")

    done = dk.delete(racing(catalog, table, thrice), "id = 7 or id = 5", mode=mode)
    assert ids(table.refresh()) == [3, 9]
    assert done.plans == (1 if mode == "deletion-vector" else 2)
    check_table(table)


@pytest.mark.parametrize("planned", [False, True])
def test_3_4_2_position_deletes_become_vectors_while_a_vector_lands(catalog: dk.Catalog, planned: bool) -> None:
    """Java's RewriteFiles does not look for concurrent vectors: two for one file, and the table cannot be read."""
    table = make(catalog, FIRST, format_version=2, properties=QUICK)
    dk.delete(table, "id = 3", mode="position-delete")
    dk.upgrade_format_version(table, 3)
    dk.append(table, items((50, "later", 0.0)))  # which gives the rows their ids

    def build(base: Base) -> RowDelta:
        (task,) = [t for t in plan_scan(base.metadata, base.snapshot, base.reader) if t.data_file.record_count == 3]
        if any(d.is_deletion_vector for d in task.delete_files):
            return RowDelta()  # nothing left to convert
        written = vector_for(base, 3, 2).added_delete_files
        delta = RowDelta(added_delete_files=written, removed_delete_files=task.deletes, operation="replace")
        return replace(delta, read_set=ReadSet()) if planned else delta

    late = racing(catalog, table, lambda t: dk.delete(t, "id = 1", mode="deletion-vector"))
    done = commit(plan_change(late, build))
    assert (done.snapshot_id, done.plans) == (None, 1 if planned else 2), "what landed holds it all"
    assert ids(table.refresh()) == [2, 50]
    assert list(vectors(table).values()) == [{0, 2}]
    check_table(table)
    assert dk.verify(table, level="data").ok


def test_3_4_2_the_other_way_round(catalog: dk.Catalog) -> None:
    """A delete that was planned on the position deletes, when the rewrite to a vector is faster."""
    table = make(catalog, FIRST, format_version=2, properties=QUICK)
    dk.delete(table, "id = 3", mode="position-delete")
    dk.upgrade_format_version(table, 3)
    dk.append(table, items((50, "later", 0.0)))

    def rewrite(t: dk.Table) -> None:
        def build(base: Base) -> RowDelta:
            (task,) = [t for t in plan_scan(base.metadata, base.snapshot, base.reader) if t.deletes]
            written = vector_for(base, 3, 2).added_delete_files
            return RowDelta(added_delete_files=written, removed_delete_files=task.deletes, operation="replace")

        commit(plan_change(t, build))

    done = dk.delete(racing(catalog, table, rewrite), "id = 1", mode="deletion-vector")
    assert done.plans == 1
    assert ids(table.refresh()) == [2, 50]
    assert list(vectors(table).values()) == [{0, 2}]
    check_table(table)


@pytest.mark.parametrize("version", [2, 3])
def test_4_1_3_no_delete_is_dropped_because_of_its_sequence_number(catalog: dk.Catalog, version: int) -> None:
    """Java drops deletes below the lowest data sequence number, which it computes without the files it has just added.

    Rewriting one file must leave the equality deletes that other files of any age need.
    """
    table = make(catalog, FIRST, SECOND, format_version=version)
    dk.delete_keys(table, [{"id": 1}])
    dk.delete_keys(table, [{"id": 4}])
    before = {f["file_path"] for f in live_files(table, 1)}
    dk.delete(table, "id = 5", mode="copy-on-write")  # all that was left of the second file
    dk.update(table, {"value": 0.0}, where="id = 3", mode="copy-on-write")
    dk.append(table, items((1, "new", 1.0)))
    assert {f["file_path"] for f in live_files(table, 1)} == before
    assert ids(table) == [1, 2, 3]
    check_table(table)
