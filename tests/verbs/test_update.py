"""UPDATE: a delete and an insert in one commit, in every mode, against a plain model."""

import datetime as dt
import uuid
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import deletekit as dk
from tests.stored import entries
from tests.tables import VERSION_AND_MODE, Row, expected, items, live, make, refused, unchanged
from tests.verbs.three_valued import FILTERS, LOGIC, ROWS, sqlite_ids

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
EVERY_MODE = pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)


def changed(rows: list[Row], chosen: set[int], **values: Any) -> list[Row]:
    return expected([{**row, **values} if row["id"] in chosen else row for row in rows])


@EVERY_MODE
def test_the_rows_that_sqlite_chooses(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, ROWS[::2], ROWS[1::2], schema=LOGIC, format_version=version, partition_by=["a"])
    for i, where in enumerate(FILTERS[VERSION_AND_MODE.index((version, mode)) :: 4]):  # all of them in some mode
        dk.create_branch(table, f"b{i}")
        dk.update(table, {"b": 77, "s": None}, where=where, mode=mode, ref=f"b{i}")
        assert live(table, ref=f"b{i}") == changed(ROWS, set(sqlite_ids(ROWS, where)), b=77, s=None), where


@EVERY_MODE
def test_functions_of_the_rows(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE[:3], FIVE[3:], format_version=version)
    seen = []

    def doubled(rows: pa.Table) -> Any:
        seen.extend(rows["id"].to_pylist())
        assert rows.column_names == ["id", "category", "value"]
        return pc.multiply(rows["value"], 2.0)

    def named(rows: pa.Table) -> list[str]:
        return [f"row {rows['id'][i]}" for i in range(len(rows))]

    dk.update(table, {"value": doubled, "category": named}, where="id > 1 and id < 5", mode=mode)
    assert sorted(seen) == [2, 3, 4], "called with the chosen rows, and with nothing else"
    model = [
        {**r, "category": f"row {r['id']}", "value": r["value"] and r["value"] * 2} if 1 < r["id"] < 5 else r
        for r in FIVE
    ]
    assert live(table) == expected(model)


@pytest.mark.sampled(3, tier=1)
@EVERY_MODE
@pytest.mark.parametrize("error", [ZeroDivisionError("its own"), OSError("its own"), dk.InvalidInputError("its own")])
def test_a_function_that_fails_leaves_nothing_behind(
    catalog: dk.Catalog, version: int, mode: str, error: Exception
) -> None:
    """Its error is not taken for one of the data file that is open meanwhile."""
    table = make(catalog, FIVE[:3], FIVE[3:], format_version=version)

    def fails(rows: pa.Table) -> Any:
        if 4 in rows["id"].to_pylist():
            raise error
        return rows["value"]

    with unchanged(table), pytest.raises((type(error), dk.StorageError)) as caught:
        dk.update(table, {"value": fails}, where="id > 0", mode=mode)
    assert error in (caught.value, caught.value.__cause__)
    assert getattr(caught.value, "file", None) is None


