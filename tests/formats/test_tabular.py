"""Rows of Parquet, ORC and Avro files: positions, columns, and what is refused before or while Arrow reads."""

import io
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats import tabular
from deletekit.formats.metrics import field_id_of
from deletekit.formats.tabular import RowGroup, TabularFile, open_tabular, read_all
from tests.golden_files import cases, content, index
from tests.thrift_bytes import decode, encode

FORMATS = ("parquet", "orc", "avro")
TABLE = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "name": pa.array([f"row {i}" if i % 7 else None for i in range(1000)], pa.string()),
    }
)


def to_parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def to_orc(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    orc.write_table(table, sink, **options)
    return sink.getvalue()


def to_avro(table: pa.Table) -> bytes:
    kinds = {pa.int64(): "long", pa.int32(): "int", pa.string(): "string"}
    fields = [{"name": f.name, "type": ["null", kinds[f.type]]} for f in table.schema]
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, table.to_pylist(), codec="deflate")
    return sink.getvalue()


WRITERS: dict[str, Callable[[pa.Table], bytes]] = {"parquet": to_parquet, "orc": to_orc, "avro": to_avro}


def opened(table: pa.Table, file_format: str) -> TabularFile:
    return open_tabular(io.BytesIO(WRITERS[file_format](table)), file_format)


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", FORMATS)
def test_all_rows_are_read(file_format: str) -> None:
    assert read_all(opened(TABLE, file_format)).to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize("file_format", FORMATS)
def test_columns_come_in_the_order_asked_for(file_format: str) -> None:
    file = opened(TABLE, file_format)
    assert read_all(file, ["name", "id"]).column_names == ["name", "id"]
    assert read_all(file, ["name"]).to_pylist() == TABLE.select(["name"]).to_pylist()


@pytest.mark.parametrize("file_format", FORMATS)
def test_no_column_still_has_rows(file_format: str) -> None:
    file = opened(TABLE, file_format)
    tables = [file.read(group, []) for group in file.row_groups]
    assert [(t.num_columns, t.num_rows) for t in tables] == [(0, 1000)]


@pytest.mark.parametrize("file_format", FORMATS)
def test_file_without_rows_has_its_columns(file_format: str) -> None:
    file = opened(TABLE.slice(0, 0), file_format)
    assert read_all(file).num_rows == 0
    assert read_all(file, ["name"]).column_names == ["name"]


def test_row_groups_of_parquet_have_absolute_positions() -> None:
    file = open_tabular(io.BytesIO(to_parquet(TABLE, row_group_size=300)), "parquet")
    assert file.row_groups == tuple(
        RowGroup(index=i, first_position=300 * i, num_rows=n) for i, n in enumerate([300, 300, 300, 100])
    )
    last = file.read(file.row_groups[-1], ["id"])
    assert last.column("id").to_pylist() == list(range(900, 1000))


def test_stripes_of_orc_are_one_group() -> None:
    table = pa.concat_tables([TABLE] * 300)
    data = to_orc(table, stripe_size=1 << 16, compression="zlib")
    assert orc.ORCFile(io.BytesIO(data)).nstripes > 1
    file = open_tabular(io.BytesIO(data), "orc")
    assert file.row_groups == (RowGroup(index=0, first_position=0, num_rows=300_000),)
    assert read_all(file).num_rows == 300_000


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_every_orc_codec_but_lzo_is_read(codec: str) -> None:
    file = open_tabular(io.BytesIO(to_orc(TABLE, compression=codec)), "orc")
    assert read_all(file).to_pylist() == TABLE.to_pylist()


@pytest.mark.golden
@pytest.mark.parametrize("entry", cases("delete_files", lambda e: e["delete_file"]))
def test_java_files_have_field_ids(entry: dict[str, Any]) -> None:
    file = open_tabular(io.BytesIO(content("delete_files", entry["file"])), entry["format"])
    assert [(f.name, field_id_of(f)) for f in file.schema] == [(f["name"], f["id"]) for f in entry["schema"]["fields"]]
    assert sum(g.num_rows for g in file.row_groups) == entry["delete_file"]["record_count"]


# --- refused ----------------------------------------------------------------------------------------------------------


def test_format_without_rows_is_refused() -> None:
    with pytest.raises(UnsupportedError) as error:
        open_tabular(io.BytesIO(b""), "puffin")
    assert (error.value.kind, error.value.found) == ("file-format", "PUFFIN")


@pytest.mark.parametrize(
    ("written", "named"), [(w, n) for w in (*FORMATS, "nothing", "noise") for n in FORMATS if w != n]
)
def test_file_under_another_name_is_refused(written: str, named: str) -> None:
    data = {"nothing": b"", "noise": bytes(range(256)) * 8}.get(written)
    with pytest.raises(FormatError) as error:
        open_tabular(io.BytesIO(data if data is not None else WRITERS[written](TABLE)), named)
    assert error.value.kind in (named, f"{named}-magic")


@pytest.mark.parametrize("file_format", FORMATS)
def test_column_that_is_not_there_is_refused(file_format: str) -> None:
    file = opened(TABLE, file_format)
    with pytest.raises(FormatError) as error:
        file.read(file.row_groups[0], ["other"])
    assert error.value.kind == file_format


