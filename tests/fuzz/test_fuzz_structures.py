"""Well-framed nonsense: sizes and checksums are right, so that the damage reaches the decoders behind them.

test_fuzz_formats.py changes a few bytes of whole files, which a checksum or a compressed block mostly stops early.
Here the numbers and texts inside are made up, and what is around them is laid out anew.

DELETEKIT_FUZZ_ROUNDS multiplies the work.
"""

import io
import json
import os
import random
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from deletekit.errors import DeletekitError
from deletekit.formats.avro import read_container
from deletekit.formats.avro_table import read_avro_table
from deletekit.formats.deletion_vector import MAGIC, PositionBitmap, decode_blob
from deletekit.formats.manifest_list import ManifestFile, read_manifest_list
from deletekit.formats.manifests import inherit, read_manifest
from deletekit.formats.puffin import read_puffin
from deletekit.formats.tabular import open_tabular, read_all
from deletekit.table.metadata import parse_metadata
from tests.avro_bytes import avro_file, block, long
from tests.golden_files import content, index

ROUNDS = int(os.environ.get("DELETEKIT_FUZZ_ROUNDS", "60"))
fuzz = settings(
    max_examples=ROUNDS, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def value_or_error(decode: Callable[..., Any], *arguments: Any) -> None:
    """Accept any value and any error of ours; what else is raised fails the test."""
    with suppress(DeletekitError):
        decode(*arguments)


# --- deletion vectors: right length, magic and checksum ---------------------------------------------------------------

extremes = st.sampled_from([0, 1, 2, 0x7F, 0xFF, 4095, 4096, 0x7FFF, 0xFFFF, 12346, 12347, 2**31 - 1, 2**31, 2**32 - 1])
number = st.integers(0, 20) | extremes


@st.composite
def bitmaps(draw: st.DrawFn) -> bytes:
    """Draw a serialised bitmap, mostly with one of its numbers or its length changed."""
    found = BitMap(draw(st.lists(st.integers(0, 200_000), max_size=20)))
    if draw(st.booleans()):
        found |= BitMap(range(draw(st.integers(0, 70_000)), 70_001))
        found.run_optimize()
    data = bytearray(found.serialize())
    if draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(data) - 1))
        width = draw(st.sampled_from(["<B", "<H", "<I"]))
        changed = struct.pack(width, draw(number) & (256 ** struct.calcsize(width) - 1))
        data[at : at + len(changed)] = changed
    return bytes(data[: draw(st.integers(0, len(data)) | st.just(len(data)))])


@fuzz
@given(
    keyed=st.lists(st.tuples(st.integers(-1, 3) | st.just(0x7FFFFFFF), bitmaps()), max_size=4),
    count=st.none() | st.integers(-2, 5) | st.just(2**31),
    rest=st.binary(max_size=3),
)
def test_deletion_vector_of_any_content(keyed: list[tuple[int, bytes]], count: int | None, rest: bytes) -> None:
    vector = struct.pack("<q", len(keyed) if count is None else count)
    body = MAGIC + vector + b"".join(struct.pack("<i", key) + bitmap for key, bitmap in keyed) + rest
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))

    def decode() -> None:
        found = decode_blob(blob)
        assert sum(len(bitmap) for bitmap in found.by_key.values()) == len(found)
        if len(found) < 100_000:
            assert PositionBitmap(found.to_numpy()) == found

    value_or_error(decode)


# --- Puffin: right magics and footer size -----------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
blob_json = st.fixed_dictionaries(
    {},
    optional={
        "type": st.just("deletion-vector-v1") | st.text(max_size=3) | json_values,
        "fields": st.lists(st.integers(-1, 5), max_size=2) | json_values,
        "snapshot-id": st.integers(-1, 5) | json_values,
        "sequence-number": st.integers(-1, 5) | json_values,
        "offset": st.integers(0, 40) | json_values,
        "length": st.integers(0, 40) | json_values,
        "compression-codec": st.sampled_from(["lz4", "zstd", "gzip"]) | json_values,
        "properties": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2) | json_values,
    },
)
footer_json = st.fixed_dictionaries(
    {}, optional={"blobs": st.lists(blob_json | json_values, max_size=3) | json_values, "properties": json_values}
)


@fuzz
@given(footer=footer_json | json_values, body=st.binary(max_size=40), flags=st.sampled_from([0, 0, 0, 1, 2]))
def test_puffin_of_any_footer(footer: Any, body: bytes, flags: int) -> None:
    payload = json.dumps(footer).encode()
    data = b"PFA1" + body + b"PFA1" + payload + struct.pack("<iI", len(payload), flags) + b"PFA1"

    value_or_error(read_puffin, data)


# --- Avro: right header and sync markers, any schema, any data --------------------------------------------------------

names = st.sampled_from(["a", "b", "key", "value", "r", "file_path", "pos", "status", "data_file", "manifest_path"])
logical = st.sampled_from(["date", "decimal", "uuid", "time-micros", "timestamp-micros", "map", "duration"])
primitives = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])


def composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    field = st.fixed_dictionaries(
        {"name": names, "type": inner}, optional={"field-id": st.integers(0, 520), "iceberg-field-name": names}
    )
    return st.one_of(
        st.lists(inner, max_size=3),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"logicalType": logical}),
        st.fixed_dictionaries({"type": st.just("map"), "values": inner}),
        st.fixed_dictionaries({"type": st.just("record"), "name": names, "fields": st.lists(field, max_size=4)}),
        st.fixed_dictionaries(
            {"type": st.just("fixed"), "name": names, "size": st.integers(-1, 20)},
            optional={"logicalType": logical, "precision": st.integers(-1, 50), "scale": st.integers(-5, 50)},
        ),
        st.fixed_dictionaries(
            {"type": primitives},
            optional={"logicalType": logical, "precision": st.integers(-1, 50), "scale": st.integers(-5, 50)},
        ),
        st.fixed_dictionaries(
            {"type": st.just("enum"), "name": names, "symbols": st.lists(names, max_size=2)},
        ),
    )


