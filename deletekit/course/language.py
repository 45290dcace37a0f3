"""The language that the course speaks, and its words.

Law: the English text is the key. What a catalog does not have, or has only as `fuzzy`, is said in English.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polib

from deletekit.lessons import LANGUAGES

__all__ = ["ENGLISH", "LANGUAGES", "language", "text"]

ENGLISH = "en"
_LOCALE = Path(__file__).parent / "locale"


def language() -> str:
    """The language: that of DELETEKIT_LANG, else of the notebook's folder (`notebooks/ko`), else English."""
    notebook = Path(os.environ.get("JPY_SESSION_NAME", ""))  # Jupyter's server says which notebook a kernel is for
    wanted = (os.environ.get("DELETEKIT_LANG", ""), notebook.parent.name, Path.cwd().name)
    return next((found for name in wanted if (found := _known(name))), ENGLISH)


def text(english: str, /, **values: Any) -> str:
    """`english` in the language of the course, with `{name}` replaced by `values`; without values braces stay."""
    said = _catalog(language()).get(english, english)
    return said.format(**values) if values else said


def _known(name: str) -> str | None:
    """`ko_KR.UTF-8` is `ko`, and every Chinese is `zh-CN`."""
    plain = name.partition(".")[0].replace("_", "-").lower()
    exact = {known.lower(): known for known in LANGUAGES}
    by_first_part = {known.partition("-")[0]: known for known in LANGUAGES}
    return exact.get(plain) or by_first_part.get(plain.partition("-")[0])


@cache
def _catalog(name: str) -> Mapping[str, str]:
    file = _LOCALE / f"{name}.po"
    if name == ENGLISH or not file.is_file():
        return {}
    return {entry.msgid: entry.msgstr for entry in polib.pofile(str(file)).translated_entries()}