def test_two_columns_of_one_name_are_refused_when_read() -> None:
    twice = pa.Table.from_arrays([TABLE["id"], TABLE["id"]], names=["id", "id"])
    file = open_tabular(io.BytesIO(to_parquet(twice)), "parquet")
    with pytest.raises(FormatError, match="2 times"):
        file.read(file.row_groups[0], ["id"])


@pytest.mark.parametrize("write", [to_parquet, to_orc])
def test_text_that_is_not_utf8_is_refused(write: Callable[..., bytes]) -> None:
    data = write(pa.table({"x": ["abcde"]}), compression="none" if write is to_parquet else "uncompressed")
    damaged = data.replace(b"abcde", b"ab\xffde")
    assert damaged != data
    file = open_tabular(io.BytesIO(damaged), "parquet" if write is to_parquet else "orc")
    with pytest.raises(FormatError, match="UTF8"):
        read_all(file)


@pytest.mark.parametrize("write", [to_parquet, to_orc])
def test_name_that_is_not_utf8_is_refused(write: Callable[..., bytes]) -> None:
    options = {"compression": "none", "store_schema": False} if write is to_parquet else {"compression": "uncompressed"}
    data = write(pa.table({"abcde": [1]}), **options)
    damaged = data.replace(b"abcde", b"ab\xffde")
    assert damaged != data
    with pytest.raises(FormatError):
        open_tabular(io.BytesIO(damaged), "parquet" if write is to_parquet else "orc")


def test_rows_that_a_parquet_footer_claims_are_counted() -> None:
    table = pa.table({"x": pa.array([1, 2, 3], pa.int64())})
    whole, half = (to_parquet(table.slice(0, n), compression="none", use_dictionary=False) for n in (3, 2))
    # The data of two rows behind the footer of three: both files have their one page at the same place.
    end = int.from_bytes(whole[-8:-4], "little") + 8
    shorter = half[: len(half) - int.from_bytes(half[-8:-4], "little") - 8]
    file = open_tabular(io.BytesIO(shorter.ljust(len(whole) - end, b"\0") + whole[-end:]), "parquet")
    with pytest.raises(FormatError):
        read_all(file)


def test_fewer_rows_than_the_footer_says_are_refused() -> None:
    group = RowGroup(index=0, first_position=0, num_rows=5)
    with pytest.raises(FormatError) as error:
        tabular._checked(pa.table({"x": [1, 2]}), group, ["x"], "ORC")
    assert (error.value.kind, error.value.found, error.value.expected) == ("orc", 2, 5)


def test_negative_rows_in_a_parquet_footer_are_refused() -> None:
    data = to_parquet(pa.table({"x": [1]}), compression="none", store_schema=False)
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = decode(data[-8 - length : -8])
    (row_group,) = (e for e in footer if e[0] == 4)
    for field in row_group[2][1][0][2]:
        if field[0] == 3:  # num_rows
            field[2] = 9  # zigzag for -5
    stored = encode(footer)
    with pytest.raises(FormatError) as error:
        open_tabular(io.BytesIO(data[: -8 - length] + stored + len(stored).to_bytes(4, "little") + b"PAR1"), "parquet")
    assert error.value.kind == "parquet"


def test_orc_timestamp_that_arrow_cannot_hold_is_refused_by_name() -> None:
    data = to_orc(pa.table({"x": pa.array([-(2**62)], pa.timestamp("us"))}))
    with pytest.raises(UnsupportedError) as error:
        read_all(open_tabular(io.BytesIO(data), "orc"))
    assert error.value.kind == "orc-timestamp"


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.golden
def test_file_cut_off_anywhere_is_refused(file_format: str) -> None:
    data = content("delete_files", f"pos_one_file.{file_format}")
    assert index("delete_files")[f"pos_one_file.{file_format}"]["delete_file"]["record_count"] == 3
    for end in range(len(data)):
        try:
            rows = read_all(open_tabular(io.BytesIO(data[:end]), file_format)).num_rows
        except FormatError:
            continue
        assert (file_format, rows) == ("avro", 0), f"{end} bytes were read as a file"  # an Avro header alone


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
def test_a_flipped_bit_in_a_page_with_a_checksum_is_named(page_version: str) -> None:
    """Most flips decode without an error, to other values."""
    table = pa.table({"id": list(range(2_000)), "name": [f"n{i}" for i in range(2_000)]})
    sink = io.BytesIO()
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False, "data_page_version": page_version}
    pq.write_table(table, sink, write_page_checksum=True, **options)
    data = sink.getvalue()
    chunks = [pq.ParquetFile(sink).metadata.row_group(0).column(i) for i in range(2)]
    silent = 0
    for chunk in chunks:
        for at in range(chunk.data_page_offset + 120, chunk.data_page_offset + 16_000, 800):
            damaged = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
            with pytest.raises(FormatError, match="CRC"):
                read_all(open_tabular(io.BytesIO(damaged), "PARQUET"))
            try:
                silent += pq.read_table(io.BytesIO(damaged)) != table
            except (OSError, pa.ArrowInvalid):
                continue
    assert silent, "some of these would be other values"
