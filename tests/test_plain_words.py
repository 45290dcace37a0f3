"""Docstrings, comments, messages and the pages for contributors have words that readers of English as a second language
know.

The README, the lessons and their messages are not looked at here.
"""

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "docs/glossary.md")

PLAINER = {
    "akin": "like",
    "albeit": "although",
    "all the same": "but",
    "amongst": "among",
    "anew": "again",
    "are to be": "must be, or will be",
    "as it stands": "as it is",
    "as regards": "about",
    "ascertain": "find out",
    "at times": "sometimes",
    "but for": "except, or without",
    "by dint of": "by",
    "by means of": "with",
    "by virtue of": "because of",
    "commence": "begin",
    "conversely": "the other way round",
    "does not know it says": "a sentence of its own for what is not known",
    "endeavour": "try",
    "ere": "before",
    "for lack of": "without",
    "for want of": "without",
    "for who": "for those who",
    "forthwith": "now",
    "furthermore": "also",
    "hence": "so",
    "henceforth": "from now on",
    "hereby": "by this",
    "herein": "in this",
    "hitherto": "until now",
    "in lieu of": "instead of",
    "in order to": "to",
    "in spite of": "although",
    "inasmuch": "because",
    "insofar": "as far as",
    "is to be": "must be, or will be",
    "leverage": "use",
    "lest": "so that ... not",
    "likewise": "also",
    "merely": "only",
    "moreover": "also",
    "nevertheless": "but",
    "nobody": "no reader, no writer, ...: say who",
    "nonetheless": "but",
    "notwithstanding": "although",
    "nothing but": "only",
    "of which": "a sentence of its own",
    "of whom": "a sentence of its own",
    "ought": "must",
    "prior to": "before",
    "save for": "except",
    "shall": "must, or will",
    "so as to": "to",
    "so to speak": "",
    "solely": "only",
    "suffice": "be enough",
    "suffices": "is enough",
    "thence": "from there",
    "thereby": "by this",
    "therefor": "for it",
    "therein": "in it",
    "thereof": "of it",
    "thereupon": "then",
    "thus": "so",
    "to wit": "namely",
    "upon": "on",
    "utilise": "use",
    "utilize": "use",
    "was to be": "should have been",
    "were to be": "should have been",
    "whence": "from where",
    "whereas": "but",
    "whereby": "by which",
    "wherein": "in which",
    "whereupon": "then",
    "wherever": "where",
    "whichever": "any, or the one that",
    "whilst": "while",
    "whoever": "who, or the one who",
    "whomever": "who, or the one who",
    "whosoever": "who, or the one who",
}
"""What is not written, and what says the same more plainly."""

_FORBIDDEN = re.compile(r"\b(" + "|".join(p.replace(" ", r"\s+") for p in PLAINER) + r")\b", re.IGNORECASE)
_NEXT_LINE = re.compile(r"\n[ \t]*#? ?")


def test_words_are_plain() -> None:
    listed = subprocess.run(["git", "ls-files", "deletekit/*.py"], cwd=ROOT, check=True, capture_output=True, text=True)
    found = []
    for name in (*listed.stdout.split(), *PAGES):
        text = (ROOT / name).read_text(encoding="utf-8")
        for line, prose in _prose(text) if name.endswith(".py") else [(1, text)]:
            for before, said in _not_plain(prose):
                found.append(f"{name}:{line + before} {said!r}: {PLAINER[said]}")
    if found:
        pytest.fail("say it more plainly:\n" + "\n".join(found), pytrace=False)


def test_the_words_are_found_across_lines() -> None:
    code = "x = 1\ny = 2  # two\n# which is\n# to be read\nz = 3\n"
    assert [(line, list(_not_plain(prose))) for line, prose in _prose(code)] == [(2, [(1, "is to be")])]


def _not_plain(prose: str) -> Iterator[tuple[int, str]]:
    """Yield the words that are not plain, each with the number of lines before it."""
    text = _NEXT_LINE.sub("\n", prose)
    for match in _FORBIDDEN.finditer(text):
        yield text.count("\n", 0, match.start()), " ".join(match[0].split()).lower()


def _prose(code: str) -> Iterator[tuple[int, str]]:
    """Yield comments and texts of Python code, each with the line where it begins. Comments that follow are one."""
    begin, comment = 0, ""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            begin, comment = (begin, f"{comment}\n{token.string}") if comment else (token.start[0], token.string)
        elif token.type not in (tokenize.NL, tokenize.NEWLINE):
            if comment:
                yield begin, comment
            comment = ""
            if token.type == tokenize.STRING:
                yield token.start[0], token.string
