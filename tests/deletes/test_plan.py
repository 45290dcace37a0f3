"""Planning from columns: the same tasks and errors as entry by entry, and no byte read that is not needed."""

import pickle
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import deletekit as dk
from deletekit.deletes import delete_file_index
from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.deletes.plan import ScanTasks, _PlannedFiles, plan_scan
from deletekit.deletes.scan_task import ScanTask
from deletekit.filters.filter import unbound_filter
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_columns import DecodedMetrics
from deletekit.formats.manifests import columns_of
from deletekit.table import snapshot as snapshot_module
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.snapshot import SnapshotReader
from tests.benchmarks import planning_tables
from tests.benchmarks.planning_tables import FILES_PER_GROUP, SCHEMA, build, data_file, vector
from tests.tables import raises

FILES = 3 * FILES_PER_GROUP + 50
PYTHON_BYTES_PER_FILE = 250
"""Compressed bytes of its entry and that of its vector, and what numpy holds; a task with its entries is about 800."""


class CountingIO(PyIcebergIO):
    """Storage that remembers how often each file was read, and how many bytes of it."""

    def __init__(self) -> None:
        super().__init__({}, "/")
        self.bytes: Counter[str] = Counter()
        self.reads: Counter[str] = Counter()

    def open(self, path: str) -> Any:
        self.reads[Path(path).name] += 1
        return super().open(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, offset, length)
        self.bytes[Path(path).name] += len(data)
        return data


