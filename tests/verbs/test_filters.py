"""Filters whose meaning is easy to miss, in every verb that takes one: SQL's meaning, or a refusal that says what."""

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, In, IsNull, LessThan, NotIn
from pyiceberg.schema import Schema

import deletekit as dk
from deletekit.tools.schema import commit_schema
from tests.tables import ids, make, raises, refused, unchanged

NAMES = ["bob_1", "bobby", "bob", "rob_1", "a%b", "axb", "a_b", None, "", "bob\n1"]
PEOPLE = pa.table({"id": pa.array(range(len(NAMES)), pa.int64()), "s": NAMES})
LIKE = {
    "s like 'bob_%'": [0, 1, 9],
    "s not like 'bob_%'": [2, 3, 4, 5, 6, 8],
    "s like 'bob\\_%'": [0],
    "s like 'bob#_%' escape '#'": [0],
    "s like '%_1'": [0, 3, 9],
    "s like '%b%b%'": [0, 1, 2, 9],
    "s like 'a_b'": [4, 5, 6],
    "s like 'a\\%b'": [4],
    "s like '_____'": [0, 1, 3, 9],
    "not (s like '%' or s = 'x')": [],
    "s like ''": [8],
}


@pytest.fixture(params=[[], ["s"], ["truncate(3, s)"]], ids=["whole", "by name", "by prefix"])
def people(request: pytest.FixtureRequest, catalog: dk.Catalog) -> dk.Table:
    files = [PEOPLE.slice(at, 4) for at in range(0, len(PEOPLE), 4)]
    return make(catalog, *files, schema=PEOPLE.schema, format_version=3, partition_by=request.param)


def test_like_in_every_verb(people: dk.Table) -> None:
    """An underscore was taken for itself: whoever was to go stayed, and no error said so."""
    for where, found in LIKE.items():
        assert ids(people, where) == found, where
        assert dk.scan(people, where).count() == len(found), where
    for where in list(LIKE)[:2]:
        found = LIKE[where]
        assert sorted(v.row["id"] for v in dk.explain(people, where).versions) == found
        dk.create_branch(people, f"delete{len(found)}")
        dk.delete(people, where, ref=f"delete{len(found)}", mode="deletion-vector")
        assert ids(people, ref=f"delete{len(found)}") == sorted(set(range(len(NAMES))) - set(found))
        dk.create_branch(people, f"update{len(found)}")
        dk.update(people, {"id": -1}, where=where, ref=f"update{len(found)}", mode="copy-on-write")
        assert ids(people, ref=f"update{len(found)}").count(-1) == len(found)


# --- three-valued logic and odd numbers -------------------------------------------------------------------------------


def test_a_required_field_of_a_null_struct_is_null(catalog: dk.Catalog) -> None:
    """pyiceberg takes the field for never null."""
    inner = pa.struct([pa.field("v", pa.int32(), nullable=False)])
    rows = pa.table({"id": [0, 1], "st": pa.array([None, {"v": 1}], inner)})
    table = make(catalog, rows, schema=rows.schema)
    assert ids(table, "st.v is null") == [0]
    assert ids(table, IsNull("st.v")) == [0]
    assert ids(table, "st.v is not null") == [1]
    assert ids(table, "not (st.v is null)") == [1]
    assert ids(table, "st.v != 2") == [1]
    dk.delete(table, "st.v is null", mode="copy-on-write")
    assert ids(table) == [1]


def test_minus_zero_and_nan(catalog: dk.Catalog) -> None:
    values = [0.0, -0.0, float("nan"), None, 1.0]
    rows = pa.table({"id": range(5), "d": values, "f": pa.array(values, pa.float32())})
    for spec in ([], ["d"]):
        table = make(catalog, rows, schema=rows.schema, partition_by=spec)
        for column in ("d", "f"):
            found = {
                f"{column} in (0.0, 7.0)": [0, 1],
                f"{column} in (-0.0, 7)": [0, 1],
                f"{column} not in (0, 7)": [2, 4],
                f"{column} = -0.0": [0, 1],
                f"{column} > 0.5": [2, 4],
                f"not ({column} <= 0.5)": [2, 4],
                f"{column} < 1e300": [0, 1, 4],
                f"{column} between 0 and 2": [0, 1, 4],
                f"{column} != 1": [0, 1, 2],
                f"{column} < 'Infinity' and {column} > '-inf'": [0, 1, 4],
                f"{column} > 'Infinity'": [2],
                f"{column} is not nan and {column} is not null": [0, 1, 4],
            }
            for where, wanted in found.items():
                assert ids(table, where) == wanted, where


