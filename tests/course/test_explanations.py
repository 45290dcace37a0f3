"""What `dk.explain` found is said in the learner's language, as text and as a table, with the names of the lesson."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.formatters import DisplayFormatter

import deletekit as dk
from deletekit.course import Aliases, explanations
from deletekit.course.explanations import translate_in_notebook, translated
from deletekit.course.translations import LANGUAGES, translations
from deletekit.tools.explain import SENTENCES, Explanation
from tests.storage import stored_at
from tests.stored import live_files
from tests.tables import items, make, new_catalog

TRANSLATED = [lang for lang in LANGUAGES if lang != "en"]
languages = pytest.mark.parametrize("lang", TRANSLATED)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[dk.Table]:
    """Rows that each kind of delete hides, by each scope, and rows that are spared."""
    with new_catalog(tmp_path / "wh") as catalog:
        rows = items(*((i, "ab"[i % 2], float(i)) for i in range(8)))
        table = make(catalog, rows, format_version=2, partition_by=["category"])
        dk.delete(table, "id = 1", mode="position-delete")
        dk.delete(table, "id = 2 and category = 'a'", mode="equality-delete")
        dk.delete_keys(table, [{"id": 3}])
        dk.append(table, items((3, "b", 9.0)))
        dk.upgrade_format_version(table, 3)
        dk.delete(table, "id = 4", mode="deletion-vector")
        yield table


def words(said: str) -> list[str]:
    """The words of letters that are no names: those of the sentences."""
    return re.findall(r"(?<![\w'.-])[A-Za-z]{2,}(?![\w'.-])", said)


@languages
def test_every_sentence_is_translated_with_names_apart(lang: str) -> None:
    known = translations(lang)
    assert [sentence for sentence in SENTENCES.values() if sentence not in known] == []
    for sentence in SENTENCES.values():
        # Names replace paths and ids only where no letter touches these.
        assert not re.search(r"[\w-]\{(?:file|snapshot)\}|\{(?:file|snapshot)\}[\w-]", known[sentence]), known[sentence]


@languages
def test_names_show_it_without_paths_ids_and_english(
    lang: str, table: dk.Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = dk.explain(table, "true", columns=["id"])
    names = Aliases(table)
    names.show(found)
    english = capsys.readouterr().out
    assert english.splitlines()[1:] == [names._in_text(line) for line in str(found).splitlines()[1:]]
    monkeypatch.setenv("DELETEKIT_LANG", lang)
    names.show(found)
    said = capsys.readouterr().out
    assert len(said.splitlines()) == len(english.splitlines())
    html = translated(found, names._in_text)["text/html"]
    drawn = [sign.replace("&lt;", "<") for sign in re.findall(r"\d+ &lt;=? \d+(?=&#10;|\")", html)]
    for shown in (said, html.partition("<img")[0]):
        assert ".parquet" not in shown
        assert ".puffin" not in shown
        assert str(table.current_snapshot.snapshot_id) not in shown
    signs = re.findall(r"\d+ <=? \d+", english)
    assert re.findall(r"\d+ <=? \d+", said) == signs
    assert drawn == signs[:4]  # of the first eight rows
    assert sorted(re.findall(r"[DEPV]\d", said)) == sorted(re.findall(r"[DEPV]\d", english))
    if lang != "es":
        assert set(words(said)) <= {"id", "category", "test"}, said


@languages
def test_what_cannot_be_read_is_said_too(lang: str, table: dk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELETEKIT_LANG", lang)
    lost = [d["file_path"] for d in live_files(table, 1) if d["content"] == 2]
    for path in lost:
        stored_at(path).unlink()
    found = dk.explain(table, "true")
    said = translated(found)["text/plain"]
    assert len(found.unread) == len(lost)
    assert "UNKNOWN" not in said
    assert "cannot be read:" not in said
    assert all(path in said for path in lost)
    assert translations(lang)["UNKNOWN"] in said


def test_a_notebook_shows_it_in_the_learners_language(table: dk.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(display_formatter=DisplayFormatter())
    monkeypatch.setattr(explanations, "notebook_shell", lambda: shell)
    monkeypatch.setenv("DELETEKIT_LANG", "ko")
    found: Explanation = dk.explain(table, "id = 4")
    english, _ = shell.display_formatter.format(found)
    translate_in_notebook()
    korean, _ = shell.display_formatter.format(found)
    assert (english["text/plain"], korean["text/plain"]) == (str(found), translated(found)["text/plain"])
    assert "숨겨짐" in korean["text/html"]
    assert "HIDDEN" in english["text/html"]
