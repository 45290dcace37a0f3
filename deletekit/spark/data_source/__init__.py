"""`spark.read.format("deletekit")` and `df.write.format("deletekit")`: Iceberg in PySpark's Data Source API."""

from deletekit.spark.data_source.source import DefaultSource

__all__ = ["DefaultSource"]
