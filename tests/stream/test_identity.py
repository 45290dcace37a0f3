"""What a sink takes for the same: the same batch, the same stream, the same key, the same table."""

import random
import threading
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.stored import head_json, snapshots_json
from tests.stream.replay import PEOPLE, Row, check, opened, people, put, random_batches, replay
from tests.tables import make, refused, unchanged

BATCHES = list(random_batches(0, batches=6, rows=8, keys=9))
FAR = 2**62


# --- the same batch ---------------------------------------------------------------------------------------------------


def test_a_batch_is_the_same_however_arrow_holds_it_and_whatever_the_schema_became(catalog: dk.Catalog) -> None:
    schema = pa.schema([("id", pa.int32()), ("name", pa.string()), ("n", pa.float32())])
    table = make(catalog, schema=schema, format_version=3)
    chance = random.Random(3)
    rows = [{"id": i, "name": chance.choice([None, "", "a", "ü"]), "n": chance.random()} for i in range(50)]
    whole = pa.Table.from_pylist(rows, schema)
    parts = pa.concat_tables([whole.slice(30), whole.slice(0, 7), whole.slice(7, 23)])
    texts = whole.set_column(1, "name", whole.column("name").dictionary_encode())
    large = whole.set_column(1, "name", whole.column("name").cast(pa.large_string()))
    with opened(table, change_type=None) as running:
        assert running.write(whole, 0).status == "committed"
        dk.update_column(table, "id", type="long")
        dk.update_column(table, "n", type="double")
        dk.add_column(table, "more", "string")
        for form in (whole, parts, texts, large, whole.append_column("more", pa.nulls(50, pa.string()))):
            with unchanged(table):
                assert running.write(form, 0).status == "skipped"


# --- a stream that is started again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("retain", [1, 2])
def test_a_restart_after_expiry_skips_what_is_older_than_the_newest_batch(catalog: dk.Catalog, retain: int) -> None:
    table = people(catalog)
    with opened(table) as first:
        list(first.run(BATCHES[:4]))
    dk.expire_snapshots(table, older_than=FAR, retain_last=retain)
    with opened(table) as second, unchanged(table):
        assert [p.status for p in second.run(BATCHES[:4])] == ["skipped"] * 4
        with refused(table, dk.InvalidInputError, "batch-changed"):
            second.write(BATCHES[5], 3)
    with opened(table) as third:
        assert [p.status for p in third.run(BATCHES)] == ["skipped"] * 4 + ["committed"] * 2
    check(table, replay(BATCHES))


def test_a_gap_is_refused_unless_it_is_asked_for(catalog: dk.Catalog) -> None:
    table = people(catalog)
    with opened(table) as running, refused(table, dk.InvalidInputError, "batch-gap"):
        running.write(BATCHES[1], 1)
    with opened(table) as running:
        running.write(BATCHES[0], 0)
        with refused(table, dk.InvalidInputError, "batch-gap") as refusal:
            running.write(BATCHES[2], 2)
        assert "allow_gaps" in str(refusal.error)
    with opened(table, allow_gaps=True) as loose:
        assert loose.write(BATCHES[2], 2).status == "committed"
        with refused(table, dk.InvalidInputError, "batch-rewound"):
            loose.write(BATCHES[1], 1)  # it is known that it is not in the table


def test_an_empty_batch_is_a_batch(catalog: dk.Catalog) -> None:
    """No gap is left where a batch had no rows, and its number is not free for other data."""
    table = people(catalog)
    with opened(table) as running:
        assert [p.status for p in running.run([BATCHES[0], [], BATCHES[1]])] == ["committed", "empty", "committed"]
    with opened(table) as running:
        assert [p.status for p in running.run([BATCHES[0], [], BATCHES[1]])] == ["skipped"] * 3
        with refused(table, dk.InvalidInputError, "batch-changed"):
            running.write(BATCHES[2], 1)
    check(table, replay(BATCHES[:2]))


# --- the key and the table --------------------------------------------------------------------------------------------


