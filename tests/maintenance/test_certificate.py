"""The certificate of an erasure: values planted in each kind of place, each alone, are found there, and then gone.

What is planted is written by pyarrow, fastavro, gzip and json. The certificate is verified by its own script, which
runs without deletekit.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

import deletekit as dk
from deletekit.cli import main
from deletekit.formats.bloom_filter import may_hold
from deletekit.formats.puffin import Blob, puffin_parts
from tests.storage import ON_S3, stored_at
from tests.tables import expected, files_of, items, live, make, raises, refused, unchanged

NAME = "Erika Mustermann, Heidestr. 17"
WHERE = f"category = '{NAME}'"
KEY = Ed25519PrivateKey.generate()
SCRIPT = Path(dk.__file__).parent / "maintenance" / "verify_certificate.py"
ROWS = items((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0))
Json = dict[str, Any]


class Proof:
    """An erasure and its certificate: in `before` and `after` are file name -> places of what was found."""

    def __init__(self, folder: Path, table: Any, where: Any, **options: Any) -> None:
        self.file = folder / f"{time.time_ns()}.json"
        self.done = dk.erase(table, where, certificate=self.file, key=KEY, **options)
        self.bytes = self.file.read_bytes()
        self.document: Json = json.loads(self.bytes)["certificate"]
        self.before, self.after = (self.of(when, "found") for when in ("before", "after"))
        assert self.document["erased"] == self.done.is_erased

    def of(self, when: str, what: str) -> dict[str, Any]:
        return {path.rpartition("/")[2]: places for path, places in self.document[when][what].items()}


def public_pem() -> bytes:
    kind, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return KEY.public_key().public_bytes(kind, form)


def verifier() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_certificate", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def put(table: dk.Table, name: str, data: bytes | pa.Table) -> str:
    """Write a file into the table's folder that nothing leads to; return its name."""
    if isinstance(data, pa.Table):
        sink = pa.BufferOutputStream()
        pq.write_table(data, sink)
        data = sink.getvalue().to_pybytes()
    with table.io.create(f"{table.location}/{name}") as file:
        file.write(data)
    return name.rpartition("/")[2]


def with_ids(rows: pa.Table, *ids: int) -> pa.Table:
    fields = [f.with_metadata({"PARQUET:field_id": str(i)}) for f, i in zip(rows.schema, ids, strict=True)]
    return rows.cast(pa.schema(fields))


# --- rows -------------------------------------------------------------------------------------------------------------

LONG = "-12345678901234567890123456789012345.5"
"""A decimal of more digits than Python's own context keeps."""

VALUES: list[tuple[str, pa.DataType, Any, Any, str]] = [
    ("text", pa.string(), NAME, "a", f"'{NAME}'"),
    ("quoted", pa.string(), "Müller/ä=b+c", "a", "'Müller/ä=b+c'"),
    ("int", pa.int32(), 3, 13, "3"),
    ("long", pa.int64(), 2**40, 1, str(2**40)),
    ("decimal", pa.decimal128(9, 2), Decimal("12.50"), Decimal("112.50"), "12.50"),
    ("wide", pa.decimal128(38, 3), Decimal(LONG), Decimal("1.5"), LONG),
    ("date", pa.date32(), date(1964, 8, 12), date(1964, 8, 13), "'1964-08-12'"),
    (
        "time",
        pa.timestamp("us", "UTC"),
        datetime(1964, 8, 12, 1, tzinfo=UTC),
        datetime(1964, 8, 12, tzinfo=UTC),
        "'1964-08-12T01:00:00+00:00'",
    ),
    ("uuid", pa.uuid(), UUID(int=2**127 + 5), UUID(int=7), f"'{UUID(int=2**127 + 5)}'"),
    ("binary", pa.binary(), b"\x00\xffErika\x01", b"\x00", "X'00FF4572696B6101'"),
    ("double", pa.float64(), 1.25, 11.25, "1.25"),
    ("zero", pa.float64(), 0.0, 11.25, "0.0"),  # whose lower bound is -0.0
]


