"""Rows that do not fit are kept in a table of their own, each once, and the others are applied."""

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType

import deletekit as dk
from deletekit.stream.batch_run import BatchRun
from tests.stream.replay import Row, replay
from tests.tables import files_of, make, refused, unchanged

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "name", StringType(), required=True),
    NestedField(3, "n", IntegerType(), required=False),
    identifier_field_ids=[1],
)
ARROW = pa.schema([("_change_type", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())])
BAD: dict[str, Row] = {
    "change-type": {"_change_type": "MERGE"},
    "null-in-required": {"name": None},
    "column-type": {"n": 2**40},
}


@pytest.fixture
def letters(catalog: dk.Catalog) -> dk.Table:
    return dk.stream.create_dead_letters(catalog, "test.dead_letters")


def row(number: int, **other: Any) -> Row:
    return {"_change_type": "INSERT", "id": number, "name": "x", "n": 1, **other}


def sink(table: dk.Table, letters: dk.Table | None, **options: Any) -> dk.stream.Sink:
    return dk.stream.sink(table, "s", dead_letters=letters, **options)


def kept(letters: dk.Table) -> list[Row]:
    return sorted(dk.scan(letters.refresh()).to_arrow().to_pylist(), key=lambda r: (r["batch_id"], int(r["position"])))


def given(rows: list[Row], form: str) -> Any:
    return rows if form == "dicts" else pa.Table.from_pylist(rows, ARROW)


@pytest.mark.parametrize("form", ["dicts", "arrow"])
def test_rows_that_do_not_fit_are_kept_with_the_reason(catalog: dk.Catalog, letters: dk.Table, form: str) -> None:
    table = make(catalog, schema=SCHEMA, format_version=3)
    rows = [row(number) for number in range(20)]
    for place, change in zip((3, 4, 19), BAD.values(), strict=True):
        rows[place] |= change
    rows[7] |= {"id": None}
    begun = datetime.now(UTC)
    with sink(table, letters) as opened:
        done = opened.write(given(rows, form), 0, query_id="q")
    assert (done.status, done.rows, done.dead_letters) == ("committed", 16, 4)
    found = kept(letters)
    assert [(r["position"], r["kind"]) for r in found] == [
        ("3", "change-type"),
        ("4", "null-in-required"),
        ("7", "null-in-required"),
        ("19", "column-type"),
    ]
    assert {(r["table_name"], r["sink_id"], r["query_id"], r["batch_id"], r["source"]) for r in found} == {
        (table.name, "s", "q", 0, "")
    }
    assert [json.loads(r["row"]) for r in found] == [rows[n] for n in (3, 4, 7, 19)]
    assert "MERGE" in found[0]["error"]
    assert all(begun.replace(microsecond=0) <= r["at"] <= datetime.now(UTC) for r in found)
    fitting = [r for n, r in enumerate(rows) if n not in (3, 4, 7, 19)]
    assert sorted(dk.scan(table.refresh()).to_arrow()["id"].to_pylist()) == sorted(k for (k,) in replay([fitting]))


@pytest.mark.parametrize("seed", range(3))
def test_the_rows_kept_are_those_that_are_refused_alone(catalog: dk.Catalog, letters: dk.Table, seed: int) -> None:
    """Against one sink for each row, which applies it or refuses it."""
    chance = random.Random(seed)
    table, alone = (make(catalog, schema=SCHEMA, format_version=3) for _ in range(2))
    rows = []
    for number in range(40):
        change = chance.choice([{}, {}, *BAD.values(), {"_change_type": "DELETE", "name": None}, {"id": None}])
        rows.append(row(number) | change)
    wrong = []
    with sink(alone, None) as opened:
        batch = 0
        for number, one in enumerate(rows):
            try:
                opened.write(given([one], "arrow"), batch)
            except dk.InvalidInputError:
                wrong.append(number)
            else:
                batch += 1
    with sink(table, letters) as opened:
        assert opened.write(given(rows, "arrow"), 0).dead_letters == len(wrong)
    assert [int(r["position"]) for r in kept(letters)] == wrong
    assert sorted(dk.scan(table.refresh()).to_arrow().to_pylist(), key=str) == sorted(
        dk.scan(alone.refresh()).to_arrow().to_pylist(), key=str
    )


