"""deletekit writes and reads every row-level delete of Apache Iceberg: copy-on-write, equality deletes, v2 position
deletes and v3 deletion vectors.

A name is imported when it is first used: importing deletekit starts no Spark, no Jupyter and no catalog. `__init__.pyi`
says in which module each name is. Every function comes through `deletekit.public`, which checks its arguments and
raises only errors of deletekit.
"""

import re
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
# To parse it as Python takes longer than all else here.
_IMPORTS = re.findall(r"^from (\S+) import \(?\s*(\w+) as (\w+)", _STUB, re.MULTILINE)
_MODULE_OF = {public_name: (module, name) for module, name, public_name in _IMPORTS}

__all__ = sorted(_MODULE_OF.keys() - {"__version__"})  # noqa: PLE0605  # sorted() makes a list


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'deletekit' has no attribute {name!r}")
    try:
        from deletekit.public import load  # noqa: PLC0415  # only when a name is used

        return load(*_MODULE_OF[name])
    except Exception as e:
        from deletekit.shadowed import shadowing_file  # noqa: PLC0415  # only for an error

        shadowed = None if type(e).__module__ == "deletekit.errors" else shadowing_file(e, imports=True)
        if shadowed is None:
            raise
        raise ImportError(  # deletekit's own errors may not be importable now
            f"your file {shadowed[1]} is imported in the place of the module {shadowed[0]}: give it another name"
            f" (what happened: {type(e).__name__}: {e})",
            name=shadowed[0],
            path=shadowed[1],
        ) from e


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