@pytest.mark.parametrize(("kind", "type_", "value", "other", "text"), VALUES, ids=[v[0] for v in VALUES])
@pytest.mark.parametrize("partitioned", [False, True])
def test_types(
    catalog: dk.Catalog,
    tmp_path: Path,
    kind: str,
    type_: pa.DataType,
    value: Any,
    other: Any,
    text: str,
    partitioned: bool,
) -> None:
    """A value of each type: in rows, bounds and partitions before; nowhere after, though others look like it."""
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("v", type_)])
    codec = {"int": "gzip", "text": "zstd"}.get(kind, "snappy")
    options: Json = {"partition_by": ["v"]} if partitioned and kind not in ("double", "zero") else {}
    table = make(
        catalog, schema=schema, format_version=3, properties={"write.parquet.compression-codec": codec}, **options
    )
    column = (
        pa.array([value, other], type_)
        if kind != "uuid"
        else pa.array([value.bytes, other.bytes], pa.binary(16)).cast(type_)
    )
    dk.append(table, pa.table({"id": pa.array([3, 4], pa.int32()), "v": column}))
    proof = Proof(tmp_path, table, f"v = {text}")
    places = {place for found in proof.before.values() for place in found}
    wanted = "partition" if options else {"uuid": "rows", "text": "truncated bounds"}.get(kind, "bounds")
    assert {"rows", wanted} <= places
    assert proof.done.is_erased, (proof.after, proof.of("after", "not-searched"))
    assert proof.after == {}
    assert dk.scan(table).count() == 1
    assert text.strip("'").encode() not in proof.bytes or kind in ("int", "double", "zero", "decimal")
    assert proof.done.salt is not None
    assert proof.done.salt.encode() not in proof.bytes
    again = Proof(tmp_path, table, f"v = {text}")
    assert (again.before, again.done.is_erased) == ({}, True)


@pytest.mark.parametrize("mode", ["deletion-vector", "position-delete", "equality-delete", "copy-on-write"])
def test_hidden_rows_keys_stored_rows_and_old_snapshots(catalog: dk.Catalog, tmp_path: Path, mode: str) -> None:
    table = make(
        catalog, ROWS, items((7, NAME, 1.0), (8, "d", 1.0)), format_version=3 if mode == "deletion-vector" else 2
    )
    options: Json = {"with_rows": True} if mode == "position-delete" else {}
    if mode == "equality-delete":
        dk.delete_keys(table, [{"category": NAME}], on=["category"])
    else:
        dk.delete(table, WHERE, mode=mode, **options)
    proof = Proof(tmp_path, table, WHERE)
    rows = [name for name, places in proof.before.items() if "rows" in places]
    assert len(rows) == 1 + (mode in ("position-delete", "equality-delete"))
    assert (proof.done.is_erased, proof.after) == (True, {})
    assert live(table) == expected([*ROWS, *items((8, "d", 1.0))])


def avro_file(codec: str) -> bytes:
    field = {"name": "category", "type": ["null", "string"], "field-id": 2}
    out = pa.BufferOutputStream()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": [field]}, [{"category": NAME}], codec=codec)
    return bytes(memoryview(out.getvalue()))


def orc_file() -> bytes:
    out = pa.BufferOutputStream()
    po.write_table(pa.table({"category": [NAME]}), out, compression="zlib")
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


def dictionary_only() -> pa.Table:
    """A text that the dictionary has, and no row."""
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["a", NAME]))
    return with_ids(pa.table({"category": column}), 2)


def puffin(kind: str, data: bytes, codec: str | None = None, **properties: str) -> bytes:
    parts, _ = puffin_parts([Blob(type=kind, data=data, properties=properties)])
    whole = b"".join(parts)
    if codec is None:
        return whole
    footer = json.loads(whole[len(data) + 8 : -12])
    footer["blobs"][0]["compression-codec"] = codec
    payload = json.dumps(footer).encode()
    return b"PFA1" + data + b"PFA1" + payload + len(payload).to_bytes(4, "little") + bytes(4) + b"PFA1"


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed


