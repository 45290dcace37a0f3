"""Small files that claim to be large ones, and what deletekit answers.

Run as a program it reads them one after the other and prints for each its name, its size, the answer, the seconds it
took, and the most memory that the process has had by then, in KiB.
"""

import gzip
import io
import json
import re
import struct
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyroaring import BitMap

from deletekit.delta.actions import parse_commit
from deletekit.delta.checkpoint import read_checkpoint_parquet
from deletekit.delta.deletion_vector import (
    NATIVE_MAGIC,
    DeletionVectorDescriptor,
    blob_of_frame,
    decode_body,
    encode_z85,
)
from deletekit.errors import DeletekitError
from deletekit.formats.avro import read_container
from deletekit.formats.avro_table import read_avro_table
from deletekit.formats.delete_file import read_position_deletes
from deletekit.formats.deletion_vector import MAGIC, decode_blob
from deletekit.formats.manifest_list import read_manifest_list
from deletekit.formats.manifest_schema import manifest_entry_schema
from deletekit.formats.manifests import read_manifest
from deletekit.formats.puffin import read_puffin
from deletekit.formats.tabular import open_tabular
from deletekit.table.metadata import parse_metadata
from tests import thrift_bytes
from tests.avro_bytes import avro_file, block, long
from tests.orc_bytes import put, rebuilt

Bomb = tuple[Callable[[], int], str]


def deflated(data: bytes, times: int = 1) -> bytes:
    stream = zlib.compressobj(6, wbits=-15)
    return b"".join([*(stream.compress(data) for _ in range(times)), stream.flush()])


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def one_field(kind: Any) -> Any:
    return {"type": "record", "name": "r", "fields": [{"name": "x", "type": kind}]}


def avro(data: bytes, decode: Callable[[bytes], Any] | None = None) -> int:
    (decode or (lambda d: sum(1 for _ in read_container(d))))(data)
    return len(data)


