"""`sequence_by`: of each key the highest sequence wins, in whatever order and batches its changes arrive."""

import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import deletekit as dk
from deletekit.stream.remembered_deletes import Memory, memory_of
from deletekit.stream.sources.left_out import with_marks
from deletekit.table.sinks.files import SEQUENCE_DELETES
from tests.stream.replay import check
from tests.tables import live, make, new_catalog, refused

Row = dict[str, Any]
EVENTS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("seq", pa.int64())])


def put(key: int, seq: int, name: str = "x") -> Row:
    return {"id": key, "name": f"{name}{seq}", "seq": seq, "_change_type": "UPDATE_AFTER"}


def gone(key: int, seq: int) -> Row:
    return {"id": key, "name": None, "seq": seq, "_change_type": "DELETE"}


def highest(events: list[Row]) -> dict[Any, Row]:
    """Say by a dict what must be live: the change with the highest sequence, if it is not a delete."""
    newest: dict[int, Row] = {}
    for event in events:
        if event["id"] not in newest or event["seq"] > newest[event["id"]]["seq"]:
            newest[event["id"]] = event
    live = {k: e for k, e in newest.items() if e["_change_type"] != "DELETE"}
    return {(k,): {n: v for n, v in e.items() if n != "_change_type"} for k, e in live.items()}


def guarded(table: dk.Table, **options: Any) -> dk.stream.Sink:
    return dk.stream.sink(table, "s", on="id", sequence_by="seq", **options)


@pytest.mark.parametrize("version", [2, 3])
def test_a_late_insert_does_not_bring_a_row_back(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, schema=EVENTS, format_version=version)
    with guarded(table) as sink:
        assert sink.write([put(1, 5), put(2, 5)], 0).late == 0
        assert sink.write([put(1, 4), gone(2, 3)], 1).late == 2
        check(table, highest([put(1, 5), put(2, 5)]))
        sink.write([gone(1, 9), gone(3, 9)], 2)
    with guarded(table) as sink:  # another process
        assert sink.write([put(1, 8), put(3, 8), put(2, 6)], 3).late == 2
        check(table, highest([put(2, 6)]))
        assert sink.write([put(1, 9, "again"), put(3, 10)], 4).late == 0  # of equal values the later arrival wins
        check(table, highest([put(1, 9, "again"), put(3, 10), put(2, 6)]))


events = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40)


@pytest.mark.parametrize("mode", ["auto", "index-only"])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=events, seed=st.integers(0, 2**32), data=st.data())
def test_the_highest_sequence_wins_whatever_the_order(
    tmp_path_factory: pytest.TempPathFactory, mode: str, events: list[tuple[int, bool]], seed: int, data: st.DataObject
) -> None:
    """Shuffled, twice, late, in batches of any size, with the sink opened anew and files compacted in between."""
    history = [gone(k, n) if delete else put(k, n) for n, (k, delete) in enumerate(events)]
    arrivals = history + random.Random(seed).sample(history, len(history) // 3)
    random.Random(seed).shuffle(arrivals)
    with new_catalog(tmp_path_factory.mktemp("sequence")) as catalog:
        table = make(catalog, schema=EVENTS, format_version=data.draw(st.sampled_from([2, 3])))
        sink, number = guarded(table, mode=mode), 0
        while arrivals:
            size = data.draw(st.integers(1, 9))
            batch, arrivals = arrivals[:size], arrivals[size:]
            sink.write(batch, number)
            number += 1
            what = data.draw(st.sampled_from(["", "", "again", "reopen", "compact"]))
            if what == "again":
                assert sink.write(batch, number - 1).status == "skipped"
            elif what == "reopen":
                sink.close()
                sink = guarded(dk.load_table(catalog, table.identifier), mode=mode)
            elif what == "compact":
                dk.compact(table.refresh())
        sink.close()
        check(table, highest(history))


DAY = datetime(2026, 1, 1)  # noqa: DTZ001  # for columns without a zone
KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [-1, 0, 7]),
    (pa.float32(), [-0.5, 0.25, float("inf")]),
    (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.01"), Decimal("2.00")]),
    (pa.date32(), [date(1969, 1, 1), date(1970, 1, 2), date(2026, 1, 1)]),
    (pa.time64("us"), [time(0, 0, 1), time(0, 0, 1, 5), time(23)]),
    (pa.timestamp("us"), [DAY - timedelta(days=20_000), DAY, DAY + timedelta(microseconds=1)]),
    (pa.timestamp("us", "UTC"), [datetime(2026, 1, d, tzinfo=UTC) for d in (1, 2, 3)]),
    (pa.timestamp("ns"), [DAY + timedelta(days=d) for d in range(3)]),
    (pa.string(), ["", "a", "ü"]),
]


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda v: str(v) if isinstance(v, pa.DataType) else "")
def test_every_type_that_has_an_order(catalog: dk.Catalog, kind: pa.DataType, values: list[Any]) -> None:
    """Text keys too, which are hashed by their bytes."""
    columns = pa.schema([pa.field("id", pa.string()), pa.field("seq", kind)])
    table = make(catalog, schema=columns, format_version=3)
    low, middle, high = ({"seq": v} for v in values)
    deletes, inserts = {"_change_type": "DELETE"}, {"_change_type": "INSERT"}
    with guarded(table) as sink:
        sink.write(
            [{"id": "a", **high, **inserts}, {"id": "b", **middle, **deletes}, {"id": None, **high, **deletes}], 0
        )
    with guarded(table) as sink:
        late = [{"id": "a", **middle, **deletes}, {"id": "b", **low, **inserts}, {"id": None, **middle, **inserts}]
        assert sink.write(late, 1).late == 3
        assert sink.write([{"id": "b", **middle, **deletes}], 2).late == 0
        sink.write([{"id": "b", **high, **inserts}], 3)
    check(table, {k: {"id": k, **high} for k in ("a", "b")})


