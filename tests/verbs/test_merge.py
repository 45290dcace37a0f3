"""MERGE against a plain Python model: joined by SQL's equality, in every mode."""

from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.stored import live_files, parquet
from tests.tables import ITEMS, VERSION_AND_MODE, ids, items, live, make, refused, set_by_another_writer, unchanged

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
EVERY_MODE = pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)


SOURCE = items((1, "new", 10.0), (3, None, None), (6, "f", 6.0), (7, None, 7.0))


@EVERY_MODE
def test_null_keys_are_not_deleted(catalog: dk.Catalog, version: int, mode: str) -> None:
    table = make(catalog, FIVE, format_version=version)
    dk.merge(
        table,
        [{"category": None}, {"category": "a"}],
        on=["category"],
        mode=mode,
        when_matched="delete",
        when_not_matched=None,
    )
    assert ids(table) == [2, 3, 5]


@EVERY_MODE
@pytest.mark.parametrize("when_matched", ["update", "delete"])
def test_a_table_row_may_not_match_many_source_rows(
    catalog: dk.Catalog, version: int, mode: str, when_matched: Any
) -> None:
    table = make(catalog, FIVE, format_version=version)
    source = items((1, "x", 1.0), (2, "x", 1.0), (1, "y", 2.0))
    with refused(table, dk.InvalidInputError, "merge-cardinality", field="on", found=2):
        dk.merge(table, source, on=["id"], mode=mode, when_matched=when_matched)


def test_inserted_rows_take_write_defaults(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:1], format_version=3)
    dk.add_column(table, "flag", "int", default=7)
    dk.update(table, {"flag": 1}, where="true")
    dk.merge(table, [{"id": 1, "value": 2.0}, {"id": 2, "value": 3.0}], on=["id"])
    assert {r["id"]: r["flag"] for r in live(table)} == {1: 1, 2: 7}


@EVERY_MODE
@pytest.mark.parametrize("source", [ITEMS.empty_table(), items()], ids=["arrow", "list"])
def test_an_empty_source_commits_nothing(catalog: dk.Catalog, version: int, mode: str, source: Any) -> None:
    table = make(catalog, FIVE, format_version=version)
    with unchanged(table):
        assert dk.merge(table, source, on=["id"], mode=mode).snapshot_id is None


@pytest.mark.parametrize("mode", ["copy-on-write", "deletion-vector"])
def test_floating_point_keys_are_compared_as_in_sql(catalog: dk.Catalog, mode: str) -> None:
    rows = items((1, "a", 0.0), (2, "b", float("nan")), (3, "c", 1.5), (4, "d", None))
    table = make(catalog, rows, format_version=3)
    source = [
        {"value": -0.0, "category": "zero"},
        {"value": float("nan"), "category": "nan"},
        {"value": None, "category": "?"},
    ]
    dk.merge(table, source, on=["value"], mode=mode, when_not_matched=None)
    assert {r["id"]: r["category"] for r in live(table)} == {1: "zero", 2: "nan", 3: "c", 4: "d"}


def test_equality_deletes_take_the_join_as_their_key(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    dk.merge(table, SOURCE, on=["id"], mode="equality-delete")
    (delete,) = live_files(table, 1)
    assert delete["equality_ids"] == [1]
    assert parquet(delete["file_path"]).to_pydict() == {"id": [1, 3]}, "keys that no row had are not written"
    with refused(table, dk.InvalidInputError, "equality-key", field="value"):
        dk.merge(table, [{"value": 1.0}], on=["value"], mode="equality-delete", when_not_matched=None)


def test_the_mode_property_of_merge(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, properties={"write.merge.mode": "merge-on-read"})
    set_by_another_writer(table, {"write.delete.mode": "nonsense"})
    dk.merge(table, SOURCE, on=["id"])
    assert [d["content"] for d in live_files(table, 1)] == [1]


@pytest.mark.parametrize(
    ("source", "options", "error", "kind", "field"),
    [
        (SOURCE, {"on": []}, dk.InvalidInputError, "merge", "on"),
        (SOURCE, {"on": ["nope"]}, dk.InvalidInputError, "column-not-found", "nope"),
        ([{"value": 1.0}], {"on": ["id"]}, dk.InvalidInputError, "column-not-found", "id"),
        ([{"id": 1, "nope": 1}], {"on": ["id"]}, dk.InvalidInputError, "column-not-found", "nope"),
        ([{"id": "1"}], {"on": ["id"]}, dk.InvalidInputError, "column-type", "id"),
        ([{"id": 2**40}], {"on": ["id"]}, dk.InvalidInputError, "column-type", "id"),
        ([{"id": 1, "value": "x"}], {"on": ["id"]}, dk.InvalidInputError, "column-type", "value"),
        (
            [{"id": 9, "value": "x"}],
            {"on": ["id"], "when_not_matched": None},
            dk.InvalidInputError,
            "column-type",
            "value",
        ),
        ([{"id": None, "category": "a"}], {"on": ["category"]}, dk.InvalidInputError, "null-in-required", "id"),
        ([{"category": "z"}], {"on": ["category"]}, dk.InvalidInputError, "column-not-found", "id"),
        ([{"id": 1}, {"id": 2, "value": 1.0}], {"on": ["id"]}, dk.InvalidInputError, "rows", "source"),
        ("text", {"on": ["id"]}, dk.InvalidInputError, "file-format", None),
        (
            SOURCE,
            {"on": ["id"], "when_matched": "replace"},
            dk.InvalidInputError,
            "merge",
            "when_matched",
        ),
        (
            SOURCE,
            {"on": ["id"], "when_not_matched": "update"},
            dk.InvalidInputError,
            "merge",
            "when_not_matched",
        ),
        (SOURCE, {"on": ["id"], "mode": "upsert"}, dk.InvalidInputError, "mode", "mode"),
    ],
    ids=str,
)
def test_merges_that_cannot_be(
    catalog: dk.Catalog, source: Any, options: dict[str, Any], error: type[dk.DeletekitError], kind: str, field: str
) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    with refused(table, error, kind, field=field):
        dk.merge(table, source, **options)


def test_lists_cannot_be_joined_on(catalog: dk.Catalog) -> None:
    schema = pa.schema([("id", pa.int32()), ("l", pa.list_(pa.int32()))])
    table = make(catalog, [{"id": 1, "l": [1]}], schema=schema)
    with refused(table, dk.UnsupportedError, "equality-key"):
        dk.merge(table, [{"id": 2, "l": [1]}], on=["l"])
