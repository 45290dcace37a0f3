"""Scans of files with many small row groups, which are read together, against plain Python."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from deletekit.deletes import scan_task
from deletekit.deletes.scan_task import ScanTask, task_parts
from deletekit.formats import tabular
from deletekit.formats.content_file import DataFile, EntryStatus, ManifestEntry
from deletekit.formats.tabular import RowGroup
from tests.tables import MODES

ROWS, GROUP = 200, 8
SCHEMA = pa.schema({"n": pa.int32(), "x": pa.float64(), "i": pa.int64()})
TESTS: list[Any] = [(None, lambda _: True), ("n = 3", lambda r: r["n"] == 3), ("x > 80", lambda r: (r["x"] or 0) > 80)]


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("joined", [0, 20, 1 << 16])
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_scans_against_plain_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, version: int, joined: int
) -> None:
    for module in (tabular, scan_task):
        monkeypatch.setattr(module, "JOINED_ROWS", joined)
    for name, value in {"BATCH_ROWS": 5, "WHOLE_BYTES": joined, "_ROWS_OF_ONE_THREAD": joined}.items():
        monkeypatch.setattr(tabular, name, value)  # with small values in batches, and columns in threads
    rng = random.Random(100 * seed + version)
    rows = [
        {"n": rng.choice([i // 16, None, rng.randrange(9)]), "x": rng.choice([i / 2, None, float(i % 3)]), "i": i}
        for i in range(ROWS)
    ]
    properties = {"write.parquet.row-group-limit": str(GROUP)}
    table = dk.create_table(dk.local_catalog(tmp_path), "db.t", SCHEMA, format_version=version, properties=properties)
    dk.append(table, pa.Table.from_pylist(rows, SCHEMA))
    (task,) = dk.scan(table).plan()
    assert len(task.data_file.split_offsets or ()) == ROWS // GROUP
    gone: set[int] = set()
    for mode in [mode for mode in MODES[version] if mode != "copy-on-write"] * 2:  # which would write other row groups
        first, some = rng.randrange(ROWS), rng.sample(range(ROWS), 3)
        until = first + rng.choice([1, 5 * GROUP])
        dk.delete(table, f"(i >= {first} AND i < {until}) OR i IN {tuple(some)}", mode=mode)
        gone |= {*range(first, until), *some}
    columns = ["i", "_pos", "x", *(["_row_id"] if version == 3 else [])]
    for where, keeps in TESTS:
        of_rows = [{**row, "_pos": row["i"], "_row_id": row["i"]} for row in rows if keeps(row)]
        expected = [{name: row[name] for name in columns} for row in of_rows if row["i"] not in gone]
        for threads in (1, 2):
            scan = dk.scan(table, where, columns, engine=dk.engine.local(threads))
            assert scan.to_arrow().to_pylist() == expected
            assert scan.count() == len(expected)
        marked = dk.scan(table, where, ["i", "_deleted"]).to_arrow().to_pylist()
        assert marked == [{"i": row["i"], "_deleted": row["i"] in gone} for row in of_rows]


@pytest.mark.parametrize("counts", [(3, 0, 3), (0, 2, 0, 0, 2, 1, 0), (1, 1, 0, 4, 0)])
def test_row_groups_without_rows(tmp_path: Path, counts: tuple[int, ...]) -> None:
    """A file of another writer may have some; they are passed over, and those around them are not neighbours."""
    rows = [{"n": i % 2, "x": float(i), "i": i} for i in range(sum(counts))]
    path = tmp_path / "foreign.parquet"
    with pq.ParquetWriter(path, SCHEMA) as writer:
        for at, count in enumerate(counts):
            first = sum(counts[:at])
            writer.write_table(pa.Table.from_pylist(rows[first : first + count], SCHEMA))
    assert pq.read_metadata(path).num_row_groups == len(counts)
    table = dk.create_table(dk.local_catalog(tmp_path / "warehouse"), "db.t", SCHEMA)
    dk.add_files(table, [path])
    dk.delete(table, "i = 3", mode="position-delete")
    expected = [{"i": row["i"], "_pos": row["i"]} for row in rows if row["i"] != 3]
    assert dk.scan(table, None, ["i", "_pos"]).to_arrow().to_pylist() == expected
    assert dk.scan(table, "x >= 0").count() == len(expected)


@pytest.mark.parametrize(
    ("listed", "rows", "size", "parts"),
    [
        (0, 10, 100, 1),
        (1, 10**7, 1 << 30, 1),
        (3, 3 << 20, 3 << 27, 3),  # of usual size: each is a part
        (100, 100_000, 1 << 20, 1),
        (100, 10**7, 1 << 20, 10),
        (100, 100_000, 1 << 34, 100),  # few rows, but large ones
        (5, 0, 0, 1),
    ],
)
def test_small_row_groups_share_a_part(listed: int, rows: int, size: int, parts: int) -> None:
    file = DataFile(
        spec_id=0,
        file_path="f",
        file_format="PARQUET",
        partition=(),
        record_count=rows,
        file_size_in_bytes=size,
        split_offsets=tuple(range(listed)) or None,
    )
    entry = ManifestEntry(
        status=EntryStatus.ADDED, snapshot_id=1, sequence_number=1, file_sequence_number=1, data_file=file
    )
    found = list(task_parts([ScanTask(entry)]))
    assert len(found) == parts
    assert sum(part.size for part in found) == size
    for real in (0, 1, 2, listed, listed + 7):  # the manifest may be wrong
        groups = [RowGroup(index=i, first_position=i, num_rows=1) for i in range(real)]
        assert [group for part in found for group in part.of(groups)] == groups
