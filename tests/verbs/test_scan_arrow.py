"""A scan in what speaks Arrow: pyarrow, polars, pandas, DuckDB, and polars' lazy frames."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import hypothesis.strategies as st
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

import deletekit as dk
from deletekit.engines.local import LocalEngine
from deletekit.tools.scan_polars import _filter
from tests.stored import live_files
from tests.tables import items, make, new_catalog, raises

DAYS = [dt.datetime(2020, 1, day, tzinfo=dt.UTC) for day in range(1, 7)]
ROWS = pa.table(
    {
        "n": pa.array([1, 2, 3, None, 5, -6], pa.int64()),
        "s": ["x", "y", "ab", "abc", None, ""],
        "f": [1.0, float("nan"), 2.5, None, -0.0, float("inf")],
        "at": pa.array(DAYS, pa.timestamp("us", "UTC")),
        "d": pa.array([Decimal("1.20"), None] * 3, pa.decimal128(9, 2)),
        "u": pa.array([UUID(int=n).bytes for n in range(6)], pa.uuid()),
        "l": [[1], [], None, [2, 3], [4], [None]],
        "b": [True, False, None, True, False, None],
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with new_catalog(tmp_path_factory.mktemp("arrow")) as catalog:
        made = dk.create_table(catalog, "db.rows", ROWS.schema, format_version=3)
        dk.append(made, ROWS)
        dk.append(made, ROWS)
        dk.delete(made, "n = 2 or s = 'x' and f > 2")
        yield made


def test_a_scan_is_given_where_arrow_is_taken(table: dk.Table) -> None:
    scan = dk.scan(table, columns=["n", "s", "l"])
    expected = scan.to_arrow()
    assert expected.num_rows == 10
    assert pa.table(scan).equals(expected)
    assert pa.RecordBatchReader.from_stream(scan).read_all().equals(expected)
    assert pl.DataFrame(scan).to_arrow().to_pylist() == expected.to_pylist()
    assert duckdb.from_arrow(scan).fetchall() == [tuple(row.values()) for row in expected.to_pylist()]
    assert duckdb.sql("SELECT count(*), sum(n) FROM scan").fetchall() == [(10, 6)]


def test_each_way_out_has_the_same_rows(table: dk.Table) -> None:
    scan = dk.scan(table)
    expected = scan.to_arrow()
    batches = list(scan)
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert pa.Table.from_batches(batches).equals(expected)
    assert scan.to_reader().schema == scan.arrow_schema
    assert scan.to_reader().read_all().equals(expected)
    assert scan.to_polars()["u"].to_list() == [row["u"].bytes for row in expected.to_pylist()]
    assert scan.to_pandas(types_mapper=pd.ArrowDtype)["f"].dropna().to_list()[:2] == [1.0, 2.5]
    assert scan.to_pandas()["n"].sum() == 6
    with duckdb.connect() as connection:
        relation = scan.to_duckdb(connection)
        assert relation.aggregate("count(*), count(f), sum(d)").fetchall() == [(10, 8, Decimal("7.20"))]


def test_a_reader_reads_as_it_is_asked(catalog: dk.Catalog) -> None:
    table = make(catalog, *[items((n, "a", 1.0)) for n in range(9)])
    reader = dk.scan(table, engine=LocalEngine(1)).to_reader()
    first = reader.read_next_batch()
    for file in live_files(table, 0):
        Path(file["file_path"]).unlink()
    assert len(first) == 1
    with pytest.raises(dk.DeletekitError):
        reader.read_next_batch()


# --- limit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 4, 5, 9, 10, 11, 10**30])
def test_a_limit_gives_the_first_rows(table: dk.Table, limit: int) -> None:
    for where in (None, "n > 0", "s is not null"):
        everything = dk.scan(table, where, ["n", "s"]).to_arrow()
        scan = dk.scan(table, where, ["n", "s"], limit=limit)
        assert scan.to_arrow().equals(everything.slice(0, min(limit, 99)))
        assert scan.count() == min(limit, len(everything))


def test_a_limit_reads_no_file_after_it(catalog: dk.Catalog) -> None:
    table = make(catalog, *[items((n, "a", 1.0)) for n in range(5)])
    for task in list(dk.scan(table).plan())[2:]:
        Path(task.data_file.file_path).unlink()
    assert len(dk.scan(table, limit=2, engine=LocalEngine(1)).to_arrow()) == 2


def test_a_bad_limit_is_refused(table: dk.Table) -> None:
    for limit in (-1, 1.5, "3", True):
        with pytest.raises(dk.InvalidInputError) as caught:
            dk.scan(table, limit=limit)  # type: ignore[arg-type]
        assert caught.value.field == "limit"


# --- polars' lazy frames ----------------------------------------------------------------------------------------------

N, S, F = pl.col("n"), pl.col("s"), pl.col("f")
PREDICATES = {
    "N > 2": "n > 2",
    "(N > 2) & (S == 'ab')": "n > 2 and s = 'ab'",
    "(N > 2) | (S == 'ab')": "n > 2 or s = 'ab'",
    "(N > 2) & (N % 2 == 1)": "n > 2",
    "(N > 2) | (N % 2 == 1)": None,
    "N.is_in([1, 2])": "n in (1, 2)",
    "N.is_in([1, None])": None,
    "N.is_in([1, None], nulls_equal=True)": None,
    "N.is_null()": "n is null",
    "F.is_not_null()": "f is not null",
    "F > 2": None,
    "F == float('nan')": None,
    "F == 0.0": None,
    "N.is_between(2, 4)": "n >= 2 and n <= 4",
    "N.is_between(2, 5, closed='none')": "n >= 2 and n <= 5",
    "S.str.starts_with('ab')": "s like 'ab%'",
    "S.str.starts_with('')": None,
    "N != 2": None,
    "~(N == 2)": None,
    "N.eq_missing(None)": None,
    "N.cast(pl.String) == '1'": None,
    "pl.lit(3) < N": None,
    "N > 2.5": None,
    "N == 10**30": None,
    "S.is_in([])": None,
    "pl.col('b')": None,
    "pl.col('b') == True": "b = true",
    "pl.col('at') > pl.datetime(2020, 1, 3, time_zone='UTC')": None,
    "pl.col('d') == 1.2": None,
    "pl.col('l').list.len() > 1": None,
    "N.sum() > 0": None,
}


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_lazy_frame_gives_what_polars_gives(table: dk.Table, predicate: str) -> None:
    expression = eval(predicate)  # noqa: S307  # readable names of the cases
    lazy, whole = dk.scan_polars(table), dk.scan(table).to_polars()
    assert lazy.filter(expression).collect().equals(whole.filter(expression))
    assert lazy.filter(expression).select("s").head(3).collect().equals(whole.filter(expression).select("s").head(3))


@pytest.mark.parametrize(("predicate", "filter_"), [(p, f) for p, f in PREDICATES.items() if f])
def test_a_predicate_that_is_known_is_pushed_down(table: dk.Table, predicate: str, filter_: str) -> None:
    pushed = _filter(eval(predicate))  # noqa: S307
    assert pushed is not None
    assert dk.scan(table, pushed).to_arrow().equals(dk.scan(table, filter_).to_arrow())


_conditions = st.one_of(
    st.builds(
        lambda operation, value: getattr(N, operation)(value),
        st.sampled_from(["gt", "ge", "lt", "le", "eq", "ne", "eq_missing"]),
        st.integers(-7, 7),
    ),
    st.builds(
        lambda operation, value: getattr(S, operation)(value),
        st.sampled_from(["gt", "ge", "lt", "le", "eq", "ne"]),
        st.sampled_from(["", "a", "ab", "x"]),
    ),
    st.builds(
        lambda operation, value: getattr(F, operation)(value),
        st.sampled_from(["gt", "ge", "lt", "le", "eq", "ne"]),
        st.sampled_from([0, 1, 0.0, -0.0, float("nan"), 2.5]),
    ),
    st.builds(lambda column, values: column.is_in(values), st.just(N), st.lists(st.integers(-7, 7) | st.none())),
    st.builds(lambda column: column.is_null(), st.sampled_from([N, S, F])),
    st.builds(N.is_between, st.integers(-7, 7), st.integers(-7, 7)),
)
_trees = st.recursive(
    _conditions,
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | inner.map(lambda e: ~e)
    ),
    max_leaves=5,
)


@given(_trees)
def test_any_predicate(table: dk.Table, predicate: pl.Expr) -> None:
    whole = dk.scan(table).to_polars()
    assert dk.scan_polars(table).filter(predicate).collect().equals(whole.filter(predicate))


def test_a_lazy_frame_reads_only_what_it_needs(catalog: dk.Catalog) -> None:
    table = make(catalog, *[items((n, "a", 1.0)) for n in range(5)])
    for task in list(dk.scan(table).plan())[2:]:
        Path(task.data_file.file_path).unlink()
    lazy = dk.scan_polars(table, engine=LocalEngine(1))
    kept = dk.scan(table, limit=2, engine=LocalEngine(1)).to_arrow()["id"].to_pylist()
    assert lazy.filter(pl.col("id").is_in(kept)).select("value").collect().height == 2
    assert lazy.head(2).collect().height == 2
    assert lazy.select(pl.len()).head(1).explain()
    with pytest.raises(dk.NotFoundError):
        lazy.collect()


def test_a_lazy_frame_keeps_to_its_snapshot(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0)))
    lazy = dk.scan_polars(table)
    dk.append(table, items((2, "a", 1.0)))
    dk.delete(table, "id = 1")
    assert lazy.select(pl.len()).collect().item() == 1
    assert dk.scan_polars(table).select("id").collect()["id"].to_list() == [2]


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_scans_and_commits_are_shown_in_a_line(table: dk.Table, catalog: dk.Catalog) -> None:
    snapshot = dk.scan(table).snapshot
    assert snapshot is not None
    assert repr(dk.scan(table, "n > 1", ["n"], limit=3)) == (
        f"Scan(db.rows, snapshot_id={snapshot.snapshot_id}, columns=['n'], where='n > 1', limit=3)"
    )
    other = make(catalog, items((1, "a", 1.0)))
    assert repr(dk.scan(dk.create_table(catalog, "db.none", ROWS.schema), columns="n")) == (
        "Scan(db.none, snapshot_id=None, columns=['n'])"
    )
    commit = dk.delete(other, "id = 1")
    assert (
        repr(commit)
        == f"Commit({commit.operation}, snapshot_id={commit.snapshot_id}, sequence_number=2, removed_data_files=1)"
    )
    assert repr(dk.delete(other, "id = 1")) == "Commit(nothing to change)"


INEXACT = 2**53 + 1
NANOS = 1_577_836_800_123_456_789
INSIDE: dict[str, Any] = {
    "column": lambda kind, value: pa.array([value, None], kind),
    "struct": lambda kind, value: pa.array([{"x": value}, {"x": None}, None], pa.struct([("x", kind)])),
    "list": lambda kind, value: pa.array([[value, None], None], pa.list_(kind)),
    "map": lambda kind, value: pa.array([[("k", value), ("m", None)]], pa.map_(pa.string(), kind)),
}


@pytest.mark.parametrize("inside", INSIDE)
def test_no_way_out_changes_a_value(catalog: dk.Catalog, inside: str) -> None:
    """An integer that is not a double, beside a NULL, and nanoseconds: at every depth the same value, or a refusal."""
    kinds = {"n": (pa.int64(), INEXACT), "ns": (pa.timestamp("ns"), NANOS), "tz": (pa.timestamp("ns", "UTC"), NANOS)}
    made = {name: INSIDE[inside](*kind) for name, kind in kinds.items()}
    for name, values in made.items():
        rows = pa.table({name: values})
        table = make(catalog, rows, schema=rows.schema, format_version=3)
        scan = dk.scan(table)
        assert str(kinds[name][1]) in numbers(pa.Table.from_pandas(scan.to_pandas(types_mapper=pd.ArrowDtype)))
        for frame in (scan.to_polars(), dk.scan_polars(table).collect()):
            assert str(kinds[name][1]) in numbers(frame.to_arrow())
        if name == "tz":
            with raises(dk.UnsupportedError, "column-type", field="tz"):
                scan.to_duckdb()
        else:
            found = scan.to_duckdb(duckdb.connect()).to_arrow_table()
            assert str(kinds[name][1]) in numbers(found)
        if name == "n":
            with raises(dk.UnsupportedError, "column-value", field="n"):
                scan.to_pandas()
            assert str(INEXACT) in str(scan.to_pandas(integer_object_nulls=True).to_dict())
    small = pa.table({"n": INSIDE[inside](pa.int64(), 2**53)})
    assert len(dk.scan(make(catalog, small, schema=small.schema)).to_pandas())


def numbers(table: pa.Table) -> str:
    """The integers behind a column, at any depth, as text."""
    pending, found = [chunk for column in table.columns for chunk in column.chunks], []
    while pending:
        array = pending.pop()
        if pa.types.is_map(array.type):
            pending += [array.items]
        elif pa.types.is_nested(array.type):
            inner = array.flatten()
            pending += inner if isinstance(inner, list) else [inner]
        elif not pa.types.is_string(array.type) and not pa.types.is_large_string(array.type):
            found += array.cast(pa.int64()).to_pylist()
    return str(found)
