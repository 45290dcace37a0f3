"""The Parquet properties of a table, as the options of the encoder."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deletekit.errors import InvalidInputError
from deletekit.formats.parquet import ParquetOptions, encode_parquet
from deletekit.rows.write_context import parquet_options
from tests.tables import raises

TABLE = pa.table({"id": range(100)})


def test_defaults_are_icebergs() -> None:
    options = parquet_options({})
    assert (
        options == ParquetOptions() == ParquetOptions(compression="zstd", page_bytes=1 << 20, dictionary_bytes=2 << 20)
    )


def test_properties_of_deletes_fall_back_to_those_of_the_table() -> None:
    properties = {
        "write.parquet.compression-codec": "GZIP",
        "write.parquet.compression-level": "7",
        "write.parquet.page-size-bytes": "1000",
        "write.delete.parquet.compression-codec": "snappy",
        "write.delete.parquet.row-group-limit": "50",
    }
    assert parquet_options(properties) == ParquetOptions(compression="gzip", compression_level=7, page_bytes=1000)
    assert parquet_options(properties, "write.delete.parquet.") == ParquetOptions(
        compression="snappy", row_group_rows=50, page_bytes=1000
    )


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "lz4", "brotli", "none", "uncompressed"])
def test_every_codec_is_written(codec: str) -> None:
    options = parquet_options({"write.parquet.compression-codec": codec})
    assert pq.read_table(pa.BufferReader(encode_parquet(TABLE, {}, options).data)) == TABLE


BAD = {
    "compression-codec": "lzo",
    "compression-level": "high",
    "row-group-limit": "0",
    "page-size-bytes": "1 MB",
    "dict-size-bytes": "-1",
}


@pytest.mark.parametrize("name", BAD)
def test_property_that_says_nothing_is_refused(name: str) -> None:
    with raises(InvalidInputError, "property", field=f"write.parquet.{name}", found=BAD[name]):
        parquet_options({f"write.parquet.{name}": BAD[name]})
