"""A truncated source: refused unless asked for; then the batch deletes all rows before, in every mode, once."""

import random
from typing import Any

import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from deletekit.table.types import schema_from_arrow
from tests.stream.replay import check
from tests.stream.sources.test_formats import SOURCES
from tests.stream.sources.writers import COLUMNS, Source, random_row
from tests.tables import make, refused

TRUNCATING = ["postgresql", "avro", "flat"]


def fill(source: Source, first: int, number: int) -> None:
    for key in range(first, first + number):
        source.put(random_row(random.Random(key), key))


@pytest.mark.parametrize("name", TRUNCATING)
def test_a_truncate_is_refused_unless_asked_for(catalog: dk.Catalog, name: str) -> None:
    form, how, options = SOURCES[name]
    source = Source(**how)
    fill(source, 0, 3)
    source.truncate()
    table = make(catalog, schema=COLUMNS)
    rejected: list[Message] = []
    with refused(table, dk.InvalidInputError, "message-truncate"):
        # Not into dead letters either: the rows would stay.
        decoder(form, **options).decode(source.messages, table.schema, reject=lambda m, _: rejected.append(m))
    assert not rejected


MODES = [("auto", 3), ("auto", 2), ("eq-only", 3), ("index-only", 2)]
CASES = [("postgresql", *mode) for mode in MODES] + [("avro", "auto", 3), ("flat", "auto", 3)]


@pytest.mark.parametrize(("name", "mode", "version"), CASES)
def test_a_truncate_deletes_all_rows_before_it(catalog: dk.Catalog, name: str, version: int, mode: Any) -> None:
    form, how, options = SOURCES[name]
    messages = decoder(form, **options, truncate="apply")
    table = make(catalog, schema=COLUMNS, format_version=version)
    source, sent = Source(**how), []
    with dk.stream.sink(table, "cdc", on="id", mode=mode) as sink:
        for batch_id, step in enumerate(["fill", "change", "truncate", "fill", "truncate and fill", "change", "twice"]):
            start = len(source.messages)
            if step.startswith("truncate") or step == "twice":
                fill(source, 3, 2)
                source.truncate()
            if step == "twice":
                fill(source, 7, 1)
                source.truncate()
            if "fill" in step:
                fill(source, 0, 6)
            if step in ("change", "twice"):
                fill(source, 4, 4)
                source.delete(5)
            sent.append(source.messages[start:])
            assert sink.write(messages.decode(sent[-1], table.schema), batch_id).status == "committed"
            check(table, source.rows)
            assert sink.write(messages.decode(sent[-1], table.schema), batch_id).status == "skipped"
    check(table, source.rows)


def test_a_truncate_deletes_rows_that_another_writer_adds_meanwhile(catalog: dk.Catalog) -> None:
    """The batch is planned on a head that another commit follows, and is planned again."""
    form, how, options = SOURCES["postgresql"]
    source = Source(**how)
    fill(source, 0, 2)
    table = make(catalog, [random_row(random.Random(9), 9)], schema=COLUMNS)
    other = dk.load_table(catalog, table.name)
    with dk.stream.sink(table, "cdc", on="id") as sink:
        messages = decoder(form, **options, truncate="apply")
        sink.write(messages.decode(source.messages, table.schema), 0)
        source.truncate()
        rows = messages.decode(source.messages, table.schema)
        dk.append(other, [random_row(random.Random(8), 8)])
        sink.write(rows, 1)
    check(table, {})


def test_a_batch_with_a_truncate_is_another_one_than_without(catalog: dk.Catalog) -> None:
    form, how, options = SOURCES["postgresql"]
    source = Source(**how)
    source.truncate()
    fill(source, 0, 2)
    messages = decoder(form, **options, truncate="apply")
    table = make(catalog, schema=COLUMNS)
    with dk.stream.sink(table, "cdc", on="id") as sink:
        sink.write(messages.decode(source.messages[1:], table.schema), 0)
        with refused(table, dk.InvalidInputError, "batch-changed"):
            sink.write(messages.decode(source.messages, table.schema), 0)


def test_a_truncate_among_messages_of_several_partitions_has_no_place() -> None:
    form, how, options = SOURCES["postgresql"]
    source = Source(**how)
    fill(source, 0, 1)
    source.truncate()
    first, truncate = source.messages
    moved = Message(truncate.key, truncate.value, truncate.topic, 1, 0)
    with pytest.raises(dk.InvalidInputError, match="several partitions") as found:
        decoder(form, **options, truncate="apply").decode([first, moved], table_schema())
    assert found.value.kind == "message-truncate"


def table_schema() -> Any:
    return schema_from_arrow(COLUMNS)
