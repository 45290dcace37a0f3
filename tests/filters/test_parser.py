"""What a text says in the filter language; one that cannot be read is refused by its place and what belongs there."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
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
    NotNull,
    Or,
    StartsWith,
)

import deletekit as dk
from deletekit.filters.filter import parse_filter, unbound_filter
from deletekit.filters.parser import Parser
from deletekit.table.types import schema_from_arrow

SCHEMA = schema_from_arrow(
    pa.schema(
        [
            ("id", pa.int64()),
            ("category", pa.string()),
            ("a.b", pa.int32()),
            ("or", pa.int32()),
            ("like", pa.int32()),
            ('say "hi"', pa.int32()),
            ("straße", pa.int32()),
            ("flag", pa.bool_()),
            ("person", pa.struct([("name", pa.string()), ("born", pa.int32())])),
            ("list", pa.list_(pa.int32())),
        ]
    )
)


def parsed(text: str) -> BooleanExpression:
    return Parser(text, str).filter()


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a = 1", EqualTo("a", 1)),
        ("a == -1", EqualTo("a", -1)),
        ("a=+1", EqualTo("a", 1)),
        ("a != 1.50", NotEqualTo("a", Decimal("1.50"))),
        ("a <> .5", NotEqualTo("a", Decimal("0.5"))),
        ("a<-5", LessThan("a", -5)),
        ("a <= 2e3", LessThanOrEqual("a", Decimal(2000))),
        ("1 < a", GreaterThan("a", 1)),
        ("1 >= a", LessThanOrEqual("a", 1)),
        ("'x' = a", EqualTo("a", "x")),
        ("a = 'it''s \\'", EqualTo("a", "it's \\")),
        ("a = 'two\nlines'", EqualTo("a", "two\nlines")),
        ("a = X'00fF'", EqualTo("a", b"\x00\xff")),
        ("a = TRUE", EqualTo("a", True)),
        ("a", EqualTo("a", True)),
        ("not a and (b)", And(Not(EqualTo("a", True)), EqualTo("b", True))),
        ("true", AlwaysTrue()),
        ("False", AlwaysFalse()),
        ("a = 1 and true", EqualTo("a", 1)),
        ("a IN (1, -2.5)", In("a", [1, Decimal("-2.5")])),
        ("a not in ('x','y')", Not(In("a", ["x", "y"]))),
        ("a between 1 and 2 and b = 3", And(And(GreaterThanOrEqual("a", 1), LessThanOrEqual("a", 2)), EqualTo("b", 3))),
        ("a not between 1 and 2", Not(And(GreaterThanOrEqual("a", 1), LessThanOrEqual("a", 2)))),
        ("a is null or a IS NOT NULL", Or(IsNull("a"), NotNull("a"))),
        ("a is nan", IsNaN("a")),
        ("a like 'x%'", StartsWith("a", "x")),
        ("a like 'x#%' escape '#'", EqualTo("a", "x%")),
        ("not not a = 1", EqualTo("a", 1)),
        ("a = 1 or b = 2 and c = 3", Or(EqualTo("a", 1), And(EqualTo("b", 2), EqualTo("c", 3)))),
        ("(a = 1 or b = 2) and c = 3", And(Or(EqualTo("a", 1), EqualTo("b", 2)), EqualTo("c", 3))),
        ("not a = 1 or b = 2", Or(Not(EqualTo("a", 1)), EqualTo("b", 2))),
        ('"a"."b c" = 1', EqualTo("a.b c", 1)),
        ('"say ""hi""" = 1', EqualTo('say "hi"', 1)),
        ("`a``b` = 1", EqualTo("a`b", 1)),
        ("a . b = 1", EqualTo("a.b", 1)),
        ("nan is nan", IsNaN("nan")),
        ("like like 'x'", EqualTo("like", "x")),
        ("größe$1 = 1", EqualTo("größe$1", 1)),
        (" \n a\t=\n1 ", EqualTo("a", 1)),
    ],
)
def test_what_a_text_says(text: str, expression: BooleanExpression) -> None:
    assert parsed(text) == expression


