"""Messages that are not changes, are damaged, or lack what is needed: ignored or refused by name; and dead letters."""

import json
import random
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from deletekit.table.types import schema_from_arrow
from tests.stream.replay import check
from tests.stream.sources.test_formats import SOURCES
from tests.stream.sources.writers import COLUMNS, Source, random_row
from tests.tables import make, raises, refused

PAIRS = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string()), pa.field("v", pa.float64())])
TABLE = schema_from_arrow(PAIRS)


def message(value: Any, key: Any = None, offset: int = 5) -> Message:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Message(None if key is None else json.dumps(key).encode(), data, "t", 0, offset)


def event(op: str, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"connector": "postgresql", "lsn": 7, **source}}


HOSTILE = [
    b"",
    b"{",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"\x00\x00\x00\x00\x01abc",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"op": "c", "after": {"id": NaN}}',
    b'{"op": "c", "after": {"id": 1, "v": Infinity}}',
    b'{"op": "c", "after": {"id": 1, "v": 1e999}}',
    b'{"op": "c", "after": {"id": 1e999999999999999999999}}',
    b'{"op": "c", "after": {"id": ' + b"9" * 5000 + b"}}",
    b'{"op": "c", "after": {"id": 1, "id": 2}}',
    b'{"op": "c", "after": {"id": 1}, "after": {"id": 2}}',
    b'{"op": "c", "after": {"id": 1}} {}',
    b'{"op": "c", "after": [1]}',
    b'{"op": "c", "after": "row"}',
    b'{"op": "c"}',
    b'{"op": "d"}',
    b'{"op": "d", "before": 1}',
    b'{"op": "x", "after": {"id": 1}}',
    b'{"op": ["c"], "after": {"id": 1}}',
    b'{"after": {"id": 1}}',
    b"{}",
    b"[]",
    b"1",
    b'"text"',
    b'{"op": "c", "after": {"id": 1, "_change_type": "DELETE"}}',
    b'{"op": "c", "after": {"id": 1, "new": {"a": 1}}}',
    b'{"schema": {"type": "struct"}, "payload": {"op": "c", "after": {"id": 1}}}',
    b'{"schema": 1, "payload": {"op": "c", "after": {"id": 1}}}',
    b'{"schema": {"type": {}}, "payload": {"op": "c", "after": {"id": 1}}}',
    b'{"schema": null, "payload": {"op": "c", "after": {"id": 1}}, "schema": null}',
]
OTHERS = {
    "debezium-flat": [b'{"__op": "x", "id": 1}', b'{"__deleted": 1, "id": 1}', b'{"__deleted": [], "id": 1}', b"[1]",
                      b"1"],
    "debezium-avro": [b"", b"\x00", b"\x01\x00\x00\x00\x01", b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x63abc",
                      b"\x00\x00\x00\x00\x01" + b"\xff" * 40],
}  # fmt: skip
BAD = [("debezium-json", data) for data in HOSTILE] + [(form, data) for form, each in OTHERS.items() for data in each]


@pytest.mark.parametrize(("form", "data"), BAD, ids=range(len(BAD)))
def test_a_bad_message_is_refused_or_collected(form: str, data: bytes) -> None:
    options = SOURCES["avro"][2] if form == "debezium-avro" else {}
    with pytest.raises(dk.InvalidInputError, match="topic t, partition 0, offset 5") as found:
        decoder(form, **options).decode([message(data)], TABLE)
    assert found.value.kind.startswith(("message-", "column-not-found"))
    rejected: list[tuple[int, str]] = []
    others = [Message(b'{"id": 1}', None, "t", 0, n) for n in (4, 6)]
    rows = decoder(form, **options).decode(
        [others[0], message(data), others[1]], TABLE, reject=lambda m, e: rejected.append((m.offset, e.kind))
    )
    bad = dict(rejected)
    assert bad.pop(5) == found.value.kind
    is_avro = form == "debezium-avro"  # whose keys are Avro too
    assert bad == (dict.fromkeys((4, 6), "message-avro") if is_avro else {})
    assert rows.num_rows == (2 if form in ("debezium-json", "debezium-flat") else 0)  # where a tombstone deletes


def test_dead_letters_are_exactly_the_bad_messages() -> None:
    """Values are converted together; the ones that do not fit are found among a thousand."""
    bad = {3, 4, 500, 999}
    messages = [message(event("c", None, {"id": "x" if n in bad else n}), offset=n) for n in range(1000)]
    rejected: list[int] = []
    rows = decoder("debezium-json").decode(messages, TABLE, reject=lambda m, _: rejected.append(m.offset))
    assert set(rejected) == bad
    assert rows.column("id").to_pylist() == [n for n in range(1000) if n not in bad]


def test_a_schema_is_not_taken_from_another_message() -> None:
    """The text of a schema part is understood once; a message with more after its payload is read as a whole."""
    column = {"type": "struct", "field": "after", "fields": [{"type": "string", "field": "id"}]}
    good = {"schema": {"type": "struct", "fields": []}, "payload": event("c", None, {"id": 1})}
    first = json.dumps(good).encode()
    twice = first[:-1] + b', "schema": null}'
    reader = decoder("debezium-json")
    messages = [message(first), message(first + b" \n"), message(twice, offset=8), message(first)]
    rejected: list[int] = []
    rows = reader.decode(messages, TABLE, reject=lambda m, _: rejected.append(m.offset))
    assert (rows.num_rows, rejected) == (3, [8])
    changed = {**good, "schema": {"type": "struct", "fields": [column]}}
    with pytest.raises(dk.InvalidInputError, match=r"does not fit|not of the column's type"):
        reader.decode([message(first), message({**changed, "payload": event("c", None, {"id": "1"})})], TABLE)


