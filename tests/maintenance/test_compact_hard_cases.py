"""Compaction where engines go wrong: Java's cases, foreign files and writers, evolved schemas, parts that fail."""

from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

import deletekit as dk
from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.equality_delete_writer import write_equality_deletes
from deletekit.deletes.merge_previous_deletes import FilePositions, write_deletion_vectors, write_position_deletes
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.rows.input_rows import align
from deletekit.verbs.shared.equality_keys import nested_keys
from tests.maintenance.model import between, history, lineage, other
from tests.maintenance.test_compact import clean, rows_of
from tests.storage import stored_at
from tests.stored import entries, live_files, parquet, vectors
from tests.tables import Row, expected, items, live, make, refused


@pytest.mark.parametrize("version", [2, 3])
def test_java_case_rewrite_data_and_assign_old_sequence_number(catalog: dk.Catalog, version: int) -> None:
    """TestRewriteFiles.testRewriteDataAndAssignOldSequenceNumber: the file's own number is the commit's."""
    table = make(catalog, rows_of(0), rows_of(1), format_version=version)
    dk.delete_keys(table, [{"id": 1}])
    before = lineage(table)
    dk.compact(table, rewrite_all=True)
    (entry,) = (e for e in entries(table, 0) if e["status"] == 1)
    assert (entry["sequence_number"], entry["file_sequence_number"]) == (3, None)
    assert entry["listed"]["sequence_number"] == 4
    assert entry["listed"]["min_sequence_number"] == 3
    assert lineage(table) == before
    clean(table)


def blind_keys(table: dk.Table, number: int, partition: tuple[Any, ...]) -> None:
    """Add an equality delete of one partition of the current spec, as a writer does that knows no other spec."""

    def build(base: Base) -> RowDelta:
        schema = base.metadata.schema
        keys, written = nested_keys(
            schema, [schema.find_field("id")], align([{"id": number}], schema).select(["id"]).columns
        )
        made = write_equality_deletes(base.write, keys, [1], base.metadata.spec, partition, written)
        return RowDelta(added_delete_files=tuple(made))

    commit(plan_change(table, build))


@pytest.mark.parametrize("version", [2, 3])
def test_keys_of_the_new_partition_do_not_hide_rows_that_come_to_it(catalog: dk.Catalog, version: int) -> None:
    """They do not apply to the file of the old spec, so its rows may not be hidden for being rewritten."""
    table = make(catalog, rows_of(0), format_version=version)
    dk.add_partition_field(table, "category")
    worker = other(table)
    with between(worker, before=lambda: blind_keys(other(table), 0, ("a",))):
        done = dk.compact(worker, rewrite_all=True)
    assert [c.attempts for c in done.commits] == [2]
    assert live(table.refresh()) == expected(rows_of(0))
    clean(table)


@pytest.mark.parametrize(("version", "partial"), [(2, False), (3, True)])
def test_two_compactions_at_once(catalog: dk.Catalog, version: int, partial: bool) -> None:
    """One of everything, one of a part, both ways round; every row once."""
    for wheres in (("id < 8", None), (None, "id < 8")):
        table = make(catalog, *[rows_of(i) for i in range(4)], format_version=version, partition_by=["category"])
        dk.delete_keys(table, [{"id": 5}], scope="global")
        before, past = lineage(table), history(table)
        worker = other(table)
        with between(worker, before=lambda table=table, w=wheres[0]: dk.compact(other(table), w, rewrite_all=True)):
            dk.compact(worker, wheres[1], rewrite_all=True, partial_progress=partial)
        assert live(table.refresh()) == expected([r for i in range(4) for r in rows_of(i) if r["id"] != 5])
        assert lineage(table) == before
        assert past.items() <= history(table).items()
        clean(table)


