"""Bounds of another writer that cannot be right exclude nothing: no row appears, and none is left out.

They are empty, absent, inverted, of another width or no UTF-8. Each is set in the manifests of a real table.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType, StringType

import deletekit as dk
from deletekit.filters.row_group_pruning import bounds_of
from deletekit.formats.tabular import ColumnStatistics
from tests.commit.racing import racing
from tests.maintenance.damage import edit_file, edit_list, edit_manifest, put_back
from tests.tables import ids, items, live, make, raises

FILE_PATH, POS = 2147483546, 2147483545
Pair = tuple[bytes | None, bytes | None]
PATHS: dict[str, Pair] = {
    "empty": (b"", b""),
    "absent": (None, None),
    "inverted": (b"z", b"a"),
    "no UTF-8": (b"\xff\xfe", b"\xff\xfe"),
    "without a lower one": (None, b"z"),
}
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "small": pa.array([1, 2, 3, 4], pa.int32()),
        "text": ["a", "b", "c", "d"],
        "bytes": [b"a", b"b", b"c", b"d"],
        "amount": pa.array([Decimal(i) for i in (1, 2, 3, 4)], pa.decimal128(9, 2)),
        "day": [dt.date(2020, 1, i) for i in (1, 2, 3, 4)],
        "moment": pa.array([dt.datetime(2020, 1, i) for i in (1, 2, 3, 4)], pa.timestamp("us")),  # noqa: DTZ001
        "value": [1.0, 2.0, 3.0, 4.0],
        "flag": [False, False, True, True],
    }
)
FILTERS = {
    "id": "id = 2",
    "small": "small > 1 and small < 3",
    "text": "text in ('b', 'x')",
    "bytes": "bytes = X'62'",
    "amount": "amount = 2",
    "day": "day = DATE '2020-01-02'",
    "moment": "moment = TIMESTAMP '2020-01-02 00:00:00'",
    "value": "value between 1.5 and 2.5",
    "flag": "flag = false",
}


def spoiled(low: bytes, high: bytes) -> Iterator[Pair]:
    """Bounds that cannot be right, made of two that are."""
    yield high, low
    yield b"", b""
    yield low, b""
    yield high[:3] + b"\xff" * 4, low[:3] + b"\xff" * 4
    yield None, b"\xff"
    yield b"\xff", None


def kept(pairs: list[dict[str, Any]] | None, key: int, value: bytes | None) -> list[dict[str, Any]]:
    """A map of bounds with another value for one field."""
    return [p for p in pairs or [] if p["key"] != key] + ([] if value is None else [{"key": key, "value": value}])


def set_bounds(content: int, key: int, bounds: Pair) -> Callable[[list[dict[str, Any]]], None]:
    """A change of all live entries: these bounds for one field."""

    def change(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            file = entry["data_file"]
            file["lower_bounds"] = kept(file["lower_bounds"], key, bounds[0])
            file["upper_bounds"] = kept(file["upper_bounds"], key, bounds[1])

    return change


@pytest.mark.parametrize("bounds", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("partition_by", [[], ["category"]])
def test_a_position_delete_file_whose_paths_are_unknown_is_read(
    catalog: dk.Catalog, bounds: Pair, partition_by: list[str]
) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "a", 2.0), (3, "a", 3.0)), partition_by=partition_by)
    dk.delete(table, "id = 2", mode="position-delete")
    edit_manifest(table, set_bounds(1, FILE_PATH, bounds), content=1)
    edit_file(table, 1, referenced_data_file=None)
    table = dk.load_table(catalog, table.name)
    assert ids(table) == [1, 3]
    assert dk.scan(table).count() == 2
    dk.delete(table, "id = 3", mode="merge-on-read")
    dk.remove_dangling_deletes(table)
    assert ids(table) == [1]
    dk.compact(table, rewrite_all=True)
    assert ids(table) == [1]


def test_a_position_delete_file_of_an_empty_path_is_read(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "a", 2.0)))
    dk.delete(table, "id = 2", mode="position-delete")
    edit_manifest(table, set_bounds(1, FILE_PATH, (None, None)), content=1)
    edit_file(table, 1, referenced_data_file="")
    assert ids(dk.load_table(catalog, table.name)) == [1]


def test_a_vector_of_an_empty_path_is_refused(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "a", 2.0)), format_version=3)
    dk.delete(table, "id = 2", mode="deletion-vector")
    edit_file(table, 1, referenced_data_file="")
    with raises(dk.FormatError, "deletion-vector", field="referenced_data_file"):
        ids(dk.load_table(catalog, table.name))


def test_unsound_bounds_of_any_column_exclude_no_row(catalog: dk.Catalog) -> None:
    """Every type, every spoiled pair, in data files; a filter on the column finds its rows as before."""
    table = make(catalog, ROWS, schema=ROWS, properties={"write.metadata.metrics.default": "full"})
    names = {f.field_id: f.name for f in table.metadata.schema.fields}
    stored: dict[str, dict[int, bytes]] = {}

    def note(entries: list[dict[str, Any]]) -> None:
        for name in ("lower_bounds", "upper_bounds"):
            stored[name] = {p["key"]: p["value"] for p in entries[0]["data_file"][name]}

    edit_manifest(table, note)
    before = {name: ids(table, where) for name, where in FILTERS.items()}
    assert all(2 in found for found in before.values())
    wrong = []
    for key, name in names.items():
        for bounds in spoiled(stored["lower_bounds"][key], stored["upper_bounds"][key]):
            if name in ("bytes", "amount", "flag") and None in bounds:
                continue  # any bytes are a bound of these
            with put_back(table):
                edit_manifest(table, set_bounds(0, key, bounds))
                changed = dk.load_table(catalog, table.name)
                found = ids(changed, FILTERS[name])
                if found != before[name]:
                    wrong.append((name, bounds, found))
    assert wrong == []


@pytest.mark.parametrize("content", [0, 1])
def test_an_equality_delete_applies_whatever_unsound_bounds_say(catalog: dk.Catalog, content: int) -> None:
    """Unsound in the data file, or in the delete file; in a scan, in a filter, and in what maintenance makes of it."""
    ends = {"id": ((1).to_bytes(4, "little"), (3).to_bytes(4, "little")), "category": (b"a", b"c")}
    for column, keys in (("id", [{"id": 2}]), ("category", [{"category": "b"}])):
        table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)))
        dk.delete_keys(table, keys)
        key = next(f.field_id for f in table.metadata.schema.fields if f.name == column)
        low, high = ends[column]
        wrong = []
        for bounds in spoiled(low, high):
            with put_back(table):
                edit_manifest(table, set_bounds(content, key, bounds), content=content)
                changed = dk.load_table(catalog, table.name)
                found = ids(changed), ids(changed, "id = 2")
                if found != ([1, 3], []):
                    wrong.append((column, bounds, found))
        assert wrong == []


@pytest.mark.parametrize("bounds", [(b"b", b"a"), (None, None), (b"b", None), (None, b"a"), (b"\xff", b"\xff")])
def test_a_manifest_is_read_whatever_unsound_bounds_of_its_partitions_say(catalog: dk.Catalog, bounds: Pair) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)), partition_by=["category"])
    dk.delete_keys(table, [{"id": 1, "category": "a"}])

    def change(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["partitions"][0] |= {"lower_bound": bounds[0], "upper_bound": bounds[1]}

    edit_list(table, change)
    table = dk.load_table(catalog, table.name)
    assert [ids(table, f"category = '{c}'") for c in "ab"] == [[], [2]]
    assert ids(table, "category > 'a'") == [2]


def test_a_commit_finds_a_conflict_with_a_file_of_inverted_bounds(catalog: dk.Catalog) -> None:
    """What landed meanwhile and may hold rows of the filter is seen although its bounds exclude all."""
    table = make(catalog, items((1, "a", 1.0)))

    def landed(other: dk.Table) -> None:
        dk.append(other, items((2, "b", 2.0)))
        edit_manifest(other, set_bounds(0, 1, (b"\x09\0\0\0", b"\x02\0\0\0")))

    dk.delete(racing(catalog, table, landed), "id < 3", mode="copy-on-write")
    assert live(dk.load_table(catalog, table.name)) == []


def test_inverted_statistics_of_a_row_group_say_nothing() -> None:
    def of(low: Any, high: Any) -> ColumnStatistics:
        return ColumnStatistics(values=1, nulls=0, lower=low, upper=high)

    assert bounds_of(LongType(), pa.int64(), of(2, 1)) is None
    assert bounds_of(LongType(), pa.int64(), of(1, 1)) == (1, 1)
    assert bounds_of(StringType(), pa.string(), of(b"b", b"a")) is None
