"""Every language has every message, with the same places for values, and says it in its own words."""

from __future__ import annotations

import json
import re
import string
from pathlib import Path

import pytest

from deletekit.course import translations
from deletekit.course.translations import LANGUAGES, Messages
from deletekit.errors import InvalidInputError

COURSE = Path(__file__).parents[2] / "deletekit" / "course"


def files() -> dict[str, dict[str, dict[str, str]]]:
    """The messages of each file, by language and key."""
    found = sorted((COURSE / "locale").glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in found}


def texts(lang: str) -> dict[str, str]:
    return {key: text for stored in files().values() for key, text in stored[lang].items()}


def test_every_file_has_its_own_keys_in_every_language() -> None:
    assert all(list(stored) == list(LANGUAGES) for stored in files().values())
    assert sum(len(stored["en"]) for stored in files().values()) == len(texts("en"))


def places(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_message_is_there_with_its_places(lang: str) -> None:
    english, own = texts("en"), texts(lang)
    assert list(own) == list(english)
    assert {k: places(v) for k, v in own.items()} == {k: places(v) for k, v in english.items()}
    assert all(own.values())


@pytest.mark.parametrize("lang", [lang for lang in LANGUAGES if lang != "en"])
def test_messages_are_translated(lang: str) -> None:
    english, own = texts("en"), texts(lang)
    same = {k for k, v in own.items() if v == english[k]}
    assert same <= {"tree-line", "error", "kind", "byte-is"}, same
    # Compaction is no compression; and no Korean particle may hang on a value whose last sound nobody knows.
    assert not re.search("압축|圧縮|压缩", "".join(own.values()))
    assert not re.search(r"\}(?:을|를|이|가|은|는|과|와|으로|로)(?:[\s,.]|$)", "\n".join(own.values()))


def test_every_message_is_used() -> None:
    sources = "\n".join(p.read_text(encoding="utf-8") for p in (COURSE / "views").glob("*.py"))
    scripts = (COURSE / "widgets" / "static").glob("*.js")
    sources += "\n".join(p.read_text(encoding="utf-8") for p in scripts)
    prefixes = ("title-", "kind-", "reason-", "spared-", "because-", "rule-", "containers-", "crash-", "workshop-")
    unused = [k for k in texts("en") if not re.search(f"[\"']{k}[\"']", sources) and not k.startswith(prefixes)]
    assert unused == []


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_LANG", "ko")
    assert Messages()("live") == texts("ko")["live"]
    with pytest.raises(InvalidInputError, match="xx"):
        Messages("xx")


def test_a_message_without_a_translation_is_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translations, "_messages", lambda lang: {"en": {"new": "new {n}"}}.get(lang, {}))
    assert Messages("ko")("new", n=1) == "new 1"
