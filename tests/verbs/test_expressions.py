"""Tests of computed values choose what DuckDB chooses, and beside other tests files are left out as before."""

import datetime as dt
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import deletekit as dk
from deletekit.filters.filter import evaluate, parse_filter
from deletekit.table.types import schema_from_arrow
from tests.tables import make, new_catalog, raises, refused

NAN = float("nan")
TIMES = ["2020-01-01", "2021-02-28T23:59:59.000005"]
ROWS = pa.table(
    {
        "id": pa.array(range(48), pa.int64()),
        "a": pa.array([None, -7, -1, 0, 1, 2, 3, 10] * 6, pa.int32()),
        "b": pa.array([None, 0, 1, 2, -3, 7] * 8, pa.int64()),
        "d": pa.array([None, NAN, 0.0, -0.0, 1.5, 2.5, -2.5, float("inf")] * 6, pa.float64()),
        "e": pa.array([0.5, 1.5, None, NAN] * 12, pa.float64()),
        "s": pa.array([None, "", "a", "Ab", " x ", "éa", "it's", "a%"] * 6),
        "u": pa.array(["a", "b", None] * 16),
        "t": pa.array([None, *map(dt.datetime.fromisoformat, TIMES)] * 16, pa.timestamp("us")),
        "day": pa.array([dt.date(2020, 1, 1), None, dt.date(2021, 3, 1), dt.date(2021, 2, 28)] * 12),
    }
)  # fmt: skip
SCHEMA = schema_from_arrow(ROWS.schema)
NO_CASTS = [("d", "string"), ("t", "string"), ("t", "bigint"), ("day", "int"), ("a", "timestamp"), ("a", "date")]
"""What Arrow casts in a way of its own."""
BY_SPARK = [
    "a = b or d = e",
    "d > e",
    "not (d <= e)",
    "b / nullif(a, 0) > 0.5",
    "a % 3 = -1",
    "mod(b, 2) = 1",
    "- a + 2 * b >= 3",
    "u || s = 'aa'",
    "case when a > 1 then 'x' when a is null then u end = 'x'",
    "abs(a) > 5 and sign(a) < 0",
    "ceil(d) = 2 or floor(d) = -3",
    "round(d) = 3 or round(d) = -3",
    "sqrt(abs(b)) > 1.7",
    "exp(a) > 2 and ln(abs(b) + 1) > 1 and log10(abs(b) + 1) < 1",
    "power(a, 2) = 49",
    "greatest(d, e) > 1",
    "least(a, b) < 0",
    "coalesce(a, b, 5) = 5",
    "nullif(a, b) is null",
    "lower(s) = 'ab' or upper(s) = 'ÉA'",
    "trim(s) = 'x' or ltrim(s) = 'x ' or rtrim(s) = ' x'",
    "length(s) = 2",
    "reverse(s) = 'bA'",
    "substring(s, 2) = 'b' or substring(s, 1, 1) = 'é'",
    "replace(s, 'a', 'bb') = 'ébb'",
    "contains(s, '%')",
    "s like '%b' or s like '_a' or s like '%!%' escape '!'",
    "year(t) = 2021 and month(day) = 2 or quarter(t) = 1",
    "day(t) = 28 and hour(t) = 23 and minute(t) = 59",
    "date_trunc('month', t) = TIMESTAMP '2021-02-01 00:00:00'",
    "date_trunc('week', t) = TIMESTAMP '2019-12-30 00:00:00'",
    "date_trunc('quarter', t) = TIMESTAMP '2021-01-01 00:00:00'",
    "cast(a as double) / 2 = 0.5",
    "cast(b as string) like '%7'",
    "cast(day as string) like '2021%'",
    "cast(t as date) = DATE '2021-02-28'",
    "cast(day as timestamp) < t",
    "cast(a as boolean)",
    "cast(a as decimal(9, 2)) = 2.00",
    "a in (b, id, 3)",
    "a not in (b, 3)",
    "a between b and 3",
    "a + 1 is null",
    "d + e is not null",
    "d + e > 3",
]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("rows", ROWS)
        yield connection


def chosen(where: str) -> list[int]:
    bound = parse_filter(where, SCHEMA)
    names = {f.field_id: f.name for f in SCHEMA.fields}
    mask = evaluate(bound, lambda i: ROWS.column(names[i]), len(ROWS))
    found: list[int] = ROWS.filter(mask).column("id").to_pylist()
    return found


