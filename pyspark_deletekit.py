"""What makes Spark find the data source `deletekit` by itself: it looks for `DefaultSource` in modules named pyspark_*.

Importing this module must never fail: for any data source written in Python, Spark imports all such modules, and an
error in one would break the others too.
"""

from contextlib import suppress

__all__ = ["DefaultSource"]

with suppress(Exception):
    from deletekit.spark.data_source.source import DefaultSource