def test_a_part_that_cannot_be_read_leaves_the_others(catalog: dk.Catalog) -> None:
    table = make(catalog, *[rows_of(i) for i in range(3)], format_version=3, partition_by=["category"])
    lost = next(f["file_path"] for f in live_files(table, 0) if f["partition"]["category"] == "b")
    kept = stored_at(lost).read_bytes()
    stored_at(lost).unlink()
    with refused(table, dk.NotFoundError, "file-not-found"):
        dk.compact(table, rewrite_all=True)
    with refused(table, dk.NotFoundError, "file-not-found"):
        dk.compact(table, "category = 'b'", rewrite_all=True, partial_progress=True)
    done = dk.compact(table, rewrite_all=True, partial_progress=True, max_commits=4)
    assert len(done.commits) == 3
    assert lost in done.failed_data_files
    assert {parquet(p)["category"][0].as_py() for p in done.failed_data_files if p != lost} == {"b"}
    stored_at(lost).write_bytes(kept)
    assert live(table) == expected([r for i in range(3) for r in rows_of(i)])
    clean(table)


@pytest.mark.parametrize("version", [2, 3])
def test_after_the_schema_has_changed(catalog: dk.Catalog, version: int) -> None:
    """Keys on a column that is dropped, renamed, promoted and added columns; old files never had the latter."""
    table = make(catalog, rows_of(0), rows_of(1), format_version=version)
    dk.add_column(table, "status", "string")
    dk.append(table, [{"id": 100, "category": "a", "value": 1.0, "status": "gone"}])
    dk.append(table, [{"id": 101, "category": "a", "value": 1.0, "status": "kept"}])
    dk.delete_keys(table, [{"status": "gone"}])
    dk.drop_column(table, "status")
    dk.rename_column(table, "category", "kind")
    dk.update_column(table, "id", type="long")
    if version == 3:
        dk.add_column(table, "extra", "int", default=7)
    dk.add_column(table, "status", "string")  # another one of that name
    dk.append(table, [{"id": 2**40, "kind": "z", "value": 0.5, "status": "gone"}])
    dk.delete_keys(table, [{"id": 3}])
    extra = {"extra": 7} if version == 3 else {}
    rows: list[Row] = [
        {"id": r["id"], "kind": r["category"], "value": r["value"], **extra, "status": None}
        for r in [*rows_of(0), *rows_of(1), *items((101, "a", 1.0))]
        if r["id"] != 3
    ]
    rows.append({"id": 2**40, "kind": "z", "value": 0.5, **extra, "status": "gone"})
    assert live(table) == expected(rows)
    before = lineage(table)
    dk.compact(table, rewrite_all=True)
    assert live(table) == expected(rows)
    assert lineage(table) == before
    (path,) = (f["file_path"] for f in live_files(table, 0))
    assert expected(parquet(path).select([f.name for f in table.schema.fields]).to_pylist()) == expected(rows)
    clean(table)


AVRO = {
    "type": "record",
    "name": "table",
    "fields": [
        {"name": "id", "type": "int", "field-id": 1},
        {"name": "category", "type": ["null", "string"], "default": None, "field-id": 2},
        {"name": "value", "type": ["null", "double"], "default": None, "field-id": 3},
    ],
}
AVRO_DELETES = {
    "type": "record",
    "name": "deletes",
    "fields": [
        {"name": "file_path", "type": "string", "field-id": 2147483546},
        {"name": "pos", "type": "long", "field-id": 2147483545},
    ],
}


def foreign(table: dk.Table, name: str, rows: list[Row]) -> DataFile:
    """Add an Avro or ORC data file of another library, without any metrics."""
    path = stored_at(table.location) / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith("avro"):
        with path.open("wb") as sink:
            fastavro.writer(sink, AVRO, rows)
    else:
        with path.open("wb") as sink:
            orc.write_table(pa.Table.from_pylist(rows, schema=pa.schema([(n, k) for n, k in COLUMNS])), sink)
    file = DataFile(
        spec_id=0,
        partition=(),
        file_path=str(path),
        file_format=name.rsplit(".", 1)[1].upper(),
        record_count=len(rows),
        file_size_in_bytes=path.stat().st_size,
    )
    commit(plan_change(table, lambda _: RowDelta(added_data_files=(file,))))
    return file


COLUMNS = [("id", pa.int32()), ("category", pa.string()), ("value", pa.float64())]
MAPPING = '[{"field-id":1,"names":["id"]},{"field-id":2,"names":["category"]},{"field-id":3,"names":["value"]}]'


