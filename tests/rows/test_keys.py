"""Key sets against the same law written as plain Python comparisons."""

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deletekit.rows.keys import KeyNumbers, KeySet, distinct_keys, same_keys, sql_key_bytes


def naive(year: int) -> dt.datetime:
    """A timestamp without a zone, as the Arrow type has none."""
    return dt.datetime(year, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)


NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int32(): [None, 0, 1, -1, 2**31 - 1, -(2**31)],
    pa.int64(): [None, 0, 1, -1, 2**63 - 1, -(2**63), 2**53, 2**53 + 1],
    pa.float64(): [None, 0.0, -0.0, 1.5, math.nan, NAN, math.inf, -math.inf],
    pa.float32(): [None, 0.0, -0.0, 1.5, math.nan, math.inf],
    pa.string(): [None, "", "a", "A", "é", "e\u0301", "longer than twelve bytes"],
    pa.binary(): [None, b"", b"\x00", b"a", b"\xff"],
    pa.binary(3): [None, b"abc", b"abd", b"\x00\x00\x00"],
    pa.bool_(): [None, True, False],
    pa.date32(): [None, dt.date(1970, 1, 1), dt.date(1, 1, 1)],
    pa.time64("us"): [None, dt.time(0), dt.time(23, 59)],
    pa.timestamp("us"): [None, naive(1970), naive(1900)],
    pa.timestamp("us", "UTC"): [None, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
    pa.decimal128(38, 2): [None, Decimal("0.00"), Decimal("-1.50"), Decimal(10) ** 35],
    pa.null(): [None],
}


def normal(value: Any) -> Any:
    """What two values must share to be equal as keys: NULL = NULL, NaN = NaN, -0.0 != 0.0."""
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else struct.pack("<d", value))
    return value


def test_every_type_against_plain_comparisons() -> None:
    for kind, values in VALUES.items():
        rows = pa.array(values, kind)
        for key in [[v] for v in values] + [values[:2], values[1:]]:
            wanted = {normal(v) for v in pa.array(key, kind).to_pylist()}
            found = KeySet([pa.array(key, kind)]).contains([rows]).to_pylist()
            assert found == [normal(v) in wanted for v in rows.to_pylist()], (kind, key)


