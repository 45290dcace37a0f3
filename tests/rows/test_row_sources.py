"""What verbs take for rows, and how a stream becomes files: rows equal, bounded, read once, never half."""

import datetime as dt
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import repeat
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, dataset

import deletekit as dk
from deletekit.rows import data_file_writer, rolling_files, row_source
from tests.commit.racing import QUICK, racing
from tests.storage import stored_at
from tests.stored import parquet
from tests.tables import ITEMS, VERSION_AND_MODE, Row, expected, files_of, items, live, make, raises, unchanged

ROWS: list[Row] = [{"id": i, "category": f"c{i % 3}" if i % 5 else None, "value": i / 4} for i in range(100)]
WHOLE = pa.Table.from_pylist(ROWS, schema=ITEMS)
BATCHES = WHOLE.to_batches(max_chunksize=7)


KEYED: list[Callable[[dk.Table, Any], dk.results.Commit]] = [
    lambda table, rows: dk.upsert(table, rows, on="id"),
    lambda table, rows: dk.merge(table, rows, on="id"),
]


class ArrowStream:
    """Speaks Arrow and nothing else."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return WHOLE.__arrow_c_stream__(requested_schema)


class ArrowArray:
    """A batch that speaks Arrow and nothing else."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


class Batches:
    """Can be iterated and nothing else."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(BATCHES)


def written(folder: Path) -> dataset.Dataset:
    files = [str(folder / f"{i}.parquet") for i in range(2)]
    for file, part in zip(files, (WHOLE.slice(0, 40), WHOLE.slice(40)), strict=True):
        pq.write_table(part, file)
    return dataset.dataset(files, format="parquet")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "table": lambda _: WHOLE,
    "dicts": lambda _: ROWS,
    "columns": lambda _: WHOLE.to_pydict(),
    "batch": lambda _: WHOLE.combine_chunks().to_batches()[0],
    "stream": lambda _: ArrowStream(),
    "array": lambda _: ArrowArray(WHOLE.combine_chunks().to_batches()[0]),
    "reader": lambda _: pa.RecordBatchReader.from_batches(ITEMS, iter(BATCHES)),
    "dataset": written,
    "scanner": lambda folder: written(folder).scanner(batch_size=9),
    "DataFrame of polars": lambda _: pl.from_arrow(WHOLE),
    "LazyFrame": lambda _: pl.from_arrow(WHOLE).lazy().filter(pl.col("id") >= 0),  # type: ignore[union-attr]
    "DataFrame of pandas": lambda _: WHOLE.to_pandas(),
    "relation of DuckDB": lambda _: duckdb.from_arrow(WHOLE),
    "relation of a stream": lambda _: duckdb.from_arrow(WHOLE.to_reader()),
    "list of batches": lambda _: BATCHES,
    "list of readers": lambda _: [WHOLE.slice(0, 30).to_reader(), WHOLE.slice(30).to_reader()],
    "generator of batches": lambda _: (batch for batch in BATCHES),
    "generator of readers": lambda _: (WHOLE.slice(at, 50).to_reader() for at in (0, 50)),
    "generator of tables": lambda _: (pa.table(batch) for batch in BATCHES),
    "generator of arrays": lambda _: (ArrowArray(batch) for batch in BATCHES),
    "generator of frames": lambda _: (pl.from_arrow(batch) for batch in BATCHES),
    "generator of lists of dicts": lambda _: (ROWS[i : i + 9] for i in range(0, 100, 9)),
    "generator of dicts": lambda _: (dict(row) for row in ROWS),
    "iterable": lambda _: Batches(),
}


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize("kind", SOURCES)
def test_append_takes(catalog: dk.Catalog, tmp_path: Path, kind: str, partition_by: list[str]) -> None:
    table = make(catalog, schema=ITEMS, partition_by=partition_by)
    done = dk.append(table, SOURCES[kind](tmp_path))
    assert live(table) == expected(ROWS)
    assert len(done.added_data_files) == (4 if partition_by else 1)


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("kind", SOURCES)
def test_upsert_and_merge_take(catalog: dk.Catalog, tmp_path: Path, kind: str) -> None:
    old = items((3, "old", 0.5), (500, "kept", 0.5))
    both = expected([*ROWS, old[1]])
    for verb in KEYED:
        table = make(catalog, old, format_version=3)
        (tmp_path / table.name[-1]).mkdir(parents=True)
        verb(table, SOURCES[kind](tmp_path / table.name[-1]))
        assert live(table) == both


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("kind", SOURCES)
def test_overwrite_and_blind_upsert_take(catalog: dk.Catalog, tmp_path: Path, kind: str) -> None:
    """An upsert that must make a spec for its keys looks at its rows before it is planned."""
    old = items((3, "old", 0.5), (500, "kept", 0.5))
    table = make(catalog, old, partition_by="category")
    (tmp_path / "a").mkdir()
    dk.upsert(table, SOURCES[kind](tmp_path / "a"), on="id", mode="equality-delete")
    assert live(table) == expected([*ROWS, old[1]])
    dk.overwrite(table, SOURCES[kind](tmp_path), "id < 100")
    assert live(table) == expected([*ROWS, old[1]])


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("kind", SOURCES)
def test_delete_keys_takes(catalog: dk.Catalog, tmp_path: Path, kind: str) -> None:
    kept = items((3, "not c0", 0.75), (500, "kept", 0.5))
    table = make(catalog, ROWS, kept)
    done = dk.delete_keys(table, SOURCES[kind](tmp_path), on=["id", "category"])
    assert live(table) == expected(kept)
    assert done.summary["added-equality-deletes"] == "100"


def test_a_scan_is_a_source(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=3)
    dk.append(table, dk.scan(table, where="id < 5"))
    assert live(table) == expected([*ROWS, *ROWS[:5]])


# --- how it is written ------------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits so low that every path of the writer is taken with a few thousand rows."""
    monkeypatch.setattr(data_file_writer, "_PIECE_BYTES", 4_000)
    monkeypatch.setattr(rolling_files, "HELD_BYTES", 20_000)
    monkeypatch.setattr(rolling_files, "_COLUMN_BYTES", 0)
    monkeypatch.setattr(rolling_files, "_MOST_OPEN_LOCAL", 3)


