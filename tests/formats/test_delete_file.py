"""Delete files: rows that Iceberg Java wrote in three formats, and ours with its schema, metadata and metrics."""

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deletekit.errors import DeletekitError, FormatError, InvalidInputError, UnsupportedError
from deletekit.formats.delete_file import (
    EncodedDeletes,
    encode_equality_deletes,
    encode_position_deletes,
    read_position_deletes,
)
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.metrics import FIELD_ID_KEY, MetricsMode, field_id_of
from deletekit.formats.parquet import ParquetOptions
from deletekit.formats.reserved_fields import FILE_PATH_ID, POS_ID, ROW_STRUCT_ID
from deletekit.formats.tabular import TabularFile, open_tabular, read_all
from tests.golden_files import Entry, cases, content, index
from tests.golden_values import plain_rows, rows_table

POSITIONS = cases("delete_files", lambda e: "positions" in e)
WITH_ROWS = cases("delete_files", lambda e: e["file"].startswith("pos_with_row"))
EQUALITY = cases("delete_files", lambda e: e["file"].startswith("eq_"))
POSITIONS_PARQUET = cases("delete_files", lambda e: "positions" in e and e["format"] == "parquet")
EQUALITY_PARQUET = cases("delete_files", lambda e: e["file"].startswith("eq_") and e["format"] == "parquet")
PYARROW = int(pa.__version__.partition(".")[0])
A, B = "s3://b/a.parquet", "s3://b/b.parquet"


def opened(entry: Entry) -> TabularFile:
    return open_tabular(io.BytesIO(content("delete_files", entry["file"])), entry["format"])


def ours(encoded: EncodedDeletes) -> TabularFile:
    return open_tabular(pa.BufferReader(encoded.file.data), "parquet")


def bitmaps(entry: Entry) -> dict[str, PositionBitmap]:
    return {p: PositionBitmap([i for s, e in ranges for i in range(s, e)]) for p, ranges in entry["positions"].items()}


def ids_of(field: pa.Field) -> Any:
    """Give the field id, or of a struct (id, name, ids of its fields)."""
    kind = field.type
    if pa.types.is_struct(kind):
        return field_id_of(field), field.name, [ids_of(kind.field(i)) for i in range(kind.num_fields)]
    return field_id_of(field), field.name


# --- golden -----------------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("entry", POSITIONS)
def test_positions_are_read(entry: Entry) -> None:
    found = read_position_deletes(opened(entry))
    assert found == bitmaps(entry)
    assert entry["delete_file"]["record_count"] == sum(map(len, found.values()))


@pytest.mark.golden
@pytest.mark.parametrize("entry", WITH_ROWS)
def test_the_row_struct_is_not_needed_for_the_positions(entry: Entry) -> None:
    expected: dict[str, list[int]] = {}
    for row in entry["rows"]:
        expected.setdefault(row["file_path"], []).append(row["pos"])
    found = read_position_deletes(opened(entry))
    assert {path: list(positions) for path, positions in found.items()} == expected


@pytest.mark.golden
@pytest.mark.parametrize("entry", [*WITH_ROWS, *EQUALITY])
def test_rows_are_read(entry: Entry) -> None:
    expected = rows_table(entry["schema"], entry["rows"])
    if entry["format"] == "orc" and "timestamp" in str(expected.schema) and PYARROW < 25:
        with pytest.raises(UnsupportedError, match="timestamp"):
            read_all(opened(entry))
        return
    found = read_all(opened(entry))
    assert [ids_of(f) for f in found.schema] == [ids_of(f) for f in expected.schema]
    assert plain_rows(found, expected.schema) == plain_rows(expected, expected.schema)


@pytest.mark.golden
@pytest.mark.parametrize("entry", cases("delete_files", lambda e: e["delete_file"]))
def test_footer_says_which_deletes(entry: Entry) -> None:
    metadata = opened(entry).metadata
    ids = entry["delete_file"]["equality_ids"]
    assert metadata["delete-type"] == ("equality" if ids else "position")
    assert metadata.get("delete-field-ids") == (", ".join(map(str, ids)) if ids else None)


# --- position deletes, ours -------------------------------------------------------------------------------------------


def file_order(encoded: EncodedDeletes) -> list[tuple[str, int]]:
    table = pq.read_table(pa.BufferReader(encoded.file.data), columns=["file_path", "pos"])
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.golden
@pytest.mark.parametrize("entry", POSITIONS_PARQUET)
def test_our_position_deletes_are_java_s(entry: Entry) -> None:
    given = dict(reversed(bitmaps(entry).items()))  # the order they come in does not matter
    encoded = encode_position_deletes(given)
    java = io.BytesIO(content("delete_files", entry["file"]))
    table = pq.read_table(java, columns=["file_path", "pos"])
    assert file_order(encoded) == list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    our_file = pq.ParquetFile(pa.BufferReader(encoded.file.data))
    assert our_file.schema_arrow.equals(pq.ParquetFile(java).schema_arrow, check_metadata=True)
    assert read_position_deletes(ours(encoded)) == bitmaps(entry)


