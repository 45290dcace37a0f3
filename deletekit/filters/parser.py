"""Parse the filter language, a part of SQL's WHERE, and the values that it compares.

    filter    = and-terms joined by OR;  and-term = not-terms joined by AND;  not-term = [NOT ...] test
    test      = ( filter ) | TRUE | FALSE | value                         (a boolean value alone: it is true)
              | value operator value                                      (operators: = == != <> < <= > >=)
              | value [NOT] IN ( value, ... ) | value [NOT] BETWEEN value AND value
              | value IS [NOT] NULL | value IS [NOT] NAN | value [NOT] (LIKE | ILIKE) text [ESCAPE text]
              | value IS [NOT] (TRUE | FALSE) | value IS [NOT] DISTINCT FROM value | value <=> value
    value     = products joined by + - ||;  product = signed values joined by * / %;  signed = [+ | -] one [:: type ...]
    one       = column | literal | ( value ) | function ( value, ... ) | CAST ( value AS type )
              | CASE WHEN filter THEN value ... [ELSE value] END
    column    = name.name...; a name is a word, or anything in "..." or `...`, with the quote doubled inside
    literal   = number | [DATE | TIMESTAMP ...] 'text' with ' doubled inside | TRUE | FALSE | X'hex digits' | NULL

Files are left out by tests of one column with literals; any other test is computed for each row. A text has SQL's
meaning, or it is refused with its place. Words may be in any case; names have the table's case. In a LIKE pattern
without ESCAPE, a backslash escapes %, _ and itself, as in Spark and PostgreSQL. `expression` has the functions.
"""

from collections.abc import Callable
from decimal import Decimal
from difflib import get_close_matches
from functools import reduce
from math import isfinite
from typing import Any, TypeVar

import pyarrow as pa
from pyiceberg import expressions as ex
from pyiceberg.expressions import literals as li

from deletekit.deferred import pc
from deletekit.errors import InvalidInputError
from deletekit.filters.advice import advice_on
from deletekit.filters.expression import Call, Case, Column, Computed, Literal, Value, columns_of, has_too_many_levels
from deletekit.filters.functions import FUNCTIONS
from deletekit.filters.in_list import one_of
from deletekit.filters.levels import LEVELS
from deletekit.filters.like import like_regex, split_pattern
from deletekit.filters.literals import TimeText
from deletekit.filters.tokens import Tokens, unquoted

