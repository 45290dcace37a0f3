"""Random changes of a source table, in every format and batch size: the table holds what the source holds."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from deletekit.stream.sources import FORMATS
from tests.stream.replay import check
from tests.stream.sources.writers import COLUMNS, SCHEMAS, Source, random_row
from tests.tables import make

PLAIN = {"binary": "base64", "decimal_texts": True, "time_unit": "us"}
SOURCES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "postgresql": ("debezium-json", {"form": "json-schema"}, {}),
    "postgresql-full": ("debezium-json", {"form": "json-schema", "full": True}, {"replica_identity": "full"}),
    "postgresql-without-schema": ("debezium-json", {"form": "json"}, PLAIN),
    "mysql": ("debezium-json", {"form": "json-schema", "connector": "mysql"}, {}),
    "sqlserver": ("debezium-json", {"form": "json", "connector": "sqlserver"}, PLAIN | {"time_unit": {"at": "us"}}),
    "avro": ("debezium-avro", {"form": "avro"}, {"registry": SCHEMAS}),
    "avro-full": ("debezium-avro", {"form": "avro", "full": True}, {"registry": SCHEMAS}),
    "flat": ("debezium-flat", {"form": "flat"}, PLAIN),
    "flat-with-schema": ("debezium-flat", {"form": "flat-schema"}, {}),
}


def changes(source: Source, random_: random.Random, number: int) -> None:
    for _ in range(number):
        key = random_.randrange(12)
        step = random_.random()
        if key in source.rows and step < 0.25:
            source.delete(key)
        elif key in source.rows and step < 0.35:
            source.move(key, random_row(random_, max(source.rows) + 1))
        else:
            source.put(random_row(random_, key))
        if random_.random() < 0.1:
            source.noise()


def batches(messages: Sequence[Message], random_: random.Random) -> list[Sequence[Message]]:
    found, start = [], 0
    while start < len(messages):
        end = start + random_.choice([1, 3, 30])
        found.append(messages[start:end])
        start = end
    return found


def test_every_format_is_tested() -> None:
    assert {form for form, _, _ in SOURCES.values()} == set(FORMATS)


@pytest.mark.sampled(2, tier=1)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", SOURCES)
def test_the_table_is_the_source(catalog: dk.Catalog, name: str, seed: int) -> None:
    form, how, options = SOURCES[name]
    random_ = random.Random(f"{name} {seed}")
    source = Source(**how)
    for key in range(5):
        source.put(random_row(random_, key), "r")
    changes(source, random_, 120)
    table = make(catalog, schema=COLUMNS, format_version=2 + seed)
    messages = decoder(form, **options)
    sent = batches(source.messages, random_)
    with dk.stream.sink(table, "cdc", on="id") as sink:
        for batch_id, batch in enumerate(sent):
            sink.write(messages.decode(batch, table.refresh().schema), batch_id)
        again = sink.write(messages.decode(sent[-1], table.refresh().schema), len(sent) - 1)
    assert again.status == "skipped"
    check(table, source.rows)


@pytest.mark.parametrize("name", SOURCES)
def test_a_column_that_the_table_lacks_is_refused_or_left_out(catalog: dk.Catalog, name: str) -> None:
    form, how, options = SOURCES[name]
    source = Source(**how)
    source.put(random_row(random.Random(name), 1) | {"weight": 1.5})
    source.delete(1)
    source.put(random_row(random.Random(name), 2) | {"weight": 1.5})
    few = COLUMNS.remove(COLUMNS.get_field_index("weight"))
    table = make(catalog, schema=few, format_version=3)
    with dk.stream.sink(table, "cdc", on="id") as sink:
        rows = decoder(form, **options).decode(source.messages, table.schema)
        assert "weight" in rows.column_names
        with pytest.raises(dk.InvalidInputError, match="a column the table does not"):
            sink.write(rows, 0)
        sink.write(decoder(form, **options, ignore=["weight"]).decode(source.messages, table.schema), 0)
        assert decoder(form, **options).decode(source.messages[1:2], table.schema).num_rows == 1
    check(table, {2: {n: v for n, v in source.rows[2].items() if n != "weight"}})
