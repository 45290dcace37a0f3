"""The texts of the course in the language of the notebook. The English text is the key; see `translations`."""

from __future__ import annotations

from typing import Any

from deletekit.course.translations import ENGLISH, language, translations


def text(english: str, /, **values: Any) -> str:
    """Return an English text in the language of the course, with `{name}` replaced by `values`.

    A text without a translation stays English. Without values, braces stay.
    """
    said = translations(language()).get(english, english)
    return said.format(**values) if values else said


def is_translated(english: str) -> bool:
    """Return whether the course has a text in its language. English has every text."""
    return language() == ENGLISH or english in translations(language())
