"""Damage of files that sinks keep is a warning: no reader needs them, and an index is made again."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import deletekit as dk
from deletekit.table.sinks.batches import FILE_LOGS, tagged_marker
from deletekit.table.sinks.files import root_names, sink_path
from deletekit.table.sinks.index_files import read_root
from tests.storage import stored_at
from tests.tables import make

PEOPLE = pa.schema([("id", pa.int64()), ("name", pa.string()), ("score", pa.float64())])


def write(table: dk.Table, key: int, number: int) -> Any:
    with dk.stream.sink(table, "s", on=["id"], change_type=None) as sink:
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


def test_verify_names_each_log_of_files_that_is_damaged_missing_or_foreign(catalog: dk.Catalog, tmp_path: Path) -> None:
    tables = [make(catalog, schema=PEOPLE, format_version=3) for _ in range(2)]
    for table in tables:
        for sink_id in ("a", "b"):
            with dk.stream.sink(table, sink_id, on=["id"], change_type=None) as sink:
                for number in range(3):
                    file = tmp_path / f"{number}.jsonl"
                    file.write_text(f'{{"id": {number}, "name": "x", "score": 0.0}}\n')
                    list(sink.run_files([file]))
    table = tables[0].refresh()
    assert dk.verify(table).findings == ()
    newest = {sink_id: tagged_marker(table.metadata, sink_id) for sink_id in ("a", "b")}
    (log, *_), (others, *_) = (m.logs for m in newest.values() if m is not None)
    theirs = tagged_marker(tables[1].refresh().metadata, "a")
    assert theirs is not None
    path = stored_at(sink_path(table.metadata, log))
    whole = path.read_bytes()
    foreign = [sink_path(table.metadata, others), sink_path(tables[1].metadata, theirs.logs[0])]
    wrong = [whole[:-3] + b"9" + whole[-2:], b"", *(stored_at(p).read_bytes() for p in foreign), None]
    named = [s.snapshot_id for s in table.metadata.snapshots.values() if log in s.summary.get(FILE_LOGS, "").split(",")]
    for data in wrong:
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        report = dk.verify(table, level="metadata")
        (found,) = report.findings
        assert (found.kind, Path(found.file or "").name, report.ok) == ("file-log", log, True)
        assert sorted(found.snapshot_ids) == sorted(named)
