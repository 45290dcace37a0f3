"""Changes that no commit may make, whoever planned them: refused by name, before a byte is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import deletekit as dk
from deletekit.commit.change import RowDelta
from deletekit.commit.swap import Attempt, commit
from deletekit.deletes.data_file_writer import write_data_files
from deletekit.deletes.equality_delete_writer import write_equality_deletes
from deletekit.deletes.input_rows import align
from deletekit.deletes.position_delete_writer import FilePositions, write_deletion_vectors, write_position_deletes
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.verbs.shared.row_changes import nested_keys
from tests.invariants import check_table
from tests.storage import stored_at
from tests.tables import ids, items, live_files, make, position_deletes, refused, vectors

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
QUICK = {"commit.retry.num-retries": "1", "commit.retry.min-wait-ms": "1"}
Build = Callable[[Attempt], RowDelta]


def tasks(attempt: Attempt) -> list[Any]:
    return dk.scan(attempt.table).plan()


def data_files(attempt: Attempt) -> list[DataFile]:
    return [task.data_file for task in tasks(attempt)]


def vector(attempt: Attempt, file: DataFile, *positions: int) -> DeleteFile:
    return write_deletion_vectors(attempt.write, [FilePositions(file, PositionBitmap(positions))])[0]


def position_delete(attempt: Attempt, file: DataFile, *positions: int) -> DeleteFile:
    return write_position_deletes(attempt.write, [FilePositions(file, PositionBitmap(positions))])[0]


def equality_delete(attempt: Attempt) -> DeleteFile:
    schema = attempt.base.metadata.schema
    key = schema.find_field("id")
    keys = align([{"id": 1}], schema).select(["id"])
    table, file_schema = nested_keys(schema, [key], keys.columns)
    spec = attempt.base.metadata.spec
    return write_equality_deletes(attempt.write, table, [1], spec, (None,) * len(spec.fields), file_schema)[0]


def new_file(attempt: Attempt) -> DataFile:
    rows = align(items((9, "z", 9.0)), attempt.base.metadata.schema)
    return write_data_files(attempt.write, rows, attempt.base.metadata.spec)[0]


def adding(make_delete: Callable[[Attempt], DeleteFile]) -> Build:
    return lambda attempt: RowDelta(added_delete_files=(make_delete(attempt),))


# --- kinds and format versions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "kind", "make_delete"),
    [
        (1, "position-delete", lambda a: position_delete(a, data_files(a)[0], 0)),
        (1, "equality-delete", equality_delete),
        (1, "deletion-vector", lambda a: vector(a, data_files(a)[0], 0)),
        (2, "deletion-vector", lambda a: vector(a, data_files(a)[0], 0)),
        (3, "position-delete", lambda a: position_delete(a, data_files(a)[0], 0)),
    ],
)
def test_kinds_that_a_format_version_does_not_take(
    catalog: dk.Catalog, version: int, kind: str, make_delete: Callable[[Attempt], DeleteFile]
) -> None:
    table = make(catalog, FIVE, format_version=version)
    with refused(table, dk.InvalidInputError, "delete-kind", found=kind):
        commit(table, adding(make_delete))
    verbs: list[Callable[[], Any]] = [
        lambda: dk.delete(table, "id = 1", mode=kind),
        lambda: dk.update(table, {"value": 0.0}, where="id = 1", mode=kind),
        lambda: dk.merge(table, FIVE, on=["id"], mode=kind),
    ]
    for verb in verbs:
        with refused(table, dk.InvalidInputError, "delete-kind", field="mode", found=kind):
            verb()


@pytest.mark.parametrize(
    ("version", "make_delete"),
    [
        (2, lambda a: position_delete(a, data_files(a)[0], 0)),
        (2, equality_delete),
        (3, equality_delete),
        (3, lambda a: vector(a, data_files(a)[0], 0)),
    ],
)
def test_kinds_that_it_takes(catalog: dk.Catalog, version: int, make_delete: Any) -> None:
    table = make(catalog, FIVE, format_version=version)
    commit(table, adding(make_delete))
    assert ids(table) == [2, 3, 4, 5]
    check_table(table)


# --- fields -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "make_delete", "changes", "field"),
    [
        (2, "equality", {"equality_ids": None}, "equality_ids"),
        (2, "equality", {"equality_ids": ()}, "equality_ids"),
        (2, "equality", {"content_offset": 4}, "content_offset"),
        (2, "equality", {"content_size_in_bytes": 4}, "content_size_in_bytes"),
        (2, "position", {"equality_ids": (1,)}, "equality_ids"),
        (2, "position", {"content_offset": 4}, "content_offset"),
        (2, "position", {"sort_order_id": 0}, "sort_order_id"),
        (3, "vector", {"content_offset": None}, "content_offset"),
        (3, "vector", {"content_size_in_bytes": None}, "content_size_in_bytes"),
        (3, "vector", {"referenced_data_file": None}, "referenced_data_file"),
        (3, "vector", {"equality_ids": (1,)}, "equality_ids"),
        (3, "vector", {"sort_order_id": 0}, "sort_order_id"),
    ],
)
def test_fields_that_a_delete_must_have_or_not(
    catalog: dk.Catalog, version: int, make_delete: str, changes: dict[str, Any], field: str
) -> None:
    makers: dict[str, Callable[[Attempt], DeleteFile]] = {
        "equality": equality_delete,
        "position": lambda a: position_delete(a, data_files(a)[0], 0),
        "vector": lambda a: vector(a, data_files(a)[0], 0),
    }
    table = make(catalog, FIVE, format_version=version)
    with refused(table, dk.InvalidInputError, "delete-file-field", field=field) as refusal:
        commit(table, adding(lambda a: replace(makers[make_delete](a), **changes)))
    assert refusal.error.file is not None


# --- data files that deletes refer to ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "make_delete"), [(2, position_delete), (3, vector)])
def test_a_delete_of_a_file_that_is_not_live(catalog: dk.Catalog, version: int, make_delete: Any) -> None:
    table = make(catalog, FIVE[:2], FIVE[2:], format_version=version)
    (gone,) = [t.data_file for t in dk.scan(table).plan() if t.data_file.record_count == 2]
    dk.delete(table, "id < 3", mode="copy-on-write")
    with refused(table, dk.InvalidInputError, "referenced-data-file", found=gone.file_path):
        commit(table, adding(lambda a: make_delete(a, gone, 0)))
    never = replace(gone, file_path=f"{table.location}/data/never.parquet")
    with refused(table, dk.InvalidInputError, "referenced-data-file", found=never.file_path):
        commit(table, adding(lambda a: make_delete(a, never, 0)))


@pytest.mark.parametrize(("version", "make_delete"), [(2, position_delete), (3, vector)])
def test_a_delete_of_a_file_that_goes_in_the_same_commit(catalog: dk.Catalog, version: int, make_delete: Any) -> None:
    table = make(catalog, FIVE, format_version=version)

    def build(attempt: Attempt) -> RowDelta:
        (task,) = tasks(attempt)
        return RowDelta(removed_data_files=(task.data,), added_delete_files=(make_delete(attempt, task.data_file, 0),))

    with refused(table, dk.InvalidInputError, "referenced-data-file"):
        commit(table, build)


@pytest.mark.parametrize(("version", "make_delete"), [(2, position_delete), (3, vector)])
def test_a_delete_of_a_file_that_comes_in_the_same_commit(catalog: dk.Catalog, version: int, make_delete: Any) -> None:
    """Legal: positions and vectors apply to data of the same sequence number."""
    table = make(catalog, FIVE, format_version=version)

    def build(attempt: Attempt) -> RowDelta:
        rows = align(items((8, "y", 8.0), (9, "z", 9.0)), attempt.base.metadata.schema)
        (file,) = write_data_files(attempt.write, rows, attempt.base.metadata.spec)
        return RowDelta(added_data_files=(file,), added_delete_files=(make_delete(attempt, file, 1),))

    done = commit(table, build)
    assert done.operation == "overwrite"
    assert ids(table) == [1, 2, 3, 4, 5, 8]


@pytest.mark.parametrize(("version", "make_delete"), [(2, position_delete), (3, vector)])
@pytest.mark.parametrize(
    "change", [{"partition": ("b",)}, {"partition": (None,)}, {"spec_id": 1, "partition": ()}], ids=str
)
def test_a_delete_in_another_partition_or_spec(
    catalog: dk.Catalog, version: int, make_delete: Any, change: dict[str, Any]
) -> None:
    table = make(catalog, FIVE, format_version=version, partition_by=["category"])
    dk.drop_partition_field(table, "category")

    def build(attempt: Attempt) -> RowDelta:
        (file,) = [f for f in data_files(attempt) if f.partition == ("a",)]
        return RowDelta(added_delete_files=(replace(make_delete(attempt, file, 0), **change),))

    with refused(table, dk.InvalidInputError, "delete-partition", field="partition") as refusal:
        commit(table, build)
    assert refusal.error.expected == "spec 0 ('a',)"


# --- one vector for a data file ---------------------------------------------------------------------------------------


def test_two_vectors_for_one_file_in_a_commit(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3)

    def build(attempt: Attempt) -> RowDelta:
        (file,) = data_files(attempt)
        return RowDelta(added_delete_files=(vector(attempt, file, 0), vector(attempt, file, 1)))

    with refused(table, dk.InvalidInputError, "duplicate-deletion-vector") as refusal:
        commit(table, build)
    assert refusal.error.file == live_files(table, 0)[0]["file_path"]
    assert refusal.error.expected == "at most one"


def test_a_vector_beside_the_one_that_is_there(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    with refused(table, dk.InvalidInputError, "duplicate-deletion-vector"):
        commit(table, adding(lambda a: vector(a, data_files(a)[0], 0, 1)))

    def replacing(attempt: Attempt) -> RowDelta:
        (task,) = tasks(attempt)
        return RowDelta(added_delete_files=(vector(attempt, task.data_file, 0, 1),), removed_delete_files=task.deletes)

    commit(table, replacing)
    assert set(map(frozenset, vectors(table).values())) == {frozenset({0, 1})}
    check_table(table)


def test_removing_a_data_file_removes_its_vector(catalog: dk.Catalog) -> None:
    """Also when whoever planned the change did not think of it."""
    table = make(catalog, FIVE[:2], FIVE[2:], format_version=3)
    dk.delete(table, "id in (1, 3)", mode="deletion-vector")

    def build(attempt: Attempt) -> RowDelta:
        (task,) = [t for t in tasks(attempt) if t.data_file.record_count == 2]
        return RowDelta(removed_data_files=(task.data,))

    done = commit(table, build)
    assert len(done.removed_delete_files) == 1
    assert (done.summary["removed-dvs"], done.summary["deleted-records"]) == ("1", "2")
    assert ids(table) == [4, 5]
    check_table(table)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_path_is_added_once(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version)
    (live,) = [t.data_file for t in dk.scan(table).plan()]
    with refused(table, dk.InvalidInputError, "duplicate-file", file=live.file_path):
        commit(table, lambda _: RowDelta(added_data_files=(live,)))

    def twice(attempt: Attempt) -> RowDelta:
        file = new_file(attempt)
        return RowDelta(added_data_files=(file, file))

    with refused(table, dk.InvalidInputError, "duplicate-file"):
        commit(table, twice)


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_file_is_added_once(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, format_version=version)

    def twice(attempt: Attempt) -> RowDelta:
        file = equality_delete(attempt)
        return RowDelta(added_delete_files=(file, file))

    with refused(table, dk.InvalidInputError, "duplicate-file"):
        commit(table, twice)


def test_vectors_of_one_puffin_file_are_not_one_file(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, FIVE, format_version=3)

    def build(attempt: Attempt) -> RowDelta:
        chosen = [FilePositions(f, PositionBitmap([i])) for i, f in enumerate(data_files(attempt))]
        return RowDelta(added_delete_files=tuple(write_deletion_vectors(attempt.write, chosen)))

    commit(table, build)
    assert len({f["file_path"] for f in live_files(table, 1)}) == 1
    assert sorted(vectors(table).values(), key=sorted) == [{0}, {1}]

    def without_first(attempt: Attempt) -> RowDelta:
        (first, _) = [t.deletes[0] for t in tasks(attempt)]
        return RowDelta(removed_delete_files=(first,), operation="replace")

    commit(table, without_first)
    assert len(vectors(table)) == 1, "the other one is still there"


@pytest.mark.parametrize("part", ["removed_data_files", "removed_delete_files"])
def test_a_removed_file_has_to_be_live(catalog: dk.Catalog, part: str) -> None:
    table = make(catalog, FIVE, properties=QUICK)
    dk.delete(table, "id = 1", mode="position-delete")
    (task,) = dk.scan(table).plan()
    entry: ManifestEntry = task.data if part == "removed_data_files" else task.deletes[0]
    dk.delete(table, "true", mode="copy-on-write")
    with refused(table, dk.CommitConflictError, "missing-file", file=entry.data_file.file_path):
        commit(table, lambda _: RowDelta(**{part: (entry,)}))


def test_an_empty_change_commits_nothing(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    location = table.metadata_location
    assert commit(table, lambda _: RowDelta()).snapshot_id is None
    assert table.refresh().metadata_location == location


def test_a_refused_change_leaves_its_own_files_nowhere(catalog: dk.Catalog) -> None:
    """The files were written before the change could be judged."""
    table = make(catalog, FIVE)
    written: list[str] = []

    def build(attempt: Attempt) -> RowDelta:
        file = new_file(attempt)
        delete = position_delete(attempt, file, 0)
        written.extend([file.file_path, delete.file_path])
        assert all(stored_at(path).exists() for path in written)
        return RowDelta(added_delete_files=(delete,))

    with refused(table, dk.InvalidInputError, "referenced-data-file"):
        commit(table, build)
    assert not any(stored_at(path).exists() for path in written)
    assert position_deletes(table) == []


# --- what the operation is called -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "gone", "deletes", "gone_deletes", "operation"),
    [
        (1, 0, 0, 0, "append"),
        (0, 0, 1, 0, "delete"),
        (0, 1, 0, 0, "delete"),
        (0, 0, 1, 1, "delete"),
        (0, 1, 1, 0, "delete"),
        (1, 1, 0, 0, "overwrite"),
        (1, 0, 1, 0, "overwrite"),
        (1, 0, 0, 1, "overwrite"),
        (0, 0, 0, 1, "overwrite"),
    ],
)
def test_operations_are_named_as_java_names_them(
    catalog: dk.Catalog, data: int, gone: int, deletes: int, gone_deletes: int, operation: str
) -> None:
    table = make(catalog, FIVE[:2], FIVE[2:])
    dk.delete(table, "id = 1", mode="position-delete")

    def build(attempt: Attempt) -> RowDelta:
        with_delete, without = sorted(tasks(attempt), key=lambda t: -len(t.deletes))
        return RowDelta(
            added_data_files=(new_file(attempt),) if data else (),
            removed_data_files=(without.data,) if gone else (),
            added_delete_files=(position_delete(attempt, with_delete.data_file, 1),) if deletes else (),
            removed_delete_files=with_delete.deletes if gone_deletes else (),
        )

    assert commit(table, build).operation == operation
    check_table(table)


# --- explicit sequence numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "operation", "number"), [(1, "replace", 0), (2, None, 1), (2, "replace", 2), (3, "replace", -1)]
)
def test_a_sequence_number_of_one_s_own(catalog: dk.Catalog, version: int, operation: str | None, number: int) -> None:
    """Only what rewrites old rows may be as old as these, and nothing may come from the future."""
    table = make(catalog, FIVE, format_version=version)

    def build(attempt: Attempt) -> RowDelta:
        file = new_file(attempt)
        return RowDelta(added_data_files=(file,), operation=operation, sequence_numbers={file.file_path: number})

    with refused(table, dk.InvalidInputError, "sequence-number"):
        commit(table, build)


def test_a_replacement_may_not_add_rows(catalog: dk.Catalog) -> None:
    """Java's "Invalid REPLACE operation": rows that were not there would come in unseen."""
    table = make(catalog, FIVE, format_version=2)

    def build(attempt: Attempt) -> RowDelta:
        return RowDelta(added_data_files=(new_file(attempt),), operation="replace")

    with refused(table, dk.InvalidInputError, "replace-records", found=1):
        commit(table, build)