ORPHANS: dict[str, tuple[Callable[[], bytes | pa.Table], str]] = {
    "data/plain.parquet": (lambda: with_ids(pa.table({"c": ["b", NAME]}), 2), "rows"),
    "data/no_ids.parquet": (lambda: pa.table({"category": [NAME]}), "rows"),
    "data/dictionary.parquet": (dictionary_only, "dictionary"),
    "data/deflate.avro": (lambda: avro_file("deflate"), "rows"),
    "data/snappy.avro": (lambda: avro_file("snappy"), "rows"),
    "data/zlib.orc": (orc_file, "rows"),
    "data/metadata.parquet": (
        lambda: with_ids(pa.table({"c": ["b"]}), 2).replace_schema_metadata({"of": NAME}),
        "text of of",
    ),
    "data/deletes.parquet": (
        lambda: with_ids(
            pa.table({"f": ["s3://b/category=Erika+Mustermann%2C+Heidestr.+17/x"], "p": [1]}), 2147483546, 2147483545
        ),
        "text of f",
    ),
    "metadata/blob.puffin": (lambda: puffin("any", zstd(NAME.encode()), "zstd"), "blob any"),
    "metadata/property.puffin": (lambda: puffin("any", b"", who=NAME), "text of who"),
    "metadata/00009-old.gz.metadata.json": (
        lambda: gzip.compress(json.dumps({"x": [{"y": NAME}]}).encode()),
        "text of y",
    ),
    "metadata/escaped.json": (lambda: json.dumps({NAME: 1}).encode(), "text"),
    "metadata/_deletekit/0123.log": (
        lambda: b"deletekit applied files\n" + json.dumps([f"/in/{NAME}.csv"]).encode(),
        "text",
    ),
    "metadata/note.txt": (f"asked for by {NAME}.".encode, "text"),
    f"data/category={NAME}.crc": (lambda: b"crc\0\0\0\0\0", "its path"),
    "data/unknown.bin": (lambda: b"\xff\xfe" + NAME.encode() + b"\xff", "bytes"),
}


@pytest.mark.parametrize("path", ORPHANS)
def test_files_that_nothing_leads_to(catalog: dk.Catalog, tmp_path: Path, path: str) -> None:
    """They stay, for erasing removes no orphans, and the certificate says so; once they are gone, it is clean."""
    table = make(catalog, ROWS, format_version=2)
    make_file, place = ORPHANS[path]
    name = put(table, path, make_file())
    shown = name.replace(NAME, "<value 1>")
    proof = Proof(tmp_path, table, WHERE)
    assert proof.before == proof.after
    assert proof.after.keys() == {shown}
    assert place in proof.after[shown]
    assert not proof.done.is_erased
    assert [path.rpartition("/")[2] for path in proof.done.found] == [name]
    assert NAME.encode() not in proof.bytes
    stored_at(f"{table.location}/{path}").unlink()
    assert Proof(tmp_path, table, WHERE).done.is_erased


FORMS = {
    "java.txt": b"see /category=" + quote_plus(NAME, safe="*").encode(),  # Java leaves the star, and quotes the tilde
    "lines.jsonl": b'{"a": 1}\n{"a": "' + json.dumps(NAME)[1:-1].encode().replace(b"/", b"\\/") + b'"}\n',
    "after_a_bucket.txt": b"category_bucket=3 " + NAME.encode(),
    "crc.txt": b"crc\0 " + NAME.encode(),
    "utf16.txt": NAME.encode("utf-16-le"),
    "twice.gz": gzip.compress(b"a") + gzip.compress(NAME.encode()),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_a_text(catalog: dk.Catalog, tmp_path: Path, name: str) -> None:
    """Each is found, or says that it was not searched; the hash of a file that has a value could be guessed."""
    table = make(catalog, ROWS, format_version=2, partition_by=["bucket(4, category)"])
    put(table, f"notes/{name}", FORMS[name])
    proof = Proof(tmp_path, table, WHERE)
    assert not proof.done.is_erased
    assert {*proof.after, *proof.of("after", "not-searched")} == {name}
    (told,) = (file for file in proof.document["after"]["searched"] if file["path"].endswith(name))
    assert ("sha256" in told) == (name not in proof.after)


@pytest.mark.parametrize(
    "form", ["2020-01-02T03:04:05.12Z", "2020-01-02 03:04:05.120", "2020-01-02T03:04:05.120000+00:00"]
)
def test_forms_of_a_time(catalog: dk.Catalog, tmp_path: Path, form: str) -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, 120_000, tzinfo=UTC)
    rows = pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))})
    table = make(catalog, rows, schema=rows, format_version=2)
    put(table, "notes/log.txt", f"seen at {form}, once".encode())
    assert Proof(tmp_path, table, "at = '2020-01-02T03:04:05.12+00:00'").after == {"log.txt": ["text"]}


