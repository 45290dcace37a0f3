"""Long filters take steps in proportion to their length; deep ones, and foreign words, are refused by name."""

import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In, Not, NotIn, Or

import deletekit as dk
from deletekit.filters.filter import evaluate, filter_field_ids, parse_filter
from deletekit.filters.row_group_pruning import may_match
from deletekit.table.types import schema_from_arrow
from tests.tables import ids, make

SCHEMA = schema_from_arrow(pa.schema([("id", pa.int64()), ("i", pa.int32()), ("v", pa.string()), ("x", pa.float64())]))
FIELDS = {f.field_id: f for f in SCHEMA.fields}
ROWS = pa.table(
    {"id": [1, 2, None], "i": pa.array([1, 2, None], pa.int32()), "v": ["1", "2", None], "x": [1.0, 2.0, None]}
)


def listed(column: str, word: str, form: str) -> Callable[[int], str]:
    return lambda n: f"{column} {word} ({', '.join(form.format(k) for k in range(n))})"


LONG: dict[str, Callable[[int], Any]] = {
    "ints": listed("id", "IN", "{}"),
    "int32": listed("i", "NOT IN", "{}"),
    "texts": listed("v", "IN", "'{}'"),
    "doubles": listed("x", "NOT IN", "{}.5"),
    "computed": listed("id + 1", "IN", "{}"),
    "In": lambda n: In("id", range(n)),
    "NotIn": lambda n: NotIn("v", [str(k) for k in range(n)]),
    "OR": lambda n: " OR ".join(f"id = {k}" for k in range(n)),
    "AND": lambda n: " AND ".join(f"NOT (v = '{k}' OR id > {k})" for k in range(n)),
    "NOT": lambda n: "NOT " * 2 * n + "id = 1",
    "nested Or": lambda n: reduce(Or, (EqualTo("id", k) for k in range(n))),
    "to the right": lambda n: reduce(lambda made, k: Or(EqualTo("id", k), made), range(n), EqualTo("v", "a")),
    "negated": lambda n: reduce(
        lambda made, k: Not(And(Not(EqualTo("id", k)), Not(made))), range(n), EqualTo("v", "a")
    ),
}


def steps(where: str | BooleanExpression) -> int:
    """How many calls it takes to read, bind, prune and evaluate a filter."""
    count = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        bound = parse_filter(where, SCHEMA)
        filter_field_ids(bound)
        may_match(bound, FIELDS, None, {}, 3)  # type: ignore[arg-type]  # without statistics
        evaluate(bound, lambda i: ROWS.column(FIELDS[i].name), 3)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", LONG)
def test_a_filter_of_twice_the_length_takes_twice_the_steps(name: str) -> None:
    steps(LONG[name](10))
    few, many = steps(LONG[name](100)), steps(LONG[name](400))
    assert many < 4.4 * few + 1000
    is_list = " IN (" in str(LONG[name](2)) or name in ("In", "NotIn")
    assert many < 400 * (160 if is_list else 1500), "a value of a list is cheap, and so is a term"


def test_long_filters_choose_the_same_rows(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, schema=ROWS.schema, format_version=3)
    for name, chosen in {
        "ints": [1, 2], "int32": [], "texts": [1, 2], "doubles": [1, 2], "computed": [1, 2], "In": [1, 2], "NotIn": [],
        "OR": [1, 2], "AND": [], "NOT": [1], "nested Or": [1, 2], "negated": [1, 2],
    }.items():  # fmt: skip
        assert ids(table, LONG[name](300)) == chosen, name
    dk.delete(table, LONG["ints"](3000), mode="deletion-vector")
    assert dk.scan(table).count() == 1, "NULL is in no list"


def test_a_value_in_a_list_is_not_taken_for_another() -> None:
    """Python finds 1 and TRUE equal, and kept one of them."""
    for where in ("i IN (1, TRUE)", "i IN (TRUE, 1)", "v IN ('1', DATE '2020-01-01')", "i NOT IN (1, '1.5')"):
        with pytest.raises(dk.InvalidInputError):
            parse_filter(where, SCHEMA)


