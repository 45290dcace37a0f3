"""Decode the records of an Avro container to Arrow columns, for files too big for a Python object per record.

polars decodes. It takes any union index for "not null", any byte but 1 for False, and ignores bytes behind the last
record. So it is believed only where the columns, written again, would take exactly the bytes that they were read from.
For anything else the answer is None, and the caller lets fastavro decode or refuse the records.
Spec: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from fastavro.schema import expand_schema

from deletekit.formats.avro import SYNC_BYTES, Block, ContainerFile

Columns = dict[tuple[str, ...], pa.Array]
"""Columns by their path of field names. Text is checked UTF-8; a map is a list of {key, value}."""

_PRIMITIVES = {name: name for name in ("boolean", "long", "float", "double", "bytes", "string")} | {"int": "long"}
_WIDTHS = {"boolean": 1, "float": 4, "double": 8}
_NUMBERS = {"boolean": pa.bool_(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
_ARROW = _NUMBERS | dict.fromkeys(("bytes", "fixed", "string"), pa.large_binary())

# Bytes decoded at a time, unless one block has more. Columns take about three times as much, and in a hostile file up
# to thirty times. More at a time is a little faster and leaves the allocators with twice as much that they keep.
_BATCH_BYTES = 1 << 22
_MOST_BLOCK_BYTES = 1 << 24
# Columns get room for each record before its bytes are looked at, so records shorter than useful ones are not taken.
_FEWEST_RECORD_BYTES = 24
_MOST_LEAVES = 200
# Bounds what a schema grows to when each name in it is replaced by its definition.
_MOST_RECORD_BYTES = 1 << 13

_Sizes = npt.NDArray[np.int64]


class _NotColumnsError(Exception):
    """Raised for a schema or bytes that are left to fastavro."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A field of the records that has values of its own.

    Attributes
    ----------
    path: names from the record down to the field.
    kind: `long` (and `int`), `boolean`, `float`, `double`, `bytes`, `string`, `fixed`, `list` of long, or `map`: an
        array of records of a long `key` and a `value`.
    size: bytes of a `fixed`.
    value: kind of a map's values.
    null: place of "null" in the field's union; None when the field is none.
    """

    path: tuple[str, ...]
    kind: str
    size: int = 0
    value: str = ""
    null: int | None = None


def leaves(container: ContainerFile) -> tuple[Leaf, ...] | None:
    """Return the leaves of a container's records, in the order of their bytes; None when a field cannot be a column."""
    if container.record_bytes > _MOST_RECORD_BYTES:
        return None
    try:
        found = tuple(_leaves(expand_schema(container.parsed), ()))
    except _NotColumnsError:
        return None
    if not found or len(found) > _MOST_LEAVES or len({leaf.path for leaf in found}) < len(found):
        return None
    return found


def read_columns(
    container: ContainerFile, found: tuple[Leaf, ...], wanted: Collection[tuple[str, ...]], *, check: bool = True
) -> Columns | None:
    """Return columns of a container, or None where polars cannot be believed.

    Parameters
    ----------
    found: all of `leaves(container)`.
    wanted: paths of the columns to return.
    check: False for bytes that were checked before; columns that are not wanted are skipped then.

    Raises FormatError or UnsupportedError for damaged blocks.
    """
    parts: dict[tuple[str, ...], list[pa.Array]] = {leaf.path: [] for leaf in found if leaf.path in wanted}
    try:
        for batch in _batches(container.blocks()):
            plain, start = _plain_container(_flat_header(found), batch)
            ends = [np.cumsum([0, *numbers]) for numbers in zip(*((b.count, len(b.data)) for b in batch), strict=True)]
            batch.clear()  # as many bytes as `plain`
            columns = _decoded(found, plain, int(ends[0][-1]), None if check else wanted)
            if check:
                _check(found, ends, np.frombuffer(plain, np.uint8)[start:], columns)
            for path, part in parts.items():
                part.append(columns[path])
    except _NotColumnsError:
        return None
    if not all(parts.values()):
        return None
    return {path: part[0] if len(part) == 1 else pa.concat_arrays(part) for path, part in parts.items()}


def to_numpy(array: pa.Array, missing: int = 0) -> npt.NDArray[Any]:
    """Return numbers or truth values, and `missing` where they are null.

    Arrow's own `to_numpy`, and a Python value for `fill_null`, import pandas where that is installed: a third of a
    second, and tens of megabytes.
    """
    numbers = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
    if array.null_count:
        value = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(np.array([missing], np.int64))])[0]
        numbers = numbers.fill_null(value.cast(numbers.type))
    found = np.from_dlpack(numbers)
    return found if numbers.type == array.type else found.astype(np.bool_)


