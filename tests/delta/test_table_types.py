"""What tables of both formats have beside rows: wide decimals, comments, and variant columns that are refused."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.delta.user_properties import user_properties
from deletekit.table.properties import PROPERTIES
from tests.delta.handmade import HandMade
from tests.delta.reading import by_deltalake, our_rows, raises_kind
from tests.interop.rows import same_rows


def a_column(delta: HandMade, kind: str, **metadata: str) -> None:
    field = {"name": "n", "type": kind, "nullable": True, "metadata": metadata}
    delta.schema = json.dumps({"type": "struct", "fields": [field]})


@pytest.mark.parametrize("scale", [0, 2, 37, 38])
def test_decimals_of_38_digits_there_and_back(tmp_path: Path, catalog: dk.Catalog, scale: int) -> None:
    """Values, bounds in the log, which are numbers of JSON, and filters by them."""
    delta = HandMade(tmp_path / "delta")
    a_column(delta, f"decimal(38,{scale})")
    digits = [10**38 - 1, -(10**38) + 1, 10**37 + 1, 1, -1, 12345678901234567890123456789012345678]
    values = [Decimal((int(d < 0), tuple(map(int, str(abs(d)))), -scale)) for d in digits]
    for value in values:
        stats = f'{{"numRecords":1,"minValues":{{"n":{value:f}}},"maxValues":{{"n":{value:f}}},"nullCount":{{"n":0}}}}'
        delta.commit(delta.data(pa.table({"n": pa.array([value], pa.decimal128(38, scale))}), stats=stats))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    same_rows(our_rows(table), [{"n": v} for v in values])
    same_rows(by_deltalake(delta.path), our_rows(table))
    for value in values:
        scan = dk.scan(table, where=f"n = {value:f}")
        assert scan.to_arrow()["n"].to_pylist() == [value]
    back = tmp_path / "back"
    dk.export_delta(table, back)
    same_rows(by_deltalake(back), our_rows(table))
    adds = [json.loads(line) for line in (back / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
    stats = [json.loads(a["add"]["stats"], parse_float=Decimal) for a in adds if "add" in a]
    assert sorted(Decimal(s["minValues"]["n"]) for s in stats) == sorted(values)


def test_comments_go_both_ways(tmp_path: Path, catalog: dk.Catalog) -> None:
    delta = HandMade(tmp_path / "delta")
    a_column(delta, "long", comment="of the column")
    described: dict[str, Any] = delta.metadata()
    described["metaData"]["description"] = "of the 'table' é"
    delta.commit(delta.data(pa.table({"n": [1]})))
    assert "comment" not in dk.sync_delta(delta.path, catalog, "t.d").table.properties
    delta.commit(described)
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert table.properties["comment"] == "of the 'table' é"
    assert table.schema.fields[0].doc == "of the column"
    assert dk.sync_delta(delta.path, catalog, "t.new").table.properties["comment"] == "of the 'table' é"
    dk.export_delta(table, tmp_path / "back")
    from deltalake import DeltaTable  # noqa: PLC0415  # a peer

    back = DeltaTable(tmp_path / "back")
    assert back.metadata().description == "of the 'table' é"
    assert back.schema().fields[0].metadata["comment"] == "of the column"
    dk.set_properties(table, {"comment": "another"})
    assert dk.export_delta(table, tmp_path / "back").version == 1
    assert DeltaTable(tmp_path / "back").metadata().description == "another"


KEPT_NAMES = {
    "gc.enabled": "true",
    "schema.name-mapping.default": "[]",
    "write.delete.mode": "nonsense",
    "format-version": "1",
    "comment": "no",
    "deletekit.delta-location": "/elsewhere",
    "deletekit.delta-properties": "[]",
    "XTABLE_METADATA": '{"sourceTableFormat": "DELTA"}',
    "delta-version": "7",
    "Delta.x": "1",
}


def test_properties_of_the_user_follow_delta(tmp_path: Path, catalog: dk.Catalog) -> None:
    """They are set, changed and removed; what the user of the Iceberg table set, and all other names, stay."""
    delta = HandMade(tmp_path / "delta", configuration={"team": "é", "a.b": "1", **KEPT_NAMES})
    delta.commit(delta.data(range(3)))
    table = dk.sync_delta(delta.path, catalog, "t.d", properties={"write.delete.mode": "merge-on-read"}).table
    before = dict(table.properties)
    assert (before["team"], before["a.b"], before["gc.enabled"]) == ("é", "1", "false")
    assert before["write.delete.mode"] == "merge-on-read"
    assert before["deletekit.delta-location"] == str(delta.path)
    assert not {"XTABLE_METADATA", "delta-version", "Delta.x", "comment", "format-version"} & before.keys()
    dk.set_properties(table, {"mine": "1", "a.b": "mine"})
    delta.configuration = {"team": "other", "new": "", **KEPT_NAMES}
    delta.commit(delta.metadata())
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    changed = {k: v for k, v in table.properties.items() if before.get(k) != v}
    assert changed.pop("deletekit.delta-head")
    assert changed.pop("deletekit.delta-properties") == '["new", "team"]'
    assert changed == {"team": "other", "new": "", "mine": "1"}
    assert "a.b" not in table.properties
    delta.configuration = {}
    delta.commit(delta.metadata(), delta.data(range(3, 5)))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert not {"team", "new", "deletekit.delta-properties"} & table.properties.keys()
    assert table.properties["mine"] == "1"


@pytest.mark.parametrize("text", ["{", "7", '["gc.enabled", 7, null, "schema.name-mapping.default"]'])
def test_a_damaged_list_of_properties_removes_nothing(tmp_path: Path, catalog: dk.Catalog, text: str) -> None:
    delta = HandMade(tmp_path / "delta")
    delta.commit(delta.data(range(3)))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    dk.set_properties(table, {"deletekit.delta-properties": text})
    delta.commit(delta.data(range(3, 5)))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert table.properties["gc.enabled"] == "false"
    assert "schema.name-mapping.default" in table.properties


def test_no_property_of_iceberg_is_the_users() -> None:
    """Each name of docs/properties.md, and each that deletekit reads."""
    page = (Path(__file__).parents[2] / "docs" / "properties.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(names) > 100
    assert not user_properties(dict.fromkeys([*names, *PROPERTIES], "x"))


@pytest.mark.peers
def test_properties_of_the_user_are_exported(tmp_path: Path, catalog: dk.Catalog) -> None:
    from deltalake import DeltaTable  # noqa: PLC0415  # a peer

    mine = {"team": "é", "delta.appendOnly": "true", "write.delete.mode": "merge-on-read"}
    schema = pa.schema([("id", pa.int64())])
    table = dk.create_table(catalog, "t.x", schema, format_version=3, properties=mine)
    dk.export_delta(table, tmp_path / "delta")
    own = {"delta.enableDeletionVectors": "true"}
    assert DeltaTable(tmp_path / "delta").metadata().configuration == {"team": "é", **own}
    back = dk.sync_delta(tmp_path / "delta", catalog, "t.back").table
    assert back.properties["team"] == "é"
    dk.set_properties(table, {"team": None})
    assert dk.export_delta(table, tmp_path / "delta").version == 1
    assert DeltaTable(tmp_path / "delta").metadata().configuration == own


def test_variant_is_refused_by_name(tmp_path: Path, catalog: dk.Catalog) -> None:
    delta = HandMade(tmp_path / "delta", features=("deletionVectors", "variantType"))
    a_column(delta, "variant")
    delta.commit()
    with raises_kind("delta-feature", found="variantType"):
        dk.sync_delta(delta.path, catalog, "t.d")
