"""Columns of Delta's type void: `unknown` in format version 3, left out in 2, and said; else refused by name."""

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.delta.handmade import HandMade, Json, remove
from tests.delta.reading import VERSIONS, check_synced, raises_kind


def struct(**kinds: Any) -> Json:
    return {"type": "struct", "fields": [column(n, k, ord(n[0])) for n, k in kinds.items()]}


def column(name: str, kind: Any, number: int) -> Json:
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"p-{name}"}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapping}


def shape(delta: HandMade, mapped: bool, **kinds: Any) -> None:
    fields = [column(n, k, i) for i, (n, k) in enumerate(kinds.items(), 1)]
    delta.schema = json.dumps({"type": "struct", "fields": fields})
    delta.features = ("deletionVectors", "columnMapping") if mapped else ("deletionVectors",)
    delta.configuration = {"delta.columnMapping.mode": "name"} if mapped else {}


def file(delta: HandMade, mapped: bool, **values: Any) -> Json:
    """A file of one row: no column of type void is in it."""

    def named(value: Any) -> Any:
        return {f"p-{n}" if mapped else n: named(v) for n, v in value.items()} if isinstance(value, dict) else value

    table = pa.Table.from_pylist([named(values)])
    return delta.data(table, stats=json.dumps({"numRecords": 1, "nullCount": {"n": int("n" not in values)}}))


