"""Small files that claim to be large ones, and what deletekit answers.

Run as a program it reads them one after the other and prints for each its name, its size, the answer, the seconds it
took, and the most memory that the process has had by then, in KiB.
"""

from __future__ import annotations

import io
import json
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyroaring import BitMap

from deletekit.errors import DeletekitError
from deletekit.formats.avro import read_container
from deletekit.formats.avro_table import read_avro_table
from deletekit.formats.deletion_vector import MAGIC, decode_blob
from deletekit.formats.lazy_file import MetricsCache
from deletekit.formats.manifest import read_manifest
from deletekit.formats.manifest_decoder import read_manifest_columns
from deletekit.formats.manifest_list import ManifestFile, read_manifest_list
from deletekit.formats.manifest_schema import manifest_entry_schema
from deletekit.formats.puffin import BlobMetadata, blob_payload, read_puffin
from deletekit.formats.tabular import open_tabular
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
    row = ManifestFile(manifest_path="m", manifest_length=len(data), partition_spec_id=0, added_snapshot_id=1)
    read_manifest_columns(data, row, MetricsCache())
    return len(data)


def list_of_many_manifests() -> int:
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [{"name": "manifest_path", "type": "string"}, {"name": "manifest_length", "type": "long"}],
    }
    return avro(
        avro_file(schema, block(5_000_000, deflated(b"\2a\0" * 5_000_000)), codec="deflate"), read_manifest_list
    )


def puffin_footer() -> int:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(b'{"blobs":[]' + b" " * (20 << 20) + b"}")
    payload = sink.getvalue().to_pybytes()
    data = b"PFA1PFA1" + payload + struct.pack("<iI", len(payload), 1) + b"PFA1"
    read_puffin(data)
    return len(data)


def puffin_blob() -> int:
    stored = zstd(bytes(300 << 20))
    metadata = BlobMetadata(
        type="t", fields=(), snapshot_id=1, sequence_number=1, offset=4, length=len(stored), compression_codec="zstd"
    )
    blob_payload(stored, metadata)
    return len(stored)


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


BOMBS: dict[str, Bomb] = {
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
    "manifest: half a million entries in columns": (lambda: columns_of_many_entries(500_000, 0), "read"),
    "manifest: twenty million metrics in columns": (lambda: columns_of_many_entries(3_500, 1000), "read"),
    "manifest list: five million manifests": (list_of_many_manifests, "avro"),
    "puffin: footer of 20 MB": (puffin_footer, "read"),
    "puffin: blob of 300 MB": (puffin_blob, "puffin-codec"),
    "deletion vector: 2^28 positions": (deletion_vector, "read"),
    "orc: 2^31 rows": (lambda: orc_rows(1 << 31), "orc"),
    "orc: 2^63 rows": (lambda: orc_rows(1 << 63), "orc"),
    "orc: three million rows, none of the columns": (lambda: rows_without_columns("orc", 3_000_000), "read"),
    "parquet: three million rows, none of the columns": (lambda: rows_without_columns("parquet", 3_000_000), "read"),
}


def main() -> None:
    import resource  # noqa: PLC0415  # not there on Windows

    for name, (bomb, _) in BOMBS.items():
        size, answer, started = 0, "read", time.perf_counter()
        try:
            size = bomb()
        except DeletekitError as e:
            answer = e.kind
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps([name, size, answer, time.perf_counter() - started, memory]), flush=True)


if __name__ == "__main__":
    main()