@pytest.mark.parametrize(
    ("text", "at", "found", "expected"),
    [
        ("id = = 1", 6, "=", "a number, 'text' in single quotes, true or false"),
        ("id =", 5, "the end", "a number, 'text'"),
        ("id", 1, "id", None),
        ("", 1, "the end", "a column"),
        ("id = 1 category = 'a'", 8, "category", "AND, OR or the end"),
        ("id = 1)", 7, ")", "AND, OR or the end"),
        ("(id = 1", 8, "the end", ")"),
        ("id in ()", 8, ")", "a number, 'text'"),
        ("id in (1, null)", 11, "null", "IS NULL"),
        ("id not in (1, NULL)", 15, "NULL", "IS NULL"),
        ("id = null", 6, "null", "IS NULL"),
        ("id in 1", 7, "1", "("),
        ("id in (1 2)", 10, "2", ", or )"),
        ("id <=> = 1", 8, "=", "a number, 'text'"),
        ("id = category", 1, "id = category", None),
        ('category = "bob"', 12, "bob", "single quotes"),
        ("1 = 1", 1, "1 = 1", "a column"),
        ("'a'", 4, "the end", "an operator: ="),
        ("id between 1", 13, "the end", "AND"),
        ("id is 5", 7, "5", "NULL, NAN, TRUE, FALSE or DISTINCT FROM"),
        ("id is distinct 5", 16, "5", "FROM"),
        ("id not = 1", 8, "=", "IN, BETWEEN, LIKE or ILIKE"),
        ("category ilike 'a%' escape 'a'", 28, "'a'", "no letter"),
        ("date(category, 'yyyy') = '2024-01-01'", 1, "date", "one value"),
        ("category like 5", 15, "5", "'text' in single quotes"),
        ("category like 'a' escape 'ab'", 26, "'ab'", "one character"),
        ("category like 'a' escape '%'", 26, "'%'", "one character"),
        (r"category like 'a\b'", 15, r"'a\b'", "LIKE pattern"),
        ("category like 'a\\'", 15, "'a\\'", "LIKE pattern"),
        (r"category = 'it\'s'", 18, "'", "a closing '"),
        ("uper(category) = 'A'", 1, "uper", "upper"),
        ("upper(category, 'a') = 'A'", 1, "upper", None),
        ("upper(id) = 'A'", 1, "upper", None),
        ("upper(category)", 1, "upper", None),
        ("cast(id as blob) = 1", 12, "blob", "a type: bigint"),
        ("case when id = 1 then 2 = 2", 25, "=", "END"),
        ("(id + 1 = 2", 12, "the end", ")"),
        ("id + = 2", 6, "=", "a column"),
        ("id = 12abc", 6, "12abc", "a number as"),
        ("id = 1.2.3", 6, "1.2.3", "a number as"),
        ("id = 1 -- so it is", 8, "-", "AND, OR or the end"),
        ("id = 1; drop", 7, "; drop", "an operator"),
        ("id = 'open", 6, "'open", "a closing '"),
        ("or = 1", 1, "or", 'goes into "..."'),
        ("idd = 1", 1, "idd", "id; the columns are id"),
        ("person.nme = 'x'", 1, "person.nme", "person.name or person.born"),
        ("ID = 1", 1, "ID", "id; the columns are"),
        ("list.element = 1", 1, "list.element", "a column, or a field of structs"),
        ("id = 1 and " * 30 + "nope = 1", 331, "nope", "one of"),
        ("(" * 61 + "id = 1" + ")" * 61, 62, "id", "at most 60"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_shown(text: str, at: int, found: str, expected: str | None) -> None:
    with pytest.raises(dk.InvalidInputError) as caught:
        parse_filter(text, SCHEMA)
    error = caught.value
    assert (error.kind, error.field) == ("filter", "where")
    assert "{" not in str(error), "nobody is shown a grammar"
    if expected is None:
        return
    _, shown, caret, problem = error.message.split("\n")
    assert problem.endswith(f" at character {at}")
    assert error.found == found
    assert expected == "one of" or expected in error.expected
    pointed = shown[caret.index("^") :]
    assert pointed.startswith(text[at - 1 : at + 3].replace("\n", " ").rstrip())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a.b = 1", "a.b"),
        ('"a.b" = 1', "a.b"),
        ('"or" = 1', "or"),
        ("like = 1", "like"),
        ('"say ""hi""" = 1', 'say "hi"'),
        ("straße = 1", "straße"),
        ("person.born = 1", "person.born"),
        ('"person"."born" = 1', "person.born"),
    ],
)
def test_names_of_columns(text: str, name: str) -> None:
    made: Any = unbound_filter(text, SCHEMA)
    assert made.term.name == name


def test_very_many_terms_are_read() -> None:
    """An ORM writes filters of thousands of terms; a chain of them must not be a chain of calls."""
    text = " or ".join(f"id = {n}" for n in range(5000))
    assert parse_filter(text, SCHEMA) is not None
    with pytest.raises(dk.InvalidInputError):
        parse_filter("not " * 5000 + "id", SCHEMA)
