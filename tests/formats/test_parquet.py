"""Parquet as Iceberg wants it: field ids, footer, sizes and offsets."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from deletekit.formats.metrics import FIELD_ID_KEY
from deletekit.formats.parquet import ParquetOptions, encode_parquet


def field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={FIELD_ID_KEY: str(field_id)})


NESTED = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("s", pa.struct([field("a", pa.string(), 3), field("b", pa.int32(), 4)]), 2),
        field("l", pa.list_(field("element", pa.int32(), 6)), 5),
        field("m", pa.map_(field("key", pa.string(), 8).with_nullable(False), field("value", pa.int32(), 9)), 7),
    ]
)
ROWS = [{"id": i, "s": {"a": str(i), "b": i}, "l": [i], "m": [("k", i)]} for i in range(100)]
TABLE = pa.Table.from_pylist(ROWS, schema=NESTED)


def test_file_has_field_ids_and_metadata_and_no_arrow_schema() -> None:
    written = encode_parquet(TABLE, {"delete-type": "position"}, ParquetOptions())
    file = pq.ParquetFile(pa.BufferReader(written.data))
    assert file.schema_arrow.field("s").type.field("b").metadata[FIELD_ID_KEY] == b"4"
    assert file.metadata.metadata == {b"delete-type": b"position"}
    assert file.read() == TABLE


def test_column_sizes_are_those_of_the_leaves() -> None:
    written = encode_parquet(TABLE, {}, ParquetOptions(row_group_rows=30))
    footer = pq.read_metadata(pa.BufferReader(written.data))
    sizes = [
        sum(footer.row_group(g).column(c).total_compressed_size for g in range(4)) for c in range(footer.num_columns)
    ]
    assert written.column_sizes == dict(zip([1, 3, 4, 6, 8, 9], sizes, strict=True))


def test_split_offsets_are_where_the_row_groups_begin() -> None:
    written = encode_parquet(TABLE, {}, ParquetOptions(row_group_rows=30))
    footer = pq.read_metadata(pa.BufferReader(written.data))
    assert footer.num_row_groups == len(written.split_offsets) == 4
    assert written.split_offsets[0] == 4
    assert list(written.split_offsets) == sorted(set(written.split_offsets))


def test_size_is_that_of_the_file() -> None:
    written = encode_parquet(TABLE, {}, ParquetOptions())
    sink = io.BytesIO()
    sink.write(written.data)
    assert written.size == len(sink.getvalue())
