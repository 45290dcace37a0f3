"""The process that Spark forks its Python workers from (`spark.python.daemon.module`), with our reader imported.

The workers share what is imported here: they start sooner, and each is smaller. Polars must not be among it, for it
starts threads, and a fork has none of them.
"""

import pyspark.daemon

import deletekit.spark.data_source.reader
from deletekit.spark.python_process import spare_chores

__all__ = ["deletekit"]

if __name__ == "__main__":
    spare_chores()
    pyspark.daemon.manager()  # type: ignore[no-untyped-call]