DEEP: dict[str, Callable[[int], Any]] = {
    "parentheses": lambda n: "(" * n + "id = 1" + ")" * n,
    "values in parentheses": lambda n: "(" * n + "id" + ")" * n + " = 1",
    "functions": lambda n: "lower(" * n + "v" + ")" * n + " = '1'",
    "casts": lambda n: "cast(" * n + "id" + " as bigint)" * n + " = 1",
    "signs": lambda n: "- " * n + "id = 1",
    "CASE": lambda n: "CASE WHEN id > 1 THEN " * n + "1" + " ELSE 0 END" * n + " = 1",
    "CASE WHEN CASE": lambda n: "CASE WHEN " * (n // 2) + "id > 1" + " THEN 1 ELSE 0 END = 1" * (n // 2),
    "operators": lambda n: "id" + " + 1" * n + " > 5",
    "texts": lambda n: "v" + " || v" * n + " = 'x'",
    "AND in OR": lambda n: "(id = 1 AND (i = 2 OR " * (n // 2) + "v = '1'" + "))" * (n // 2),
    "And in Or": lambda n: reduce(
        lambda made, k: (And if k % 2 else Or)(EqualTo("id", k), made), range(n), EqualTo("v", "1")
    ),
    "Not": lambda n: reduce(
        lambda made, k: Not(And(EqualTo("id", k), Or(EqualTo("i", k), made))), range(n // 2), EqualTo("v", "1")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEEP)
def test_deep_filters_are_read_or_refused_by_name(catalog: dk.Catalog, name: str) -> None:
    table = make(catalog, ROWS, schema=ROWS.schema, format_version=3)
    assert dk.scan(table, DEEP[name](40)).count() >= 0
    assert pickle.loads(pickle.dumps(parse_filter(DEEP[name](40), SCHEMA)))  # noqa: S301  # it travels to executors
    for levels in (58, 99, 250, 1000, 5000):
        refusal = None
        with suppress(dk.InvalidInputError):
            try:
                dk.scan(table, DEEP[name](levels)).count()
            except dk.InvalidInputError as e:
                refusal = e
                raise
        assert refusal is not None or levels < 200
        if refusal is not None:
            assert (refusal.kind, refusal.field) == ("filter", "where")
            assert levels > 50
            assert "recursion" not in str(refusal).lower()
            assert "at most" in str(refusal) or "more than" in str(refusal)


@pytest.mark.parametrize("name", DEEP)
def test_a_filter_of_twice_the_depth_takes_twice_the_steps(name: str) -> None:
    """Each level of CASE in CASE was bound twice, so 30 of them took days."""
    steps(DEEP[name](4))
    assert steps(DEEP[name](24)) < 2.5 * steps(DEEP[name](12)) + 1000


def test_a_stack_that_is_nearly_full_is_no_word_of_python() -> None:
    def deep(left: int) -> None:
        if left:
            return deep(left - 1)
        parse_filter("lower(" * 50 + "v" + ")" * 50 + " = '1'", SCHEMA)
        return None

    with pytest.raises(dk.InvalidInputError, match="than Python can visit"):
        deep(sys.getrecursionlimit() - 250)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("id IN (SELECT id FROM foo)", "dk.delete_keys(table, keys)"),
        ("WHERE id = 3", "WHERE"),
        ("x > now()", "your program"),
        ("x >= '2024-01-01' - interval 1 day", "your program"),
        ("concat_ws(',', v, 'x') = 'a,x'", "||"),
        ("if(id = 3, true, false)", "CASE"),
        ("count(*) > 1", "aggregates"),
        ("v ~ 'a'", "LIKE"),
        ("nvl(id, 1) = 1", "coalesce"),
        ("id = ?", "parameters"),
        ("id IN [1, 2]", "IN ("),
        ("id = 3 -- c", "no comment"),
        ("id = 3;", "without ;"),
        ("id = 3 && v = 'a'", "AND"),
    ],
)
def test_what_other_dialects_have_gets_advice(text: str, advice: str) -> None:
    with pytest.raises(dk.InvalidInputError) as caught:
        parse_filter(text, SCHEMA)
    assert caught.value.kind == "filter"
    assert "not supported" in str(caught.value)
    assert advice in str(caught.value.expected)


def test_no_function_is_taken_for_one_that_only_looks_alike() -> None:
    """`now` was answered by pow."""
    for name, near in {"uper": "upper", "lenght": "length", "coalesc": "coalesce"}.items():
        with pytest.raises(dk.InvalidInputError) as caught:
            parse_filter(f"{name}(v) = 'a'", SCHEMA)
        assert str(caught.value.expected) == near
    with pytest.raises(dk.InvalidInputError) as caught:
        parse_filter("nox(v) = 'a'", SCHEMA)
    assert "abs, cast" in str(caught.value.expected)


def test_a_column_with_the_name_of_a_foreign_word() -> None:
    schema = schema_from_arrow(pa.schema([("date", pa.int64()), ("count", pa.int64()), ("first", pa.int64())]))
    for name in ("date", "count", "first"):
        assert filter_field_ids(parse_filter(f"{name} = 1", schema))
