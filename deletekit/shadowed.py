"""Find the user's own file that Python imports in the place of a library: `secrets.py` beside a script is one.

Imports nothing of deletekit, and little of Python: any of it may be what is shadowed.
"""

import os
import sys
from importlib.machinery import PathFinder
from types import ModuleType


def shadowing_file(error: BaseException, *, imports: bool = False) -> tuple[str, str] | None:
    """Return the name of a module and the user's file that was imported as it, if that is behind an error.

    Parameters
    ----------
    imports: the error came while modules were imported, so that each module on its way may be the one.
    """
    seen: BaseException | None = error
    while seen is not None:
        names, files = [getattr(seen, "name", None)] if isinstance(seen, ImportError) else [], {}
        module = getattr(seen, "obj", None)
        names += [module.__name__] if isinstance(module, ModuleType) else []
        if isinstance(seen, ImportError) and seen.name is None:  # what Cython raises names no module
            names += [name for name in sys.modules if name in sys.stdlib_module_names]
        trace = seen.__traceback__ if imports else None
        while trace is not None:
            of_frame = trace.tb_frame.f_globals
            names.append(of_frame.get("__name__"))
            files[of_frame.get("__name__")] = of_frame.get("__file__")  # a module that fails is no longer known
            trace = trace.tb_next
        for name in dict.fromkeys(str(name).partition(".")[0] for name in names if name):
            if name == "deletekit":
                continue
            file = getattr(sys.modules.get(name), "__file__", None) or files.get(name) or getattr(seen, "path", None)
            if file and _shadows(name, file):
                return name, file
        seen = seen.__cause__ or seen.__context__
    return None


def _shadows(name: str, file: str) -> bool:
    """Tell whether another module of this name would be found if the file's folder were not looked in."""
    folder = os.path.dirname(os.path.realpath(file))  # noqa: PTH120  # pathlib may be what is shadowed
    if os.path.basename(file) == "__init__.py":  # noqa: PTH119
        folder = os.path.dirname(folder)  # noqa: PTH120
    others = [path for path in sys.path if os.path.realpath(path) != folder]
    found = PathFinder.find_spec(name, others) if len(others) < len(sys.path) else None
    return found is not None and found.origin not in (None, file)
