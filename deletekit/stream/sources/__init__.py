"""Sources of change rows: formats decode messages, transports bring them.

`kafka` and `table_changes` make sources for `Sink.run_source`; `decoder` makes what understands
messages.
"""

from deletekit.stream.sources.kafka import Kafka, foreach_messages, kafka
from deletekit.stream.sources.messages import CHANGE_TYPE, FORMATS, SEQUENCE, Decoder, Message, Reject, decoder
from deletekit.stream.sources.source import Source, SourceBatch
from deletekit.stream.sources.table import TableChanges, table_changes

__all__ = [
    "CHANGE_TYPE",
    "FORMATS",
    "SEQUENCE",
    "Decoder",
    "Kafka",
    "Message",
    "Reject",
    "Source",
    "SourceBatch",
    "TableChanges",
    "decoder",
    "foreach_messages",
    "kafka",
    "table_changes",
]
