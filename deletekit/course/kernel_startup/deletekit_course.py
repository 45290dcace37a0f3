"""IPython runs this when a kernel starts: in a notebook of the course, a missing name gets a sentence that helps."""
# ruff: noqa: INP001, PLC0415  # no module: its names would be those of the learner's cells


def _deletekit_course() -> None:
    import json
    import os
    from contextlib import suppress
    from pathlib import Path

    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))  # Jupyter's server says which notebook a kernel is for
    if notebook.match("[0-9][0-9]_*.ipynb"):
        with suppress(OSError, ValueError, KeyError, TypeError, ImportError):
            number = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]["deletekit"]["lesson"]
            from deletekit.course.new_kernel import explain_missing_names

            explain_missing_names(number)


_deletekit_course()
del _deletekit_course