SMALL_GROUPS = {"write.parquet.row-group-size-bytes": "8000"}


def many(partitions: int, count: int, *, is_sorted: bool, seed: int = 1) -> list[Row]:
    chance = random.Random(seed)
    keys = [chance.randrange(partitions) for _ in range(count)]
    names = sorted(keys) if is_sorted else keys
    return [{"id": i, "category": f"p{k}" if k else None, "value": chance.random()} for i, k in enumerate(names)]


@pytest.mark.sampled(3, tier=1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("is_sorted", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize(("partitions", "target"), [(1, 30_000), (5, 9_000), (60, 1 << 20), (150, 1 << 20)])
def test_partitions_are_written_side_by_side(
    catalog: dk.Catalog, partitions: int, target: int, is_sorted: bool, version: int
) -> None:
    rows = many(partitions, 4_000, is_sorted=is_sorted)
    whole = pa.Table.from_pylist(rows, schema=ITEMS)
    properties = {**SMALL_GROUPS, "write.target-file-size-bytes": str(target)}
    table = make(catalog, schema=ITEMS, partition_by=["category"], format_version=version, properties=properties)
    done = dk.append(table, pa.RecordBatchReader.from_batches(ITEMS, whole.to_batches(max_chunksize=97)))
    found = sorted((r for f in done.added_data_files for r in parquet(f.file_path).to_pylist()), key=lambda r: r["id"])
    assert found == rows
    assert live(table) == expected(rows)
    for file in done.added_data_files:
        stored = parquet(file.file_path)
        assert set(stored["category"].to_pylist()) == {file.partition[0]}
        assert stored["id"].to_pylist() == sorted(stored["id"].to_pylist()), "in the order of the rows"
        assert file.record_count == len(stored)
        assert file.file_size_in_bytes == stored_at(file.file_path).stat().st_size
    if is_sorted and target > 100_000:
        few = len({r["category"] for r in rows}) * 1.2
        assert len(done.added_data_files) <= few, "one file for each partition, but for those cut to make room"
    assert dk.verify(table).ok


@pytest.mark.usefixtures("small")
def test_metrics_of_a_file_in_row_groups_are_those_of_its_rows(catalog: dk.Catalog) -> None:
    chance = random.Random(2)
    rows = [
        {"id": i, "category": chance.choice([None, "a" * 20, "a" * 16 + "b", "\U0010ffff" * 17, f"{i}"]),
         "value": chance.choice([None, float("nan"), 0.0, -0.0, chance.gauss(0, 1)])}
        for i in range(5_000)
    ]  # fmt: skip
    streamed, at_once = make(catalog, schema=ITEMS, properties=SMALL_GROUPS), make(catalog, schema=ITEMS)
    (ours,) = dk.append(streamed, (dict(row) for row in rows)).added_data_files
    rolling_files.HELD_BYTES = data_file_writer._PIECE_BYTES = 128 << 20  # monkeypatch puts them back
    (whole,) = dk.append(at_once, rows).added_data_files
    assert len(ours.split_offsets or ()) > 5
    assert len(whole.split_offsets or ()) == 1
    for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        assert getattr(ours, name) == getattr(whole, name), name
    footer = pq.read_metadata(BytesIO(stored_at(ours.file_path).read_bytes()))
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    assert list(ours.split_offsets or ()) == [
        g.column(0).dictionary_page_offset or g.column(0).data_page_offset for g in groups
    ]
    sizes = [sum(g.column(i).total_compressed_size for g in groups) for i in range(3)]
    assert list((ours.column_sizes or {}).values()) == sizes


@pytest.mark.parametrize(
    ("name", "value", "most"),
    [("row-group-limit", "100", 100), ("row-group-size-bytes", "1600", 100), ("row-group-size-bytes", "1", 1)],
)
def test_row_groups_end_as_properties_say(catalog: dk.Catalog, name: str, value: str, most: int) -> None:
    rows = pa.table({"id": pa.array(range(350), pa.int64()), "n": pa.array(range(350), pa.int64())})
    table = make(catalog, schema=rows, properties={f"write.parquet.{name}": value})
    (file,) = dk.append(table, rows).added_data_files
    footer = pq.read_metadata(BytesIO(stored_at(file.file_path).read_bytes()))
    sizes = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    assert sum(sizes) == 350
    assert max(sizes) <= most


@pytest.mark.parametrize("target", [50_000, 200_000])
def test_files_end_at_their_size_on_disk(catalog: dk.Catalog, target: int) -> None:
    """Of texts that compress ten times, and of numbers that do not compress."""
    chance = random.Random(3)
    same = [f"the same text again and again, {i % 7}" for i in range(40_000)]
    for values in (same, [chance.randbytes(20).hex() for _ in same]):
        rows = pa.table({"id": pa.array(range(40_000), pa.int32()), "category": values})
        table = make(catalog, schema=ITEMS, properties={"write.target-file-size-bytes": str(target)})
        done = dk.append(table, iter(rows.to_batches(max_chunksize=1000)))
        sizes = [f.file_size_in_bytes for f in done.added_data_files]
        assert all(0.85 * target < size < 1.25 * target for size in sizes[:-1]), sizes
        assert sizes[-1] < 1.25 * target


# --- what may go wrong ------------------------------------------------------------------------------------------------


def failing(after: int, error: type[BaseException] = RuntimeError) -> Iterator[pa.RecordBatch]:
    yield from WHOLE.slice(0, after).to_batches(max_chunksize=5)
    raise error("the source broke")


WIDE = ITEMS.set(0, pa.field("id", pa.int64()))
BAD = [*WHOLE.cast(WIDE).to_batches(max_chunksize=2), pa.RecordBatch.from_pylist([{"id": 2**40}], WIDE)]
BROKEN: dict[str, tuple[Callable[[], Any], type[BaseException], str]] = {
    "a generator that raises": (lambda: failing(90), RuntimeError, "the source broke"),
    "a generator that is stopped": (lambda: failing(90, KeyboardInterrupt), KeyboardInterrupt, "the source broke"),
    "a reader that breaks": (
        lambda: pa.RecordBatchReader.from_batches(ITEMS, failing(90)),
        Exception,
        "the source broke",
    ),
    "a value that does not fit": (lambda: iter(BAD), dk.InvalidInputError, "id"),
    "dicts that end in a bad one": (lambda: iter([*ROWS, {"id": "x"}]), dk.InvalidInputError, "id"),
}
IN_MODES = [("append", 2, None)] + [(verb, v, mode) for verb in ("upsert", "merge") for v, mode in VERSION_AND_MODE]


@pytest.mark.sampled(5, tier=1)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=["whole", "partitioned"])
@pytest.mark.parametrize(("verb", "version", "mode"), [*IN_MODES, ("delete_keys", 2, None)], ids=str)
def test_a_source_that_breaks_leaves_nothing(
    catalog: dk.Catalog, verb: str, version: int, mode: str | None, partition_by: list[str]
) -> None:
    properties = {"write.parquet.row-group-size-bytes": "100"}
    table = make(catalog, ROWS, partition_by=partition_by, format_version=version, properties=properties)
    arguments: dict[str, Any] = {
        "append": {},
        "upsert": {"on": "id", "mode": mode},
        "merge": {"on": "id", "mode": mode},
        "delete_keys": {"on": ["id"]},
    }[verb]
    for rows, error, message in BROKEN.values():
        with unchanged(table), pytest.raises(error, match=message):
            getattr(dk, verb)(table, rows(), **arguments)
    assert live(table.refresh()) == expected(ROWS)


_DIES = """
import os, sys, numpy as np, pyarrow as pa, deletekit as dk

def batches(count):
    for i in range(count):
        yield pa.record_batch({"id": np.arange(i * 10_000, (i + 1) * 10_000)})
    os._exit(9)

dk.append(dk.load_table(dk.local_catalog(sys.argv[1]), "test.t"), batches(20))
"""


def test_a_process_that_dies_in_a_stream_has_committed_nothing(tmp_path: Path) -> None:
    catalog = dk.local_catalog(tmp_path)
    wide = pa.table({"id": pa.array(range(10), pa.int64())})
    table = dk.create_table(catalog, "test.t", wide.schema, properties={"write.target-file-size-bytes": "50000"})
    dk.append(table, wide)
    location, files = table.metadata_location, files_of(table)
    assert subprocess.run([sys.executable, "-c", _DIES, str(tmp_path)], check=False).returncode == 9
    assert table.refresh().metadata_location == location
    left = files_of(table) - files
    assert left
    assert all(name.endswith(".parquet") for name in left)
    dk.remove_orphan_files(table, older_than=dt.datetime.now(dt.UTC) + dt.timedelta(days=1), force=True)
    assert files_of(table) == files
    assert live(table) == wide.to_pylist()


def test_a_batch_that_does_not_fit_is_refused_by_its_column(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS)
    files = files_of(table)
    bad = pa.record_batch({"id": ["one"]})
    for rows in (iter([*BATCHES, bad]), [*BATCHES, bad], iter([*ROWS, {"id": "one"}])):
        with raises(dk.InvalidInputError, "column-type", field="id"):
            dk.append(table, rows)
        assert files_of(table) == files


def test_columns_are_checked_before_the_first_row(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS)
    asked: list[Any] = []

    def batches(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        asked.append(schema)
        yield schema.empty_table().to_batches()[0]

    def seen(frame: pl.DataFrame) -> pl.DataFrame:
        asked.append(frame)
        return frame

    for schema, column in ((pa.schema([("id", pa.string())]), "id"), (ITEMS.append(pa.field("x", pa.int8())), "x")):
        reader = pa.RecordBatchReader.from_batches(schema, batches(schema))
        with pytest.raises(dk.InvalidInputError) as error:
            dk.append(table, reader)
        assert error.value.field == column
        frame = pl.LazyFrame(schema=pl.DataFrame(schema.empty_table()).schema)
        lazy = frame.map_batches(seen)
        with pytest.raises(dk.InvalidInputError) as error:
            dk.append(table, lazy)
        assert error.value.field == column
    assert asked == []


@pytest.mark.parametrize("rows", [3, "text", b"bytes", iter([3]), iter(["text"]), [BATCHES[0], 3], object(), None])
def test_what_has_no_rows_is_refused(catalog: dk.Catalog, rows: Any) -> None:
    table = make(catalog, ROWS)
    with pytest.raises(dk.InvalidInputError) as error:
        dk.append(table, rows)
    if rows == "text":
        assert error.value.kind == "file-format"
        return
    assert (error.value.kind, error.value.field) == ("rows", "rows")
    assert "a DataFrame, a list of dicts or the path of a file" in str(error.value)
    assert not any(word in str(error.value) for word in ("python dictionary", "attribute", "subscriptable"))


def test_files_are_rows(catalog: dk.Catalog, tmp_path: Path) -> None:
    """In each verb that takes rows: one file, by its text or path, or all that a pattern names."""
    pq.write_table(WHOLE.slice(0, 40), tmp_path / "a.parquet")
    pq.write_table(WHOLE.slice(40), tmp_path / "b.parquet")
    csv.write_csv(WHOLE, tmp_path / "rows.csv")
    verbs: list[Callable[[dk.Table, Any], Any]] = [
        *(dk.append, *KEYED, lambda t, f: dk.overwrite(t, f, where="true")),
        lambda t, f: dk.create_table(catalog, f"{t.name}_too", f, rows=True),
    ]
    for verb in verbs:
        for file in (str(tmp_path / "*.parquet"), tmp_path / "rows.csv"):
            table, other = (make(catalog, WHOLE.slice(50)) for _ in range(2))
            verb(table, file)
            verb(other, WHOLE)
            assert live(table.refresh()) == live(other.refresh())
    table = make(catalog, WHOLE)
    pq.write_table(WHOLE.select(["id"]).slice(0, 90), tmp_path / "keys[1].parquet")  # a file's name, and no pattern
    dk.delete_keys(table, tmp_path / "keys[1].parquet", on="id")
    assert sorted(row["id"] for row in live(table.refresh())) == list(range(90, 100))
    for wrong in ("nothing.parquet", "nothing*.parquet", "s3://bucket/*.parquet"):
        with pytest.raises(dk.InvalidInputError) as error:
            dk.append(table, wrong)
        assert (error.value.kind, wrong in str(error.value)) == ("rows", True)


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: WHOLE.to_pandas().assign(at=pd.Timestamp("2024-01-01 12:00").as_unit("ns")),
    "polars": lambda: pl.DataFrame(WHOLE).with_columns(at=dt.datetime(2024, 1, 1, 12)),  # noqa: DTZ001
    "lazy": lambda: pl.DataFrame(WHOLE).lazy().with_columns(at=dt.datetime(2024, 1, 1, 12)),  # noqa: DTZ001
    "arrow": lambda: WHOLE.append_column("at", pa.array([dt.datetime(2024, 1, 1, 12)] * 100)),  # noqa: DTZ001
    "dicts": lambda: [{**row, "at": dt.datetime(2024, 1, 1, 12)} for row in ROWS],  # noqa: DTZ001
    "reader": lambda: FRAMES["arrow"]().to_reader(),
    "generator": lambda: iter(FRAMES["dicts"]()),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_table_made_of_a_frame(catalog: dk.Catalog, name: str) -> None:
    frame = FRAMES[name]()
    table = dk.create_table(catalog, "f.t", frame, rows=True, partition_by="day(at)", properties=QUICK)
    assert len(table.metadata.snapshots) == 1
    assert [str(f.field_type) for f in table.schema.fields if f.name == "at"] == ["timestamp"]
    found = dk.scan(table).to_arrow().sort_by("id").to_pylist()
    assert found == [{**row, "at": dt.datetime(2024, 1, 1, 12)} for row in ROWS]  # noqa: DTZ001
    empty = dk.create_table(catalog, "f.empty", FRAMES[name]())
    assert (dk.scan(empty).count(), empty.schema.column_names) == (0, table.schema.column_names)
    again = dk.create_table(catalog, "f.t", FRAMES[name](), rows=True, replace=True)
    assert dk.scan(again).count() == 100
    assert dk.verify(again, level="data").ok


def test_a_pandas_frame_of_some_rows_has_no_column_of_their_numbers(catalog: dk.Catalog) -> None:
    some = WHOLE.to_pandas().query("id % 7 == 0")
    table = dk.create_table(catalog, "f.some", some, rows=True)
    assert table.schema.column_names == WHOLE.column_names
    dk.append(table, iter([some, some]))
    dk.upsert(table, some, on="id")
    dk.delete_keys(table, some[["id"]].iloc[1:], on="id")
    assert dk.scan(table, columns="id").to_arrow()["id"].to_pylist() == [int(some["id"].iloc[0])]
    named = dk.create_table(catalog, "f.named", some.set_index("id"), rows=True)  # a range, which Arrow leaves out
    dk.append(named, [some.set_index(["id", "value"])])
    assert dk.scan(named, columns="id").to_arrow()["id"].to_pylist() == [*some["id"]] * 2
    with raises(dk.InvalidInputError, "rows"):
        dk.append(named, some.set_index("id", drop=False))


@pytest.mark.parametrize("version", [2, 3])
def test_a_frame_with_a_zone_makes_a_column_in_utc(catalog: dk.Catalog, version: int) -> None:
    for unit in ("us", "ns"):
        at = pd.to_datetime(["2024-06-01 12:00"], utc=True).tz_convert("Europe/Berlin").as_unit(unit)
        table = dk.create_table(catalog, f"f.{unit}", at.to_frame(name="at"), rows=True, format_version=version)
        assert dk.scan(table).to_arrow()["at"].to_pylist()[0] == dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC)


def test_what_makes_no_table(catalog: dk.Catalog) -> None:
    schema = dk.create_table(catalog, "f.s", pl.Schema({"a": pl.Int32, "b": pl.String})).schema
    assert [(f.name, str(f.field_type)) for f in schema.fields] == [("a", "int"), ("b", "string")]
    letters = ({"id": "int"}, False), ({"id": b"ab"}, True)  # Arrow would take each for a value
    none = (ITEMS, True), ([], True), (iter([]), True), ([], False), (3, False), ("s3://b/a.csv", True)
    for wrong, rows in (*letters, *none):
        with pytest.raises(dk.InvalidInputError):
            dk.create_table(catalog, "f.t", wrong, rows=rows)
    assert not catalog.table_exists(("f", "t"))
    with pytest.raises(dk.InvalidInputError):  # in the second piece, when the first one is written
        dk.create_table(catalog, "f.t", iter([WHOLE, pa.table({"id": ["x"]})]), rows=True)
    assert not catalog.table_exists(("f", "t"))


def test_no_rows_are_no_commit(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS)
    empty = pa.RecordBatchReader.from_batches(ITEMS, iter([]))
    sources: list[Any] = [iter([]), [], empty, pl.LazyFrame(schema={"id": pl.Int32})]
    for rows in sources:
        assert dk.append(table, rows).snapshot_id is None
        assert dk.upsert(table, rows, on="id").snapshot_id is None
    assert dk.merge(table, iter([]), on="id").snapshot_id is None


def test_pieces_of_a_merge_have_the_same_columns(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS)
    pieces = [pa.record_batch({"id": [1], "value": [0.5]}), pa.record_batch({"id": [2]})]
    with raises(dk.InvalidInputError, "rows"):
        dk.merge(table, iter(pieces), on="id")
    assert live(table) == expected(ROWS)
    # As in append, an upsert's row has NULL where it has no value, in whatever piece or type it comes.
    dk.upsert(table, iter([*pieces, pa.record_batch({"id": pa.array([3], pa.int64())})]), on="id")
    new: list[Row] = [{"id": i, "category": None, "value": 0.5 if i == 1 else None} for i in (1, 2, 3)]
    assert live(table) == expected([*new, ROWS[0], *ROWS[4:]])


# --- a lost race ------------------------------------------------------------------------------------------------------

ONCE = [
    *("stream", "reader", "scanner", "generator of batches", "generator of dicts", "iterable"),
    *("list of readers", "generator of readers", "relation of a stream"),
]
OTHER: Row = {"id": 1000, "category": "other", "value": 0.0, "more": 1}
AGAIN = ["table", "dicts", "dataset", "LazyFrame", "DataFrame of polars", "DataFrame of pandas", "list of batches"]


def other_schema(table: dk.Table) -> None:
    dk.add_column(table, "more", "int")
    dk.append(table, [OTHER])


@pytest.mark.parametrize("kind", ONCE)
def test_a_stream_survives_a_lost_race(catalog: dk.Catalog, tmp_path: Path, kind: str) -> None:
    table = make(catalog, schema=ITEMS, properties=QUICK)
    other = items((1000, "other", 0.0))
    done = dk.append(racing(catalog, table, lambda t: dk.append(t, other)), SOURCES[kind](tmp_path))
    assert (done.attempts, done.plans) == (2, 1)
    assert live(table.refresh()) == expected([*ROWS, *other])


@pytest.mark.parametrize("kind", ONCE)
def test_a_stream_that_must_be_read_again_is_refused(catalog: dk.Catalog, tmp_path: Path, kind: str) -> None:
    table = make(catalog, schema=ITEMS, properties=QUICK)
    with raises(dk.InvalidInputError, "rows-read-once", field="rows"):
        dk.append(racing(catalog, table, other_schema), SOURCES[kind](tmp_path))
    assert len([name for name in files_of(table.refresh()) if name.endswith(".parquet")]) == 1
    assert live(table) == [OTHER]


@pytest.mark.parametrize("kind", AGAIN)
def test_rows_that_stay_are_read_again(catalog: dk.Catalog, tmp_path: Path, kind: str) -> None:
    table = make(catalog, schema=ITEMS, properties=QUICK)
    done = dk.append(racing(catalog, table, other_schema), SOURCES[kind](tmp_path))
    assert done.plans == 2
    assert live(table.refresh()) == expected([*({**row, "more": None} for row in ROWS), OTHER])


@pytest.mark.parametrize("kind", ONCE)
def test_upsert_and_merge_have_read_their_source(catalog: dk.Catalog, tmp_path: Path, kind: str) -> None:
    for verb in KEYED:
        table = make(catalog, items((3, "old", 0.5)), properties=QUICK)
        (tmp_path / table.name[-1]).mkdir(parents=True)
        source = SOURCES[kind](tmp_path / table.name[-1])
        done = verb(racing(catalog, table, other_schema), source)
        assert done.plans == 2
        assert live(table.refresh()) == expected([*({**row, "more": None} for row in ROWS), OTHER])


# --- memory -----------------------------------------------------------------------------------------------------------

_APPEND = """
import resource, sys, numpy as np, pyarrow as pa, deletekit as dk

def batches(count):
    chance = np.random.default_rng(1)
    for i in range(count):
        yield pa.record_batch({
            "id": np.arange(i * 100_000, (i + 1) * 100_000),
            "part": pa.array(chance.integers(0, 40, 100_000, dtype=np.int32)),
            "a": chance.random(100_000), "b": chance.random(100_000), "c": chance.random(100_000),
        })

schema = next(batches(1)).schema
catalog = dk.local_catalog(sys.argv[1])
by = sys.argv[2:]
warm, table = (dk.create_table(catalog, f"test.{n}", schema, partition_by=by) for n in ("warm", "t"))
dk.append(warm, batches(1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dk.append(table, batches(170))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, dk.scan(table).count())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "partition_by",
    [pytest.param([], id="whole", marks=pytest.mark.long), pytest.param(["part"], id="partitioned")],
)
def test_memory_is_bounded(tmp_path: Path, partition_by: list[str]) -> None:
    """600 MB come from a generator. Four times what may wait is allowed: it is encoded, and allocators keep some."""
    command = [sys.executable, "-c", _APPEND, str(tmp_path), *partition_by]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    megabytes, rows = map(int, done.stdout.split())
    assert rows == 17_000_000
    assert megabytes < 4 * rolling_files.HELD_BYTES >> 20


@pytest.mark.parametrize("verb", [*KEYED, lambda table, rows: dk.overwrite(table, rows, "true"), dk.delete_keys])
@pytest.mark.parametrize("kind", ["batches", "dicts", "frames"])
def test_rows_larger_than_memory_are_refused(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, verb: Callable[[dk.Table, Any], Any], kind: str
) -> None:
    """Before they are held: the source would never end."""
    monkeypatch.setattr(row_source, "available_memory", lambda: 1 << 20)
    table = make(catalog, WHOLE)
    whole = WHOLE.select(["id"]) if verb is dk.delete_keys else WHOLE
    piece = {"batches": whole.to_batches()[0], "dicts": whole.to_pylist()[0], "frames": pl.from_arrow(whole)}[kind]
    with unchanged(table), pytest.raises(dk.UnsupportedError, match="in parts") as told:
        verb(table, repeat(piece))
    assert told.value.kind == "rows-larger-than-memory"
