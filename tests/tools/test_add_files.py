"""Files of other writers become part of a table: rows, counts, bounds and partitions are those of the files."""

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from tests.invariants import check_table
from tests.stored import entries, head_json, metadata_json
from tests.tables import ids, items, live, make, refused

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("category", pa.string()), ("value", pa.float64())])
ROWS = items((1, "a", 1.5), (2, "a", None), (3, "a", -0.0))


def written(path: Path, rows: Any = ROWS, schema: pa.Schema = SCHEMA, **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, **options)
    return str(path)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_three_writers(catalog: dk.Catalog, tmp_path: Path, version: int) -> None:
    table = make(catalog, items((0, "z", 0.0)), schema=SCHEMA, format_version=version)
    frame = pa.Table.from_pylist(items((4, "d", 4.0)), schema=SCHEMA)
    duckdb.register("frame", frame)
    duckdb.sql(f"COPY (SELECT category, id, value FROM frame) TO '{tmp_path}/by duckdb.parquet'")
    pl.DataFrame(items((5, "e", 5.0))).write_parquet(tmp_path / "polars.parquet")
    paths = [
        written(tmp_path / "a.parquet", row_group_size=2),
        f"{tmp_path}/by duckdb.parquet",
        tmp_path / "polars.parquet",
    ]
    done = dk.add_files(table, paths, commit_properties={"why": "test"})
    assert (done.operation, done.summary["added-data-files"], done.summary["why"]) == ("append", "3", "test")
    assert live(table) == sorted(
        [*ROWS, *items((0, "z", 0.0), (4, "d", 4.0), (5, "e", 5.0))], key=lambda r: repr(sorted(r.items()))
    )
    mapping = json.loads(metadata_json(table)["properties"]["schema.name-mapping.default"])
    assert [(m["field-id"], m["names"]) for m in mapping] == [(1, ["id"]), (2, ["category"]), (3, ["value"])]
    dk.rename_column(table, "value", "amount")
    assert {row["amount"] for row in live(table)} == {1.5, None, -0.0, 0.0, 4.0, 5.0}
    dk.delete(table, "id = 2", mode={1: "copy-on-write", 2: "position-delete", 3: "deletion-vector"}[version])
    assert ids(table) == [0, 1, 3, 4, 5]
    check_table(table, orphans=False)
    assert not [f for f in dk.verify(table).findings if f.severity == "error"]


def test_metrics_are_those_of_the_rows(catalog: dk.Catalog, tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("text", pa.string()))
    rows = [{"id": i, "category": None, "value": i - 5.0, "text": "é" * 20 + str(i)} for i in range(10)]
    table = make(catalog, schema=schema)
    dk.add_files(table, [written(tmp_path / "a.parquet", rows, schema, row_group_size=3)])
    (entry,) = entries(table)
    file = entry["data_file"]
    maps = {
        n: {p["key"]: p["value"] for p in file[n] or ()}
        for n in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    }
    assert maps["value_counts"] == {1: 10, 2: 10, 3: 10, 4: 10}
    assert maps["null_value_counts"] == {1: 0, 2: 10, 3: 0, 4: 0}
    assert maps["lower_bounds"][1] == (0).to_bytes(8, "little")
    assert maps["upper_bounds"][1] == (9).to_bytes(8, "little")
    assert maps["lower_bounds"][4] == ("é" * 16).encode()
    assert maps["upper_bounds"][4] == ("é" * 15 + "ê").encode()
    assert 2 not in maps["lower_bounds"]
    assert file["record_count"] == 10
    footer = pq.read_metadata(tmp_path / "a.parquet")
    assert len(file["split_offsets"]) == footer.num_row_groups == 4
    assert file["file_size_in_bytes"] == (tmp_path / "a.parquet").stat().st_size
    assert [r["id"] for r in live(table, "value > 3")] == [9]
    assert not dk.verify(table).findings


