"""LIKE against a plain matcher, and how much of it pruning may believe."""

import copy
import itertools
import pickle

import pyarrow as pa
import pytest
from pyiceberg.expressions import And, EqualTo, StartsWith
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

import deletekit as dk
from deletekit.filters.filter import evaluate, parse_filter

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
            quoted = pattern.replace("'", "''")
            for where, wanted in ((f"s like '{quoted}'", True), (f"not s like '{quoted}'", False)):
                found = evaluate(parse_filter(where, SCHEMA), lambda _: pa.chunked_array([column]), len(column))
                assert found.to_pylist() == [matches(t, pattern) == wanted for t in TEXTS] + [False], pattern


def test_what_leaves_out_files() -> None:
    assert parse_filter("s like 'bob'", SCHEMA) == parse_filter(EqualTo("s", "bob"), SCHEMA)
    assert parse_filter("s like 'bob\\_%'", SCHEMA) == parse_filter(StartsWith("s", "bob_"), SCHEMA)
    made = parse_filter("s like 'bob_%'", SCHEMA)
    assert isinstance(made, And)
    assert made.left == parse_filter(StartsWith("s", "bob"), SCHEMA)


@pytest.mark.parametrize("pattern", ["a\\", "\\a", "%\\"])
def test_an_escape_before_nothing_to_escape_is_refused(pattern: str) -> None:
    with pytest.raises(dk.InvalidInputError, match="LIKE pattern"):
        parse_filter(f"s like '{pattern}'", SCHEMA)


def test_predicates_travel_and_turn_round() -> None:
    for required in (False, True):
        schema = Schema(NestedField(1, "s", StringType(), required=required))
        for where in ("s like 'a_%'", "not (s like 'a_%')"):
            bound = parse_filter(where, schema)
            for one in (bound, ~~bound, pickle.loads(pickle.dumps(bound)), copy.deepcopy(bound)):  # noqa: S301  # ours
                found = evaluate(one, lambda _: pa.chunked_array([["ab", "b", "a"]]), 3).to_pylist()
                assert found == [where.startswith("s") == matches(text, "a_%") for text in ("ab", "b", "a")]