def test_a_column_and_a_key_whose_types_were_promoted(catalog: dk.Catalog) -> None:
    columns = pa.schema([pa.field("id", pa.int32()), pa.field("seq", pa.int32())])
    table = make(catalog, schema=columns, format_version=2)
    with guarded(table) as sink:
        sink.write([gone_at(1, 7)], 0)
        dk.update_column(table, "seq", type="long")
        dk.update_column(table, "id", type="long")
        assert sink.write([{"id": 1, "seq": 6, "_change_type": "INSERT"}], 1).late == 1
        sink.write([gone_at(1, 2**40)], 2)
    with guarded(table) as sink:
        assert sink.write([{"id": 1, "seq": 2**40 - 1, "_change_type": "INSERT"}], 3).late == 1
    check(table, {})


def delete_files(table: dk.Table) -> list[Path]:
    return sorted(Path(table.refresh().location.removeprefix("file://"), "metadata", "_deletekit").glob("*.deletes"))


def gone_at(key: Any, seq: int) -> Row:
    return {"id": key, "seq": seq, "_change_type": "DELETE"}


def test_a_truncation_has_no_sequence(catalog: dk.Catalog) -> None:
    """An older insert could bring a row back after it."""
    table = make(catalog, schema=EVENTS)
    rows = pa.Table.from_pylist([put(3, 1)], schema=EVENTS.append(pa.field("_change_type", pa.string())))
    with guarded(table) as sink:
        sink.write([put(1, 5), put(2, 5)], 0)
        with refused(table, dk.InvalidInputError, "truncate"):
            sink.write(with_marks(rows, truncate=True), 1)
        sink.write([gone(2, 6)], 1)
    with guarded(table, allow_rewind=True) as sink:
        sink.write(with_marks(rows, truncate=True), 2)
        assert sink.write([put(2, 5)], 3).late == 1
    check(table, highest([put(3, 1)]))


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_without_its_remembered_deletes_nothing_is_written(catalog: dk.Catalog, how: str) -> None:
    table = make(catalog, schema=EVENTS)
    with guarded(table) as sink:
        sink.write([gone(1, 5)], 0)
    (file,) = delete_files(table)
    if how == "missing":
        file.unlink()
        assert [f.kind for f in dk.verify(table).findings] == ["sequence-deletes"]
    else:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    with guarded(table) as sink, refused(table, dk.FormatError, "sequence-deletes"):
        sink.write([put(1, 4)], 1)
    with guarded(table, allow_rewind=True) as sink:
        assert sink.write([put(1, 4)], 1).late == 0
    with guarded(table) as sink:
        assert sink.write([put(1, 3)], 2).late == 1


