"""The benchmark's tables, built once into a work directory and reused when they are complete.

One set of data files; each table has hard links to them and its own deletes. What a table must hold is computed with
numpy from the rows that were made, never read back from it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import deletekit as dk
from deletekit.commit.change import Base as CommitBase
from deletekit.commit.change import RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.merge_previous_deletes import FilePositions, write_deletion_vectors, write_position_deletes
from deletekit.formats.content_file import DataFile
from deletekit.formats.deletion_vector import PositionBitmap

BUILD = 3
"""Raised when what is built changes: older work directories are then built anew."""

FILES = 8
ROWS_PER_KEY = 200  # 100,000 keys for 20 million rows
GROUPS = 100
NAME_LENGTH = 12
SEED = 20_261_121

SCHEMA = pa.schema(
    {"id": pa.int64(), "grp": pa.int32(), "name": pa.string(), "value": pa.float64(), "ts": pa.timestamp("us")}
)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Expected:
    """What the live rows of a table come to."""

    rows: int
    sum_id: int
    sum_value: float


@dataclass(frozen=True)
class BenchTable:
    """A table of the work directory: its name in the catalog, its metadata file, its data files, its live rows."""

    name: str
    location: str
    folder: str
    paths: list[str]
    expected: Expected


@dataclass
class Tables:
    """A work directory's tables by what deletes they have."""

    warehouse: Path
    rows: int
    by_name: dict[str, BenchTable]
    group_rows: list[int]
    """Rows of each value of `grp`."""

    def __getitem__(self, name: str) -> BenchTable:
        return self.by_name[name]

    def fresh(self, name: str, format_version: int = 3) -> dk.Table:
        """A new table on hard links of the same data files, nothing deleted; an older one of that name goes."""
        catalog = dk.local_catalog(self.warehouse)
        drop(catalog, f"work.{name}")
        return linked_table(catalog, f"work.{name}", source_files(catalog), format_version)


def build(work: Path, rows: int, names: Collection[str] = ()) -> Tables:
    """The tables of `rows` rows below `work`: those named (default: all), built anew when one of them is not there."""
    warehouse = work / f"rows-{rows}"
    done = warehouse / "complete.json"
    wanted = set(names or recipes()) | {"none"}
    if done.exists():
        stored = json.loads(done.read_text(encoding="utf-8"))
        if stored["build"] == BUILD and wanted <= set(stored["tables"]):
            by_name = {n: _from_json(t) for n, t in stored["tables"].items()}
            return Tables(warehouse, rows, by_name, stored["group_rows"])
    shutil.rmtree(warehouse, ignore_errors=True)
    base = Base(dk.local_catalog(warehouse), rows)
    tables = {name: make(base, name) for name, make in recipes().items() if name in wanted}
    group_rows = base.group_rows.tolist()
    stored = {"build": BUILD, "group_rows": group_rows, "tables": {n: asdict(t) for n, t in tables.items()}}
    done.write_text(json.dumps(stored), encoding="utf-8")
    return Tables(warehouse, rows, tables, group_rows)


def recipes() -> dict[str, Callable[[Base, str], BenchTable]]:
    """Every table and how it is made."""
    out: dict[str, Callable[[Base, str], BenchTable]] = {"none": lambda base, name: base.table(name, 2)}
    for share in (1, 10):
        out[f"dv_{share}"] = lambda base, name, share=share: with_vectors(base, name, share)
    return out | {"eq_id_10": lambda base, name: with_keys(base, name, ["id"], 10)}


