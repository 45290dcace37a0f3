"""Breaking real tables: metadata JSON, Avro manifests, Puffin bytes and Parquet files, changed where they lie.

Through json, fastavro and pyarrow only, so that a table can be broken in ways that deletekit refuses to write.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import ANY

import fastavro
import pyarrow.parquet as pq

import deletekit as dk
from deletekit.table.catalog import TableState
from deletekit.table.metadata import TableMetadata
from deletekit.table.table import Table
from tests.storage import stored_at
from tests.stored import head_json
from tests.tables import files_of

Json = dict[str, Any]
Record = dict[str, Any]


def findings(table: dk.Table, *, snapshots: Any = "heads", level: Any = "data") -> tuple[dk.results.Finding, ...]:
    """What verify finds; by default in the head, as deep as it goes."""
    return dk.verify(table, snapshots=snapshots, level=level).findings


def found(report: Sequence[dk.results.Finding], kind: str, severity: str = "error") -> dk.results.Finding:
    """Hold that there is exactly one finding of `kind`, and no error beside it; return it."""
    ours = [f for f in report if f.kind == kind]
    assert len(ours) == 1, [str(f) for f in report]
    assert [str(f) for f in report if f.kind != kind and f.severity == "error"] == []
    assert ours[0].severity == severity
    return ours[0]


Change = Callable[[dk.Table], Any]
"""Breaks a table. Returns the path of the broken file, or ANY."""


class Case(NamedTuple):
    """A damage and its findings.

    Attributes
    ----------
    number: how many findings of the kind there are.
    beside: other kinds of errors that follow from the damage; None: any.
    unseen: a level that does not look so deep, and finds nothing.
    """

    change: Change
    kind: str
    field: Any = ANY
    found: Any = ANY
    expected: Any = ANY
    severity: str = "error"
    number: Any = 1
    beside: frozenset[str] | None = frozenset()
    level: str = "data"
    unseen: str | None = None
    repair: str | None = None

    def check(self, table: dk.Table) -> None:
        """Break a table, hold that verify finds it in the head, and put the files back."""
        with put_back(table):
            path = self.change(table)
            seen = findings(table, level=self.level)
            ours = [f for f in seen if f.kind == self.kind]
            assert ours
            assert self.number == len(ours), list(map(str, seen))
            for f in ours:
                assert (f.severity, f.file, f.field) == (self.severity, path, self.field)
                assert (f.found, f.expected, f.repair) == (self.found, self.expected, self.repair)
                assert f.snapshot_ids == (head_id(table),)
            if self.beside is not None:
                assert {f.kind for f in seen if f.severity == "error"} - {self.kind} <= self.beside
            if self.unseen is not None:
                assert findings(table, level=self.unseen) == ()


@contextmanager
def put_back(table: dk.Table) -> Iterator[None]:
    """Whatever happens to the table's files inside, they are as before afterwards."""
    before = {path: stored_at(path).read_bytes() for path in files_of(table)}
    try:
        yield
    finally:
        for path in files_of(table) - set(before):
            stored_at(path).unlink()
        for path, data in before.items():
            stored_at(path).write_bytes(data)


# --- table metadata ---------------------------------------------------------------------------------------------------


def with_metadata(table: dk.Table, change: Callable[[Json], Any]) -> dk.Table:
    """A handle on the table as a changed document has it; not parsed anew, which would refuse some of them."""
    raw = json.loads(json.dumps(dict(table.metadata.raw)))
    change(raw)
    return Table(table.identifier, TableState(TableMetadata(raw), table.metadata_location, table.io))


def head_id(table: dk.Table) -> int:
    return int(head_json(table)["snapshot-id"])


def head_of(raw: Json) -> Json:
    """The snapshot of a document that main points to."""
    return next(s for s in raw["snapshots"] if s["snapshot-id"] == raw["refs"]["main"]["snapshot-id"])


# --- Avro -------------------------------------------------------------------------------------------------------------


def edit_avro(path: str, change: Callable[[list[Record]], Any], metadata: dict[str, str] | None = None) -> None:
    """Change the records of an Avro file in place, by changing the list or by returning another; and its metadata."""
    with stored_at(path).open("rb") as source:
        reader = fastavro.reader(source)
        schema, stored = reader.writer_schema, dict(reader.metadata)
        records = list(reader)
    assert schema is not None
    changed = change(records)
    records = changed if isinstance(changed, list) else records
    stored |= metadata or {}
    codec = stored.pop("avro.codec", "null")
    stored.pop("avro.schema", None)
    with stored_at(path).open("wb") as target:
        fastavro.writer(target, schema, records, codec=codec, metadata=stored)


def edit_list(table: dk.Table, change: Callable[[list[Record]], Any], metadata: dict[str, str] | None = None) -> str:
    """Change the head's manifest list; returns its path."""
    path = str(head_json(table)["manifest-list"])
    edit_avro(path, change, metadata)
    return path


def edit_manifest(
    table: dk.Table,
    change: Callable[[list[Record]], Any],
    content: int = 0,
    at: int = 0,
    metadata: dict[str, str] | None = None,
) -> str:
    """Change the entries of one manifest of the head, the length in its row too; returns its path."""
    rows: list[Record] = []
    edit_list(table, rows.extend)
    path = str([r for r in rows if r["content"] == content][at]["manifest_path"])
    edit_avro(path, change, metadata)
    size = stored_at(path).stat().st_size

    def lengths(rows: list[Record]) -> None:
        for row in rows:
            if row["manifest_path"] == path:
                row["manifest_length"] = size

    edit_list(table, lengths)
    return path


def edit_file(table: dk.Table, content: int = 0, **fields: Any) -> str:
    """Set fields of the first live content file of the head (0 data, 1 deletes); returns its path."""
    paths = []

    def change(entries: list[Record]) -> None:
        first = next(e for e in entries if e["status"] != 2)
        first["data_file"] |= fields
        paths.append(first["data_file"]["file_path"])

    edit_manifest(table, change, content)
    return str(paths[0])


# --- files ------------------------------------------------------------------------------------------------------------


def edit_bytes(path: str, change: Callable[[bytearray], Any]) -> None:
    """Change a file's bytes in place."""
    data = bytearray(stored_at(path).read_bytes())
    stored_at(path).write_bytes(change(data) or data)


def edit_parquet(path: str, change: Callable[[Any], Any], metadata: dict[bytes, bytes] | None = None) -> int:
    """Change a Parquet file's table in place, field ids and footer metadata kept; returns its new size."""
    before = pq.ParquetFile(path).read()
    stored = pq.read_metadata(path).metadata or {}
    keep = {k: v for k, v in stored.items() if k != b"ARROW:schema"}
    table = change(before)
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({**keep, **(metadata or {})})
    return stored_at(path).stat().st_size


def resized(table: dk.Table, content: int, size: int) -> None:
    """Let the first live content file's entry say the size that the file has now, and nothing of row groups."""
    edit_file(table, content, file_size_in_bytes=size, split_offsets=None)
