"""The words of the course, in the language of the notebook.

Law: the English text is the key. What a catalog does not have, or has only as `fuzzy`, is said in English.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polib

from deletekit.course.views.language import ENGLISH, LANGUAGES, language

__all__ = ["ENGLISH", "LANGUAGES", "is_translated", "language", "text"]

_LOCALE = Path(__file__).parent / "locale"


def text(english: str, /, **values: Any) -> str:
    """`english` in the language of the course, with `{name}` replaced by `values`; without values braces stay."""
    said = _catalog(language()).get(english, english)
    return said.format(**values) if values else said


def is_translated(english: str) -> bool:
    """Return whether the course has a text in its language. English has every text."""
    return language() == ENGLISH or english in _catalog(language())


@cache
def _catalog(name: str) -> Mapping[str, str]:
    file = _LOCALE / f"{name}.po"
    if name == ENGLISH or not file.is_file():
        return {}
    return {entry.msgid: entry.msgstr for entry in polib.pofile(str(file)).translated_entries()}
