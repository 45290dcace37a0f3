"""Read topics of Kafka through confluent-kafka, with offsets that only the table keeps.

confluent-kafka is Confluent's own client on librdkafka: it has a release about every month, and wheels for each
platform. Partitions are assigned, never subscribed to: no rebalance takes one away in the middle of a batch.
Each topic is known by its id and each cluster by its id, so that a topic that was made again is not taken for the old.

`foreach_messages` writes topics that Spark's own connector reads; the driver decodes the messages of each micro-batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deletekit.errors import InvalidInputError, NotFoundError, StorageError
from deletekit.public import public, public_methods
from deletekit.spark.releases import query_of_frame, to_arrow
from deletekit.stream.sources.messages import Decoder, Message
from deletekit.stream.sources.source import SourceBatch, Until, check_same, lost, position_text, read_position

if TYPE_CHECKING:
    from deletekit.stream.sink import Sink


Partition = tuple[str, int]
KIND = "kafka"
_OURS = ("bootstrap.servers", "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "isolation.level")
_FIXED = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # an offset that is out of range is lost data, and never silent
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
_TIMEOUT = 30.0
_POLL = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The offsets that are read next.

    Attributes
    ----------
    cluster: the cluster's id.
    topics: the id of each topic. Brokers before Kafka 2.8 have none, and give the same id for all.
    partitions: the offset of each partition.
    is_first: whether nothing was read before, so that partitions begin at whatever they still have.
    """

    cluster: str
    topics: Mapping[str, str]
    partitions: Mapping[Partition, int]
    is_first: bool = False

    def text(self) -> str:
        """Return the position as text: for each topic its id, and the offsets of partitions 0, 1, ..."""
        topics = {
            name: {"id": topic_id, "offsets": [o for (t, _), o in sorted(self.partitions.items()) if t == name]}
            for name, topic_id in self.topics.items()
        }
        return position_text(KIND, {"cluster": self.cluster, "topics": topics})

    @classmethod
    def parse(cls, position: str) -> Offsets:
        """Read a position. Raise InvalidInputError for one of another kind of source."""
        place = read_position(position, KIND)
        topics = place["topics"]
        return cls(
            cluster=place["cluster"],
            topics={name: topic["id"] for name, topic in topics.items()},
            partitions={(name, p): o for name, topic in topics.items() for p, o in enumerate(topic["offsets"])},
        )


def next_offsets(found: Offsets, last: Offsets) -> Offsets:
    """Return the position with the partitions that were found; new ones begin at 0.

    Raise InvalidInputError if the position is of other topics or of another cluster, or a topic was made again.
    """
    check_same({"cluster": last.cluster}, cluster=found.cluster)
    check_same({"topics": sorted(last.topics)}, topics=sorted(found.topics))
    for name, topic_id in found.topics.items():
        if topic_id != last.topics[name]:
            message = "the topic was deleted and made again; what it had before may be lost"
            raise lost(message, "topics", f"{name} with id {topic_id}", f"id {last.topics[name]}, or another sink id")
    gone = [p for p in last.partitions if p not in found.partitions]
    if gone:
        raise lost("the topic has fewer partitions than before", "topics", f"no partition {gone[0][1]}", gone[0][0])
    return replace(found, partitions={**found.partitions, **last.partitions})