# --- schema -----------------------------------------------------------------------------------------------------------


def _leaves(schema: Any, path: tuple[str, ...]) -> Iterator[Leaf]:
    """Yield the leaves of a type: a record's bytes are the bytes of its fields, one after the other."""
    null = None
    if isinstance(schema, list) and len(schema) == 2 and schema.count("null") == 1:
        null = schema.index("null")
        schema = schema[1 - null]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record" and null is None:
        for part in schema["fields"]:
            yield from _leaves(part["type"], (*path, part["name"]))
    elif kind == "fixed" and schema["size"] > 0:
        yield Leaf(path=path, kind="fixed", size=schema["size"], null=null)
    elif kind == "array":
        yield _array(schema["items"], path, null)
    elif isinstance(kind, str) and kind in _PRIMITIVES:
        yield Leaf(path=path, kind=_PRIMITIVES[kind], null=null)
    elif kind != "null":  # which takes no bytes
        raise _NotColumnsError


def _array(item: Any, path: tuple[str, ...], null: int | None) -> Leaf:
    parts = [(leaf.path, leaf.kind, leaf.null) for leaf in _leaves(item, ())]
    if parts == [((), "long", None)]:
        return Leaf(path=path, kind="list", null=null)
    for value in ("long", "bytes"):
        if parts == [(("key",), "long", None), (("value",), value, None)]:
            return Leaf(path=path, kind="map", value=value, null=null)
    raise _NotColumnsError


@lru_cache(maxsize=16)
def _flat_header(found: tuple[Leaf, ...]) -> bytes:
    """Return a container's header for polars: our own names, text as bytes (checked here), numbers of 64 bits."""
    fields = []
    for i, leaf in enumerate(found):
        kind: Any = {"string": "bytes"}.get(leaf.kind, leaf.kind)
        if leaf.kind == "fixed":
            kind = {"type": "fixed", "name": f"f{i}", "size": leaf.size}
        elif leaf.kind == "list":
            kind = {"type": "array", "items": "long"}
        elif leaf.kind == "map":
            pair = [{"name": "key", "type": "long"}, {"name": "value", "type": leaf.value}]
            kind = {"type": "array", "items": {"type": "record", "name": f"m{i}", "fields": pair}}
        union = {None: kind, 0: ["null", kind], 1: [kind, "null"]}[leaf.null]
        fields.append({"name": f"c{i}", "type": union})
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, [], sync_marker=bytes(SYNC_BYTES))
    return out.getvalue()


# --- decoding ---------------------------------------------------------------------------------------------------------


def _batches(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    batch: list[Block] = []
    size = 0
    for block in blocks:
        if not block.count:
            if block.data:
                raise _NotColumnsError
            continue
        if not block.count * _FEWEST_RECORD_BYTES <= len(block.data) <= _MOST_BLOCK_BYTES:
            raise _NotColumnsError
        if batch and size + len(block.data) > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(block)
        size += len(block.data)
    if batch:
        yield batch


def _plain_container(header: bytes, blocks: Sequence[Block]) -> tuple[bytes, int]:
    """Return an uncompressed container of records that are encoded already, and the offset where they begin."""
    out = io.BytesIO(header)
    out.seek(len(header))
    for number in (sum(b.count for b in blocks), sum(len(b.data) for b in blocks)):
        fastavro.schemaless_writer(out, "long", number)
    return b"".join((out.getvalue(), *(b.data for b in blocks), bytes(SYNC_BYTES))), out.tell()


def _decoded(found: tuple[Leaf, ...], plain: bytes, rows: int, wanted: Collection[tuple[str, ...]] | None) -> Columns:
    import polars as pl  # noqa: PLC0415  # a fifth of a second, which small tables need not pay

    names = {f"c{i}": leaf for i, leaf in enumerate(found) if wanted is None or leaf.path in wanted}
    try:
        table = pl.read_avro(io.BytesIO(plain), columns=None if wanted is None else list(names)).to_arrow()
        if table.num_rows != rows:
            raise _NotColumnsError
        return {leaf.path: _column(leaf, table.column(name)) for name, leaf in names.items()}
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, ValueError, OSError) as e:
        raise _NotColumnsError from e


