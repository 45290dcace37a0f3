"""Row groups left out by a filter, against the rows themselves: what is left out holds no row that it chooses."""

import datetime as dt
import io
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, LongType, StringType, TimestampType, UUIDType

from deletekit.filters.filter import evaluate, parse_filter
from deletekit.filters.row_group_pruning import bounds_of, may_match
from deletekit.formats.tabular import ColumnStatistics, open_tabular
from deletekit.rows.projection import FileColumns
from deletekit.table.types import schema_from_arrow

UTC = dt.UTC
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [None, 5, 6, 7, 8, 9]),
    "l": (pa.int64(), [2**60, 2**60 + 1, 2**61, 2**61, 2**61, 2**62]),
    "f": (pa.float32(), [1.0, 2.0, math.nan, -1.0, 0.0, -0.0]),
    "d": (pa.float64(), [math.nan] * 6),
    "s": (pa.string(), ["a", "b", None, "é", "zz", "z" * 90]),
    "b": (pa.bool_(), [True] * 6),
    "day": (pa.date32(), [dt.date(2020, 1, d) for d in range(1, 7)]),
    "ts": (pa.timestamp("us"), [dt.datetime(2020, 1, d, tzinfo=UTC).replace(tzinfo=None) for d in range(1, 7)]),
    "tz": (pa.timestamp("us", "UTC"), [dt.datetime(2020, 1, d, tzinfo=UTC) for d in range(1, 7)]),
    "dec": (pa.decimal128(9, 2), [Decimal(d) for d in range(1, 7)]),
    "n": (pa.int64(), [None] * 6),
}
LITERALS: dict[str, list[str]] = {
    "i": ["4", "5", "9", "10"],
    "l": ["1152921504606846976", "1152921504606846975", "4611686018427387905"],
    "f": ["-1.0", "0.0", "2.5", "-9.0"],
    "d": ["0.0"],
    "s": ["'a'", "''", "'zz'", "'é'", "'zzz'"],
    "b": ["true", "false"],
    "day": ["'2020-01-01'", "'2019-12-31'", "'2020-01-07'"],
    "ts": ["'2020-01-01T00:00:00'", "'2019-12-31T23:59:59'", "'2020-01-06T00:00:01'"],
    "tz": ["'2020-01-01T00:00:00+00:00'", "'2020-01-07T00:00:00+00:00'"],
    "dec": ["'1.00'", "'0.50'", "'7.00'"],
    "n": ["1"],
}
FILTERS = [f"{c} {op} {v}" for c in LITERALS for v in LITERALS[c] for op in ("=", "!=", "<", "<=", ">", ">=")]
FILTERS += [f"{c} in ({', '.join(vs)})" for c, vs in LITERALS.items() if len(vs) > 1]
FILTERS += [f"{c} not in ({', '.join(vs)})" for c, vs in LITERALS.items() if len(vs) > 1]
FILTERS += [f"{c} is {word}" for c in COLUMNS for word in ("null", "not null")]
FILTERS += ["f is nan", "f is not nan", "d is nan", "i = 4 or s = 'a'", "i = 5 and l = 1", "not (i < 100)"]
PRUNED = [  # of which the statistics say for certain that no row of the file is chosen
    "i = 4", "i > 9", "l < 1152921504606846976", "f < -1.0", "s = ''", "day < '2020-01-01'",
    "ts > '2020-01-06T00:00:00'", "tz in ('2021-01-01T00:00:00+00:00', '2022-01-01T00:00:00+00:00')",
    "l is null", "n is not null", "n = 1", "i = 4 and s = 'a'",
]  # fmt: skip


def opened(table: pa.Table) -> tuple[Schema, FileColumns, Any]:
    schema = schema_from_arrow(table.schema)
    ids = {f.name: str(f.field_id).encode() for f in schema.fields}
    stored = pa.schema([f.with_metadata({b"PARQUET:field_id": ids[f.name]}) for f in table.schema])
    sink = io.BytesIO()
    pq.write_table(table.cast(stored), sink)
    file = open_tabular(io.BytesIO(sink.getvalue()), "parquet")
    return schema, FileColumns(file.schema), file


@pytest.fixture(scope="module")
def everything() -> pa.Table:
    """One row group of all types."""
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})


def keeps(table: pa.Table, where: str) -> bool:
    schema, columns, file = opened(table)
    (group,) = file.row_groups
    bound = parse_filter(where, schema)
    fields = {f.field_id: f for f in schema.fields}
    return may_match(bound, fields, columns, file.statistics(group), group.num_rows)


def test_what_is_left_out_holds_no_row(everything: pa.Table) -> None:
    schema = schema_from_arrow(everything.schema)
    names = {f.field_id: f.name for f in schema.fields}
    for where in FILTERS:
        rows = evaluate(parse_filter(where, schema), lambda i: everything.column(names[i]), len(everything))
        assert keeps(everything, where) or not any(rows.to_pylist()), where


@pytest.mark.parametrize("where", PRUNED)
def test_what_statistics_rule_out(everything: pa.Table, where: str) -> None:
    assert not keeps(everything, where)


def test_a_file_without_nan_is_pruned_by_its_floats(everything: pa.Table) -> None:
    """NaN is above every number, and a footer does not count it: without the file's own count nothing is left out."""
    table = everything.slice(3).select(["f"])
    schema, columns, file = opened(table)
    (group,) = file.row_groups
    fields = {f.field_id: f for f in schema.fields}
    where = parse_filter("f > 0.5", schema)
    assert [
        may_match(where, fields, columns, file.statistics(group), group.num_rows, nans)
        for nans in (None, {}, {1: 1}, {1: 0})
    ] == [True, True, True, False]


def test_a_stored_type_that_needs_conversion_has_no_bounds() -> None:
    known = ColumnStatistics(values=1, nulls=0, lower=1, upper=2)
    assert bounds_of(LongType(), pa.int32(), known) == (1, 2)
    assert bounds_of(LongType(), pa.uint32(), known) is None
    assert bounds_of(DateType(), pa.int32(), known) is None
    assert bounds_of(TimestampType(), pa.timestamp("ms"), known) is None
    assert bounds_of(TimestampType(), pa.date32(), known) is None
    assert bounds_of(UUIDType(), pa.binary(16), known) is None
    cut = ColumnStatistics(values=1, nulls=0, lower="é".encode()[:1], upper=b"z")
    assert bounds_of(StringType(), pa.string(), cut) is None
    assert bounds_of(LongType(), pa.int64(), ColumnStatistics(values=1, nulls=0, lower=None, upper=None)) is None
