"""What a sync finds in the data files themselves: field ids of other columns, and partition columns of other values."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.delta.handmade import HandMade, Json
from tests.delta.reading import by_deltalake, our_rows, raises_kind

LIST = {"type": "array", "elementType": "integer", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}
STRUCT = {
    "type": "struct",
    "fields": [
        {
            "name": "x",
            "type": "integer",
            "nullable": True,
            "metadata": {"delta.columnMapping.id": 9, "delta.columnMapping.physicalName": "x"},
        }
    ],
}


def field(name: str, kind: Any, field_id: int | None = None) -> pa.Field:
    return pa.field(name, kind, metadata=None if field_id is None else {b"PARQUET:field_id": str(field_id).encode()})


def columns(delta: HandMade, mode: str, **kinds: Any) -> None:
    """The schema; with a mode of column mapping, ids from 1 on, physical names as the names, and ids of elements."""
    raw = []
    for number, (name, kind) in enumerate(kinds.items(), 1):
        ids = {f"{name}.{part}": 100 + n for n, part in enumerate(("element", "key", "value"))}
        metadata = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": name,
            "delta.columnMapping.nested.ids": ids,
        }
        raw.append({"name": name, "type": kind, "nullable": True, "metadata": metadata if mode != "none" else {}})
    delta.schema = json.dumps({"type": "struct", "fields": raw})
    if mode != "none":
        delta.features = ("deletionVectors", "columnMapping")
        delta.configuration = {"delta.columnMapping.mode": mode}


def file(delta: HandMade, *fields: pa.Field, **extra: Any) -> Json:
    values: dict[str, Any] = {"int32": 1, "string": "x", "binary": b"", "list": [1], "map": [("k", 1)], "struct": {}}
    rows = [pa.array([values[str(f.type).partition("<")[0]]], f.type) for f in fields]
    return delta.data(pa.table(rows, schema=pa.schema(fields)), **extra)


I = pa.int32()  # noqa: E741  # short, in tables
ELEMENT = pa.list_(field("element", I, 100))
ENTRY = pa.map_(field("key", pa.string(), 101).with_nullable(False), field("value", I, 102))
OTHER = {
    "swapped": ("none", {"a": "integer", "b": "integer"}, [field("a", I, 2), field("b", I, 1)]),
    "swapped under names": ("name", {"a": "integer", "b": "integer"}, [field("a", I, 2), field("b", I, 1)]),
    "an id of no column": ("name", {"a": "integer", "b": "integer"}, [field("a", I, 1), field("b", I, 7)]),
    "one without": ("name", {"a": "integer", "b": "integer"}, [field("a", I, 1), field("b", I)]),
    "a list": ("name", {"a": "integer", "l": LIST}, [field("a", I, 1), field("l", ELEMENT, 7)]),
    "a map": ("name", {"a": "integer", "m": MAP}, [field("a", I, 1), field("m", ENTRY, 7)]),
    "a struct": ("name", {"a": "byte", "s": STRUCT}, [field("a", I, 1), field("s", pa.struct([field("x", I, 9)]), 7)]),
    "in a struct": ("name", {"s": STRUCT}, [field("s", pa.struct([field("x", I, 8)]), 1)]),
    "an element": ("name", {"l": LIST}, [field("l", pa.list_(field("element", I, 7)), 1)]),
    "an element found by id": ("id", {"l": LIST}, [field("other", pa.list_(field("element", I, 7)), 1)]),
    "an element of a list without": ("none", {"l": LIST}, [field("l", pa.list_(field("element", I, 7)))]),
    "no element": ("name", {"l": LIST}, [field("l", pa.list_(field("element", I)), 1)]),
    "no element found by id": ("id", {"l": LIST}, [field("l", pa.list_(field("element", I)), 1)]),
}  # fmt: skip
RIGHT = {
    "none": ("none", {"a": "integer", "l": LIST}, [field("a", I), field("l", pa.list_(field("item", I)))]),
    "before mapping": ("name", {"a": "integer", "l": LIST}, [field("a", I), field("l", pa.list_(I))]),
    "all": (
        "name",
        {"a": "integer", "l": LIST, "m": MAP},
        [field("a", I, 1), field("l", ELEMENT, 2), field("m", ENTRY, 3)],
    ),
    "by id": ("id", {"a": "integer", "l": LIST}, [field("l", I, 1), field("a", ELEMENT, 2)]),
    "not all": ("name", {"a": "integer", "l": LIST}, [field("a", I, 1)]),
    "more": ("name", {"a": "integer"}, [field("a", I, 1), field("_row_id", I)]),
}


@pytest.mark.parametrize("name", OTHER)
def test_ids_of_other_columns_are_refused(delta: HandMade, catalog: dk.Catalog, name: str) -> None:
    mode, kinds, fields = OTHER[name]
    columns(delta, mode, **kinds)
    delta.commit(file(delta, *fields))
    with pytest.raises(dk.UnsupportedError) as e:
        dk.sync_delta(delta.path, catalog, "t.d")
    assert e.value.kind == ("delta-nested-ids" if name.startswith("no element") else "delta-field-ids")
    assert str(e.value.file).endswith(".parquet")


@pytest.mark.parametrize("name", RIGHT)
def test_files_whose_columns_are_found_are_taken(delta: HandMade, catalog: dk.Catalog, name: str) -> None:
    mode, kinds, fields = RIGHT[name]
    columns(delta, mode, **kinds)
    delta.commit(file(delta, *fields))
    rows = our_rows(dk.sync_delta(delta.path, catalog, "t.d").table)
    assert rows == [
        {"a": 1}
        | {k: v for k, v in (("l", [1]), ("m", {"k": 1})) if k in kinds}
        | ({"l": None} if name == "not all" else {})
    ]


@pytest.mark.parametrize(
    ("kind", "arrow", "in_log", "in_file", "same"),
    [
        ("binary", pa.binary(), None, b"", True),
        ("binary", pa.binary(), "x", b"x", True),
        ("string", pa.string(), None, "", True),
        ("string", pa.string(), "a", "", False),
        ("string", pa.string(), None, " ", False),
        ("double", pa.float64(), "-0.0", 0.0, False),
        ("timestamp", pa.timestamp("ns"), "1970-01-01 00:00:00.000001", 1000, True),
        ("timestamp", pa.timestamp("us", "UTC"), "1970-01-01 00:00:00.001", 1001, False),
        ("string", pa.string(), None, None, True),
        ("string", pa.string(), "a", "b", False),
        ("integer", pa.int32(), "1", 1, True),
        ("integer", pa.int32(), "1", 2, False),
        ("double", pa.float64(), "NaN", float("nan"), True),
        ("timestamp", pa.timestamp("us", "UTC"), "1970-01-01 00:00:00.000001", 1, True),
        ("date", pa.date32(), "1970-01-02", 1, True),
        ("decimal(38,2)", pa.decimal128(38, 2), f"{10**35 + 1}.78", f"{10**35 + 1}.78", True),
    ],
)  # fmt: skip
def test_partition_columns_in_files(
    delta: HandMade, catalog: dk.Catalog, kind: str, arrow: pa.DataType, in_log: str | None, in_file: Any, same: bool
) -> None:
    """Delta takes the value from the log; Iceberg's specification takes it from the file, which has to say the same."""
    columns(delta, "none", id="long", p=kind)
    delta.partition_columns = ("p",)
    stored = pa.array([in_file], pa.string()).cast(arrow) if pa.types.is_decimal(arrow) else pa.array([in_file], arrow)
    delta.commit(delta.data(pa.table({"id": [1], "p": stored}), partitionValues={"p": in_log}))
    if same:
        assert str(our_rows(dk.sync_delta(delta.path, catalog, "t.d").table)) == str(by_deltalake(delta.path))
        return
    with raises_kind("delta-partition-value", field="p"):
        dk.sync_delta(delta.path, catalog, "t.d")