@pytest.mark.golden
@pytest.mark.parametrize("entry", POSITIONS_PARQUET)
def test_our_position_metrics_are_java_s(entry: Entry) -> None:
    encoded, java = encode_position_deletes(bitmaps(entry)), entry["delete_file"]
    metrics = encoded.metrics
    assert encoded.record_count == java["record_count"]
    for counts in (metrics.value_counts, metrics.null_value_counts, metrics.nan_value_counts):
        assert counts == {}
    for name, found in (("lower_bounds", metrics.lower_bounds), ("upper_bounds", metrics.upper_bounds)):
        assert {str(k): v.hex() for k, v in found.items()} == (java[name] or {})
    assert set(encoded.file.column_sizes) == {int(i) for i in java["column_sizes"]}


@pytest.mark.golden
def test_our_position_footer_is_java_s() -> None:
    entry = index("delete_files")["pos_one_file.parquet"]
    found, java = ours(encode_position_deletes(bitmaps(entry))).metadata, opened(entry).metadata
    assert found["delete-type"] == java["delete-type"] == "position"
    assert json.loads(found["iceberg.schema"]) == json.loads(java["iceberg.schema"])
    assert set(found) == set(java)


def test_data_files_without_positions_are_left_out() -> None:
    encoded = encode_position_deletes({B: PositionBitmap(), A: PositionBitmap([3, 1])})
    assert file_order(encoded) == [(A, 1), (A, 3)]
    assert encoded.metrics.lower_bounds[FILE_PATH_ID] == encoded.metrics.upper_bounds[FILE_PATH_ID] == A.encode()


def deleted_rows(ids: list[int]) -> pa.Table:
    return pa.table(
        [pa.array(ids, pa.int32()), pa.array([f"n{i}" for i in ids])],
        schema=pa.schema(
            [
                pa.field("id", pa.int32(), False, {FIELD_ID_KEY: b"1"}),
                pa.field("name", pa.string(), True, {FIELD_ID_KEY: b"2"}),
            ]
        ),
    )


def test_deleted_rows_are_written_beside() -> None:
    encoded = encode_position_deletes(
        {B: PositionBitmap([7]), A: PositionBitmap([2, 5])}, rows={A: deleted_rows([10, 11]), B: deleted_rows([20])}
    )
    table = read_all(ours(encoded))
    assert table.column("row").to_pylist() == [
        {"id": 10, "name": "n10"},
        {"id": 11, "name": "n11"},
        {"id": 20, "name": "n20"},
    ]
    assert ids_of(table.schema.field("row")) == (ROW_STRUCT_ID, "row", [(1, "id"), (2, "name")])
    assert not table.schema.field("row").nullable
    metrics = encoded.metrics
    assert (metrics.value_counts, set(metrics.lower_bounds)) == ({1: 3, 2: 3}, {1, 2})


@pytest.mark.parametrize("rows", [{A: deleted_rows([1])}, {B: deleted_rows([1, 2])}, {}], ids=["count", "path", "none"])
def test_rows_that_do_not_line_up(rows: dict[str, pa.Table]) -> None:
    with pytest.raises(InvalidInputError, match="do not line up") as caught:
        encode_position_deletes({A: PositionBitmap([1, 2])}, rows=rows)
    assert (caught.value.file, caught.value.field) == (A, "row")


@pytest.mark.parametrize("positions", [{}, {A: PositionBitmap()}])
def test_no_position_is_no_file(positions: dict[str, PositionBitmap]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        encode_position_deletes(positions)
    assert caught.value.kind == "empty-delete"


# --- equality deletes, ours -------------------------------------------------------------------------------------------


def default_mode(field_id: int, name: str) -> MetricsMode:
    del field_id, name
    return MetricsMode()


def encoded_as(entry: Entry) -> EncodedDeletes:
    table = rows_table(entry["schema"], entry["rows"])
    ids = entry["delete_file"]["equality_ids"]
    return encode_equality_deletes(table, ids, schema_json=entry["schema"], mode_of=default_mode)


@pytest.mark.golden
@pytest.mark.parametrize("entry", EQUALITY_PARQUET)
def test_our_equality_deletes_are_java_s(entry: Entry) -> None:
    expected, file, java = rows_table(entry["schema"], entry["rows"]), ours(encoded_as(entry)), opened(entry)
    assert plain_rows(read_all(file), expected.schema) == plain_rows(expected, expected.schema)
    assert [ids_of(f) for f in file.schema] == [ids_of(f) for f in java.schema]
    assert file.schema.equals(java.schema)
    found, theirs = dict(file.metadata), dict(java.metadata)
    assert json.loads(found.pop("iceberg.schema")) == json.loads(theirs.pop("iceberg.schema"))
    assert found == theirs


@pytest.mark.golden
@pytest.mark.parametrize("entry", EQUALITY_PARQUET)
def test_our_equality_metrics_are_java_s(entry: Entry) -> None:
    encoded, java = encoded_as(entry), entry["delete_file"]
    uuids = {str(f["id"]) for f in entry["schema"]["fields"] if f["type"] == "uuid"}
    for name in ("value_counts", "null_value_counts", "nan_value_counts"):
        assert {str(k): v for k, v in getattr(encoded.metrics, name).items()} == java[name]
    for name in ("lower_bounds", "upper_bounds"):
        found = {str(k): v.hex() for k, v in getattr(encoded.metrics, name).items()}
        assert found == {k: v for k, v in java[name].items() if k not in uuids}
    assert {str(i) for i in encoded.file.column_sizes} == set(java["column_sizes"])
    assert list(encoded.file.split_offsets) == java["split_offsets"]
    assert encoded.record_count == java["record_count"]


def test_no_row_is_no_file() -> None:
    with pytest.raises(InvalidInputError) as caught:
        encode_equality_deletes(deleted_rows([]), (1,), schema_json={}, mode_of=default_mode)
    assert caught.value.kind == "empty-delete"


# --- what is not a position delete file -------------------------------------------------------------------------------


def parquet(columns: dict[str, pa.Array], ids: dict[str, int] | None = None) -> TabularFile:
    fields = [
        pa.field(n, a.type, True, {FIELD_ID_KEY: str(ids[n]).encode()} if ids and n in ids else None)
        for n, a in columns.items()
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields)), sink, store_schema=False)
    return open_tabular(pa.BufferReader(sink.getvalue()), "parquet")


