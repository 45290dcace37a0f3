"""What tests of verbs share: small tables, the files they consist of, and readers that are not deletekit's.

The readers go through json, fastavro, pyarrow and pyroaring, so that what deletekit writes is not judged by deletekit.
"""

from __future__ import annotations

import gzip
import json
import math
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap
from sqlalchemy import event
from sqlalchemy.engine import Engine

import deletekit as dk
from deletekit.commit.swap import commit_metadata
from tests.storage import ON_S3, catalog_on, files_below, server, stored_at

Row = dict[str, Any]

ITEMS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("category", pa.string()),
        pa.field("value", pa.float64()),
    ]
)
MODES = {
    1: ("copy-on-write",),
    2: ("copy-on-write", "position-delete", "equality-delete"),
    3: ("copy-on-write", "deletion-vector", "equality-delete"),
}
"""The modes that each format version takes."""
VERSION_AND_MODE = [(version, mode) for version, modes in MODES.items() for mode in modes]

_numbers = count()


MAINTENANCE: list[Callable[[dk.Table], Any]] = [
    lambda t: dk.compact(t, rewrite_all=True),
    dk.convert_equality_deletes,
    dk.rewrite_position_deletes,
    dk.rewrite_manifests,
    dk.remove_dangling_deletes,
]
"""What changes files and no row. A v1 table takes the first only."""


@event.listens_for(Engine, "connect")
def _no_waits_for_the_disk(connection: object, _record: object) -> None:
    """Let SQLite's commits outlive a killed process as always, but no power cut: tests do not wait for the disk."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


@contextmanager
def new_catalog(directory: Path) -> Iterator[dk.Catalog]:
    """Open an embedded catalog, or one on S3; its SQLite connections are closed at the end, or Python warns."""
    if ON_S3:
        with catalog_on(directory, server()) as catalog:
            yield catalog
        return
    catalog = dk.local_catalog(directory)
    try:
        yield catalog
    finally:
        catalog.pyiceberg.engine.dispose()  # type: ignore[attr-defined]


def make(catalog: dk.Catalog, *files: Sequence[Row] | pa.Table, schema: Any = ITEMS, **options: Any) -> dk.Table:
    """Create a table with one append for each of `files`."""
    schema = schema.schema if isinstance(schema, pa.Table) else schema
    table = dk.create_table(catalog, f"test.t{next(_numbers)}", schema, **options)
    for rows in files:
        dk.append(table, rows)
    return table


def set_by_another_writer(table: dk.Table, properties: Mapping[str, str]) -> None:
    """Set properties as a writer does that looks at no value."""
    commit_metadata(table, lambda _: [{"action": "set-properties", "updates": dict(properties)}])


def items(*rows: tuple[Any, ...]) -> list[Row]:
    """Rows of `ITEMS`."""
    return [dict(zip(ITEMS.names, row, strict=True)) for row in rows]


def order(row: Row) -> str:
    """Sort rows of any types, None included."""
    return repr(sorted(row.items()))


def live(table: dk.Table, *args: Any, **options: Any) -> list[Row]:
    """Rows of a scan, sorted."""
    return sorted(dk.scan(table, *args, **options).to_arrow().to_pylist(), key=order)


def ids(table: dk.Table, *args: Any, **options: Any) -> list[int]:
    """Column `id` of a scan, sorted."""
    return sorted(dk.scan(table, *args, columns=["id"], **options).to_arrow().column("id").to_pylist())


def expected(rows: Sequence[Row]) -> list[Row]:
    """Rows in the order of `live`."""
    return sorted(rows, key=order)


# --- what is on disk --------------------------------------------------------------------------------------------------


def files_of(table: dk.Table) -> set[str]:
    """Every file below the table's location."""
    return files_below(table.location)


@contextmanager
def unchanged(table: dk.Table) -> Iterator[None]:
    """Hold that the table is at the same metadata file and consists of the same files afterwards."""
    location, files = table.refresh().metadata_location, files_of(table)
    yield
    assert table.refresh().metadata_location == location
    assert files_of(table) == files


@dataclass
class Refusal:
    """What `refused` caught, once its block is over."""

    error: dk.DeletekitError = field(init=False)


@contextmanager
def refused(table: dk.Table, error: type[dk.DeletekitError], kind: str, **attributes: Any) -> Iterator[Refusal]:
    """Hold that the block raises exactly this class and kind, with these attributes, and leaves the table as it was."""
    refusal = Refusal()
    with unchanged(table), pytest.raises(error) as caught:
        yield refusal
    refusal.error = caught.value
    assert type(caught.value) is error
    assert caught.value.kind == kind, caught.value
    for name, value in attributes.items():
        assert getattr(caught.value, name) == value, f"{name} of: {caught.value}"


# --- read with others' libraries --------------------------------------------------------------------------------------


def lose_answers(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each commit land, and its answer be lost."""
    commit = type(catalog).commit

    def without_answer(*arguments: Any) -> None:
        commit(*arguments)
        raise dk.CommitStateUnknownError("no answer")

    monkeypatch.setattr(type(catalog), "commit", without_answer)


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


def same(a: Any, b: Any) -> bool:
    """Equality with NaN equal to NaN, and 0.0 unequal to -0.0."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)
