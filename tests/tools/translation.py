"""Markdown in five languages from one source: paragraphs, and gettext's .po files.

Code is never translated. A paragraph without a translation, or with one marked `fuzzy`, stays in English and is
counted; it is never left out.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
import polib
from nbformat import NotebookNode

from tests.tools.lessons import NOTEBOOKS, lesson_names, read_source

CATALOGS = NOTEBOOKS / "i18n"
GLOSSARY = CATALOGS / "glossary.csv"

FRESHNESS = {
    "en": "*This is the original text.*",
    "ko": "*번역: {done}/{total}문단. {review}*",
    "ja": "*翻訳: {total} 段落中 {done} 段落。{review}*",
    "zh-CN": "*翻译：{total} 段中的 {done} 段。{review}*",
    "es": "*Traducción: {done} de {total} párrafos. {review}*",
}
UNREVIEWED = {
    "ko": "원어민 검토 전 초안입니다.",
    "ja": "母語話者による確認前の草稿です。",
    "zh-CN": "草稿，尚未经母语者审校。",
    "es": "Borrador sin revisar por hablantes nativos.",
}
IN_ENGLISH = {
    "ko": " 번역되지 않은 문단은 영어로 나옵니다.",
    "ja": "未翻訳の段落は英語のままです。",
    "zh-CN": "未翻译的段落保留英文。",
    "es": " Los párrafos sin traducir quedan en inglés.",
}


@dataclass(frozen=True)
class Translated:
    """A notebook in a language, and how many of its paragraphs are."""

    notebook: NotebookNode
    done: int
    total: int


def blocks(markdown: str) -> list[str]:
    """Split Markdown at empty lines; fenced code stays one block."""
    out: list[list[str]] = [[]]
    fenced = False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        if line or fenced:
            out[-1].append(line)
        elif out[-1]:
            out.append([])
    return ["\n".join(block) for block in out if block]


def units(block: str) -> list[str]:
    """Split a block into what is translated by itself: a paragraph, a table, each item of a list; no code."""
    return [] if block.startswith("```") else re.split(r"\n(?=- |\d+\. )", block)


def translated_block(block: str, known: Mapping[str, str]) -> str:
    """Give a block with the translations that there are."""
    return "\n".join(known.get(unit, unit) for unit in units(block)) or block


def english_units(notebook: NotebookNode) -> list[str]:
    """List every unit to translate, once, in order."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    return list(dict.fromkeys(unit for cell in cells for block in blocks(cell.source) for unit in units(block)))


def catalog_file(language: str, name: str) -> Path:
    return CATALOGS / language / f"{name}.po"


def translations(file: Path) -> dict[str, str]:
    """Give the finished translations in a .po file, which may not be there."""
    if not file.is_file():
        return {}
    return {entry.msgid: entry.msgstr for entry in polib.pofile(str(file)).translated_entries()}


def freshness(language: str, name: str, done: int, total: int) -> str:
    """Say how much is translated, who has read it, and what stands in the place of the rest."""
    file = catalog_file(language, name)
    reviewer = polib.pofile(str(file)).metadata.get("X-Reviewed") if file.is_file() else None
    review = reviewer or UNREVIEWED.get(language, "")
    rest = IN_ENGLISH[language] if done < total else ""
    return FRESHNESS[language].format(done=done, total=total, review=review + rest)


def translate(notebook: NotebookNode, language: str, name: str) -> Translated:
    """Give the notebook in a language, with the line that says how much of it is, below its title."""
    translated = translations(catalog_file(language, name))
    wanted = english_units(notebook)
    done = len(wanted) if language == "en" else sum(block in translated for block in wanted)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = "\n\n".join(translated_block(block, translated) for block in blocks(cell.source))
    line = freshness(language, name, done, len(wanted))
    title, *rest = blocks(notebook.cells[0].source)
    notebook.cells[0].source = "\n\n".join([title, line, *rest])
    notebook.metadata["deletekit"]["language"] = language
    return Translated(nbformat.from_dict(notebook), done, len(wanted))


def update_catalogs(languages: list[str]) -> None:
    """Bring every .po file to the paragraphs of its source: new ones are added, those that are gone go.

    A paragraph that has changed keeps the old translation as `fuzzy`, with the old English words as its `#| msgid`: a
    translator sees both, a learner neither.
    """
    for language in languages:
        for name in lesson_names():
            merge_catalog(catalog_file(language, name), english_units(read_source(name)), language)


def merge_catalog(file: Path, wanted: list[str], language: str) -> None:
    """Give a .po file one entry for each wanted msgid, with the translations that it has."""
    old = polib.pofile(str(file), wrapwidth=0) if file.is_file() else polib.POFile(wrapwidth=0)
    new = polib.POFile(wrapwidth=0)
    new.metadata = old.metadata or {
        "Project-Id-Version": "deletekit",
        "Language": language.replace("-", "_"),
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
    }
    template = polib.POFile()
    was = {entry.msgid: entry.previous_msgid for entry in old}
    template.extend(polib.POEntry(msgid=text, previous_msgid=was.get(text)) for text in wanted)
    new.extend(entry for entry in old if not entry.obsolete)
    # polib's merge keeps what is equal; what is gone it marks obsolete, and a closest match is for a person to find.
    new.merge(template)
    by_id = {entry.msgid: entry for entry in new if not entry.obsolete}
    stale = [entry for entry in old if entry.msgstr and entry.msgid not in by_id]
    for text in wanted:
        if not by_id[text].msgstr and (closest := _closest(text, stale)):
            by_id[text].msgstr, by_id[text].previous_msgid = closest.msgstr, closest.msgid
            by_id[text].flags = ["fuzzy"]
    ordered = polib.POFile(wrapwidth=0)
    ordered.metadata = new.metadata
    ordered.extend(by_id[text] for text in wanted)
    file.parent.mkdir(parents=True, exist_ok=True)
    ordered.save(str(file))


def _closest(text: str, stale: list[polib.POEntry]) -> polib.POEntry | None:
    """Find the old entry that shares most words, if it shares most of them."""

    def likeness(entry: polib.POEntry) -> float:
        one, other = set(text.split()), set(entry.msgid.split())
        return len(one & other) / len(one | other)

    best = max(stale, key=likeness, default=None)
    return best if best is not None and likeness(best) > 0.6 else None


def glossary() -> list[dict[str, str]]:
    """Give the rows of the term base: an English term, its forms in each language, and what must not stand for it."""
    with GLOSSARY.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def prose(markdown: str) -> str:
    """Leave out code and the targets of links."""
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", " ", markdown))
