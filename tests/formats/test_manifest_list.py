"""Manifest lists: Iceberg Java's rows both ways, and each check of the reader on its own."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import fastavro
import pytest

from deletekit.errors import FormatError
from deletekit.formats.avro import read_container
from deletekit.formats.manifest_list import (
    COUNTS,
    FieldSummary,
    ManifestContent,
    ManifestFile,
    read_manifest_list,
    write_manifest_list,
)
from deletekit.formats.manifest_schema import manifest_file_schema
from tests.avro_bytes import avro_file
from tests.formats.test_manifests import undocumented
from tests.golden_files import Entry, cases, content

LISTS = cases("manifests", lambda e: e["kind"] == "manifest_list")
# The current writer always has counts and contains_nan; older ones, which these files stand for, do not.
OLDER = ("v1_list_without_counts.avro", "v2_list_without_nan.avro")
CURRENT = cases("manifests", lambda e: e["kind"] == "manifest_list" and e["file"] not in OLDER)


def golden(entry: Entry) -> bytes:
    return content("manifests", entry["file"])


def as_json(manifest: ManifestFile) -> Entry:
    """Give a row as the index writes it."""
    raw = asdict(manifest)
    raw["content"] = int(manifest.content)
    raw["key_metadata"] = None if manifest.key_metadata is None else manifest.key_metadata.hex()
    if raw["partitions"] is not None:
        raw["partitions"] = [
            {k: v.hex() if isinstance(v, bytes) else v for k, v in summary.items()} for summary in raw["partitions"]
        ]
    return raw


# --- golden -----------------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("entry", LISTS)
def test_rows_are_what_java_read(entry: Entry) -> None:
    assert [as_json(m) for m in read_manifest_list(golden(entry))] == entry["manifests"]


def rewritten(entry: Entry) -> bytes:
    metadata = entry["avro_metadata"]

    def number(name: str) -> int | None:
        return None if metadata.get(name, "null") == "null" else int(metadata[name])

    return write_manifest_list(
        read_manifest_list(golden(entry)),
        format_version=entry["format_version"],
        snapshot_id=int(metadata["snapshot-id"]),
        parent_snapshot_id=number("parent-snapshot-id"),
        sequence_number=number("sequence-number") or 0,
        first_row_id=number("first-row-id"),
        codec=metadata["avro.codec"],
    )


@pytest.mark.golden
@pytest.mark.parametrize("entry", CURRENT)
def test_written_schema_has_java_names_ids_types_and_order(entry: Entry) -> None:
    assert undocumented(read_container(rewritten(entry)).schema) == undocumented(read_container(golden(entry)).schema)


@pytest.mark.golden
@pytest.mark.parametrize("entry", LISTS)
def test_written_metadata_has_java_keys_and_values(entry: Entry) -> None:
    metadata = dict(read_container(rewritten(entry)).metadata)
    del metadata["avro.schema"]
    assert metadata == entry["avro_metadata"]


@pytest.mark.golden
@pytest.mark.parametrize("entry", CURRENT)
def test_written_records_are_what_fastavro_reads_of_java(entry: Entry) -> None:
    ours, java = (list(fastavro.reader(io.BytesIO(data))) for data in (rewritten(entry), golden(entry)))
    assert ours == java


# --- values -----------------------------------------------------------------------------------------------------------

ROW = ManifestFile(
    manifest_path="m.avro",
    manifest_length=10,
    partition_spec_id=1,
    sequence_number=3,
    min_sequence_number=2,
    added_snapshot_id=77,
    added_files_count=1,
    existing_files_count=2,
    deleted_files_count=3,
    added_rows_count=4,
    existing_rows_count=5,
    deleted_rows_count=6,
    partitions=(FieldSummary(contains_null=True, contains_nan=False, lower_bound=b"", upper_bound=b"\xff"),),
    key_metadata=b"k",
)


def write(*rows: ManifestFile, version: int = 3, **changes: Any) -> bytes:
    arguments = {"snapshot_id": 1, "parent_snapshot_id": None, "sequence_number": 3, "first_row_id": 5, **changes}
    return write_manifest_list(rows, format_version=version, **arguments)


@pytest.mark.parametrize("version", [2, 3])
def test_every_field_survives(version: int) -> None:
    rows = (ROW, replace(ROW, content=ManifestContent.DELETES, partitions=None, key_metadata=None))
    assert read_manifest_list(write(*rows, version=version)) == rows


def test_v1_has_no_sequence_numbers() -> None:
    (row,) = read_manifest_list(write(ROW, version=1))
    assert row == replace(ROW, sequence_number=0, min_sequence_number=0)


def test_first_row_id_is_there_from_v3_on() -> None:
    row = replace(ROW, first_row_id=9)
    assert read_manifest_list(write(row, version=3)) == (row,)
    assert read_manifest_list(write(row, version=2)) == (ROW,)


@pytest.mark.parametrize(
    ("added", "existing", "live"), [(0, 0, False), (1, 0, True), (0, 1, True), (None, 0, True), (0, None, True)]
)
def test_manifest_has_live_files_unless_its_counts_say_no(added: int | None, existing: int | None, live: bool) -> None:
    no_rows: dict[str, Any] = {"added_rows_count": 0, "existing_rows_count": 0}
    assert replace(ROW, added_files_count=added, existing_files_count=existing, **no_rows).has_live_files == live


@pytest.mark.parametrize("name", ["added_rows_count", "existing_rows_count"])
def test_rows_are_in_live_files_whatever_their_count(name: str) -> None:
    none: dict[str, Any] = {
        "added_files_count": 0,
        "existing_files_count": 0,
        "added_rows_count": 0,
        "existing_rows_count": 0,
    }
    assert replace(ROW, **{**none, name: 1}).has_live_files


@pytest.mark.parametrize("name", COUNTS)
def test_count_that_v1_left_out_is_not_written_as_none_of_them(name: str) -> None:
    row = replace(ROW, **{name: None})
    assert getattr(read_manifest_list(write(row, version=1))[0], name) is None
    for version in (2, 3):
        with pytest.raises(FormatError) as error:
            write(row, version=version)
        assert (error.value.kind, error.value.field, error.value.file) == ("manifest-list", name, "m.avro")


def test_delete_manifest_in_v1_is_refused() -> None:
    with pytest.raises(FormatError) as error:
        write(replace(ROW, content=ManifestContent.DELETES), version=1)
    assert (error.value.kind, error.value.field) == ("format-version", "content")


# --- other writers ----------------------------------------------------------------------------------------------------


def list_with(
    *,
    value: Mapping[str, Any] | None = None,
    kind: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Write a list of one manifest with some values, Avro types or field names changed; `...` drops the field."""
    schema = manifest_file_schema(3)
    record: dict[str, Any] = {
        "manifest_path": "m.avro",
        "manifest_length": 10,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": 3,
        "min_sequence_number": 3,
        "added_snapshot_id": 77,
        **dict.fromkeys((f["name"] for f in schema["fields"] if f["name"].endswith("_count")), 1),
        **(value or {}),
    }
    schema["fields"] = [f for f in schema["fields"] if (kind or {}).get(f["name"]) is not ...]
    for field in schema["fields"]:
        if field["name"] in (kind or {}):
            field["type"] = (kind or {})[field["name"]]
            field.pop("default", None)
        field["name"] = (names or {}).get(field["name"], field["name"])
    sink = io.BytesIO()
    renamed = {(names or {}).get(k, k): v for k, v in record.items()}
    pairs = {"format-version": "3", **(metadata or {})}
    fastavro.writer(sink, fastavro.parse_schema(schema), [renamed], metadata=pairs)
    return sink.getvalue()