avro_types = st.recursive(primitives | names, composed, max_leaves=8)
record_schemas = st.lists(avro_types, max_size=4).map(
    lambda kinds: {
        "type": "record",
        "name": "table",
        "fields": [{"name": f"f{i}", "type": kind, "field-id": i} for i, kind in enumerate(kinds)],
    }
)
counts = st.integers(0, 5) | st.sampled_from([-1, 1000, 2**31, 2**60])


@fuzz
@given(schema=record_schemas | avro_types, count=counts, data=st.binary(max_size=60))
def test_avro_of_any_schema_and_data(schema: Any, count: int, data: bytes) -> None:
    file = avro_file(schema, block(count, data))
    for decode in (records, read_avro_table, read_manifest, read_manifest_list):
        value_or_error(decode, file)


def records(data: bytes) -> list[Any]:
    return list(read_container(data))


def entries(data: bytes) -> list[Any]:
    return list(inherit(read_manifest(data), LISTED).all_entries())


def rows(data: bytes) -> Any:
    return read_all(open_tabular(io.BytesIO(data), "avro"))


def uncompressed(data: bytes) -> tuple[Any, dict[str, bytes], list[tuple[int, bytes]]]:
    """Give a file's schema, its metadata, and the counts and bytes of its blocks."""
    container = read_container(data)
    blocks = [(b.count, b.data) for b in container.blocks()]
    pairs = {k: v.encode() for k, v in container.metadata.items() if not k.startswith("avro.")}
    return container.schema, pairs, blocks


MANIFESTS = {file: uncompressed(content("manifests", file)) for file in index("manifests")}
LISTED = ManifestFile(manifest_path="m", manifest_length=1, partition_spec_id=0, added_snapshot_id=1, sequence_number=9)


def damage(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at = chance.randrange(len(out) + 1)
        how = chance.random()
        if how < 0.5 and at < len(out):
            out[at] = chance.choice([0, 1, 2, 3, 4, 0x7F, 0x80, 0xFE, 0xFF, chance.randrange(256)])
        elif how < 0.7:
            del out[at : at + chance.choice([1, 2, 8])]
        elif how < 0.9:
            out[at:at] = chance.choice([long(-1), long(2**31), long(2**62), b"\0", b"\2"])
        else:
            start = chance.randrange(len(out) + 1)
            out[at:at] = out[start : start + 32]
    return bytes(out)


@pytest.mark.golden
@pytest.mark.parametrize("file", MANIFESTS)
def test_manifest_whose_records_are_damaged(file: str) -> None:
    schema, metadata, blocks = MANIFESTS[file]
    chance = random.Random(file)
    for _ in range(max(ROUNDS // 5, 1)):
        count, data = chance.choice(blocks) if blocks else (1, b"")
        damaged = avro_file(schema, block(count, damage(data, chance)), metadata=metadata)
        for decode in (entries, read_manifest_list):
            value_or_error(decode, damaged)


@pytest.mark.golden
@pytest.mark.parametrize("file", MANIFESTS)
def test_manifest_whose_schema_is_damaged(file: str) -> None:
    schema, metadata, blocks = MANIFESTS[file]
    chance = random.Random(file)
    for _ in range(max(ROUNDS // 10, 1)):
        changed = changed_json(schema, chance)
        damaged = avro_file(changed, *(block(*b) for b in blocks), metadata=metadata)
        for decode in (entries, read_manifest_list, rows):
            value_or_error(decode, damaged)


ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    5,
    2**40,
    1.5,
    "",
    "null",
    "int",
    "string",
    "bytes",
    "r2",
    "r102",
    [],
    {},
    ["null"],
]


def changed_json(document: Any, chance: random.Random) -> Any:
    """Copy a document with one or two of its values changed, moved or dropped."""
    copy = json.loads(json.dumps(document))
    for _ in range(chance.choice([1, 1, 2])):
        places = list(places_of(copy))
        holder, key = chance.choice(places)
        how = chance.random()
        if how < 0.6:
            holder[key] = chance.choice(ODD)
        elif how < 0.8:
            other, name = chance.choice(places)
            holder[key] = json.loads(json.dumps(other[name])) if name in range(len(other)) or name in other else None
        else:
            del holder[key]
    return copy


def places_of(document: Any) -> Any:
    pairs = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in list(pairs):
        yield document, key
        yield from places_of(value)


# --- table metadata: right JSON ---------------------------------------------------------------------------------------

METADATA_FILES = {file: content("metadata", file) for file in index("metadata") if ".gz" not in file}


@pytest.mark.golden
@pytest.mark.parametrize("file", METADATA_FILES)
def test_metadata_that_is_changed_anywhere_but_in_its_schemas(file: str) -> None:
    document = json.loads(METADATA_FILES[file])
    # pyiceberg looks for the parents of a field whose id is taken twice without end: schemas are not changed here.
    schemas = {name: document.pop(name) for name in ("schema", "schemas") if name in document}
    chance = random.Random(file)
    for _ in range(ROUNDS):
        changed = changed_json(document, chance)
        value_or_error(parse_metadata, json.dumps({**changed, **schemas}).encode())