@pytest.fixture(params=["columns", "entries"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to decode; a table of these tests is too small for columns to be chosen."""
    for name in ("_WORTH_POLARS_BYTES", "_WORTH_COLUMNS_BYTES"):
        monkeypatch.setattr(snapshot_module, name, 0 if request.param == "columns" else 1 << 60)
    return str(request.param)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dk.Table:
    return dk.from_metadata(build(tmp_path_factory.mktemp("many"), FILES, 8))


def planned(table: dk.Table, where: str | None = None, io: Any = None) -> list[ScanTask]:
    reader = SnapshotReader(io or table.io, table.metadata)
    tasks = plan_scan(table.metadata, table.metadata.current_snapshot, reader, unbound_filter(where, SCHEMA))
    assert list(tasks) == [tasks[i] for i in range(len(tasks))] == tasks[:]
    return list(tasks)


def root_of(table: dk.Table) -> str:
    return table.metadata.location


# --- what is planned --------------------------------------------------------------------------------------------------


def test_each_file_has_its_own_vector(way: str, table: dk.Table) -> None:
    tasks = planned(table)
    root = root_of(table)
    first_row_ids = [n * planning_tables.ROWS for n in range(FILES)]
    expected = [replace(data_file(root, n), first_row_id=first_row_ids[n]) for n in range(FILES)]
    assert [t.data_file for t in tasks] == expected
    assert [t.delete_files for t in tasks] == [(vector(root, n),) for n in range(FILES)]
    assert {(t.data.sequence_number, t.deletes[0].sequence_number) for t in tasks} == {(1, 2)}
    assert pickle.loads(pickle.dumps(tasks)) == tasks  # noqa: S301


@pytest.mark.parametrize("lookup", ["few", "many", "all hashes equal", "some hashes equal"])
def test_files_without_a_vector_are_between_those_that_have_one(
    way: str, lookup: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_file_index, "_VECTORS_WORTH_HASHING", 0 if lookup != "few" else 1 << 60)
    monkeypatch.setattr(delete_file_index, "_PATHS_LOOKED_UP_AT_A_TIME", 97)
    if lookup.endswith("equal"):
        monkeypatch.setattr(pl.Series, "hash", lambda paths: paths.str.len_bytes() * (lookup[0] == "s"))

    def of_some(root: str, n: int) -> Any:
        return replace(vector(root, n), referenced_data_file=data_file(root, n).file_path if n % 3 else f"gone-{n}")

    monkeypatch.setattr(planning_tables, "vector", of_some)
    table = dk.from_metadata(build(tmp_path, FILES, 2))
    root = root_of(table)
    assert [t.delete_files for t in planned(table)] == [(of_some(root, n),) if n % 3 else () for n in range(FILES)]
    assert len(dk.scan(table).plan().counted()[1]) == sum(1 for n in range(FILES) if n % 3)


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("grp = 2", range(200, 300)),
        ("grp = 7", range(0)),
        ("id = 123456", range(123, 124)),
        ("id >= 340000 and grp > 1", range(340, 350)),
        ("grp = 0 and name is null", range(0)),
        ("value is nan", range(0)),
    ],
)
def test_a_filter_leaves_the_files_whose_partition_and_bounds_may_match(
    way: str, table: dk.Table, where: str, numbers: range
) -> None:
    root = root_of(table)
    assert [t.data_file.file_path for t in planned(table, where)] == [data_file(root, n).file_path for n in numbers]


def test_tasks_are_a_sequence(way: str, table: dk.Table) -> None:
    tasks, same = dk.scan(table).plan(), planned(table)
    assert (len(tasks), tasks) == (FILES, same)
    assert tasks != same[1:]
    assert tasks[-1] == tasks[FILES - 1] == same[-1]
    assert tasks[2:9:3] == [tasks[2], tasks[5], tasks[8]] == same[2:9:3]
    with pytest.raises(IndexError):
        _ = tasks[FILES]
    assert pickle.loads(pickle.dumps(tasks)) == same  # noqa: S301


# --- what is read -----------------------------------------------------------------------------------------------------


def test_each_manifest_is_read_once_and_whole(way: str, table: dk.Table) -> None:
    io = CountingIO()
    planned(table, io=io)
    sizes = {p.name: p.stat().st_size for p in Path(root_of(table), "metadata").glob("*.avro")}
    assert len(sizes) == 9
    assert dict(io.bytes) == sizes
    assert set(io.reads.values()) == {1}


def test_a_partition_filter_reads_only_the_manifests_it_may_match(way: str, table: dk.Table) -> None:
    io = CountingIO()
    assert len(planned(table, "grp = 3", io)) == 50
    # Four manifests of 87 or 88 files, and as many of their vectors: group 3 begins at file 300.
    assert {name for name in io.reads if name.endswith("-m0.avro")} == {"data-3-m0.avro", "deletes-3-m0.avro"}
    io = CountingIO()
    assert planned(table, "grp = 9", io) == []
    assert not {name for name in io.reads if name.endswith("-m0.avro")}


# --- what is refused --------------------------------------------------------------------------------------------------


def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, **changes: Any) -> dk.Table:
    """A table whose deletion vector `number` is changed."""

    def changed(root: str, n: int) -> DeleteFile:
        return replace(vector(root, n), **changes) if n == number else vector(root, n)

    monkeypatch.setattr(planning_tables, "vector", changed)
    return dk.from_metadata(build(tmp_path / "broken", 150, 4))


def test_two_vectors_of_one_file_are_refused(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str((tmp_path / "broken").absolute() / "a_warehouse_of_ours" / "a_database.db" / "a_table")
    table = broken(tmp_path, monkeypatch, 120, referenced_data_file=data_file(root, 7).file_path, file_path="/other")
    with raises(
        dk.FormatError,
        "duplicate-deletion-vector",
        file=data_file(root, 7).file_path,
        found=f"/other and {vector(root, 7).file_path}",
    ):
        planned(table)


def test_a_vector_of_another_partition_is_refused(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = broken(tmp_path, monkeypatch, 120, partition=(77,))
    with raises(dk.FormatError, "delete-partition", found="spec 0 (77,)", file=vector(root_of(table), 120).file_path):
        planned(table)
    assert len(planned(table, "grp = 0")) == 100, "of files that are not read nothing is said"


def test_a_vector_older_than_its_file_is_refused(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning_tables, "DELETES_NUMBER", 0)
    table = dk.from_metadata(build(tmp_path / "old", 120, 4))
    with raises(dk.FormatError, "deletion-vector-sequence", found=0, file=vector(root_of(table), 0).file_path):
        planned(table)


# --- other deletes ----------------------------------------------------------------------------------------------------


def test_other_deletes_apply_beside_vectors(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tenth delete is an equality delete of its partition, every tenth a position delete of its partition."""

    def mixed(root: str, n: int) -> DeleteFile:
        common = {"spec_id": 0, "partition": (n // FILES_PER_GROUP,), "record_count": 1, "file_size_in_bytes": 9}
        path = f"{root}/{n}.parquet"
        if n % 10 == 1:
            content = FileContent.EQUALITY_DELETES
            return DeleteFile(**common, content=content, file_path=path, file_format="PARQUET", equality_ids=(1,))
        if n % 10 == 2:
            content = FileContent.POSITION_DELETES
            return DeleteFile(**common, content=content, file_path=path, file_format="PARQUET")
        return vector(root, n)

    monkeypatch.setattr(planning_tables, "vector", mixed)
    table = dk.from_metadata(build(tmp_path / "mixed", 150, 4))
    root = root_of(table)
    for n, task in enumerate(planned(table)):
        group = [m for m in range(150) if m // FILES_PER_GROUP == n // FILES_PER_GROUP]
        vectors = [vector(root, n)] if n % 10 not in (1, 2) else []
        positions = [] if vectors else [mixed(root, m) for m in group if m % 10 == 2]
        equality = [mixed(root, m) for m in group if m % 10 == 1]
        assert list(task.delete_files) == [*vectors, *positions, *equality]


def test_position_deletes_of_one_file_apply_to_it_alone(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_one(root: str, n: int) -> DeleteFile:
        path = data_file(root, n).file_path
        bound = {2147483546: b"\xff" if n == 5 else path.encode()}  # one that is not UTF-8, and so says nothing
        return DeleteFile(
            content=FileContent.POSITION_DELETES,
            spec_id=0,
            partition=(n // FILES_PER_GROUP,),
            file_path=f"{root}/{n}.parquet",
            file_format="PARQUET",
            record_count=1,
            file_size_in_bytes=9,
            lower_bounds=bound,
            upper_bounds=bound,
        )

    monkeypatch.setattr(planning_tables, "vector", of_one)
    table = dk.from_metadata(build(tmp_path / "positions", 120, 2))
    root = root_of(table)
    own = [(of_one(root, n),) if n != 5 else () for n in range(120)]
    group = 5 // FILES_PER_GROUP
    of_group = [(of_one(root, 5),) if n // FILES_PER_GROUP == group else () for n in range(120)]
    assert [t.delete_files for t in planned(table)] == [a + b for a, b in zip(own, of_group, strict=True)]


def test_the_way_is_chosen_by_the_size_of_the_manifests(table: dk.Table) -> None:
    reader = SnapshotReader(table.io, table.metadata)
    listed = reader.manifests(table.metadata.current_snapshot)[0]  # type: ignore[arg-type]
    assert not isinstance(reader.columns(listed).metrics, DecodedMetrics)
    reader._listed_bytes = snapshot_module._WORTH_POLARS_BYTES
    reader._columns.clear()
    reader._entries.clear()
    by_polars = isinstance(reader.columns(listed).metrics, DecodedMetrics)
    assert by_polars == (listed.manifest_length >= snapshot_module._WORTH_COLUMNS_BYTES)


def test_python_keeps_no_object_for_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By count, not by time: in a plan, and while its tasks are looked at one after the other."""
    for name in ("_WORTH_POLARS_BYTES", "_WORTH_COLUMNS_BYTES"):
        monkeypatch.setattr(snapshot_module, name, 0)
    planned_bytes, most_bytes = [], []
    for files in (FILES, FILES, 4 * FILES):  # the first plan makes what all plans share
        table = dk.from_metadata(build(tmp_path / f"{len(planned_bytes)}", files, 8))
        tracemalloc.start()
        tasks = dk.scan(table).plan()
        planned_bytes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.reset_peak()
        assert sum(len(task.delete_files) for task in tasks) == files
        most_bytes.append(tracemalloc.get_traced_memory()[1] - planned_bytes[-1])
        tracemalloc.stop()
    assert planned_bytes[2] - planned_bytes[1] <= 3 * FILES * PYTHON_BYTES_PER_FILE, planned_bytes
    assert most_bytes[2] <= 4 * FILES * PYTHON_BYTES_PER_FILE, most_bytes


def test_more_rows_than_64_bits_count_are_not_fewer() -> None:
    counts = [2**62, 2**62, 2**63 - 1, 7]
    columns = columns_of([data_entry(i, count) for i, count in enumerate(counts)], 0, ())
    under_a_delete = {3: (columns.entry(0),)}
    planned = _PlannedFiles(DeleteFileIndex([], {}, {}), columns, np.arange(4), np.full(4, -1), under_a_delete)
    rows, rest = ScanTasks([planned]).counted()
    assert (rows, len(rest)) == (sum(counts[:3]), 1)


def data_entry(number: int, rows: int) -> ManifestEntry:
    file = DataFile(spec_id=0, file_path=f"f{number}", file_format="PARQUET", record_count=rows, file_size_in_bytes=1)
    return ManifestEntry(
        status=EntryStatus.ADDED, snapshot_id=1, sequence_number=1, file_sequence_number=1, data_file=file
    )
