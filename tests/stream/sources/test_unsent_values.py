"""Values that a message leaves out come from the row before, and are never written as the placeholder."""

import base64
import dataclasses
import hashlib
import json
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from tests.commit.racing import racing
from tests.stream.sources.random_events import PLACEHOLDER
from tests.tables import make, raises, refused

KEY = pa.field("id", pa.int64(), nullable=False)
MODES = ("auto", "index-only", "eq-only")
TEXT = pa.schema([KEY, pa.field("bio", pa.string(), nullable=False), pa.field("n", pa.int64())])


def message(op: str, after: Any, before: Any = None, offset: int = 0) -> Message:
    row = after or before
    value = {"op": op, "before": before, "after": after, "source": {"connector": "postgresql"}}
    return Message(json.dumps({"id": row["id"]}).encode(), json.dumps(value).encode(), "t", 0, offset)


def rows_of(table: dk.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = dk.scan(table.refresh()).to_arrow().sort_by("id").to_pylist()
    return rows


def java_uuid(data: bytes) -> str:
    """Java's UUID.nameUUIDFromBytes."""
    hashed = bytearray(hashlib.md5(data, usedforsecurity=False).digest())
    hashed[6], hashed[8] = hashed[6] & 0x0F | 0x30, hashed[8] & 0x3F | 0x80
    return str(UUID(bytes=bytes(hashed)))


def test_each_form_of_the_placeholder(catalog: dk.Catalog) -> None:
    """Of each type, in JSON with and without a schema, and with a placeholder of one's own."""
    mine = "mine ÿ"
    for text, option in ((PLACEHOLDER, None), (mine, mine), (mine, f"hex:{mine.encode().hex()}")):
        data = text.encode()
        forms: list[tuple[pa.DataType, Any, Any, Any]] = [
            (pa.string(), "v", "v", text),
            (pa.binary(), b"v", base64.b64encode(b"v").decode(), base64.b64encode(data).decode()),
            (pa.binary(), b"v", "76", data.hex()),
            (pa.list_(pa.string()), ["v"], ["v"], [text]),
            (pa.list_(pa.int32()), [1], [1], list(data)),
            (pa.list_(pa.float64()), [1.5], [1.5], [float(b) for b in data]),
            (pa.list_(pa.binary()), [b"v"], [base64.b64encode(b"v").decode()], [base64.b64encode(data).decode()]),
            (pa.map_(pa.string(), pa.string()), [("a", "b")], {"a": "b"}, {text: text}),
            (pa.uuid(), UUID(int=1), str(UUID(int=1)), java_uuid(data)),
        ]
        for kind, stored, sent, placeholder in forms:
            binary = "hex" if sent == "76" else "base64"
            form = decoder("debezium-json", binary=binary, **({} if option is None else {"unavailable": option}))
            schema = pa.schema([KEY, pa.field("v", kind)])
            table = make(catalog, schema=schema, format_version=3)
            with dk.stream.sink(table, "cdc", on="id") as sink:
                batches = [[message("c", {"id": 1, "v": sent})], [message("u", {"id": 1, "v": placeholder})]]
                for batch, messages in enumerate(batches):
                    sink.write(form.decode(messages, table.schema), batch)
            assert rows_of(table) == [{"id": 1, "v": stored}], (kind, text)


# Batches of (op, key, bio, n), bio None for the placeholder; and what is left, or None if the last batch is refused.
CASES: list[tuple[str, list[list[tuple[Any, ...]]], dict[int, Any] | None]] = [
    ("stored", [[("c", 1, "a", 1)], [("u", 1, None, 2)]], {1: ("a", 2)}),
    ("twice", [[("c", 1, "a", 1)], [("u", 1, None, 2), ("u", 1, None, 3)]], {1: ("a", 3)}),
    ("batch", [[("c", 1, "a", 1), ("u", 1, None, 2)]], {1: ("a", 2)}),
    ("newer", [[("c", 1, "a", 1)], [("u", 1, "b", 2), ("u", 1, None, 3)]], {1: ("b", 3)}),
    ("whole last", [[("u", 1, None, 2), ("u", 1, "b", 3)]], {1: ("b", 3)}),
    ("deleted last", [[("u", 1, None, 2), ("d", 1)]], {}),
    ("none", [[("u", 1, None, 2)]], None),
    ("deleted", [[("c", 1, "a", 1)], [("d", 1), ("u", 1, None, 2)]], None),
    ("deleted before", [[("c", 1, "a", 1)], [("d", 1)], [("u", 1, None, 2)]], None),
    ("tombstone", [[("c", 1, "a", 1)], [("t", 1), ("u", 1, None, 2)]], None),
    ("came back", [[("c", 1, "a", 1)], [("d", 1), ("t", 1), ("c", 1, "b", 2), ("u", 1, None, 3)]], {1: ("b", 3)}),
    ("moved", [[("c", 1, "a", 1)], [("m", 1, 2, None, 2)]], {2: ("a", 2)}),
    ("moved twice", [[("c", 1, "a", 1)], [("m", 1, 2, None, 2), ("m", 2, 3, None, 3)]], {3: ("a", 3)}),
    ("moved away and back", [[("c", 1, "a", 1)], [("m", 1, 2, None, 2), ("m", 2, 1, None, 3)]], {1: ("a", 3)}),
    (
        "swapped",
        [[("c", 1, "a", 1), ("c", 2, "b", 1)], [("m", 1, 9, None, 2), ("m", 2, 1, None, 3), ("m", 9, 2, None, 4)]],
        {1: ("b", 3), 2: ("a", 4)},
    ),
    ("moved and updated", [[("c", 1, "a", 1)], [("u", 1, "b", 2), ("m", 1, 2, None, 3)]], {2: ("b", 3)}),
    ("moved from nothing", [[("m", 1, 2, None, 2)]], None),
    ("inserted", [[("c", 1, "a", 1)], [("c", 1, None, 2)]], None),
]


def messages_of(batch: list[tuple[Any, ...]]) -> list[Message]:
    made = []
    for offset, (op, key, *more) in enumerate(batch):
        if op == "t":
            made.append(Message(json.dumps({"id": key}).encode(), None, "t", 0, offset))
            continue
        if op == "d":
            made.append(message("d", None, {"id": key, "bio": "", "n": None}, offset))
            continue
        new, before = (key, None) if op != "m" else (more[0], {"id": key, "bio": "", "n": None})
        bio, n = more[-2:]
        after = {"id": new, "bio": PLACEHOLDER if bio is None else bio, "n": n}
        made.append(message("u" if op == "m" else op, after, before, offset))
    return made


@pytest.mark.parametrize("mode", MODES)
def test_where_an_unchanged_value_comes_from(catalog: dk.Catalog, mode: str) -> None:
    dead = dk.stream.create_dead_letters(catalog, "d.dead")
    form = decoder("debezium-json")
    for number, (name, batches, left) in enumerate(CASES):
        table = make(catalog, schema=TEXT, format_version=2 + number % 2)
        last = len(batches) - 1
        with dk.stream.sink(table, "cdc", on="id", mode=mode) as sink:  # type: ignore[arg-type]
            for batch in range(last):
                sink.write(form.decode(messages_of(batches[batch]), table.schema), batch)
            if left is None:
                kind = "message-unavailable" if name == "inserted" else "unchanged-value"
                with refused(table, dk.InvalidInputError, kind):
                    sink.write(form.decode(messages_of(batches[last]), table.schema), last)
            else:
                sink.write(form.decode(messages_of(batches[last]), table.schema), last)
        if left is None and name != "inserted":  # the others of the batch are applied
            other = [("c", 50, "z", 0)]
            with dk.stream.sink(table, "cdc", on="id", mode=mode, dead_letters=dead) as sink:  # type: ignore[arg-type]
                rows = form.decode(messages_of([*batches[last], *other]), table.schema)
                assert sink.write(rows, last).dead_letters == 1, name
                assert sink.write(rows, last).status == "skipped"
        expected = {1: ("a", 1)} if name == "inserted" else {50: ("z", 0)} if left is None else left
        assert {row["id"]: (row["bio"], row["n"]) for row in rows_of(table)} == expected, name
    assert PLACEHOLDER not in str(dk.scan(dead.refresh()).to_arrow().column("row").to_pylist())


def test_columns_that_cannot_be_left_out(catalog: dk.Catalog) -> None:
    """What finds or orders rows must be sent, and a part of a column is not taken from a row."""
    nested = pa.schema([KEY, pa.field("s", pa.struct([pa.field("bio", pa.string())])), pa.field("name", pa.string())])
    table = make(catalog, schema=nested, format_version=3)
    form, row = decoder("debezium-json"), {"id": 1, "s": {"bio": "b"}, "name": "a"}
    with raises(dk.InvalidInputError, "message-unavailable"):
        form.decode([message("u", {**row, "s": {"bio": PLACEHOLDER}})], table.schema)
    rows = form.decode([message("u", {**row, "name": PLACEHOLDER})], table.schema)
    keyless = form.decode([dataclasses.replace(message("u", {**row, "name": PLACEHOLDER}), key=None)], table.schema)
    wrong: list[tuple[pa.Table, dict[str, Any], str]] = [
        (keyless, {"on": "name"}, "unchanged-value"),
        (rows, {"on": "name"}, "message-key"),
        (rows, {"on": "id", "sequence_by": "name"}, "sequence-by"),
        (rows, {"on": "id", "order": "name"}, "change-order"),
    ]
    for batch, options, kind in wrong:
        with refused(table, dk.InvalidInputError, kind), dk.stream.sink(table, "x", **options) as sink:
            sink.write(batch, 0)
    with (
        refused(table, dk.InvalidInputError, "unchanged-value"),
        dk.stream.sink(table, "x", on="id", evolve="add") as sink,
    ):
        sink.write(form.decode([message("u", {**row, "new": PLACEHOLDER})], table.schema), 0)


def test_a_stored_row_that_is_there_twice(catalog: dk.Catalog) -> None:
    """Others may have written a key twice: which of the two values did not change is not known."""
    row = {"id": 1, "bio": "a", "n": 1}
    table = make(catalog, [row], schema=TEXT, format_version=3)
    dk.append(table, [{**row, "bio": "b"}])
    with dk.stream.sink(table, "cdc", on="id") as sink:
        rows = decoder("debezium-json").decode([message("u", {**row, "bio": PLACEHOLDER})], table.schema)
        with refused(table, dk.InvalidInputError, "unchanged-value"):
            sink.write(rows, 0)


def test_another_writer_changes_the_row_meanwhile(catalog: dk.Catalog) -> None:
    """The row is looked up again after a lost race, by value too."""
    for mode in ("auto", "eq-only"):
        row = {"id": 1, "bio": "a", "n": 1}
        table = make(catalog, [row], schema=TEXT, format_version=3)
        rows = decoder("debezium-json").decode([message("u", {**row, "bio": PLACEHOLDER, "n": 9})], table.schema)
        raced = racing(catalog, table, lambda other: dk.update(other, {"bio": "b"}, where="id = 1"))
        with dk.stream.sink(raced, "cdc", on="id", mode=mode) as sink:  # type: ignore[arg-type]
            sink.write(rows, 0)
        assert rows_of(table) == [{"id": 1, "bio": "b", "n": 9}], mode