@pytest.mark.parametrize("text", ["", None])
@pytest.mark.parametrize("kind", ["string", "binary"])
def test_an_empty_partition_value_is_null(delta: HandMade, catalog: dk.Catalog, kind: str, text: str | None) -> None:
    """Spark with Delta 4.4 stores '' in the file and null in the log; the protocol takes '' in the log for null too."""
    empty, column = ("", pa.string()) if kind == "string" else (b"", pa.binary())
    columns(delta, "none", id="long", p=kind)
    delta.partition_columns = ("p",)
    rows = pa.table({"id": [1], "p": pa.array([empty], column)})
    delta.commit(delta.data(rows, partitionValues={"p": text}), delta.data(range(2, 3), partitionValues={"p": "x"}))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert dk.scan(table, "p IS NULL").to_arrow()["id"].to_pylist() == [1]
    assert dk.scan(table, "p IS NOT NULL").to_arrow()["id"].to_pylist() == [2]
    assert [row["p"] for row in our_rows(table) if row["id"] == 1] == [None]
    assert dk.verify(table, level="data").ok


SPELLINGS = {
    "long": ["7", "+7", "007", " 7", "1_000", "7.0", "\uff17", "1e3"],
    "double": ["1e3", ".5", "5.", "-0.0", "NaN", "-Infinity", "inf", " 1.5", "1_0.5", "0x1p3", "1d"],
    "boolean": ["true", "TRUE", "t", "1"],
    "date": ["2024-02-29", "0001-01-01", "20240229", "2024-W09-4", "2024-02-29T00:00:00"],
    "timestamp": [
        "2024-02-29 01:02:03.5", "2024-02-29T01:02:03.123456Z", "2024-02-29T01:02:03+01:00", "2024-02-29",
        "20240229T010203", "2024-02-29T01:02", "2024-02-29 01:02:03,5",
    ],
    "timestamp_ntz": ["2024-02-29 01:02:03.123456", "2024-02-29T01:02:03+01:00", "2024-02-29"],
    "decimal(9,2)": ["1.50", "-0.01", " 1.5", "1_0", "NaN", "1.505"],
    "string": ["a/b=c", "%20", " a "],
    "binary": ["a", "\u0001", "\u00e9"],
}  # fmt: skip


@pytest.mark.peers
@pytest.mark.parametrize("kind", SPELLINGS)
def test_spellings_of_partition_values(catalog: dk.Catalog, tmp_path: Path, kind: str) -> None:
    """Each has the value that deltalake reads, or is refused. Python's own functions would take more."""
    for number, text in enumerate(SPELLINGS[kind]):
        delta = HandMade(tmp_path / str(number), features=("deletionVectors", "timestampNtz"))
        columns(delta, "none", id="long", p=kind)
        delta.partition_columns = ("p",)
        delta.commit(delta.data(range(1), partitionValues={"p": text}))
        try:
            ours = our_rows(dk.sync_delta(delta.path, catalog, f"t.d{number}").table)
        except dk.FormatError as e:
            assert (e.kind, e.field, e.found) == ("delta-partition-value", "p", text)  # noqa: PT017
            continue
        assert str(ours) == str(by_deltalake(delta.path)), text
