"""What makes Spark find the data source `deletekit` by itself: it looks for `DefaultSource` in modules named pyspark_*.

Law: importing this never fails. Spark imports all such modules for any data source that is written in Python, and an
error in one would take the others with it.
"""

from contextlib import suppress

__all__ = ["DefaultSource"]

with suppress(Exception):
    from deletekit.spark.data_source.source import DefaultSource