@pytest.mark.parametrize("field", ["category", "bucket(4, category)", "truncate(1, category)"])
def test_partitions_are_computed_and_checked(catalog: dk.Catalog, tmp_path: Path, field: str) -> None:
    table = make(catalog, ROWS, schema=SCHEMA, partition_by=field)
    dk.add_files(table, [written(tmp_path / "a.parquet", items((7, "a", 1.0)), row_group_size=1)])
    (partition,) = {tuple(e["data_file"]["partition"].values()) for e in entries(table)}
    assert partition is not None, "the same as that of the rows that deletekit wrote"
    mixed = written(tmp_path / "mixed.parquet", items((8, "a", 1.0), (9, "q", 1.0), (10, None, 1.0)), row_group_size=1)
    with refused(table, dk.InvalidInputError, "add-files", file=mixed) as caught:
        dk.add_files(table, [mixed])
    assert "several partitions" in str(caught.error)
    assert [r["id"] for r in live(table, "category = 'a'")] == [1, 2, 3, 7]


def test_partitions_of_floats(catalog: dk.Catalog, tmp_path: Path) -> None:
    """NaN is one partition, in however many row groups; -0.0 is another one than 0.0."""
    table = make(catalog, schema=SCHEMA, partition_by="value")
    nans = [{"id": i, "value": float("nan")} for i in range(2)]
    dk.add_files(table, [written(tmp_path / "nan.parquet", nans, row_group_size=1)])
    assert dk.scan(table, "value is nan").count() == 2
    zeros = [{"id": 1, "value": 0.0}, {"id": 2, "value": -0.0}]
    mixed = written(tmp_path / "zeros.parquet", zeros, row_group_size=1)
    with refused(table, dk.InvalidInputError, "add-files", file=mixed):
        dk.add_files(table, [mixed])


def test_partition_columns_in_folders(catalog: dk.Catalog, tmp_path: Path) -> None:
    without = SCHEMA.remove(1)
    table = make(catalog, schema=SCHEMA, partition_by="category")
    rows = [{"id": i, "value": 1.0} for i in range(3)]
    named = [
        written(tmp_path / f"category={v}" / "f.parquet", rows, without)
        for v in ("a%20b", "__HIVE_DEFAULT_PARTITION__", "null")
    ]
    dk.add_files(table, named)
    assert sorted((r["id"], r["category"] or "") for r in live(table)) == sorted(
        (i, c) for i in range(3) for c in ("", "a b", "null")
    )
    nowhere = written(tmp_path / "f.parquet", rows, without)
    with refused(table, dk.InvalidInputError, "add-files", file=nowhere, field="category"):
        dk.add_files(table, [nowhere])


def test_what_does_not_fit_is_refused_by_file_and_column(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, ROWS, schema=SCHEMA)
    good = written(tmp_path / "good.parquet", items((9, "x", 1.0)))
    nullable = pa.schema([f.with_nullable(True) for f in SCHEMA])
    other_ids = pa.schema([f.with_metadata({"PARQUET:field_id": str(3 - i)}) for i, f in enumerate(SCHEMA)])
    bad = {
        "more": (pa.schema([*SCHEMA, ("extra", pa.int8())]), items((1, "a", 1.0)), "extra"),
        "type": (SCHEMA.set(2, pa.field("value", pa.string())), [{"id": 1, "category": "a", "value": "x"}], "value"),
        "narrow": (SCHEMA.set(2, pa.field("value", pa.int64())), [{"id": 1, "category": "a", "value": 1}], "value"),
        "less": (SCHEMA.remove(0), [{"category": "a", "value": 1.0}], "id"),
        "null": (nullable, [{"id": 1}, {"id": None}], "id"),
        "ids": (other_ids, items((1, "a", 1.0)), "id"),
        "none": (SCHEMA, [], None),
    }
    for name, (schema, rows, field) in bad.items():
        path = written(tmp_path / f"{name}.parquet", rows, schema)
        with refused(table, dk.InvalidInputError, "add-files", file=path, field=field):
            dk.add_files(table, [good, path])
    with refused(table, dk.NotFoundError, "file-not-found"):
        dk.add_files(table, [good, tmp_path / "missing.parquet"])
    (tmp_path / "text.parquet").write_text("no")
    with refused(table, dk.FormatError, "parquet", file=str(tmp_path / "text.parquet")):
        dk.add_files(table, [tmp_path / "text.parquet"])
    with refused(table, dk.InvalidInputError, "add-files", file=f"file:{good}"):
        dk.add_files(table, [good, f"file:{tmp_path}/./good.parquet"])
    dk.add_files(table, [good])
    with refused(table, dk.InvalidInputError, "add-files", file=good):
        dk.add_files(table, [good])
    assert Path(good).exists()