@EVERY_MODE
@pytest.mark.parametrize("where", ["id > 5 and id < 9", "id > 3000000000"])
def test_no_row_commits_nothing(catalog: dk.Catalog, version: int, mode: str, where: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    with unchanged(table):
        assert dk.update(table, {"value": 0.0}, where=where, mode=mode).snapshot_id is None


# --- what is written --------------------------------------------------------------------------------------------------


@EVERY_MODE
def test_delete_and_insert_share_a_sequence_number(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    done = dk.update(table, {"value": 9.0}, where="id = 1", mode=mode)
    assert done.operation == "overwrite"
    added = [e for e in entries(table) if e["status"] == 1 and e["snapshot_id"] == done.snapshot_id]
    assert {e["inherited"] for e in added} == {None if version == 1 else 2}
    kinds = {"copy-on-write": [0], "position-delete": [0, 1], "deletion-vector": [0, 1], "equality-delete": [0, 2]}
    assert sorted(e["data_file"].get("content") or 0 for e in added) == kinds[mode]


@EVERY_MODE
def test_new_rows_take_the_current_spec_and_schema(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, format_version=version, partition_by=["category"])
    dk.drop_partition_field(table, "category")
    dk.add_partition_field(table, "bucket(2, id)")
    dk.add_column(table, "extra", "long")
    dk.update_column(table, "id", type="long")
    dk.update(table, {"extra": 2**40, "id": 2**41}, where="id = 1", mode=mode)
    rows = [{**r, "extra": None} for r in FIVE]
    assert live(table) == expected([{**rows[0], "extra": 2**40, "id": 2**41}, *rows[1:]])
    newest = max(entries(table, 0), key=lambda e: e["listed"]["partition_spec_id"])
    assert [name for name, value in newest["data_file"]["partition"].items() if value is not None] == ["id_bucket"]


@EVERY_MODE
def test_required_children_of_null_structs_are_carried_through(catalog: dk.Catalog, version: int, mode: str) -> None:
    """Parquet wants a value where there is none; copy-on-write reads it and has to write it again."""
    inner = pa.struct([pa.field("d", pa.date32(), nullable=False), pa.field("u", pa.uuid(), nullable=False)])
    struct = pa.struct([pa.field("x", pa.decimal128(9, 2), nullable=False), pa.field("inner", inner, nullable=False)])
    schema = pa.schema(
        [("id", pa.int32()), ("s", struct), ("l", pa.list_(struct)), ("m", pa.map_(pa.string(), struct))]
    )
    full = {"x": Decimal("1.50"), "inner": {"d": dt.date(2024, 1, 1), "u": uuid.UUID(int=7)}}
    rows = [
        {"id": 1, "s": None, "l": [None, full], "m": [("a", None), ("b", full)]},
        {"id": 2, "s": full, "l": [], "m": None},
        {"id": 3, "s": None, "l": None, "m": []},
    ]
    table = make(catalog, rows[:2], rows[2:], schema=schema, format_version=version)
    assert live(table) == expected(rows)
    dk.update(table, {"id": 9}, where="id = 1 or id = 3", mode=mode)
    model = [{**rows[0], "id": 9}, rows[1], {**rows[2], "id": 9}]
    assert live(table) == expected(model)
    dk.update(table, {"s": None}, where="id = 2", mode=mode)
    assert live(table) == expected([model[0], {**rows[1], "s": None}, model[2]])


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(6, tier=1)
@EVERY_MODE
@pytest.mark.parametrize(
    ("assignments", "kind", "field"),
    [
        ({"nope": 1}, "column-not-found", "nope"),
        ({"id": None}, "null-in-required", "id"),
        ({"id": "one"}, "column-type", "id"),
        ({"id": 2**31}, "column-type", "id"),
        ({"id": 1.5}, "column-type", "id"),
        ({"category": 1}, "column-type", "category"),
        ({"value": "1.0"}, "column-type", "value"),
        ({"value": dt.date(2024, 1, 1)}, "column-type", "value"),
        ({}, "assignments", "assignments"),
    ],
    ids=str,
)
def test_assignments_that_do_not_fit(
    catalog: dk.Catalog, version: int, mode: str, assignments: dict[str, Any], kind: str, field: str
) -> None:
    table = make(catalog, FIVE, format_version=version)
    for where in ("id = 1", "id = 99"):
        with refused(table, dk.InvalidInputError, kind, field=field):
            dk.update(table, assignments, where=where, mode=mode)


@pytest.mark.sampled(4, tier=1)
@EVERY_MODE
@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda rows: rows["value"][:1], "assignments"),
        (lambda rows: pa.nulls(len(rows), pa.int32()), "null-in-required"),
        (lambda rows: ["x"] * len(rows), "column-type"),
        (lambda _: 7, "assignments"),
    ],
    ids=["too few", "null", "text", "no array"],
)
def test_functions_that_do_not_fit(catalog: dk.Catalog, version: int, mode: str, function: Any, kind: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    with refused(table, dk.InvalidInputError, kind, field="id"):
        dk.update(table, {"id": function}, where="id > 1", mode=mode, **by_id(mode))


def by_id(mode: str) -> dict[str, Any]:
    return {"on": ["id"]} if mode == "equality-delete" else {}


def test_a_filter_is_required(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    for where in (None, "", "  "):
        with refused(table, dk.InvalidInputError, "filter", field="where"):
            dk.update(table, {"value": 0.0}, where=where)


def test_a_text_that_reads_as_an_expression_is_refused_with_both_ways_out(catalog: dk.Catalog) -> None:
    """An update stored the text that a merge computed, silently."""
    rows = pa.table({"id": [1], "name": ["ann"], "x": [1.0], "s": ["a"]})
    table = make(catalog, rows, schema=rows.schema, format_version=3)

    def updated(value: Any, column: str = "s") -> Any:
        dk.update(table, {column: value}, where="id = 1")
        return dk.scan(table).to_arrow()[column].to_pylist()

    def merged(value: Any, column: str = "s") -> Any:
        clause = dk.Clause("update", {column: value})
        dk.merge(table, [{"id": 1, "own": "b"}], on="id", when_matched=clause, when_not_matched=None)
        return dk.scan(table).to_arrow()[column].to_pylist()

    texts = [
        "upper(name)", "name", "target.name", "source.own", "name || s", "x + 1", "'new'", "NULL", "null", "concat(a)",
        "now()", "upper(nmae)", "CASE WHEN x > 1 THEN 'a' END", "DATE '2020-01-01'", "`name`", '"s"', "cast(x as int)",
    ]  # fmt: skip
    for verb, text in [(merged, "own"), *product((updated, merged), texts)]:
        with refused(table, dk.InvalidInputError, "assignments", field="s") as refusal:
            verb(text)
        quoted = "'" + text.replace("'", "''") + "'"
        assert refusal.error.expected == f"dk.expr({text!r}) to compute it, dk.expr({quoted!r}) to store the text"
        assert verb(dk.expr(quoted)) == verb(pa.scalar(text)) == [text]
        with refused(table, dk.InvalidInputError, "assignments", field="x"):
            verb(text, "x")
    for text in [
        "done",
        "N/A",
        "2024-01-31",
        "5",
        "true",
        "Ann B.",
        "a-b",
        "",
        "O'Neil",
        "50% off",
        "Smith (jr)",
        "- ",
    ]:
        assert updated(text) == merged(text) == [text]


def test_expressions_are_computed_of_each_row(catalog: dk.Catalog) -> None:
    rows = pa.table({"id": [1, 2], "p": [{"a": "u"}, {"a": None}], "x": [1.0, 2.0], "s": ["a", "b"], "u": [None] * 2})
    table = make(catalog, rows, schema=rows.schema.set(4, pa.field("u", pa.uuid())), format_version=3)
    values = {"s": dk.expr("upper(s) || coalesce(p.a, '')"), "x": dk.expr("x + id"), "id": lambda r: pc.add(r["id"], 5)}
    dk.update(table, values | {"u": dk.expr(f"'{uuid.UUID(int=7)}'")}, where="true")
    found = [(row["id"], row["x"], row["s"], row["u"]) for row in live(table)]
    assert found == [(6, 2.0, "Au", uuid.UUID(int=7)), (7, 4.0, "B", uuid.UUID(int=7))]
    for column, text in [("s", "upper(nmae)"), ("s", "x +"), ("u", "'7'")]:
        with refused(table, dk.InvalidInputError, "filter", field="assignments"):
            dk.update(table, {column: dk.expr(text)}, where="id = 99")
    for column, text in [("s", "x"), ("id", "9223372036854775808")]:
        with refused(table, dk.InvalidInputError, "column-type", field=column):
            dk.update(table, {column: dk.expr(text)}, where="id = 99")