def test_counts_are_found_under_their_older_names() -> None:
    older = {f"{n}_files_count": f"{n}_data_files_count" for n in ("added", "existing", "deleted")}
    data = list_with(names=older, value={"existing_files_count": 5})
    assert read_manifest_list(data)[0].existing_files_count == 5


def test_list_without_format_version_is_read() -> None:
    schema = manifest_file_schema(1)
    record = {"manifest_path": "m", "manifest_length": 1, "partition_spec_id": 0, "added_snapshot_id": 7}
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), [record])
    (row,) = read_manifest_list(sink.getvalue())
    assert (row.content, row.sequence_number, row.added_files_count) == (ManifestContent.DATA, 0, None)


# --- damage: each case changes one value or one type of a row that is right -------------------------------------------

SUMMARY_FIELDS = next(
    f["type"][1]["items"]["fields"] for f in manifest_file_schema(3)["fields"] if f["name"] == "partitions"
)


def summaries(**types: Any) -> Any:
    """Give the type of `partitions` with another type for some of its fields."""
    changed = json.loads(json.dumps(SUMMARY_FIELDS))
    for field in changed:
        field["type"] = types.get(field["name"], field["type"])
        field.pop("default", None)
    return ["null", {"type": "array", "items": {"type": "record", "name": "r508", "fields": changed}}]


