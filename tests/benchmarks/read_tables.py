"""The tables of part `read`: files of many shapes and writers, and two data sets with deletes of every kind.

The rows of a table that must be read are computed with pyarrow from the rows that were written, and never read back.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import deletekit as dk
from tests.benchmarks.readers import COLUMNS, Job
from tests.benchmarks.tables import hide, local_path, numbered_rows

Write = Callable[[pa.Table, Path], None]
KEYS_SHARE = 0.005
SHARES = (1, 10, 50)
DELETES = ("vectors", "positions", "keys")
SEED = 20_261_129


@dataclass(frozen=True)
class DataSet:
    """Rows, how their files are written, the columns that are read, and the columns of keys that are deleted."""

    rows: Callable[[int], pa.Table]
    write: Write
    columns: Sequence[str] = tuple(COLUMNS)
    keys: Sequence[list[str]] = ()


def parquet(rows: pa.Table, folder: Path, files: int = 2, **options: Any) -> None:
    """Write files with pyarrow, which gives their pages checksums, as Java does."""
    for number, first in enumerate(range(0, len(rows), -(-len(rows) // files))):
        part = rows.slice(first, -(-len(rows) // files))
        made = {"row_group_size": len(rows), "compression": "zstd", "write_page_checksum": True} | options
        pq.write_table(part, folder / f"{number:04}.parquet", **made)


def by_duckdb(rows: pa.Table, folder: Path) -> None:
    import duckdb  # noqa: PLC0415  # a peer, which need not be there

    duckdb.from_arrow(rows).write_parquet(str(folder / "0.parquet"))


def by_polars(rows: pa.Table, folder: Path) -> None:
    import polars as pl  # noqa: PLC0415

    pl.DataFrame(rows).write_parquet(folder / "0.parquet")


def by_deletekit(rows: pa.Table, folder: Path) -> None:
    table = dk.create_table(dk.local_catalog(folder / "made"), "n.t", rows.schema)
    dk.append(table, rows)
    for number, task in enumerate(dk.scan(table).plan()):
        shutil.move(local_path(task.data_file.file_path), folder / f"{number}.parquet")


@cache
def numbers(rows: int) -> pa.Table:
    """Ids in order, groups, random names, random doubles, times in order."""
    return pa.concat_tables(chunk for _, chunk in numbered_rows(rows)).combine_chunks()


def text(rows: int) -> pa.Table:
    """Names, and words of which there are few."""
    names, groups = numbers(rows)["name"], numbers(rows)["grp"].to_numpy()
    words = pa.DictionaryArray.from_arrays(groups, [f"a word of a few letters {i}" for i in range(100)])
    return pa.table({"name": names, "word": words.dictionary_decode(), "id": numbers(rows)["id"]})


def nested(rows: int) -> pa.Table:
    """A struct, a list of none to three, and a number."""
    ids, values = (numbers(rows)[name].chunk(0) for name in COLUMNS)
    ends = np.concatenate([[0], np.cumsum(np.arange(rows) % 4)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(ends, np.arange(ends[-1]))
    return pa.table({"s": pa.StructArray.from_arrays([ids, values], ["a", "b"]), "l": lists, "id": ids})


def wide(rows: int) -> pa.Table:
    """A hundred columns of a fiftieth of the rows."""
    drawn = np.random.default_rng(SEED).random((100, rows // 50))
    return pa.table({f"c{i}": column for i, column in enumerate(drawn)})


def lineitem(rows: int) -> pa.Table:
    """TPC-H's lineitem by DuckDB's generator, at scale 1 for five million rows."""
    import duckdb  # noqa: PLC0415
    import duckdb_extension_tpch  # type: ignore[import-untyped]  # noqa: PLC0415

    (extension,) = Path(duckdb_extension_tpch.__file__).parent.glob("extensions/*/*.duckdb_extension")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'; CALL dbgen(sf={rows / 5_000_000})")
    return connection.execute("FROM lineitem").to_arrow_table().combine_chunks()


SPARK = "one row group a file, as Spark's"
SHAPES: dict[str, DataSet] = {
    SPARK: DataSet(numbers, parquet, keys=[["id"], ["grp", "name"]]),
    "lineitem, one row group a file": DataSet(
        lineitem,
        parquet,
        ["l_orderkey", "l_suppkey", "l_extendedprice", "l_shipdate"],
        [["l_partkey"], ["l_suppkey", "l_comment"]],
    ),
    "one large file": DataSet(numbers, partial(parquet, files=1)),
    "200 small files": DataSet(numbers, partial(parquet, files=200)),
    "DuckDB's": DataSet(numbers, by_duckdb),
    "polars'": DataSet(numbers, by_polars),
    "deletekit's": DataSet(numbers, by_deletekit),
    "text, dictionaries": DataSet(text, parquet, ["name", "word"]),
    "nested": DataSet(nested, parquet, ["s", "l"]),
    "snappy": DataSet(numbers, partial(parquet, compression="snappy")),
    "not compressed": DataSet(numbers, partial(parquet, compression="none")),
    "100 columns": DataSet(wide, parquet, [f"c{i}" for i in range(100)]),
}
"""By what the report calls them; those with keys get deletes too."""


class ReadTables:
    """The tables of one size below a folder, made anew in each run of the benchmark."""

    def __init__(self, work: Path, rows: int) -> None:
        self.rows, self.folder = rows, work / f"read-{rows}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self._catalog = dk.local_catalog(self.folder / "warehouse")

    def shape(self, name: str) -> tuple[Job, pa.Table]:
        """Return what readers need to know of a data set without deletes, and its rows."""
        number = list(SHAPES).index(name)
        folder, rows = self.folder / str(number), SHAPES[name].rows(self.rows)
        folder.mkdir(parents=True)
        SHAPES[name].write(rows, folder)
        return self._table(f"s{number}", name, rows), rows

    def deleted(self, plain: Job, name: str, rows: pa.Table, kind: str, what: Any) -> tuple[Job, pa.Table]:
        """Return the same with deletes, by a share of the rows in percent or by the columns of keys."""
        chance, label = np.random.default_rng(SEED), f"{kind}_{what}" if kind != "keys" else "_".join([kind, *what])
        job = self._table(f"{plain['table']}_{label}", name, rows, 3 if kind == "vectors" else 2)
        table = dk.load_table(self._catalog, job["name"])
        if kind == "keys":
            some = chance.choice(len(rows), int(len(rows) * KEYS_SHARE), replace=False)
            keys, read = rows.select(what).take(pa.array(some)), [*dict.fromkeys([*plain["columns"], *what])]
            dk.delete_keys(table, keys)
            left = rows.select(read).join(keys.group_by(what).aggregate([]), what, join_type="left anti")
        else:
            gone, read = chance.random(len(rows)) < what / 100, plain["columns"]
            files = sorted((task.data_file for task in dk.scan(table).plan()), key=lambda f: f.file_path)
            hide(table, files, gone, kind)
            left = rows.filter(pa.array(~gone))
        found = {"location": table.refresh().metadata_location, "plain": plain["location"], "raw_columns": read}
        return job | found, left.select(plain["columns"])

    def _table(self, label: str, name: str, rows: pa.Table, version: int = 2) -> Job:
        table = dk.create_table(self._catalog, f"bench.{label}", rows.schema, format_version=version)
        paths = sorted(map(str, (self.folder / str(list(SHAPES).index(name))).glob("*.parquet")))
        dk.add_files(table, paths)
        named = {"table": label, "name": f"bench.{label}", "location": table.refresh().metadata_location}
        where = {"folder": local_path(table.location), "warehouse": str(self.folder / "warehouse")}
        return named | where | {"paths": paths, "columns": list(SHAPES[name].columns)}