def test_an_entry_of_the_summary_names_no_other_folder(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=EVENTS)
    with pytest.raises(dk.FormatError, match="remembered deletes"):
        memory_of({SEQUENCE_DELETES: f"1,../../{'0' * 32}-{'0' * 12}.deletes"})
    assert memory_of(table.metadata.properties) == Memory()


def test_files_of_deletes_are_few(catalog: dk.Catalog) -> None:
    """Small ones are merged, and each key is in them once with its newest delete."""
    table = make(catalog, schema=EVENTS)
    with guarded(table) as sink:
        for number in range(20):
            sink.write([gone(k, number) for k in range(number % 3, 9)], number)
    head = table.refresh().metadata.snapshot_of_ref("main")
    assert head is not None
    memory = memory_of(head.summary)
    assert memory.batches == 20
    assert len(memory.names) <= 2
    with guarded(table) as sink:
        assert sink.write([put(0, 17), put(1, 18), put(5, 18), put(8, 19)], 20).late == 3
    check(table, highest([put(8, 19)]))


def test_deletes_are_forgotten_after_a_number_of_batches(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=EVENTS)
    with guarded(table, forget_deletes_after=2) as sink:
        sink.write([gone(1, 5), gone(2, 5)], 0)
        sink.write([], 1)
        assert sink.write([put(1, 4)], 2).late == 1
        assert sink.write([put(2, 4), gone(3, 1)], 3).late == 0
    check(table, highest([put(2, 4)]))


def test_a_forgotten_delete_hides_no_newer_one(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=EVENTS)
    with guarded(table, forget_deletes_after=3) as sink:
        sink.write([gone(1, 100), gone(2, 10)], 0)
        sink.write([], 1)
        sink.write([gone(2, 10)], 2)  # remembered from here on
        sink.write([put(1, 50), gone(3, 1)], 3)
        assert sink.write([gone(1, 60), put(2, 9)], 4).late == 1
        assert sink.write([put(1, 55)], 5).late == 1
    check(table, {})


