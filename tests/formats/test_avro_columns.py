"""Columns of Avro records: what the strict decoder gives, or None; each way that polars is too lenient, on its own."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deletekit.formats.avro import read_container
from deletekit.formats.avro_columns import leaves, read_columns, to_numpy
from tests.avro_bytes import avro_file, block, long


def columns(data: bytes) -> list[dict[tuple[str, ...], Any]] | None:
    container = read_container(data)
    found = leaves(container)
    if found is None:
        return None
    read = read_columns(container, found, {leaf.path for leaf in found})
    if read is None:
        return None
    rows = len(next(iter(read.values())))
    return [{path: array[i].as_py() for path, array in read.items()} for i in range(rows)]


# Each field is exactly what an Avro writer may not write, or need not, and polars reads all the same.
ONE = {"type": "record", "name": "r", "fields": [{"name": "pad", "type": "string"}]}
PAD = long(40) + b"p" * 40
LENIENT = {
    "union index behind the last": (["null", "long"], long(2) + long(5)),
    "union index -1": (["null", "long"], long(-1) + long(5)),
    "union index of the null that comes second": (["long", "null"], long(3)),
    "boolean of 2": ("boolean", b"\x02"),
    "optional boolean of 2": (["null", "boolean"], long(1) + b"\x02"),
    "number longer than needed": ("long", b"\x85\x00"),
    "length longer than needed": ("bytes", b"\x82\x00a"),
    "array of two blocks": ({"type": "array", "items": "long"}, long(1) + long(3) + long(1) + long(4) + long(0)),
    "array block with its size": ({"type": "array", "items": "long"}, long(-1) + long(1) + long(3) + long(0)),
    "text that is not UTF-8": ("string", long(2) + b"\xc3\x28"),
    "text of a surrogate": ("string", long(3) + b"\xed\xa0\x80"),
    "negative length": ("bytes", long(-1)),
    "length behind the end": ("bytes", long(1000) + b"a"),
    "number without an end": ("long", b"\xff" * 11),
}


@pytest.mark.parametrize("name", LENIENT)
def test_what_polars_reads_too_leniently_is_left_to_the_strict_decoder(name: str) -> None:
    kind, value = LENIENT[name]
    schema = {**ONE, "fields": [*ONE["fields"], {"name": "x", "type": kind}]}
    assert columns(avro_file(schema, block(1, PAD + value))) is None


def test_bytes_behind_the_last_record_or_records_across_blocks_are_left_to_the_strict_decoder() -> None:
    assert columns(avro_file(ONE, block(1, PAD))) == [{("pad",): "p" * 40}]
    assert columns(avro_file(ONE, block(1, PAD + b"\0"))) is None
    assert columns(avro_file(ONE, block(1, PAD + PAD[:30]), block(1, PAD[30:]))) is None
    assert columns(avro_file(ONE, block(1, PAD), block(0, b"a"))) is None


OTHER_SCHEMAS = {
    "union of three": ["null", "long", "string"],
    "union of one": ["long"],
    "map": {"type": "map", "values": "long"},
    "enum": {"type": "enum", "name": "e", "symbols": ["a", "b"]},
    "optional record": ["null", {"type": "record", "name": "o", "fields": [{"name": "y", "type": "long"}]}],
    "array of text": {"type": "array", "items": "string"},
    "array of optional numbers": {"type": "array", "items": ["null", "long"]},
}


@pytest.mark.parametrize("name", OTHER_SCHEMAS)
def test_schemas_that_are_not_columns_are_left_to_the_strict_decoder(name: str) -> None:
    schema = {**ONE, "fields": [*ONE["fields"], {"name": "x", "type": OTHER_SCHEMAS[name]}]}
    assert leaves(read_container(avro_file(schema))) is None


@pytest.mark.parametrize("cut", [0, 1, 9])
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.bool_()])
@pytest.mark.parametrize("values", [[1, 0, 1, 1], [None, 1, None, 0], [None, None], []])
def test_to_numpy_is_what_python_says(values: list[Any], kind: pa.DataType, cut: int) -> None:
    array = pa.array(values, pa.int32()).cast(kind)[cut:]
    missing = 0 if kind == pa.bool_() else -7
    found = to_numpy(array, missing)
    assert found.dtype == np.dtype(str(kind))
    assert found.tolist() == [missing if v is None else v for v in array.to_pylist()]
