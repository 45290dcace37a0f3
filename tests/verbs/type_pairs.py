"""Filters that bring every type of a column and every kind of literal together, in deletekit's words and Spark's alike.

What Spark 4.1 chooses (ANSI on, zone UTC) is held in `type_pairs.json`: for each filter that deletekit does not refuse,
the ids as bits in hexadecimal. `python -m tests.verbs.type_pairs` asks Spark again. A uuid is text in Spark, as Iceberg
gives it.
"""

import datetime as dt
import itertools
import json
import logging
import tempfile
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import deletekit as dk
from deletekit.filters.filter import evaluate, parse_filter
from deletekit.table.types import schema_from_arrow
from tests.optional_types import SparkSession

HELD = Path(__file__).with_name("type_pairs.json")
NAN, INF = float("nan"), float("inf")
_D = Decimal
_MOMENTS = ["2020-06-14T23:59:59.999999", "2020-06-15T00:00:00", "2020-06-15T10:00:00", None, "1969-12-31T12:00:00"]
_TIMES = [None if m is None else dt.datetime.fromisoformat(m) for m in _MOMENTS]
_UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
COLUMNS: dict[str, pa.Array] = {
    "b": pa.array([True, False, True, None, False]),
    "i": pa.array([5, -1, 16777217, None, 1], pa.int32()),
    "l": pa.array([5, 2**53 + 1, 16777217, None, 1], pa.int64()),
    "f": pa.array([5, 0.1, 16777216, None, NAN], pa.float32()),
    "d": pa.array([5, 0.1, 16777217, None, INF], pa.float64()),
    "n": pa.array([_D("5.00"), _D("0.10"), _D("1.50"), None, _D("1.00")], pa.decimal128(9, 2)),
    "m": pa.array([_D(5), _D("9007199254740993.1"), _D("0.1"), None, _D("1.5000000001")], pa.decimal128(38, 10)),
    "day": pa.array([m if m is None else m.date() for m in _TIMES], pa.date32()),
    "t": pa.array(_TIMES, pa.timestamp("us")),
    "z": pa.array(_TIMES, pa.timestamp("us", "UTC")),
    "x": pa.array([b"5", b"", b"\xff", None, b"2020-06-15"], pa.binary()),
    "u": pa.array([_UUID.bytes, bytes(16), b"\xff" * 16, None, _UUID.bytes], pa.uuid()),
    "s": pa.array(["5", "junk", "", None, "2020-06-15"]),
    "sn": pa.array(["5", "05", " 5", None, "1"]),
    "sd": pa.array(["2020-06-14", "2020-6-15", "2020-06-15", None, "2020-06-15 10:00:00"]),
    "sb": pa.array(["true", "false", "t", None, "1"]),
    "su": pa.array([str(_UUID), str(_UUID).upper(), "", None, "5"]),
}
ROWS = pa.table({"id": pa.array(range(5), pa.int64()), **COLUMNS})
SCHEMA = schema_from_arrow(ROWS.schema)
LITERALS = [
    "true", "5", "-1", "1.5", "0.1", "5e0", "9007199254740993e0", "16777217", "3000000000",
    "'5'", "' 5'", "'5.0'", "'0.1'", "'1e400'", "'true'", "'junk'", "X'35'", f"X'{_UUID.hex}'",
    "'2020-06-15'", "'2020-06-15 10:00:00'", "'2020-06-15T10:00:00Z'", f"'{_UUID}'", f"'{str(_UUID).upper()}'",
    "DATE '2020-06-15'", "TIMESTAMP '2020-06-15'", "TIMESTAMP '2020-06-15 10:00:00'",
    "TIMESTAMP '2020-06-15 10:00:00Z'",
    "TIMESTAMP_NTZ '2020-06-15 10:00:00'", "TIMESTAMP_LTZ '2020-06-15 10:00:00'", "DATE '2020-06-15 10:00:00'",
    "TIMESTAMP_NTZ '2020-06-15 10:00:00+01:00'", "DATE '5'",
]  # fmt: skip
WITH_LITERAL = [
    "{c} = {v}", "{v} < {c}", "{c} >= {v}", "{c} != {v}", "{c} NOT IN ({v}, {v})", "NOT ({c} BETWEEN {v} AND {v})",
    "coalesce({c}, {v}) = {c}", "CASE WHEN id < 1 THEN {c} ELSE {v} END = {c}", "nullif({c}, {v}) IS NULL",
    "greatest({c}, {v}) = {c}", "{f} = {v}", "{f} IN ({v}, {v})", "{f} > {v}",
]  # fmt: skip
BETWEEN_COLUMNS = [
    "{a} = {b}", "{a} < {b}", "{a} IN ({b}, {b})", "coalesce({a}, {b}) = {a}",
    "CASE WHEN id < 1 THEN {a} ELSE {b} END = {a}",
    "{a} + {b} > {a}", "{a} / {b} = 1", "least({a}, {b}) = {b}", "{a} || {b} = {a}",
]  # fmt: skip
COMPUTED = {
    **dict.fromkeys(("i", "l", "f", "d", "n", "m"), "({c} + 0)"), "b": "coalesce({c}, {c})",
    **dict.fromkeys(("s", "sn", "sd", "sb", "su"), "lower({c})"), **dict.fromkeys("tz", "date_trunc('hour', {c})"),
}  # fmt: skip
ALONE = [
    "length({c}) = 1", "length({c}) = 36", "year({c}) = 2020", "hour({c}) = 10", "+{c} = '5'", "-{c} < 0",
    "abs({c}) = 5",
    "{c} LIKE '5%'", "{c} || 'a' LIKE '5%'", "lower({c}) = '5'", "reverse({c}) = '5'", "substring({c}, 1, 1) = '5'",
    "coalesce({c}, {c}) LIKE '5'", "length(coalesce({c}, {c})) = 36", "{c} / 3 = 0.333333",
    "{c} * 1.1 = 5.5", "{c} + 0.1 = 5.1", "date_trunc('day', {c}) = '2020-06-15'", "{c} % 2 = 1", "round({c}) = 2",
    "{c}", "NOT {c}", "sqrt({c}) > 2", "{c} - {c} = 0", "power({c}, 2) = 25",
    "CAST(CAST({c} AS date) AS string) = '2020-06-15'",
    *(f"CAST({{c}} AS {kind}) = {value}" for kind, value in {
        "int": "5", "bigint": "5", "double": "0.1", "float": "0.1", "decimal(9, 2)": "1.5", "string": "'5'",
        "boolean": "true",
        "date": "DATE '2020-06-15'", "timestamp": "TIMESTAMP '2020-06-15 10:00:00'",
    }.items()),
]  # fmt: skip


