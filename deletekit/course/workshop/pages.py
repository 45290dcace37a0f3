"""Write a bundle's HTML pages: lessons, pages for instructors, START_HERE.html. They need no network and no kernel."""

import re
from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path

from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html
from nbformat import NotebookNode
from pygments.formatters import HtmlFormatter

from deletekit.course.lab import FIRST, lessons_folder
from deletekit.course.lab import titles as titles_of
from deletekit.course.translations import ENGLISH, LANGUAGES, Messages
from deletekit.course.views.page_html import html_file
from deletekit.course.widgets.base import css
from deletekit.course.workshop.explorable import explorable_lessons
from deletekit.course.workshop.target import Target

_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; font-family: system-ui, sans-serif; line-height: 1.5;
       background: Canvas; color: CanvasText; overflow-wrap: break-word; }
:lang(ko) { word-break: keep-all; }
nav, footer { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; justify-content: space-between; }
pre { white-space: pre-wrap; padding: .5rem; margin: .5rem 0; border-left: 3px solid GrayText; }
.highlight pre { background: #fff; color: #212121; border-left: 3px solid #1565c0; }
main .jp-RenderedHTML section ul { list-style: none; padding-left: 1.2rem; }
.prompt, .jp-InputPrompt, .jp-OutputPrompt, .jp-Collapser, .anchor-link { display: none; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid GrayText; padding: .2rem .6rem; text-align: left; }
"""
_DARK_CODE = HtmlFormatter(style="github-dark").get_style_defs(".highlight pre")
_DARK = f"@media (prefers-color-scheme: dark) {{\n{_DARK_CODE}\n}}"
_PARTS = ("title", "here", "python", "spark", "install", "start", "read", "teach")
_INSTALL = "python3 install.py      # Linux, macOS\npy install.py           # Windows"


def write_pages(folder: Path) -> dict[str, dict[str, str]]:
    """Write `<folder>/<language>/<lesson>.html` for every notebook. Return the titles by language and lesson."""
    exporter = HTMLExporter(template_name="basic")
    titles: dict[str, dict[str, str]] = {}
    for language in LANGUAGES:
        notebooks = explorable_lessons(language)
        titles[language] = {name: titles_of(language)[name[:2]] for name in notebooks}
        (folder / language).mkdir(parents=True)
        for name, notebook in notebooks.items():
            page = _lesson_page(exporter, name, notebook, language, titles[language])
            (folder / language / f"{name}.html").write_text(page, encoding="utf-8")
    return titles


def write_instructor_pages(folder: Path) -> None:
    """Write `<folder>/<language>/<page>.html` for the instructor's pages, in the languages that have them."""
    languages = [language for language in LANGUAGES if _instructor_folder(language).is_dir()]
    for language in languages:
        source = _instructor_folder(language)
        files = [source / "README.md", *sorted(source.glob("[0-9]*.md"))]
        pages = {file.stem: re.sub("<!--.*?-->", "", file.read_text(encoding="utf-8")) for file in files}
        titles = {name: text.strip().partition("\n")[0].removeprefix("# ") for name, text in pages.items()}
        (folder / language).mkdir(parents=True)
        for name, text in pages.items():
            body = re.sub(r'href="(?:\.\./)+([\w-]+)/(\w+)\.ipynb"', r'href="../../\1/\2.html"', markdown2html(text))
            body = re.sub(r'href="(\w+)\.md"', r'href="\1.html"', body)
            body = re.sub(r'<a href="\.\./[^"]*\.md">(.*?)</a>', r"\1", body)  # what a bundle does not have
            page = _page(name, body, _STYLE, language, titles, languages)
            (folder / language / f"{name}.html").write_text(page, encoding="utf-8")


def start_here(targets: Sequence[Target], titles: Mapping[str, Mapping[str, str]], *, spark: bool) -> str:
    """Return the page that says, in every language, how to install and begin, and which lessons can be read.

    Parameters
    ----------
    targets: the machines that the bundle is for.
    titles: the lessons' titles by language and lesson, as `write_pages` returns them.
    spark: whether Spark is in the bundle.
    """
    links = " · ".join(f'<a href="#{code}" lang="{code}">{name}</a>' for code, name in LANGUAGES.items())
    machines = "".join(f"<li>{t.platform}, Python {t.python}</li>" for t in targets)
    parts = "".join(_start_in(code, machines, titles[code], spark=spark) for code in LANGUAGES)
    return html_file("en", "START HERE · deletekit", _STYLE, f"<nav><span>{links}</span></nav>\n<main>\n{parts}</main>")


def _lesson_page(
    exporter: HTMLExporter, name: str, notebook: NotebookNode, language: str, titles: Mapping[str, str]
) -> str:
    body, resources = exporter.from_notebook_node(notebook)
    # Lessons link each other by their files; elsewhere `.ipynb` is text.
    body = re.sub(r'(<a [^>]*href="[\w-]+)\.ipynb"', r'\1.html"', body)
    styles = "\n".join((*resources.get("inlining", {}).get("css", ()), css(), _STYLE, _DARK))
    return _page(name, body, styles, language, titles, LANGUAGES)


def _page(name: str, body: str, style: str, language: str, titles: Mapping[str, str], others: Collection[str]) -> str:
    body = body.replace("<table", '<table tabindex="0"')  # a wide one is scrolled by keyboard too
    links = _links(name, language, titles, others)
    whole = f"<nav>{links}</nav>\n<main>\n{body}\n</main>\n<footer>{links}</footer>"
    return html_file(language, titles[name], style, whole)


def _instructor_folder(language: str) -> Path:
    pages = lessons_folder(ENGLISH).parent / "instructor"
    return pages if language == ENGLISH else pages / language


def _links(name: str, language: str, titles: Mapping[str, str], languages: Collection[str]) -> str:
    """Return links to the pages before and after, and to this one in the other languages."""
    names = list(titles)
    here = names.index(name)
    before = _link(f"{names[here - 1]}.html", f"← {titles[names[here - 1]]}") if here else ""
    after = _link(f"{names[here + 1]}.html", f"{titles[names[here + 1]]} →") if here + 1 < len(names) else ""
    others = " · ".join(
        f"<b>{own}</b>" if code == language else _link(f"../{code}/{name}.html", own, f' lang="{code}"')
        for code, own in LANGUAGES.items()
        if code in languages
    )
    return f"<span>{before}</span><span>{others}</span><span>{after}</span>"


def _start_in(code: str, machines: str, titles: Mapping[str, str], *, spark: bool) -> str:
    """Return the part of START_HERE.html in one language."""
    messages = Messages(code)
    say = {part: escape(messages(f"workshop-{part}")) for part in _PARTS}
    lessons = "".join(f"<li>{_link(f'html/{code}/{name}.html', title)}</li>" for name, title in titles.items())
    java = f"<p>{say['spark']}</p>" if spark else ""
    language = "" if code == ENGLISH else f" --lang {code}"
    teach = f"html/instructor/{code if _instructor_folder(code).is_dir() else ENGLISH}"
    return (
        f'<section id="{code}" lang="{code}">\n<h1>{say["title"]}</h1>\n<p>{say["here"]}</p>\n'
        f"<p>{say['python']}</p>\n<ul>{machines}</ul>\n{java}\n"
        f"<p>{say['install']}</p>\n<pre>{_INSTALL}</pre>\n"
        f"<p>{say['start']}</p>\n<pre>deletekit-workshop/start.sh{language}      # Linux, macOS\n"
        f"deletekit-workshop\\start.cmd{language}     # Windows</pre>\n"
        f"<p>{say['read']} {_link(f'html/{code}/{Path(FIRST).stem}.html', f'html/{code}')}</p>\n"
        f"<ul>{lessons}</ul>\n"
        f"<p>{say['teach']} {_link(f'{teach}/README.html', teach)}</p>\n</section>\n"
    )


def _link(target: str, text: str, more: str = "") -> str:
    return f'<a href="{escape(target)}"{more}>{escape(text)}</a>'