def test_a_rollback_takes_the_memory_back(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": 7, "name": "x", "seq": 1}], schema=EVENTS)
    before = table.refresh().metadata.snapshot_of_ref("main")
    assert before is not None
    with guarded(table, allow_rewind=True) as sink:
        sink.write([gone(1, 9)], 0)
        sink.write([gone(7, 9)], 1)
        dk.rollback(table, snapshot_id=before.snapshot_id)
        assert sink.write([put(1, 4), put(7, 2)], 2).late == 0
    check(table, highest([put(1, 4), put(7, 2)]))


def test_another_writer_in_the_middle_of_a_batch(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost race is planned again on what landed, and the file of the first try is gone."""
    table = make(catalog, schema=EVENTS)
    with guarded(table) as sink:
        sink.write([put(1, 1), put(2, 1)], 0)
        commit, other = type(catalog).commit, dk.load_table(catalog, table.identifier)

        def racing(*arguments: Any) -> Any:
            monkeypatch.setattr(type(catalog), "commit", commit)
            dk.upsert(other, [{"id": 1, "name": "other", "seq": 5}], on=["id"])
            return commit(*arguments)

        monkeypatch.setattr(type(catalog), "commit", racing)
        progress = sink.write([put(1, 4), gone(2, 4), gone(3, 4)], 1)
        assert progress.commit is not None
        assert (progress.late, progress.commit.attempts) == (1, 2)
    assert len(delete_files(table)) == 1
    check(table, {1: {"id": 1, "name": "other", "seq": 5}})


def test_rows_of_others_without_a_value_are_older_than_all(catalog: dk.Catalog) -> None:
    table = make(catalog, [{"id": 1, "name": "x", "seq": None}], schema=EVENTS)
    with guarded(table) as sink:
        assert sink.write([put(1, -(2**63))], 0).late == 0
    check(table, highest([put(1, -(2**63))]))


def test_a_batch_is_in_order_by_sequence_before_order(catalog: dk.Catalog) -> None:
    """So the result does not depend on where the stream is cut into batches."""
    table = make(catalog, schema=EVENTS)
    rows = [{**put(1, 3), "at": 1}, {**put(1, 2), "at": 2}, {**put(2, 1, "b"), "at": 2}, {**put(2, 1, "a"), "at": 1}]
    with guarded(table, order="at") as sink:
        sink.write(rows, 0, ordered=False)
    check(table, highest([put(1, 3), put(2, 1, "b")]))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"sequence_by": "nome"}, "sequence-by"),
    ({"sequence_by": "flag"}, "sequence-by"),
    ({"sequence_by": "seq", "mode": "eq-only"}, "sink-option"),
    ({"forget_deletes_after": 5}, "sink-option"),
    ({"sequence_by": "seq", "forget_deletes_after": 0}, "sink-option"),
    ({"evolve": "drop"}, "sink-option"),
]


@pytest.mark.parametrize(("options", "kind"), REFUSED)
def test_options_that_are_refused(catalog: dk.Catalog, options: dict[str, Any], kind: str) -> None:
    table = make(catalog, schema=EVENTS.append(pa.field("flag", pa.bool_())))
    with refused(table, dk.InvalidInputError, kind):
        dk.stream.sink(table, "s", on="id", **options)


def test_changes_that_are_refused(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=EVENTS.set(2, pa.field("seq", pa.float64())))
    with guarded(table) as sink:
        for row in (put(1, 1) | {"seq": None}, gone(1, 1) | {"seq": None}, put(1, 1) | {"seq": float("nan")}):
            with refused(table, dk.InvalidInputError, "sequence-by", field="seq"):
                sink.write([row], 0)
        with refused(table, dk.InvalidInputError, "sequence-by", field="seq"):
            sink.write([{"id": 1, "_change_type": "DELETE"}], 0)
        sink.write([put(1, 1)], 0)
    dk.append(table, [{"id": 2, "name": "x", "seq": float("nan")}])
    with guarded(table) as sink, refused(table, dk.InvalidInputError, "sequence-by", field="seq"):
        sink.write([put(2, 1)], 1)


def test_a_guard_is_not_left_out_later(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=EVENTS.append(pa.field("other", pa.int64())))
    with guarded(table) as sink:
        sink.write([put(1, 1)], 0)
    for options in ({}, {"sequence_by": "other"}):
        with refused(table, dk.InvalidInputError, "sequence-changed", field="sequence_by"):
            dk.stream.sink(table, "s", on="id", **options)


def test_expiry_and_orphan_removal_keep_what_counts(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=EVENTS)
    with guarded(table) as sink:
        for number in range(6):
            sink.write([gone(k, number) for k in range(1 + number)], number)
    left = delete_files(table)[0].with_name(f"{'0' * 32}-{'0' * 12}.deletes")  # of a process that was killed
    left.write_bytes(b"")
    before = len(delete_files(table))
    dk.expire_snapshots(table, older_than=2**62, retain_last=1)
    head = table.refresh().metadata.snapshot_of_ref("main")
    assert head is not None
    named = set(memory_of(head.summary).names)
    assert {f.name for f in delete_files(table)} == named | {left.name}
    assert len(named) + 1 < before
    dk.remove_orphan_files(table, older_than=2**62, force=True)
    assert {f.name for f in delete_files(table)} == named
    with guarded(table) as sink:
        assert sink.write([put(k, 4) for k in range(6)], 6).late == 6
    check(table, {})


def test_erase_leaves_no_hash_of_a_key(catalog: dk.Catalog) -> None:
    """Also not by a sink that was open and knows them: it refuses, as without them an older row could come back."""
    table = make(catalog, schema=EVENTS)
    with guarded(table) as opened:
        opened.write([put(1, 1), put(2, 1)], 0)
        opened.write([gone(3, 5)], 1)
        dk.erase(table, "id = 2")
        assert not delete_files(table)
        with refused(table, dk.FormatError, "sequence-deletes"):
            opened.write([put(3, 4)], 2)
    with guarded(table) as sink, refused(table, dk.FormatError, "sequence-deletes"):
        sink.write([put(3, 4)], 2)
    with guarded(table, allow_rewind=True) as sink:
        sink.write([put(4, 4)], 2)
    assert [row["id"] for row in live(table)] == [1, 4]
