"""The language that a notebook speaks: that of its lesson, its widgets and its checks.

Law: found out, never set; whoever is told a language does not ask.
"""

from __future__ import annotations

import os
from pathlib import Path

from deletekit.course.lessons import LANGUAGES

__all__ = ["ENGLISH", "LANGUAGES", "language"]

ENGLISH = "en"


def language() -> str:
    """The language: that of DELETEKIT_LANG, else of the notebook's folder (`notebooks/ko`), else English."""
    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))  # Jupyter's server says which notebook a kernel is for
    folders = (name for name in (notebook.parent.name, Path.cwd().name) if name in LANGUAGES)
    return _known(os.environ.get("DELETEKIT_LANG", "")) or next(folders, ENGLISH)


def _known(name: str) -> str | None:
    """`ko_KR.UTF-8` is `ko`, and every Chinese is `zh-CN`."""
    plain = name.partition(".")[0].replace("_", "-").lower()
    exact = {known.lower(): known for known in LANGUAGES}
    by_first_part = {known.partition("-")[0]: known for known in LANGUAGES}
    return exact.get(plain) or by_first_part.get(plain.partition("-")[0])
