"""Write Parquet files as Iceberg wants them: field ids on every column, the schema and delete type in the footer.

Spec: "Parquet", https://iceberg.apache.org/spec/#parquet
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from deletekit.deferred import pc, pq
from deletekit.formats.metrics import field_id_of

PYARROW = int(pa.__version__.partition(".")[0])
_FIRST_ROWS = 20_000
PAGE_ROWS_FROM, BLOOM_FILTERS_FROM = 26, 24
"""The first pyarrow whose writer ends a page at a number of rows, and the first that writes Bloom filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetOptions:
    """The `write.parquet.*` properties that pyarrow can honour; sizes in bytes, `row_group_rows` in rows.

    An old pyarrow passes over `page_rows` and `bloom_filters`; `table/properties.py` warns of it.

    A row group ends at `row_group_rows`, or at `row_group_bytes` in memory; encoded it is smaller.

    Attributes
    ----------
    bloom_filters: by field id, how often the filter may be wrong and its distinct values, None for those of the rows.
    without_dictionary, without_statistics: field ids.
    """

    compression: str = "zstd"
    compression_level: int | None = None
    row_group_rows: int = 1 << 20
    row_group_bytes: int = 128 << 20
    page_bytes: int = 1 << 20
    page_rows: int = 20_000
    page_version: str = "v1"
    dictionary_bytes: int = 2 << 20
    bloom_filters: Mapping[int, tuple[float, int | None]] = field(default_factory=dict)
    bloom_filter_bytes: int = 1 << 20
    without_dictionary: frozenset[int] = frozenset()
    without_statistics: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenParquet:
    """A finished file: its bytes if they are held, its size, the bytes of each column by field id, its row groups."""

    data: bytes | pa.Buffer = b""
    size: int
    column_sizes: dict[int, int]
    split_offsets: tuple[int, ...]


def encode_parquet(table: pa.Table, metadata: Mapping[str, str], options: ParquetOptions) -> WrittenParquet:
    """Encode `table`, whose fields carry field ids, with `metadata` as footer key-values."""
    sink = pa.BufferOutputStream()
    stream = ParquetStream(sink, table.schema, options, len(table))
    try:
        stream.write(table)
    except BaseException:
        stream.abandon()
        raise
    return replace(stream.close(metadata), data=sink.getvalue())


class ParquetStream:
    """A Parquet file that is written to an open stream, a part of its rows at a time.

    Parameters
    ----------
    sink: a binary writer; it stays open.
    schema: of every part; its fields carry field ids.
    rows: how many rows a row group gets, about; a larger one makes Bloom filters err more.
    """

    def __init__(self, sink: Any, schema: pa.Schema, options: ParquetOptions, rows: int) -> None:
        self._sink, self._schema, self._options, self._rows = sink, schema, options, rows
        self._footers: list[Any] = []
        self._writer: Any = None

    @property
    def size(self) -> int:
        """The bytes that were written so far."""
        size: int = self._sink.tell()
        return size

    def write(self, table: pa.Table) -> None:
        """Write rows as one or more row groups."""
        rows = rows_per_group(table.nbytes / max(1, len(table)), self._options)
        self._opened(table).write_table(without_hidden_nulls(table), row_group_size=rows)

    def close(self, metadata: Mapping[str, str]) -> WrittenParquet:
        """Write the footer, with `metadata` as key-values, and describe the file."""
        writer = self._writer or self._opened(pa.Table.from_batches([], self._schema))
        writer.add_key_value_metadata(dict(metadata))  # pyarrow drops a schema's own without store_schema
        writer.close()
        (footer,) = self._footers
        return WrittenParquet(
            size=self.size, column_sizes=column_sizes(footer, self._schema), split_offsets=split_offsets(footer)
        )

    def abandon(self) -> None:
        """End the file, which is of no use; without that, pyarrow would when it is collected, and complain then."""
        with suppress(Exception):
            self._writer.close()

    def _opened(self, table: pa.Table) -> Any:
        """Return the writer; the first rows decide which columns it encodes with a dictionary."""
        if self._writer is None:
            options, schema = self._options, self._schema
            plain = options.without_dictionary | _nearly_distinct(table, schema)
            self._writer = pq.ParquetWriter(
                self._sink,
                schema,
                version="2.6",
                compression=options.compression,
                compression_level=options.compression_level,
                data_page_size=options.page_bytes,
                data_page_version={"v1": "1.0", "v2": "2.0"}[options.page_version],
                **({"max_rows_per_page": options.page_rows} if PYARROW >= PAGE_ROWS_FROM else {}),
                dictionary_pagesize_limit=options.dictionary_bytes,
                store_schema=False,
                metadata_collector=self._footers,
                **_column_options(
                    schema, replace(options, without_dictionary=plain), max(1, min(self._rows, options.row_group_rows))
                ),
            )
        return self._writer


def rows_per_group(bytes_per_row: float, options: ParquetOptions) -> int:
    """Return how many rows a row group gets at most, by the bytes that a row takes in memory."""
    return max(1, min(options.row_group_rows, int(options.row_group_bytes / max(1, bytes_per_row))))


