"""What a table stores: its metadata, manifests and files, by readers that are not deletekit's.

They go through json, fastavro, pyarrow and pyroaring, so that what deletekit writes is not judged by deletekit.
"""

import gzip
import json
import struct
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

import deletekit as dk
from tests.storage import stored_at


def metadata_json(table: dk.Table) -> dict[str, Any]:
    """The table's current metadata file."""
    data = stored_at(table.metadata_location).read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def snapshots_json(table: dk.Table) -> list[dict[str, Any]]:
    """The snapshots of the metadata file, by sequence number."""
    return sorted(metadata_json(table)["snapshots"], key=lambda s: s.get("sequence-number", 0))


def head_json(table: dk.Table, ref: str = "main") -> dict[str, Any]:
    """The snapshot a branch points to, as the metadata file has it."""
    metadata = metadata_json(table)
    head = metadata["refs"][ref]["snapshot-id"]
    return next(s for s in metadata["snapshots"] if s["snapshot-id"] == head)


def avro(path: str) -> list[dict[str, Any]]:
    """Records of an Avro file."""
    with stored_at(path).open("rb") as source:
        return list(fastavro.reader(source))


def manifest_list(table: dk.Table, ref: str = "main") -> list[dict[str, Any]]:
    """Rows of the head's manifest list."""
    return avro(head_json(table, ref)["manifest-list"])


def entries(table: dk.Table, content: int | None = None, ref: str = "main") -> list[dict[str, Any]]:
    """Entries of the head's manifests; `content` 0 for data manifests, 1 for delete manifests.

    `inherited` is the entry's data sequence number by the spec's rule; `listed` the manifest list's row.
    """
    out = []
    for listed in manifest_list(table, ref):
        if content in (None, listed.get("content", 0)):
            for entry in avro(listed["manifest_path"]):
                own = entry.get("sequence_number")
                out.append(
                    {**entry, "listed": listed, "inherited": listed.get("sequence_number") if own is None else own}
                )
    return out


def live_files(table: dk.Table, content: int, ref: str = "main") -> list[dict[str, Any]]:
    """`data_file` structs of the live entries of data (0) or delete (1) manifests."""
    return [e["data_file"] for e in entries(table, content, ref) if e["status"] != 2]


def parquet(path: str) -> pa.Table:
    """A Parquet file, by its own schema only."""
    return pq.ParquetFile(BytesIO(stored_at(path).read_bytes())).read()


def read_vector(data_file: Mapping[str, Any]) -> set[int]:
    """Positions of a deletion vector, decoded by hand and by pyroaring, with every check that the spec names."""
    offset, size = data_file["content_offset"], data_file["content_size_in_bytes"]
    blob = stored_at(data_file["file_path"]).read_bytes()[offset : offset + size]
    length, body, crc = blob[:4], blob[4:-4], blob[-4:]
    assert struct.unpack(">i", length)[0] == len(body) == size - 8
    assert struct.unpack(">I", crc)[0] == zlib.crc32(body)
    assert body[:4] == bytes.fromhex("d1d33964")
    (bitmaps,) = struct.unpack("<q", body[4:12])
    found: set[int] = set()
    start = 12
    for _ in range(bitmaps):
        (key,) = struct.unpack("<i", body[start : start + 4])
        bitmap = BitMap.deserialize(body[start + 4 :])
        found |= {key << 32 | position for position in bitmap}
        start += 4 + len(bitmap.serialize())
    assert len(found) == data_file["record_count"]
    return found


def vectors(table: dk.Table, ref: str = "main") -> dict[str, set[int]]:
    """Live deletion vectors by data file; at most one for each."""
    found: dict[str, set[int]] = {}
    for delete in live_files(table, 1, ref):
        if delete["file_format"] == "PUFFIN":
            assert delete["referenced_data_file"] not in found
            found[delete["referenced_data_file"]] = read_vector(delete)
    return found


def position_deletes(table: dk.Table, ref: str = "main") -> list[list[tuple[str, int]]]:
    """(file_path, pos) rows of each live position delete file."""
    found = []
    for delete in live_files(table, 1, ref):
        if delete["content"] == 1 and delete["file_format"] != "PUFFIN":
            rows = parquet(delete["file_path"])
            found.append(list(zip(rows["file_path"].to_pylist(), rows["pos"].to_pylist(), strict=True)))
    return found
