"""LIKE against a plain matcher, and how much of it pruning may believe."""

from __future__ import annotations

import copy
import itertools
import pickle

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, Not, StartsWith
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from deletekit.filters.filter import evaluate, parse_filter
from deletekit.filters.like import BoundLike, BoundNotLike, Like, like

SCHEMA = Schema(NestedField(1, "s", StringType(), required=False))
TEXTS = ["", "a", "b", "ab", "ba", "aab", "a%", "a_", "_", "%", "\\", "a\\", "\n", "a\nb", "é", "\U0001f600", "\0", "("]


def matches(text: str, pattern: str) -> bool:
    """SQL's LIKE, one sign after the other."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(matches(text[at:], pattern[1:]) for at in range(len(text) + 1))
    if pattern[0] == "_":
        return bool(text) and matches(text[1:], pattern[1:])
    at = 1 if pattern[0] == "\\" else 0
    return text[:1] == pattern[at] and matches(text[1:], pattern[at + 1 :])


def test_every_short_pattern() -> None:
    column = pa.array([*TEXTS, None])
    parts = ["a", "b", "%", "_", "\\%", "\\_", "\\\\", "é", "\n", "\0", "("]
    for length in range(4):
        for pieces in itertools.product(parts, repeat=length):
            pattern = "".join(pieces)
            for made, wanted in ((like("s", pattern), True), (Not(like("s", pattern)), False)):
                found = evaluate(parse_filter(made, SCHEMA), lambda _: pa.chunked_array([column]), len(column))
                assert found.to_pylist() == [matches(t, pattern) == wanted for t in TEXTS] + [False], pattern


def test_the_simplest_predicate() -> None:
    assert like("s", "bob") == EqualTo("s", "bob")
    assert like("s", "bob\\_%") == StartsWith("s", "bob_")
    made = like("s", "bob_%")
    assert isinstance(made, Like)
    assert made.literal.value == "bob"


@pytest.mark.parametrize("pattern", ["a\\", "\\a", "%\\"])
def test_an_escape_before_nothing_to_escape_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="LIKE pattern"):
        like("s", pattern)


def test_predicates_travel_and_turn_round() -> None:
    made = like("s", "a_%")
    required = Schema(NestedField(1, "s", StringType(), required=True))
    for schema in (SCHEMA, required):
        bound, negated = parse_filter(made, schema), parse_filter(Not(made), schema)
        assert isinstance(bound, BoundLike)
        assert isinstance(negated, BoundNotLike), "of a required column too, where NOT NULL is always true"
        for one in (bound, negated, ~bound, ~negated):
            for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):  # noqa: S301  # ours
                assert (type(other), other.regex) == (type(one), bound.regex)  # type: ignore[attr-defined]
    assert type(rewrite_not(Not(Not(made)))) is Like
