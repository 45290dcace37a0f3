"""Topics of a real broker become the rows of a dict, and a position that does not fit is refused by name."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from deletekit.stream.batch_run import BatchProgress
from deletekit.stream.sources.kafka import Offsets, kafka
from tests.commit.faults import KILLED
from tests.conftest import found_jars
from tests.invariants import check_table
from tests.kafka_broker import SPARK_KAFKA_JARS, SPARK_KAFKA_NAMES, KafkaBroker
from tests.stream.sources.dying import NAME, ROOT, dying
from tests.stream.sources.plain import PEOPLE, PlainJson, Row, State, random_changes, send, send_events
from tests.tables import expected, live, make, new_catalog, unchanged

POSITION = "deletekit.source-position"
Run = Callable[..., list[BatchProgress]]


@pytest.fixture
def table(catalog: dk.Catalog) -> dk.Table:
    return make(catalog, schema=PEOPLE)


@pytest.fixture
def run(kafka_broker: KafkaBroker, table: dk.Table) -> Run:
    """Give a function that opens a sink and writes all of a topic."""

    def run_(*topics: str, sink_id: str = "s", order: str | None = None, **options: Any) -> list[BatchProgress]:
        source = kafka(kafka_broker.servers, topics, PlainJson(), **options)
        with dk.stream.sink(table.refresh(), sink_id, on="id", order=order) as sink:
            return list(sink.run_source(source))

    return run_


def position(table: dk.Table) -> Any:
    snapshot = table.refresh().metadata.snapshot_of_ref("main")
    assert snapshot is not None
    return json.loads(snapshot.summary[POSITION])


def refused(kind: str, run: Callable[[], Any], table: dk.Table) -> dk.InvalidInputError:
    with unchanged(table), pytest.raises(dk.InvalidInputError) as caught:
        run()
    assert caught.value.kind == kind
    return caught.value


def put(number: int, name: str = "a") -> Row:
    return {"id": number, "name": name, "score": 0.5, "_change_type": "INSERT"}


def row(number: int, name: str = "a") -> Row:
    return {"id": number, "name": name, "score": 0.5}


@pytest.mark.slow
def test_a_topic_and_what_comes_later(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    topic, state = kafka_broker.topic(3), State()
    for turn in range(3):
        with kafka_broker.producer() as producer:
            send(producer, topic, random_changes(turn, 200, 40, state), 3)
        done = run(topic, batch_messages=70)
        assert [p.status for p in done] == ["committed"] * 3
        assert [p.rows for p in done] == [70, 70, 60]
        assert [p.batch_id for p in done] == [3 * turn, 3 * turn + 1, 3 * turn + 2]
        assert [p.behind for p in done] == [130, 60, 0]
        assert live(table.refresh()) == expected(list(state.values()))
    assert sum(position(table)["topics"][topic]["offsets"]) == 600
    with unchanged(table):
        assert run(topic) == []


def test_only_what_transactions_committed(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    topic = kafka_broker.topic()
    with kafka_broker.producer(**{"transactional.id": topic}) as producer:
        producer.init_transactions()
        for number, ends in enumerate([producer.commit_transaction, producer.abort_transaction] * 3):
            producer.begin_transaction()
            send(producer, topic, [put(2 * number), put(2 * number + 1)])
            producer.flush()  # else what is aborted never gets to the broker
            ends()
    assert [p.rows for p in run(topic, batch_messages=4)] == [4, 2]
    assert sorted(r["id"] for r in live(table.refresh())) == [0, 1, 4, 5, 8, 9]
    # 12 messages, and the mark at the end of each of the 6 transactions.
    assert position(table)["topics"][topic]["offsets"] == [18]
    assert run(topic) == []


@pytest.mark.slow
def test_two_topics_are_two_sets_of_offsets(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    one, two, empty = (kafka_broker.topic() for _ in range(3))
    with kafka_broker.producer() as producer:
        send(producer, one, [put(1)])
        send(producer, two, [put(2), put(3)])
    assert [p.rows for p in run(one, two, empty)] == [3]
    offsets = {name: t["offsets"] for name, t in position(table)["topics"].items()}
    assert offsets == {one: [1], two: [2], empty: [0]}
    error = refused("source-changed", lambda: run(one, two), table)
    assert error.field == "topics"


def test_a_new_partition_is_read_from_its_beginning(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    topic = kafka_broker.topic()
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(0)])
    run(topic)
    kafka_broker.grow(topic, 3)
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(1), put(2)], 3)
    assert [p.rows for p in run(topic)] == [2]
    assert position(table)["topics"][topic]["offsets"] == [1, 1, 1]


def test_messages_that_retention_took_are_lost(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    topic = kafka_broker.topic()
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(n) for n in range(6)])
    kafka_broker.forget(topic, 2)
    assert [p.rows for p in run(topic)] == [4]  # a new sink begins with what there is
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(n) for n in range(6, 9)])
    kafka_broker.forget(topic, 6)
    assert [p.rows for p in run(topic)] == [3]
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(n) for n in range(9, 12)])
    kafka_broker.forget(topic, 10)
    error = refused("source-lost", lambda: run(topic), table)
    assert (error.found, error.expected) == (9, ">= 10")


def test_a_topic_that_was_made_anew_is_not_the_old_one(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    topic = kafka_broker.topic()
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(1)])
    run(topic)
    kafka_broker.drop(topic)
    with pytest.raises(dk.NotFoundError, match="topic"):
        run(topic)
    kafka_broker.topic(name=topic)
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(2), put(3)])
    error = refused("source-lost", lambda: run(topic), table)
    assert "made again" in str(error)
    assert [p.rows for p in run(topic, sink_id="another")] == [2]


def test_a_topic_made_anew_in_the_middle(kafka_broker: KafkaBroker, table: dk.Table) -> None:
    topic = kafka_broker.topic()
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(1), put(2)])
    source = kafka(kafka_broker.servers, topic, PlainJson(), batch_messages=1)
    with dk.stream.sink(table, "s", on="id") as sink:
        batches = sink.run_source(source)
        next(batches)
        kafka_broker.drop(topic)
        kafka_broker.topic(name=topic)
        with kafka_broker.producer() as producer:
            send(producer, topic, [put(3), put(4)])
        refused("source-lost", lambda: list(batches), table)
    assert live(table.refresh()) == [row(1)]


def test_a_key_in_two_partitions_has_no_order(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    topic = kafka_broker.topic(2)
    with kafka_broker.producer() as producer:
        for number, name in enumerate("ab"):
            producer.produce(topic, json.dumps(put(1, name) | {"score": -number}), "1", number)
    error = refused("change-order", lambda: run(topic), table)
    assert f"topic {topic}, partition 1, offset 0" in str(error)
    run(topic, order="score")
    assert [r["name"] for r in live(table.refresh())] == ["a"]


def test_a_message_that_is_none_stops_before_its_batch(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    topic = kafka_broker.topic()
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(1), put(2)])
        producer.produce(topic, b"{", b"3")
    with pytest.raises(dk.InvalidInputError, match=f"topic {topic}, partition 0, offset 2"):
        run(topic, batch_messages=2)
    assert live(table.refresh()) == [row(1), row(2)]
    assert position(table)["topics"][topic]["offsets"] == [2]


def test_a_group_follows(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    topic = kafka_broker.topic()
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(1), put(2)])
    run(topic, group="watched")
    consumer = Consumer({"bootstrap.servers": kafka_broker.servers, "group.id": "watched"})
    assert [p.offset for p in consumer.committed([TopicPartition(topic, 0)], timeout=60)] == [2]
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    with unchanged(table):
        assert run(topic, group="watched") == []


def test_the_numbers_of_a_source_are_its_own(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    topic = kafka_broker.topic()
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(1)])
    run(topic)
    with dk.stream.sink(table, "s", on="id") as sink:
        refused("query-changed", lambda: sink.write([put(2)], 1), table)
    with dk.stream.sink(table, "by-hand", on="id") as sink:
        sink.write([put(2)], 0)
    refused("source-changed", lambda: run(topic, sink_id="by-hand"), table)


def test_after_a_rollback_that_is_accepted(kafka_broker: KafkaBroker, table: dk.Table, run: Run) -> None:
    topic = kafka_broker.topic()
    with kafka_broker.producer() as producer:
        send(producer, topic, [put(1), put(2), put(3)])
    done = run(topic, batch_messages=1)
    assert done[0].commit is not None
    dk.rollback(table.refresh(), done[0].commit.snapshot_id)
    refused("branch-rewound", lambda: run(topic), table)
    source = kafka(kafka_broker.servers, topic, PlainJson())
    with dk.stream.sink(table.refresh(), "s", on="id", allow_rewind=True) as sink:
        assert [p.rows for p in sink.run_source(source)] == [2]
    assert live(table.refresh()) == [row(1), row(2), row(3)]


@pytest.mark.slow
def test_processes_that_are_killed_and_others_that_go_on(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic, state, random_ = kafka_broker.topic(3), State(), random.Random(1)
    with new_catalog(tmp_path) as catalog:
        table = dk.create_table(catalog, NAME, PEOPLE)
        # Two at once; each with batches of its own size, so that they seldom write the same.
        arguments = [{"servers": kafka_broker.servers, "topics": [topic], "batch_messages": n} for n in (17, 29)]
        killed = sent = 0
        with dying() as one, dying() as two:
            for turn in range(10):
                with kafka_broker.producer() as producer:
                    sent += send_events(producer, topic, random_changes(turn, 100, 40, state), 3)
                for each, argument in zip((one, two), arguments, strict=True):
                    when = random_.choice(["before", "after"])
                    each.start(tmp_path, "kafka", argument, random_.randrange(20, 120), when)
                codes = [each.wait() for each in (one, two)]
                assert set(codes) <= {0, KILLED}
                killed += codes.count(KILLED)
            assert one.run(tmp_path, "kafka", arguments[0], 0, "before") == 0
        table.refresh()
        assert live(table) == expected(list(state.values()))
        assert killed > 5
        check_steps(table, topic, sent)
        check_table(table, orphans=False)


def check_steps(table: dk.Table, topic: str, messages: int) -> None:
    """Hold that the batches' positions go forward only, and end where the topic ends.

    Between batches are the snapshots of the sinks' own maintenance, which change no row.
    """
    last = [0, 0, 0]
    snapshots = sorted(table.metadata.snapshots.values(), key=lambda s: s.sequence_number)
    batches = [s for s in snapshots if "deletekit.batch-id" in s.summary]
    assert {s.operation for s in snapshots if s not in batches} <= {"replace"}
    for number, snapshot in enumerate(batches):
        assert int(snapshot.summary["deletekit.batch-id"]) == number
        offsets = json.loads(snapshot.summary[POSITION])["topics"][topic]["offsets"]
        assert offsets != last
        assert all(new >= old for new, old in zip(offsets, last, strict=True))
        last = offsets
    assert sum(last) == messages


@pytest.mark.slow
@pytest.mark.parametrize("turns", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_connector_of_spark(
    own_spark: None,
    java: str,
    kafka_broker: KafkaBroker,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    turns: int,
) -> None:
    found = found_jars(java, tmp_path_factory, SPARK_KAFKA_JARS).split(os.pathsep)
    jars = [jar for jar in found if Path(jar).name.startswith(SPARK_KAFKA_NAMES)]
    topic, state = kafka_broker.topic(2), State()
    with new_catalog(tmp_path / "warehouse") as catalog:
        table = dk.create_table(catalog, NAME, PEOPLE)
        letters = dk.stream.create_dead_letters(catalog, "test.letters")
        for turn in range(turns):  # the second process goes on with the first one's checkpoint
            with kafka_broker.producer() as producer:
                producer.produce(topic, f"no event {turn}", b"{}", turn)
                send_events(producer, topic, random_changes(turn, 150, 30, state), 2)
            places = [kafka_broker.servers, topic, str(tmp_path / "checkpoint"), str(tmp_path / "warehouse")]
            command = [sys.executable, "-m", "tests.stream.sources.spark_stream", ",".join(jars), *places]
            done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stderr[-3000:]
            assert live(table.refresh()) == expected(list(state.values()))
        assert len(table.metadata.snapshots) > 2 * turns
        kept = sorted((row["row"], row["source"], row["position"].split(":")[0]) for row in live(letters.refresh()))
        assert kept == [(f"no event {turn}", topic, str(turn)) for turn in range(turns)]


@pytest.mark.parametrize("setting", ["isolation.level", "enable.auto.commit", "auto.offset.reset"])
def test_settings_that_exactly_once_depends_on(setting: str) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: pip install 'deletekit[kafka]'")
    with pytest.raises(dk.InvalidInputError, match=setting):
        kafka("localhost:1", "t", PlainJson(), properties={setting: "x"})


def test_a_broker_that_is_not_there(table: dk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: pip install 'deletekit[kafka]'")
    monkeypatch.setattr(sys.modules["deletekit.stream.sources.kafka"], "_TIMEOUT", 1.0)
    with dk.stream.sink(table, "s", on="id") as sink, pytest.raises(dk.StorageError, match="Kafka"):
        list(sink.run_source(kafka("127.0.0.1:9", "t", PlainJson())))


def test_a_position_says_whose_it_is() -> None:
    offsets = Offsets(cluster="c", topics={"t": "i"}, partitions={("t", 0): 5, ("t", 1): 7})
    assert Offsets.parse(offsets.text()) == offsets
    for text in ("", "5", '{"source":"postgres"}'):
        with pytest.raises(dk.InvalidInputError, match="another kind of source"):
            Offsets.parse(text)
