"""The archives on the path of Spark's Python workers.

Spark adds its own jar and every jar of `spark.jars.packages`. Before each task PySpark makes Python read the lists of
their files again (`importlib.invalidate_caches`), which takes a tenth of a second of processor time for Iceberg's.
"""

from __future__ import annotations

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Forget the open archives, so that the next task starts faster; an archive is opened again when needed."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)
