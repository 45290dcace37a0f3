"""The clauses of MERGE against DuckDB's MERGE INTO: any clauses over any rows leave the same rows, in every mode."""

import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deletekit as dk
from tests.stored import live_files
from tests.tables import VERSION_AND_MODE, Row, expected, live, make, new_catalog, refused

TABLE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("k", pa.int32()),
        pa.field("v", pa.float64()),
        pa.field("s", pa.string()),
    ]
)
TYPED = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("d", pa.decimal128(9, 2)), ("e", pa.decimal128(9, 4))])
SOURCE = pa.schema([("key", pa.int32()), ("amount", pa.float64()), ("op", pa.string())])
EVERY_MODE = pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
ROWS: list[Row] = [
    {"id": 1, "k": 1, "v": 1.0, "s": "a"},
    {"id": 2, "k": 2, "v": None, "s": "b"},
    {"id": 3, "k": 2, "v": 3.0, "s": None},
    {"id": 4, "k": None, "v": 4.0, "s": "a"},
    {"id": 5, "k": 5, "v": 5.0, "s": "c"},
]
LINEAGE = [*TABLE.names, "_row_id", "_last_updated_sequence_number"]
CHANGES: list[Row] = [
    {"key": 1, "amount": 10.0, "op": "U"},
    {"key": 2, "amount": 20.0, "op": "D"},
    {"key": 9, "amount": 90.0, "op": "U"},
    {"key": None, "amount": 7.0, "op": None},
    {"key": 8, "amount": None, "op": "D"},
]


class Merge(NamedTuple):
    """The clauses of one merge."""

    matched: tuple[dk.Clause, ...] = ()
    not_matched: tuple[dk.Clause, ...] = ()
    by_source: tuple[dk.Clause, ...] = ()

    def apply(self, table: dk.Table, source: Sequence[Row], **options: Any) -> dk.results.Commit:
        return dk.merge(
            table,
            pa.Table.from_pylist(list(source), SOURCE),
            on={"k": "key"},
            when_matched=self.matched,
            when_not_matched=self.not_matched,
            when_not_matched_by_source=self.by_source,
            **options,
        )

    def sql(self) -> str:
        clauses = [_sql("WHEN MATCHED", c) for c in self.matched]
        clauses += [_sql("WHEN NOT MATCHED", c) for c in self.not_matched]
        clauses += [_sql("WHEN NOT MATCHED BY SOURCE", c) for c in self.by_source]
        return "MERGE INTO target USING source ON target.k = source.key " + " ".join(clauses)


def _sql(words: str, clause: dk.Clause) -> str:
    values = clause.assignments or {}
    told = {n: "NULL" if v is None else str(getattr(v, "text", v)) for n, v in values.items()}
    then = {
        "delete": "DELETE",
        "update": "UPDATE SET " + ", ".join(f"{n} = {v}" for n, v in told.items()),
        "insert": f"INSERT ({', '.join(told)}) VALUES ({', '.join(told.values())})",
    }[clause.action]
    return f"{words}{f' AND ({clause.where})' if clause.where else ''} THEN {then}"


def by_duckdb(rows: Sequence[Row], source: Sequence[Row], merge: Merge) -> list[Row]:
    return expected([{n: row[n] for n in TABLE.names} for row in lineage_by_duckdb(rows, source, merge)])


def lineage_by_duckdb(rows: Sequence[Row], source: Sequence[Row], merge: Merge) -> list[Row]:
    """The rows that are left, each with the id that it had (`was`) and whether a clause has made it what it is."""
    with duckdb.connect() as connection:
        connection.register("given", pa.Table.from_pylist(list(rows), TABLE))
        connection.register("source", pa.Table.from_pylist(list(source), SOURCE))
        connection.execute("CREATE TABLE target AS SELECT *, id AS was, false AS changed FROM given")
        connection.execute(merge.sql().replace("UPDATE SET ", "UPDATE SET changed = true, "))
        left = connection.execute("SELECT * REPLACE (changed IS NOT FALSE AS changed) FROM target")
        return expected(left.to_arrow_table().to_pylist())


E = dk.expr
UPDATES: list[dict[str, Any]] = [
    {"v": E("target.v + source.amount"), "s": E("source.op")},
    {"v": E("coalesce(amount, v) * 2")},
    {"s": E("coalesce(s, '') || lower(op)"), "v": 1.5},
    {"s": None},
    {"k": E("k + 100"), "v": E("CASE WHEN amount > 15 THEN amount ELSE v END")},
    {"id": E("id + 1000")},
]
INSERTS: list[dict[str, Any]] = [
    {"id": E("coalesce(key, -1)"), "k": E("key"), "v": E("amount"), "s": E("op")},
    {"id": E("coalesce(key, 0) + 50"), "v": E("source.amount / 2")},
    {"id": 77, "s": E("'new'")},
]
MISSES: list[dict[str, Any]] = [{"v": E("v + 0.5"), "s": E("'gone'")}, {"k": None}, {"s": E("upper(target.s)")}]
MATCHED = ["op = 'D'", "amount > v", "target.v IS NULL OR op <> 'U'", "target.id % 2 = 0", "s = 'a' AND amount > 5"]
NOT_MATCHED = ["op = 'D'", "amount > 50", "key IS NULL", "NOT (op = 'U')"]
MISSED = ["v > 3", "k IS NULL", "s = 'a' OR target.id = 5", "target.v < id"]


