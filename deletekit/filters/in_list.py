"""IN and NOT IN of very many values: as pyiceberg's, without copying and hashing the list a dozen times.

pyiceberg makes a set of the literals each time that it makes, binds or negates such a predicate, and hashes each again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyiceberg import expressions as ex
from pyiceberg.expressions.literals import Literal
from pyiceberg.schema import Schema


def one_of(term: Any, literals: Iterable[Literal[Any]], *, is_not: bool = False) -> ex.BooleanExpression:
    """Return IN or NOT IN. The literals are of the column's type when it is bound. One alone is `=` or `!=`."""
    values = set(literals)
    if len(values) > 1:
        return (_NotIn if is_not else _In).model_construct(term=term, literals=values)
    made: Any = ex.NotIn if is_not else ex.In
    return made(term, values)  # type: ignore[no-any-return]


class _Made:
    """Is made by `model_construct`, with a set that is not looked at again."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        return object.__new__(cls)

    def __eq__(self: Any, other: object) -> bool:
        """Compare as pyiceberg's class does, which takes its subclass for another one."""
        same: Any = other if isinstance(other, type(self).__mro__[2]) else None
        return same is not None and bool(self.term == same.term and self.literals == same.literals)

    __hash__ = None  # type: ignore[assignment]  # as every predicate of pyiceberg


class _In(_Made, ex.In):
    def __invert__(self) -> _NotIn:
        return _NotIn.model_construct(term=self.term, literals=self.literals)

    def bind(self, schema: Schema, case_sensitive: bool = True) -> _BoundIn:
        return _BoundIn.model_construct(term=self.term.bind(schema, case_sensitive), literals=self.literals)


class _NotIn(_Made, ex.NotIn):
    def __invert__(self) -> _In:
        return _In.model_construct(term=self.term, literals=self.literals)

    def bind(self, schema: Schema, case_sensitive: bool = True) -> _BoundNotIn:
        return _BoundNotIn.model_construct(term=self.term.bind(schema, case_sensitive), literals=self.literals)


class _BoundIn(_Made, ex.BoundIn):
    def __invert__(self) -> _BoundNotIn:
        return _BoundNotIn.model_construct(term=self.term, literals=self.literals)


class _BoundNotIn(_Made, ex.BoundNotIn):
    def __invert__(self) -> _BoundIn:
        return _BoundIn.model_construct(term=self.term, literals=self.literals)