@public
def kafka(
    servers: str,
    topics: str | Sequence[str],
    decoder: Decoder,
    *,
    batch_messages: int = 10_000,
    batch_seconds: float = 10.0,
    group: str | None = None,
    properties: Mapping[str, Any] | None = None,
) -> Kafka:
    """Return a source that reads topics of Kafka, for `Sink.run_source`.

    A batch has its messages in order of topic, partition and offset. The order across partitions is not defined, so
    all messages of a key must be in one partition. A batch with the same message key in two partitions is refused, if
    the sink has no column `order`.

    Parameters
    ----------
    servers: host and port of one or more brokers, with commas.
    topics: whose messages are change rows of the one table.
    decoder: of the messages' format, as `stream.sources.decoder` returns it.
    batch_messages: end a batch after so many messages.
    batch_seconds: end a batch so many seconds after its first message.
    group: a consumer group whose offsets follow the table's, so that tools show the lag. They are never read.
    properties: further settings of librdkafka, for example for TLS.

    Raises InvalidInputError for a setting that exactly-once depends on, and EnvironmentMissingError without
    confluent-kafka.
    """
    import confluent_kafka  # noqa: F401, PLC0415  # asked for now, not in the middle of a stream

    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names or len(set(names)) < len(names):
        raise InvalidInputError("topics are different names", kind="topics", field="topics", found=", ".join(names))
    if batch_messages < 1:
        raise InvalidInputError(
            "a batch has at least one message", "batch-size", "batch_messages", batch_messages, ">= 1"
        )
    for name in properties or {}:
        if name in _OURS or name in _FIXED:
            message = "this setting is deletekit's own: exactly-once depends on it"
            raise InvalidInputError(message, kind="kafka-setting", field=name)
    settings = {**(properties or {}), **_FIXED, "bootstrap.servers": servers, "group.id": group or "deletekit"}
    return Kafka(names, decoder, settings, batch_messages, batch_seconds, follows_group=group is not None)


@public_methods
class Kafka:
    """Topics of Kafka as a source; made by `kafka`."""

    kind = "kafka"

    def __init__(
        self,
        topics: tuple[str, ...],
        decoder: Decoder,
        settings: dict[str, Any],
        batch_messages: int,
        batch_seconds: float,
        *,
        follows_group: bool,
    ) -> None:
        self._topics, self._decoder, self._settings = topics, decoder, settings
        self._batch_messages, self._batch_seconds = batch_messages, batch_seconds
        self._follows_group = follows_group
        self._consumer: Any = None

    def __repr__(self) -> str:
        return f"Kafka({self._settings['bootstrap.servers']}, {', '.join(self._topics)})"

    def batches(self, position: str | None, *, until: Until = "end") -> Iterator[SourceBatch]:
        """Yield the batches after a position; see `Source`."""
        import confluent_kafka as ck  # noqa: PLC0415

        consumer = ck.Consumer(self._settings, logger=_logger())
        try:
            yield from self._batches(consumer, position, until)
        except ck.KafkaException as e:
            raise StorageError("Kafka does not answer, or refuses", "kafka", found=str(e)) from e
        finally:
            self._consumer = None
            consumer.close()

    def _batches(self, consumer: Any, position: str | None, until: Until) -> Iterator[SourceBatch]:
        admin = self._admin()
        found = self._found(admin)
        offsets = replace(found, is_first=True) if position is None else next_offsets(found, Offsets.parse(position))
        reading = _Reading(consumer, offsets, is_endless=until is None)
        self._consumer = consumer
        while True:
            messages = reading.read(self._batch_messages, self._batch_seconds)
            # Asked after the messages were read: an id never comes back, so all of them are of the topic it names.
            offsets = next_offsets(self._found(admin), reading.offsets)
            if messages:
                yield SourceBatch(
                    position=offsets.text(),
                    decode=lambda schema, reject, m=messages: self._decoder.decode(m, schema, reject=reject),  # type: ignore[misc]
                    behind=reading.behind(),
                    unordered=_in_two_partitions(messages),
                )
            elif until == "end":
                return
            if offsets.partitions != reading.offsets.partitions:
                reading = _Reading(consumer, offsets, is_endless=until is None)

    def committed(self, position: str) -> None:
        """Tell the consumer group, if there is one, how far the table is."""
        if not self._follows_group or self._consumer is None:
            return
        import confluent_kafka as ck  # noqa: PLC0415

        offsets = Offsets.parse(position)
        marks = [ck.TopicPartition(t, p, o) for (t, p), o in offsets.partitions.items()]
        self._consumer.commit(offsets=marks, asynchronous=True)  # only tools look at it: no answer is needed

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        settings = {k: v for k, v in self._settings.items() if k not in _FIXED and k != "group.id"}
        return AdminClient(settings, logger=_logger())

    def _found(self, admin: Any) -> Offsets:
        """Return cluster, topics and partitions as they are now, each partition at 0."""
        import confluent_kafka as ck  # noqa: PLC0415

        try:
            cluster = admin.describe_cluster(request_timeout=_TIMEOUT).result().cluster_id
            asked = admin.describe_topics(ck.TopicCollection(list(self._topics)), request_timeout=_TIMEOUT)
            topics = {name: answer.result() for name, answer in asked.items()}
        except ck.KafkaException as e:
            if e.args[0].code() == ck.KafkaError.UNKNOWN_TOPIC_OR_PART:
                found = ", ".join(self._topics)
                raise NotFoundError("a topic is not there", kind="topic-not-found", field="topics", found=found) from e
            raise StorageError("Kafka does not answer, or refuses", "kafka", found=str(e)) from e
        return Offsets(
            cluster=str(cluster),
            topics={name: str(t.topic_id) for name, t in topics.items()},
            partitions={(name, p.id): 0 for name, t in topics.items() for p in t.partitions},
        )