@st.composite
def tables(draw: Any) -> tuple[list[pa.DataType], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    row = st.tuples(*(st.sampled_from(VALUES[k]) for k in kinds))
    return kinds, draw(st.lists(row, max_size=12)), draw(st.lists(row, max_size=40))


@given(tables())
@settings(max_examples=300, deadline=None)
def test_several_columns_against_plain_comparisons(
    case: tuple[list[pa.DataType], list[tuple[Any, ...]], list[tuple[Any, ...]]],
) -> None:
    kinds, keys, rows = case
    key_columns = [pa.array([k[i] for k in keys], kind) for i, kind in enumerate(kinds)]
    row_columns = [pa.array([r[i] for r in rows], kind) for i, kind in enumerate(kinds)]
    wanted = {tuple(map(normal, k)) for k in zip(*(c.to_pylist() for c in key_columns), strict=True)}
    stored = list(zip(*(c.to_pylist() for c in row_columns), strict=True))
    chunked = [pa.chunked_array([c[:3], c[3:]]) for c in row_columns]
    for columns in (row_columns, chunked):
        assert KeySet(key_columns).contains(columns).to_pylist() == [tuple(map(normal, r)) in wanted for r in stored]


@pytest.mark.parametrize("twice", ["many", "the last", "none"])
def test_many_keys_of_numbers_near_and_far_and_of_text(twice: str) -> None:
    rng = np.random.default_rng(7)
    near, far, few = (rng.integers(-high, high, 20_000).tolist() for high in (12_000, 2**62, 4))
    near[5] = near[6] = None
    columns = {"near": near, "far": far, "few": few, "text": [f"text of number {n}" for n in far]}
    rows = pa.table(columns)
    for names in (["near"], ["far"], ["text"], ["few"], ["few", "near"], ["few", "text"], ["few", "far", "near"]):
        keys = rows.slice(0, 2_000).take(pa.array(rng.permutation(2_000))).select(names)
        if twice == "many":
            keys = keys.set_column(0, names[0], pc.take(keys[0], pa.array(rng.integers(0, 2_000, 2_000))))
        if twice == "the last":
            keys = pa.concat_tables([keys, keys.slice(100, 1)])
        wanted = set(zip(*(c.to_pylist() for c in keys.columns), strict=True))
        stored = zip(*(c.to_pylist() for c in rows.select(names).columns), strict=True)
        hits = KeySet(keys.columns).contains(rows.select(names).columns)
        assert hits.to_pylist() == [row in wanted for row in stored], names
        assert hits.true_count, names
        numbers = KeyNumbers(keys.columns)
        first = {key: number for number, key in enumerate(dict.fromkeys(zip(*keys.to_pydict().values(), strict=True)))}
        stored = zip(*(c.to_pylist() for c in rows.select(names).columns), strict=True)
        assert numbers.find(rows.select(names).columns).tolist() == [first.get(row, -1) for row in stored], names


@settings(deadline=None)
@given(
    step=st.sampled_from([1, 3, 10**9]),
    keys=st.lists(st.integers(-5, 3_005) | st.sampled_from([2**40, -(2**63), 2**63 - 1]), max_size=60),
    spoiled=st.sampled_from(["", "twice", "first last", "NULL"]),
    null=st.booleans(),
)
def test_few_keys_among_ascending_numbers(step: int, keys: list[int], spoiled: str, null: bool) -> None:
    """They are searched for, unless a number comes twice, is out of order or NULL."""
    numbers: list[int | None] = [i * step for i in range(3_000)]
    wanted = {k * step if -10 < k < 4_000 else k for k in keys}
    if spoiled == "twice":
        numbers[2_000] = numbers[1_999]
    elif spoiled:
        numbers[-1] = -1 if spoiled == "first last" else None
    column = pa.array([*wanted, *[None][:null]], pa.int64())
    if len(column):
        found = KeySet([column]).contains([pa.array(numbers, pa.int64())])
        assert found.to_pylist() == [n in wanted or (n is None and null) for n in numbers]
        rows, places = KeyNumbers([column]).matches([pa.array(numbers, pa.int64())])
        expected = {i: n for i, n in enumerate(numbers) if n in wanted or (n is None and null)}
        assert {int(r): column[int(k)].as_py() for r, k in zip(rows, places, strict=True)} == expected


@pytest.mark.parametrize("keys", [[5], [5, 9], [-1, 100], [None, 5]])
def test_bounds_that_hold_no_key(keys: list[int | None]) -> None:
    key_set = KeySet([pa.array(keys, pa.int64())])
    for lower in range(-3, 103, 2):
        for upper in range(lower, lower + 8):
            holds = any(k is None or lower <= k <= upper for k in keys)
            assert key_set.may_hold([(lower, upper)]) == holds


def test_bounds_say_nothing_of_other_keys() -> None:
    assert KeySet([pa.array(["a"])]).may_hold([None])
    assert KeySet([pa.array([7]), pa.array([7])]).may_hold([None, (7, 8)])
    assert KeySet([pa.array([True])]).may_hold([None])


def test_numbers_of_keys_and_of_sql() -> None:
    rows = pa.array([1.5, None, 0.0, -0.0, math.nan, NAN, 1.5])
    keys = KeyNumbers([rows])
    assert keys.of_rows.tolist() == [0, 1, 2, 3, 4, 4, 0]
    assert keys.first_rows.tolist() == [0, 1, 2, 3, 4]
    assert keys.find([pa.array([math.nan, 2.5, None])]).tolist() == [4, -1, 1]
    sql = KeyNumbers([rows], sql=True)
    assert sql.of_rows.tolist() == [0, -1, 1, 1, 2, 2, 0]
    assert sql.find([pa.array([-0.0, None, 2.5])]).tolist() == [1, -1, -1]
    assert sql_key_bytes([rows]).is_null().to_pylist() == [False, True, *[False] * 5]
    assert len(set(sql_key_bytes([rows]).to_pylist())) == len(sql) + 1


def test_a_null_struct_is_not_a_struct_of_nulls() -> None:
    structs = pa.array([None, {"a": None}, {"a": 1}, {"a": 1}], pa.struct([("a", pa.int64())]))
    assert KeyNumbers([structs]).of_rows.tolist() == [0, 1, 2, 2]
    assert same_keys([structs], [structs.take(pa.array([0, 0, 2, 3]))]).tolist() == [True, False, True, True]
    assert distinct_keys(pa.table({"s": structs}))["s"].to_pylist() == [None, {"a": None}, {"a": 1}]


@pytest.mark.parametrize("sql", [False, True])
@pytest.mark.parametrize("twice", [False, True])
def test_matches_are_those_of_a_dict(sql: bool, twice: bool) -> None:
    """Keys that all differ are numbered without a join, and near integers are found without one."""
    rng = np.random.default_rng(7)
    numbers = [None, *range(40, 3_000, 3), -(2**63), 2**63 - 1]
    columns = {
        "near": pa.array([n if n is None or abs(n) < 2**40 else 0 for n in numbers], pa.int32()),
        "far": pa.array(numbers, pa.int64()),
        "text": pa.array([n if n is None else f"text {n}" for n in numbers]),
        "float": pa.array([n if n is None else n / 7 for n in numbers]),
    }
    for names in (["near"], ["far"], ["text"], ["float"], ["near", "text"], ["far", "near"], ["text", "float"]):
        given = pa.table(columns).select(names)
        keys = given.take(pa.array(rng.permutation(len(given) - (0 if twice else 1))[: 400 if not twice else None]))
        keys = pa.concat_tables([keys, keys.slice(3, 5)]) if twice else keys
        rows = given.take(pa.array(rng.integers(0, len(given), 5_000)))
        found = KeyNumbers(keys.columns, sql=sql)
        known: dict[tuple[object, ...], int] = {}
        for key in zip(*keys.to_pydict().values(), strict=True):
            if not sql or None not in key:
                known.setdefault(key, len(known))
        stored = list(zip(*rows.to_pydict().values(), strict=True))
        at, which = found.matches(rows.columns)
        assert dict(zip(at.tolist(), which.tolist(), strict=True)) == {
            i: known[key] for i, key in enumerate(stored) if key in known
        }
        assert at.tolist() == sorted(at.tolist())
        assert found.of_rows.tolist() == [known.get(k, -1) for k in zip(*keys.to_pydict().values(), strict=True)]
        firsts = keys.take(pa.array(found.first_rows))
        assert list(zip(*firsts.to_pydict().values(), strict=True)) == list(known)
        assert distinct_keys(keys).num_rows == len(dict.fromkeys(zip(*keys.to_pydict().values(), strict=True)))