def test_files_and_deletes_of_others(catalog: dk.Catalog) -> None:
    """Avro and ORC data files, an Avro position delete file that names both and goes past their end."""
    table = make(catalog, rows_of(2), format_version=2, properties={"schema.name-mapping.default": MAPPING})
    files = [foreign(table, "a.avro", rows_of(0)), foreign(table, "b.orc", rows_of(1))]
    path = stored_at(table.location) / "data" / "deletes.avro"
    listed = sorted((f.file_path, pos) for f in files for pos in (0, 5, 1000))
    with path.open("wb") as sink:
        fastavro.writer(sink, AVRO_DELETES, [{"file_path": p, "pos": n} for p, n in listed])
    delete = DeleteFile(
        content=FileContent.POSITION_DELETES,
        spec_id=0,
        partition=(),
        file_path=str(path),
        file_format="AVRO",
        record_count=len(listed),
        file_size_in_bytes=path.stat().st_size,
    )
    commit(plan_change(table, lambda _: RowDelta(added_delete_files=(delete,))))
    rows = [r for i in range(3) for r in rows_of(i) if r["id"] not in (0, 5, 8, 13)]
    assert live(table) == expected(rows)
    dk.upgrade_format_version(table, 3)
    dk.rewrite_position_deletes(table)
    assert vectors(table) == {f.file_path: {0, 5} for f in files}  # and nothing past the end
    assert live(table) == expected(rows)
    dk.compact(table, rewrite_all=True)
    assert {f["file_format"] for f in live_files(table, 0)} == {"PARQUET"}
    assert live(table) == expected(rows)
    assert live_files(table, 1) == []
    clean(table)


def test_positions_past_the_end_alone_leave_no_vector(catalog: dk.Catalog) -> None:
    table = make(catalog, rows_of(0), format_version=2)

    def build(base: Base) -> RowDelta:
        (task,) = dk.scan(base.table).plan()
        hidden = FilePositions(task.data_file, PositionBitmap([50]))
        return RowDelta(added_delete_files=tuple(write_position_deletes(base.write, [hidden], "file")))

    commit(plan_change(table, build))
    dk.upgrade_format_version(table, 3)
    done = dk.rewrite_position_deletes(table)
    assert (len(done.rewritten_delete_files), done.added_delete_files) == (1, ())
    assert live(table) == expected(rows_of(0))
    clean(table)


def test_a_vector_that_shares_its_file_goes_alone(catalog: dk.Catalog) -> None:
    """Two vectors in one Puffin file; the data file of one is compacted."""
    table = make(catalog, rows_of(0), rows_of(1), format_version=3)

    def build(base: Base) -> RowDelta:
        hidden = [FilePositions(t.data_file, PositionBitmap([1])) for t in dk.scan(base.table).plan()]
        return RowDelta(added_delete_files=tuple(write_deletion_vectors(base.write, hidden)))

    commit(plan_change(table, build))
    assert len({f["file_path"] for f in live_files(table, 1)}) == 1
    done = dk.compact(table, "id < 8", rewrite_all=True)
    assert len(done.removed_delete_files) == 1
    assert list(vectors(table).values()) == [{1}]
    assert live(table) == expected([r for i in (0, 1) for r in rows_of(i) if r["id"] not in (1, 9)])
    dk.expire_snapshots(table, older_than="2100-01-01")
    assert live(table) == expected([r for i in (0, 1) for r in rows_of(i) if r["id"] not in (1, 9)])
    clean(table)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_empty_table(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, format_version=version)
    assert dk.compact(table, rewrite_all=True).commits == ()
    assert dk.rewrite_position_deletes(table, rewrite_all=True).commit is None
    assert dk.convert_equality_deletes(table).commit is None
    assert dk.remove_dangling_deletes(table).commit is None
    done = dk.erase(table, "id = 1")
    assert (done.commits, done.is_erased) == ((), True)


@pytest.mark.parametrize("value", [0, 1.5, float("nan"), True, "0.3"])
def test_ratios_that_are_none(catalog: dk.Catalog, value: Any) -> None:
    table = make(catalog, rows_of(0), format_version=3)
    kind = "argument" if isinstance(value, bool | str) else "rewrite-option"
    with refused(table, dk.InvalidInputError, kind, field="delete_ratio_threshold"):
        dk.compact(table, delete_ratio_threshold=value)
    with refused(table, dk.InvalidInputError, "argument", field="min_input_files"):
        dk.compact(table, min_input_files=2.5)  # type: ignore[arg-type]
