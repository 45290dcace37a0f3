"""Import a module when it is first used: what a first small scan does not need, it does not wait for.

if TYPE_CHECKING:
    from pyiceberg.table import sorting
else:
    sorting = Deferred("pyiceberg.table.sorting")

Those that many modules use are here: `from deletekit.deferred import pc, pl, pq`.
"""

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["Deferred", "imported", "pc", "pl", "pq"]


def imported(name: str) -> ModuleType:
    """Import a module. No garbage is collected meanwhile: there is none, and to look for it takes a tenth of it all."""
    was_enabled, is_new = gc.isenabled(), name not in sys.modules
    gc.disable()
    try:
        return import_module(name)
    finally:
        if was_enabled:
            if is_new and not gc.get_freeze_count():  # else `unfreeze` would undo somebody's own `freeze`
                gc.freeze()  # the new objects count as old ones then, without a look at each
                gc.unfreeze()
            gc.enable()


class Deferred:
    """Stands for a module, and imports it when a name of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(imported(self._name), name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Deferred, (self._name,)  # a copy that is filled in later would ask itself for its name


if TYPE_CHECKING:
    import polars as pl
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pl, pc, pq = Deferred("polars"), Deferred("pyarrow.compute"), Deferred("pyarrow.parquet")