def test_a_refusal_of_field_ids_tells_what_is_wrong_with_them(catalog: dk.Catalog, tmp_path: Path) -> None:
    """A column without an id is there; one with an id that is not the table's is not."""
    table = make(catalog, schema=pa.schema([*SCHEMA, ("s", pa.struct([("x", pa.int64())]))]))

    def file(name: str, numbers: list[int | None], names: list[str] | None = None) -> str:
        named = zip(names or ["id", "category"], [SCHEMA.field(0).type, pa.string()], numbers, strict=False)
        fields = [pa.field(n, k, metadata={"PARQUET:field_id": str(i)} if i else None) for n, k, i in named]
        inner = pa.field("x", pa.int64(), metadata={"PARQUET:field_id": str(numbers[3])} if numbers[3] else None)
        own = {"PARQUET:field_id": str(numbers[2])} if numbers[2] else None
        schema = pa.schema([*fields, pa.field("s", pa.struct([inner]), metadata=own)])
        return written(tmp_path / f"{name}.parquet", [dict.fromkeys(schema.names) | {schema.names[0]: 1}], schema)

    missing = "a column of the file has no field id, and others have"
    for name, numbers, names, field, words in (
        ("none", [1, None, 4, 5], None, "category", missing),
        ("first", [None, 2, 4, 5], None, "id", missing),
        ("struct", [1, 2, None, 5], None, "s", missing),
        ("inside", [1, 2, 4, None], None, "x", missing),
        ("unknown", [1, 99, 4, 5], None, "category", "the table has no such column; .*found 99"),
        ("swapped", [1, 3, 4, 5], None, "category", "that of another column; .*found 3; expected value"),
        ("extra", [1, 99, 4, 5], ["id", "more"], "more", "the table has no such column"),
    ):
        with pytest.raises(dk.InvalidInputError, match=words) as error:
            dk.add_files(table, [file(name, list(numbers), names)])
        assert (error.value.kind, error.value.field) == ("add-files", field)
    assert table.refresh().current_snapshot is None


def test_files_with_the_tables_own_ids_need_no_mapping(catalog: dk.Catalog, tmp_path: Path) -> None:
    source = make(catalog, ROWS, schema=SCHEMA)
    (entry,) = entries(source)
    table = make(catalog, schema=SCHEMA, format_version=3)
    dk.add_files(table, [entry["data_file"]["file_path"]])
    assert live(table) == live(source)
    assert "schema.name-mapping.default" not in metadata_json(table)["properties"]
    assert head_json(table)["added-rows"] == 3