@pytest.mark.parametrize("expired", [False, True])
def test_each_dead_letter_is_kept_once_whatever_fails(
    catalog: dk.Catalog, letters: dk.Table, monkeypatch: pytest.MonkeyPatch, *, expired: bool
) -> None:
    """The process ends after the dead letters and before the batch; the batch comes again, and again."""
    table = make(catalog, schema=SCHEMA, format_version=3)
    rows = [row(0), row(1, n=2**40), row(1, n=2**40), row(2)]

    class Killed(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as dying, sink(table, letters) as opened, unchanged(table):
        dying.setattr(BatchRun, "_build", killed)
        with pytest.raises(Killed):
            opened.write(given(rows, "arrow"), 0)
    assert len(kept(letters)) == 2
    if expired:
        dk.append(letters, [{**kept(letters)[0], "batch_id": 99}])
        dk.compact(letters)
        dk.expire_snapshots(letters, older_than=2**62, retain_last=1)
    before = kept(letters)
    with sink(table, letters) as opened:
        assert opened.write(given(rows, "arrow"), 0).status == "committed"
        assert opened.write(given(rows, "arrow"), 0).status == "skipped"
    with sink(table, letters, allow_rewind=True) as again:
        assert again.write(given(rows, "arrow"), 1).dead_letters == 2
    assert [r for r in kept(letters) if r["batch_id"] != 1] == before


def test_the_digest_covers_the_dead_letters(catalog: dk.Catalog, letters: dk.Table) -> None:
    """A batch with other wrong rows is another batch; so is one from a sink without dead letters."""
    table = make(catalog, schema=SCHEMA, format_version=3)
    with sink(table, letters) as opened:
        opened.write(given([row(0), row(1, n=2**40)], "arrow"), 0)
        for other in ([row(0), row(1, n=2**41)], [row(0)], [row(0), row(1, n=2**40), row(1, n=2**40)]):
            with unchanged(letters), refused(table, dk.InvalidInputError, "batch-changed"):
                opened.write(given(other, "arrow"), 0)
        with unchanged(letters), refused(table, dk.InvalidInputError, "batch-gap"):
            opened.write(given([row(0), row(1, n=2**40)], "arrow"), 2)
    with sink(table, None) as strict, refused(table, dk.InvalidInputError, "column-type"):
        strict.write(given([row(0), row(1, n=2**40)], "arrow"), 1)


def test_what_is_wrong_with_the_whole_batch_is_refused(catalog: dk.Catalog, letters: dk.Table) -> None:
    table = make(catalog, schema=SCHEMA, format_version=3)
    good = given([row(0), row(1)], "arrow")
    batches = {
        "change-type": good.drop_columns("_change_type"),
        "column-not-found": good.append_column("more", pa.array([1, 2])),
        "column-type": good.set_column(3, "n", pa.array(["1", "2"])),
    }
    with sink(table, letters) as opened:
        for kind, batch in batches.items():
            with unchanged(letters), refused(table, dk.InvalidInputError, kind):
                opened.write(batch, 0)
        with unchanged(letters), refused(table, dk.InvalidInputError, "column-not-found"):
            opened.write(good.drop_columns("id"), 0)
        for rows in ("text", [1, 2], [[1], [2]]):
            with unchanged(letters), refused(table, dk.InvalidInputError, "rows"):
                opened.write(rows, 0)
    with sink(table, letters, max_dead_letters=1) as opened:
        with unchanged(letters), refused(table, dk.InvalidInputError, "dead-letters"):
            opened.write(given([row(0, n=2**40), row(1, n=2**40), row(2)], "arrow"), 0)
        assert opened.write(given([row(0, n=2**40), row(1)], "arrow"), 0).dead_letters == 1


def test_messages_of_a_source_belong_to_the_next_batch(catalog: dk.Catalog, letters: dk.Table) -> None:
    table = make(catalog, schema=SCHEMA, format_version=3)
    with sink(table, letters, max_dead_letters=2) as opened:
        assert opened.dead_letters is not None
        for _ in range(2):  # a source that tried twice
            opened.dead_letters.add(source="topic", position="0:17", kind="json", error="no JSON", row="{")
        assert opened.write([row(0)], 0).dead_letters == 1
        assert opened.write([row(1)], 1).dead_letters == 0
        with unchanged(letters), refused(table, dk.InvalidInputError, "batch-changed"):
            opened.write([row(0)], 0)
        opened.dead_letters.add(source="topic", position="0:17", kind="json", error="no JSON", row="{")
        with unchanged(letters), unchanged(table):
            assert opened.write([row(0)], 0).status == "skipped"
        with unchanged(letters), refused(table, dk.InvalidInputError, "dead-letters"):
            for number in range(3):
                opened.dead_letters.add(source="topic", position=str(number), kind="json", error="", row="{")
    assert [
        (r["source"], r["position"].partition(":")[2], r["kind"], r["row"])
        for r in dk.scan(letters.refresh()).to_arrow().to_pylist()
    ] == [("topic", "17", "json", "{")]


def test_messages_of_a_batch_that_failed_are_not_those_of_the_next(
    catalog: dk.Catalog, letters: dk.Table, tmp_path: Path
) -> None:
    """A file with a message that is none is a batch too, even if it has no other message."""
    table = make(catalog, schema=SCHEMA, format_version=3)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text('null\t{"bad": 1}\n')
    (folder / "2.json").write_text("")
    with sink(table, letters) as opened:
        assert opened.dead_letters is not None
        opened.dead_letters.add(source="topic", position="0:17", kind="json", error="no JSON", row="{")
        done = list(opened.run_files([folder], format="debezium-json"))
    assert [(p.status, p.dead_letters) for p in done] == [("empty", 1), ("empty", 0)]
    with sink(table, letters) as again:
        assert {p.status for p in again.run_files([folder], format="debezium-json")} == {"skipped"}
    assert [r["row"] for r in dk.scan(letters.refresh()).to_arrow().to_pylist()] == ['{"bad": 1}']


def test_files_and_batches_without_an_order(catalog: dk.Catalog, letters: dk.Table, tmp_path: Path) -> None:
    table = make(catalog, schema=SCHEMA, format_version=3)
    rows = [row(0), row(1, _change_type="?"), row(2, _change_type="?")]
    (tmp_path / "0.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    with sink(table, letters) as opened:
        [done] = opened.run_files([tmp_path / "0.jsonl"])
        assert done.dead_letters == 2
    assert [(r["source"], r["position"]) for r in kept(letters)] == [(str(tmp_path / "0.jsonl"), n) for n in "12"]
    with dk.stream.sink(table, "other", dead_letters=letters) as opened:
        opened.write(given(rows, "arrow"), 0, ordered=False)
        with unchanged(letters), unchanged(table):
            assert opened.write(given(rows[::-1], "arrow"), 0, ordered=False).status == "skipped"
    found = dk.scan(letters.refresh(), "sink_id = 'other'").to_arrow()
    assert found["position"].to_pylist() == ["", ""]


def test_which_table_keeps_dead_letters(catalog: dk.Catalog, letters: dk.Table) -> None:
    table = make(catalog, schema=SCHEMA, format_version=3)
    for other in (table, make(catalog, schema=SCHEMA), make(catalog, schema=dk.stream.dead_letter_schema().remove(3))):
        with refused(table, dk.InvalidInputError, "dead-letter-table"):
            sink(table, other)
    with refused(table, dk.InvalidInputError, "read-only"):
        sink(table, dk.from_metadata(letters.metadata_location))
    with refused(table, dk.InvalidInputError, "dead-letters"):
        sink(table, letters, max_dead_letters=-1)
    assert files_of(letters)
