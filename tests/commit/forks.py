"""A process that imports everything once, and forks a child for each line of JSON that it reads."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import deletekit as dk

MODULES = ("pyarrow.parquet", "sqlalchemy.dialects.sqlite")


def serve(live: Callable[..., Any], modules: Sequence[str] = ()) -> None:
    """Call `live` with the values of each line in a child, and print the child's exit code: 1 if `live` raised.

    Parameters
    ----------
    modules: what is imported besides, before the first child.
    """
    for name in dk.__all__:
        getattr(dk, name)
    for name in (*MODULES, *modules):
        import_module(name)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                live(*job)
                code = 0
            finally:
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
