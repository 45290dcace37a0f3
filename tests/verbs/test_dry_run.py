"""`dry_run=True` of the row verbs: it plans what the real call does, and leaves not a byte, a file or a directory."""

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.tables import ITEMS, MODES, VERSION_AND_MODE, items, live, make, new_catalog, refused

Call = Callable[..., dk.results.Commit]
Calls = dict[str, Call]

FILES = ("added_data_files", "removed_data_files", "added_delete_files", "removed_delete_files")


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[dk.Catalog]:
    with new_catalog(warehouse) as catalog:
        yield catalog


def everything(folder: Path) -> dict[str, str]:
    """Every directory, and every file with its bytes."""
    found = sorted(folder.rglob("*"))
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "directory" for p in found}


def calls(table: dk.Table, mode: str, rng: random.Random) -> Calls:
    """Each verb with random rows or a random filter; `mode` where it takes one."""
    ids = rng.sample(range(60), rng.randint(1, 12))
    rows = items(*((i, rng.choice(["a", "b", None]), rng.random()) for i in ids))
    where = rng.choice([f"id in ({ids[0]}, {ids[-1]})", f"id < {ids[0]}", "category = 'a'", "id >= 0"])
    keyed = f"id in ({', '.join(map(str, ids))})"
    keys = pa.table({"id": pa.array(ids, pa.int32())})
    by = {"on": "id"} if mode == "equality-delete" else {}
    return {
        "append": lambda **o: dk.append(table, rows, **o),
        "delete": lambda **o: dk.delete(table, where, mode=mode, **o),
        "delete keys": lambda **o: dk.delete(table, keyed, mode=mode, **by, **o),
        "delete_keys": lambda **o: dk.delete_keys(table, keys, **o),
        "update": lambda **o: dk.update(table, {"value": 0.5}, where=keyed, mode=mode, **by, **o),
        "merge": lambda **o: dk.merge(table, rows, on="id", mode=mode, **o),
        "upsert": lambda **o: dk.upsert(table, rows, on="id", mode=mode, **o),
        "overwrite": lambda **o: dk.overwrite(table, rows, keyed, mode=mode, **o),
    }


def facts(commit: dk.results.Commit) -> dict[str, Any]:
    """What a dry run and the real call must agree on: all but ids of what is made, and paths of new files."""
    seen = {name: getattr(commit, name) for name in ("operation", "plans")}
    seen["summary"] = dict(commit.summary)
    for name in FILES:
        seen[name] = sorted(
            (getattr(f, "kind", "data"), f.record_count, f.file_size_in_bytes, f.spec_id, f.partition)
            for f in getattr(commit, name)
        )
    return seen


def random_table(catalog: dk.Catalog, version: int, rng: random.Random, **options: Any) -> dk.Table:
    rows = items(*((i, rng.choice(["a", "b", None]), rng.random()) for i in range(50)))
    table = make(catalog, rows[:30], rows[30:], format_version=version, **options)
    for mode in MODES[version]:
        dk.delete(table, f"id = {rng.randint(0, 49)}", mode=mode)
    return table


@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=["whole", "by category"])
@pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
def test_it_plans_as_the_real_call_and_writes_nothing(
    catalog: dk.Catalog, warehouse: Path, version: int, mode: str, partition_by: list[str]
) -> None:
    rng = random.Random(f"{version} {mode} {partition_by}")
    table = random_table(catalog, version, rng, partition_by=partition_by)
    rows = live(table)
    for name, call in calls(table, mode, rng).items():
        if version == 1 and name == "delete_keys":
            continue
        before, location = everything(warehouse), table.metadata_location
        try:
            planned = call(dry_run=True)
        except dk.InvalidInputError as e:
            with refused(table, dk.InvalidInputError, e.kind):
                call()
            continue
        assert everything(warehouse) == before, name
        assert (table.metadata_location, live(table)) == (location, rows), name
        assert (planned.snapshot_id, planned.sequence_number) == (None, None)
        assert (planned.attempts, planned.dry_run) == (0, True)
        done = call()
        assert facts(planned) == facts(done), name
        assert done.matched_rows in (None, planned.matched_rows), name
        assert (done.dry_run, done.attempts) == (False, 1)
        rows = live(table)


def test_the_counted_rows_are_those_that_go(catalog: dk.Catalog) -> None:
    for version, mode in VERSION_AND_MODE:
        table = random_table(catalog, version, random.Random(version))
        rows = len(live(table))
        planned = (
            dk.delete(table, "value < 0.5", mode=mode, on="id", dry_run=True)
            if (mode == "equality-delete")
            else dk.delete(table, "value < 0.5", mode=mode, dry_run=True)
        )
        dk.delete(table, "value < 0.5", mode="copy-on-write")
        assert planned.matched_rows == rows - len(live(table)), (version, mode)


def test_keys_of_all_partitions_need_no_spec_before(catalog: dk.Catalog, warehouse: Path) -> None:
    """The real call first gives the table an unpartitioned spec, in a commit of its own."""
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)), format_version=2, partition_by=["category"])
    keys = pa.table({"id": pa.array([1], pa.int32())})
    for call in (
        lambda **o: dk.delete_keys(table, keys, **o),
        lambda **o: dk.upsert(table, items((2, "b", 3.0)), on="id", mode="equality-delete", **o),
    ):
        before, specs = everything(warehouse), len(table.metadata.specs)
        planned = call(dry_run=True)
        assert (everything(warehouse), len(table.metadata.specs)) == (before, specs)
        assert facts(planned) == facts(call())


def test_partitions_and_streams(catalog: dk.Catalog, warehouse: Path) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)), partition_by=["category"])
    rows = items((3, "a", 3.0), (4, "c", 4.0))
    for call in (
        lambda **o: dk.overwrite_partitions(table, rows, **o),
        lambda **o: dk.append(table, (pa.RecordBatch.from_pylist(rows, ITEMS) for _ in range(3)), **o),
    ):
        before = everything(warehouse)
        planned = call(dry_run=True)
        assert everything(warehouse) == before
        assert facts(planned) == facts(call())


def test_a_table_opened_by_its_path(catalog: dk.Catalog, warehouse: Path) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)), format_version=3)
    by_path = dk.from_metadata(table.metadata_location)
    before = everything(warehouse)
    for mode in MODES[3]:
        assert dk.delete(by_path, "id = 1", mode=mode, dry_run=True).operation is not None
    with pytest.raises(dk.InvalidInputError, match="read-only"):
        dk.delete(by_path, "id = 1")
    assert everything(warehouse) == before


def test_nothing_to_change(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0)))
    planned = dk.delete(table, "id = 9", dry_run=True)
    assert (planned.operation, planned.dry_run, planned.summary) == (None, True, {})
    assert repr(planned) == "Commit(nothing to change)"
    assert repr(dk.delete(table, "id = 1", dry_run=True)) == "Commit(delete, dry run, removed_data_files=1)"