def _nearly_distinct(table: pa.Table, schema: pa.Schema) -> frozenset[int]:
    """Return columns in whose first rows a dictionary takes as many bytes as the values, by the field ids of `schema`.

    Java's writer drops the dictionary of such a column after its first page (FallbackValuesWriter). pyarrow's goes on
    until the dictionary is full, which takes half of the time that it writes.
    """
    some, out = table.slice(0, _FIRST_ROWS), set()
    for column, field_ in zip(some.columns, schema, strict=True):
        field_id, kind = field_id_of(field_), field_.type
        is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
        is_number = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
        if field_id is not None and len(some) == _FIRST_ROWS and (is_text or is_number):
            values, size = pc.unique(column), column.nbytes / len(some)  # half the time of Arrow's `count_distinct`
            distinct = len(values) - values.null_count
            if distinct * size + len(some) * distinct.bit_length() / 8 >= len(some) * size:
                out.add(field_id)
    return frozenset(out)


def _column_options(schema: pa.Schema, options: ParquetOptions, group_rows: int) -> dict[str, Any]:
    """Return pyarrow's arguments for what differs by column; `group_rows` is how many rows a row group gets at most."""
    paths = [(field_id, path) for f in schema for field_id, path in _leaves(f, f.name)]
    filters = {
        path: {"fpp": fpp, "ndv": _distinct(fpp, ndv or group_rows, options.bloom_filter_bytes)}
        for i, path in paths
        if i is not None and i in options.bloom_filters
        for fpp, ndv in (options.bloom_filters[i],)
    }

    def others(left_out: frozenset[int]) -> Any:
        return [path for i, path in paths if i not in left_out] if left_out else True

    by_column = {"use_dictionary": options.without_dictionary, "write_statistics": options.without_statistics}
    out = {name: others(ids) for name, ids in by_column.items()}
    return out | ({"bloom_filter_options": filters} if filters and PYARROW >= BLOOM_FILTERS_FROM else {})


def _distinct(fpp: float, wanted: int, most_bytes: int) -> int:
    """Return for how many distinct values, at most those wanted, a split block Bloom filter stays within a size.

    Its size is a power of two. Spec: Parquet "Bloom Filter"; Arrow OptimalNumOfBits.
    """
    bits_each = -8 / math.log(1 - fpp ** (1 / 8))
    largest = 1 << (most_bytes * 8).bit_length() - 1
    return max(1, min(wanted, int(largest / bits_each)))


def column_sizes(footer: Any, schema: pa.Schema) -> dict[int, int]:
    """Return the bytes of each leaf column by field id, from a footer; `schema` is the file's, with field ids."""
    ids = [field_id for f in schema for field_id, _ in _leaves(f, f.name)]
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    sizes = [sum(group.column(i).total_compressed_size for group in groups) for i in range(len(ids))]
    return {field_id: size for field_id, size in zip(ids, sizes, strict=True) if field_id is not None and groups}


def _leaves(field: pa.Field, path: str) -> Iterator[tuple[int | None, str]]:
    """Yield the field id and Parquet's path of each leaf, in the order of the columns of a file."""
    kind = field.type
    if not kind.num_fields:
        yield field_id_of(field), path
    for i in range(kind.num_fields):
        below = kind.field(i)
        name = "key_value" if pa.types.is_map(kind) else below.name if pa.types.is_struct(kind) else "list.element"
        yield from _leaves(below, f"{path}.{name}")


def split_offsets(footer: Any) -> tuple[int, ...]:
    """Return the offsets where the row groups of a file begin, from its footer."""
    groups = (footer.row_group(i) for i in range(footer.num_row_groups))
    first = (group.column(0) for group in groups if group.num_columns)
    return tuple(sorted(column.dictionary_page_offset or column.data_page_offset for column in first))


# --- required fields of NULL structs ----------------------------------------------------------------------------------


def without_hidden_nulls(table: pa.Table) -> pa.Table:
    """Return the same rows, with some value in every required field of a NULL struct.

    Parquet needs a value there, though no reader sees it. A NULL that is not hidden stays, and the writer refuses it.
    """
    if not any(_has_required(f.type) for f in table.schema):
        return table
    columns = [pa.chunked_array([_filled(chunk) for chunk in c.chunks], type=c.type) for c in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _has_required(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(not f.nullable or _has_required(f.type) for f in kind)
    if pa.types.is_map(kind):
        return _has_required(kind.item_type)
    return pa.types.is_list(kind) and _has_required(kind.value_type)


def _filled(array: pa.Array) -> pa.Array:
    kind = array.type
    if not _has_required(kind):
        return array
    if pa.types.is_struct(kind):
        children = [_child(array, i) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    whole = pa.concat_arrays([array])  # offsets start at zero, as a null mask needs
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(whole.offsets, whole.keys, _filled(whole.items), type=kind, mask=whole.is_null())
    return pa.ListArray.from_arrays(whole.offsets, _filled(whole.values), type=kind, mask=whole.is_null())


def _child(parent: pa.StructArray, index: int) -> pa.Array:
    child = parent.field(index)
    if not parent.type.field(index).nullable and child.null_count:
        hidden = parent.is_null().to_numpy(zero_copy_only=False)
        both = pa.concat_arrays([child, _zero_array(child.type)])
        child = both.take(pa.array(np.where(hidden, len(child), np.arange(len(child)))))
    return _filled(child)


def _zero_array(kind: pa.DataType) -> pa.Array:
    """Return one value of a type, of zero bytes; pyarrow cannot make nested types with uuids of Python values."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _zero_array(kind.storage_type))
    zeroes = pa.nulls(1, kind).buffers()[1 : kind.num_buffers]  # without the first, which says what is null
    children = [_zero_array(kind.field(i).type) for i in range(kind.num_fields)]
    return pa.Array.from_buffers(kind, 1, [None, *zeroes], children=children)
