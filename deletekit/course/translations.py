"""What the program says in five languages: find the language, load its messages, and fall back to English.

The folder `locale/` has them. A `.json` file has the messages of one view, by key, in every language; `shared.json` has
those of several. A `.po` file has translations by the English text, for checks and exercises. Fields, properties and
codes of the specifications are not translated, and a sentence is never built from parts.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from deletekit.errors import InvalidInputError

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "ko": "한국어", "ja": "日本語", "zh-CN": "简体中文", "es": "Español"}
"""The languages of the course, by their own names."""

_LOCALE = files("deletekit.course").joinpath("locale")


def language() -> str:
    """Return the language: that of DELETEKIT_LANG, else of the notebook's metadata or folder, else English."""
    return _known(os.environ.get("DELETEKIT_LANG", "")) or _of_notebook(
        os.environ.get("JPY_SESSION_NAME", ""), Path.cwd()
    )


class Messages:
    """The messages of one language: `messages("page-shown", first="1", last="50", total="100")`.

    Parameters
    ----------
    lang: one of `LANGUAGES`; None is what `language` finds.

    Raises InvalidInputError for another language.
    """

    def __init__(self, lang: str | None = None) -> None:
        self.lang = lang or language()
        if self.lang not in LANGUAGES:
            raise InvalidInputError("no such language", "lang", "lang", self.lang, ", ".join(LANGUAGES))
        self._texts = {**_messages(ENGLISH), **_messages(self.lang)}

    def __call__(self, key: str, **values: object) -> str:
        return self._texts[key].format_map(values)

    def raw(self, *keys: str) -> dict[str, str]:
        """Return messages by key, without values in their places."""
        return {key: self._texts[key] for key in keys}


def text(english: str, /, **values: Any) -> str:
    """Return an English text in the language of the course, with `{name}` replaced by `values`.

    A text without a translation stays English. Without values, braces stay.
    """
    said = translations(language()).get(english, english)
    return said.format(**values) if values else said


def is_translated(english: str) -> bool:
    """Return whether the course has a text in its language. English has every text."""
    return language() == ENGLISH or english in translations(language())


@cache
def translations(lang: str) -> Mapping[str, str]:
    """Return the finished translations of a language by their English text. English, and a missing file, have none."""
    import polib  # noqa: PLC0415  # only the course's extra has it, and views do without

    try:
        entries = polib.pofile(_LOCALE.joinpath(f"{lang}.po").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {entry.msgid: entry.msgstr for entry in entries.translated_entries()}


@cache
def _of_notebook(session: str, folder: Path) -> str:
    """Return the language of the notebook that runs.

    Parameters
    ----------
    session: the notebook's path, as Jupyter's server passes it to a kernel; else empty.
    folder: in which the kernel runs.
    """
    notebook = Path(session)
    files = [notebook, folder / notebook.name] if session else list(_notebooks_of_programs())
    stored = {_stored_language(file) for file in files}
    found = [name for name in LANGUAGES if name in stored]
    folders = [notebook.parent.name, folder.name, *(file.name for file in files)]
    return found[0] if len(found) == 1 else next((name for name in folders if name in LANGUAGES), ENGLISH)


def _notebooks_of_programs() -> Iterator[Path]:
    """Yield the paths on the command lines above a kernel: papermill and nbval tell it of no notebook."""
    if "ipykernel" not in sys.modules:
        return
    import psutil  # noqa: PLC0415  # ipykernel needs it too

    with suppress(psutil.Error):
        for program in psutil.Process().parents():
            yield from (Path(program.cwd(), word) for word in program.cmdline() if not word.startswith("-"))


def _stored_language(file: Path) -> str | None:
    """Return the language in a notebook's metadata; None for what is not a lesson."""
    if file.suffix != ".ipynb":
        return None
    with suppress(OSError, ValueError, LookupError, TypeError):
        return str(json.loads(file.read_text(encoding="utf-8"))["metadata"]["deletekit"]["language"])
    return None


@cache
def _messages(lang: str) -> Mapping[str, str]:
    stored = (json.loads(f.read_text(encoding="utf-8")) for f in _LOCALE.iterdir() if f.name.endswith(".json"))
    return {key: said for by_language in stored for key, said in by_language[lang].items()}


def _known(name: str) -> str | None:
    """Return the language of a locale: `ko_KR.UTF-8` is `ko`, and every Chinese is `zh-CN`."""
    plain = name.partition(".")[0].replace("_", "-").lower()
    exact = {known.lower(): known for known in LANGUAGES}
    by_first_part = {known.partition("-")[0]: known for known in LANGUAGES}
    return exact.get(plain) or by_first_part.get(plain.partition("-")[0])