_RESERVED = {"AND", "FALSE", "NOT", "NULL", "OR", "TRUE"}
_COMPARISONS: dict[str, Any] = {
    "=": ex.EqualTo,
    "!=": ex.NotEqualTo,
    "<": ex.LessThan,
    "<=": ex.LessThanOrEqual,
    ">": ex.GreaterThan,
    ">=": ex.GreaterThanOrEqual,
    "<=>": None,  # several tests: see `_same`
}
_SAME = {"==": "=", "<>": "!="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_AFTER_VALUE = {*_COMPARISONS, *_SAME, "::", "+", "-", "*", "/", "%", "||", "IS", "IN", "NOT", "BETWEEN", "LIKE"}
_AFTER_VALUE |= {"ILIKE"}
_TIMES = {
    "DATE": "'2020-01-31'",
    "TIME": "'12:30:00.5'",
    "TIMESTAMP_NTZ": "'2020-01-31T12:30:00.5' (no offset)",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_LTZ"), "'2020-01-31T12:30:00.5Z'"),
}
_NAMES = {
    "to_date": "date",
    "substr": "substring",
    "ceiling": "ceil",
    "pow": "power",
    "char_length": "length",
    "ifnull": "coalesce",
}
_CALLABLE = sorted(
    {*_NAMES, "concat", "date", *(name for name in FUNCTIONS if name.isidentifier())} - {"not", "like", "negative"}
)
_TYPES = {
    **dict.fromkeys(("INT", "INTEGER"), pa.int32()),
    **dict.fromkeys(("BIGINT", "LONG"), pa.int64()),
    **dict.fromkeys(("FLOAT", "REAL"), pa.float32()),
    "DOUBLE": pa.float64(),
    **dict.fromkeys(("STRING", "VARCHAR", "TEXT"), pa.string()),
    **dict.fromkeys(("BOOLEAN", "BOOL"), pa.bool_()),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
}
_TEST = "an operator such as =, <, IN, BETWEEN, LIKE or IS"
_ONE = "a column, a number, 'text' in single quotes, true or false"
_LEAST_SIMILARITY = 0.8  # less is misleading: now is like pow, and concat like cast
_MAX_LEVELS = 60
_Made = TypeVar("_Made")


class Parser(Tokens):
    """Reads one text to an expression whose literals do not have their columns' types yet.

    Parameters
    ----------
    check_column: takes the full name of a column. An InvalidInputError of it is shown with the column's place.

    Attributes
    ----------
    places: the tests that were read, each with its place in the text.
    """

    def __init__(self, text: str, check_column: Callable[[str], object], field: str = "where") -> None:
        super().__init__(text, field)
        self._check_column = check_column
        self._depth = 0
        self.places: list[tuple[ex.BooleanExpression, int]] = []

    def filter(self) -> ex.BooleanExpression:
        """Return the whole text as a filter. Raises InvalidInputError, with the place and what was expected there."""
        return self._whole(self._any_of(), "AND, OR or the end")

    def value(self) -> Value:
        """Return the whole text as a value. Raises as `filter`."""
        return self._whole(self._sum(), "an operator such as + or the end")

    # --- filters ------------------------------------------------------------------------------------------------------

    def _any_of(self) -> ex.BooleanExpression:
        parts = self.separated("OR", self._all_of)
        return ex.Or(*parts) if len(parts) > 1 else parts[0]

    def _all_of(self) -> ex.BooleanExpression:
        parts = self.separated("AND", self._maybe_not)
        return ex.And(*parts) if len(parts) > 1 else parts[0]

    def _maybe_not(self) -> ex.BooleanExpression:
        is_not = False
        while self.took("NOT"):
            is_not = not is_not
        if self.token.word == "(" and self.after_parentheses.word not in _AFTER_VALUE:
            made = self._in_parentheses(self._any_of)
        else:
            at = self.token.at
            made = self._test()
            self.places.append((made, at))
        return ex.Not(made) if is_not else made

    def _in_parentheses(self, inside: Callable[[], Any]) -> Any:
        self.must("(")
        made = self._inner(inside)
        self.must(")")
        return made

    def _inner(self, inside: Callable[[], Any]) -> Any:
        """Read what is inside of parentheses, a function, CASE or a sign: Python calls itself for it."""
        self._depth += 1
        if self._depth > _MAX_LEVELS:
            raise self.error(
                self.token.at,
                self.token.text,
                f"at most {_MAX_LEVELS} parentheses, functions, CASE and signs in each other",
            )
        made = inside()
        self._depth -= 1
        return made

    def _whole(self, made: _Made, expected: str) -> _Made:
        if self.token.kind != "end":
            raise self.unexpected(expected)
        if has_too_many_levels(made):
            raise self.error(0, self.text[:20], f"at most {LEVELS} operators, functions and tests in each other")
        return made

    def _test(self) -> ex.BooleanExpression:
        left = self._sum()
        sign = _SAME.get(self.token.word, self.token.word)
        if sign in _COMPARISONS:
            self.take()
            return self._compared(left, sign, self._sum())
        if isinstance(left, Literal):
            if isinstance(left.literal, li.BooleanLiteral):
                return ex.AlwaysTrue() if left.literal.value else ex.AlwaysFalse()
            raise self.unexpected("an operator: = != < <= > >=")
        if self.took("IS"):
            return self._is(left)
        is_not = self.took("NOT")
        made: ex.BooleanExpression
        if self.took("IN"):
            made = self._in(left)
        elif self.took("BETWEEN"):
            lowest = self._sum()
            self.must("AND")
            made = ex.And(self._compared(left, ">=", lowest), self._compared(left, "<=", self._sum()))
        elif self.token.word in ("LIKE", "ILIKE"):
            made = self._like(left, in_any_case=self.take().word == "ILIKE")
        elif is_not:
            raise self.unexpected("IN, BETWEEN, LIKE or ILIKE")
        elif self.token.kind == "end" or self.token.word in ("AND", "OR", ")", "THEN"):
            if not isinstance(left, Column):
                return self._computed(left)  # NOT is not before it: that needs IN, BETWEEN or LIKE
            made = ex.EqualTo(term=ex.Reference(left.name), value=li.BooleanLiteral(True))
        else:
            raise self.unexpected(_TEST)
        return ex.Not(made) if is_not else made

    def _compared(self, left: Value, sign: str, right: Value) -> ex.BooleanExpression:
        if sign == "<=>":
            return self._same(left, right)
        self._check_not_null(left)
        self._check_not_null(right)
        if isinstance(left, Literal) and isinstance(right, Column):
            left, sign, right = right, _MIRRORED.get(sign, sign), left
        if isinstance(left, Column) and isinstance(right, Literal):
            made: ex.BooleanExpression = _COMPARISONS[sign](ex.Reference(left.name), right.literal)
            return made
        return self._computed(Call(at=left.at, function=sign, arguments=(left, right)))

    def _check_not_null(self, value: Value) -> None:
        if isinstance(value, Literal) and value.literal is None:
            raise self.error(
                value.at, self.text[value.at :][:4], f"{_ONE}; NULL equals nothing: ask for it with IS NULL"
            )

    def _computed(self, value: Value) -> Computed:
        column = next(columns_of(value), None)
        if column is None:
            raise self.error(value.at, self.text[value.at :][:20], "a column: without one, nothing is chosen")
        return Computed(ex.Reference(column.name), value)

    def _in(self, left: Value) -> ex.BooleanExpression:
        self.must("(")
        values = self.separated(",", self._listed)
        if not self.took(")"):
            raise self.unexpected(", or )")
        for value in values:
            self._check_not_null(value)
        literals = [value for value in values if isinstance(value, Literal)]
        truths = [value for value in literals if isinstance(value.literal, li.BooleanLiteral)]
        if 0 < len(truths) < len(literals):  # Python takes TRUE for 1
            raise self.error(truths[0].at, self.text[truths[0].at :][:5], "values of one type")
        if isinstance(left, Column) and len(literals) == len(values):
            return one_of(ex.Reference(left.name), [v.literal for v in literals if v.literal is not None])
        return self._computed(Call(at=left.at, function="in", arguments=(left, *values)))

    def _listed(self) -> Value:
        """Read a value of a list, which may be very long: most are literals alone."""
        alone = self.token.kind in ("number", "text") and self.second.text in (",", ")")
        return (self._literal() if alone else None) or self._sum()

    def _is(self, value: Value) -> ex.BooleanExpression:
        is_not = self.took("NOT")
        if self.took("NULL"):
            made = self._is_null(value)
        elif self.took("NAN"):
            made = self._unary(ex.IsNaN, "is nan", value)
        elif self.token.word in ("TRUE", "FALSE"):
            made = self._same(value, self._sum())
        elif self.took("DISTINCT"):
            self.must("FROM")
            made, is_not = self._same(value, self._sum()), not is_not
        else:
            raise self.unexpected("NULL, NAN, TRUE, FALSE or DISTINCT FROM")
        return ~made if is_not else made

    def _unary(self, test: Any, function: str, value: Value) -> ex.BooleanExpression:
        if isinstance(value, Column):
            made: ex.BooleanExpression = test(term=ex.Reference(value.name))
            return made
        return self._computed(Call(at=value.at, function=function, arguments=(value,)))

    def _is_null(self, value: Value) -> ex.BooleanExpression:
        if isinstance(value, Literal):
            return ex.AlwaysTrue() if value.literal is None else ex.AlwaysFalse()
        return self._unary(ex.IsNull, "is null", value)

    def _same(self, left: Value, right: Value) -> ex.BooleanExpression:
        """Return a test that is never unknown: whether two values are equal, or both NULL."""
        nulls = self._is_null(left), self._is_null(right)
        if ex.AlwaysTrue() in nulls:
            return ex.And(*nulls)
        return ex.Or(ex.And(self._compared(left, "=", right), *(~null for null in nulls)), ex.And(*nulls))

    def _like(self, value: Value, *, in_any_case: bool) -> ex.BooleanExpression:
        pattern = self.token
        text, escape = self.quoted_text(), "\\"
        if in_any_case:
            value = Call(at=value.at, function="lower", arguments=(value,))
            text = pc.utf8_lower(text).as_py()
        if self.took("ESCAPE"):
            sign = self.token
            escape = self.quoted_text()
            if len(escape) != 1 or escape in "%_" or (in_any_case and escape.isalpha()):
                raise self.error(sign.at, sign.text, "one character that is not % or _, and no letter for ILIKE")
        try:
            begins, rest = split_pattern(text, escape)
        except ValueError as e:
            raise self.error(pattern.at, pattern.text, str(e)) from e
        computed = Call(at=value.at, function="like", arguments=(value,), option=like_regex(text, escape))
        if not isinstance(value, Column):
            return self._computed(computed)
        # Files are left out by what a text begins with.
        term, literal = ex.Reference(value.name), li.StringLiteral(begins)
        if not rest:
            return ex.EqualTo(term=term, value=literal)
        starts = ex.StartsWith(term=term, value=literal)
        return starts if rest == "%" else ex.And(starts, self._computed(computed))

    # --- values -------------------------------------------------------------------------------------------------------

    def _sum(self) -> Value:
        return self._operated(self._product, ("+", "-", "||"))

    def _product(self) -> Value:
        return self._operated(self._signed, ("*", "/", "%"))

    def _operated(self, part: Callable[[], Value], signs: tuple[str, ...]) -> Value:
        made = part()
        while self.token.word in signs and self.text[self.token.at : self.token.at + 2] != "--":
            sign = self.take().text
            made = Call(at=made.at, function=sign, arguments=(made, part()))
        return made

    def _signed(self) -> Value:
        at, sign = self.token.at, self.token.word
        if sign not in ("+", "-"):
            return self._single()
        self.take()
        if self.token.kind == "number":
            return Literal(at=at, literal=_number(sign + self.take().text))
        value = self._single() if self.token.at == at + 1 and self.token.word == "-" else self._inner(self._signed)
        return Call(at=at, function="negative" if sign == "-" else "positive", arguments=(value,))

    def _single(self) -> Value:
        made = self._one()
        while self.took("::"):
            made = Call(at=made.at, function="cast", arguments=(made,), option=self._type())
        return made

    def _one(self) -> Value:
        token = self.token
        if token.word == "(":
            made: Value = self._in_parentheses(self._sum)
            return made
        literal = self._literal()
        if literal is not None:
            return literal
        if token.kind == "word" and self.second.word == "(":
            return self._cast() if token.word == "CAST" else self._function()
        if token.word == "CASE" and self.second.word == "WHEN":
            return self._inner(self._case)  # type: ignore[no-any-return]
        return self._column()

    def _literal(self) -> Literal | None:
        token = self.token
        if token.word in _TIMES and self.second.kind == "text":
            word, text = self.take().word, self.token
            made = TimeText(self.quoted_text(), word)
            if made.own_type() is None:
                raise self.error(text.at, text.text, f"a {word} such as {_TIMES[word]}")
            return Literal(at=token.at, literal=made)
        if self.token.kind == "text":
            return Literal(at=token.at, literal=li.StringLiteral(self.quoted_text()))
        if token.kind == "number":
            return Literal(at=token.at, literal=_number(self.take().text))
        if token.kind == "hex":
            return Literal(at=token.at, literal=li.BinaryLiteral(bytes.fromhex(self.take().text[2:-1])))
        if token.word in ("TRUE", "FALSE"):
            return Literal(at=token.at, literal=li.BooleanLiteral(self.take().word == "TRUE"))
        if token.word == "NULL":
            self.take()
            return Literal(at=token.at, literal=None)
        return None

    def _function(self) -> Value:
        token = self.take()
        name = _NAMES.get(token.text.lower(), token.text.lower())
        if name not in _CALLABLE:
            like_it = get_close_matches(name, _CALLABLE, 3, _LEAST_SIMILARITY) or _CALLABLE
            known = None if advice_on(self.text, token.at) else ", ".join(like_it)
            raise self.error(token.at, token.text, known, "no such function")
        self.must("(")
        arguments = self._inner(lambda: tuple(self.separated(",", self._sum)))
        if not self.took(")"):
            raise self.unexpected(", or )")
        if name == "concat":
            joined: Value = reduce(lambda a, b: Call(at=token.at, function="||", arguments=(a, b)), arguments)
            return joined
        if name == "date":
            if len(arguments) > 1:
                raise self.error(token.at, token.text, "one value; a format is not taken", "too many values")
            return Call(at=token.at, function="cast", arguments=arguments, option=pa.date32())
        return Call(at=token.at, function=name, arguments=arguments)

    def _cast(self) -> Value:
        at = self.take().at
        self.must("(")
        value = self._inner(self._sum)
        self.must("AS")
        kind = self._type()
        self.must(")")
        return Call(at=at, function="cast", arguments=(value,), option=kind)

    def _type(self) -> Any:
        at = self.token.at
        kind = _TYPES.get(self.token.word)
        is_decimal = self.token.word == "DECIMAL"
        if kind is None and not is_decimal:
            raise self.unexpected(f"a type: {', '.join(sorted(_TYPES))} or DECIMAL(9, 2)".lower())
        self.take()
        if is_decimal:
            self.must("(")
            digits = [int(t.text) for t in self.separated(",", self.take) if t.text.isdigit()]
            self.must(")")
            if len(digits) != 2 or not 0 <= digits[1] <= digits[0] <= 38 or not digits[0]:
                raise self.error(at, "DECIMAL", "decimal(precision, scale) with at most 38 digits")
            kind = pa.decimal128(*digits)
        return kind

    def _case(self) -> Value:
        at = self.take().at
        tests, values = [], []
        while self.took("WHEN"):
            tests.append(self._any_of())
            self.must("THEN")
            values.append(self._sum())
        values.append(self._sum() if self.took("ELSE") else Literal(at=at, literal=None))
        self.must("END")
        return Case(at=at, tests=tuple(tests), values=tuple(values))

    def _column(self) -> Column:
        token, at = self.token, self.token.at
        name = ".".join(self.separated(".", self._name))
        try:
            found = self._check_column(name)
        except InvalidInputError as e:
            hint = "; a text is in single quotes" if token.text.startswith('"') else ""
            known = None if advice_on(self.text, at) else f"{e.expected}{hint}"
            raise self.error(at, e.found, known, e.message) from e
        return Column(at=at, name=found if isinstance(found, str) else name)

    def _name(self) -> str:
        token = self.token
        if token.kind not in ("quoted", "word"):
            raise self.unexpected(_ONE)
        if token.word in _RESERVED:
            raise self.unexpected('a column; one of this name goes into "..."')
        self.take()
        return unquoted(token.text) if token.kind == "quoted" else token.text


def _number(text: str) -> li.Literal[Any]:
    """Return a number; one with an exponent is a double, as in Spark."""
    if text.lstrip("+-").isdigit() and len(text) < 100:
        return li.LongLiteral(int(text))
    if "e" in text.lower() and isfinite(float(text)):
        return li.DoubleLiteral(float(text))
    return li.DecimalLiteral(Decimal(text))
