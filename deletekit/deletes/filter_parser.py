"""Parse the filter language: the part of SQL's WHERE by which a table's metadata can prune.

    filter    = and-terms joined by OR;  and-term = not-terms joined by AND;  not-term = [NOT ...] test
    test      = ( filter ) | TRUE | FALSE | column                        (a boolean column alone: it is true)
              | column operator value | value operator column             (operators: = == != <> < <= > >=)
              | column [NOT] IN ( value, ... ) | column [NOT] BETWEEN value AND value
              | column IS [NOT] NULL | column IS [NOT] NAN | column [NOT] LIKE text [ESCAPE text]
    column    = name.name...; a name is a word, or anything in "..." or `...`, with the quote doubled inside
    value     = number | 'text' with ' doubled inside | TRUE | FALSE | X'hex digits'

A text has SQL's meaning, or it is refused with its place. Words may be in any case; names have the table's case. In a
LIKE pattern without ESCAPE, a backslash escapes %, _ and itself, as in Spark and PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import BinaryLiteral, BooleanLiteral, Literal, StringLiteral, literal

from deletekit.deletes.like import like
from deletekit.errors import InvalidInputError

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<hex>[xX]'(?P<digits>(?:[0-9a-fA-F]{2})*)')
      | (?P<word>[^\W\d][\w$]*)
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w$.])
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
      | (?P<sign><>|!=|==|<=|>=|[=<>(),.+-])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_RESERVED = {"AND", "FALSE", "NOT", "NULL", "OR", "TRUE"}
_COMPARISONS: dict[str, Any] = {
    "=": EqualTo,
    "==": EqualTo,
    "!=": NotEqualTo,
    "<>": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_VALUE = "a number, 'text' in single quotes, true or false"
_TEST = "an operator such as =, <, IN, BETWEEN, LIKE or IS"
_DEPTH = 100
_SHOWN = 60


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The token in capitals if it may be a word of the language, else an empty text."""
        return self.text.upper() if self.kind in ("word", "sign") else ""


def parse_text(text: str, resolve: Callable[[tuple[str, ...]], str]) -> BooleanExpression:
    """Parse a filter to an expression whose literals do not have their columns' types yet.

    Parameters
    ----------
    resolve: takes the names of a column and of the structs that it is in, outermost first, and returns the column's
        full name. An InvalidInputError of it is shown with the column's place.

    Raises InvalidInputError, with the place and what was expected there.
    """
    return _Parser(text, resolve).whole()


