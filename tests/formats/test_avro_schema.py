"""Facts about Avro schemas: the fewest bytes of a record, and whether a field has the type it should have."""

from typing import Any

import fastavro
import pytest

from deletekit.errors import FormatError
from deletekit.formats.avro import check_types, record_bytes


def record(*kinds: Any, name: str = "r") -> Any:
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": k} for i, k in enumerate(kinds)]}


FIXED = {"type": "fixed", "name": "f", "size": 7}
FEWEST = {
    "nothing": (record(), 0),
    "null": (record("null"), 0),
    "boolean": (record("boolean"), 1),
    "numbers": (record("int", "long", "float", "double"), 1 + 1 + 4 + 8),
    "text and bytes": (record("string", "bytes"), 2),
    "optional": (record(["null", "double"]), 1),
    "union without null": (record(["double", "float"]), 5),
    "fixed": (record(FIXED, "f"), 14),
    "enum": (record({"type": "enum", "name": "e", "symbols": ["A"]}), 1),
    "list and map": (record({"type": "array", "items": "int"}, {"type": "map", "values": "int"}), 2),
    "struct": (record(record("int", "double", name="s"), "s"), 18),
    "type in a type": (record({"type": "int"}), 1),
}


@pytest.mark.parametrize("name", FEWEST)
def test_fewest_bytes_of_a_record(name: str) -> None:
    schema, expected = FEWEST[name]
    assert record_bytes(fastavro.parse_schema(schema)) == expected


@pytest.mark.parametrize("schema", [5, None, {}, {"type": None}, "tree", record("tree"), record({"items": "int"})])
def test_what_is_no_schema_has_no_size(schema: Any) -> None:
    with pytest.raises(FormatError) as error:
        record_bytes(schema)
    assert (error.value.kind, error.value.field) == ("avro-schema", "avro.schema")


MAP = {"type": "array", "items": record("int", "bytes", name="m")}
MAP["items"]["fields"][0]["name"], MAP["items"]["fields"][1]["name"] = "key", "value"
CANONICAL = record("int", ["null", "string"], {"type": "array", "items": "long"}, MAP, record("int", name="s"))
SAME = {
    "the same": CANONICAL,
    "long for int": record("long", "string", {"type": "array", "items": "int"}, MAP, record(name="s")),
    "optional for required": record(["null", "int"], ["string", "null"], ["null", {"type": "array", "items": "long"}]),
    "type in a type": record({"type": "int"}, ["null", {"type": "string", "avro.java.string": "String"}]),
    "field nobody knows": {"fields": [{"name": "other", "type": "double"}]},
    "logical type": record({"type": "int", "logicalType": "date"}),
    "type that was named before": {
        "fields": [{"name": "other", "type": MAP["items"]}, {"name": "f3", "type": {"type": "array", "items": "m"}}]
    },
    "struct that was named before": {
        "fields": [{"name": "other", "type": record(name="s")}, {"name": "f4", "type": "s"}]
    },
}
OTHER = {
    "text for a number": (record("string"), "f0"),
    "number for text": (record("int", ["null", "int"]), "f1"),
    "bytes for text": (record("int", "bytes"), "f1"),
    "double for a number": (record("double"), "f0"),
    "boolean for a number": (record("boolean"), "f0"),
    "fixed for a number": (record(FIXED), "f0"),
    "list of text": (record("int", "string", {"type": "array", "items": "string"}), "f2"),
    "map of text": (
        record("int", "string", {"type": "array", "items": "int"}, {"type": "map", "values": "bytes"}),
        "f3",
    ),
    "list for a map": (
        record("int", "string", {"type": "array", "items": "int"}, {"type": "array", "items": "int"}),
        "f3",
    ),
    "number for a struct": (record("int", "string", {"type": "array", "items": "int"}, MAP, "int"), "f4"),
    "union of two": (record(["null", "int", "string"]), "f0"),
    "null alone": (record("null"), "f0"),
    "list of a struct that is named int": (
        record({"type": "record", "name": "int", "fields": []}, "string", {"type": "array", "items": "int"}),
        "f0",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_type_that_will_do(name: str) -> None:
    check_types(SAME[name], CANONICAL, {}, "some-kind")


@pytest.mark.parametrize("name", OTHER)
def test_other_type_is_named(name: str) -> None:
    schema, field = OTHER[name]
    with pytest.raises(FormatError) as error:
        check_types(schema, CANONICAL, {}, "some-kind")
    assert (error.value.kind, error.value.field) == ("some-kind", field)
    assert error.value.found is not None
    assert error.value.expected is not None


def test_field_under_another_name_is_checked_too() -> None:
    stored = {"fields": [{"name": "old", "type": "string"}]}
    check_types(stored, CANONICAL, {}, "some-kind")
    with pytest.raises(FormatError) as error:
        check_types(stored, CANONICAL, {"old": "f0"}, "some-kind")
    assert error.value.field == "f0"