def test_what_cannot_be_searched_is_not_erased(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, ROWS, format_version=2)
    names = [
        put(table, "data/broken.parquet", b"PAR1 and no more"),
        put(table, "data/secret.zip", b"PK\x03\x04\xff\xfe"),
    ]
    proof = Proof(tmp_path, table, WHERE)
    assert sorted(proof.of("after", "not-searched")) == sorted(names)
    assert (proof.after, proof.done.is_erased) == ({}, False)


# --- metadata ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "zz"])
def test_truncated_bounds(catalog: dk.Catalog, tmp_path: Path, before: str) -> None:
    """A bound of 16 letters of a removed file, in a manifest that nothing leads to, as lower and as upper bound."""
    rows = items((7, NAME, 1.0), (8, before + NAME, 1.0))
    table = make(catalog, ROWS, rows, format_version=2)
    manifests = [f for f in files_of(table) if f.endswith("-m0.avro")]
    copies = {f: stored_at(f).read_bytes() for f in manifests}
    assert any(b"Erika Musterman" in c for c in map(inflated, copies.values()))
    assert not any(NAME.encode() in c for c in map(inflated, copies.values()))
    proof = Proof(tmp_path, table, WHERE)
    assert proof.done.is_erased
    places = {place for found in proof.before.values() for place in found}
    assert "truncated bounds" in places
    (planted,) = (put(table, "metadata/old-m0.avro", c) for c in copies.values() if b"Erika" in inflated(c))
    again = Proof(tmp_path, table, WHERE)
    assert again.after == {planted: ["truncated bounds"]}
    assert not again.done.is_erased


def inflated(manifest: bytes) -> bytes:
    return repr(list(fastavro.reader(pa.BufferReader(manifest)))).encode()


def test_a_bound_of_others_is_only_possible(catalog: dk.Catalog, tmp_path: Path) -> None:
    """Somebody's text begins as the erased one, and is cut to the same bound."""
    other = NAME[:16] + "someone else"
    table = make(catalog, items((1, NAME, 1.0)), items((2, other, 1.0)), format_version=2)
    proof = Proof(tmp_path, table, WHERE)
    assert (proof.done.is_erased, proof.after) == (True, {})
    assert {place for places in proof.of("after", "possible").values() for place in places} == {"truncated bounds"}


def test_words_of_others_do_not_count(catalog: dk.Catalog, tmp_path: Path) -> None:
    """Numbers of counters and settings, and texts that have the value inside."""
    rows = items((3, "erika@example.org", 1.0), (13, "frederika@example.org", 1.0), (33, "x", 3.0))
    table = make(catalog, rows, format_version=2, properties={"write.metadata.previous-versions-max": "3"})
    dk.append(table, rows[1:], commit_properties={"note": "13, 3.5 and part-3-0"})
    assert Proof(tmp_path, table, "id = 3").done.is_erased
    table = make(catalog, rows, format_version=2)
    dk.append(table, rows[1:], commit_properties={"note": "frederika@example.org"})
    proof = Proof(tmp_path, table, "category = 'erika@example.org'")
    assert (proof.done.is_erased, proof.done.possible) == (True, {})


