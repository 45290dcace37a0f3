"""deletekit writes and reads every row-level delete of Apache Iceberg: copy-on-write, equality deletes, v2 position
deletes and v3 deletion vectors.

A name is imported when it is first used: importing deletekit starts no Spark, no Jupyter and no catalog. `__init__.pyi`
says in which module each name is. Every function comes through `deletekit.public`, which checks its arguments and
raises only errors of deletekit.
"""

import ast
from pathlib import Path
from typing import Any


def _modules_of_names() -> dict[str, tuple[str, str]]:
    """Return for each public name the module or package that it is imported from, and its name there."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    names = {
        a.asname or a.name: (n.module, a.name) for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names
    }
    for node in stub.body:
        if isinstance(node, ast.Assign):  # new = old
            names[node.targets[0].id] = names.pop(node.value.id)
    return names


_MODULE_OF = _modules_of_names()

__all__ = sorted(_MODULE_OF.keys() - {"__version__"})  # noqa: PLE0605  # sorted() makes a list


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'deletekit' has no attribute {name!r}")
    from deletekit.public import load  # noqa: PLC0415  # only when a name is used

    return load(*_MODULE_OF[name])


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
