"""Files of messages: JSON lines with and without keys, plain and gzip, each file a batch that is applied once."""

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from tests.stream.replay import check
from tests.stream.sources.test_formats import SOURCES, changes
from tests.stream.sources.writers import COLUMNS, Source, random_row
from tests.tables import make, refused


def line(message: Message) -> bytes:
    """A message as `kafka-console-consumer --property print.key=true` prints it."""
    return (message.key or b"null") + b"\t" + (message.value or b"null") + b"\n"


@pytest.mark.parametrize("name", [n for n in SOURCES if not n.startswith("avro")])
def test_files_are_applied_once(catalog: dk.Catalog, tmp_path: Path, name: str) -> None:
    form, how, options = SOURCES[name]
    source, table = Source(**how), make(catalog, schema=COLUMNS, format_version=3)
    changes(source, random.Random(name), 40)
    middle = len(source.messages) // 2
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.jsonl").write_bytes(b"".join(map(line, source.messages[:middle])))
    (folder / "2.jsonl.gz").write_bytes(gzip.compress(b"".join(map(line, source.messages[middle:]))))
    (folder / "3.json").write_bytes(b"\n \n")
    for status in ("committed", "skipped"):
        with dk.stream.sink(table, "files", on="id") as sink:
            done = list(sink.run_files([folder], format=decoder(form, **options)))
        assert [p.status for p in done] == [status, status, "empty" if status == "committed" else "skipped"]
    check(table, source.rows)


def test_values_without_keys(catalog: dk.Catalog, tmp_path: Path) -> None:
    source, table = Source("json-schema"), make(catalog, schema=COLUMNS)
    for key in range(4):
        source.put(random_row(random.Random(key), key))
    source.delete(2)
    file = tmp_path / "a.json"
    file.write_bytes(b"\n".join(m.value or b"null" for m in source.messages))
    with dk.stream.sink(table, "files", on="id") as sink:
        with refused(table, dk.InvalidInputError, "message-key"):  # of which key is the tombstone?
            list(sink.run_files([file], format="debezium-json"))
        form = dk.stream.decoder("debezium-json", tombstones="ignore")
        assert [p.status for p in sink.run_files([file], format=form)] == ["committed"]
    check(table, source.rows)


def test_what_cannot_be_read_is_refused(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, schema=COLUMNS)
    files = {"a.parquet": b"", "b.jsonl.gz": b"not gzip", "c.jsonl": b'{"ts_ms": 1}\n{"op": "c"}\n', "d.jsonl": b""}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)

    def run(name: str, form: Any, **options: Any) -> None:
        with dk.stream.sink(table, "files", on="id", **options) as sink:
            list(sink.run_files([tmp_path / name], format=form))

    with refused(table, dk.InvalidInputError, "file-format"):
        run("a.parquet", "debezium-json")
    with refused(table, dk.InvalidInputError, "rows"):
        run("b.jsonl.gz", "debezium-json")
    with pytest.raises(dk.InvalidInputError, match=r"file .*c\.jsonl, line 2"):
        run("c.jsonl", "debezium-json")
    with refused(table, dk.InvalidInputError, "message-format"):
        run("d.jsonl", "debezium-avro")
    with refused(table, dk.InvalidInputError, "message-format"):
        run("d.jsonl", "debezium")
    for change_type in (None, "op"):  # None: every row is an upsert, and deletes would be lost
        with refused(table, dk.InvalidInputError, "change-type"):
            run("d.jsonl", "debezium-json", change_type=change_type)