def test_buckets_are_no_values(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, [{"id": i, "category": "a", "value": 1.0} for i in range(9)], partition_by=["bucket(4, id)"])
    assert any("id_bucket=2" in path for path in files_of(table))
    proof = Proof(tmp_path, table, "id in (1, 2, 3)")
    assert (proof.done.is_erased, proof.after) == (True, {})


@pytest.mark.parametrize("place", ["summary", "branch", "tag", "property"])
def test_what_metadata_says(catalog: dk.Catalog, tmp_path: Path, place: str) -> None:
    """Summaries, names of branches and tags, properties: in the current metadata, and in old files of the log."""
    table = make(catalog, ROWS, format_version=2, properties={"write.metadata.compression-codec": "gzip"})
    if place == "summary":
        dk.append(table, ROWS, commit_properties={"ticket": f"for {NAME}"})
    elif place == "property":
        dk.set_properties(table, {"owner": NAME})
        dk.set_properties(table, {"owner": "x"})
    else:
        (dk.create_branch if place == "branch" else dk.create_tag)(table, f"of {NAME}")
        dk.drop_ref(table, f"of {NAME}")
    proof = Proof(tmp_path, table, WHERE)
    label = {"summary": "text of ticket", "property": "text of owner"}.get(place, "text")
    assert set(map(tuple, proof.before.values())) == {(label,)}
    assert proof.after.keys() >= proof.before.keys()
    assert not proof.done.is_erased
    dk.set_properties(table, {"write.metadata.previous-versions-max": "1"})
    if place != "summary":
        dk.remove_orphan_files(table, older_than=int(time.time() * 1000) + 60_000, force=True)
        assert Proof(tmp_path, table, WHERE).done.is_erased


@pytest.mark.skipif(ON_S3, reason="the plant patches files on disk")
def test_bloom_filters(catalog: dk.Catalog, tmp_path: Path) -> None:
    """A filter that has the value, in a file without it: possible, since a filter may err."""
    pieces = {}
    for who in (NAME, "nobody at all, really no one.."):
        rows = with_ids(pa.table({"category": [who] * 3}), 2)
        pq.write_table(rows, tmp_path / "b", bloom_filter_options={"category": {"ndv": 100, "fpp": 0.001}})
        chunk = pq.read_metadata(tmp_path / "b").row_group(0).column(0)
        data, at = (tmp_path / "b").read_bytes(), chunk.bloom_filter_offset
        pieces[who] = data[:at], data[at : at + chunk.bloom_filter_length], data[at + chunk.bloom_filter_length :]
    (head, _, tail), (_, stored, _) = pieces["nobody at all, really no one.."], pieces[NAME]
    table = make(catalog, ROWS, format_version=2)
    name = put(table, "data/bloom.parquet", head + stored + tail)
    proof = Proof(tmp_path, table, WHERE)
    assert proof.of("before", "possible") == proof.of("after", "possible") == {name: ["Bloom filter"]}
    assert (proof.after, proof.done.is_erased) == ({}, True)


@pytest.mark.peers
def test_bloom_filters_as_duckdb_reads_them(tmp_path: Path) -> None:
    import duckdb  # noqa: PLC0415  # a peer

    texts = [f"v{i}" * (i % 30) for i in range(1000)]
    path = tmp_path / "b.parquet"
    pq.write_table(pa.table({"s": texts}), path, bloom_filter_options={"s": {"ndv": 1000, "fpp": 0.05}})
    chunk, data = pq.read_metadata(path).row_group(0).column(0), path.read_bytes()
    stored = data[chunk.bloom_filter_offset :][: chunk.bloom_filter_length]
    asked = [*texts[::10], *(f"w{i}" * (i % 50) for i in range(100))]
    ask = "SELECT bloom_filter_excludes FROM parquet_bloom_probe('{}', 's', '{}')"
    with duckdb.connect() as engine:
        excludes = [engine.execute(ask.format(path, text)).fetchall()[0][0] for text in asked]
    assert [not may_hold(stored, text.encode()) for text in asked] == excludes
    assert any(excludes)
    with raises(dk.UnsupportedError, "bloom-filter"):
        may_hold(stored[:-1], b"a")


