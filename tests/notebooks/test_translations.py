"""Rules of notebooks/README.md for translations that a program can hold."""

import json
import re
from collections import Counter
from pathlib import Path

import polib
import pytest
from markdown_it import MarkdownIt

from deletekit.course.translations import LANGUAGES
from tests.tools import catalogs as course_catalogs
from tests.tools import instructor, translation
from tests.tools.build_notebooks import report_missing
from tests.tools.catalogs import catalog_file as course_catalog
from tests.tools.lessons import NOTEBOOKS, lesson_names, read_source
from tests.tools.translation import blocks, catalog_file, english_units, glossary, merge_catalog, prose, translate

TRANSLATED = [name for name in LANGUAGES if name != "en"]
FILES = [(language, catalog_file(language, name)) for language in TRANSLATED for name in lesson_names()]
FILES += [(language, course_catalog(language)) for language in TRANSLATED]
FILES += [(language, catalog_file(language, instructor.CATALOG)) for language in instructor.page_languages()]
catalogs = pytest.mark.parametrize(("language", "file"), FILES, ids=lambda v: v if isinstance(v, str) else v.stem)


def finished(file: Path) -> list[polib.POEntry]:
    return polib.pofile(str(file)).translated_entries() if file.is_file() else []


@catalogs
def test_code_numbers_and_links_are_those_of_the_english_text(language: str, file: Path) -> None:
    def kept(text: str) -> Counter[str]:
        code = re.findall(r"`[^`]*`|\{\w+\}", text)
        links = re.findall(r"\]\(([^)]*)\)", text)
        numbers = re.findall(r"\d+(?:\.\d+)*", re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text))
        return Counter([*code, *links, *numbers])

    def shape(text: str) -> tuple[int, list[int]]:
        heading = len(re.match(r"#*", text)[0])  # type: ignore[index]
        columns = [line.count("|") for line in re.sub(r"`[^`]*`", "", text).split("\n") if line.startswith("|")]
        return heading, columns

    wrong = [e.msgstr for e in finished(file) if kept(e.msgid) != kept(e.msgstr) or shape(e.msgid) != shape(e.msgstr)]
    assert wrong == []


@catalogs
def test_terms_are_those_of_the_glossary(language: str, file: Path) -> None:
    wrong = []
    for entry in finished(file):
        english, said = prose(entry.msgid), prose(entry.msgstr)
        for row in glossary():
            if not re.search(rf"\b{row['en']}s?\b", english, re.IGNORECASE):
                continue
            if not re.search(row[language], said, re.IGNORECASE):
                wrong.append(f"{row['en']}: {said}")
            if row["never"] and re.search(row["never"], said):
                wrong.append(f"never: {said}")
    assert wrong == []


@pytest.mark.parametrize(
    ("language", "file"), [pair for pair in FILES if pair[1].parent != course_catalog("ko").parent], ids=str
)
def test_bold_text_is_bold(language: str, file: Path) -> None:
    # Between a bracket and a letter of Korean, Japanese or Chinese `**` does not close (CommonMark, right-flanking).
    wrong = []
    for entry in finished(file):
        rendered = MarkdownIt("commonmark").render(entry.msgstr)
        if "**" in re.sub(r"<code>.*?</code>", "", rendered, flags=re.DOTALL):
            wrong.append(entry.msgstr)
    assert wrong == []


PARTICLES = "(?:[을를이가은는와과로]|으로)"
# Which of 을 and 를 it is depends on how the thing before it is read aloud: code, a value, or a call of a function.
GLUED = re.compile(
    rf"(?:[`}}]|[a-z_]\([^()]*\)){PARTICLES}(?![가-힣])|[을은이과]\([를는가와]\)|[를는가와]\([을은이과]\)"
)
# A particle alone, after code or markup: a space too many.
ALONE = re.compile(r"[`*)\]}] (?:을|를|은|는|가|와|과|의|에|에서|으로|로)(?![가-힣])")
KOREAN_JSON = [*course_catalog("ko").parent.glob("*.json"), NOTEBOOKS / "site" / "texts.json"]


@pytest.mark.parametrize("file", [file for language, file in FILES if language == "ko"], ids=lambda f: f.stem)
def test_no_korean_particle_is_glued_to_what_changes(file: Path) -> None:
    assert [e.msgstr for e in finished(file) if GLUED.search(e.msgstr) or ALONE.search(e.msgstr)] == []


@pytest.mark.parametrize("file", KOREAN_JSON, ids=lambda f: f.stem)
def test_no_korean_particle_is_glued_in_other_texts(file: Path) -> None:
    said = json.dumps(json.loads(file.read_text(encoding="utf-8"))["ko"], ensure_ascii=False, indent=1).split("\n")
    assert [line for line in said if GLUED.search(line) or ALONE.search(line)] == []


