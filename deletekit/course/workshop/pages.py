"""The lessons as HTML pages that a browser opens from the disk: text and results, without scripts, nothing fetched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from deletekit.course.lessons import LANGUAGES, lessons_folder

__all__ = ["title_of", "write_pages"]

_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; font-family: system-ui, sans-serif; line-height: 1.5;
       word-break: keep-all; overflow-wrap: break-word; }
nav { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; justify-content: space-between; }
pre { overflow-x: auto; padding: .5rem; margin: .5rem 0; }
.highlight pre { background: #f7f7f7; color: #212121; border-left: 3px solid #1565c0; }
.jp-OutputArea pre { border-left: 3px solid GrayText; }
.jp-InputPrompt, .jp-OutputPrompt, .jp-Collapser, .anchor-link { display: none; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid GrayText; padding: .2rem .6rem; text-align: left; }
"""


def write_pages(folder: Path) -> dict[str, dict[str, str]]:
    """Write `<folder>/<language>/<lesson>.html` for every notebook; titles by lesson, for each language."""
    exporter = HTMLExporter(template_name="basic")
    titles: dict[str, dict[str, str]] = {}
    for language in LANGUAGES:
        books = {
            file.stem: nbformat.read(file, as_version=4) for file in sorted(lessons_folder(language).glob("*.ipynb"))
        }
        titles[language] = {name: title_of(book) for name, book in books.items()}
        (folder / language).mkdir(parents=True)
        for name, book in books.items():
            page = _page(exporter, name, book, language, titles[language])
            (folder / language / f"{name}.html").write_text(page, encoding="utf-8")
    return titles


def title_of(notebook: NotebookNode) -> str:
    """The first heading."""
    found = re.search(r"^# (.+)$", notebook.cells[0].source, re.MULTILINE)
    return found[1] if found else ""


def _page(exporter: HTMLExporter, name: str, book: NotebookNode, language: str, titles: Mapping[str, str]) -> str:
    body, resources = exporter.from_notebook_node(book)
    # Lessons link each other by their files; elsewhere `.ipynb` is text.
    body = re.sub(r'(<a [^>]*href="[\w-]+)\.ipynb"', r'\1.html"', body)
    styles = "\n".join((*resources.get("inlining", {}).get("css", ()), _STYLE))
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(titles[name])}</title>\n<style>{styles}</style>\n</head>\n<body>\n"
        f"{_ways(name, language, titles)}\n<main>\n{body}\n</main>\n{_ways(name, language, titles)}\n</body>\n</html>\n"
    )


def _ways(name: str, language: str, titles: Mapping[str, str]) -> str:
    """Links to the lessons before and after, and to this one in the other languages."""
    names = list(titles)
    here = names.index(name)
    before = _link(f"{names[here - 1]}.html", f"← {titles[names[here - 1]]}") if here else ""
    after = _link(f"{names[here + 1]}.html", f"{titles[names[here + 1]]} →") if here + 1 < len(names) else ""
    others = " · ".join(
        f"<b>{own}</b>" if code == language else _link(f"../{code}/{name}.html", own, f' lang="{code}"')
        for code, own in LANGUAGES.items()
    )
    return f"<nav><span>{before}</span><span>{others}</span><span>{after}</span></nav>"


def _link(target: str, text: str, more: str = "") -> str:
    return f'<a href="{escape(target)}"{more}>{escape(text)}</a>'
