"""Changes that no commit may make, whoever planned them: refused by name, before a byte is written."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import deletekit as dk
from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.equality_delete_writer import write_equality_deletes
from deletekit.deletes.merge_previous_deletes import FilePositions, write_deletion_vectors, write_position_deletes
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.verbs.shared.equality_keys import nested_keys
from tests.invariants import check_table
from tests.maintenance.damage import edit_list
from tests.stored import live_files, vectors
from tests.tables import ids, items, make, refused, unchanged

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
QUICK = {"commit.retry.num-retries": "1", "commit.retry.min-wait-ms": "1"}
Build = Callable[[Base], RowDelta]


def tasks(base: Base) -> list[Any]:
    return dk.scan(base.table).plan()


def data_files(base: Base) -> list[DataFile]:
    return [task.data_file for task in tasks(base)]


def vector(base: Base, file: DataFile, *positions: int) -> DeleteFile:
    return write_deletion_vectors(base.write, [FilePositions(file, PositionBitmap(positions))])[0]


def position_delete(base: Base, file: DataFile, *positions: int) -> DeleteFile:
    return write_position_deletes(base.write, [FilePositions(file, PositionBitmap(positions))])[0]


def equality_delete(base: Base) -> DeleteFile:
    schema = base.metadata.schema
    key = schema.find_field("id")
    keys = align([{"id": 1}], schema).select(["id"])
    table, file_schema = nested_keys(schema, [key], keys.columns)
    spec = base.metadata.spec
    return write_equality_deletes(base.write, table, [1], spec, (None,) * len(spec.fields), file_schema)[0]


def new_file(base: Base) -> DataFile:
    rows = align(items((9, "z", 9.0)), base.metadata.schema)
    return write_data_files(base.write, rows)[0]


def adding(make_delete: Callable[[Base], DeleteFile]) -> Build:
    return lambda base: RowDelta(added_delete_files=(make_delete(base),))


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
    catalog: dk.Catalog, version: int, kind: str, make_delete: Callable[[Base], DeleteFile]
) -> None:
    table = make(catalog, FIVE, format_version=version)
    with refused(table, dk.InvalidInputError, "delete-kind", found=kind):
        commit(plan_change(table, adding(make_delete)))
    verbs: list[Callable[[], Any]] = [
        lambda: dk.delete(table, "id = 1", mode=kind),
        lambda: dk.update(table, {"value": 0.0}, where="id = 1", mode=kind),
        lambda: dk.merge(table, FIVE, on=["id"], mode=kind),
    ]
    for verb in verbs:
        with refused(table, dk.InvalidInputError, "delete-kind", field="mode", found=kind):
            verb()


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
    makers: dict[str, Callable[[Base], DeleteFile]] = {
        "equality": equality_delete,
        "position": lambda a: position_delete(a, data_files(a)[0], 0),
        "vector": lambda a: vector(a, data_files(a)[0], 0),
    }
    table = make(catalog, FIVE, format_version=version)
    with refused(table, dk.InvalidInputError, "delete-file-field", field=field) as refusal:
        commit(plan_change(table, adding(lambda a: replace(makers[make_delete](a), **changes))))
    assert refusal.error.file is not None


# --- data files that deletes refer to ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "make_delete"), [(2, position_delete), (3, vector)])
def test_a_delete_of_a_file_that_is_not_live(catalog: dk.Catalog, version: int, make_delete: Any) -> None:
    table = make(catalog, FIVE[:2], FIVE[2:], format_version=version)
    (gone,) = [t.data_file for t in dk.scan(table).plan() if t.data_file.record_count == 2]
    dk.delete(table, "id < 3", mode="copy-on-write")
    with refused(table, dk.InvalidInputError, "referenced-data-file", found=gone.file_path):
        commit(plan_change(table, adding(lambda a: make_delete(a, gone, 0))))
    never = replace(gone, file_path=f"{table.location}/data/never.parquet")
    with refused(table, dk.InvalidInputError, "referenced-data-file", found=never.file_path):
        commit(plan_change(table, adding(lambda a: make_delete(a, never, 0))))


@pytest.mark.parametrize(("version", "make_delete"), [(2, position_delete), (3, vector)])
def test_a_delete_of_a_file_that_goes_in_the_same_commit(catalog: dk.Catalog, version: int, make_delete: Any) -> None:
    table = make(catalog, FIVE, format_version=version)

    def build(base: Base) -> RowDelta:
        (task,) = tasks(base)
        return RowDelta(removed_data_files=(task.data,), added_delete_files=(make_delete(base, task.data_file, 0),))

    with refused(table, dk.InvalidInputError, "referenced-data-file"):
        commit(plan_change(table, build))


@pytest.mark.parametrize(("version", "make_delete"), [(2, position_delete), (3, vector)])
def test_a_delete_of_a_file_that_comes_in_the_same_commit(catalog: dk.Catalog, version: int, make_delete: Any) -> None:
    """Legal: positions and vectors apply to data of the same sequence number."""
    table = make(catalog, FIVE, format_version=version)

    def build(base: Base) -> RowDelta:
        rows = align(items((8, "y", 8.0), (9, "z", 9.0)), base.metadata.schema)
        (file,) = write_data_files(base.write, rows)
        return RowDelta(added_data_files=(file,), added_delete_files=(make_delete(base, file, 1),))

    done = commit(plan_change(table, build))
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

    def build(base: Base) -> RowDelta:
        (file,) = [f for f in data_files(base) if f.partition == ("a",)]
        return RowDelta(added_delete_files=(replace(make_delete(base, file, 0), **change),))

    with refused(table, dk.InvalidInputError, "delete-partition", field="partition") as refusal:
        commit(plan_change(table, build))
    assert refusal.error.expected == "spec 0 ('a',)"


# --- one vector for a data file ---------------------------------------------------------------------------------------


def test_two_vectors_for_one_file_in_a_commit(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3)

    def build(base: Base) -> RowDelta:
        (file,) = data_files(base)
        return RowDelta(added_delete_files=(vector(base, file, 0), vector(base, file, 1)))

    with refused(table, dk.InvalidInputError, "duplicate-deletion-vector") as refusal:
        commit(plan_change(table, build))
    assert refusal.error.file == live_files(table, 0)[0]["file_path"]
    assert refusal.error.expected == "at most one"


def test_a_vector_beside_the_one_that_is_there(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    with refused(table, dk.InvalidInputError, "duplicate-deletion-vector"):
        commit(plan_change(table, adding(lambda a: vector(a, data_files(a)[0], 0, 1))))

    def replacing(base: Base) -> RowDelta:
        (task,) = tasks(base)
        return RowDelta(added_delete_files=(vector(base, task.data_file, 0, 1),), removed_delete_files=task.deletes)

    commit(plan_change(table, replacing))
    assert set(map(frozenset, vectors(table).values())) == {frozenset({0, 1})}
    check_table(table)


def test_removing_a_data_file_removes_its_vector(catalog: dk.Catalog) -> None:
    """Also when whoever planned the change did not think of it."""
    table = make(catalog, FIVE[:2], FIVE[2:], format_version=3)
    dk.delete(table, "id in (1, 3)", mode="deletion-vector")

    def build(base: Base) -> RowDelta:
        (task,) = [t for t in tasks(base) if t.data_file.record_count == 2]
        return RowDelta(removed_data_files=(task.data,))

    done = commit(plan_change(table, build))
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
        commit(plan_change(table, lambda _: RowDelta(added_data_files=(live,))))

    def twice(base: Base) -> RowDelta:
        file = new_file(base)
        return RowDelta(added_data_files=(file, file))

    with refused(table, dk.InvalidInputError, "duplicate-file"):
        commit(plan_change(table, twice))


def test_vectors_of_one_puffin_file_are_not_one_file(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, FIVE, format_version=3)

    def build(base: Base) -> RowDelta:
        chosen = [FilePositions(f, PositionBitmap([i])) for i, f in enumerate(data_files(base))]
        return RowDelta(added_delete_files=tuple(write_deletion_vectors(base.write, chosen)))

    commit(plan_change(table, build))
    assert len({f["file_path"] for f in live_files(table, 1)}) == 1
    assert sorted(vectors(table).values(), key=sorted) == [{0}, {1}]

    def without_first(base: Base) -> RowDelta:
        (first, _) = [t.deletes[0] for t in tasks(base)]
        return RowDelta(removed_delete_files=(first,), operation="replace")

    commit(plan_change(table, without_first))
    assert len(vectors(table)) == 1, "the other one is still there"


@pytest.mark.parametrize("part", ["removed_data_files", "removed_delete_files"])
def test_a_removed_file_has_to_be_live(catalog: dk.Catalog, part: str) -> None:
    table = make(catalog, FIVE, properties=QUICK)
    dk.delete(table, "id = 1", mode="position-delete")
    (task,) = dk.scan(table).plan()
    entry: ManifestEntry = task.data if part == "removed_data_files" else task.deletes[0]
    dk.delete(table, "true", mode="copy-on-write")
    with refused(table, dk.CommitConflictError, "missing-file", file=entry.data_file.file_path):
        commit(plan_change(table, lambda _: RowDelta(**{part: (entry,)})))


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

    def build(base: Base) -> RowDelta:
        with_delete, without = sorted(tasks(base), key=lambda t: -len(t.deletes))
        return RowDelta(
            added_data_files=(new_file(base),) if data else (),
            removed_data_files=(without.data,) if gone else (),
            added_delete_files=(position_delete(base, with_delete.data_file, 1),) if deletes else (),
            removed_delete_files=with_delete.deletes if gone_deletes else (),
        )

    assert commit(plan_change(table, build)).operation == operation
    check_table(table)


# --- explicit sequence numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "operation", "number"), [(1, "replace", 0), (2, None, 1), (2, "replace", 2), (3, "replace", -1)]
)
def test_a_sequence_number_of_one_s_own(catalog: dk.Catalog, version: int, operation: str | None, number: int) -> None:
    """Only what rewrites old rows may be as old as these, and nothing may come from the future."""
    table = make(catalog, FIVE, format_version=version)

    def build(base: Base) -> RowDelta:
        file = new_file(base)
        return RowDelta(added_data_files=(file,), operation=operation, sequence_numbers={file.file_path: number})

    with refused(table, dk.InvalidInputError, "sequence-number"):
        commit(plan_change(table, build))


def test_a_replacement_may_not_add_rows(catalog: dk.Catalog) -> None:
    """Java's "Invalid REPLACE operation": rows that were not there would come in unseen."""
    table = make(catalog, FIVE, format_version=2)

    def build(base: Base) -> RowDelta:
        return RowDelta(added_data_files=(new_file(base),), operation="replace")

    with refused(table, dk.InvalidInputError, "replace-records", found=1):
        commit(plan_change(table, build))


@pytest.mark.parametrize("rows", [1, 3])
def test_row_ids_are_not_given_by_a_count_that_is_wrong(catalog: dk.Catalog, rows: int) -> None:
    """After an upgrade to v3 the counts of the manifest list decide; the delete has read their manifest."""
    table = make(catalog, items((1, "a", 1.0), (2, "a", 2.0)), format_version=2)
    edit_list(table, lambda stored: stored[0].update({"added_rows_count": rows}))
    table = dk.load_table(catalog, table.name)
    dk.upgrade_format_version(table, 3)
    with unchanged(table), refused(table, dk.FormatError, "manifest-count", field="added_rows_count"):
        dk.delete(table, "id = 1", mode="deletion-vector")
    assert ids(table) == [1, 2]
