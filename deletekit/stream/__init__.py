"""STREAM: change rows into a table, each batch exactly once, and from a staging branch to `main`.

Law: what a table holds afterwards is what a dict would hold, whatever was killed, sent twice or lost on the way.
"""

from deletekit.stream.batch_run import BatchProgress
from deletekit.stream.convert_equality_deletes import convert
from deletekit.stream.list_sinks import SinkInfo, drop_sink, sinks
from deletekit.stream.promote import Promotion, promote
from deletekit.stream.sink import Sink, sink

__all__ = ["BatchProgress", "Promotion", "Sink", "SinkInfo", "convert", "drop_sink", "promote", "sink", "sinks"]
