"""Spark: a session with Iceberg on the catalogs that deletekit opens, the data source, and a pipeline."""

from deletekit.spark.sessions import JARS, fetch_jars, java_problem, java_program, session

__all__ = ["JARS", "fetch_jars", "java_problem", "java_program", "session"]