def test_another_key_under_the_same_id_is_refused(catalog: dk.Catalog) -> None:
    table = people(catalog)
    with opened(table) as running:
        running.write([put(1, "a")], 0)
    for rewind in (False, True):
        with refused(table, dk.InvalidInputError, "key-changed", found="name", expected="id, or another sink id"):
            opened(table, on=["name"], allow_rewind=rewind).write([put(1, "b")], 1)
    with refused(table, dk.InvalidInputError, "key-changed"):
        opened(table, on=["id", "name"])
    dk.expire_snapshots(table, older_than=FAR, retain_last=1)
    with refused(table, dk.InvalidInputError, "key-changed"):
        opened(table, on=["name"])
    dk.rename_column(table, "id", "number")
    with opened(table, on=["number"]) as renamed:
        renamed.write([{"number": 1, "name": "b", "score": 1.0, "_change_type": "INSERT"}], 1)
    assert dk.scan(table).to_arrow().to_pylist() == [{"number": 1, "name": "b", "score": 1.0}]


def test_a_table_that_is_dropped_and_made_again_is_another(catalog: dk.Catalog) -> None:
    table = people(catalog)
    with opened(table) as running:
        list(running.run(BATCHES[:3]))
        catalog.pyiceberg.drop_table(table.identifier)
        again = dk.create_table(catalog, table.name, PEOPLE, format_version=3)
        with refused(again, dk.NotFoundError, "table-not-found"):
            running.write(BATCHES[3], 3)
        with refused(again, dk.NotFoundError, "table-not-found"):
            running.write(BATCHES[0], 0)
    with opened(again) as other:
        with refused(again, dk.InvalidInputError, "batch-gap"):
            other.write(BATCHES[3], 3)
        list(other.run(BATCHES))
    check(again, replay(BATCHES))


# --- threads, and an order that is none -------------------------------------------------------------------------------


def test_three_threads_write_through_one_sink(catalog: dk.Catalog) -> None:
    """What one thread reads in, another does not commit: each snapshot has the rows of the batch that it names."""
    table = people(catalog, properties={"commit.retry.min-wait-ms": "1"})
    batches = [[put(10 * n + i, f"batch {n}") for i in range(4)] for n in range(12)]
    turn, waiting = [0], threading.Condition()
    errors: list[Exception] = []

    def work(running: dk.stream.Sink, start: int) -> None:
        try:
            for number in range(start, len(batches), 3):
                with waiting:
                    waiting.wait_for(lambda number=number: turn[0] >= number or errors, 60)
                    turn[0] += 1  # the next thread starts before this one's batch is in
                write_until_it_is_its_turn(running, batches[number], number)
        except Exception as e:  # noqa: BLE001  # shown below
            errors.append(e)

    with opened(table) as running:
        threads = [threading.Thread(target=work, args=(running, start)) for start in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors, errors
    check(table, replay(batches))
    found = [(s["summary"]["deletekit.batch-id"], s["summary"]["added-records"]) for s in snapshots_json(table)]
    assert found == [(str(n), "4") for n in range(12)]


def write_until_it_is_its_turn(running: dk.stream.Sink, rows: list[Row], number: int) -> None:
    while True:
        try:
            running.write(rows, number)
        except dk.InvalidInputError as e:
            if e.kind != "batch-gap":
                raise
        else:
            return


def test_nan_puts_no_rows_in_order(catalog: dk.Catalog) -> None:
    table = people(catalog)
    rows = [{**put(1, "a"), "at": float("nan")}, {**put(1, "b"), "at": 1.0}]
    for ordered in (True, False):
        with opened(table, order="at") as running, refused(table, dk.InvalidInputError, "change-order"):
            running.write(rows, 0, ordered=ordered)


@pytest.mark.parametrize(
    "values",
    [
        [3, 1, 2],
        [2.5, -0.5, 1.0],
        ["b", "ä", "a"],
        [b"\xff", b"", b"a"],
        [Decimal("2.50"), Decimal("-1.00"), Decimal("10.00")],
        [date(2021, 1, 1), date(1969, 1, 1), date(2020, 1, 1)],
        [True, False],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_changes_come_in_the_order_of_the_column_whatever_its_type(catalog: dk.Catalog, values: list[Any]) -> None:
    """In a dictionary too."""
    table = people(catalog)
    rows = pa.Table.from_pylist([put(1, str(value)) for value in values])
    at = pa.array(values)
    rows = rows.append_column("at", at.dictionary_encode() if isinstance(values[0], bytes | Decimal) else at)
    with opened(table, order="at") as running:
        running.write(rows, 0, ordered=False)
    assert dk.scan(table).to_arrow()["name"].to_pylist() == [str(max(values))]
    assert head_json(table)["summary"]["added-records"] == "1"