def test_numbers_between_two_values(catalog: dk.Catalog) -> None:
    """A comparison is exact; what asks for such a number is refused: nobody means nothing by it."""
    rows = pa.table(
        {
            "id": range(3),
            "i": pa.array([1, 2, None], pa.int32()),
            "n": pa.array([Decimal("1.00"), Decimal("1.01"), None], pa.decimal128(9, 2)),
            "f": pa.array([0.1, 0.5, None], pa.float32()),
        }
    )
    table = make(catalog, rows, schema=rows.schema)
    assert ids(table, "i < 1.5") == ids(table, "i <= 1.5") == [0]
    assert ids(table, "i > 1.5") == ids(table, "not (i < 1.5)") == [1]
    assert ids(table, "n < 1.005") == [0]
    assert ids(table, "n >= 1.005") == [1]
    assert ids(table, "n < 99999999999") == ids(table, "n != 99999999999") == ids(table, "n > -1e30") == [0, 1]
    assert ids(table, "n in (1, 99999999999)") == [0]
    assert ids(table, "n = 1e400000000") == ids(table, "i > 1e400000000") == []
    assert ids(table, "f > 0.1") == [0, 1], "the float next to 0.1 is above it, as Spark says"
    assert ids(table, EqualTo("f", rows["f"][0].as_py())) == [0]
    for where, near in {"i = 1.5": "1 and 2", "n in (1, 1.005)": "1.00 and 1.01", "f != 0.1": "0.1000000014"}.items():
        with refused(table, dk.InvalidInputError, "filter", field="where") as refusal:
            dk.delete(table, where)
        assert near in str(refusal.error)


def test_decimals_of_38_digits(catalog: dk.Catalog) -> None:
    """Python's decimals have 28 digits by default: more are refused there, or rounded by a minus sign."""
    long, longer = (
        Decimal("1234567890123456789012345678.0123456789"),
        Decimal("1234567890123456789012345678.0123456790"),
    )
    rows = pa.table({"id": range(4), "m": pa.array([long, longer, long.copy_negate(), None], pa.decimal128(38, 10))})
    for spec in ([], ["m"], ["truncate(10, m)"], ["bucket(4, m)"]):
        table = make(catalog, *(rows.slice(i, 1) for i in range(4)), schema=rows.schema, partition_by=spec)
        assert ids(table, f"m = {long}") == [0]
        assert ids(table, f"m = -{long}") == ids(table, EqualTo("m", long.copy_negate())) == [2]
        assert ids(table, f"m > {long}") == [1]
        assert ids(table, f"m in ({longer}, -{long})") == [1, 2]
        assert ids(table, f"m < {longer}") == [0, 2]


# --- values as text ---------------------------------------------------------------------------------------------------