def test_a_payload_alone_is_an_envelope() -> None:
    said, reader = event("c", None, {"id": 1}), decoder("debezium-json")
    assert reader.decode([message({"payload": said})], TABLE).equals(reader.decode([message(said)], TABLE))
    with pytest.raises(dk.InvalidInputError):
        reader.decode([message({"payload": {"id": 1}})], TABLE)


@pytest.mark.parametrize(
    ("before", "key", "options"),
    [
        ({"id": 1, "region": None, "v": None}, {"id": 1}, {}),  # REPLICA IDENTITY DEFAULT
        ({"id": 1, "region": "", "v": 0.0}, {"id": 1}, {}),  # with placeholders of required columns
        ({"id": 1, "region": None, "v": None}, None, {}),
        ({"id": 1}, None, {"replica_identity": "full"}),
        (None, {"id": 1}, {}),
        ({}, {"schema": None, "payload": {"id": 1}}, {}),
    ],
)
@pytest.mark.parametrize("op", ["d", "u"])
def test_a_change_without_a_column_of_the_sinks_key_is_refused(
    catalog: dk.Catalog, op: str, before: Any, key: Any, options: Any
) -> None:
    """It would delete nothing, and the row would stay. So it would after an update that changes such a column."""
    after = {"id": 2 if before else 1, "region": "us", "v": 1.0} if op == "u" else None
    table = make(catalog, [{"id": 1, "region": "eu", "v": 1.0}], schema=PAIRS)
    value = event(op, before, after)
    rows = decoder("debezium-json", **options).decode([message(value, key)], table.schema)
    wide = dk.stream.sink(table, "wide", on=["id", "region"])
    with wide, refused(table, dk.InvalidInputError, "message-key", field="region") as refusal:
        wide.write(rows, 0)
    assert "REPLICA IDENTITY FULL" in str(refusal.error)
    with dk.stream.sink(table, "narrow", on="id") as sink:
        sink.write(rows, 0)
    check(table, {} if after is None else {after["id"]: after})


def test_whole_rows_before_a_change_find_a_wider_key(catalog: dk.Catalog) -> None:
    old = {"id": 1, "region": "eu", "v": None}
    for options, source in (({"replica_identity": "full"}, {}), ({}, {"connector": "mysql"})):
        table = make(catalog, [old], schema=PAIRS)
        rows = decoder("debezium-json", **options).decode(
            [message(event("u", old, {**old, "region": "us"}, **source), {"id": 1})], table.schema
        )
        with dk.stream.sink(table, "wide", on=["id", "region"]) as sink:
            sink.write(rows, 0)
        check(table, {1: {**old, "region": "us"}})


def test_rows_of_before_and_after_a_new_column(catalog: dk.Catalog) -> None:
    """A batch with rows of several schemas: where a row lacks a column, it is null."""
    table = make(catalog, schema=PAIRS, format_version=3)
    source: list[Message] = []
    for number, row in enumerate(({"id": 1, "region": "a"}, {"id": 2, "region": "b", "v": 2.0}, {"id": 3, "v": 3.0})):
        kinds = {"id": "int64", "region": "string", "v": "double"}
        after = {"type": "struct", "field": "after", "fields": [{"type": kinds[n], "field": n} for n in row]}
        part = {"type": "struct", "fields": [after]}
        source.append(message({"schema": part, "payload": event("c", None, row)}, offset=number))
    rows = decoder("debezium-json").decode(source, table.schema)
    assert rows.column("id").to_pylist() == [1, 2, 3]
    assert rows.column("region").to_pylist() == ["a", "b", None]
    assert rows.column("v").to_pylist() == [None, 2.0, 3.0]


@pytest.mark.parametrize(
    ("name", "field", "expected"),
    [
        ("postgresql", "lsn", [24_023_128, 24_023_129]),
        ("mysql", "ts_ms", [1_700_000_000_000, 1_700_000_000_001]),
        ("mysql", "binlog", [f"{3:012d}:{154 + n:020d}:{0:010d}" for n in (0, 1)]),
        ("sqlserver", "change_lsn", ["00000027:00000000:0002", "00000027:00000001:0002"]),
        ("avro", "lsn", [24_023_128, 24_023_129]),
        ("flat-with-schema", "ts_ms", [1_700_000_000_000] * 2),
    ],
)
def test_a_sequence_is_a_column(catalog: dk.Catalog, name: str, field: str, expected: list[Any]) -> None:
    form, how, options = SOURCES[name]
    source = Source(**how)
    source.put(random_row(random.Random(1), 1))
    source.put(random_row(random.Random(2), 2))
    table = make(catalog, schema=COLUMNS)
    rows = decoder(form, **options, sequence=field).decode(source.messages, table.schema)
    assert rows.column("_sequence").to_pylist() == expected
    with dk.stream.sink(table, "cdc", on="id", order="_sequence") as sink:
        sink.write(rows, 0)
    check(table, source.rows)
    with raises(dk.InvalidInputError, "message-sequence"):
        decoder(form, **options, sequence="nowhere").decode(source.messages, table.schema)


def test_places_in_mysqls_log_sort_as_the_log() -> None:
    places = [("mysql-bin.999999", 9, 0), ("mysql-bin.1000000", 4, 0), ("mysql-bin.1000000", 10, 0),
              ("mysql-bin.1000000", 10, 2), ("mysql-bin.1000000", 10, 11)]  # fmt: skip
    messages = [message(event("c", None, {"id": 1}, file=f, pos=p, row=r)) for f, p, r in places]
    rows = decoder("debezium-json", sequence="binlog").decode(messages, TABLE)
    found = rows.column("_sequence").to_pylist()
    assert found == sorted(found)
    assert len(set(found)) == 5
