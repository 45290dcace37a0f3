r"""Random rows of every type, random filters over them, and how deletekit, DuckDB and Spark spell each of those.

Where DuckDB means something else than Spark, it is told to mean the same, by name:
- a FLOAT is compared with a decimal literal as FLOAT: it is cast to DOUBLE before;
- LIKE has no escape character: `ESCAPE '\'` is written out;
- a DECIMAL(38, 10) cannot be compared with a number of 11 digits behind the point, in Spark only inexactly: none is
  compared with it here;
- `isnan(NULL)` is NULL: it is made false, as in Spark.
"""

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

NAN, INF = math.nan, math.inf
UTC = dt.UTC
TEXTS = [
    "", "a", "ab", "a%b", "a_b", "axb", "A", "%", "_", "\\", "a\\b", "it's", "é", "\U0001f600", "\U0001f600b", "b\nc",
    "bob_1", "bobby", "zz" * 20,
]  # fmt: skip
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [True, False]),
    "i": (pa.int32(), [-(2**31), -1, 0, 1, 7, 2**31 - 1]),
    "l": (pa.int64(), [-(2**63), -1, 0, 1, 7, 2**53 + 1, 2**63 - 1]),
    "f": (pa.float32(), [NAN, -INF, INF, -0.0, 0.0, 0.5, 1.5, 0.1, 3.4028234663852886e38]),
    "d": (pa.float64(), [NAN, -INF, INF, -0.0, 0.0, 0.1, 1.5, 5e-324, 1.7976931348623157e308]),
    "n": (pa.decimal128(9, 2), [Decimal(t) for t in ("-1.50", "0.00", "1.00", "1.01", "1.50", "9999999.99")]),
    "m": (
        pa.decimal128(38, 10),
        [Decimal(t) for t in ("1234567890123456789012345678.0123456789", "1.0000000000", "1.0000000001", "-2.5")],
    ),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(1, 1, 1)]),
    "t": (
        pa.timestamp("us"),
        [dt.datetime.fromisoformat(t) for t in ("1969-12-31T23:59:59.999999", "1970-01-01", "2024-02-29T12:30")],
    ),
    "z": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(1969, 12, 31, 23, tzinfo=UTC),
            *(dt.datetime(2024, 2, 29, 0, 0, 0, n, tzinfo=UTC) for n in (0, 1)),
        ],
    ),
    "s": (pa.string(), TEXTS),
    "x": (pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff\xff"]),
}
INNER = pa.struct([pa.field("v", pa.int32(), nullable=False), pa.field("w", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        *(pa.field(name, kind) for name, (kind, _) in VALUES.items()),
        pa.field("st", INNER),
    ]
)
COLUMNS = [*VALUES, "st.v", "st.w"]
OPERATORS = ["=", "!=", "<>", "<", "<=", ">", ">="]
PATTERN_PARTS = ["a", "b", "bob", "%", "%", "_", "_", "\\%", "\\_", "\\\\", "é", "\U0001f600", "\n", "'"]


class Filter(NamedTuple):
    """One filter in three spellings; `is_exact` is False where some number lies between two values of its column."""

    ours: str
    duckdb: str
    spark: str
    is_exact: bool = True


@dataclass(frozen=True)
class Spelled:
    """A literal in three spellings."""

    ours: str
    duckdb: str
    spark: str
    is_exact: bool = True


def random_rows(chance: random.Random, count: int) -> pa.Table:
    """Rows with NULLs in every column, and structs that are NULL."""

    def some(name: str) -> list[Any]:
        return [None if chance.random() < 0.15 else chance.choice(VALUES[name][1]) for _ in range(count)]

    structs = [
        None if chance.random() < 0.3 else {"v": chance.randrange(4), "w": chance.choice([None, *TEXTS])}
        for _ in range(count)
    ]
    columns = {name: pa.array(some(name), kind) for name, (kind, _) in VALUES.items()}
    arrays = [pa.array(range(count)), *columns.values(), pa.array(structs, INNER)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def random_filter(chance: random.Random, depth: int = 2) -> Filter:
    """A filter of at most `depth` levels of AND, OR and NOT."""
    kind = chance.choice(["and", "or", "not", "one", "one"]) if depth else "one"
    if kind == "one":
        return _predicate(chance)
    if kind == "not":
        return _joined([random_filter(chance, depth - 1)], "(NOT ({0}))")
    parts = [random_filter(chance, depth - 1) for _ in range(chance.choice([2, 2, 3]))]
    return _joined(parts, "(" + f" {kind} ".join(f"{{{i}}}" for i in range(len(parts))) + ")")


def _joined(parts: list[Filter], form: str) -> Filter:
    return Filter(
        form.format(*(p.ours for p in parts)),
        form.format(*(p.duckdb for p in parts)),
        form.format(*(p.spark for p in parts)),
        all(p.is_exact for p in parts),
    )


def _predicate(chance: random.Random) -> Filter:
    name = chance.choice(COLUMNS)
    kinds: list[Callable[[random.Random, str], Filter]] = [_comparison, _comparison, _null, _in, _between]
    if name in ("f", "d"):
        kinds.append(_nan)
    if name in ("s", "st.w"):
        kinds += [_like] * 4
    if name == "b":
        kinds.append(_alone)
    return chance.choice(kinds)(chance, name)


def _column(name: str) -> tuple[str, str, str]:
    return name, f"{name}::DOUBLE" if name == "f" else name, name


def _filled(form: str, name: str, *values: Spelled, equals: bool = False) -> Filter:
    ours, duckdb, spark = _column(name)
    return Filter(
        form.format(ours, *(v.ours for v in values)),
        form.format(duckdb, *(v.duckdb for v in values)),
        form.format(spark, *(v.spark for v in values)),
        not equals or all(v.is_exact for v in values),
    )


def _comparison(chance: random.Random, name: str) -> Filter:
    operator = chance.choice(OPERATORS)
    form = f"{{0}} {operator} {{1}}" if chance.random() < 0.8 else f"{{1}} {operator} {{0}}"
    return _filled(form, name, _literal(chance, name), equals=operator in ("=", "!=", "<>"))


def _null(chance: random.Random, name: str) -> Filter:
    return _filled(chance.choice(["{0} IS NULL", "{0} is not null"]), name)


def _alone(chance: random.Random, name: str) -> Filter:
    return _filled(chance.choice(["({0})", "(NOT {0})"]), name)


def _nan(chance: random.Random, name: str) -> Filter:
    negated = chance.random() < 0.5
    call = ("not " if negated else "") + "coalesce(isnan({0}), false)"
    ours = "{0} is not nan" if negated else "{0} is nan"
    return Filter(ours.format(name), f"({call.format(name)})", f"({call.format(name)})")


def _in(chance: random.Random, name: str) -> Filter:
    values = [_literal(chance, name) for _ in range(chance.choice([1, 2, 3, 12]))]
    listed = ", ".join(f"{{{i + 1}}}" for i in range(len(values)))
    return _filled(f"{{0}} {chance.choice(['IN', 'NOT IN'])} ({listed})", name, *values, equals=True)


def _between(chance: random.Random, name: str) -> Filter:
    form = chance.choice(["({0} BETWEEN {1} AND {2})", "({0} NOT BETWEEN {1} AND {2})"])
    return _filled(form, name, _literal(chance, name), _literal(chance, name))


def _like(chance: random.Random, name: str) -> Filter:
    pattern = "".join(chance.choice(PATTERN_PARTS) for _ in range(chance.randrange(5)))
    word = chance.choice(["LIKE", "NOT LIKE"])
    escape = "\\"
    if chance.random() < 0.2:
        escape = "#"
        pattern = pattern.replace("\\\\", "\x01").replace("\\", "#").replace("\x01", "\\")
    text = _text(pattern)
    plain = f"{word} {text.ours}" + ("" if escape == "\\" else " ESCAPE '#'")
    return Filter(
        f"({name} {plain})",
        f"({name} {word} {text.duckdb} ESCAPE '{escape}')",
        f"({name} {word} {text.spark}" + ("" if escape == "\\" else " ESCAPE '#'") + ")",
    )


def _literal(chance: random.Random, name: str) -> Spelled:
    """Mostly a value of the column or one near it; sometimes a number that no row can hold."""
    if name == "st.v":
        return _number(str(chance.choice([-1, 0, 1, 2, 3, 3000000000])), exact=True)
    _, values = VALUES["s" if name == "st.w" else name]
    value = chance.choice(values)
    if name in ("i", "l"):
        others = ["1.5", "-0.5", "3000000000", "-3000000000", "99999999999999999999", "-99999999999999999999", "7.0"]
        text = chance.choice([str(value), str(value), chance.choice(others)])
        return _number(text, exact=Decimal(text) == int(Decimal(text)))
    if name in ("n", "m"):
        others = ["1.005", "0", "-1.5000", "99999999999", "-99999999999.999", "2"]
        text = chance.choice([str(value), chance.choice(others)])
        digits = abs(int(Decimal(text).normalize().as_tuple().exponent)) if "." in text.rstrip("0") else 0
        return _number(text, exact=digits <= (2 if name == "n" else 10) or abs(Decimal(text)) > 10**7)
    if name in ("f", "d"):
        return _float(chance, name)
    if isinstance(value, bool):
        return Spelled(*[str(value).lower()] * 3)
    if isinstance(value, bytes):
        return Spelled(f"X'{value.hex()}'", f"unhex('{value.hex()}')", f"X'{value.hex()}'")
    if isinstance(value, str):
        return _text(value)
    return _moment(chance, name, value)


def _number(text: str, *, exact: bool) -> Spelled:
    return Spelled(text, text, text, exact)


def _float(chance: random.Random, name: str) -> Spelled:
    text = chance.choice(
        ["0.0", "-0.0", "0", "0.5", "1.5", "0.1", "-7.25", "1e39", "-1e39", "1e-50", "'-inf'", "'Infinity'", "2"]
    )
    if text.startswith("'"):  # in Spark, text is cast to the column's type
        return Spelled(text, f"{text}::DOUBLE", f"double({text})")
    single = pa.scalar(float(text), pa.float32()).as_py()
    spark = f"{text}D" if "e" in text or "." in text else text
    return Spelled(text, f"{text}::DOUBLE", spark, name == "d" or single == float(text))


def _moment(chance: random.Random, name: str, value: Any) -> Spelled:
    if name == "day":
        text = f"'{value.isoformat()}'"
        return Spelled(text, f"DATE {text}", f"DATE {text}")
    text = value.replace(tzinfo=None).isoformat(chance.choice(" T"))
    if name == "t":
        return Spelled(f"'{text}'", f"TIMESTAMP '{text}'", f"TIMESTAMP_NTZ '{text}'")
    ours = f"'{text}{chance.choice(['Z', '+00:00', ' +00:00'])}'"
    if chance.random() < 0.3:
        local = value.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30)))
        ours = f"'{local.isoformat(chance.choice(' T'))}'"
    return Spelled(ours, f"TIMESTAMPTZ '{text}+00:00'", f"TIMESTAMP '{text}+00:00'")


def _text(value: str) -> Spelled:
    """In Spark's SQL a backslash escapes, but before % and _ stays."""
    quoted = "'" + value.replace("'", "''") + "'"
    escaped = "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    return Spelled(quoted, quoted, escaped)