PATHS, NUMBERS = pa.array([A, A]), pa.array([1, 2], pa.int64())


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"pos": NUMBERS}, "file_path"),
        ({"file_path": PATHS}, "pos"),
        ({"file_path": pa.array([A, None]), "pos": NUMBERS}, "file_path"),
        ({"file_path": PATHS, "pos": pa.array([1, None], pa.int64())}, "pos"),
        ({"file_path": pa.array([b"a", b"b"]), "pos": NUMBERS}, "file_path"),
        ({"file_path": NUMBERS, "pos": NUMBERS}, "file_path"),
        ({"file_path": PATHS, "pos": pa.array(["1", "2"])}, "pos"),
        ({"file_path": PATHS, "pos": pa.array([1.0, 2.0])}, "pos"),
        ({"file_path": PATHS, "pos": pa.array([1, -1], pa.int64())}, "pos"),
        ({"file_path": PATHS, "pos": pa.array([1, 2**63 - 1], pa.int64())}, "pos"),
    ],
)
def test_a_file_that_is_no_position_delete_file(columns: dict[str, pa.Array], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_position_deletes(parquet(columns))
    assert (caught.value.kind, caught.value.field) == ("position-delete", field)


def test_columns_are_found_by_id_before_their_names() -> None:
    columns = {"pos": PATHS, "file_path": NUMBERS}
    found = read_position_deletes(parquet(columns, {"pos": FILE_PATH_ID, "file_path": POS_ID}))
    assert found == {A: PositionBitmap([1, 2])}


def test_a_file_without_rows_deletes_nothing() -> None:
    assert read_position_deletes(parquet({"file_path": PATHS[:0], "pos": NUMBERS[:0]})) == {}


def test_unsorted_rows_and_rows_that_come_twice() -> None:
    columns = {"file_path": pa.array([B, A, B, A, A]), "pos": pa.array([9, 5, 1, 5, 0], pa.int64())}
    assert read_position_deletes(parquet(columns)) == {A: PositionBitmap([0, 5]), B: PositionBitmap([1, 9])}


@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("damage", [lambda d: d[:-5], lambda d: d[:0], lambda d: d[8:], lambda d: bytes(len(d))])
def test_a_damaged_file_is_named_by_its_format(file_format: str, damage: Callable[[bytes], bytes]) -> None:
    data = damage(content("delete_files", f"pos_one_file.{file_format}"))
    with pytest.raises(DeletekitError):
        read_position_deletes(open_tabular(io.BytesIO(data), file_format))


@pytest.mark.parametrize(
    ("paths", "each", "options"),
    [
        (3, 500, ParquetOptions()),
        (3, 500, ParquetOptions(row_group_rows=700, page_rows=100)),
        (400, 3, ParquetOptions(dictionary_bytes=100)),
        (3, 500, ParquetOptions(without_dictionary=frozenset({FILE_PATH_ID}))),
    ],
    ids=["one row group", "row groups", "a full dictionary", "no dictionary"],
)
def test_paths_are_stored_as_text(paths: int, each: int, options: ParquetOptions) -> None:
    """They are encoded from a dictionary: a reader must see no difference, nor in the statistics that it prunes by."""
    wanted = {f"s3://b/{i:05}-é.parquet": PositionBitmap(range(i, i + each)) for i in range(paths)}
    file = pq.ParquetFile(pa.BufferReader(encode_position_deletes(wanted, options=options).file.data))
    assert [f.type for f in file.schema_arrow] == [pa.string(), pa.int64()]
    rows = [(path, i) for path, bitmap in wanted.items() for i in bitmap]
    assert list(zip(*file.read().to_pydict().values(), strict=True)) == rows
    at = 0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        statistics, mine = group.column(0).statistics, rows[at : at + group.num_rows]
        assert (statistics.min, statistics.max, statistics.null_count) == (mine[0][0], mine[-1][0], 0)
        at += group.num_rows