def test_what_is_glued_is_found() -> None:
    for wrong in ("`x`를", "`x` 를", "{file}가", 'hint("06.2")를', "print(widget)으로", "{n}을(를)", "**벡터** 는"):
        assert GLUED.search(wrong) or ALONE.search(wrong), wrong
    for right in ("`x` 파일을", "동등 삭제(equality delete)는", "`S2`에서", "`main`의", "`replace`입니다", "{n}개를"):
        assert not GLUED.search(right), right
        assert not ALONE.search(right), right


@pytest.mark.parametrize("file", [file for language, file in FILES if language == "zh-CN"], ids=lambda f: f.stem)
def test_chinese_punctuation_is_full_width(file: Path) -> None:
    half = re.compile(r"[\u4e00-\u9fff][,;:?!](?:\s|[\u4e00-\u9fff])")
    assert [e.msgstr for e in finished(file) if half.search(prose(e.msgstr))] == []


# --- the machinery ----------------------------------------------------------------------------------------------------


def test_blocks_keep_code_whole_and_items_of_lists_are_units() -> None:
    text = "# Title\n\nOne\ntwo\n\n- a\n- b\n\n```\nx\n\ny\n```\n\n\nlast"
    assert blocks(text) == ["# Title", "One\ntwo", "- a\n- b", "```\nx\n\ny\n```", "last"]
    assert [unit for block in blocks(text) for unit in translation.units(block)] == [
        "# Title",
        "One\ntwo",
        "- a",
        "- b",
        "last",
    ]


def test_a_changed_paragraph_is_fuzzy_and_shown_in_english(tmp_path: Path) -> None:
    file = tmp_path / "x.po"
    merge_catalog(file, ["A vector holds the positions of rows.", "Gone."], "ko")
    catalog = polib.pofile(str(file))
    for entry in catalog:
        entry.msgstr = f"번역: {entry.msgid}"
    catalog.save()
    merge_catalog(file, ["New words, which nobody has seen.", "A vector holds the positions of deleted rows."], "ko")
    new, changed = polib.pofile(str(file))
    assert (new.msgid, new.msgstr, new.fuzzy) == ("New words, which nobody has seen.", "", False)
    assert (changed.msgstr, changed.fuzzy) == (f"번역: {changed.previous_msgid}", True)
    before = file.read_bytes()
    merge_catalog(file, [new.msgid, changed.msgid], "ko")
    assert (file.read_bytes(), polib.pofile(str(file)).translated_entries()) == (before, [])


@pytest.mark.parametrize("name", lesson_names())
@pytest.mark.parametrize("language", TRANSLATED)
def test_catalogs_have_paragraphs_of_the_source_only(language: str, name: str) -> None:
    there = [entry.msgid for entry in polib.pofile(str(catalog_file(language, name)))]
    known = [block for block in english_units(read_source(name)) if block in there]
    assert there == known, "run `python -m tests.tools.build_notebooks update-po`"


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_notebook_says_how_much_of_it_is_translated(language: str) -> None:
    made = translate(read_source("06_deletion_vectors"), language, "06_deletion_vectors")
    line = blocks(made.notebook.cells[0].source)[1]
    assert str(made.total) in line
    assert line.startswith("*")


@pytest.mark.long
@pytest.mark.parametrize("language", TRANSLATED)
def test_at_a_release_nothing_is_missing(language: str) -> None:
    assert {name: texts for name, texts in course_catalogs.missing(language).items() if texts} == {}


def test_what_is_missing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(translation, "CATALOGS", tmp_path)
    monkeypatch.setattr(course_catalogs, "catalog_file", lambda language: tmp_path / f"{language}.po")
    monkeypatch.setattr(course_catalogs, "lesson_names", lambda: ["00_start_here"])
    course, paragraphs = course_catalogs.course_texts(), english_units(read_source("00_start_here"))
    for file, texts in ((tmp_path / "ko.po", course), (tmp_path / "ko" / "00_start_here.po", paragraphs)):
        merge_catalog(file, texts, "ko")
        catalog = polib.pofile(str(file))
        for entry in catalog:
            entry.msgstr = entry.msgid
        catalog.save()
    assert report_missing(["ko"]) == 0
    assert capsys.readouterr().out == "ko: 0 texts are not translated\n"
    catalog = polib.pofile(str(tmp_path / "ko" / "00_start_here.po"))
    catalog[0].flags = ["fuzzy"]
    catalog.save()
    merge_catalog(tmp_path / "ko.po", course[2:], "ko")
    assert report_missing(["ko"]) == 1
    assert capsys.readouterr().out == "ko: 3 texts are not translated (course 2, 00_start_here 1)\n"
    assert course_catalogs.missing("ko") == {"course": course[:2], "00_start_here": [catalog[0].msgid]}
    merge_catalog(tmp_path / "ko" / "instructor.po", instructor.page_texts()[1:], "ko")
    assert course_catalogs.missing("ko")["instructor"] == instructor.page_texts(), "pages have a catalog now"