# --- catalogs, sinks --------------------------------------------------------------------------------------------------


def test_three_tables_of_a_catalog(catalog: dk.Catalog, tmp_path: Path) -> None:
    tables = [make(catalog, ROWS, items((7, NAME, 1.0)), format_version=v) for v in (1, 2, 3)]
    other = make(catalog, items((7, NAME, 1.0)))
    proof = Proof(tmp_path, catalog, {tables[0].name: WHERE, tables[1].name: "id = 7", tables[2].name: WHERE})
    assert proof.done.is_erased
    assert {name: done.is_erased for name, done in proof.done.tables.items()} == {t.name: True for t in tables}
    assert [live(t.refresh()) for t in tables] == [ROWS] * 3
    assert proof.document["tables-not-searched"] == [other.name]
    assert [t["name"] for t in proof.document["tables"]] == [t.name for t in tables]
    assert len(proof.document["values"]) == 3
    assert len({v["hmac-sha256"] for v in proof.document["values"]}) == 2
    dk.append(tables[1], ROWS, commit_properties={"ticket": NAME})
    again = Proof(tmp_path, catalog, {t.name: WHERE for t in tables})
    assert {name: done.is_erased for name, done in again.done.tables.items()} == {
        t.name: t is not tables[1] for t in tables
    }
    assert not again.done.is_erased
    assert dk.scan(other).count() == 1


def test_the_file_of_the_catalog(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, ROWS)
    catalog.create_namespace("people", {"contact": NAME})
    proof = Proof(tmp_path, table, WHERE)
    assert proof.after == proof.before == {"catalog.db": ["bytes", "rows of iceberg_namespace_properties"]}
    assert not proof.done.is_erased
    catalog.pyiceberg.update_namespace_properties("people", removals={"contact"})
    assert Proof(tmp_path, table, WHERE).after.get("catalog.db") in (None, ["bytes"])  # SQLite keeps removed rows


def test_the_files_of_a_sink(catalog: dk.Catalog, tmp_path: Path) -> None:
    """Indexes of hashes cannot be searched, and are removed. Numbers of batches are no ids."""
    table = make(catalog, ROWS, format_version=3)
    with dk.stream.sink(table, "s", on=["id"], order="value", sequence_by="value") as sink:
        for batch in range(5):
            rows = items((3, NAME if batch == 2 else "x", float(batch)), (4 + batch, "y", 1.0))
            sink.write(pa.Table.from_pylist([{**row, "_change_type": "insert"} for row in rows]), batch_id=batch)
    proof = Proof(tmp_path, table, f"id = 3 or {WHERE}", all_refs=True, unreferenced=True)
    assert any(name.endswith(".run") for name in proof.of("before", "not-searched"))
    assert (proof.done.is_erased, proof.after, proof.of("after", "not-searched")) == (True, {}, {})


def test_dead_letters(catalog: dk.Catalog, tmp_path: Path) -> None:
    """A table whose filter names no value is searched for the text of the others' values."""
    table = make(catalog, ROWS)
    letters = dk.stream.create_dead_letters(catalog, "test.letters")
    row: Json = {f.name: 1 if pa.types.is_integer(f.type) else "x" for f in dk.stream.dead_letter_schema()}
    row |= {"row": json.dumps({"id": 3, "who": NAME}), "at": datetime(2026, 1, 1, tzinfo=UTC)}
    dk.append(letters, [row, {**row, "row": json.dumps({"id": 13})}])
    for where, mark in ((WHERE, "Mustermann"), ("id = 3", '"id": 3,')):
        proof = Proof(tmp_path, catalog, {table.name: where, letters.name: "kind = 'nothing'"})
        assert any("text of row" in places for places in proof.after.values()) is False  # kind = is a value itself
        proof = Proof(tmp_path, catalog, {table.name: where, letters.name: "kind like 'nothing%'"})
        assert {"text of row"} == {p for places in proof.after.values() for p in places}, mark
        assert not proof.done.is_erased
    proof = Proof(tmp_path, catalog, {table.name: WHERE, letters.name: "row like '%Mustermann%'"})
    assert proof.done.is_erased
    assert dk.scan(letters.refresh()).count() == 1


