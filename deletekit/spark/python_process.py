"""Keep PySpark's chores cheap in the Python processes of Spark that run our code.

Spark adds its own jar and every jar of `spark.jars.packages` to Python's path. Before each task PySpark makes Python
read the lists of their files again (`importlib.invalidate_caches`), a tenth of a second of work for Iceberg's. After
each task it looks for garbage among everything that is imported (`gc.collect`), which is half as much.
"""

import gc
import sys
from zipimport import zipimporter

_modules = 0


def spare_chores() -> None:
    """Forget the open archives on Python's path, which are opened again when needed; take modules for no garbage.

    Only when modules were imported since the last call: what is frozen is never looked at again.
    """
    global _modules  # noqa: PLW0603  # of this process
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)
    if len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.freeze()
