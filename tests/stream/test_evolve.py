"""`evolve=`: a batch brings columns and wider types, and the same batch finds nothing to do when it comes again."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.commit.racing import racing
from tests.stream.replay import PEOPLE, Row, check
from tests.tables import make, raises, refused

NARROW = pa.schema(
    [pa.field("id", pa.int32()), pa.field("score", pa.float32()), pa.field("price", pa.decimal128(4, 2))]
)


def opened(table: dk.Table, evolve: str, mode: str = "auto", **options: Any) -> dk.stream.Sink:
    return dk.stream.sink(table, "s", on="id", change_type=None, evolve=evolve, mode=mode, **options)  # type: ignore[arg-type]


def types(table: dk.Table) -> dict[str, str]:
    return {f.name: str(f.field_type) for f in table.refresh().metadata.schema.fields}


@pytest.mark.parametrize(("mode", "version"), [("auto", 3), ("eq-only", 2), ("index-only", 3)])
def test_columns_are_added(catalog: dk.Catalog, mode: str, version: int) -> None:
    table = make(catalog, schema=PEOPLE, format_version=version)
    batches: list[list[Row]] = [
        [{"id": 1, "name": "a", "score": 1.0}, {"id": 2, "name": "b", "score": 2.0}],
        [{"id": 2, "name": "c", "score": 3.0, "city": "Oslo", "place": {"x": 1, "y": None}, "tags": ["t"]}],
        [{"id": 3, "name": "d", "score": 4.0, "place": {"x": 2, "z": 5, "n": {"m": None}}, "nothing": None}],
        [{"id": 1, "name": "e", "score": 5.0}],
    ]
    with opened(table, "add", mode) as sink:
        for number, batch in enumerate(batches):
            rows: Any = [{**r, "place": r["place"] | {"y": "y"}} if number == 1 else r for r in batch]
            assert sink.write(rows, number).status == "committed"
            schemas = len(table.refresh().metadata.raw["schemas"])
            assert sink.write(rows, number).status == "skipped"
            assert len(table.refresh().metadata.raw["schemas"]) == schemas
        assert sink.write(batches[0], 0).status == "skipped"  # also after the schema grew
    assert list(types(table)) == ["id", "name", "score", "city", "place", "tags"]
    assert not any(f.required for f in table.metadata.schema.fields)
    none = {"city": None, "place": None, "tags": None}
    expected = [
        {"id": 1, "name": "e", "score": 5.0, **none},
        {"id": 2, "name": "c", "score": 3.0, "city": "Oslo", "place": {"x": 1, "y": "y", "z": None}, "tags": ["t"]},
        {"id": 3, "name": "d", "score": 4.0, **none, "place": {"x": 2, "y": None, "z": 5}},
    ]
    check(table, dict(enumerate(expected)))


@pytest.mark.parametrize("theirs", ["theirs", "city"])
def test_others_add_a_column_at_the_same_time(catalog: dk.Catalog, theirs: str) -> None:
    """The new column gets another id than it would have had, and the batch is still known when it comes again."""
    table = racing(catalog, make(catalog, schema=PEOPLE), lambda other: dk.add_column(other, theirs, "string"))
    rows = [{"id": 1, "name": "a", "score": 1.0, "city": "Oslo"}]
    with opened(table, "add") as sink:
        assert sink.write(rows, 0).status == "committed"
        assert sink.write(rows, 0).status == "skipped"
    check(table, {1: {theirs: None, **rows[0]}})


@pytest.mark.parametrize("mode", ["auto", "eq-only"])
def test_types_are_widened_where_a_value_does_not_fit(catalog: dk.Catalog, mode: str) -> None:
    """The key too; a value that fits widens nothing, whatever its Arrow type is."""
    table = make(catalog, schema=NARROW)
    first = [{"id": 1, "score": 0.5, "price": Decimal("1.25")}]
    second = [{"id": 2**40, "score": 0.1, "price": Decimal("12345.67")}]
    with opened(table, "widen", mode) as sink:
        sink.write(first, 0)
        assert types(table) == {"id": "int", "score": "float", "price": "decimal(4, 2)"}
        sink.write(second, 1)
        assert types(table) == {"id": "long", "score": "double", "price": "decimal(7, 2)"}
        assert sink.write(first, 0).status == sink.write(second, 1).status == "skipped"
        sink.write([{**first[0], "score": 0.3}], 2)
    check(table, {1: {**first[0], "score": 0.3}, 2: second[0]})


def test_only_what_was_asked_for(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=NARROW)
    with opened(table, "refuse") as sink, refused(table, dk.InvalidInputError, "column-not-found", field="city"):
        sink.write([{"id": 1, "city": "Oslo"}], 0)
    with opened(table, "add") as sink, refused(table, dk.InvalidInputError, "column-type", field="id"):
        sink.write([{"id": 2**40}], 0)


REFUSED: list[tuple[Any, str, str]] = [
    ({"id": [1], "Score": ["x"]}, "evolve", "Score"),
    ({"id": [1], "new": ["x"], "NEW": ["x"]}, "evolve", "NEW"),
    ({"id": [1], "late": pa.array([1], pa.duration("s"))}, "evolve", "late"),
    ({"id": [1], "at": pa.array([1], pa.timestamp("ns"))}, "format-version", "at"),
    ({"id": [1], "tags": [[]]}, "evolve", "tags"),
    ({"id": [1], "new": [1], "score": ["x"]}, "column-type", "score"),
    ({"id": [1], "new": [1], "price": [Decimal("1.234")]}, "column-type", "price"),
]


@pytest.mark.parametrize(("rows", "kind", "field"), REFUSED)
def test_refused_before_anything_is_written(catalog: dk.Catalog, rows: Any, kind: str, field: str) -> None:
    """Also the schema stays as it was."""
    table = make(catalog, schema=NARROW, format_version=2)
    with opened(table, "widen") as sink, refused(table, dk.InvalidInputError, kind, field=field):
        sink.write(pa.table(rows), 0)


def test_a_batch_that_is_refused_changes_no_schema(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=NARROW)
    with opened(table, "add") as sink:
        sink.write([{"id": 1}], 0)
        with refused(table, dk.InvalidInputError, "batch-gap"):
            sink.write([{"id": 1, "new": 1}], 5)
        with refused(table, dk.InvalidInputError, "batch-changed"):
            sink.write([{"id": 1, "new": 1}], 0)


def test_columns_of_the_stream_are_not_added(catalog: dk.Catalog) -> None:
    table = make(catalog, schema=PEOPLE)
    with dk.stream.sink(table, "s", on="id", order="at", sequence_by="score", evolve="widen") as sink:
        sink.write([{"id": 1, "score": 1.0, "name": "x", "at": 1, "_change_type": "INSERT", "new": 1}], 0)
        sink.write([{"id": 1, "score": 0.5, "at": 1, "_change_type": "DELETE", "newer": "x"}], 1)
    assert [*types(table)] == ["id", "name", "score", "new", "newer"]
    check(table, {1: {"id": 1, "score": 1.0, "name": "x", "new": 1, "newer": None}})


def test_killed_between_schema_and_batch(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema is there, the batch is not; it comes again."""
    table = make(catalog, schema=PEOPLE)
    commit, commits = type(catalog).commit, []

    def killed(*arguments: Any) -> Any:
        commits.append(arguments)
        if len(commits) == 2:
            raise KeyboardInterrupt
        return commit(*arguments)

    monkeypatch.setattr(type(catalog), "commit", killed)
    with opened(table, "add") as sink, pytest.raises(KeyboardInterrupt):
        sink.write([{"id": 1, "city": "Oslo"}], 0)
    monkeypatch.undo()
    with opened(table, "add") as sink:
        assert sink.write([{"id": 1, "city": "Oslo"}], 0).status == "committed"
    assert len(table.refresh().metadata.raw["schemas"]) == 2
    check(table, {1: {"id": 1, "name": None, "score": None, "city": "Oslo"}})


def test_a_dotted_name_beside_a_struct_is_refused(catalog: dk.Catalog) -> None:
    """A column `a.b` and a struct `a` with a field `b` have one full name in Iceberg."""
    nested, flat = {"id": 1, "a": {"b": 1}}, {"id": 1, "a.b": 1}
    for number, (there, new) in enumerate(((nested, flat), (flat, nested))):
        table = dk.create_table(catalog, f"t.d{number}", pa.Table.from_pylist([there]).schema, format_version=3)
        before = table.metadata_location
        with opened(table, "add") as sink, pytest.raises(dk.InvalidInputError) as e:
            sink.write(pa.Table.from_pylist([new]), 0)
        assert e.value.kind == "column-name"
        assert "a.b" in str(e.value.found)
        assert table.refresh().metadata_location == before
    other = pa.schema([("a.b", pa.int64()), ("x", pa.struct([("b", pa.int64())]))])
    table = dk.create_table(catalog, "t.renamed", other)
    with raises(dk.InvalidInputError, "column-name"):
        dk.rename_column(table, "x", "a")
