"""The archives on the path of Spark's Python workers.

Spark puts its own jar there, and every jar of `spark.jars.packages`. Before each task PySpark has Python read the lists
of their files anew (`importlib.invalidate_caches`), a tenth of a second of processor time for Iceberg's.
"""

from __future__ import annotations

import sys
from zipimport import zipimporter

__all__ = ["forget_archives"]


def forget_archives() -> None:
    """Let the worker's next task begin without that: an archive that is asked for a module is opened again then."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)