@dataclass(slots=True)
class _Reading:
    """Partitions that are assigned to a consumer, how far each was read, and where each ends."""

    consumer: Any
    offsets: Offsets
    is_endless: bool
    at: dict[tuple[str, int], int] = field(init=False)
    ends: dict[tuple[str, int], int] = field(init=False)
    is_read: set[tuple[str, int]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        import confluent_kafka as ck  # noqa: PLC0415

        self.at, self.ends = {}, {}
        for (topic, partition), offset in self.offsets.partitions.items():
            low, high = self.consumer.get_watermark_offsets(ck.TopicPartition(topic, partition), timeout=_TIMEOUT)
            place = f"topic {topic}, partition {partition}"
            is_new = self.offsets.is_first
            if offset < low and not is_new:
                raise lost(f"messages were deleted before they were read: {place}", "offset", offset, f">= {low}")
            if offset > high:
                raise lost(f"the partition ends before the position: {place}", "offset", offset, f"<= {high}")
            self.at[topic, partition] = max(offset, low)
            self.ends[topic, partition] = high
        self.consumer.assign([ck.TopicPartition(t, p, o) for (t, p), o in self.at.items()])
        self._note_read()

    def read(self, count: int, seconds: float) -> list[Message]:
        """Read messages until there are enough, or time is over, or the end is there."""
        messages: list[Message] = []
        quiet = time.monotonic()
        deadline = quiet + seconds
        while len(messages) < count and (self.is_endless or len(self.is_read) < len(self.at)):
            found = self.consumer.consume(min(count - len(messages), 1000), _POLL)
            now = time.monotonic()
            if found:
                quiet = now
            elif now - quiet > _TIMEOUT:
                self._check_broker()
                quiet = now
            taken = [m for m in map(self._taken, found) if m is not None]
            deadline = now + seconds if taken and not messages else deadline
            messages += taken
            if now >= deadline and (messages or self.is_endless):
                break
        self.offsets = replace(self.offsets, partitions=dict(self.at), is_first=False)
        return sorted(messages, key=lambda m: (m.topic, m.partition, m.offset))

    def behind(self) -> int | None:
        """Return how many messages, at most, the partitions have after what was read, as far as the client knows."""
        import confluent_kafka as ck  # noqa: PLC0415

        total = 0
        for (topic, partition), at in self.at.items():
            _, high = self.consumer.get_watermark_offsets(ck.TopicPartition(topic, partition), cached=True)
            total += max(max(high, self.ends[topic, partition]) - at, 0)
        return total

    def _taken(self, found: Any) -> Message | None:
        place = found.topic(), found.partition()
        error = found.error()
        if error is not None:
            self._take_error(place, found, error)
            return None
        if found.offset() < self.at[place]:
            return None  # left over from an assignment before
        self.at[place] = found.offset() + 1
        self._note_read()
        _, sent = found.timestamp()
        return Message(
            key=found.key(),
            value=found.value(),
            topic=place[0],
            partition=place[1],
            offset=found.offset(),
            timestamp_ms=sent if sent >= 0 else None,
            headers=tuple(found.headers() or ()),
        )

    def _take_error(self, place: tuple[str, int], found: Any, error: Any) -> None:
        import confluent_kafka as ck  # noqa: PLC0415

        if error.code() == ck.KafkaError._PARTITION_EOF:  # noqa: SLF001  # its public name
            # Behind the last message there may be marks of transactions, which have offsets too.
            self.at[place] = max(self.at[place], found.offset())
            self.is_read.add(place)
        elif error.code() in (ck.KafkaError._AUTO_OFFSET_RESET, ck.KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
            message = f"messages were deleted before they were read: topic {place[0]}, partition {place[1]}"
            raise lost(message, "offset", self.at.get(place), error.str())
        elif not error.retriable() and error.code() != ck.KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            raise StorageError("Kafka does not answer, or refuses", "kafka", found=error.str())

    def _note_read(self) -> None:
        self.is_read.update(place for place, at in self.at.items() if at >= self.ends[place])

    def _check_broker(self) -> None:
        """Raise KafkaException if the broker does not answer."""
        self.consumer.list_topics(next(iter(self.at))[0], timeout=_TIMEOUT)


def _in_two_partitions(messages: Sequence[Message]) -> InvalidInputError | None:
    seen: dict[bytes, Message] = {}
    for message in messages:
        if message.key is None:
            continue
        first = seen.setdefault(message.key, message)
        if (first.topic, first.partition) != (message.topic, message.partition):
            text = "messages with the same key are in two partitions, so their order is not known"
            expected = "one partition for each key, or a sink with the column `order`"
            found = f"{first.place}; {message.place}"
            return InvalidInputError(text, kind="change-order", field="order", found=found, expected=expected)
    return None


def _logger() -> logging.Logger:
    """Return the logger of the client's own lines, which it else prints."""
    return logging.getLogger("deletekit.kafka")


_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


@public
def foreach_messages(sink: Sink, decoder: Decoder) -> Callable[[Any, int], None]:
    """Return a function for `writeStream.foreachBatch` of a stream that `readStream.format("kafka")` reads.

    Messages come in order of topic, partition and offset, so the sink needs no column `order`. Spark's checkpoint has
    the offsets, and its query and batch numbers name the batches, so each is in the table once. The batch is collected
    on the driver.

    Parameters
    ----------
    sink: writes the change rows.
    decoder: of the messages' format, as `stream.decoder` returns it.

    Messages that cannot be understood are dead letters, if the sink has a table for them.

    The function raises UnsupportedError under Spark Connect, InvalidInputError if a column of the connector is missing,
    and as `Sink.write`.
    """

    def write(frame: Any, batch_id: int) -> None:
        missing = [name for name in _COLUMNS if name not in frame.columns]
        if missing:
            message = "the stream lacks columns of Spark's Kafka connector"
            found = ", ".join(frame.columns)
            raise InvalidInputError(message, kind="source-columns", field=missing[0], found=found)
        names = [*_COLUMNS, *(n for n in frame.columns if n == "headers")]
        messages = _messages(to_arrow(frame.select(*names)))
        query_id = query_of_frame(frame)
        with sink.state.lock:  # its dead letters are those of this batch
            rows = sink.state.decoded(lambda schema, reject: decoder.decode(messages, schema, reject=reject))
            sink.write(rows, batch_id, query_id=query_id)

    return write


def _messages(rows: pa.Table) -> list[Message]:
    ordered = rows.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
    return [
        Message(
            key=row["key"],
            value=row["value"],
            topic=row["topic"],
            partition=row["partition"],
            offset=row["offset"],
            timestamp_ms=_milliseconds(row["timestamp"]),
            headers=tuple((h["key"], h["value"]) for h in row.get("headers") or ()),
        )
        for row in ordered.to_pylist()
    ]


def _milliseconds(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)