# --- values of several columns, and what is promised ------------------------------------------------------------------


def test_two_columns(catalog: dk.Catalog, tmp_path: Path) -> None:
    """A row of both values; others have one of them, which is only possible."""
    rows = items((1, "a", 1.0), (1, "b", 1.0), (2, "a", 1.0))
    table = make(catalog, [rows[0]], [rows[1]], [rows[2]])
    proof = Proof(tmp_path, table, "id = 1 and category = 'a' and value > 0")
    assert proof.done.is_erased
    assert live(table) == expected(rows[1:])
    assert proof.before
    assert proof.done.possible


def test_a_copy_elsewhere_is_not_claimed(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, items((7, NAME, 1.0)))
    (file,) = (f for f in files_of(table) if f.endswith(".parquet"))
    elsewhere = tmp_path / "backup"
    elsewhere.mkdir()
    elsewhere.joinpath("copy.parquet").write_bytes(stored_at(file).read_bytes())
    proof = Proof(tmp_path, table, WHERE)
    assert proof.done.is_erased
    paths = [file["path"] for file in proof.document["after"]["searched"]]
    assert table.location in paths
    assert not [path for path in paths if str(elsewhere) in path]
    assert any("ackups" in place for place in proof.document["never-searched"])


def test_another_folder_of_the_table(catalog: dk.Catalog, tmp_path: Path) -> None:
    """A folder that only old metadata names is a place of the table too."""
    table = make(catalog, ROWS, format_version=2)
    folder = f"{table.location}-elsewhere"
    dk.set_properties(table, {"write.data.path": folder})
    dk.append(table, items((8, "d", 1.0)))
    dk.set_properties(table, {"write.data.path": f"{table.location}/data"})
    put(table, "../" + folder.rpartition("/")[2] + "/old.parquet", with_ids(pa.table({"c": [NAME]}), 2))
    assert list(Proof(tmp_path, table, WHERE).after) == ["old.parquet"]


# --- the signature ----------------------------------------------------------------------------------------------------


def test_one_byte_more_or_less(catalog: dk.Catalog, tmp_path: Path) -> None:
    proof = Proof(tmp_path, make(catalog, ROWS), WHERE)
    check = verifier().verified
    assert check(proof.bytes, public_pem()) == proof.document
    chance = random.Random(1)
    places = {0, len(proof.bytes) - 1, *chance.sample(range(len(proof.bytes)), 300)}
    places |= set(range(proof.bytes.index(b'"signature"'), len(proof.bytes)))
    for at in places:
        changed = bytearray(proof.bytes)
        changed[at] ^= 1 << chance.randrange(8)
        with pytest.raises(ValueError):  # noqa: PT011
            check(bytes(changed), public_pem())
    stranger = Ed25519PrivateKey.generate().public_key()
    pem = stranger.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(ValueError, match="did not sign"):
        check(proof.bytes, pem)