class _Parser:
    def __init__(self, text: str, resolve: Callable[[tuple[str, ...]], str]) -> None:
        self._text = text
        self._resolve = resolve
        self._depth = 0
        self._tokens = self._split()
        self._next = 0

    def whole(self) -> BooleanExpression:
        made = self._any_of()
        if self._token.kind != "end":
            raise self._unexpected("AND, OR or the end")
        return made

    # --- tokens -------------------------------------------------------------------------------------------------------

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while not tokens or tokens[-1].kind != "end":
            match = _TOKEN.match(self._text, at)
            if match is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                raise self._error(at, self._text[at : at + 20], _unreadable(self._text[at]))
            kind = match.lastgroup or ""
            kind = "hex" if kind == "digits" else kind
            tokens.append(_Token(kind, match.group(kind), match.start(kind)))
            at = match.end()
        return tokens

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _took(self, *words: str) -> bool:
        """Take the next tokens if they are these words or signs, and tell whether they were."""
        found = tuple(t.word for t in self._tokens[self._next : self._next + len(words)])
        if found != words:
            return False
        self._next += len(words)
        return True

    def _must(self, word: str) -> None:
        if not self._took(word):
            raise self._unexpected(word)

    # --- filters ------------------------------------------------------------------------------------------------------

    def _any_of(self) -> BooleanExpression:
        parts = [self._all_of()]
        while self._took("OR"):
            parts.append(self._all_of())
        return Or(*parts) if len(parts) > 1 else parts[0]

    def _all_of(self) -> BooleanExpression:
        parts = [self._maybe_not()]
        while self._took("AND"):
            parts.append(self._maybe_not())
        return And(*parts) if len(parts) > 1 else parts[0]

    def _maybe_not(self) -> BooleanExpression:
        is_not = False
        while self._took("NOT"):
            is_not = not is_not
        return Not(self._test()) if is_not else self._test()

    def _test(self) -> BooleanExpression:
        if self._token.word == "(":
            return self._in_parentheses()
        if self._is_value():
            return self._value_first()
        column = self._column()
        if self._token.word in _COMPARISONS:
            return self._compared(column)
        if self._took("IS"):
            return self._is(column)
        is_not = self._took("NOT")
        if self._took("IN"):
            made: BooleanExpression = In(term=column, values=set(self._values()))
        elif self._took("BETWEEN"):
            lowest = self._value()
            self._must("AND")
            made = And(
                GreaterThanOrEqual(term=column, value=lowest),
                LessThanOrEqual(term=column, value=self._value()),
            )
        elif self._took("LIKE"):
            made = self._like(column)
        elif is_not:
            raise self._unexpected("IN, BETWEEN or LIKE")
        elif self._token.word in ("AND", "OR", ")", "") and self._token.kind in ("word", "sign", "end"):
            made = EqualTo(term=column, value=BooleanLiteral(True))
        else:
            raise self._unexpected(_TEST)
        return Not(made) if is_not else made

    def _in_parentheses(self) -> BooleanExpression:
        self._depth += 1
        if self._depth > _DEPTH:
            raise self._error(self._token.at, "(", f"at most {_DEPTH} parentheses in each other")
        self._must("(")
        made = self._any_of()
        self._must(")")
        self._depth -= 1
        return made

    def _value_first(self) -> BooleanExpression:
        value = self._value()
        sign = self._token.word
        if sign in _COMPARISONS:
            self._take()
            made: BooleanExpression = _COMPARISONS[_MIRRORED.get(sign, sign)](self._column(), value)
            return made
        if not isinstance(value, BooleanLiteral):
            raise self._unexpected("an operator: = != < <= > >=")
        return AlwaysTrue() if value.value else AlwaysFalse()

    def _compared(self, column: Reference) -> BooleanExpression:
        made: BooleanExpression = _COMPARISONS[self._take().word](column, self._value())
        return made

    def _is(self, column: Reference) -> BooleanExpression:
        is_not = self._took("NOT")
        if self._took("NULL"):
            made: BooleanExpression = IsNull(term=column)
        elif self._took("NAN"):
            made = IsNaN(term=column)
        else:
            raise self._unexpected("NULL or NAN" if is_not else "NULL, NAN, NOT NULL or NOT NAN")
        return ~made if is_not else made

    def _like(self, column: Reference) -> BooleanExpression:
        pattern = self._token
        text = self._quoted_text()
        escape = "\\"
        if self._took("ESCAPE"):
            sign = self._token
            escape = self._quoted_text()
            if len(escape) != 1 or escape in "%_":
                raise self._error(sign.at, sign.text, "one character that is not % or _")
        try:
            return like(column, text, escape)
        except ValueError as e:
            raise self._error(pattern.at, pattern.text, str(e)) from e

    # --- columns and values -------------------------------------------------------------------------------------------

    def _column(self) -> Reference:
        at = self._token.at
        path = [self._name()]
        while self._took("."):
            path.append(self._name())
        try:
            return Reference(self._resolve(tuple(path)))
        except InvalidInputError as e:
            raise self._error(at, e.found, e.expected, e.message) from e

    def _name(self) -> str:
        token = self._token
        if token.kind == "quoted":
            self._take()
            return token.text[1:-1].replace(token.text[0] * 2, token.text[0])
        if token.kind != "word":
            raise self._unexpected("a column")
        if token.word in _RESERVED:
            raise self._unexpected('a column; one of this name goes into "..."')
        return self._take().text

    def _is_value(self) -> bool:
        return self._token.kind in ("number", "text", "hex") or self._token.word in ("TRUE", "FALSE", "+", "-")

    def _value(self) -> Literal[Any]:
        token = self._token
        if token.word in ("+", "-") and self._tokens[self._next + 1].kind == "number":
            self._take()
            return literal(_number(token.text + self._take().text))
        if token.kind == "text":
            return StringLiteral(self._quoted_text())
        if token.kind == "number":
            return literal(_number(self._take().text))
        if token.kind == "hex":
            return BinaryLiteral(bytes.fromhex(self._take().text[2:-1]))
        if token.word in ("TRUE", "FALSE"):
            return BooleanLiteral(self._take().word == "TRUE")
        if token.word == "NULL":
            raise self._unexpected(f"{_VALUE}; NULL equals nothing: ask for it with IS NULL")
        hint = "; a column is compared with a value, not with a column" if token.kind in ("word", "quoted") else ""
        raise self._unexpected(_VALUE + hint)

    def _values(self) -> list[Literal[Any]]:
        self._must("(")
        values = [self._value()]
        while self._took(","):
            values.append(self._value())
        if not self._took(")"):
            raise self._unexpected(", or )")
        return values

    def _quoted_text(self) -> str:
        if self._token.kind != "text":
            raise self._unexpected("'text' in single quotes")
        return self._take().text[1:-1].replace("''", "'")

    # --- errors -------------------------------------------------------------------------------------------------------

    def _unexpected(self, expected: str) -> InvalidInputError:
        return self._error(self._token.at, self._token.text or "the end", expected)

    def _error(self, at: int, found: Any, expected: Any, problem: str = "not understood") -> InvalidInputError:
        start = max(0, at - _SHOWN)
        shown = re.sub(r"\s", " ", self._text[start : at + _SHOWN])
        before = "..." if start else ""
        after = "..." if at + _SHOWN < len(self._text) else ""
        caret = " " * (len(before) + at - start) + "^"
        return InvalidInputError(
            f"bad filter:\n    {before}{shown}{after}\n    {caret}\n{problem} at character {at + 1}",
            kind="filter",
            field="where",
            found=found,
            expected=expected,
        )


def _number(text: str) -> int | Decimal:
    return int(text) if text.lstrip("+-").isdigit() and len(text) < 100 else Decimal(text)


def _unreadable(sign: str) -> str:
    if sign in "'\"`":
        return f"a closing {sign}"
    return "a number as 12, -1.5 or 2e3" if sign.isdigit() or sign == "." else _TEST
