"""Filters as verbs take them, before they are bound to a schema."""

from __future__ import annotations

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse

from deletekit.deletes.filter import Filter

__all__ = ["unbound_filter"]


def unbound_filter(where: Filter) -> BooleanExpression | None:
    """The expression of a filter that `parse_filter` accepted; pyiceberg's projections bind it themselves."""
    return parse(where) if isinstance(where, str) else where
