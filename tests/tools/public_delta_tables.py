"""Sync the Delta tables that other projects test with, and compare the rows with what other readers read.

`python -m tests.tools.public_delta_tables FOLDER...` takes checkouts of delta-rs, delta-kernel-rs, duckdb-delta, delta.
It finds every Delta table in them, also in archives. Each is synced at each of its newest 26 versions, one after the
other, to both format versions. The rows are compared with those that delta-rs and DuckDB read of the Delta version, and
with those that pyiceberg, polars and DuckDB read of the Iceberg table. DuckDB reads what its installed extensions can
(packages `duckdb-extension-delta`, `-iceberg`, `-avro`, `-icu`). `--spark N` lets Spark read both tables of N of them.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import re
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import deletekit as dk
from deletekit.delta.log import DeltaLog
from deletekit.table.file_io import PyIcebergIO
from tests.delta.reading import arrow_by_deltalake
from tests.interop.rows import frozen
from tests.tools.duckdb_process import DuckDB

VERSIONS, MOST_ROWS = 26, 20_000
ARCHIVES = {".zst": "zstd", ".gz": "gzip"}
Rows = Counter[Any]
_duckdb = DuckDB()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One version of a table in one format version: the verdict on it, and on each reader of the Iceberg table."""

    table: str
    path: Path
    version: int
    format_version: int
    verdict: str
    metadata: str = ""
    readers: Mapping[str, str] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for versions with the same verdict, then counts. The exit code is 1 if rows differ or we crash."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--spark", type=int, default=0, metavar="N", help="also let Spark read N of the tables")
    parser.add_argument("--only", default="", metavar="TEXT", help="only tables whose name has this text")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args(arguments)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tables = {name: path for name, path in unpacked(given.folders, folder / "archives") if given.only in name}
        states = [state for _, found in judged(tables, folder, given.workers) for state in found]
        print(f"\n{len(tables)} tables, {len({(s.table, s.version) for s in states})} versions, {len(states)} states")
        for verdict, number in Counter(s.verdict for s in states).most_common():
            print(f"{number:6} {verdict}")
        for (reader, found), number in sorted(Counter(r for s in states for r in s.readers.items()).items()):
            print(f"{number:6} {reader}: {found}")
        if given.spark:
            by_spark(states, given.spark, folder)
    return int(any(s.verdict.startswith(("DIFFERS", "crashed")) for s in states))


def unpacked(folders: Iterable[Path], temporary: Path) -> Iterator[tuple[str, Path]]:
    """Yield the Delta tables in folders, and in archives in them, by name. Of tables with equal logs only the first."""
    known: set[bytes] = set()
    for number, folder in enumerate(folders):
        places = [(folder, folder.parent)]
        for archive in sorted(path for path in folder.rglob("*.tar.*") if path.suffix in ARCHIVES):
            place = temporary / str(number) / archive.relative_to(folder.parent)
            stream = pa.CompressedInputStream(pa.OSFile(str(archive)), ARCHIVES[archive.suffix])
            with stream, tarfile.open(fileobj=stream, mode="r|") as tar:
                tar.extractall(place, filter="data")
            places.append((place, temporary / str(number)))
        for place, base in places:
            for log in sorted(place.rglob("_delta_log")):
                digest = hashlib.sha256()
                for file in sorted(f for f in log.rglob("*") if f.is_file() and not f.name.startswith(".")):
                    digest.update(file.name.encode() + file.read_bytes())
                if digest.digest() not in known and log.is_dir():
                    known.add(digest.digest())
                    yield str(log.parent.relative_to(base)), log.parent


