"""Damage of a key index is a warning: no reader needs it, and a sink makes it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import deletekit as dk
from deletekit.table.index_files import read_root
from deletekit.table.sink_files import root_names, sink_path
from tests.storage import stored_at
from tests.tables import make

PEOPLE = pa.schema([("id", pa.int64()), ("name", pa.string()), ("score", pa.float64())])


def write(table: dk.Table, key: int, number: int) -> Any:
    with dk.stream.sink(table, "s", equality_fields=["id"], change_type=None) as sink:
        return sink.write([{"id": key, "name": "y", "score": 1.0}], number)


def index_of(table: dk.Table) -> list[str]:
    """The root, and the runs, the longest first."""
    metadata = table.refresh().metadata
    (name,) = root_names(metadata.snapshots.values())
    path = sink_path(metadata, name)
    return [path, *(sink_path(metadata, run.name) for run in read_root(table.io, path).runs)]


def test_verify_names_a_damaged_index_and_the_table_is_ok(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": i, "name": "x", "score": 0.0} for i in range(6)], schema=PEOPLE, format_version=3)
    write(table, 1, 0)
    assert dk.verify(table, level="data").findings == ()
    root, run = (stored_at(path) for path in index_of(table)[:2])
    data = run.read_bytes()
    run.write_bytes(data[:9] + bytes([data[9] ^ 1]) + data[10:])
    (found,) = dk.verify(table, level="data").findings
    assert (found.kind, found.severity, Path(found.file or "").name) == ("key-index", "warning", run.name)
    assert dk.verify(table).findings == (), "blocks are read at level data"
    root.unlink()
    report = dk.verify(table, level="metadata")
    assert ([f.kind for f in report.findings], report.ok) == (["key-index"], True)
    assert write(table, 2, 1).hits == 1
