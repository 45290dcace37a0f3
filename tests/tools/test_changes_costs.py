"""What changes open: only data files that changed, and the deletes that apply to them."""

import pyarrow as pa
import pytest

import deletekit as dk
from tests.counting_io import counted
from tests.tables import MODES, make

SCHEMA = pa.schema([("id", pa.int64()), ("grp", pa.string()), ("v", pa.int64())])


def table_of(catalog: dk.Catalog, version: int, partition_by: list[str]) -> dk.Table:
    files = [[{"id": 10 * i + j, "grp": "ab"[i % 2], "v": j} for j in range(10)] for i in range(6)]
    return make(catalog, *files, schema=SCHEMA, format_version=version, partition_by=partition_by)


def head(table: dk.Table) -> int:
    snapshot = table.refresh().metadata.current_snapshot
    assert snapshot is not None
    return snapshot.snapshot_id


def files_of(table: dk.Table, where: str | None = None) -> tuple[set[str], set[str]]:
    """The data files that hold rows of a filter, and the deletes that apply to them."""
    tasks = dk.scan(table.refresh(), where).plan()
    return {t.data_file.file_path for t in tasks}, {d.file_path for t in tasks for d in t.delete_files}


def opened(table: dk.Table, start: int, mode: str = "all") -> tuple[int, set[str]]:
    """How many changes there are, and which files other than metadata were opened for them."""
    read, counting = counted(table.refresh())
    count = dk.changes(read, start, mode=mode).count()  # type: ignore[arg-type]
    return count, {path for path in counting.opened if "/metadata/" not in path}


CASES = [(v, m) for v in (2, 3) for m in MODES[v]]


@pytest.mark.parametrize("partition_by", [[], ["grp"]])
@pytest.mark.parametrize(("version", "mode"), CASES)
def test_files_and_deletes_that_did_not_change_are_not_opened(
    catalog: dk.Catalog, version: int, mode: str, partition_by: list[str]
) -> None:
    table = table_of(catalog, version, partition_by)
    dk.delete(table, "v = 3", mode=mode, granularity="file" if version == 2 else None)  # type: ignore[arg-type]
    start = head(table)
    before = files_of(table, "id > 20 and id < 29")
    dk.delete(table, "id = 24", mode=mode)  # type: ignore[arg-type]
    after = files_of(table, "id > 20 and id < 29")
    (data,) = before[0]
    for kind in ("all", "net"):
        count, files = opened(table, start, kind)
        assert count == 1
        assert data in files
        assert files <= before[0] | after[0] | before[1] | after[1]


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_that_comes_or_goes_is_opened_alone(catalog: dk.Catalog, version: int) -> None:
    table = table_of(catalog, version, [])
    dk.delete(table, "v = 3")
    start, (all_files, _) = head(table), files_of(table)
    dk.append(table, [{"id": 100, "grp": "a", "v": 1}])
    (new,) = files_of(table)[0] - all_files
    assert opened(table, start) == (1, {new})
    gone, deletes = files_of(table, "id < 10")
    start = head(table)
    dk.delete(table, "id < 10")
    count, files = opened(table, start)
    assert count == 9
    assert files <= gone | deletes | files_of(table)[1]
    assert gone <= files


@pytest.mark.parametrize(("version", "mode"), CASES)
def test_replace_snapshots_open_nothing(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = table_of(catalog, version, ["grp"])
    dk.delete(table, "v = 3", mode=mode)  # type: ignore[arg-type]
    start = head(table)
    dk.convert_equality_deletes(table)
    dk.rewrite_position_deletes(table, rewrite_all=True)
    dk.compact(table, rewrite_all=True)
    dk.rewrite_manifests(table)
    assert head(table) != start
    read, counting = counted(table.refresh())
    assert dk.changes(read, start).count() == 0
    assert not counting.opened
    assert dk.changes(table, start, mode="net").count() == 0


def test_equality_deletes_open_no_file_whose_bounds_exclude_their_keys(catalog: dk.Catalog) -> None:
    table = table_of(catalog, 2, [])
    start, (wanted, _) = head(table), files_of(table, "id = 24")
    dk.delete_keys(table, [{"id": 24}])
    count, files = opened(table, start)
    assert count == 1
    assert files == wanted | files_of(table, "id = 20")[1]


def test_a_filter_leaves_out_files(catalog: dk.Catalog) -> None:
    table = table_of(catalog, 3, ["grp"])
    start = head(table)
    dk.delete(table, "v = 3", mode="deletion-vector")
    read, counting = counted(table.refresh())
    wanted = files_of(table, "id = 23")[0]
    assert dk.changes(read, start, where="id = 23").count() == 1
    assert {p for p in counting.opened if p.endswith(".parquet")} == wanted
