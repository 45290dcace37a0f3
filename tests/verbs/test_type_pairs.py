"""A literal beside a column of another type means what it means in Spark with ANSI on, or it is refused."""

import datetime as dt
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, In, NotEqualTo

import deletekit as dk
from tests.optional_types import SparkSession
from tests.tables import ids, make
from tests.verbs.type_pairs import by_spark, chosen, filters, held


def check(step: int) -> None:
    answers = held()
    assert "-" not in answers.values(), "what Spark refuses is refused"
    for where in filters()[::step]:
        assert chosen(where) == answers.get(where), where


def test_some_pairs_of_types_mean_what_they_mean_in_spark() -> None:
    check(29)


@pytest.mark.slow
def test_all_pairs_of_types_mean_what_they_mean_in_spark() -> None:
    check(1)


def test_spark_still_means_what_is_held(spark: SparkSession) -> None:
    some = dict(list(held().items())[::9])
    found: dict[str, str] = {}
    zone, ansi = (spark.conf.get(name) for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled"))
    assert (zone, ansi) == ("UTC", "true")
    for at in range(0, len(some), 64):
        found |= by_spark(spark, list(some)[at : at + 64])
    assert found == some


ROWS = pa.table(
    {
        "id": range(4),
        "c": ["2020-06-14", "junk", "2020-06-15", None],
        "day": [dt.date(2020, 6, 15), None, dt.date(2020, 6, 14), None],
        "u": pa.array([uuid.UUID(int=7).bytes, None, None, None], pa.uuid()),
        "tm": pa.array([dt.time(12, 30), None, None, None], pa.time64("us")),
        "t9": pa.array([1, None, None, None], pa.timestamp("ns")),
        "fx": pa.array([b"2020", None, None, None], pa.binary(4)),
        "s": [{"c": "2020-06-15"}, None, {"c": "x"}, None],
    }
)


def test_what_is_no_time_is_refused_behind_its_word(catalog: dk.Catalog) -> None:
    """The word was dropped: `day = DATE '5'` of an integer column was `= 5`, and DATE was a time of day too."""
    table = make(catalog, ROWS, schema=ROWS.schema, format_version=3)
    texts = ["DATE '5'", "DATE '2020-06-15 10:00:00'", "DATE 'true'", "TIME '2020-06-15'", "TIMESTAMP '12:30'"]
    for text in [*texts, "TIMESTAMP_NTZ '2020-06-15 10:00+01:00'", "DATE '2020-02-30'", "TIMESTAMP 'now'"]:
        for column in ("id", "c", "day", "tm", "t9", "u", "fx"):
            with pytest.raises(dk.InvalidInputError):
                dk.scan(table, f"{column} = {text}").to_arrow()


def test_types_that_spark_has_not(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, schema=ROWS.schema, format_version=3)
    same = f"u = '{uuid.UUID(int=7)}'"
    found = [same, "tm = '12:30'", "tm = TIME '12:30:00'", "t9 > '1970-01-01'",
    "t9 = TIMESTAMP '1970-01-01 00:00:00.000000001'",
             "t9 >= DATE '1970-01-01'", "fx = X'32303230'", "coalesce(u, u) = u", "u IN (u)"]  # fmt: skip
    for where in found:
        assert ids(table, where) == [0], where
    literals = ["5", "1.5", "1e0", "true", "X'32303230'", "'text'", "'2020'", "DATE '2020-01-01'", "TIME '12:30:00'",
                "TIMESTAMP '2020-01-01 00:00:00'", "TIMESTAMP '2020-01-01 00:00:00Z'"]  # fmt: skip
    fits = {"tm": {"TIME '12:30:00'"}, "t9": {"DATE '2020-01-01'", literals[-2]}, "fx": {"X'32303230'"}}
    for column in ("u", "tm", "t9", "fx"):
        for literal in literals:
            if literal in fits.get(column, ()):
                continue
            for form in (
                "{} = {}",
                "{} < {}",
                "{} IN ({}, {})",
                "coalesce({0}, {0}) = {1}",
                "coalesce({0}, {1}) = {0}",
            ):
                with pytest.raises(dk.InvalidInputError):
                    ids(table, form.format(column, literal, literal))
    for where in (
        "length(u) = 16",
        "CAST(u AS string) = 'x'",
        "u || u = u",
        "u = fx",
        "u = c",
        "tm = day",
        "t9 = tm",
        "fx = c",
    ):
        with pytest.raises(dk.InvalidInputError):
            ids(table, where)


NOON = dt.datetime(2020, 6, 15, 12)  # noqa: DTZ001  # of a column without a zone
PYTHON = [1, 1.5, Decimal("1.5"), True, b"1", dt.date(2020, 6, 15), NOON, dt.time(1), uuid.UUID(int=1)]
TAKEN = {
    "c": {str}, "id": {int}, "day": {dt.date}, "tm": {dt.time}, "u": {uuid.UUID},
    "t9": {dt.date, dt.datetime}, "fx": set(),
}  # fmt: skip


def test_expressions_of_pyiceberg_are_no_other_rows(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, schema=ROWS.schema, format_version=3)
    for column, kinds in TAKEN.items():
        for value in PYTHON:
            for made in (EqualTo(column, value), GreaterThan(column, value), NotEqualTo(column, value)):
                if type(value) in kinds:
                    assert dk.scan(table, made).count() is not None
                    continue
                if column == "id" and type(value) in (float, Decimal) and isinstance(made, GreaterThan):
                    assert ids(table, made) == [2, 3]
                    continue
                with pytest.raises(dk.InvalidInputError):
                    ids(table, made)
    with pytest.raises(dk.InvalidInputError):
        ids(table, In("c", ["2020-06-14", dt.date(2020, 6, 14)]))


def test_a_double_that_equals_several_numbers_is_refused(catalog: dk.Catalog) -> None:
    rows = pa.table({"id": range(2), "l": [2**53, 2**53 + 1], "m": pa.array([Decimal(1), None], pa.decimal128(38, 10))})
    table = make(catalog, rows, schema=rows.schema)
    for where in (f"l = {2**53}e0", f"l > {2**53}e0", "m < 1e9", "m = '1.00000000000000000001'", EqualTo("l", 2.0**53)):
        with pytest.raises(dk.InvalidInputError, match="double"):
            ids(table, where)
    assert ids(table, f"l = {2**53}") == ids(table, "m < 1e5") == ids(table, "m = '1.0'") == [0]