class Base:
    """The data files, and of their rows what is needed to choose deletes and to know what they leave."""

    def __init__(self, catalog: dk.Catalog, rows: int) -> None:
        self.catalog = catalog
        self.rows = rows
        rng = np.random.default_rng(SEED)
        chosen = np.sort(rng.choice(rows, rows // ROWS_PER_KEY, replace=False))
        source = dk.create_table(
            catalog, "bench.source", SCHEMA, properties={"write.target-file-size-bytes": str(1 << 40)}
        )
        ids, values, keys = [], [], []
        self.group_rows = np.zeros(GROUPS, dtype=np.int64)
        for first, chunk in numbered_rows(rows):
            self.group_rows += np.bincount(chunk["grp"].to_numpy(), minlength=GROUPS)
            dk.append(source, chunk)
            ids.append(chunk["id"].to_numpy())
            values.append(chunk["value"].to_numpy())
            mine = chosen[(chosen >= first) & (chosen < first + len(chunk))]
            keys.append(chunk.take(pa.array(mine - first)).select(["id", "grp", "name"]))
        self.ids, self.values = np.concatenate(ids), np.concatenate(values)
        self.keys = pa.concat_tables(keys).take(pa.array(rng.permutation(len(chosen))))
        self.key_rows = np.zeros(rows, dtype=bool)
        self.key_rows[chosen] = True
        self.files = source_files(catalog)
        self.deleted = {share: rng.random(rows) < share / 100 for share in (1, 10)}

    def table(self, name: str, format_version: int, change: Callable[[dk.Table], Mask] | None = None) -> BenchTable:
        """A table on the data files, changed by `change`, which says which rows are gone."""
        table = linked_table(self.catalog, f"bench.{name}", self.files, format_version)
        live = ~change(table) if change else np.ones(self.rows, dtype=bool)
        expected = Expected(int(live.sum()), int(self.ids[live].sum()), float(self.values[live].sum()))
        if dk.scan(table).count() != expected.rows:
            raise AssertionError(f"{name} was not built as meant")
        paths = [local_path(f.file_path) for f in data_files(table)]
        return BenchTable(f"bench.{name}", table.metadata_location, local_path(table.location), paths, expected)


def numbered_rows(rows: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each data file, and the number of its first. Ids are in order, everything else but `ts` is random."""
    bounds = np.linspace(0, rows, FILES + 1).astype(np.int64)
    start_us = int(datetime(2026, 1, 1).timestamp()) * 1_000_000  # noqa: DTZ001  # any start will do
    for number, (first, stop) in enumerate(pairwise(bounds)):
        rng = np.random.default_rng([SEED, number])
        count = int(stop - first)
        letters = rng.integers(97, 123, count * NAME_LENGTH, dtype=np.uint8)
        offsets = np.arange(count + 1, dtype=np.int32) * NAME_LENGTH
        ids = np.arange(first, stop, dtype=np.int64)
        columns = [
            pa.array(ids),
            pa.array(rng.integers(0, GROUPS, count, dtype=np.int32)),
            pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters)),
            pa.array(rng.random(count)),
            pa.array(start_us + ids * 1000).cast(pa.timestamp("us")),
        ]
        yield int(first), pa.Table.from_arrays(columns, schema=SCHEMA)


def with_vectors(base: Base, name: str, share: int) -> BenchTable:
    """`share` percent of the rows deleted by deletion vectors."""
    gone = base.deleted[share]

    def change(table: dk.Table) -> Mask:
        hide(table, data_files(table), gone, "vectors")
        return gone

    return base.table(name, 3, change)


def hide(table: dk.Table, files: list[DataFile], gone: Mask, kind: str) -> None:
    """Delete rows of data files by position, as vectors or in a position delete file for each data file."""

    def delta(base: CommitBase) -> RowDelta:
        hidden = list(positions_by_file(files, gone))
        if kind == "vectors":
            return RowDelta(added_delete_files=tuple(write_deletion_vectors(base.write, hidden)))
        return RowDelta(added_delete_files=tuple(write_position_deletes(base.write, hidden, "file")))

    commit(plan_change(table, delta))


def with_keys(base: Base, name: str, columns: list[str], files: int) -> BenchTable:
    """The keys deleted by equality, in `files` delete files of a commit each."""

    def change(table: dk.Table) -> Mask:
        keys = base.keys.select(columns)
        for part in np.array_split(np.arange(len(keys)), files):
            dk.delete_keys(table, keys.take(pa.array(part)))
        return base.key_rows

    return base.table(name, 2, change)


def positions_by_file(files: list[DataFile], gone: Mask) -> Iterator[FilePositions]:
    """The deleted positions of each data file; files are in the order in which their rows were made."""
    first = 0
    for file in files:
        part = gone[first : first + file.record_count]
        yield FilePositions(file, PositionBitmap(np.flatnonzero(part)))
        first += file.record_count


def source_files(catalog: dk.Catalog) -> list[DataFile]:
    return data_files(dk.load_table(catalog, "bench.source"))


def data_files(table: dk.Table) -> list[DataFile]:
    """The live data files, in the order in which their rows were made."""
    return sorted((task.data_file for task in dk.scan(table).plan()), key=first_id)


def first_id(file: DataFile) -> int:
    assert file.lower_bounds is not None
    return int.from_bytes(file.lower_bounds[1], "little")


def linked_table(catalog: dk.Catalog, name: str, files: list[DataFile], format_version: int) -> dk.Table:
    """A table whose data files are hard links, in its own folder, to those of another."""
    table = dk.create_table(catalog, name, SCHEMA, format_version=format_version)
    folder = f"{table.location}/data"
    Path(local_path(folder)).mkdir(parents=True, exist_ok=True)
    links = []
    for number, file in enumerate(files):
        path = f"{folder}/{number:05d}.parquet"
        os.link(local_path(file.file_path), local_path(path))
        links.append(replace(file, file_path=path, first_row_id=None))
    commit(plan_change(table, lambda _: RowDelta(added_data_files=tuple(links))))
    return table


def drop(catalog: dk.Catalog, name: str) -> None:
    """Remove a table and its folder, if it is there."""
    try:
        table = dk.load_table(catalog, name)
    except dk.NotFoundError:
        return
    catalog.drop_table(name)
    shutil.rmtree(local_path(table.location))


def local_path(location: str) -> str:
    return location.removeprefix("file://")


def _from_json(raw: dict) -> BenchTable:  # type: ignore[type-arg]
    return BenchTable(**{**raw, "expected": Expected(**raw["expected"])})
