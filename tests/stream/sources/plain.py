"""Changes as plain JSON messages, the dict that says what the table holds, and a decoder that is only for tests."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

import deletekit as dk
from deletekit.stream.sources.messages import CHANGE_TYPE, Message, Reject

Row = dict[str, Any]
State = dict[int, Row]

PEOPLE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("score", pa.float64()),
    ]
)


class PlainJson:
    """Each value is a change row."""

    def decode(  # the decoder's signature
        self,
        messages: Sequence[Message],
        schema: Schema,  # noqa: ARG002
        *,
        reject: Reject | None = None,  # noqa: ARG002
    ) -> pa.Table:
        rows = []
        for message in messages:
            try:
                rows.append(json.loads(message.value or b"{}"))
            except ValueError as e:
                raise dk.InvalidInputError("no JSON", kind="message", found=message.place) from e
        return pa.Table.from_pylist(rows, schema=PEOPLE.append(pa.field(CHANGE_TYPE, pa.string())))


def random_changes(seed: int, count: int, keys: int, state: State) -> Iterator[Row]:
    """Yield random changes, and keep `state` as it is after each."""
    random_ = random.Random(seed)
    for _ in range(count):
        number = random_.randrange(keys)
        if number in state and random_.random() < 0.3:
            del state[number]
            yield {"id": number, CHANGE_TYPE: "DELETE"}
        else:
            row = {"id": number, "name": random_.choice(["a", "b", None, "ü"]), "score": random_.random()}
            yield {**row, CHANGE_TYPE: "UPDATE_AFTER" if number in state else "INSERT"}
            state[number] = row


def send(producer: Any, topic: str, rows: Sequence[Row] | Iterator[Row], partitions: int = 1) -> None:
    """Send change rows, each key to its partition."""
    for row in rows:
        producer.produce(topic, json.dumps(row), str(row["id"]), row["id"] % partitions)


def send_events(producer: Any, topic: str, rows: Iterator[Row], partitions: int = 1) -> int:
    """Send change rows as Debezium does: an envelope, and a tombstone behind each delete. Return how many messages."""
    sent = 0
    for row in rows:
        values = {name: value for name, value in row.items() if name != CHANGE_TYPE}
        key, partition = json.dumps({"id": row["id"]}), row["id"] % partitions
        events: list[Row | None]
        if row[CHANGE_TYPE] == "DELETE":
            events = [{"before": values, "after": None, "op": "d"}, None]
        else:
            events = [{"before": None, "after": values, "op": "u" if row[CHANGE_TYPE] == "UPDATE_AFTER" else "c"}]
        for event in events:
            producer.produce(topic, None if event is None else json.dumps(event), key, partition)
        sent += len(events)
    return sent
