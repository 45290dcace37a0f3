"""Express LIKE as predicates by which pyiceberg prunes correctly.

Code that does not know LIKE keeps too many rows, never too few: it sees `Like` as a `StartsWith` of the text before the
first wildcard, and `NotLike` as `NotNull`.
"""

from __future__ import annotations

import re
from typing import Any

from pyiceberg import expressions as ex
from pyiceberg.expressions.literals import StringLiteral
from pyiceberg.expressions.visitors import BoundBooleanExpressionVisitor, visit_bound_predicate
from pyiceberg.schema import Schema

_WILDCARDS = {"%": ".*", "_": "."}


def like(term: Any, pattern: str, escape: str = "\\") -> ex.BooleanExpression:
    """Return the simplest predicate for `term LIKE pattern`.

    `%` stands for any text and `_` for any one character; after `escape` they stand for themselves. A pattern without
    a wildcard is an `EqualTo`, and one with a single `%` at its end a `StartsWith`.

    Raises ValueError, as Spark does, if `escape` comes before anything but `%`, `_` and itself.
    """
    signs = _signs(pattern, escape)
    first = next((i for i, sign in enumerate(signs) if sign in _WILDCARDS), len(signs))
    prefix = "".join(sign[-1] for sign in signs[:first])
    if first == len(signs):
        return ex.EqualTo(term=term, value=StringLiteral(prefix))
    if signs[first:] == ["%"]:
        return ex.StartsWith(term=term, value=StringLiteral(prefix))
    return Like(term, prefix, like_regex(pattern, escape))


def like_regex(pattern: str, escape: str = "\\") -> str:
    """Return the regular expression of a LIKE pattern. Raises as `like`."""
    return "".join(_WILDCARDS.get(sign) or f"\\x{{{ord(sign[-1]):x}}}" for sign in _signs(pattern, escape))


def _signs(pattern: str, escape: str) -> list[str]:
    """Return the characters of a pattern, each with its escape character."""
    signs = re.findall(f"{re.escape(escape)}.?|.", pattern, re.DOTALL)
    for sign in signs:
        if sign[0] == escape and sign[1:] not in ("%", "_", escape):
            raise ValueError(f"{sign} in a LIKE pattern; after {escape} comes %, _ or {escape}")
    return signs


class Like(ex.StartsWith):
    """A text that begins with `literal` and matches `regex` as a whole."""

    regex: str

    def __init__(self, term: Any, literal: Any, regex: str) -> None:
        prefix = literal if isinstance(literal, StringLiteral) else StringLiteral(literal)
        ex.UnboundPredicate.__init__(self, term, value=prefix, regex=regex)

    def __invert__(self) -> NotLike:  # type: ignore[override]  # pyiceberg declares NotStartsWith
        return NotLike(self.term, self.regex)

    def bind(self, schema: Schema, case_sensitive: bool = True) -> BoundLike:
        return BoundLike(self.term.bind(schema, case_sensitive), self.literal, self.regex)


class NotLike(ex.UnboundPredicate):
    """A text that does not match `regex`."""

    regex: str

    def __init__(self, term: Any, regex: str) -> None:
        super().__init__(term, regex=regex)

    def __invert__(self) -> ex.BooleanExpression:
        return Like(self.term, "", self.regex)

    def bind(self, schema: Schema, case_sensitive: bool = True) -> BoundNotLike:
        return BoundNotLike(self.term.bind(schema, case_sensitive), self.regex)

    @property
    def as_bound(self) -> type[BoundNotLike]:
        return BoundNotLike


class BoundLike(ex.BoundStartsWith):
    """`Like` of a column."""

    regex: str

    def __init__(self, term: ex.BoundTerm, literal: Any, regex: str) -> None:
        ex.BoundPredicate.__init__(self, term, literal=literal, regex=regex)

    def __invert__(self) -> BoundNotLike:  # type: ignore[override]  # as `Like`
        return BoundNotLike(self.term, self.regex)


class BoundNotLike(ex.BoundUnaryPredicate):
    """`NotLike` of a column."""

    regex: str

    def __init__(self, term: ex.BoundTerm, regex: str) -> None:
        ex.BoundPredicate.__init__(self, term, regex=regex)

    def __invert__(self) -> ex.BooleanExpression:
        return BoundLike(self.term, StringLiteral(""), self.regex)

    @property
    def as_unbound(self) -> type[ex.NotNull]:
        return ex.NotNull


@visit_bound_predicate.register(BoundNotLike)
def _(predicate: BoundNotLike, visitor: BoundBooleanExpressionVisitor[Any]) -> Any:
    return visitor.visit_not_null(predicate.term)