def clauses(tests: list[str], actions: list[tuple[str, list[dict[str, Any]]]]) -> st.SearchStrategy[Any]:
    action = st.one_of(
        *(
            st.builds(dk.Clause, st.just(name), st.sampled_from(values) if values else st.none(), st.none())
            for name, values in actions
        )
    )
    conditional = st.tuples(action, st.sampled_from(tests)).map(
        lambda t: dk.Clause(t[0].action, t[0].assignments, t[1])
    )
    return st.tuples(st.lists(conditional, max_size=2), st.lists(action, max_size=1)).map(lambda t: (*t[0], *t[1]))


MERGES = st.builds(
    Merge,
    clauses(MATCHED, [("update", UPDATES), ("delete", [])]),
    clauses(NOT_MATCHED, [("insert", INSERTS)]),
    clauses(MISSED, [("update", MISSES), ("delete", [])]),
).filter(any)
NUMBERS = st.sampled_from([None, 0.0, 1.0, 4.0, 10.0, 60.0])
TEXTS = st.sampled_from([None, "a", "b", "D", "U"])
ROWS_OF_TABLE = st.lists(
    st.fixed_dictionaries({"k": st.sampled_from([None, 1, 2, 3, 4]), "v": NUMBERS, "s": TEXTS}), max_size=8
).map(lambda rows: [{"id": i, **row} for i, row in enumerate(rows)])
ROWS_OF_SOURCE = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from([None, 1, 2, 3, 9]), "amount": NUMBERS, "op": TEXTS}),
    max_size=5,
    unique_by=lambda row: math.nan if row["key"] is None else row["key"],
)


@EVERY_MODE
def test_random_clauses(tmp_path: Path, version: int, mode: str) -> None:
    """The rows are DuckDB's, and in v3 each row that is kept or updated keeps its row id; only those updated look new.

    Equality deletes may refuse, and nothing is changed then: their key would take other rows with it.
    """
    refusals = 0

    with new_catalog(tmp_path) as catalog:

        @given(ROWS_OF_TABLE, ROWS_OF_SOURCE, MERGES)
        @settings(max_examples=8, deadline=None, derandomize=True)
        def check(rows: list[Row], source: list[Row], merge: Merge) -> None:
            nonlocal refusals
            table = make(catalog, rows[:4], rows[4:], schema=TABLE, format_version=version, partition_by=["s"])
            wanted = by_duckdb(rows, source, merge)
            first = {r["_row_id"]: r["id"] for r in live(table, columns=LINEAGE)} if version == 3 else {}
            try:
                done = merge.apply(table, source, mode=mode)
            except dk.InvalidInputError as e:
                if (mode, e.kind) != ("equality-delete", "equality-key-not-unique"):
                    raise
                refusals, wanted = refusals + 1, expected(rows)
            assert live(table) == wanted, merge.sql()
            if version == 3 and mode != "equality-delete":
                kept = [
                    {n: r[n] for n in TABLE.names}
                    | {"was": first.get(r["_row_id"]), "changed": r[LINEAGE[-1]] == done.sequence_number}
                    for r in live(table, columns=LINEAGE)
                ]
                assert expected(kept) == lineage_by_duckdb(rows, source, merge), merge.sql()

        check()
    assert not refusals or mode == "equality-delete"


def test_the_first_true_clause_decides(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, schema=TABLE)
    merge = Merge((dk.Clause("update", {"v": 1}, where="amount > 5"), dk.Clause("update", {"v": 2})))
    merge.apply(table, CHANGES)
    assert [r["v"] for r in live(table)] == [1.0, 1.0, 1.0, 4.0, 5.0]


