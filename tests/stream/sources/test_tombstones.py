"""A tombstone deletes its key: in a compacted topic nothing else is left of a delete."""

import itertools
import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from tests.tables import make, refused

PEOPLE = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("v", pa.int64())]
)
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
OPTIONS: list[dict[str, Any]] = [
    {}, {"mode": "eq-only"}, {"mode": "index-only"}, {"order": "v"}, {"sequence_by": "v"}, {"evolve": "add"},
]  # fmt: skip


def message(op: str, key: int, v: int, offset: int, form: str = "debezium-json") -> Message:
    row, value = {"id": key, "name": f"{op}{v}", "v": v}, None
    if op != "t" and form == "debezium-flat":
        value = {**row, "__op": op}
    elif op != "t":
        value = {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row}
        value["source"] = {"connector": "mysql"}
    data = None if value is None else json.dumps(value).encode()
    return Message(json.dumps({"id": key}).encode(), data, "t", 0, offset)


def model(ops: Any, sequence: bool) -> dict[int, str]:
    """What the dict holds: of `sequence_by`, only what is not older than the row or its delete."""
    name, at = None, 0
    for op, v in ops:
        if op == "t":
            name = None
        elif not sequence or v >= at:
            name, at = (None if op == "d" else f"{op}{v}"), v
    return {} if name is None else {1: name}


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tombstones_in_every_order(catalog: dk.Catalog, options: dict[str, Any]) -> None:
    """Each sequence of three after a row, in each way to cut it into batches."""
    cuts = [[3], [1, 3], [2, 3], [1, 2, 3]]
    for number, ops in enumerate(itertools.product("tdc", repeat=3)):
        # A flat delete has only its key: no value of another column.
        form = "debezium-json" if number % 2 or "v" in options.values() else "debezium-flat"
        steps = [("c", 1), *((op, n) for n, op in enumerate(ops, 2))]
        table = make(catalog, schema=PEOPLE, format_version=2 + number % 2)
        with dk.stream.sink(table, "cdc", on="id", **options) as sink:
            start, messages = 0, [message(op, 1, v, v, form) for op, v in steps]
            for batch, end in enumerate([1, *(end + 1 for end in cuts[number % len(cuts)])]):
                sink.write(decoder(form).decode(messages[start:end], table.schema), batch)
                start = end
        found = {r["id"]: r["name"] for r in dk.scan(table.refresh()).to_arrow().to_pylist()}
        assert found == model(steps, "sequence_by" in options), (ops, form)


@pytest.mark.parametrize("together", [False, True], ids=["batches", "one-batch"])
def test_an_older_change_behind_a_tombstone_brings_nothing_back(catalog: dk.Catalog, together: bool) -> None:
    """The tombstone is remembered with the value of the row that it deleted."""
    cases: list[tuple[list[tuple[str, int]], list[str]]] = [
        ([("c", 10), ("t", 0), ("u", 7)], []),
        ([("c", 10), ("t", 0), ("u", 7), ("u", 10)], ["u10"]),
        ([("c", 10), ("u", 12), ("t", 0), ("u", 11)], []),
    ]
    if together:  # behind a late delete it is that delete's own
        cases.append(([("c", 10), ("d", 5), ("t", 0)], ["c10"]))
    for steps, left in cases:
        table = make(catalog, schema=PEOPLE, format_version=3)
        messages = [message(op, 1, v, n) for n, (op, v) in enumerate(steps)]
        with dk.stream.sink(table, "cdc", on="id", sequence_by="v") as sink:
            for number, batch in enumerate([messages] if together else [[m] for m in messages]):
                sink.write(decoder("debezium-json").decode(batch, table.schema), number)
        assert [r["name"] for r in dk.scan(table.refresh()).to_arrow().to_pylist()] == left, steps


def test_a_tombstone_of_an_unknown_key_is_never_dropped(catalog: dk.Catalog) -> None:
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(KEY), {"id": 1})
    avro = b"\0" + (7).to_bytes(4, "big") + data.getvalue()
    table = make(catalog, [{"id": 1, "name": "a", "v": 1}], schema=PEOPLE, format_version=3)
    forms = {name: decoder(name) for name in ("debezium-json", "debezium-flat")}
    forms["debezium-avro"] = decoder("debezium-avro", registry={7: KEY})
    bad = {"debezium-avro": [None, b"\0\0\0\0\x08\x02", b"1", b""]}
    for name, form in forms.items():
        for key in bad.get(name, [None, b"1", b'"1"', b"null", b"{}", b"{", b'{"schema": null, "payload": null}']):
            with pytest.raises(dk.InvalidInputError) as found:
                form.decode([Message(key, None, "t", 0, 3)], table.schema)
            assert found.value.kind.startswith("message-"), key
            assert "topic t, partition 0, offset 3" in str(found.value)
            rejected: list[int] = []
            form.decode([Message(key, None, "t", 0, 3)], table.schema, reject=lambda m, _: rejected.append(m.offset))  # noqa: B023
            assert rejected == [3]
    other = forms["debezium-json"].decode([Message(b'{"code": 1}', None, "t", 0, 3)], table.schema)
    with refused(table, dk.InvalidInputError, "message-key"), dk.stream.sink(table, "x", on="id") as sink:
        sink.write(other, 0)
    with dk.stream.sink(table, "cdc", on="id") as sink:
        sink.write(forms["debezium-avro"].decode([Message(avro, None)], table.schema), 0)
    assert dk.scan(table.refresh()).count() == 0
    ignored = decoder("debezium-json", tombstones="ignore")
    assert ignored.decode([Message(None, None)], table.schema).num_rows == 0


def test_a_tombstone_in_a_fan_out_names_its_table(catalog: dk.Catalog) -> None:
    """Its message has no columns, so a column cannot route it: it is refused, and a function can."""
    tables = [make(catalog, [{"id": 1, "name": "a", "v": 1}], schema=PEOPLE, format_version=3) for _ in range(2)]
    rows = decoder("debezium-json").decode([Message(b'{"id": 1}', None)], tables[0].schema)
    routed = rows.append_column("_table", pa.array([None], pa.string()))
    with (
        dk.stream.fan_out(catalog, "_table", "fan", on="id") as fan,
        refused(tables[0], dk.InvalidInputError, "fan-out-route"),
    ):
        fan.write(routed, 0)
    with dk.stream.fan_out(catalog, lambda rows: [tables[1].name] * len(rows), "fan", on="id") as fan:
        fan.write(rows, 0)
    assert [dk.scan(table.refresh()).count() for table in tables] == [1, 0]
