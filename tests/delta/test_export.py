"""Iceberg v3 tables as Delta tables: Spark with Delta, and deltalake, read the rows that deletekit reads."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import deletekit as dk
from tests.delta.delta_tables import plain_rows
from tests.delta.reading import by_deltalake, our_rows, raises_kind
from tests.interop.rows import same_rows
from tests.optional_types import SparkSession

Read = Callable[[Path], list[dict[str, Any]]]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.string()),
        ("d", pa.date32()),
        ("n", pa.decimal128(9, 2)),
        ("ts", pa.timestamp("us", "UTC")),
        ("tn", pa.timestamp("us")),
        ("l", pa.list_(pa.int32())),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)


def rows(start: int, stop: int) -> pa.Table:
    moment = datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC)
    return pa.Table.from_pylist(
        [
            {
                "id": i,
                "p": ["a b/c%=é", None][i % 2],
                "d": date(1969, 12, 31),
                "n": Decimal(i) / 4,
                "ts": moment,
                "tn": moment.replace(tzinfo=None),
                "l": [i, None],
                "s": {"x": i, "y": None},
            }
            for i in range(start, stop)
        ],
        schema=SCHEMA,
    )


@pytest.fixture
def by_delta(spark: SparkSession) -> Read:
    return lambda path: plain_rows(spark.read.format("delta").load(str(path)))


def history(
    catalog: dk.Catalog, path: Path, read: Read, *, partitioned: bool, by_id: bool = False, every: int = 1
) -> None:
    """Every kind of change, exported after each; renamed columns only with column mapping."""
    table = dk.create_table(catalog, "t.x", SCHEMA, format_version=3, partition_by=["p", "d"] if partitioned else [])
    steps: list[Callable[[], Any]] = [
        lambda: dk.append(table, rows(0, 20)),
        lambda: dk.delete(table, "id < 3", mode="deletion-vector"),
        lambda: dk.append(table, rows(20, 30)),
        lambda: dk.delete(table, "id in (3, 4, 25)", mode="deletion-vector"),
        lambda: dk.update(table, {"n": Decimal("0.25")}, where="id = 7", mode="deletion-vector"),
        lambda: dk.add_column(table, "new", "string"),
        lambda: dk.compact(table, rewrite_all=True),
        lambda: dk.delete(table, "id = 10", mode="deletion-vector"),
    ]
    if by_id:
        steps[5:6] = [lambda: dk.rename_column(table, "n", "amount"), lambda: dk.add_column(table, "n", "string")]
    mapping: Literal["id", "none"] = "id" if by_id else "none"
    for version, step in enumerate(steps):
        step()
        done = dk.export_delta(table, path, column_mapping=mapping)
        assert done.version == version
        if version % every == 0:
            same_rows(read(path), our_rows(table))
    again = dk.export_delta(table, path, column_mapping=mapping)
    assert (again.version, again.added_files) == (len(steps) - 1, 0)


def test_delta_reads_exports(catalog: dk.Catalog, tmp_path: Path, by_delta: Read) -> None:
    history(catalog, tmp_path / "delta", by_delta, partitioned=True, by_id=True, every=4)


@pytest.mark.peers
@pytest.mark.parametrize("partitioned", [True, False])
def test_deltalake_reads_each_export(catalog: dk.Catalog, tmp_path: Path, partitioned: bool) -> None:
    history(catalog, tmp_path / "delta", by_deltalake, partitioned=partitioned)


@pytest.mark.peers
def test_the_page_says_which_readers_of_peers_take_vectors(catalog: dk.Catalog, tmp_path: Path) -> None:
    """A version of a peer that reads more, or less, makes the sentence in docs/delta.md wrong."""
    import polars as pl  # noqa: PLC0415  # peers
    from deltalake import DeltaTable  # noqa: PLC0415
    from deltalake.exceptions import DeltaProtocolError  # noqa: PLC0415

    path = tmp_path / "delta"
    table = dk.create_table(catalog, "t.x", pa.schema([("id", pa.int64())]), format_version=3)
    dk.append(table, pa.table({"id": range(10)}))
    dk.delete(table, "id < 3", mode="deletion-vector")
    dk.export_delta(table, path)
    delta = DeltaTable(path)
    page = (Path(__file__).parents[2] / "docs" / "delta.md").read_text(encoding="utf-8")
    live = [{"id": i} for i in range(3, 10)]
    assert pa.table(delta.scan()).sort_by("id").to_pylist() == live
    assert sorted(by_deltalake(path), key=lambda row: row["id"]) == live
    assert "`DeltaTable.scan()` and `QueryBuilder` of deltalake 1.6 do" in page
    for name in ("to_pyarrow_table", "to_pyarrow_dataset", "to_pandas"):
        with pytest.raises(DeltaProtocolError, match="deletionVectors"):
            getattr(delta, name)()
        assert f"`{name}`" in page
    assert delta.count() == 10, "the page says that this counts deleted rows"
    with pytest.raises(FileNotFoundError):
        pl.read_delta(str(path))


def test_there_and_back(catalog: dk.Catalog, tmp_path: Path) -> None:
    """The exported table, synced into another Iceberg table."""
    table = dk.create_table(catalog, "t.x", SCHEMA.remove(6), format_version=3, partition_by=["p"])
    for start in (0, 10):
        dk.append(table, rows(start, start + 10).drop_columns("l"))
        dk.delete(table, f"id = {start + 3}", mode="deletion-vector")
        dk.export_delta(table, tmp_path / "delta")
        back = dk.sync_delta(tmp_path / "delta", catalog, "t.back").table
        same_rows(our_rows(back), our_rows(table))
    assert dk.verify(back).ok


REFUSED: dict[str, tuple[list[Callable[[dk.Table], Any]], str]] = {
    "equality deletes": ([lambda t: dk.delete_keys(t, [{"id": 1}])], "delta-deletes"),
    "promotion": ([lambda t: dk.update_column(t, "small", type="long")], "delta-type-widening"),
    "default": ([lambda t: dk.add_column(t, "new", "int", default=7)], "delta-default"),
    "type": ([lambda t: dk.add_column(t, "t", "time")], "delta-type"),
    "renamed": ([lambda t: dk.rename_column(t, "small", "little")], "delta-renamed-column"),
    "name used again": (
        [lambda t: dk.drop_column(t, "small"), lambda t: dk.add_column(t, "small", "int")],
        "delta-renamed-column",
    ),
    "case": ([lambda t: dk.add_column(t, "Small", "int")], "delta-schema"),
    "specs": (
        [lambda t: dk.add_partition_field(t, "small"), lambda t: dk.append(t, [{"id": 9, "small": 9}])],
        "delta-partition",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_delta_cannot_say_is_refused(catalog: dk.Catalog, tmp_path: Path, name: str) -> None:
    changes, kind = REFUSED[name]
    schema = pa.schema([("id", pa.int64()), ("small", pa.int32())])
    table = dk.create_table(catalog, "t.x", schema, format_version=3)
    dk.append(table, [{"id": 1, "small": 1}, {"id": 2, "small": 2}])
    for change in changes:
        change(table)
    with raises_kind(kind):
        dk.export_delta(table, tmp_path / "delta")
    assert not (tmp_path / "delta").exists()


def test_position_delete_files_are_refused(catalog: dk.Catalog, tmp_path: Path) -> None:
    table = dk.create_table(catalog, "t.x", pa.schema([("id", pa.int64())]), format_version=2)
    dk.append(table, [{"id": 1}, {"id": 2}])
    dk.delete(table, "id = 1", mode="position-delete")
    with pytest.raises(dk.UnsupportedError):
        dk.export_delta(table, tmp_path / "delta")
    dk.upgrade_format_version(table, 3)
    dk.rewrite_position_deletes(table)
    assert dk.export_delta(table, tmp_path / "delta").added_files == 1


def test_another_delta_table_is_left_alone(catalog: dk.Catalog, tmp_path: Path) -> None:
    one, two = (dk.create_table(catalog, f"t.{n}", pa.schema([("id", pa.int64())]), format_version=3) for n in "ab")
    dk.export_delta(one, tmp_path / "delta")
    with raises_kind("delta-table-exists"):
        dk.export_delta(two, tmp_path / "delta")
