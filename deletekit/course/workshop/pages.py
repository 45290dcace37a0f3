"""Write a bundle's HTML pages: every lesson, and START_HERE.html. They need no network and run no script."""

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from deletekit.course.lab import FIRST, lessons_folder
from deletekit.course.lab import titles as titles_of
from deletekit.course.translations import LANGUAGES, Messages
from deletekit.course.views.page_html import html_file
from deletekit.course.workshop.target import Target

_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; font-family: system-ui, sans-serif; line-height: 1.5;
       word-break: keep-all; overflow-wrap: break-word; }
nav { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; justify-content: space-between; }
pre { overflow-x: auto; padding: .5rem; margin: .5rem 0; border-left: 3px solid GrayText; }
.highlight pre { background: #f7f7f7; color: #212121; border-left: 3px solid #1565c0; }
.jp-InputPrompt, .jp-OutputPrompt, .jp-Collapser, .anchor-link { display: none; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid GrayText; padding: .2rem .6rem; text-align: left; }
"""
_PARTS = ("title", "here", "python", "spark", "install", "start", "read")
_INSTALL = "python3 install.py      # Linux, macOS\npy install.py           # Windows"


def write_pages(folder: Path) -> dict[str, dict[str, str]]:
    """Write `<folder>/<language>/<lesson>.html` for every notebook. Return the titles by language and lesson."""
    exporter = HTMLExporter(template_name="basic")
    titles: dict[str, dict[str, str]] = {}
    for language in LANGUAGES:
        notebooks = {
            file.stem: nbformat.read(file, as_version=4) for file in sorted(lessons_folder(language).glob("*.ipynb"))
        }
        titles[language] = {name: titles_of(language)[name[:2]] for name in notebooks}
        (folder / language).mkdir(parents=True)
        for name, notebook in notebooks.items():
            page = _lesson_page(exporter, name, notebook, language, titles[language])
            (folder / language / f"{name}.html").write_text(page, encoding="utf-8")
    return titles


def start_here(first_releases: Mapping[Target, str], titles: Mapping[str, Mapping[str, str]], *, spark: bool) -> str:
    """Return the page that says, in every language, how to install and begin, and which lessons can be read.

    Parameters
    ----------
    first_releases: the machines that the bundle is for, each with the first release of its Python that works.
    titles: the lessons' titles by language and lesson, as `write_pages` returns them.
    spark: whether Spark is in the bundle.
    """
    links = " · ".join(f'<a href="#{code}" lang="{code}">{name}</a>' for code, name in LANGUAGES.items())
    machines = "".join(f"<li>{t.platform}, Python {t.python} (≥ {first})</li>" for t, first in first_releases.items())
    parts = "".join(_start_in(code, machines, titles[code], spark=spark) for code in LANGUAGES)
    return html_file("en", "START HERE · deletekit", _STYLE, f"<nav><span>{links}</span></nav>\n<main>\n{parts}</main>")


def _lesson_page(
    exporter: HTMLExporter, name: str, notebook: NotebookNode, language: str, titles: Mapping[str, str]
) -> str:
    body, resources = exporter.from_notebook_node(notebook)
    # Lessons link each other by their files; elsewhere `.ipynb` is text.
    body = re.sub(r'(<a [^>]*href="[\w-]+)\.ipynb"', r'\1.html"', body)
    styles = "\n".join((*resources.get("inlining", {}).get("css", ()), _STYLE))
    links = _links(name, language, titles)
    return html_file(language, titles[name], styles, f"{links}\n<main>\n{body}\n</main>\n{links}")


def _links(name: str, language: str, titles: Mapping[str, str]) -> str:
    """Return links to the lessons before and after, and to this one in the other languages."""
    names = list(titles)
    here = names.index(name)
    before = _link(f"{names[here - 1]}.html", f"← {titles[names[here - 1]]}") if here else ""
    after = _link(f"{names[here + 1]}.html", f"{titles[names[here + 1]]} →") if here + 1 < len(names) else ""
    others = " · ".join(
        f"<b>{own}</b>" if code == language else _link(f"../{code}/{name}.html", own, f' lang="{code}"')
        for code, own in LANGUAGES.items()
    )
    return f"<nav><span>{before}</span><span>{others}</span><span>{after}</span></nav>"


def _start_in(code: str, machines: str, titles: Mapping[str, str], *, spark: bool) -> str:
    """Return the part of START_HERE.html in one language."""
    messages = Messages(code)
    say = {part: escape(messages(f"workshop-{part}")) for part in _PARTS}
    lessons = "".join(f"<li>{_link(f'html/{code}/{name}.html', title)}</li>" for name, title in titles.items())
    java = f"<p>{say['spark']}</p>" if spark else ""
    language = "" if code == "en" else f" --lang {code}"
    return (
        f'<section id="{code}" lang="{code}">\n<h1>{say["title"]}</h1>\n<p>{say["here"]}</p>\n'
        f"<p>{say['python']}</p>\n<ul>{machines}</ul>\n{java}\n"
        f"<p>{say['install']}</p>\n<pre>{_INSTALL}</pre>\n"
        f"<p>{say['start']}</p>\n<pre>deletekit-workshop/start.sh{language}      # Linux, macOS\n"
        f"deletekit-workshop\\start.cmd{language}     # Windows</pre>\n"
        f"<p>{say['read']} {_link(f'html/{code}/{Path(FIRST).stem}.html', f'html/{code}')}</p>\n"
        f"<ul>{lessons}</ul>\n</section>\n"
    )


def _link(target: str, text: str, more: str = "") -> str:
    return f'<a href="{escape(target)}"{more}>{escape(text)}</a>'