def _column(leaf: Leaf, column: pa.ChunkedArray) -> pa.Array:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if leaf.null is None and array.null_count:
        raise _NotColumnsError
    if array.type != (kind := _arrow_type(leaf)):
        array = array.cast(kind)
    return array.cast(pa.large_string()) if leaf.kind == "string" else array


def _arrow_type(leaf: Leaf) -> pa.DataType:
    if leaf.kind == "map":
        return pa.large_list(pa.struct([("key", pa.int64()), ("value", _ARROW[leaf.value])]))
    return pa.large_list(pa.int64()) if leaf.kind == "list" else _ARROW[leaf.kind]


# --- checking ---------------------------------------------------------------------------------------------------------


def _check(
    found: tuple[Leaf, ...],
    ends: Sequence[_Sizes],
    data: npt.NDArray[np.uint8],
    columns: Mapping[tuple[str, ...], pa.Array],
) -> None:
    """Raise unless the columns, encoded as Avro writers do, are the bytes of a batch whose blocks end at these rows.

    No encoding is shorter than the canonical one. So where the sizes add up to the bytes of each block, every number,
    length and array was canonical, and each union index and boolean stands where the sizes say: those are compared.
    """
    rows = int(ends[0][-1])
    size = np.zeros(rows, np.int64)
    bytes_at: list[tuple[_Sizes, npt.NDArray[np.uint8]]] = []
    for leaf in found:
        array = columns[leaf.path]
        if leaf.null is not None and array.null_count == rows:
            bytes_at.append((size.copy(), np.full(rows, 2 * leaf.null, np.uint8)))
            size += 1
            continue
        sizes = _sizes(leaf, array)
        valid = None if leaf.null is None else to_numpy(array.is_valid())
        if valid is not None:
            # Index 0 is the byte 0, and 1 is 2.
            bytes_at.append((size.copy(), np.where(valid, 0, 2).astype(np.uint8) if leaf.null else valid * np.uint8(2)))
            size += 1
            sizes = np.where(valid, sizes, 0)
        if leaf.kind == "boolean":
            truth = to_numpy(array).astype(np.uint8)
            bytes_at.append((np.where(valid, size, -1) if valid is not None else size.copy(), truth))
        size += sizes
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(size, out=starts[1:])
    if not np.array_equal(starts[ends[0]], ends[1]):
        raise _NotColumnsError
    for offset, expected in bytes_at:
        there = slice(None) if offset.min() >= 0 else offset >= 0
        if not np.array_equal(data[(starts[:-1] + offset)[there]], expected[there]):
            raise _NotColumnsError


def _sizes(leaf: Leaf, array: pa.Array) -> _Sizes:
    """Return the bytes of each value without its union index; any number where it is null."""
    rows = len(array)
    if leaf.kind in _WIDTHS or leaf.kind == "fixed":
        return np.full(rows, leaf.size or _WIDTHS[leaf.kind], np.int64)
    if leaf.kind == "long":
        return _number_sizes(array)
    if leaf.kind in ("bytes", "string"):
        return _bytes_sizes(array)
    items = array.values
    ends = np.zeros(len(items) + 1, np.int64)
    if leaf.kind == "list":
        np.cumsum(_number_sizes(items), out=ends[1:])
    else:
        values = items.field(1)
        value_sizes = _number_sizes(values) if leaf.value == "long" else _bytes_sizes(values)
        np.cumsum(_number_sizes(items.field(0)) + value_sizes, out=ends[1:])
    offsets = to_numpy(array.offsets)
    counts = np.diff(offsets)
    # A block of items has its count in front, and one of no items ends the array.
    sizes: _Sizes = np.diff(ends[offsets]) + np.where(counts > 0, _varint_sizes(counts) + 1, 1)
    return sizes


def _number_sizes(array: pa.Array) -> _Sizes:
    return _varint_sizes(to_numpy(array))


def _bytes_sizes(array: pa.Array) -> _Sizes:
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(offsets)
    return lengths + _varint_sizes(lengths)


def _varint_sizes(values: npt.NDArray[np.int64]) -> _Sizes:
    # Zigzag doubles a number and leaves a bit for its sign: -1 is as short as 0.
    size_of = values ^ (values >> 63) if len(values) and values.min() < 0 else values
    sizes = np.ones(len(values), np.int64)
    largest = int(size_of.max(initial=0))
    threshold = 1 << 6
    while threshold <= largest:
        sizes += size_of >= threshold
        threshold <<= 7
    return sizes
