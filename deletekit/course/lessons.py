"""Find the notebooks of the lessons, in every language.

Like the sample tables, they are in the wheel, or in the checkout of an editable installation.
"""

from __future__ import annotations

from pathlib import Path

from deletekit.errors import NotFoundError

LANGUAGES = {"en": "English", "ko": "한국어", "ja": "日本語", "zh-CN": "简体中文", "es": "Español"}
"""The languages of the course, by their own names."""
FIRST = "00_start_here.ipynb"
"""The first lesson's file, in every language."""

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "_notebooks", _PACKAGE.parent / "notebooks")


def lessons_folder(language: str) -> Path:
    """Return the folder of a language's notebooks. Raise NotFoundError if the installation has none."""
    for folder in _FOLDERS:
        if (folder / language / FIRST).is_file():
            return folder / language
    raise NotFoundError(
        "the lessons are missing from this installation of deletekit", kind="lessons", file=f"{language}/{FIRST}"
    )
