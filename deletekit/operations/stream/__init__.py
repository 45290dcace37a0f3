"""STREAM: change rows into a table, each batch exactly once, and from a staging branch to `main`.

Law: what a table holds afterwards is what a dict would hold, whatever was killed, sent twice or lost on the way.
"""

from deletekit.operations.stream.batch_run import BatchProgress
from deletekit.operations.stream.convert import convert
from deletekit.operations.stream.promote import Promotion, promote
from deletekit.operations.stream.sink import Sink, sink

__all__ = ["BatchProgress", "Promotion", "Sink", "convert", "promote", "sink"]
