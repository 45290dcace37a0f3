"""The tables that tests of widgets look at."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyroaring import BitMap

import deletekit as dk
from tests.tables import ITEMS, items, new_catalog

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
ODD = '"><svg onload=alert(3)>\x1b[31m\u202e{lang}'


@contextmanager
def sample_table(folder: Path, version: int = 3) -> Iterator[dk.Table]:
    """Five commits: rows, a deletion vector, equality deletes, a row put back, another vector."""
    folder.mkdir(exist_ok=True, parents=True)
    with new_catalog(folder) as catalog:
        table = dk.create_table(catalog, "test.sample", ITEMS, format_version=version)
        dk.append(table, items(*((i, "abc"[i % 3], i * 1.5) for i in range(8))))
        dk.delete(table, "id in (1, 3)", mode="merge-on-read")
        dk.delete_keys(table, [{"id": 4}, {"id": 6}])
        dk.append(table, items((4, "back", 9.0), (20, "x", 1.0)))
        dk.delete(table, "id = 20", mode="merge-on-read")
        yield table


@contextmanager
def hostile_table(folder: Path) -> Iterator[dk.Table]:
    """Names, values and properties that are markup, and would act if they were taken for it."""
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), (ODD, pa.string())])
    with new_catalog(folder) as catalog:
        table = dk.create_table(catalog, "test.hostile", schema, format_version=3, properties={EVIL: ODD})
        dk.append(table, [{"id": 1, ODD: EVIL}, {"id": 2, ODD: ODD}], commit_properties={EVIL: EVIL})
        dk.delete(table, "id = 2", mode="deletion-vector")
        dk.create_branch(table, EVIL)
        yield table


def z85(data: bytes) -> str:
    """ZeroMQ's RFC 32."""
    words = [int.from_bytes(data[i : i + 4]) for i in range(0, len(data), 4)]
    return "".join(Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def delta_table(folder: Path) -> Path:
    """A Delta table of two data files, a vector on one of them: made by hand, after the protocol's text."""
    if folder.exists():
        return folder
    (folder / "_delta_log").mkdir(parents=True)
    name = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
    vector = bytes.fromhex("d1d33964") + struct.pack("<qi", 1, 0) + BitMap([1, 3]).serialize()
    frame = struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    (folder / f"deletion_vector_{name}.bin").write_bytes(b"\x01" + frame)
    place = {"storageType": "u", "pathOrInlineDv": z85(name.bytes), "offset": 1}
    descriptor = {**place, "sizeInBytes": len(vector), "cardinality": 2}
    stats = json.dumps({"numRecords": 8})
    commits: list[list[dict[str, Any]]] = [
        [{"commitInfo": {}}, *({"add": {"path": f"{n}.parquet", "stats": stats}} for n in "ab")],
        [
            {"remove": {"path": "a.parquet"}},
            {"add": {"path": "a.parquet", "stats": stats, "deletionVector": descriptor}},
        ],
    ]
    for number, actions in enumerate(commits):
        text = "\n".join(json.dumps(action) for action in actions)
        (folder / "_delta_log" / f"{number:020}.json").write_text(text, encoding="utf-8")
    return folder
