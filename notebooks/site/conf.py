"""Sphinx's settings for the course as a site; `python -m tests.tools.build_site` gives the language and the sources.

Law: a page asks nobody but its own site for anything, and is built from committed notebooks without running a cell.
"""

import json
import re
import sys
from pathlib import Path

from sphinx.search import SearchLanguage, languages

TEXTS = json.loads(Path(__file__).with_name("texts.json").read_text(encoding="utf-8"))

project = "deletekit"
copyright = "the authors of deletekit, Apache-2.0"
sys.path.insert(0, str(Path(__file__).parent))  # for our own extension
extensions = ["myst_nb", "sphinx.ext.autodoc", "docstrings"]
default_role = "code"  # docstrings have single backticks
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_display_short_literal_types = True
add_module_names = False
html_domain_indices = False
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # else from a CDN
nb_merge_streams = True
suppress_warnings = ["mystnb.unknown_mime_type"]  # what checks say to programs
myst_enable_extensions = []  # no mathematics, whose renderer would be fetched
myst_heading_anchors = 3
html_theme = "furo"
html_title = "deletekit"
html_static_path = ["static", "../../deletekit/course/widgets/static"]
html_favicon = "static/icon.svg"  # browsers ask for one, and a site without it logs an error
html_css_files = ["shared.css", "site.css"]  # the first is the widgets' own
html_js_files = ["scroll.js"]
html_copy_source = False
html_show_sphinx = False
html_use_index = False
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/languages.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_context = {"languages": {code: text["name"] for code, text in TEXTS.items()}}

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_PIECES = re.compile(f"[A-Za-z0-9_\u00c0-\u024f]+|[{_CJK}]+")


class PairsOfLetters(SearchLanguage):
    """Korean, Japanese and Chinese by pairs of letters: no dictionary, and 위치를 is found by 위치."""

    js_splitter_code = """
function splitQuery(query) {
  const pieces = query.match(/[A-Za-z0-9_\\u00c0-\\u024f]+|[%s]+/g) || [];
  return pieces.flatMap((piece) => {
    if (/^[A-Za-z0-9_\\u00c0-\\u024f]/.test(piece) || piece.length < 2) return [piece];
    return Array.from({length: piece.length - 1}, (_, i) => piece.slice(i, i + 2));
  });
}
""" % _CJK.encode("ascii", "backslashreplace").decode()

    def split(self, input):
        words = []
        for piece in _PIECES.findall(input):
            if piece[0].isascii() or piece[0] < "\u3000":
                words.append(piece)
            else:
                words += [*piece, *(piece[i : i + 2] for i in range(len(piece) - 1))]
        return words


# Instead of Sphinx's own, which know Japanese by a dictionary, Chinese only with another package, and Korean not at all.
for _code in ("ko", "ja", "zh"):
    languages[_code] = type(f"Search_{_code}", (PairsOfLetters,), {"lang": _code, "language_name": _code})
