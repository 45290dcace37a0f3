"""Apply streams of change rows to a table, each batch exactly once, and promote a staging branch to `main`.

Afterwards the table holds what a dict would hold, even if processes were killed, batches were sent twice, or answers
were lost.
"""

from deletekit.stream.batch_run import BatchProgress
from deletekit.stream.dead_letters import DeadLetters, create_dead_letters, dead_letter_schema
from deletekit.stream.fan_out import FanOut, fan_out
from deletekit.stream.maintain import Maintenance
from deletekit.stream.promote import Promotion, promote
from deletekit.stream.sink import Sink, convert, sink
from deletekit.stream.sink_options import Maintain
from deletekit.stream.sinks import SinkInfo, drop_sink, reset_sink, sinks
from deletekit.stream.sources import Decoder, Message, Source, decoder, foreach_messages, kafka, table_changes

__all__ = [
    "BatchProgress",
    "DeadLetters",
    "Decoder",
    "FanOut",
    "Maintain",
    "Maintenance",
    "Message",
    "Promotion",
    "Sink",
    "SinkInfo",
    "Source",
    "convert",
    "create_dead_letters",
    "dead_letter_schema",
    "decoder",
    "drop_sink",
    "fan_out",
    "foreach_messages",
    "kafka",
    "promote",
    "reset_sink",
    "sink",
    "sinks",
    "table_changes",
]