def judged(tables: Mapping[str, Path], folder: Path, workers: int) -> Iterator[tuple[str, list[State]]]:
    """Judge tables in other processes, print what is found, and yield it. A process that dies is `crashed`."""
    for name, path, found in _results(tables, folder, workers):
        shown = sorted(found, key=lambda s: (s.format_version, s.version))
        for (format_version, verdict), same in groupby(shown, key=lambda s: (s.format_version, s.verdict)):
            numbers = [s.version for s in same]
            span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
            print(f"{name} | {span} | v{format_version} | {verdict}", flush=True)
        for state in shown:
            for reader, result in state.readers.items():
                if result == "DIFFERS":
                    print(f"{name} | {state.version} | v{state.format_version} | {reader} {result}", flush=True)
        yield name, found or [State(table=name, path=path, version=-1, format_version=0, verdict="no version")]


def _results(tables: Mapping[str, Path], folder: Path, workers: int) -> Iterator[tuple[str, Path, list[State]]]:
    def work(some: Mapping[str, Path], number: int) -> Iterator[tuple[str, Path, list[State] | None]]:
        with ProcessPoolExecutor(number, mp_context=multiprocessing.get_context("spawn")) as pool:
            waiting = [(name, path, pool.submit(judge, name, path, folder)) for name, path in some.items()]
            for name, path, future in waiting:
                try:
                    yield name, path, future.result()
                except BrokenProcessPool:
                    yield name, path, None

    broken: dict[str, Path] = {}
    for name, path, found in work(tables, workers):
        if found is None:
            broken[name] = path
        else:
            yield name, path, found
    for name, path in broken.items():  # one of them ended the process of the others
        crashed = State(table=name, path=path, version=-1, format_version=0, verdict="crashed: the process died")
        yield from ((n, p, [crashed] if found is None else found) for n, p, found in work({name: path}, 1))


def judge(name: str, path: Path, folder: Path) -> list[State]:
    """Sync the newest versions of a table, and compare each with other readers."""
    place = folder / "warehouses" / hashlib.sha256(name.encode()).hexdigest()[:16]
    catalog = dk.local_catalog(place)
    try:
        latest = DeltaLog(PyIcebergIO({}, str(path)), str(path)).latest
    except dk.DeletekitError as e:
        return [State(table=name, path=path, version=-1, format_version=0, verdict=f"refused by all: {e.kind}")]
    out = []
    for version in range(max(0, latest - VERSIONS + 1), latest + 1):
        others = {
            "delta-rs": _try(lambda v=version: arrow_by_deltalake(path, v)),
            "DuckDB": _try(lambda v=version: _duckdb.arrow(f"SELECT * FROM delta_scan('{_sql(path)}', version={v})")),
        }
        out += [_judge(name, path, version, number, catalog, others) for number in (3, 2)]
    return [state for state in out if state.verdict != "refused by all: delta-log-gap"]


def _judge(
    name: str, path: Path, version: int, format_version: int, catalog: dk.Catalog, others: Mapping[str, Rows | str]
) -> State:
    shared = {"table": name, "path": path, "version": version, "format_version": format_version}
    reads = [reader for reader, rows in others.items() if not isinstance(rows, str)]
    try:
        table = dk.sync_delta(
            path, catalog, f"v{format_version}.t", version=version, format_version=format_version
        ).table
        ours = _counted(dk.scan(table).to_arrow())
    except dk.DeletekitError as e:
        return State(**shared, verdict=f"refused{'' if reads else ' by all'}: {e.kind}")
    except Exception as e:  # noqa: BLE001  # what it is, is the result
        return State(**shared, verdict=f"crashed: {type(e).__name__}: {e}")
    differ = [reader for reader in reads if others[reader] != ours]
    same = [reader for reader in reads if reader not in differ]
    verdict = "equal" if same else "read by us only"
    if differ:
        verdict = f"DIFFERS from {' and '.join(differ)}{' (but not from ' + same[0] + ')' if same else ''}"
    location = table.metadata_location
    results = {reader: _try(lambda read=read: read(location)) for reader, read in READERS.items()}
    readers = {r: x if isinstance(x, str) else "same" if x == ours else "DIFFERS" for r, x in results.items()}
    return State(**shared, verdict=verdict, metadata=location, readers=readers)