@VERSIONS
@pytest.mark.parametrize("mapped", [False, True])
def test_a_void_column_is_followed_until_it_has_a_type(
    delta: HandMade, catalog: dk.Catalog, mapped: bool, format_version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is there at first, at the top and in a struct; gets a type; another one comes and goes."""

    def rows() -> list[dict[str, Any]]:
        done = dk.sync_delta(delta.path, catalog, "t.d", format_version=format_version)
        check_synced(done.table)
        assert dk.verify(done.table, level="data").findings == ()
        names.append(done.void_columns)
        return sorted(dk.scan(done.table).to_arrow().to_pylist(), key=lambda row: row["id"])

    names: list[tuple[str, ...]] = []
    void = {"n": None} if format_version == 3 else {}
    shape(delta, mapped, id="long", n="void", s=struct(x="long", y="void"), e=struct(z="void"))
    delta.commit(file(delta, mapped, id=1, s={"x": 5}))
    inner = {"y": None} if format_version == 3 else {}
    with caplog.at_level(logging.INFO, "deletekit"):
        found = rows()
    assert found == [{"id": 1, **void, "s": {"x": 5, **inner}, **({"e": None} if format_version == 3 else {})}]
    said = [r.deletekit for r in caplog.records if getattr(r, "deletekit", {}).get("event") == "delta-void"]
    assert [s["columns"] for s in said] == ["n, s.y, e.z"]
    assert said[0]["now"] == ("unknown" if format_version == 3 else "left out")
    shape(delta, mapped, id="long", n="string", s=struct(x="long", y="long"), e=struct(z="void"))
    delta.commit(delta.metadata(), file(delta, mapped, id=2, n="a", s={"x": 6, "y": 7}))
    found = [{k: v for k, v in row.items() if k != "e"} for row in rows()]
    assert found == [{"id": 1, "n": None, "s": {"x": 5, "y": None}}, {"id": 2, "n": "a", "s": {"x": 6, "y": 7}}]
    shape(delta, mapped, id="long", n="string", s=struct(x="long", y="long"), e=struct(z="void"), k="void")
    delta.commit(delta.metadata())
    assert len(rows()) == 2
    assert names == [("n", "s.y", "e.z"), ("e.z",), ("e.z", "k")]
    types = {f.name: str(f.field_type) for f in dk.load_table(catalog, "t.d").schema.fields}
    assert types.get("k") == ("unknown" if format_version == 3 else None)
    dk.sync_delta(delta.path, catalog, "t.new", format_version=format_version)
    assert dk.scan(dk.load_table(catalog, "t.new")).count() == 2


def test_a_table_that_is_upgraded_gets_the_column(delta: HandMade, catalog: dk.Catalog) -> None:
    shape(delta, False, id="long", n="void")
    delta.commit(file(delta, False, id=1))
    table = dk.sync_delta(delta.path, catalog, "t.d", format_version=2).table
    dk.upgrade_format_version(table, 3)
    delta.commit(file(delta, False, id=2))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    rows = dk.scan(table).to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [{"id": 1, "n": None}, {"id": 2, "n": None}]


LIST = {"type": "array", "elementType": "void", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "void", "valueContainsNull": True}
INSIDE = {"type": "array", "elementType": struct(x="long", y="void"), "containsNull": True}


@VERSIONS
def test_void_where_delta_cannot_write_it_is_refused(catalog: dk.Catalog, tmp_path: Path, format_version: int) -> None:
    cases: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
        "l": ({"l": LIST}, ()), "m": ({"m": MAP}, ()), "i": ({"i": INSIDE}, ()), "p": ({"p": "void"}, ("p",)),
        "s": ({"s": struct(l=LIST)}, ()),
    }  # fmt: skip
    for name, (kinds, partitions) in cases.items():
        delta = HandMade(tmp_path / name)
        shape(delta, False, id="long", **kinds)
        delta.partition_columns = partitions
        delta.commit()
        with pytest.raises(dk.UnsupportedError) as e:
            dk.sync_delta(delta.path, catalog, f"t.{name}", format_version=format_version)
        assert (e.value.kind, e.value.found, e.value.expected) == ("delta-type", "void", "another type"), name
        with pytest.raises(dk.NotFoundError):
            dk.load_table(catalog, f"t.{name}")


@VERSIONS
def test_a_column_whose_type_is_taken_away(delta: HandMade, catalog: dk.Catalog, format_version: int) -> None:
    """As `SELECT NULL AS n` over a text column does. Version 3 cannot say it under the column's id."""
    shape(delta, False, id="long", n="string")
    add = file(delta, False, id=1, n="x")
    delta.commit(add)
    first = dk.sync_delta(delta.path, catalog, "t.d", format_version=format_version).commit.snapshot_id
    shape(delta, False, id="long", n="void")
    delta.commit(delta.metadata("b"), remove(add), other := file(delta, False, id=2))
    if format_version == 3:
        with raises_kind("delta-schema-change", found="string to unknown"):
            dk.sync_delta(delta.path, catalog, "t.d")
        return
    assert dk.scan(dk.sync_delta(delta.path, catalog, "t.d").table).to_arrow().to_pylist() == [{"id": 2}]
    shape(delta, False, id="long", n="string")
    delta.commit(delta.metadata("c"), remove(other), file(delta, False, id=3, n="y"))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert dk.scan(table).to_arrow().to_pylist() == [{"id": 3, "n": "y"}]
    assert dk.scan(table, snapshot_id=first).to_arrow().to_pylist() == [{"id": 1, "n": "x"}]


@VERSIONS
def test_dotted_names_beside_structs_are_refused(catalog: dk.Catalog, tmp_path: Path, format_version: int) -> None:
    for number, kinds in enumerate(
        ({"a.b": "long", "a": struct(b="long")}, {"s": struct(**{"a.b": "long"}, a=struct(b="long"))})
    ):
        delta = HandMade(tmp_path / str(number))
        shape(delta, False, id="long", **kinds)
        delta.commit()
        with pytest.raises(dk.InvalidInputError) as e:
            dk.sync_delta(delta.path, catalog, f"t.d{number}", format_version=format_version)
        assert e.value.kind == "column-name"
        assert "a.b" in str(e.value.found)
    delta = HandMade(tmp_path / "one")
    shape(delta, False, id="long", **{"a.b": "long", "a": struct(c="long")})
    delta.commit(file(delta, False, id=1, **{"a.b": 2, "a": {"c": 3}}))
    table = dk.sync_delta(delta.path, catalog, "t.one", format_version=format_version).table
    assert dk.scan(table).to_arrow().to_pylist() == [{"id": 1, "a.b": 2, "a": {"c": 3}}]
