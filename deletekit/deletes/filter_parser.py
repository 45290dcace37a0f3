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

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from pyiceberg import expressions as ex
from pyiceberg.expressions import literals as li

from deletekit.deletes.like import like
from deletekit.errors import InvalidInputError

_T = TypeVar("_T")
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<hex>[xX]'(?:[0-9a-fA-F]{2})*')
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
    **dict.fromkeys(("=", "=="), ex.EqualTo),
    **dict.fromkeys(("!=", "<>"), ex.NotEqualTo),
    "<": ex.LessThan,
    "<=": ex.LessThanOrEqual,
    ">": ex.GreaterThan,
    ">=": ex.GreaterThanOrEqual,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEST = "an operator such as =, <, IN, BETWEEN, LIKE or IS"
_DEPTH = 100
_SHOWN = 60


def bad_filter(message: str, found: Any, expected: Any = None) -> InvalidInputError:
    """Return the error for a filter that is refused."""
    return InvalidInputError(message, kind="filter", field="where", found=found, expected=expected)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The token in capitals if it may be a word of the language, else an empty text."""
        return self.text.upper() if self.kind in ("word", "sign") else ""


def parse_text(text: str, check_column: Callable[[str], object]) -> ex.BooleanExpression:
    """Parse a filter to an expression whose literals do not have their columns' types yet.

    Parameters
    ----------
    check_column: takes the full name of a column. An InvalidInputError of it is shown with the column's place.

    Raises InvalidInputError, with the place and what was expected there.
    """
    return _Parser(text, check_column).whole()


class _Parser:
    def __init__(self, text: str, check_column: Callable[[str], object]) -> None:
        self._text = text
        self._check_column = check_column
        self._depth = 0
        self._tokens = self._split()
        self._next = 0

    def whole(self) -> ex.BooleanExpression:
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
            tokens.append(_Token(kind, match.group(kind), match.start(kind)))
            at = match.end()
        return tokens

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        self._next += 1
        return self._tokens[self._next - 1]

    def _took(self, word: str) -> bool:
        """Take the next token if it is this word or sign, and tell whether it was."""
        found = self._token.word == word
        self._next += found
        return found

    def _must(self, word: str) -> None:
        if not self._took(word):
            raise self._unexpected(word)

    def _separated(self, sign: str, part: Callable[[], _T]) -> list[_T]:
        parts = [part()]
        while self._took(sign):
            parts.append(part())
        return parts

    # --- filters ------------------------------------------------------------------------------------------------------

    def _any_of(self) -> ex.BooleanExpression:
        parts = self._separated("OR", self._all_of)
        return ex.Or(*parts) if len(parts) > 1 else parts[0]

    def _all_of(self) -> ex.BooleanExpression:
        parts = self._separated("AND", self._maybe_not)
        return ex.And(*parts) if len(parts) > 1 else parts[0]

    def _maybe_not(self) -> ex.BooleanExpression:
        is_not = False
        while self._took("NOT"):
            is_not = not is_not
        return ex.Not(self._test()) if is_not else self._test()

    def _test(self) -> ex.BooleanExpression:
        if self._token.word == "(":
            return self._in_parentheses()
        if self._token.kind in ("number", "text", "hex") or self._token.word in ("TRUE", "FALSE", "+", "-"):
            return self._value_first()
        column = self._column()
        made: ex.BooleanExpression
        if self._token.word in _COMPARISONS:
            made = _COMPARISONS[self._take().word](column, self._value())
            return made
        if self._took("IS"):
            return self._is(column)
        is_not = self._took("NOT")
        if self._took("IN"):
            self._must("(")
            made = ex.In(term=column, values=set(self._separated(",", self._value)))
            if not self._took(")"):
                raise self._unexpected(", or )")
        elif self._took("BETWEEN"):
            lowest = self._value()
            self._must("AND")
            highest = self._value()
            made = ex.And(
                ex.GreaterThanOrEqual(term=column, value=lowest), ex.LessThanOrEqual(term=column, value=highest)
            )
        elif self._took("LIKE"):
            made = self._like(column)
        elif is_not:
            raise self._unexpected("IN, BETWEEN or LIKE")
        elif self._token.kind == "end" or self._token.word in ("AND", "OR", ")"):
            made = ex.EqualTo(term=column, value=li.BooleanLiteral(True))
        else:
            raise self._unexpected(_TEST)
        return ex.Not(made) if is_not else made

    def _in_parentheses(self) -> ex.BooleanExpression:
        self._depth += 1
        if self._depth > _DEPTH:
            raise self._error(self._token.at, "(", f"at most {_DEPTH} parentheses in each other")
        self._must("(")
        made = self._any_of()
        self._must(")")
        self._depth -= 1
        return made

    def _value_first(self) -> ex.BooleanExpression:
        value = self._value()
        if self._token.word in _COMPARISONS:
            sign = self._take().word
            made: ex.BooleanExpression = _COMPARISONS[_MIRRORED.get(sign, sign)](self._column(), value)
            return made
        if not isinstance(value, li.BooleanLiteral):
            raise self._unexpected("an operator: = != < <= > >=")
        return ex.AlwaysTrue() if value.value else ex.AlwaysFalse()

    def _is(self, column: ex.Reference) -> ex.BooleanExpression:
        is_not = self._took("NOT")
        if self._took("NULL"):
            return ex.NotNull(term=column) if is_not else ex.IsNull(term=column)
        if self._took("NAN"):
            return ex.NotNaN(term=column) if is_not else ex.IsNaN(term=column)
        raise self._unexpected("NULL or NAN" if is_not else "NULL, NAN, NOT NULL or NOT NAN")

    def _like(self, column: ex.Reference) -> ex.BooleanExpression:
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

    def _column(self) -> ex.Reference:
        at = self._token.at
        name = ".".join(self._separated(".", self._name))
        try:
            self._check_column(name)
        except InvalidInputError as e:
            raise self._error(at, e.found, e.expected, e.message) from e
        return ex.Reference(name)

    def _name(self) -> str:
        token = self._token
        if token.kind not in ("quoted", "word"):
            raise self._unexpected("a column")
        if token.word in _RESERVED:
            raise self._unexpected('a column; one of this name goes into "..."')
        self._take()
        return _unquoted(token.text) if token.kind == "quoted" else token.text

    def _value(self) -> li.Literal[Any]:
        token = self._token
        if token.kind == "text":
            return li.StringLiteral(self._quoted_text())
        sign = token.text if token.word in ("+", "-") and self._tokens[self._next + 1].kind == "number" else ""
        if sign or token.kind == "number":
            self._next += len(sign)
            return li.literal(_number(sign + self._take().text))
        if token.kind == "hex":
            return li.BinaryLiteral(bytes.fromhex(self._take().text[2:-1]))
        if token.word in ("TRUE", "FALSE"):
            return li.BooleanLiteral(self._take().word == "TRUE")
        hint = ""
        if token.word == "NULL":
            hint = "; NULL equals nothing: ask for it with IS NULL"
        elif token.kind in ("word", "quoted"):
            hint = "; a column is compared with a value, not with a column"
        raise self._unexpected("a number, 'text' in single quotes, true or false" + hint)

    def _quoted_text(self) -> str:
        if self._token.kind != "text":
            raise self._unexpected("'text' in single quotes")
        return _unquoted(self._take().text)

    # --- errors -------------------------------------------------------------------------------------------------------

    def _unexpected(self, expected: str) -> InvalidInputError:
        return self._error(self._token.at, self._token.text or "the end", expected)

    def _error(self, at: int, found: Any, expected: Any, problem: str = "not understood") -> InvalidInputError:
        start = max(0, at - _SHOWN)
        shown = re.sub(r"\s", " ", self._text[start : at + _SHOWN])
        before = "..." if start else ""
        after = "..." if at + _SHOWN < len(self._text) else ""
        caret = " " * (len(before) + at - start) + "^"
        picture = f"    {before}{shown}{after}\n    {caret}"
        return bad_filter(f"bad filter:\n{picture}\n{problem} at character {at + 1}", found, expected)


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])


def _number(text: str) -> int | Decimal:
    return int(text) if text.lstrip("+-").isdigit() and len(text) < 100 else Decimal(text)


def _unreadable(sign: str) -> str:
    if sign in "'\"`":
        return f"a closing {sign}"
    return "a number as 12, -1.5 or 2e3" if sign.isdigit() or sign == "." else _TEST
