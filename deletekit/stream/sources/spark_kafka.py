"""Write topics that Spark's own connector reads: each micro-batch's messages are decoded on the driver."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deletekit.errors import InvalidInputError
from deletekit.public import public
from deletekit.spark.releases import query_of_frame, to_arrow
from deletekit.stream.sources.messages import Decoder, Message

if TYPE_CHECKING:
    from deletekit.stream.sink import Sink

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
