"""The language is that of the learner. Each has every message, with the same places for values, in its own words."""

import json
import re
import string
import subprocess
import sys
from pathlib import Path

import polib
import pytest

from deletekit.course import translations
from deletekit.course.translations import LANGUAGES, Messages, language
from tests.tools.catalogs import catalog_file, course_texts, interface_texts

COURSE = Path(__file__).parents[2] / "deletekit" / "course"


def files() -> dict[str, dict[str, dict[str, str]]]:
    """The messages of each file, by language and key."""
    found = sorted((COURSE / "locale").glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in found}


def texts(lang: str) -> dict[str, str]:
    return {key: text for stored in files().values() for key, text in stored[lang].items()}


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
    assert same <= {"tree-line", "error", "kind", "byte-is", "byte-part-blob"}, same
    # Compaction is no compression; and no Korean particle may hang on a value whose last sound nobody knows.
    assert not re.search("압축|圧縮|压缩", "".join(own.values()))
    assert not re.search(r"\}(?:을|를|이|가|은|는|과|와|으로|로)(?:[\s,.]|$)", "\n".join(own.values()))


def test_every_message_is_used() -> None:
    sources = "\n".join(p.read_text(encoding="utf-8") for p in COURSE.rglob("*.py"))
    scripts = (COURSE / "widgets" / "static").glob("*.js")
    sources += "\n".join(p.read_text(encoding="utf-8") for p in scripts)
    prefixes = ("title-", "kind-", "reason-", "spared-", "because-", "rule-", "containers-", "crash-", "workshop-")
    prefixes += ("byte-", "gone-", "draw-form-", "draw-race-")
    unused = [k for k in texts("en") if not re.search(f"[\"']{k}[\"']", sources) and not k.startswith(prefixes)]
    assert unused == []


def test_a_message_without_a_translation_is_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translations, "_messages", lambda lang: {"en": {"new": "new {n}"}}.get(lang, {}))
    assert Messages("ko")("new", n=1) == "new 1"


# --- the language, and the catalogs of texts around exercises ---------------------------------------------------------

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


def lesson_in(lang: str, folder: Path) -> Path:
    """Write a notebook of one cell whose metadata names a language; its output is kept in that language."""
    metadata = {"deletekit": {"language": lang}, "kernelspec": {"name": "python3", "display_name": "Python 3"}}
    source = "from deletekit.course.translations import Messages\nprint(Messages().lang)"
    output = {"output_type": "stream", "name": "stdout", "text": lang + "\n"}
    cell = {"cell_type": "code", "id": "one", "metadata": {}, "source": source, "execution_count": 1}
    file = folder / f"lesson-{lang}.ipynb"
    notebook = {"cells": [{**cell, "outputs": [output]}], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(notebook), encoding="utf-8")
    return file


def test_the_metadata_of_the_notebook_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DELETEKIT_LANG")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", str(lesson_in("zh-CN", tmp_path)))
    assert language() == "zh-CN"
    lesson_in("zh-CN", tmp_path).write_text("[]")
    translations._of_notebook.cache_clear()
    assert language() == "en"


@pytest.mark.slow
def test_papermill_and_nbval_run_a_lesson_in_its_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DELETEKIT_LANG")
    lesson, done = lesson_in("ko", tmp_path), tmp_path / "done.ipynb"
    for command in (["papermill", "--cwd", "/", str(lesson), str(done)], ["pytest", "--nbval", lesson.name]):
        result = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, check=False, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert json.loads(done.read_text(encoding="utf-8"))["cells"][0]["outputs"][0]["text"] == ["ko\n"]


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