MOMENT = dt.datetime(2024, 2, 29, 12, 30, 0, 500000)  # noqa: DTZ001  # of a column without a zone
TIMES = pa.table(
    {
        "id": range(2),
        "day": [dt.date(2024, 2, 29), None],
        "tm": pa.array([dt.time(12, 30, 0, 500000), None], pa.time64("us")),
        "t": pa.array([MOMENT, None], pa.timestamp("us")),
        "z": pa.array([MOMENT.replace(tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "t9": pa.array([1709209800500000001, None], pa.timestamp("ns")),
        "z9": pa.array([1709209800500000001, None], pa.timestamp("ns", "UTC")),
        "u": pa.array([uuid.UUID(int=7).bytes, None], pa.binary(16)).cast(pa.binary(16)),
        "x": pa.array([b"\x00\xff", None], pa.binary()),
        "b": [True, None],
        "l": pa.array([[1], None], pa.list_(pa.int32())),
    }
)
FOUND = [
    "z = '2024-02-29T12:30:00.5Z'", "z = '2024-02-29 12:30:00.500+00:00'", "z = '2024-02-29 13:30:00.5 +0100'",
    "z = '2024-02-29T07:00:00.5-05:30'", "z > '2024-02-29'", "z < '2024-03-01'", "z >= '2024-02-29 12:30Z'",
    "t = '2024-02-29 12:30:00.5'", "t = '2024-02-29T12:30:00.500000'", "t > '2024-02-29'", "t < '2024-02-29 12:31'",
    "t in ('2024-02-29 12:30:00.500', '2020-01-01')", "day = '2024-02-29'", "day between '2024-02-29' and '2024-03-01'",
    "tm = '12:30:00.5'", "tm > '12:30'", "b = true", "b", "b = 'TRUE'", "not (b = false)", "b > false",
    "x = X'00ff'", "x > x'00'", "x in (X'00FF', X'')", "u = X'00000000000000000000000000000007'",
    "t9 = '2024-02-29 12:30:00.500000001'", "t9 > '2024-02-29T12:30:00.5'", "z9 = '2024-02-29T12:30:00.500000001Z'",
    "t9 in ('2024-02-29 12:30:00.500000001', '2020-01-01')", "z9 < '2024-03-01'", "l is not null", "not (l is null)",
]  # fmt: skip
REFUSED = [
    "z = '2024-02-29T12:30:00'", "z = '2024-02-29 12:30'", "t = '2024-02-29T12:30:00Z'", "t = '2024-02-30'",
    "t = '2024-02-29T12:30:00.0000001'", "t = 1709209800500000", "t = '29.02.2024'", "t = 'now'",
    "t = '2024-02-29T25:00:00'", "z = '2024-02-29T12:30:00+25:00'", "day = 19782", "day = '2024-02-29 12:30:00'",
    "day = 20240229", "day = '20240229'", "tm = 5", "tm = '12:30Z'", "tm = '12:30:00.0000001'", "x = 'abc'",
    "u = 'abc'",
    "u = '{00000000-0000-0000-0000-000000000007}'", "b = 1", "b = 'yes'", "day = true", "l = 1", "l in (1)",
    "l like 'a'", "x like 'a%'", "id like '1%'", "id = 'one'", "id = '1_0'", "id = '\u0661'", "id = 'nan'",
    "id < 'inf'", "id = true", "day in ('2024-02-29', 'x')", "x = X'0'",
]  # fmt: skip


def test_values_of_every_type_as_text(catalog: dk.Catalog) -> None:
    table = make(catalog, TIMES, schema=TIMES.schema, format_version=3)
    for where in FOUND:
        assert ids(table, where) == [0], where
        assert ids(table, f"not ({where})") == ([1] if where in FOUND[-2:] else []), where
    with unchanged(table):
        for where in REFUSED:
            with pytest.raises(dk.InvalidInputError) as caught:
                dk.delete(table, where)
            assert (caught.value.kind, caught.value.field) == ("filter", "where"), where


def test_the_first_and_the_last_day_of_python(catalog: dk.Catalog) -> None:
    """Pruning looks at the day before and after; what has none is not pruned."""
    rows = pa.table({"id": range(2), "day": [dt.date.min, dt.date.max]})
    for transform in ("year", "month", "day"):
        table = make(catalog, rows, schema=rows.schema, partition_by=f"{transform}(day)")
        assert ids(table, "day < '0001-01-01' or day > '9999-12-31'") == []
        assert ids(table, "day <= '0001-01-01'") == [0]
        assert ids(table, "day >= '9999-12-31'") == [1]


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
def test_truncate_wraps_round_below_the_lowest_integer(catalog: dk.Catalog, kind: pa.DataType) -> None:
    """As in Java: the row is in a partition of very large numbers."""
    lowest = -(1 << (kind.bit_width - 1))
    rows = pa.table({"id": range(4), "i": pa.array([lowest, lowest + 9, 5, -lowest - 1], kind)})
    table = make(catalog, *(rows.slice(n, 1) for n in range(4)), schema=rows.schema, partition_by="truncate(3, i)")
    assert ids(table, "i < 0") == [0, 1]
    assert ids(table, f"i = {lowest}") == [0]
    assert ids(table, f"i <= {-lowest - 1}") == [0, 1, 2, 3]


def test_values_of_python(catalog: dk.Catalog) -> None:
    table = make(catalog, TIMES, schema=TIMES.schema, format_version=3)
    noon = dt.datetime(2024, 2, 29, 12, 0)  # noqa: DTZ001
    assert ids(table, EqualTo("t", MOMENT)) == ids(table, EqualTo("z", MOMENT.replace(tzinfo=dt.UTC))) == [0]
    assert ids(table, EqualTo("day", dt.date(2024, 2, 29))) == ids(table, GreaterThan("t", dt.date(2024, 2, 29))) == [0]
    assert ids(table, In("t9", [MOMENT, noon])) == []
    assert ids(table, GreaterThan("t9", MOMENT)) == [0]
    assert ids(table, EqualTo("tm", dt.time(12, 30, 0, 500000))) == [0]
    assert ids(table, EqualTo("u", uuid.UUID(int=7).bytes)) == [0]
    assert ids(table, NotIn("x", [b"a", b"b"])) == [0]
    for where in (
        EqualTo("day", noon),
        EqualTo("day", 19782),
        LessThan("t", 5),
        EqualTo("x", "abc"),
        In("nope", [1, 2]),
    ):
        with refused(table, dk.InvalidInputError, "filter", field="where"):
            dk.delete(table, where)


# --- names ------------------------------------------------------------------------------------------------------------

ROWS = [{"id": 1, "i": 1, "d": 5}, {"id": 2, "i": 1, "d": 6}]
IDS = pa.schema([pa.field(n, pa.int64()) for n in ("id", "i", "d")])
ONE_NAME: dict[str, Callable[[dk.Table], Any]] = {
    "merge": lambda t: dk.merge(t, [{"id": 2, "i": 9, "d": 9}], on="id"),
    "merge by equality deletes": lambda t: dk.merge(t, [{"id": 2, "i": 9, "d": 9}], on="id", mode="equality-delete"),
    "upsert": lambda t: dk.upsert(t, [{"id": 2, "i": 9, "d": 9}], on="id"),
    "delete": lambda t: dk.delete(t, "d = 6", mode="equality-delete", on="id"),
    "delete_keys": lambda t: dk.delete_keys(t, [{"id": 2, "i": 5, "d": 5}], on="id"),
    "update": lambda t: dk.update(t, {"d": 9, "i": 9}, where="d = 6", mode="equality-delete", on="id"),
}


@pytest.mark.parametrize("verb", ONE_NAME)
def test_one_name_is_one_column(catalog: dk.Catalog, verb: str) -> None:
    """Not its letters: this table has an `i` and a `d` too, and by these other rows would go."""
    table = make(catalog, ROWS, schema=IDS)
    ONE_NAME[verb](table)
    left = dk.scan(table).to_arrow().to_pylist()
    assert sorted(r["id"] for r in left) == ([1] if "delete" in verb and "merge" not in verb else [1, 2])
    assert ROWS[0] in left
    assert ROWS[1] not in left


def test_one_name_to_read_and_to_partition_by(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, schema=IDS, partition_by="id")
    assert [f.name for f in table.metadata.spec.fields] == ["id"]
    assert dk.scan(table, columns="id").to_arrow().column_names == ["id"]
    assert [v.row for v in dk.explain(table, "id = 1", columns="id").versions] == [{"id": 1}]
    with dk.stream.sink(table, "s", on="id", change_type=None) as sink:
        sink.write([{"id": 2, "i": 9, "d": 9}], 0)
    assert sorted(dk.scan(table).to_arrow().to_pylist(), key=str) == [ROWS[0], {"id": 2, "i": 9, "d": 9}]


MISTYPED: dict[str, Callable[[dk.Table], Any]] = {
    "scan": lambda t: dk.scan(t, columns=["categroy"]),
    "filter": lambda t: dk.scan(t, "categroy = 'a'"),
    "expression": lambda t: dk.scan(t, EqualTo("categroy", "a")),
    "append": lambda t: dk.append(t, [{"id": 1, "categroy": "a"}]),
    "update": lambda t: dk.update(t, {"categroy": "a"}, where="id = 1"),
    "merge": lambda t: dk.merge(t, [{"id": 1, "category": "a"}], on=["categroy"]),
    "merge's source": lambda t: dk.merge(t, [{"id": 1, "categroy": "a"}], on="id"),
    "upsert": lambda t: dk.upsert(t, [{"id": 1, "category": "a"}], on="categroy"),
    "delete_keys": lambda t: dk.delete_keys(t, [{"categroy": "a"}]),
    "rename": lambda t: dk.rename_column(t, "categroy", "x"),
    "partition": lambda t: dk.add_partition_field(t, "truncate(3, categroy)"),
}


@pytest.mark.parametrize("verb", MISTYPED)
def test_a_mistyped_name_gets_the_nearest_one(catalog: dk.Catalog, verb: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("category", pa.string())])
    table = make(catalog, [{"id": 1, "category": "a"}], schema=schema)
    with unchanged(table), pytest.raises(dk.DeletekitError) as caught:
        MISTYPED[verb](table)
    assert str(caught.value.expected).startswith("category; the columns are "), caught.value


ODD_NAMES = [
    "a.b", "a b", 'say "hi"', "tick`s", "it's", "select", "null", "and", "DATE", "1st", "-", "%",
    "ünï", "\u540d", " ", "--",
]  # fmt: skip


def test_columns_of_every_name_are_filtered_by_quotes(catalog: dk.Catalog) -> None:
    rows = pa.table({"id": [1, 2], **{name: [n, None] for n, name in enumerate(ODD_NAMES)}})
    table = make(catalog, rows, schema=rows.schema, format_version=3)
    for n, name in enumerate(ODD_NAMES):
        for quote in '"`':
            quoted = f"{quote}{name.replace(quote, quote * 2)}{quote}"
            assert ids(table, f"{quoted} = {n}") == ids(table, f"{quoted} + 0 IN ({n}, -1)") == [1], quoted
            assert ids(table, f"{quoted} IS NULL") == [2], quoted


def test_a_column_without_a_name_is_not_made_and_yet_read(catalog: dk.Catalog) -> None:
    inner = pa.struct([("", pa.int64())])
    for kind in ([("id", pa.int64()), ("", pa.int64())], [("s", inner)], [("s", pa.list_(inner))]):
        with raises(dk.InvalidInputError, "name", field="schema"):
            dk.create_table(catalog, "demo.nameless", pa.schema(kind))
    rows = pa.table({"id": [1, 2], "n": [5, None]})
    table = make(catalog, rows, schema=rows.schema)
    for change in (lambda: dk.add_column(table, "", "int"), lambda: dk.rename_column(table, "n", "")):
        with unchanged(table), pytest.raises(dk.InvalidInputError):
            change()
    nameless = Schema(*(f.model_copy(update={"name": f.name.strip("n")}) for f in table.schema.fields))
    commit_schema(table, lambda _: nameless)
    assert dk.scan(table).to_arrow().column_names == ["id", ""]
    assert ids(table, '"" = 5') == ids(table, "`` + 1 = 6") == [1]
    assert ids(table, '"" IS NULL') == [2]


@pytest.mark.parametrize(
    "where",
    [
        *("name ILIKE 'b%'", "name NOT ILIKE 'B%'", "name ILIKE 'É_'", "name || 'x' ILIKE '%BX'"),
        *("flag IS TRUE", "flag IS NOT TRUE", "flag IS FALSE", "flag IS NOT FALSE", "NOT (flag IS TRUE) AND a > 1"),
        *("a IS DISTINCT FROM b", "a IS NOT DISTINCT FROM b", "NOT (a IS DISTINCT FROM b)", "a + 1 IS DISTINCT FROM b"),
        *("a IS DISTINCT FROM 3", "a IS NOT DISTINCT FROM 3", "a IS DISTINCT FROM NULL", "a IS NOT DISTINCT FROM NULL"),
        *("a::int = 3", "(a + 1)::string = '4'", "-a::double = -3.0", "a = '3'::int", "a::decimal(9, 2) = 3"),
        *("day::date = DATE '2024-01-03'", "day::date::string = '2024-01-03'", "(day)::date IN (DATE '2024-01-02')"),
    ],
)
def test_words_of_several_dialects_mean_what_duckdb_reads(catalog: dk.Catalog, where: str) -> None:
    values = """(1, 1, 'a', TRUE), (2, NULL, 'B', FALSE), (3, 5, NULL, NULL), (NULL, 4, 'bob', TRUE),
                (NULL, NULL, 'Éa', NULL), (3, 3, 'éA', FALSE)"""
    query = f"""SELECT a::BIGINT AS a, b::BIGINT AS b, name, flag, TIMESTAMP '2024-01-01 12:00:00'
                + to_days((row_number() OVER () - 1)::INT) AS day FROM (VALUES {values}) AS t(a, b, name, flag)"""
    rows = duckdb.sql(query).to_arrow_table()
    table = make(catalog, rows, schema=rows.schema)
    expected = duckdb.sql(f"SELECT day FROM rows WHERE {where}").fetchall()
    assert sorted(dk.scan(table, where).to_arrow()["day"].to_pylist()) == sorted(day for (day,) in expected)
    # Spark's, which DuckDB has not.
    assert dk.scan(table, "a <=> b").count() == 3
    assert dk.scan(table, "concat(name, 'x', name) = 'axa'").count() == 1
    assert (
        dk.scan(table, "date(day) = '2024-01-03'").count() == dk.scan(table, "to_date(day) = '2024-01-03'").count() == 1
    )
