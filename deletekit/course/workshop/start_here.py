"""START_HERE.html: how to install and begin, in five languages; where nothing can be installed, the lessons to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path

from deletekit.course.lessons import FIRST, LANGUAGES
from deletekit.course.workshop.target import Target

__all__ = ["start_here"]

_TEXTS = Path(__file__).with_name("texts.json")
_STYLE = (
    ":root { color-scheme: light dark; } body { max-width: 50rem; margin: 0 auto; padding: 1rem; line-height: 1.5; "
    "font-family: system-ui, sans-serif; word-break: keep-all; } "
    "pre { padding: .5rem; border-left: 3px solid GrayText; overflow-x: auto; }"
)
_INSTALL = "python3 install.py      # Linux, macOS\npy install.py           # Windows"


def start_here(first_releases: Mapping[Target, str], titles: Mapping[str, Mapping[str, str]], *, spark: bool) -> str:
    """The page.

    Parameters
    ----------
    first_releases: the machines that the bundle is for, each with the first release of its Python that will do.
    titles: of the lessons, by language and by name, as `write_pages` returns them.
    spark: whether Spark is in the bundle.
    """
    texts = json.loads(_TEXTS.read_text(encoding="utf-8"))
    ways = " · ".join(f'<a href="#{code}" lang="{code}">{name}</a>' for code, name in LANGUAGES.items())
    systems = "".join(f"<li>{t.platform}, Python {t.python} (≥ {first})</li>" for t, first in first_releases.items())
    parts = "".join(_part(code, texts[code], systems, titles[code], spark=spark) for code in LANGUAGES)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>START HERE · deletekit</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<nav>{ways}</nav>\n<main>\n{parts}</main>\n</body>\n</html>\n"
    )


def _part(code: str, say: Mapping[str, str], systems: str, titles: Mapping[str, str], *, spark: bool) -> str:
    lessons = "".join(
        f'<li><a href="html/{code}/{name}.html">{escape(title)}</a></li>' for name, title in titles.items()
    )
    java = f"<p>{escape(say['spark'])}</p>" if spark else ""
    language = "" if code == "en" else f" --lang {code}"
    return (
        f'<section id="{code}" lang="{code}">\n<h1>{escape(say["title"])}</h1>\n<p>{escape(say["here"])}</p>\n'
        f"<p>{escape(say['python'])}</p>\n<ul>{systems}</ul>\n{java}\n"
        f"<p>{escape(say['install'])}</p>\n<pre>{_INSTALL}</pre>\n"
        f"<p>{escape(say['start'])}</p>\n<pre>deletekit-workshop/start.sh{language}      # Linux, macOS\n"
        f"deletekit-workshop\\start.cmd{language}     # Windows</pre>\n"
        f'<p>{escape(say["read"])} <a href="html/{code}/{FIRST.removesuffix(".ipynb")}.html">html/{code}</a></p>\n'
        f"<ul>{lessons}</ul>\n</section>\n"
    )
