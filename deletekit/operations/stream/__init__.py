"""STREAM: change rows into a table, each batch exactly once, and from a staging branch to `main`.

Law: what a table holds afterwards is what a dict would hold, whatever was killed, sent twice or lost on the way.
"""

from deletekit.operations.stream.batch_run import BatchProgress
from deletekit.operations.stream.convert import convert
from deletekit.operations.stream.promote import Promotion, promote
from deletekit.operations.stream.sink import Sink, sink
from deletekit.operations.stream.sinks import SinkInfo, drop_sink, sinks

__all__ = ["BatchProgress", "Promotion", "Sink", "SinkInfo", "convert", "drop_sink", "promote", "sink", "sinks"]
