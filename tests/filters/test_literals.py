"""Comparisons with infinities and with numbers beyond a column's range; NULL is in none of them."""

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

COMPARISONS: dict[Any, Callable[[Any, Any], bool]] = {
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    EqualTo: operator.eq,
    NotEqualTo: operator.ne,
}
VALUES = [None, 1.5, math.inf, -math.inf, math.nan, 3.4e38]
TYPES = {"int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
TOO_LARGE = {"int": 2**31, "long": 2**63}


def table_of(catalog: dk.Catalog, kind: str, values: list[Any]) -> dk.Table:
    rows = pa.table({"n": pa.array(range(len(values)), pa.int64()), "c": pa.array(values, TYPES[kind])})
    table = dk.create_table(catalog, f"demo.{kind}", rows.schema, format_version=3)
    dk.append(table, rows)
    return table


def ordered(value: float) -> tuple[bool, float]:
    """As Spark orders: NaN equals NaN and is above every number."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def numbers(table: dk.Table, where: Any) -> list[int]:
    found: list[int] = dk.scan(table, where, ["n"]).to_arrow()["n"].to_pylist()
    return found


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("bound", [math.inf, -math.inf, 1.5])
def test_infinities(catalog: dk.Catalog, kind: str, bound: float) -> None:
    table = table_of(catalog, kind, VALUES)
    for expression, compares in COMPARISONS.items():
        found = numbers(table, expression("c", bound))
        assert found == [n for n, v in enumerate(VALUES) if v is not None and compares(ordered(v), ordered(bound))], (
            expression
        )
        opposite = [n for n, v in enumerate(VALUES) if v is not None and not compares(ordered(v), ordered(bound))]
        assert numbers(table, Not(expression("c", bound))) == opposite, expression
    assert numbers(table, In("c", [bound, 7.0])) == [VALUES.index(bound)]


@pytest.mark.parametrize("kind", ["int", "long"])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_beyond_every_row(catalog: dk.Catalog, kind: str, sign: int) -> None:
    """Of an int column, pyiceberg makes `c < 2147483648` a filter that is true for NULL."""
    values = [None, 1, TOO_LARGE[kind] - 1, -TOO_LARGE[kind]]
    table = table_of(catalog, kind, values)
    large = (TOO_LARGE[kind] + 7) * sign
    for expression, compares in COMPARISONS.items():
        right = [n for n, v in enumerate(values) if v is not None and compares(v, large)]
        wrong = [n for n, v in enumerate(values) if v is not None and not compares(v, large)]
        assert numbers(table, expression("c", large)) == right, expression
        assert numbers(table, Not(expression("c", large))) == wrong, expression
    assert numbers(table, In("c", [1, large])) == [1]
    assert numbers(table, In("c", [large, 2 * large])) == []
    assert numbers(table, NotIn("c", [large, 2 * large])) == [1, 2, 3]
    assert numbers(table, f"c < {large}") == ([1, 2, 3] if sign > 0 else [])
    assert dk.delete(table, f"c != {large}", mode="deletion-vector").summary["added-position-deletes"] == "3"
    assert numbers(table, None) == [0]


@pytest.mark.parametrize("large", [1e39, -1e39])
def test_numbers_beyond_every_float(catalog: dk.Catalog, large: float) -> None:
    table = table_of(catalog, "float", VALUES)
    for expression, compares in COMPARISONS.items():
        if expression in (EqualTo, NotEqualTo):
            with pytest.raises(dk.InvalidInputError, match="is not a value of float"):
                numbers(table, expression("c", large))
        else:
            right = [n for n, v in enumerate(VALUES) if v is not None and compares(ordered(v), ordered(large))]
            assert numbers(table, expression("c", large)) == right, expression


def test_the_outermost_integers_are_values(catalog: dk.Catalog) -> None:
    for kind, largest in (("int", 2**31 - 1), ("long", 2**63 - 1)):
        table = table_of(catalog, kind, [None, 1, largest, -largest - 1])
        assert numbers(table, LessThanOrEqual("c", largest)) == [1, 2, 3]
        assert numbers(table, GreaterThan("c", -largest - 1)) == [1, 2]