def filters() -> list[str]:
    """The filters."""
    made = [form.format(c=name) for name, form in itertools.product(COLUMNS, ALONE)]
    for name, value, form in itertools.product(COLUMNS, LITERALS, WITH_LITERAL):
        one = COMPUTED.get(name, "coalesce({c}, {c})").format(c=name)
        made.append(form.format(c=name, v=value, f=one))
    pairs = itertools.product(COLUMNS, COLUMNS, BETWEEN_COLUMNS)
    return list(dict.fromkeys([*made, *(form.format(a=a, b=b) for a, b, form in pairs)]))


def chosen(where: str) -> str | None:
    """What deletekit chooses, as it is held; None for a filter that it refuses."""
    try:
        bound = parse_filter(where, SCHEMA)
        mask = evaluate(bound, lambda i: ROWS.column(SCHEMA.find_column_name(i)), len(ROWS))
    except dk.InvalidInputError:
        return None
    return bits(ROWS.filter(mask)["id"].to_pylist())


def held() -> dict[str, str]:
    """What Spark chooses for each filter that deletekit takes; `-` where Spark raises an error."""
    answers: dict[str, dict[str, str]] = json.loads(HELD.read_text())
    return {where: answer for answer, tests in answers.items() for where in tests}


def by_spark(spark: SparkSession, wanted: list[str]) -> dict[str, str]:
    """What Spark chooses; many filters at a time, and one at a time where one of them is an error."""
    texts = [None if v is None else str(v) for v in ROWS["u"].to_pylist()]
    rows = ROWS.set_column(ROWS.schema.get_field_index("u"), "u", pa.array(texts))
    spark.createDataFrame(rows).createOrReplaceTempView("type_pairs")
    return _asked(spark, wanted)


def _asked(spark: SparkSession, wanted: list[str]) -> dict[str, str]:
    columns = ", ".join(f"({where}) AS c{i}" for i, where in enumerate(wanted))
    from pyspark.errors import PySparkException  # noqa: PLC0415  # only where Spark is asked

    try:
        answer = spark.sql(f"SELECT id, {columns} FROM type_pairs").collect()
    except PySparkException:
        if len(wanted) == 1:
            return {wanted[0]: "-"}
        half = len(wanted) // 2
        return {**_asked(spark, wanted[:half]), **_asked(spark, wanted[half:])}
    return {where: bits([row.id for row in answer if row[f"c{i}"]]) for i, where in enumerate(wanted)}


def bits(ids: list[int]) -> str:
    """Ids as they are held."""
    return f"{sum(1 << n for n in ids):x}"


def _hold(spark: SparkSession) -> None:
    wanted = [where for where in filters() if chosen(where) is not None]
    answers: dict[str, str] = {}
    for at in range(0, len(wanted), 64):
        answers.update(by_spark(spark, wanted[at : at + 64]))
    grouped = {answer: [w for w in wanted if answers[w] == answer] for answer in sorted(set(answers.values()))}
    HELD.write_text(json.dumps(grouped, indent=0, ensure_ascii=False) + "\n")
    for where in wanted:
        if chosen(where) != answers[where]:
            print(where, "| deletekit", chosen(where), "| Spark", answers[where])


if __name__ == "__main__":
    from tests.spark_session import spark_session

    logging.disable(logging.CRITICAL)
    session = spark_session(Path(tempfile.mkdtemp()))
    _hold(session)
    session.stop()
