"""Apply streams of change rows to a table, each batch exactly once, and promote a staging branch to `main`.

Afterwards the table holds what a dict would hold, even if processes were killed, batches were sent twice, or answers
were lost.
"""

from deletekit.stream.batch_run import BatchProgress
from deletekit.stream.convert import convert
from deletekit.stream.promote import Promotion, promote
from deletekit.stream.sink import Sink, sink
from deletekit.stream.sink_list import SinkInfo, drop_sink, sinks
from deletekit.stream.sources import Decoder, Message, Source, decoder, foreach_messages, kafka, postgres

__all__ = [
    "BatchProgress",
    "Decoder",
    "Message",
    "Promotion",
    "Sink",
    "SinkInfo",
    "Source",
    "convert",
    "decoder",
    "drop_sink",
    "foreach_messages",
    "kafka",
    "postgres",
    "promote",
    "sink",
    "sinks",
]