def test_ids_inside_lists_and_maps_are_the_tables(catalog: dk.Catalog, tmp_path: Path) -> None:
    def schema(*ids: int | None) -> pa.Schema:
        a, b, c, d, e, f, g = [{"PARQUET:field_id": str(i)} if i else None for i in ids]
        element = pa.field("element", pa.struct([pa.field("x", pa.int32(), metadata=d)]), metadata=c)
        kind = pa.map_(
            pa.field("key", pa.string(), nullable=False, metadata=f), pa.field("value", pa.int32(), metadata=g)
        )
        columns = [pa.field("id", pa.int64(), metadata=a), pa.field("l", pa.list_(element), metadata=b)]
        return pa.schema([*columns, pa.field("m", kind, metadata=e)])

    rows = [{"id": 1, "l": [{"x": 5}], "m": [("k", 6)]}]
    table = make(catalog, schema=schema(*[None] * 7))
    found = {name: table.schema.find_field(name).field_id for name in table.schema.column_names}
    ids_of = [found[n] for n in ("id", "l", "l.element", "l.element.x", "m", "m.key", "m.value")]
    good = written(tmp_path / "good.parquet", rows, schema(*ids_of))
    by_name = written(tmp_path / "by name.parquet", rows, schema(*[None] * 7))
    dk.add_files(table, [good, by_name])
    assert live(table) == rows * 2
    swapped = [*ids_of[:3], 99, *ids_of[4:]], [*ids_of[:5], ids_of[6], ids_of[5]], [*ids_of[:2], None, *ids_of[3:]]
    for at, wrong in enumerate(swapped):
        bad = written(tmp_path / f"{at}.parquet", rows, schema(*wrong))
        with refused(table, dk.InvalidInputError, "add-files", file=bad):
            dk.add_files(table, [bad])


def test_a_name_stays_with_its_column(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, schema=SCHEMA, format_version=2)
    dk.add_files(table, [written(tmp_path / "a.parquet", items((1, "gone", 1.0), (2, "b", 2.0)))])
    dk.delete(table, "category = 'gone'", mode="equality-delete", on=["category"])
    dk.drop_column(table, "category")
    late = written(tmp_path / "late.parquet")
    for _ in range(2):
        with refused(table, dk.InvalidInputError, "add-files", file=late, field="category"):
            dk.add_files(table, [late])
        assert ids(table) == [2], "the equality delete finds the dropped column by its name"
        if "category" not in table.schema.column_names:
            dk.add_column(table, "category", "string")
    assert live(table) == [{"id": 2, "value": 2.0, "category": None}]


def test_new_names_and_columns_are_mapped(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = make(catalog, schema=SCHEMA)
    dk.add_files(table, [written(tmp_path / "a.parquet")])
    dk.rename_column(table, "category", "kind")
    dk.add_column(table, "more", "string")
    renamed = pa.schema([SCHEMA.field(0), ("kind", pa.string()), ("more", pa.string())])
    dk.add_files(table, [written(tmp_path / "b.parquet", [{"id": 5, "kind": "new", "more": "m"}], renamed)])
    assert live(table, "id > 2") == [
        {"id": 3, "kind": "a", "value": -0.0, "more": None},
        {"id": 5, "kind": "new", "value": None, "more": "m"},
    ]
    twice = pa.schema([*renamed, ("category", pa.string())])
    path = written(tmp_path / "twice.parquet", [{"id": 6, "kind": "k", "more": "m", "category": "c"}], twice)
    with refused(table, dk.InvalidInputError, "add-files", file=path, field="category"):
        dk.add_files(table, [path])


@pytest.mark.parametrize("parent", ["", "s."])
def test_a_name_that_another_column_has_now_is_refused(catalog: dk.Catalog, tmp_path: Path, parent: str) -> None:
    """The mapping gives `b` to the column that is called `c` now."""
    numbers = [("a", pa.float64()), ("b", pa.float64())]
    schema = pa.schema([("id", pa.int64()), *([("s", pa.struct(numbers))] if parent else numbers)])
    table = make(catalog, schema=schema)

    def row(**values: float) -> list[dict[str, Any]]:
        return [{"id": 1, "s": values}] if parent else [{"id": 1, **values}]

    dk.add_files(table, [written(tmp_path / "first.parquet", row(a=1.0, b=2.0), schema)])
    dk.rename_column(table, f"{parent}b", "c")
    dk.rename_column(table, f"{parent}a", "b")
    assert live(table) == row(b=1.0, c=2.0)
    only_b = pa.schema([("id", pa.int64()), *([("s", pa.struct(numbers[1:]))] if parent else numbers[1:])])
    late = written(tmp_path / "late.parquet", row(b=10.0), only_b)
    with refused(table, dk.InvalidInputError, "add-files", file=late, field="b"):
        dk.add_files(table, [late])
