"""Numbers that a column cannot hold are refused, infinities compared as such; NULL is in no comparison."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
)

import deletekit as dk

COMPARISONS: dict[Any, Callable[[float, float], bool]] = {
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    EqualTo: operator.eq,
    NotEqualTo: operator.ne,
}
VALUES = [None, 1.5, math.inf, -math.inf, math.nan, 3.4e38]
TYPES = {"int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
TOO_LARGE = {"int": 2**31, "long": 2**63, "float": 1e39}


def table_of(catalog: dk.Catalog, kind: str, values: list[Any]) -> dk.Table:
    rows = pa.table({"n": pa.array(range(len(values)), pa.int64()), "c": pa.array(values, TYPES[kind])})
    table = dk.create_table(catalog, f"demo.{kind}", rows.schema, format_version=3)
    dk.append(table, rows)
    return table


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("bound", [math.inf, -math.inf, 1.5])
def test_infinities(catalog: dk.Catalog, kind: str, bound: float) -> None:
    table = table_of(catalog, kind, VALUES)
    for expression, compares in COMPARISONS.items():
        found = dk.scan(table, expression("c", bound), ["n"]).to_arrow()["n"].to_pylist()
        assert found == [n for n, v in enumerate(VALUES) if v is not None and compares(v, bound)], expression
    assert dk.scan(table, In("c", [bound, 7.0]), ["n"]).to_arrow()["n"].to_pylist() == [VALUES.index(bound)]


@pytest.mark.parametrize("kind", TOO_LARGE)
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_no_row_can_have(catalog: dk.Catalog, kind: str, sign: int) -> None:
    """Of an int column, pyiceberg makes `c < 2147483648` a filter that is true for NULL."""
    table = table_of(catalog, kind, [None, 1, 2])
    large = TOO_LARGE[kind] * sign - (sign < 0 and kind != "float")  # the least integer is one further away
    filters = [comparison("c", large) for comparison in COMPARISONS]
    filters += [Not(LessThan("c", large)), In("c", [1, large]), NotIn("c", [1, large]), f"c < {int(large)}"]
    for where in filters:
        with pytest.raises(dk.InvalidInputError, match=rf"is not a value of {kind}") as caught:
            dk.delete(table, where)
        assert caught.value.kind == "filter"
    assert dk.scan(table).count() == 3


def test_the_outermost_integers_are_values(catalog: dk.Catalog) -> None:
    for kind, largest in (("int", 2**31 - 1), ("long", 2**63 - 1)):
        table = table_of(catalog, kind, [None, 1, largest, -largest - 1])
        assert dk.scan(table, LessThanOrEqual("c", largest), ["n"]).to_arrow()["n"].to_pylist() == [1, 2, 3]
        assert dk.scan(table, GreaterThan("c", -largest - 1), ["n"]).to_arrow()["n"].to_pylist() == [1, 2]
