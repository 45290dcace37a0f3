"""A batch of which nothing fits is refused if the decoder is wrong, and one bad message stops no stream."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.stream import Message, decoder
from tests.tables import make, refused

WIDE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("data", pa.binary()),
        pa.field("at", pa.timestamp("us")),
        pa.field("seen", pa.timestamp("us", "UTC")),
    ]
)
NEEDED = {"decimal_texts": True, "binary": "base64", "time_unit": "us", "assume_utc": True}
COLUMNS = {"decimal_texts": "price", "binary": "data", "time_unit": "at", "assume_utc": "seen"}


def event(key: Any, **more: Any) -> dict[str, Any]:
    row = {"id": key, "price": "1.25", "data": "AAAA", "at": 5, "seen": "2026-01-01T00:00:00", **more}
    return {"before": None, "after": row, "op": "c", "source": {"connector": "postgresql"}}


def messages(*values: Any) -> list[Message]:
    return [Message(b"{}", json.dumps(value).encode(), "t", 0, n) for n, value in enumerate(values)]


def write(sink: dk.stream.Sink, form: Any, batch: list[Message], number: int) -> Any:
    with sink.state.lock:
        rows = sink.state.decoded(lambda schema, reject: form.decode(batch, schema, reject=reject))
        return sink.write(rows, number)


@pytest.mark.parametrize("lacking", [[name] for name in NEEDED] + [list(NEEDED)], ids=",".join)
def test_every_option_that_the_columns_need_is_named(catalog: dk.Catalog, lacking: list[str]) -> None:
    table, dead = make(catalog, schema=WIDE), dk.stream.create_dead_letters(catalog, "d.dead")
    form = decoder("debezium-json", **{n: v for n, v in NEEDED.items() if n not in lacking})
    for count in (1, 20):
        with (
            dk.stream.sink(table, "cdc", on="id", dead_letters=dead) as sink,
            refused(table, dk.InvalidInputError, "nothing-fits") as refusal,
        ):
            write(sink, form, messages(*map(event, range(count))), 0)
        for name in NEEDED:
            assert (f"{name} ({COLUMNS[name]}" in str(refusal.error.expected)) == (name in lacking), name
    assert dk.scan(dead.refresh()).count() == 0
    with dk.stream.sink(table, "cdc", on="id", dead_letters=dead) as sink:
        assert write(sink, decoder("debezium-json", **NEEDED), messages(event(1)), 0).rows == 1


def test_files_stop_at_the_first_one(catalog: dk.Catalog, tmp_path: Path) -> None:
    table, dead = make(catalog, schema=WIDE), dk.stream.create_dead_letters(catalog, "d.dead")
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(event(n)) + "\n" for n in range(20)))
    for _ in range(2):  # and again
        with (
            dk.stream.sink(table, "cdc", on="id", dead_letters=dead) as sink,
            refused(table, dk.InvalidInputError, "nothing-fits"),
        ):
            list(sink.run_files([folder], format="debezium-json"))


BAD, QUIET = {"op": "x"}, {"ts_ms": 1}


@pytest.mark.parametrize(
    ("begun", "batch", "is_refused"),
    [
        (False, [BAD], False),  # one bad message is not a wrong format
        (False, [BAD, BAD], True),
        (False, [BAD, BAD, QUIET], False),  # a heartbeat is understood
        (False, [BAD, event(7)], False),
        (True, [BAD], False),
        (True, [BAD] * 50, False),  # no option would help
        (True, [event("x")] * 50, False),
    ],
)
def test_which_batches_are_refused(catalog: dk.Catalog, begun: bool, batch: list[Any], is_refused: bool) -> None:
    table, dead = make(catalog, schema=WIDE), dk.stream.create_dead_letters(catalog, "d.dead")
    form = decoder("debezium-json", **NEEDED)
    with dk.stream.sink(table, "cdc", on="id", dead_letters=dead) as sink:
        if begun:
            write(sink, form, messages(event(1)), 0)
        if is_refused:
            with refused(table, dk.InvalidInputError, "nothing-fits"):
                write(sink, form, messages(*batch), int(begun))
        else:
            assert write(sink, form, messages(*batch), int(begun)).dead_letters == len(
                [each for each in batch if each not in (QUIET, event(7))]
            )
            assert write(sink, form, messages(*batch), int(begun)).status == "skipped"


def test_an_option_that_is_lost_later(catalog: dk.Catalog) -> None:
    """Ten messages that lack an option are not an accident; fewer are."""
    table, dead = make(catalog, schema=WIDE), dk.stream.create_dead_letters(catalog, "d.dead")
    with dk.stream.sink(table, "cdc", on="id", dead_letters=dead) as sink:
        write(sink, decoder("debezium-json", **NEEDED), messages(event(1)), 0)
        assert write(sink, decoder("debezium-json"), messages(event(2)), 1).dead_letters == 1
        with refused(table, dk.InvalidInputError, "nothing-fits"):
            write(sink, decoder("debezium-json"), messages(*map(event, range(10))), 2)
        rows = [{"id": "x", "_change_type": "INSERT"}] * 2
        assert sink.write(rows, 2).dead_letters == 2
    with (
        dk.stream.sink(table, "new", on="id", dead_letters=dead) as sink,
        refused(table, dk.InvalidInputError, "nothing-fits"),
    ):
        sink.write(rows, 0)