def _pyiceberg(location: str) -> pa.Table:
    from pyiceberg.table import StaticTable  # noqa: PLC0415

    return StaticTable.from_metadata(location).scan().to_arrow()


def _polars(location: str) -> pa.Table:
    import polars as pl  # noqa: PLC0415

    return pl.scan_iceberg(location).collect().to_arrow()


READERS: dict[str, Callable[[str], pa.Table]] = {
    "pyiceberg": _pyiceberg,
    "polars": _polars,
    "DuckDB": lambda location: _duckdb.arrow(f"SELECT * FROM iceberg_scan('{_sql(location)}')"),
}


def _try(read: Callable[[], pa.Table | list[dict[str, Any]]]) -> Rows | str:
    """Return rows, or why there are none. A panic of Rust is no Exception."""
    try:
        return _counted(read())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # noqa: BLE001
        return re.sub(r"\S*/\S*|\d+|'[^']*'", "...", f"{type(e).__name__}: {e}".split("\n")[0])[:100]


def _counted(rows: pa.Table | list[dict[str, Any]]) -> Rows:
    """Count equal rows. Of many rows, their texts are hashed, if no column is nested: that takes much less memory."""
    import polars as pl  # noqa: PLC0415

    if isinstance(rows, list):
        return Counter(frozen(_maps(row)) for row in rows)
    if rows.num_rows <= MOST_ROWS or any(pa.types.is_nested(kind) for kind in rows.schema.types):
        return _counted(rows.to_pylist())
    times = pl.selectors.datetime()
    texts = pl.DataFrame(rows.select(sorted(rows.column_names))).with_columns(
        times.dt.replace_time_zone(None).dt.cast_time_unit("us"), pl.selectors.date().cast(pl.Date)
    )
    hashes = texts.select(pl.all().cast(pl.String)).hash_rows()
    return Counter({"rows": rows.num_rows, **dict(hashes.value_counts().iter_rows())})


def _maps(value: Any) -> Any:
    """Return a value in which maps are sorted pairs, as structs of polars too, and times have no zone."""
    if isinstance(value, Mapping):
        return {k: _maps(v) for k, v in value.items()}
    if isinstance(value, list):
        pairs = [(v["key"], v["value"]) if isinstance(v, dict) and v.keys() == {"key", "value"} else v for v in value]
        if all(isinstance(pair, tuple) for pair in pairs):
            return sorted(([_maps(k), _maps(v)] for k, v in pairs), key=repr)
        return [_maps(v) for v in value]
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _sql(path: str | Path) -> str:
    return str(path).replace("'", "''")


def by_spark(states: Sequence[State], number: int, folder: Path) -> None:
    """Let Spark read the newest version of some tables, of Delta and of Iceberg, and print which of them are equal."""
    from tests.delta.delta_tables import plain_rows, rows_at  # noqa: PLC0415
    from tests.spark_session import spark_session  # noqa: PLC0415

    newest = {(s.table, s.format_version): s for s in states if s.metadata}
    names = sorted({table for table, _ in newest})
    spark = spark_session(folder / "spark")
    results: Counter[str] = Counter()
    for name in names[:: max(1, len(names) // number)]:
        for state in (newest[key] for key in ((name, 2), (name, 3)) if key in newest):
            location = state.metadata
            delta = _try(lambda s=state: rows_at(spark, s.path, s.version))
            ours = _try(lambda at=location: plain_rows(spark.read.format("iceberg").load(at)))
            if isinstance(delta, str):
                found = "Spark does not read the Delta table"
            else:
                found = "equal" if ours == delta else f"DIFFERS: {ours}" if isinstance(ours, str) else "DIFFERS"
            results[found[:100]] += 1
            if found != "equal":
                print(f"{name} | {state.version} | v{state.format_version} | Spark: {found[:300]}", flush=True)
    spark.stop()
    for found, times in results.most_common():
        print(f"{times:6} Spark: {found}")


if __name__ == "__main__":
    sys.exit(main())