def test_whole_rows_beside_columns_that_only_conditions_read(catalog: dk.Catalog) -> None:
    """`op` is not a column of the table, but a condition names it; a name that nothing reads is refused as ever."""
    table = make(catalog, ROWS, schema=TABLE)
    source = [
        {"id": 1, "v": -1.0, "op": "U"},
        {"id": 2, "v": 0.0, "op": "D"},
        {"id": 6, "v": 6.0, "op": "U"},
        {"id": 7, "v": 7.0, "op": "D"},
    ]
    matched = [dk.Clause("delete", where="op = 'D'"), "update"]
    dk.merge(table, source, on="id", when_matched=matched, when_not_matched=dk.Clause("insert", where="op <> 'D'"))
    assert [(r["id"], r["v"], r["s"]) for r in live(table)] == [
        (1, -1.0, "a"),
        (3, 3.0, None),
        (4, 4.0, "a"),
        (5, 5.0, "c"),
        (6, 6.0, None),
    ]
    with refused(table, dk.InvalidInputError, "column-not-found", field="op"):
        dk.merge(table, source, on="id", when_matched="update")


def test_keys_of_other_names_in_whole_rows(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, schema=TABLE)
    dk.merge(table, [{"customer": 1, "v": 9.0}, {"customer": 8, "v": 8.0}], on={"id": "customer"})
    assert [(r["id"], r["v"]) for r in live(table) if r["id"] in (1, 8)] == [(1, 9.0), (8, 8.0)]
    with refused(table, dk.InvalidInputError, "column-not-found", field="nope"):
        dk.merge(table, [{"customer": 1}], on={"id": "nope"})


def test_keys_of_other_names_and_types(catalog: dk.Catalog) -> None:
    """1.0 is 1, and 1.00 is not 0.0100, although the table has columns of both types and names."""
    table = make(catalog, [{"id": 1, "v": 0.5, "d": Decimal("1.00"), "e": Decimal("0.0100")}], schema=TYPED)
    dk.merge(table, [{"e": Decimal("0.0100")}], on={"d": "e"}, when_matched="delete", when_not_matched=None)
    assert len(live(table)) == 1
    dk.merge(table, [{"v": 1.0}], on={"id": "v"})
    assert [(r["id"], r["v"]) for r in live(table)] == [(1, 1.0)]
    with refused(table, dk.InvalidInputError, "column-type", field="id"):
        dk.merge(table, [{"v": 1.5}], on={"id": "v"})


def test_equality_deletes_refuse_to_take_a_spared_row(catalog: dk.Catalog) -> None:
    """Rows 2 and 3 have one key, and the clause chooses one of them."""
    table = make(catalog, ROWS, schema=TABLE)
    merge = Merge((dk.Clause("delete", where="v IS NULL"),))
    with refused(table, dk.InvalidInputError, "equality-key-not-unique", field="k"):
        merge.apply(table, CHANGES, mode="equality-delete")
    merge.apply(table, CHANGES, mode="position-delete")
    assert [r["id"] for r in live(table)] == [1, 3, 4, 5]


def test_nothing_is_written_for_rows_that_no_clause_chooses(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, schema=TABLE)
    files = live_files(table, 0)
    never = "v > 1000"
    merge = Merge((dk.Clause("delete", where=never),), (), (dk.Clause("update", {"v": 0}, where=never),))
    assert merge.apply(table, CHANGES).snapshot_id is None
    assert live_files(table, 0) == files


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"when_matched": dk.Clause("insert")}, "merge", "when_matched"),
    ({"when_matched": [dk.Clause("delete"), "update"]}, "merge", "when_matched"),
    ({"when_matched": dk.Clause("delete", {"v": 1})}, "merge", "when_matched"),
    ({"when_matched": dk.Clause("update", {})}, "merge", "when_matched"),
    ({"when_not_matched": dk.Clause("delete")}, "merge", "when_not_matched"),
    ({"when_not_matched_by_source": "insert"}, "merge", "when_not_matched_by_source"),
    ({"when_not_matched_by_source": "update"}, "merge", "when_not_matched_by_source"),
    ({"when_matched": dk.Clause("update", {"nope": 1})}, "column-not-found", "nope"),
    ({"when_matched": dk.Clause("update", {"v": E("nope")})}, "filter", "when_matched"),
    ({"when_matched": dk.Clause("update", {"v": E("amount +")})}, "filter", "when_matched"),
    ({"when_matched": dk.Clause("update", {"v": E("op")})}, "column-type", "v"),
    ({"when_matched": dk.Clause("update", {"id": None})}, "null-in-required", "id"),
    ({"when_matched": dk.Clause("update", {"id": E("key % 0")})}, "null-in-required", "id"),
    ({"when_matched": dk.Clause("update", {"k": E("amount / 3")})}, "column-type", "k"),
    ({"when_matched": dk.Clause("update", {"s": E("5")})}, "column-type", "s"),
    ({"when_matched": dk.Clause("delete", where="amount = 'x'")}, "filter", "when_matched"),
    ({"when_matched": dk.Clause("delete", where="v")}, "filter", "when_matched"),
    ({"when_not_matched": dk.Clause("insert", {"id": E("target.id")})}, "filter", "when_not_matched"),
    ({"when_not_matched": dk.Clause("insert", {"v": E("amount")})}, "column-not-found", "id"),
    ({"when_not_matched_by_source": dk.Clause("delete", where="amount > 1")}, "filter", "when_not_matched_by_source"),
    ({"on": {"k": "key", "v": "nope"}}, "column-not-found", "nope"),
    ({"on": {}}, "merge", "on"),
]


