"""Cut the text of a filter or value into tokens, and show with a caret where it cannot be understood."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from deletekit.errors import InvalidInputError
from deletekit.filters.advice import advice_on

_T = TypeVar("_T")
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<hex>[xX]'(?:[0-9a-fA-F]{2})*')
      | (?P<word>[^\W\d][\w$]*)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w$.])
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
      | (?P<sign><=>|<>|!=|==|<=|>=|\|\||::|[=<>(),.+\-*/%])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_OPERATOR = "an operator such as =, <, IN, BETWEEN, LIKE or IS"
_CHARACTERS_SHOWN = 60


def bad_filter(message: str, found: Any, expected: Any = None, field: str = "where") -> InvalidInputError:
    """Return the error for a filter, or for the expression of the argument `field`, that is refused."""
    return InvalidInputError(message, kind="filter", field=field, found=found, expected=expected)


class Token(NamedTuple):
    """A word, sign or literal; `at` is its place in the text."""

    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The token in capitals if it may be a word of the language, else an empty text."""
        return self.text.upper() if self.kind in ("word", "sign") else ""


class Tokens:
    """The tokens of a text, taken one after the other."""

    def __init__(self, text: str, field: str = "where") -> None:
        self.text = text
        self._field = field
        self._tokens = self._split()
        self._next = 0
        self._closing = self._pairs()

    def _split(self) -> list[Token]:
        tokens: list[Token] = []
        at = 0
        while not tokens or tokens[-1].kind != "end":
            match = _TOKEN.match(self.text, at)
            if match is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                raise self.error(at, self.text[at : at + 20], _unreadable(self.text[at]))
            kind = match.lastgroup or ""
            tokens.append(Token(kind, match.group(kind), match.start(kind)))
            at = match.end()
        return tokens

    def _pairs(self) -> dict[int, int]:
        pairs, opened = {}, []
        for i, token in enumerate(self._tokens):
            if token.text == "(":
                opened.append(i)
            elif token.text == ")" and opened:
                pairs[opened.pop()] = i
        return pairs

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._next]

    @property
    def second(self) -> Token:
        """The token after the next one."""
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)]

    @property
    def after_parentheses(self) -> Token:
        """The token behind the parenthesis that closes the next one."""
        return self._tokens[self._closing.get(self._next, len(self._tokens) - 2) + 1]

    def take(self) -> Token:
        """Take the next token."""
        self._next += 1
        return self._tokens[self._next - 1]

    def took(self, word: str) -> bool:
        """Take the next token if it is this word or sign, and tell whether it was."""
        found = self.token.word == word
        self._next += found
        return found

    def must(self, word: str) -> None:
        """Take this word or sign. Raises InvalidInputError for another."""
        if not self.took(word):
            raise self.unexpected(word)

    def separated(self, sign: str, part: Callable[[], _T]) -> list[_T]:
        """Take parts with a word or sign between them."""
        parts = [part()]
        while self.took(sign):
            parts.append(part())
        return parts

    def quoted_text(self) -> str:
        """Take a text in single quotes and return what is in them."""
        if self.token.kind != "text":
            raise self.unexpected("'text' in single quotes")
        return unquoted(self.take().text)

    def unexpected(self, expected: str) -> InvalidInputError:
        """Return the error for the next token."""
        return self.error(self.token.at, self.token.text or "the end", expected)

    def error(self, at: int, found: Any, expected: Any, problem: str = "not understood") -> InvalidInputError:
        """Return the error for a place in the text, with a caret below it."""
        advice = advice_on(self.text, at)
        if advice is not None:
            problem, expected = "not supported", f"{expected}; {advice}" if expected else advice
        return self.pictured(at, f"{problem} at character {at + 1}", found, expected)

    def pictured(self, at: int, problem: str, found: Any, expected: Any = None) -> InvalidInputError:
        """Return the error with a sentence of its own below the caret."""
        start = max(0, at - _CHARACTERS_SHOWN)
        shown = re.sub(r"\s", " ", self.text[start : at + _CHARACTERS_SHOWN])
        before = "..." if start else ""
        after = "..." if at + _CHARACTERS_SHOWN < len(self.text) else ""
        caret = " " * (len(before) + at - start) + "^"
        picture = f"    {before}{shown}{after}\n    {caret}"
        what = "filter" if self._field == "where" else "expression"
        return bad_filter(f"bad {what}:\n{picture}\n{problem}", found, expected, self._field)


def unquoted(text: str) -> str:
    """Return what is between the quotes of a token, a doubled quote once."""
    return text[1:-1].replace(text[0] * 2, text[0])


def _unreadable(sign: str) -> str:
    if sign in "'\"`":
        return f"a closing {sign}"
    return "a number as 12, -1.5 or 2e3" if sign.isdigit() or sign == "." else _OPERATOR
