"""Bytes <-> values. Nothing here opens a path, knows a catalog, or imports pyiceberg or pyspark."""