@pytest.mark.parametrize(("options", "kind", "field"), BAD, ids=str)
def test_clauses_that_cannot_be(catalog: dk.Catalog, options: dict[str, Any], kind: str, field: str) -> None:
    table = make(catalog, ROWS, schema=TABLE)
    told = {"on": {"k": "key"}, "when_matched": None, "when_not_matched": None, **options}
    with refused(table, dk.InvalidInputError, kind, field=field):
        dk.merge(table, pa.Table.from_pylist(CHANGES, SOURCE), **told)


def test_a_column_of_both_sides_needs_its_side(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, schema=TABLE)
    with refused(table, dk.InvalidInputError, "filter", field="when_matched"):
        dk.merge(table, [{"id": 1, "v": 2.0}], on="id", when_matched=dk.Clause("update", {"v": E("v + 1")}))
    dk.merge(table, [{"id": 1, "v": 2.0}], on="id", when_matched=dk.Clause("update", {"v": E("target.v + source.v")}))
    assert live(table)[0]["v"] == 3.0


def test_structs_dates_and_constants_are_assigned(catalog: dk.Catalog) -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    schema = pa.schema([pa.field("id", pa.int64()), ("p", kind), ("day", pa.date32()), ("n", pa.decimal128(9, 2))])
    table = make(catalog, [{"id": 1, "p": None, "day": None, "n": None}], schema=schema, format_version=3)
    source = [{"id": 1, "p": {"a": 4, "b": "x"}, "rate": 1.5}]
    values = {"p": E("source.p"), "day": E("'2024-02-29'"), "n": E("source.p.a * 2 + 1")}
    dk.merge(table, source, on="id", when_matched=dk.Clause("update", values), when_not_matched=None)
    (row,) = live(table)
    assert (row["p"], str(row["day"]), str(row["n"])) == ({"a": 4, "b": "x"}, "2024-02-29", "9.00")
    bad = dk.Clause("update", {"day": E("'soon'")})
    with refused(table, dk.InvalidInputError, "filter", field="when_matched"):
        dk.merge(table, source, on="id", when_matched=bad, when_not_matched=None)


@pytest.mark.spark
def test_spark_merges_the_same(spark: Any, catalog: dk.Catalog) -> None:
    """Spark's MERGE of the same clauses leaves the same rows; a DataFrame as source refuses clauses by name."""
    table = make(catalog, ROWS, schema=TABLE, format_version=3)
    frame = spark.createDataFrame([tuple(row.values()) for row in CHANGES], "key int, amount double, op string")
    with refused(table, dk.UnsupportedError, "merge", field="when_matched"):
        dk.merge(table, frame, on="id", when_matched=dk.Clause("delete", where="op = 'D'"), when_not_matched=None)
    merge = Merge(
        (
            dk.Clause("delete", where="op = 'D'"),
            dk.Clause("update", {"v": E("target.v + amount"), "s": E("source.op")}),
        ),
        (dk.Clause("insert", INSERTS[0], where="op = 'U'"),),
        (dk.Clause("update", {"s": E("upper(s)")}, where="v > 4"), dk.Clause("delete", where="k IS NULL")),
    )
    merge.apply(table, CHANGES)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.merged")
    spark.createDataFrame(pa.Table.from_pylist(ROWS, TABLE)).writeTo("local.merged.clauses").create()
    frame.createOrReplaceTempView("source")
    spark.sql(merge.sql().replace("INTO target", "INTO local.merged.clauses AS target"))
    assert live(table) == expected(spark.table("local.merged.clauses").toArrow().to_pylist())


def test_a_stream_is_a_source(catalog: dk.Catalog) -> None:
    """It is read once, into a table, also where the change is planned twice."""
    merge = Merge((dk.Clause("update", {"v": E("amount")}),), (dk.Clause("insert", INSERTS[0]),))
    rows = pa.Table.from_pylist(CHANGES, SOURCE)
    left = []
    for source in (iter(CHANGES), iter(rows.to_batches(2)), rows.to_reader(2), pl.LazyFrame(rows), pds.dataset(rows)):
        table = make(catalog, ROWS, schema=TABLE)
        dk.merge(table, source, on={"k": "key"}, when_matched=merge.matched, when_not_matched=merge.not_matched)
        left.append(live(table))
    assert left == [by_duckdb(ROWS, CHANGES, merge)] * 5