def by_duckdb(database: duckdb.DuckDBPyConnection, where: str) -> list[int]:
    return [row[0] for row in database.execute(f"SELECT id FROM rows WHERE {where} ORDER BY id").fetchall()]


COLUMN = st.sampled_from(["a", "b", "1", "2", "-3", "0"])
NUMBER: st.SearchStrategy[str] = st.recursive(
    COLUMN,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]} % nullif({t[1]}, 0))"),
        st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"greatest({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"least({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"nullif({t[0]}, {t[1]})"),
        inner.map(lambda t: f"abs({t})"),
        inner.map(lambda t: f"(- {t})"),
        st.tuples(inner, inner, inner).map(
            lambda t: (
                f"CASE WHEN {t[0]} > {t[1]} AND b < 3 THEN {t[2]} WHEN a IS NULL THEN 5 ELSE {t[1]} END"
                if {t[0], t[1]} - {"1", "2", "-3", "0"}
                else t[2]
            )
        ),
    ),
    max_leaves=4,
)
TEXT: st.SearchStrategy[str] = st.recursive(
    st.sampled_from(["s", "u", "'a'", "'Ab'", "''"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda t: f"({t[0]} || {t[1]})"),
        st.tuples(st.sampled_from(["lower", "upper", "trim", "ltrim", "rtrim", "reverse"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        inner.map(lambda t: f"substring({t}, 2, 1)"),
        inner.map(lambda t: f"replace({t}, 'a', 'bb')"),
        st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
    ),
    max_leaves=3,
)
FLOAT = st.sampled_from(["d", "e", "(d + e)", "(d * 2)", "abs(d)", "greatest(d, e)", "least(e, d)", "coalesce(d, e)"])
COMPARE = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def comparison(kind: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(kind, COMPARE, kind).map(" ".join),
        st.tuples(kind, kind, kind).map(lambda t: f"{t[0]} between {t[1]} and {t[2]}"),
        st.tuples(kind, kind, kind).map(lambda t: f"{t[0]} not in ({t[1]}, {t[2]})"),
        kind.map(lambda t: f"{t} is not null"),
    )


FILTER: st.SearchStrategy[str] = st.recursive(
    st.one_of(
        comparison(NUMBER),
        comparison(TEXT),
        comparison(FLOAT),
        st.tuples(TEXT, COMPARE, NUMBER).map(lambda t: f"length({t[0]}) {t[1]} {t[2]}"),
        st.tuples(TEXT, st.sampled_from(["'a%'", "'_b'", "'%a'"])).map(lambda t: f"{t[0]} like {t[1]}"),
    ),
    lambda inner: st.one_of(
        inner.map(lambda t: f"not ({t})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
    ),
    max_leaves=3,
)


def refused_by_name(where: str) -> bool:
    """Whether a filter has a test without a column, which deletekit refuses."""
    with suppress(dk.InvalidInputError):
        return parse_filter(where, SCHEMA) is None
    with pytest.raises(dk.InvalidInputError, match=r"without one|an operator"):
        parse_filter(where, SCHEMA)
    return True


@given(FILTER)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_expressions(database: duckdb.DuckDBPyConnection, where: str) -> None:
    if not refused_by_name(where):
        assert chosen(where) == by_duckdb(database, where), where


def test_a_division_by_zero_is_null() -> None:
    assert chosen("b / 0 is null and d / 0 is null and b % 0 is null") == list(range(48))
    assert chosen("b / a > 1") == chosen("a != 0 and b / a > 1")
    assert chosen("b / cast(0 as double) is null") == list(range(48))


def test_division_by_a_decimal() -> None:
    """Spark, DuckDB and Arrow each keep another number of digits, so `n / 3 = 0.333333` is true in one of them."""
    assert chosen("b / 2.5e0 > 1") == chosen("b / cast(2.5 as double) > 1") == chosen("b > 2.5")
    assert chosen("d / 0.5 = 3") == chosen("d = 1.5")
    for where in ("b / 2.5 > 1", "cast(a as decimal(4, 2)) / 3 = 0.333333", "2.5 / cast(a as decimal(4, 2)) > 1"):
        with pytest.raises(dk.InvalidInputError, match="CAST"):
            chosen(where)


def test_a_result_that_its_type_cannot_hold_is_refused() -> None:
    with raises(dk.InvalidInputError, "expression"):
        chosen("b + 9223372036854775807 > 1")


@pytest.mark.parametrize("where", ["cast(d as int) > 0", "cast(s as int) = 1", "cast(b + 0.25 as decimal(9, 1)) > 1"])
def test_a_cast_that_would_round_is_refused(where: str) -> None:
    with raises(dk.InvalidInputError, "expression"):
        chosen(where)


@pytest.mark.spark
def test_spark_computes_the_same(spark: Any) -> None:
    """Each construct of the pages, and each function: Spark chooses the same rows."""
    frame = spark.createDataFrame(ROWS)
    tests = [f"({where}) AS c{i}" for i, where in enumerate(BY_SPARK)]
    answer = frame.selectExpr("id", *tests).toArrow().sort_by("id")
    for i, where in enumerate(BY_SPARK):
        assert chosen(where) == answer.filter(pc.field(f"c{i}")).column("id").to_pylist(), where


@pytest.mark.parametrize(
    ("where", "at"),
    [
        *((f"cast({value} as {kind}) is null", 0) for value, kind in NO_CASTS),
        ("a = 1 and s + 1 = 2", 10),
        ("a = 1 and b = 'x'", 10),
        ("id = 1 or lower(a) = 'x'", 10),
        ("coalesce(t, 'soon') < t", 12),
        ("a = s", 0),
        ("t < '2020-01-01T00:00:00Z'", 0),
        ("day + 1 = day", 0),
        ("mod(d, 2) = 1", 0),
        ("substring(s, a) = 'x'", 0),
    ],
)
def test_types_that_do_not_fit_are_shown(where: str, at: int) -> None:
    with pytest.raises(dk.InvalidInputError) as caught:
        parse_filter(where, SCHEMA)
    _, shown, caret, _ = caught.value.message.split("\n")
    assert (shown.strip(), caret.index("^") - 4) == (where, at)


@pytest.mark.parametrize(
    "where",
    [
        "coalesce(u, x) = 'text'",
        "u = s || 'x'",
        "case when id > 1 then s else x end is null",
        "z = t",
        "greatest(z, t) = t",
    ],
)
def test_types_that_arrow_would_mix_are_refused(where: str) -> None:
    fields = [("id", pa.int64()), ("u", pa.uuid()), ("x", pa.binary(16)), ("s", pa.string())]
    schema = schema_from_arrow(pa.schema([*fields, ("t", pa.timestamp("us")), ("z", pa.timestamp("us", "UTC"))]))
    with raises(dk.InvalidInputError, "filter"):
        parse_filter(where, schema)


def test_verbs_take_expressions(catalog: dk.Catalog) -> None:
    """Every verb goes through one filter; equality deletes take the columns that it reads as their key."""
    for mode in ("copy-on-write", "deletion-vector", "equality-delete"):
        table = make(catalog, ROWS, schema=ROWS.schema, format_version=3)
        fields = None if mode != "equality-delete" else ["id"]
        dk.delete(table, "a = b or length(s) > 2", mode=mode, on=fields)
        gone = set(chosen("a = b or length(s) > 2"))
        assert dk.scan(table, columns=["id"]).to_arrow().column("id").to_pylist() == [
            i for i in range(48) if i not in gone
        ]
        assert dk.scan(table, "a = b").count() == 0
        assert dk.scan(table, "(a > b) and id >= 40").count() == len(set(chosen("(a > b) and id >= 40")) - gone)
        with refused(table, dk.InvalidInputError, "filter", field="where"):
            dk.delete(table, "a = u", mode=mode)


def test_files_are_still_left_out(tmp_path: Any) -> None:
    """`id > 40` leaves out the first file although a computed test is beside it."""
    with new_catalog(tmp_path) as catalog:
        table = make(catalog, ROWS.slice(0, 24), ROWS.slice(24), schema=ROWS.schema, partition_by=["bucket(2, a)", "d"])
        everything = len(dk.scan(table, "a < b").plan())
        assert len(dk.scan(table, "a < b and id > 40").plan()) < everything == len(dk.scan(table).plan())


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-01 00:00:00+00",
        "2020-01-01 00:00 UTC",
        "2020-01-01T05:30:00+0530",
        "2019-12-31T23:00:00-01",
        "2020-01-01",
    ],
)
def test_times_as_people_write_them(text: str) -> None:
    schema = schema_from_arrow(pa.schema([("z", pa.timestamp("us", "UTC")), ("id", pa.int64())]))
    column = pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    for where in (f"z = '{text}'", f"z = TIMESTAMP '{text}'", f"coalesce(z, '{text}') = '{text}'"):
        assert evaluate(parse_filter(where, schema), lambda _: column, 1).to_pylist() == [True]
