"""The language is that of the learner, and its catalogs have every word."""

from __future__ import annotations

import re
from pathlib import Path

import polib
import pytest

from deletekit.course import check
from deletekit.course.translations import LANGUAGES, language, text
from tests.tools.catalogs import catalog_file, course_texts, interface_texts

TRANSLATED = [name for name in LANGUAGES if name != "en"]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("ko", "ko"),
        ("ko_KR.UTF-8", "ko"),
        ("zh", "zh-CN"),
        ("zh_CN", "zh-CN"),
        ("ZH-tw", "zh-CN"),
        ("es_419", "es"),
        ("fr", "en"),
        ("../../etc/passwd", "en"),
        ("", "en"),
    ],
)
def test_the_variable_names_it(said: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELETEKIT_LANG", said)
    assert language() == wanted


def test_the_folder_of_the_notebook_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DELETEKIT_LANG")
    for name in ("ja", "es"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "ja")
    assert language() == "ja"
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "es" / "06_deletion_vectors.ipynb"))
    assert language() == "es"


def entries(name: str) -> dict[str, polib.POEntry]:
    return {entry.msgid: entry for entry in polib.pofile(str(catalog_file(name)))}


@pytest.mark.parametrize("name", TRANSLATED)
def test_catalogs_have_texts_of_the_course_only(name: str) -> None:
    there = entries(name)
    assert list(there) == [text for text in course_texts() if text in there], (
        "run `python -m tests.tools.build_notebooks update-po`"
    )


@pytest.mark.parametrize("name", TRANSLATED)
def test_everything_around_exercises_is_translated(name: str) -> None:
    catalog = entries(name)
    assert [text for text in interface_texts() if text not in catalog or not catalog[text].translated()] == []


@pytest.mark.parametrize("name", TRANSLATED)
def test_translations_keep_places_code_and_numbers(name: str) -> None:
    def kept(words: str) -> list[str]:
        return sorted(re.findall(r"\{\w+\}|`[^`]*`", words))

    wrong = [e.msgid for e in entries(name).values() if e.translated() and kept(e.msgid) != kept(e.msgstr)]
    assert wrong == []


@pytest.mark.parametrize("name", TRANSLATED)
def test_checks_speak_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    english = check("00.1", ...).said
    monkeypatch.setenv("DELETEKIT_LANG", name)
    said = check("00.1", ...).said
    assert said != english
    assert 'hint("00.1")' in said


def test_what_a_catalog_does_not_have_is_said_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_LANG", "ko")
    assert text("no such text, {name}", name="x") == "no such text, x"
    assert text("braces {stay}") == "braces {stay}"