def test_the_script_alone(catalog: dk.Catalog, tmp_path: Path) -> None:
    """It runs from another folder, where deletekit cannot be imported, and compares the files that are there."""
    table = make(catalog, ROWS)
    proof = Proof(tmp_path, table, WHERE)
    script, public = tmp_path / "alone" / "v.py", tmp_path / "public.pem"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    public.write_bytes(public_pem())
    script.write_text("import sys; sys.modules['deletekit'] = None\n" + script.read_text().replace('"""', "#", 0))

    def run(*options: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-I", script, proof.file, public, *options], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    assert run()[0] == run("--files")[0] == 0
    assert "erased: True" in run()[1]
    if not ON_S3:
        (data,) = (f for f in files_of(table) if f.endswith(".parquet"))
        stored_at(data).write_bytes(b"other")
        code, said = run("--files")
        assert (code, data in said) == (1, True)
    proof.file.write_bytes(proof.bytes.replace(b"true", b"True"))
    assert run()[0] == 1


def pem(key: Any, password: bytes | None = None) -> bytes:
    lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    data: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
    return data


def test_refused(catalog: dk.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is erased then."""
    table = make(catalog, items((1, NAME, 1.0)), format_version=2)
    good, locked, rsa, there = (tmp_path / name for name in ("good.pem", "locked.pem", "rsa.pem", "there.json"))
    good.write_bytes(pem(KEY))
    locked.write_bytes(pem(KEY, b"secret"))
    rsa.write_bytes(pem(generate_private_key(65537, 2048)))
    there.write_text("x")
    new = tmp_path / "new.json"
    cases: list[Json] = [
        {"certificate": new},
        {"key": KEY},
        {"certificate": new, "key": locked},
        {"certificate": new, "key": rsa},
        {"certificate": new, "key": b"raw"},
        {"certificate": there, "key": KEY},
        {"certificate": "a\0b", "key": KEY},
        {"certificate": new, "key": "a\0b"},
        {"certificate": tmp_path / "no folder" / "x.json", "key": KEY},
        {"certificate": new, "key": KEY, "where": "id > 0"},
        {"certificate": new, "key": KEY, "where": f"id > 0 or {WHERE}"},
        {"certificate": new, "key": KEY, "where": "true"},
    ]
    for options in cases:
        arguments: Json = {"where": WHERE, **options}
        with refused(table, dk.InvalidInputError, "certificate"):
            dk.erase(table, **arguments)
    with refused(table, dk.StorageError, "storage"):
        dk.erase(table, WHERE, certificate=new, key=tmp_path / "no.pem")
    for where in (WHERE, {}, {table.name: WHERE}):
        with refused(table, dk.InvalidInputError, "filter"):
            dk.erase(catalog if not isinstance(where, dict) or not where else table, where)
    for package in ("xxhash", "cryptography.hazmat.primitives.serialization"):
        with monkeypatch.context() as patch, unchanged(table):
            patch.setitem(sys.modules, package, None)
            with pytest.raises(dk.EnvironmentMissingError, match=package.partition(".")[0]):
                dk.erase(table, WHERE, certificate=new, key=KEY)
    with unchanged(table):
        tried = dk.erase(table, WHERE, certificate=new, key=good, dry_run=True)
    assert (tried.is_erased, new.exists(), len(tried.found)) == (False, False, 2)
    assert dk.erase(table, WHERE, certificate=new, key=good).is_erased


@pytest.mark.skipif(ON_S3, reason="the command opens a warehouse on disk")
def test_command(catalog: dk.Catalog, tmp_path: Path) -> None:
    """The exit code is 1 while a value is somewhere, and the certificate is written all the same."""
    table = make(catalog, ROWS, items((7, NAME, 1.0)))
    key, file = tmp_path / "key.pem", tmp_path / "x.json"
    key.write_bytes(pem(KEY))
    for code in (0, 1):
        line = ["erase", "--warehouse", tmp_path / "warehouse", table.name, WHERE, "--certificate", file, "--key", key]
        result = CliRunner().invoke(main, [*map(str, line), "--json"])
        assert result.exit_code == code, result.output
        said = json.loads(result.stdout)
        assert said["is_erased"] is verifier().verified(file.read_bytes(), public_pem())["erased"] is (code == 0)
        assert len(bytes.fromhex(said["salt"])) == 32
        file.unlink()
        dk.append(table.refresh(), ROWS, commit_properties={"note": NAME})


def test_nothing_of_the_values_is_in_it(catalog: dk.Catalog, tmp_path: Path) -> None:
    """Paths, names and reasons of a table that is full of them."""
    table = make(catalog, items((7, NAME, 1.0)), partition_by=["category"])
    dk.create_tag(table, f"of {NAME}")
    put(table, f"data/{NAME}.zip", b"PK\xff")
    proof = Proof(tmp_path, table, WHERE)
    assert "Erika" not in proof.bytes.decode()
    assert "Mustermann" not in proof.bytes.decode()
    assert "<value 1>" in proof.bytes.decode()
    assert not proof.done.is_erased
