"""Columns of Avro records: what the strict decoder gives, or None; each way that polars is too lenient, on its own."""

from __future__ import annotations

import io
import random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from deletekit.errors import DeletekitError
from deletekit.formats.avro import read_container
from deletekit.formats.avro_columns import leaves, read_columns, to_numpy
from tests.avro_bytes import avro_file, block, long

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "number", "type": ["null", "long"]},
        {"name": "small", "type": "int"},
        {"name": "text", "type": "string"},
        {"name": "truth", "type": ["null", "boolean"]},
        {"name": "last", "type": ["bytes", "null"]},
        {"name": "list", "type": ["null", {"type": "array", "items": "int"}]},
        {
            "name": "nested",
            "type": {
                "type": "record",
                "name": "n",
                "fields": [
                    {"name": "half", "type": ["null", "float"]},
                    {"name": "whole", "type": ["null", "double"]},
                    {"name": "fixed", "type": ["null", {"type": "fixed", "name": "f", "size": 5}]},
                    {"name": "again", "type": ["null", "f"]},
                    {"name": "nothing", "type": "null"},
                ],
            },
        },
        {
            "name": "map",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "kv",
                        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
                    },
                },
            ],
        },
    ],
}
PARSED = fastavro.parse_schema(SCHEMA)
NUMBERS = (0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63))


def record(rng: random.Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return value if rng.random() < 0.7 else None

    small = [n for n in NUMBERS if -(2**31) <= n < 2**31]
    return {
        "number": maybe(rng.choice(NUMBERS)),
        "small": rng.choice(small),
        "text": "äb€𝄞"[: rng.randrange(5)] * rng.choice((1, 40)) + "x" * 16,
        "truth": maybe(rng.random() < 0.5),
        "last": maybe(rng.randbytes(rng.choice((0, 1, 63, 64, 200)))),
        "list": maybe([rng.choice(small) for _ in range(rng.choice((0, 1, 70)))]),
        "nested": {
            "half": maybe(rng.choice((0.0, -0.0, 1.5, float("inf")))),
            "whole": maybe(rng.random()),
            "fixed": maybe(rng.randbytes(5)),
            "again": maybe(rng.randbytes(5)),
            "nothing": None,
        },
        "map": maybe([{"key": rng.choice(small), "value": rng.randbytes(3)} for _ in range(rng.choice((0, 2, 65)))]),
    }


def encoded(value: dict[str, Any], schema: Any = PARSED) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, schema, value)
    return sink.getvalue()


def flattened(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(value, dict):
        return {path: value}
    return {p: v for name, inner in value.items() for p, v in flattened(inner, (*path, name)).items()}


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


def strict(data: bytes) -> list[dict[tuple[str, ...], Any]]:
    return [{p: v for p, v in flattened(r).items() if p != ("nested", "nothing")} for r in read_container(data)]


@pytest.mark.parametrize("seed", range(5))
def test_columns_hold_the_records_of_any_number_of_blocks(seed: int) -> None:
    rng = random.Random(seed)
    parts = [[record(rng) for _ in range(rng.choice((0, 1, 100)))] for _ in range(4)]
    data = avro_file(SCHEMA, *(block(len(p), b"".join(map(encoded, p))) for p in parts))
    expected = strict(data)
    assert len(expected) == sum(map(len, parts))
    found = columns(data) if expected else []
    assert repr(found) == repr(expected)  # as text, for -0.0


def test_only_wanted_columns_are_read_once_the_bytes_are_checked() -> None:
    rng = random.Random(7)
    records = [record(rng) for _ in range(50)]
    container = read_container(avro_file(SCHEMA, block(50, b"".join(map(encoded, records)))))
    found = leaves(container)
    assert found is not None
    read = read_columns(container, found, {("map",)}, check=False)
    assert read is not None
    assert {path: array.to_pylist() for path, array in read.items()} == {("map",): [r["map"] for r in records]}


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


@pytest.mark.slow
def test_damaged_bytes_are_never_read_as_something_else() -> None:
    rng = random.Random(11)
    records = [record(rng) for _ in range(6)]
    whole = avro_file(SCHEMA, block(6, b"".join(map(encoded, records))))
    start = len(avro_file(SCHEMA))
    taken = refused = 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 5))):
            data[rng.randrange(start, len(data))] ^= 1 << rng.randrange(8)
        try:
            expected = strict(bytes(data))
        except DeletekitError:
            refused += 1
            try:
                assert columns(bytes(data)) is None
            except DeletekitError:
                continue
        else:
            found = columns(bytes(data))
            taken += found is not None
            assert found is None or repr(found) == repr(expected)
    assert taken > 100
    assert refused > 100


@pytest.mark.parametrize("cut", [0, 1, 9])
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.bool_()])
@pytest.mark.parametrize("values", [[1, 0, 1, 1], [None, 1, None, 0], [None, None], []])
def test_to_numpy_is_what_python_says(values: list[Any], kind: pa.DataType, cut: int) -> None:
    array = pa.array(values, pa.int32()).cast(kind)[cut:]
    missing = 0 if kind == pa.bool_() else -7
    found = to_numpy(array, missing)
    assert found.dtype == np.dtype(str(kind))
    assert found.tolist() == [missing if v is None else v for v in array.to_pylist()]
