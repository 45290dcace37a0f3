"""Delta tables made by hand: a log of JSON lines, Parquet files by pyarrow, vectors by pyroaring and struct.

What no public writer writes (inline and native vectors, odd logs) and what nobody should (damage) comes from here.
Nothing of deletekit is used.
"""

import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

Json = dict[str, Any]
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
LONGS = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
FEATURES = ("deletionVectors",)


def z85(data: bytes) -> str:
    """The text of bytes, padded to a multiple of four."""
    data += bytes(-len(data) % 4)
    out = ""
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4], "big")
        out += "".join(_Z85[number // 85**p % 85] for p in (4, 3, 2, 1, 0))
    return out


def body_of(positions: Iterable[int]) -> bytes:
    """Magic and portable bitmap."""
    by_key: dict[int, list[int]] = {}
    for position in sorted(positions):
        by_key.setdefault(position >> 32, []).append(position & 0xFFFFFFFF)
    parts = [struct.pack("<I", key) + BitMap(lows).serialize() for key, lows in sorted(by_key.items())]
    return struct.pack("<I", 1681511377) + struct.pack("<Q", len(parts)) + b"".join(parts)


def native_body(positions: Iterable[int], order: str = "<") -> bytes:
    """Magic and bitmap in Spark's older form."""
    data = BitMap(positions).serialize()
    return struct.pack(f"{order}III", 1681511376, 1, len(data)) + data


def frame(body: bytes) -> bytes:
    """As it is in a file."""
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


@dataclass
class HandMade:
    """A table at `path`, of one column `id` unless `schema` says otherwise; `version` is the next one to be written."""

    path: Path
    schema: str = LONGS
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = FEATURES
    version: int = 0

    def __post_init__(self) -> None:
        (self.path / "_delta_log").mkdir(parents=True)

    def protocol(self) -> Json:
        names = list(self.features)
        raw = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": names, "writerFeatures": names}
        return {"protocol": raw}

    def metadata(self, table_id: str = "handmade") -> Json:
        raw = {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": self.schema,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
        }
        return {"metaData": raw}

    def commit(self, *actions: Json) -> int:
        """Write the next version; the first one gets protocol and metadata. Gives its number."""
        first = [self.protocol(), self.metadata()] if self.version == 0 else []
        lines = [json.dumps(action) for action in (*first, *actions)]
        self.log(self.version).write_text("\n".join(lines) + "\n")
        self.version += 1
        return self.version - 1

    def log(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020d}.json"

    def data(self, rows: pa.Table | range, name: str | None = None, **extra: Any) -> Json:
        """Write a data file; its add action."""
        table = pa.table({"id": pa.array(rows, pa.int64())}) if isinstance(rows, range) else rows
        name = name or f"part-{uuid.uuid4()}.parquet"
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, self.path / name)
        size = (self.path / name).stat().st_size
        stats = {"numRecords": table.num_rows}
        if "id" in table.column_names and table.num_rows:
            ids = table["id"].to_pylist()
            stats |= {"minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}, "nullCount": {"id": 0}}
        add = {"path": quote(name), "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
        return {"add": {**add, "stats": json.dumps(stats), **extra}}

    def vector_file(self, *bodies: bytes) -> list[Json]:
        """Write a file of vectors; a descriptor for each."""
        name = uuid.uuid4()
        parts, out = b"\x01", []
        for body in bodies:
            raw = {
                "storageType": "u",
                "pathOrInlineDv": z85(name.bytes),
                "offset": len(parts),
                "sizeInBytes": len(body),
            }
            out.append(raw)
            parts += frame(body)
        (self.path / f"deletion_vector_{name}.bin").write_bytes(parts)
        return out

    def vector(self, positions: Iterable[int]) -> Json:
        """The descriptor of a new file with one vector."""
        positions = list(positions)
        return {**self.vector_file(body_of(positions))[0], "cardinality": len(positions)}

    def bin_of(self, vector: Json) -> Path:
        """The file of a `u` descriptor."""
        text, out = vector["pathOrInlineDv"], b""
        for at in range(0, 20, 5):
            number = 0
            for character in text[at : at + 5]:
                number = number * 85 + _Z85.index(character)
            out += number.to_bytes(4, "big")
        return self.path / f"deletion_vector_{uuid.UUID(bytes=out)}.bin"


def inline(body: bytes, cardinality: int) -> Json:
    """The descriptor of an inline vector."""
    return {"storageType": "i", "pathOrInlineDv": z85(body), "sizeInBytes": len(body), "cardinality": cardinality}


def with_vector(add: Json, vector: Json | None) -> Json:
    """The add action with a vector, or without."""
    raw = {k: v for k, v in add["add"].items() if k != "deletionVector"}
    return {"add": raw if vector is None else {**raw, "deletionVector": vector}}


def remove(add: Json) -> Json:
    """The remove action of an add."""
    raw = add["add"]
    out = {"path": raw["path"], "deletionTimestamp": 1, "dataChange": True}
    return {"remove": out | ({"deletionVector": raw["deletionVector"]} if "deletionVector" in raw else {})}
