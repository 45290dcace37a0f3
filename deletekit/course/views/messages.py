"""What the views say, in five languages: whole sentences by key, with places for values.

Law: field names, property names and codes are never translated; a sentence is never glued together.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from deletekit.course.views.language import LANGUAGES, language
from deletekit.errors import InvalidInputError

__all__ = ["LANGUAGES", "Messages"]


class Messages:
    """The messages of one language: `messages("page-shown", first="1", last="50", total="100")`.

    Parameters
    ----------
    lang: one of `LANGUAGES`; None is what `language` finds: DELETEKIT_LANG, or that of the notebook.

    Raises InvalidInputError for another language.
    """

    def __init__(self, lang: str | None = None) -> None:
        self.lang = lang or language()
        if self.lang not in LANGUAGES:
            raise InvalidInputError(
                "no such language", kind="lang", field="lang", found=self.lang, expected=", ".join(LANGUAGES)
            )
        self._texts = _texts(self.lang)

    def __call__(self, key: str, **values: object) -> str:
        return self._texts[key].format_map(values)

    def raw(self, *keys: str) -> dict[str, str]:
        """Messages by key, their places left open."""
        return {key: self._texts[key] for key in keys}


@cache
def _texts(lang: str) -> dict[str, str]:
    source = files("deletekit.course.views").joinpath("locale", f"{lang}.json")
    texts: dict[str, str] = json.loads(source.read_text(encoding="utf-8"))
    return texts