def summaries_named_before() -> bytes:
    """Give a list whose partitions are of a type defined further up, which no writer does."""
    schema = manifest_file_schema(3)
    (partitions,) = (f for f in schema["fields"] if f["name"] == "partitions")
    schema["fields"].insert(0, {"name": "first", "type": partitions["type"], "default": None})
    partitions["type"] = ["null", {"type": "array", "items": "r508"}]
    return avro_file(schema, metadata={"format-version": b"3"})


def case(field: str, **changes: Any) -> tuple[Callable[[], bytes], str, str]:
    return lambda: list_with(**changes), "manifest-list", field


NO_SUMMARIES = ["null", {"type": "array", "items": {"type": "map", "values": "int"}}]
TEXT_BOUND = [{"contains_null": True, "lower_bound": "a"}]
OTHER_TYPES: list[tuple[str, str, Any, Any]] = [
    ("sequence_number", "sequence_number", ["null", "long"], None),
    ("sequence_number", "sequence_number", "double", 1.0),
    ("manifest_path", "manifest_path", ["null", "string"], None),
    ("manifest_path", "manifest_path", "bytes", b"m"),
    ("manifest_length", "manifest_length", "string", "1"),
    ("partition_spec_id", "partition_spec_id", "string", "1"),
    ("partitions", "partitions", {"type": "array", "items": "int"}, [1]),
    ("partitions", "partitions", NO_SUMMARIES, [{"a": 1}]),
    ("lower_bound", "partitions", summaries(lower_bound="string"), TEXT_BOUND),
    ("contains_null", "partitions", summaries(contains_null=["null", "boolean"]), [{}]),
]
NEGATIVE = ("manifest_length", "sequence_number", "min_sequence_number", "first_row_id", *COUNTS[:3])
DAMAGE: dict[str, tuple[Callable[[], bytes], str, str | None]] = {
    "not Avro": (lambda: b"PAR1" + bytes(40), "avro-magic", "magic"),
    "another record": (
        lambda: avro_file({"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}),
        "manifest-list",
        "manifest_path",
    ),
    "manifest": (lambda: content("manifests", "v3_no_entries.avro"), "manifest-list", "manifest_path"),
    **{
        f"format version {text}": (
            lambda text=text: list_with(metadata={"format-version": text}),  # type: ignore[misc]
            "format-version",
            "format-version",
        )
        for text in ("4", "x")
    },
    **{
        f"no {name}": case(name, kind={name: ...})
        for name in ("manifest_path", "manifest_length", "partition_spec_id", "sequence_number")
    },
    **{
        f"{field} {number}": case(field, kind={name: kind}, value={name: value})
        for number, (field, name, kind, value) in enumerate(OTHER_TYPES)
    },
    "summaries named before": (summaries_named_before, "manifest-list", "avro.schema"),
    "content 2": case("content", value={"content": 2}),
    **{f"{name} negative": case(name, value={name: -1}) for name in ("content", *NEGATIVE)},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name: str) -> None:
    make, kind, field = DAMAGE[name]
    with pytest.raises(FormatError) as error:
        read_manifest_list(make())
    assert (error.value.kind, error.value.field) == (kind, field)
    assert error.value.found is not None or "no " in name or name in ("another record", "manifest")


def test_list_that_the_damage_starts_from_is_read() -> None:
    (row,) = read_manifest_list(list_with())
    assert (row.manifest_path, row.added_files_count) == ("m.avro", 1)


@pytest.mark.parametrize("name", ["added_rows_count", "existing_rows_count", "deleted_rows_count"])
def test_a_negative_count_of_rows_is_none(name: str) -> None:
    """Java adds up counts of -1, which its imports gave to files that they did not count."""
    (row,) = read_manifest_list(list_with(value={name: -1}))
    assert getattr(row, name) is None