def manifest_of_many_entries() -> int:
    entry = b"\2\0\0\0" + b"\0" + b"\2a" + b"\6ORC" + b"\0" + b"\0" + b"\0" * 14
    count = 2_000_000
    data = avro_file(manifest_entry_schema(3, []), block(count, deflated(entry * 1000, count // 1000)), codec="deflate")
    return avro(data, read_manifest)


def columns_of_many_entries(count: int, map_items: int) -> int:
    """Entries, and pairs of no use in each of their maps, that cost next to nothing to write down."""
    pairs = long(map_items) + b"\0\0" * map_items + b"\0" if map_items else b"\0"
    entry = b"\2\0\0\0" + b"\0" + long(20) + b"a" * 20 + b"\6ORC" + b"\0" + b"\0" + (b"\2" + pairs) * 6 + b"\0" * 8
    schema = manifest_entry_schema(3, [])
    data = avro_file(schema, *[block(count // 10, deflated(entry * (count // 10)))] * 10, codec="deflate")
    return avro(data, partial(read_manifest, by_polars=True))


def list_of_many_manifests() -> int:
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [{"name": "manifest_path", "type": "string"}, {"name": "manifest_length", "type": "long"}],
    }
    return avro(
        avro_file(schema, block(5_000_000, deflated(b"\2a\0" * 5_000_000)), codec="deflate"), read_manifest_list
    )


def puffin_footer(text: bytes) -> int:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(text)
    payload = sink.getvalue().to_pybytes()
    data = b"PFA1PFA1" + payload + struct.pack("<iI", len(payload), 1) + b"PFA1"
    read_puffin(data)
    return len(data)


def deletion_vector() -> int:
    """A quarter of a billion positions, in runs, which stay runs."""
    full = BitMap(range(1 << 28))
    full.run_optimize()
    body = MAGIC + struct.pack("<qi", 1, 0) + full.serialize()
    data = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    assert len(decode_blob(data)) == 1 << 28
    return len(data)


def orc_rows(rows: int) -> int:
    sink = io.BytesIO()
    orc.write_table(pa.table({"x": pa.array([1] * 10, pa.int64())}), sink, compression="uncompressed")
    data = rebuilt(sink.getvalue(), stripe=put(5, rows), footer=put(6, rows))
    open_tabular(io.BytesIO(data), "orc")
    return len(data)


def rows_without_columns(file_format: str, rows: int) -> int:
    """Rows alone, as a count reads them: their number is the file's word, and must cost nothing."""
    sink = io.BytesIO()
    table = pa.table({"x": pa.array([1], pa.int64()).take(pa.array([0] * rows, pa.int32()))})
    if file_format == "orc":
        orc.write_table(table, sink, compression="zstd")
    else:
        pq.write_table(table, sink)
    del table
    file = open_tabular(io.BytesIO(sink.getvalue()), file_format)
    assert sum(file.read(group, []).num_rows for group in file.row_groups) == rows
    return len(sink.getvalue())


def metadata_json(unpacked: int) -> int:
    """Members of a gzip file follow each other, so that 16 MB of text cost 16 KB to make."""
    member = gzip.compress(b" " * (16 << 20))
    data = member * (unpacked // (16 << 20))
    parse_metadata(data, "00001.gz.metadata.json")
    return len(data)


def many_objects() -> bytes:
    return b"[" + b"{}," * (20 << 20) + b"0]"


def metadata_of_many_objects() -> int:
    data = gzip.compress(many_objects())
    parse_metadata(data, "00001.gz.metadata.json")
    return len(data)


def puffin_that_says(size: int) -> int:
    data = b"PFA1PFA1{}" + struct.pack("<iI", size, 0) + b"PFA1"
    read_puffin(data)
    return len(data)


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def vector(body: bytes, decode: Callable[[bytes], Any] = decode_blob) -> int:
    data = framed(MAGIC + body)
    decode(data)
    return len(data)


def runs(positions: int) -> bytes:
    """A bitmap of all positions up to one, in a few bytes for each 65,536."""
    full = BitMap(range(positions))
    full.run_optimize()
    return full.serialize()


def delta_native(decode: Callable[[bytes], Any]) -> int:
    bitmap = runs(1 << 28)
    body = NATIVE_MAGIC + struct.pack("<II", 1, len(bitmap)) + bitmap
    decode(body)
    return len(body)


def delta_descriptor(cardinality: int) -> int:
    """An inline vector that says how many rows it deletes, and what the log says of the rows of its file."""
    body = MAGIC + struct.pack("<QI", 1, 0) + runs(1 << 24)
    raw = {"storageType": "i", "pathOrInlineDv": encode_z85(body), "sizeInBytes": len(body), "cardinality": cardinality}
    descriptor = DeletionVectorDescriptor.from_json(raw)
    blob_of_frame(framed(descriptor.inline_body()), descriptor, 10)
    return len(body)


def delta_commit(line: Any) -> int:
    data = line if isinstance(line, bytes) else json.dumps(line).encode()
    parse_commit(data)
    return len(data)


def delta_checkpoint(rows: int, path: str) -> int:
    """One action, repeated by a dictionary: next to nothing in the file, everything in memory."""
    sink = io.BytesIO()
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([path]))
    adds = pa.StructArray.from_arrays([paths], ["path"])
    pq.write_table(pa.table({"add": adds}), sink, compression="zstd")
    read_checkpoint_parquet(io.BytesIO(sink.getvalue()))
    return len(sink.getvalue())


def parquet_footer(**changes: int) -> int:
    """A footer whose numbers are others: `version`, `rows`, `groups` and `children` of the schema's root."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": pa.array([1] * 10, pa.int64())}), sink)
    data = sink.getvalue()
    size = int.from_bytes(data[-8:-4], "little")
    footer, _ = thrift_bytes.decode(data[-8 - size : -8])
    if "footer" in changes:
        changed = data[:-8] + struct.pack("<I", changes["footer"]) + b"PAR1"
    else:
        for field in footer:
            if field[0] == 3 and "rows" in changes:
                field[2] = changes["rows"]
            if field[0] == 2 and "children" in changes:
                next(f for f in field[2][1][0][2] if f[0] == 5)[2] = changes["children"]
            if field[0] == 4 and "group_rows" in changes:
                next(f for f in field[2][1][0][2] if f[0] == 3)[2] = changes["group_rows"]
            if field[0] == 4 and "groups" in changes:
                field[2][2] = changes["groups"]
        new = thrift_bytes.encode(footer)
        changed = data[: -8 - size] + new + struct.pack("<I", len(new)) + b"PAR1"
    file = open_tabular(io.BytesIO(changed), "parquet")
    for group in file.row_groups:
        file.read(group, [])
        file.read(group, ["x"])
    return len(changed)


def position_deletes_of(rows: int) -> int:
    """Rows of one path and one position, by dictionary and run length."""
    sink = io.BytesIO()
    paths = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["s3://b/" + "x" * 1000]))
    pq.write_table(pa.table({"file_path": paths, "pos": pa.array([1] * rows, pa.int64())}), sink)
    file = open_tabular(io.BytesIO(sink.getvalue()), "parquet", dictionary=("file_path",))
    assert {p: len(found) for p, found in read_position_deletes(file).items()} == {"s3://b/" + "x" * 1000: 1}
    return len(sink.getvalue())


BOMBS: dict[str, Bomb] = {
    "metadata: gzip of 96 MB": (lambda: metadata_json(96 << 20), "table-metadata"),
    "metadata: gzip of twenty million objects": (metadata_of_many_objects, "table-metadata"),
    "metadata: objects in objects in objects": (lambda: len(parse_metadata(b'{"a":' * 15_000).raw), "table-metadata"),
    "puffin: footer of twenty million objects": (lambda: puffin_footer(many_objects()), "puffin-codec"),
    "puffin: footer that says 2^31 bytes": (lambda: puffin_that_says((1 << 31) - 1), "puffin-footer"),
    "puffin: footer that says -1 bytes": (lambda: puffin_that_says(-1), "puffin-footer"),
    "deletion vector: says 2^31 bitmaps": (lambda: vector(struct.pack("<q", (1 << 31) - 1)), "deletion-vector-length"),
    "deletion vector: says 2^63 bitmaps": (lambda: vector(struct.pack("<Q", (1 << 63) - 1)), "deletion-vector-keys"),
    "deletion vector: says 65536 containers": (lambda: vector(struct.pack("<qiII", 1, 0, 12346, 1 << 16)), "roaring"),
    "deletion vector: says 2^32 containers": (
        lambda: vector(struct.pack("<qiII", 1, 0, 12346, (1 << 32) - 1)),
        "roaring",
    ),
    "deletion vector: 2^28 positions below 10": (
        lambda: vector(struct.pack("<qi", 1, 0) + runs(1 << 28), lambda d: decode_blob(d).below(10)),
        "read",
    ),
    "delta vector: native, says 2^32 bitmaps": (
        lambda: len(decode_body(NATIVE_MAGIC + b"\xff" * 4)),
        "deletion-vector-native",
    ),
    "delta vector: native, 2^28 positions": (lambda: delta_native(decode_body), "read"),
    "delta vector: inline, more positions than rows": (lambda: delta_descriptor(1 << 24), "delta-deletion-vector"),
    "delta vector: inline, says 2^62 rows": (lambda: delta_descriptor(1 << 62), "delta-deletion-vector"),
    "delta log: objects in objects": (lambda: delta_commit(b'{"add":' * 14_000), "delta-action"),
    "delta log: a number of 90,000 digits": (
        lambda: delta_commit(b'{"add":{"size":' + b"9" * 90_000 + b"}}"),
        "delta-action",
    ),
    "delta checkpoint: three million actions": (lambda: delta_checkpoint(3_000_000, "a"), "delta-checkpoint"),
    "delta checkpoint: paths of 1 GB": (lambda: delta_checkpoint(1_000, "a" * (1 << 20)), "delta-checkpoint"),
    "parquet: footer that says 2^32 bytes": (lambda: parquet_footer(footer=(1 << 32) - 1), "parquet"),
    "parquet: footer of 2^62 rows": (lambda: parquet_footer(rows=1 << 63), "read"),
    "parquet: row group of 2^62 rows": (lambda: parquet_footer(group_rows=1 << 63), "parquet"),
    "parquet: says 2^31 row groups": (lambda: parquet_footer(groups=(1 << 31) - 1), "parquet"),
    "parquet: says 2^31 columns": (lambda: parquet_footer(children=(1 << 31) - 2), "parquet"),
    "position deletes: half a million rows of one position": (lambda: position_deletes_of(500_000), "read"),
    "avro: a string that says 200 MB": (
        lambda: avro(avro_file(one_field("string"), block(1, long(200 << 20) + b"a"))),
        "avro",
    ),
    "avro: deflate of 140 MB": (
        lambda: avro(avro_file(one_field("bytes"), block(1, deflated(bytes(1 << 20), 140)), codec="deflate")),
        "avro-codec",
    ),
    "avro: zstd of zeroes": (
        lambda: avro(avro_file(one_field("bytes"), block(1, zstd(bytes(200 << 20))), codec="zstandard")),
        "avro-codec",
    ),
    "avro: snappy that says 2^32 bytes": (
        lambda: avro(avro_file(one_field("bytes"), block(1, b"\xff\xff\xff\xff\x0f" + bytes(60)), codec="snappy")),
        "avro-codec",
    ),
    "avro: snappy of zeroes": (
        lambda: avro(
            avro_file(
                one_field("bytes"),
                block(1, bytes(cramjam.snappy.compress_raw(bytes(3 << 20))) + bytes(4)),
                codec="snappy",
            )
        ),
        "avro-codec",
    ),
    "avro: 2^60 records of nothing": (
        lambda: avro(avro_file({"type": "record", "name": "r", "fields": []}, block(1 << 60, b""))),
        "avro-empty",
    ),
    "avro: 2^60 items of nothing": (
        lambda: avro(avro_file(one_field({"type": "array", "items": "null"}), block(1, long(1 << 60) + b"\0"))),
        "avro-empty",
    ),
    "avro: lists in lists in lists": (
        lambda: avro(
            avro_file(
                {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "r"]}]},
                block(1, b"\2" * 100_000),
            )
        ),
        "avro-schema",
    ),
    "avro: a table of 200000 rows": (
        lambda: avro(
            avro_file(one_field("int"), block(200_000, deflated(bytes(200_000))), codec="deflate"), read_avro_table
        ),
        "read",
    ),
    "manifest: two million entries": (manifest_of_many_entries, "avro"),
    "manifest: half a million entries in columns": (lambda: columns_of_many_entries(500_000, 0), "avro"),
    "manifest: twenty million metrics in columns": (lambda: columns_of_many_entries(3_500, 1000), "read"),
    "manifest list: five million manifests": (list_of_many_manifests, "avro"),
    "puffin: footer of 20 MB": (
        lambda: puffin_footer(b'{"blobs":[]' + b" " * (20 << 20) + b"}"),
        "read",
    ),
    "deletion vector: 2^28 positions": (deletion_vector, "read"),
    "orc: 2^31 rows": (lambda: orc_rows(1 << 31), "orc"),
    "orc: 2^63 rows": (lambda: orc_rows(1 << 63), "orc"),
    "orc: three million rows, none of the columns": (lambda: rows_without_columns("orc", 3_000_000), "read"),
    "parquet: three million rows, none of the columns": (lambda: rows_without_columns("parquet", 3_000_000), "read"),
}


def main() -> None:
    status = Path("/proc/self/status")

    for name, (bomb, _) in BOMBS.items():
        size, answer, started = 0, "read", time.perf_counter()
        try:
            size = bomb()
        except DeletekitError as e:
            answer = e.kind
        # Not `ru_maxrss`: Linux lets a new program begin with the peak of the process that started it.
        memory = int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
        print(json.dumps([name, size, answer, time.perf_counter() - started, memory]), flush=True)


if __name__ == "__main__":
    main()
