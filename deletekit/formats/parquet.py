"""Write Parquet files as Iceberg wants them: field ids on every column, the schema and delete type in the footer.

Spec: "Parquet", https://iceberg.apache.org/spec/#parquet
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deletekit.formats.hidden_nulls import without_hidden_nulls
from deletekit.formats.metrics import field_id_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetOptions:
    """The `write.parquet.*` properties that pyarrow can honour; sizes in bytes, `row_group_rows` in rows."""

    compression: str = "zstd"
    compression_level: int | None = None
    row_group_rows: int = 1 << 20
    page_bytes: int = 1 << 20
    dictionary_bytes: int = 2 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenParquet:
    """A finished file: its bytes, the bytes of each column by field id, and where its row groups begin."""

    data: bytes | pa.Buffer
    column_sizes: dict[int, int]
    split_offsets: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.data.size if isinstance(self.data, pa.Buffer) else len(self.data)


def encode_parquet(table: pa.Table, metadata: Mapping[str, str], options: ParquetOptions) -> WrittenParquet:
    """Encode `table`, whose fields carry field ids, with `metadata` as footer key-values."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        version="2.6",
        compression=options.compression,
        compression_level=options.compression_level,
        data_page_size=options.page_bytes,
        dictionary_pagesize_limit=options.dictionary_bytes,
        store_schema=False,
    ) as writer:
        writer.write_table(without_hidden_nulls(table), row_group_size=options.row_group_rows)
        writer.add_key_value_metadata(dict(metadata))  # pyarrow drops a schema's own metadata without store_schema
    buffer = sink.getvalue()
    footer = pq.read_metadata(pa.BufferReader(buffer))
    return WrittenParquet(
        data=buffer, column_sizes=_column_sizes(footer, table.schema), split_offsets=split_offsets(footer)
    )


def _column_sizes(footer: Any, schema: pa.Schema) -> dict[int, int]:
    ids = [field_id for f in schema for field_id in _leaf_ids(f)]
    sizes: dict[int, int] = {}
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for i, field_id in enumerate(ids):
            if field_id is not None:
                sizes[field_id] = sizes.get(field_id, 0) + row_group.column(i).total_compressed_size
    return sizes


def _leaf_ids(field: pa.Field) -> list[int | None]:
    kind = field.type
    if pa.types.is_struct(kind):
        return [leaf for i in range(kind.num_fields) for leaf in _leaf_ids(kind.field(i))]
    if pa.types.is_map(kind):
        return _leaf_ids(kind.key_field) + _leaf_ids(kind.item_field)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _leaf_ids(kind.value_field)
    return [field_id_of(field)]


def split_offsets(footer: Any) -> tuple[int, ...]:
    """Return the offsets where the row groups of a file begin, from its footer."""
    offsets = []
    for group in range(footer.num_row_groups):
        if footer.row_group(group).num_columns:
            column = footer.row_group(group).column(0)
            dictionary = column.dictionary_page_offset
            offsets.append(dictionary or column.data_page_offset)
    return tuple(sorted(offsets))
