"""Manifests: Iceberg Java's entries both ways, inheritance as its reader does it, and each check on its own."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import fastavro
import pyiceberg
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent
from pyiceberg.manifest import ManifestFile as PyIcebergManifest

from deletekit.errors import DeletekitError, FormatError, InvalidInputError, UnsupportedError
from deletekit.formats.avro import read_container, strip
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestFile
from deletekit.formats.manifest_schema import manifest_entry_schema
from deletekit.formats.manifest_writer import write_manifest
from deletekit.formats.manifests import Manifest, columns_of, inherit, read_manifest
from tests.avro_bytes import avro_file, without_metadata
from tests.golden_files import Entry, cases, content

MANIFESTS = cases("manifests", lambda e: e["kind"] == "manifest")
# An Avro library cannot read this one: see PROVENANCE.md, "fixed partition values".
FIXED = "v2_identity_fixed.avro"
READ_BY_AVRO = cases("manifests", lambda e: e["kind"] == "manifest" and e["file"] != FIXED)
READS = [
    pytest.param(case.values[0], read, id=f"{case.id}-{number}")
    for case in MANIFESTS
    for number, read in enumerate(case.values[0]["reads"])
]
MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


def golden(entry: Entry) -> bytes:
    return content("manifests", entry["file"])


# --- an index entry as values -----------------------------------------------------------------------------------------


def file_as_json(file: DataFile | DeleteFile) -> Entry:
    """Give a content file as the index writes it, but its partition."""
    raw = asdict(file)
    for name in MAPS:
        if raw[name] is not None:
            raw[name] = {str(k): v.hex() if isinstance(v, bytes) else v for k, v in raw[name].items()}
    raw["key_metadata"] = None if file.key_metadata is None else file.key_metadata.hex()
    raw["content"] = int(file.content)
    for name in ("split_offsets", "equality_ids"):
        raw[name] = list(raw[name]) if raw.get(name) is not None else None
    for name in ("first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes"):
        raw.setdefault(name, None)
    del raw["partition"]
    return raw


def entry_as_json(entry: ManifestEntry) -> Entry:
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.file_sequence_number,
        "data_file": file_as_json(entry.data_file),
    }


def without_partition(entry: Entry, raw: Entry) -> Entry:
    """Drop the partition, which has its own test; an empty map is not a map, to us as to the spec.

    The counts are those of the raw entry: Java's reader was asked for entries that it fills again and again, so that
    `reads` has the counts of a later one.
    """
    data_file = {k: v if v != {} else None for k, v in entry["data_file"].items() if k != "partition"}
    for name in MAPS[:4]:
        pairs = raw["data_file"][name]
        data_file[name] = {str(pair["key"]): pair["value"] for pair in pairs} if pairs else None
    return {**entry, "data_file": data_file}


def stored_partitions(entry: Entry) -> list[tuple[Any, ...]]:
    """Give the partition values as Avro stores them, from the raw entries; bytes are hexadecimal."""
    return [tuple(e["data_file"]["partition"].values()) for e in entry["raw_entries"]]


def as_index(partition: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(v.hex() if isinstance(v, bytes) else "NaN" if v != v else v for v in partition)


def listed(entry: Entry, read: Mapping[str, Any] | None = None) -> ManifestFile:
    read = read or {"snapshot_id": 1, "sequence_number": 9, "first_row_id": None}
    return ManifestFile(
        manifest_path=entry["manifest_file"]["manifest_path"],
        manifest_length=entry["manifest_file"]["manifest_length"],
        partition_spec_id=entry["partition_spec"]["spec-id"],
        added_snapshot_id=read["snapshot_id"],
        sequence_number=read["sequence_number"],
        first_row_id=read["first_row_id"],
    )


# --- golden: reading --------------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize(("entry", "read"), READS)
def test_inherited_entries_are_what_java_read(entry: Entry, read: Entry) -> None:
    manifest = read_manifest(golden(entry), spec_id=entry["partition_spec"]["spec-id"])
    found = [entry_as_json(e) for e in inherit(manifest, listed(entry, read)).all_entries()]
    assert found == [without_partition(e, raw) for e, raw in zip(read["entries"], entry["raw_entries"], strict=True)]


@pytest.mark.golden
@pytest.mark.parametrize("entry", READ_BY_AVRO)
def test_partitions_are_what_avro_stores(entry: Entry) -> None:
    manifest = read_manifest(golden(entry))
    assert [as_index(e.data_file.partition) for e in manifest.entries] == stored_partitions(entry)


@pytest.mark.golden
@pytest.mark.parametrize("entry", MANIFESTS)
def test_metadata_is_what_java_wrote(entry: Entry) -> None:
    manifest = read_manifest(golden(entry))
    spec = entry["partition_spec"]
    assert manifest.format_version == entry["format_version"]
    assert json.loads(manifest.metadata["partition-spec"]) == spec["fields"]
    assert manifest.partition_field_ids == tuple(f["field-id"] for f in spec["fields"])
    assert {e.data_file.spec_id for e in manifest.entries} <= {spec["spec-id"]}


@pytest.mark.golden
def test_fixed_partition_values_are_read_as_java_wrote_them() -> None:
    manifest = read_manifest(content("manifests", FIXED))
    assert [e.data_file.partition for e in manifest.entries] == [(b"\0\1\x7f\xff",), (b"\xff" * 4,), (None,)]
    assert [e.data_file.record_count for e in manifest.entries] == [5, 6, 7]


@pytest.mark.golden
def test_spec_id_of_the_manifest_list_wins() -> None:
    manifest = read_manifest(content("manifests", "v2_partitioned.avro"), spec_id=7)
    assert {e.data_file.spec_id for e in manifest.entries} == {7}


# --- golden: writing --------------------------------------------------------------------------------------------------


def partition_types(entry: Entry) -> list[tuple[int, str, str]]:
    """Give the types that Java's own Avro schema has for the partition fields, by Iceberg's names."""
    schema = read_container(golden(entry)).schema
    (data_file,) = (f for f in schema["fields"] if f["name"] == "data_file")
    (partition,) = (f for f in data_file["type"]["fields"] if f["name"] == "partition")
    names = {f["field-id"]: f["name"] for f in entry["partition_spec"]["fields"]}
    return [(f["field-id"], names[f["field-id"]], iceberg_type(f["type"])) for f in partition["type"]["fields"]]


def iceberg_type(avro: Any) -> str:
    kind = next(t for t in avro if t != "null")
    if isinstance(kind, str):
        return {"bytes": "binary"}.get(kind, kind)
    zone = "tz" if kind.get("adjust-to-utc") else ""
    return {
        "date": "date",
        "time-micros": "time",
        "timestamp-micros": f"timestamp{zone}",
        "timestamp-nanos": f"timestamp{zone}_ns",
        "uuid": "uuid",
        "decimal": f"decimal({kind.get('precision')}, {kind.get('scale')})",
    }[kind["logicalType"]]


def rewritten(entry: Entry) -> bytes:
    """Write what we read of a golden manifest."""
    manifest = read_manifest(golden(entry))
    kinds = {e.data_file.content for e in manifest.entries} or {FileContent.DATA}
    return write_manifest(
        manifest.entries,
        format_version=entry["format_version"],
        content=FileContent.DATA if FileContent.DATA in kinds else FileContent.POSITION_DELETES,
        schema_json=json.loads(entry["avro_metadata"]["schema"]),
        spec_json=entry["partition_spec"],
        partition_types=partition_types(entry),
        codec={"zstandard": "zstandard"}.get(
            entry["avro_metadata"]["avro.codec"], entry["avro_metadata"]["avro.codec"]
        ),
    )


def undocumented(schema: Any) -> Any:
    """Drop `doc`, which nobody reads."""
    if isinstance(schema, list):
        return [undocumented(s) for s in schema]
    if isinstance(schema, dict):
        return {k: undocumented(v) for k, v in schema.items() if k != "doc"}
    return schema


@pytest.mark.golden
@pytest.mark.parametrize("entry", READ_BY_AVRO)
def test_written_schema_has_java_names_ids_types_and_order(entry: Entry) -> None:
    assert undocumented(read_container(rewritten(entry)).schema) == undocumented(read_container(golden(entry)).schema)


@pytest.mark.golden
@pytest.mark.parametrize("entry", READ_BY_AVRO)
def test_written_metadata_has_java_keys_and_values(entry: Entry) -> None:
    metadata = dict(read_container(rewritten(entry)).metadata)
    del metadata["avro.schema"]
    # The spec asks for schema-id, Java leaves it out.
    assert metadata.pop("schema-id") == str(json.loads(entry["avro_metadata"]["schema"])["schema-id"])
    for name in ("schema", "partition-spec"):
        assert json.loads(metadata.pop(name)) == json.loads(entry["avro_metadata"][name])
    assert metadata == {k: v for k, v in entry["avro_metadata"].items() if k not in ("schema", "partition-spec")}


@pytest.mark.golden
@pytest.mark.parametrize("entry", READ_BY_AVRO)
def test_written_records_are_what_fastavro_reads_of_java(entry: Entry) -> None:
    assert records_of(rewritten(entry)) == records_of(golden(entry))


def records_of(data: bytes) -> list[Any]:
    """Read records with fastavro alone, values as stored; an empty map is not a map."""
    reader = fastavro.reader(io.BytesIO(data))
    plain = strip(json.loads(reader.metadata["avro.schema"]))
    found = []
    for part in fastavro.block_reader(io.BytesIO(data)):
        stream = part.bytes_  # type: ignore[attr-defined]
        found += [fastavro.schemaless_reader(stream, plain, None) for _ in range(part.num_records)]
    for record in found:
        file: Any = record["data_file"]  # type: ignore[index,call-overload]
        file.update({k: None for k, v in file.items() if v == []})
        for floating in [k for k, v in file["partition"].items() if v != v]:
            file["partition"][floating] = "NaN"
    return found


# --- inheritance ------------------------------------------------------------------------------------------------------

DATA = DataFile(spec_id=0, file_path="a.parquet", file_format="PARQUET", record_count=10, file_size_in_bytes=100)
POSITIONS = DeleteFile(
    content=FileContent.POSITION_DELETES,
    spec_id=0,
    file_path="d.parquet",
    file_format="PARQUET",
    record_count=1,
    file_size_in_bytes=100,
)
EQUALITY = replace(POSITIONS, content=FileContent.EQUALITY_DELETES, equality_ids=(1,))
VECTOR = replace(
    POSITIONS,
    file_path="v.puffin",
    file_format="PUFFIN",
    referenced_data_file="a.parquet",
    content_offset=4,
    content_size_in_bytes=40,
)
ADDED = ManifestEntry(
    status=EntryStatus.ADDED, snapshot_id=None, sequence_number=None, file_sequence_number=None, data_file=DATA
)
EXISTING = replace(ADDED, status=EntryStatus.EXISTING, snapshot_id=1, sequence_number=2, file_sequence_number=3)
LISTED = ManifestFile(
    manifest_path="m.avro", manifest_length=1, partition_spec_id=0, added_snapshot_id=77, sequence_number=9
)


def inherited(*entries: ManifestEntry, version: int = 3, **changes: Any) -> list[ManifestEntry]:
    manifest = Manifest(metadata={"format-version": str(version)}, columns=columns_of(entries, 0, ()))
    return list(inherit(manifest, replace(LISTED, **changes)).all_entries())


def test_existing_entry_without_file_sequence_number_inherits_none() -> None:
    (entry,) = inherited(replace(EXISTING, file_sequence_number=None))
    assert (entry.sequence_number, entry.file_sequence_number) == (2, None)


@pytest.mark.parametrize("status", [EntryStatus.EXISTING, EntryStatus.DELETED])
def test_entry_that_must_say_its_sequence_number_and_does_not_is_refused(status: EntryStatus) -> None:
    with pytest.raises(FormatError) as error:
        inherited(replace(EXISTING, status=status, sequence_number=None))
    assert (error.value.kind, error.value.field, error.value.file) == ("manifest-entry", "sequence_number", "m.avro")
    assert status.name in str(error.value.found)


@pytest.mark.parametrize("keeps_metadata", [True, False])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_inherited_sequence_numbers_are_pyicebergs(tmp_path: Path, version: int, keeps_metadata: bool) -> None:
    """Of a v1 manifest that was appended to a v2 table too, and of one that lost what it says of itself."""
    data = write([ADDED], version=version)
    if not keeps_metadata:
        data = without_metadata(data)
    path = tmp_path / "m.avro"
    path.write_bytes(data)
    for number in (0, 9):
        (entry,) = inherit(read_manifest(data), replace(LISTED, sequence_number=number)).all_entries()
        listed = PyIcebergManifest.from_args(
            manifest_path=str(path),
            manifest_length=len(data),
            partition_spec_id=0,
            content=ManifestContent.DATA,
            sequence_number=number,
            min_sequence_number=number,
            added_snapshot_id=77,
        )
        (theirs,) = listed.fetch_manifest_entry(PyArrowFileIO())
        assert entry.sequence_number == entry.file_sequence_number == number
        if number == 0 or not pyiceberg.__version__.startswith("0.11."):  # whose own reader leaves them None
            assert theirs.sequence_number == theirs.file_sequence_number == number


def test_everything_in_a_manifest_of_sequence_number_zero_is_as_old_as_v1() -> None:
    (entry,) = inherited(replace(EXISTING, sequence_number=None, file_sequence_number=None), sequence_number=0)
    assert (entry.sequence_number, entry.file_sequence_number) == (0, 0)


def test_first_row_ids_count_live_files_that_have_none() -> None:
    rows = [replace(ADDED, data_file=replace(DATA, record_count=n)) for n in (1, 10, 100, 1000)]
    rows[1] = replace(rows[1], data_file=replace(rows[1].data_file, first_row_id=7))
    rows[2] = replace(rows[2], status=EntryStatus.DELETED, sequence_number=1)
    found = [e.data_file.first_row_id for e in inherited(*rows, first_row_id=50) if isinstance(e.data_file, DataFile)]
    assert found == [50, 7, None, 51]


def test_first_row_ids_are_gone_where_the_manifest_has_none() -> None:
    entry = replace(EXISTING, data_file=replace(DATA, first_row_id=7))
    assert [e.data_file for e in inherited(entry)] == [DATA]


# --- writing ----------------------------------------------------------------------------------------------------------

SCHEMA: Entry = {
    "type": "struct",
    "schema-id": 3,
    "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
}
SPEC: Entry = {"spec-id": 0, "fields": []}


def write(
    entries: Any, *, version: int = 3, partition_types: Any = (), spec: Entry | None = None, data: bool = True
) -> bytes:
    return write_manifest(
        entries,
        format_version=version,
        content=FileContent.DATA if data else FileContent.POSITION_DELETES,
        schema_json=SCHEMA,
        spec_json=spec or {**SPEC, "fields": [{}] * len(partition_types)},
        partition_types=partition_types,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_field_of_a_data_file_survives(version: int) -> None:
    file = replace(
        DATA,
        partition=(5,),
        column_sizes={1: 2},
        value_counts={1: 3},
        null_value_counts={1: 0},
        nan_value_counts={2: 1},
        lower_bounds={1: b""},
        upper_bounds={1: b"\xff"},
        key_metadata=b"k",
        split_offsets=(4, 2**40),
        sort_order_id=2,
    )
    entry = replace(EXISTING, data_file=file)
    if version == 1:  # which has no sequence numbers
        entry = replace(entry, sequence_number=None, file_sequence_number=None)
    data = write([entry], version=version, partition_types=[(1000, "x", "int")])
    assert read_manifest(data).entries == (entry,)


@pytest.mark.parametrize(
    "file", [VECTOR, replace(EQUALITY, sort_order_id=0), replace(POSITIONS, referenced_data_file="a")]
)
def test_every_field_of_a_delete_file_survives(file: DeleteFile) -> None:
    assert {f.name for f in fields(file)} >= {"equality_ids", "content_offset"}
    (entry,) = read_manifest(write([replace(ADDED, data_file=file)], data=False)).entries
    assert entry.data_file == file


def test_name_that_avro_forbids_is_made_valid_and_found_by_id() -> None:
    types = [(1000, "person.city", "string"), (1001, "1st-é", "int")]
    entry = replace(ADDED, data_file=replace(DATA, partition=("K", 5)))
    data = write([entry], partition_types=types)
    schema = read_container(data).schema
    names = [f["name"] for f in manifest_fields(schema)["partition"]["type"]["fields"]]
    assert names == ["person_x2Ecity", "_1st_x2D_xE9"]
    assert read_manifest(data).entries == (entry,)


def test_named_avro_type_is_defined_once() -> None:
    types = [(1000, "a", "uuid"), (1001, "b", "uuid"), (1002, "c", "decimal(9,2)"), (1003, "d", "decimal(9, 2)")]
    file = replace(DATA, partition=(bytes(16), b"\1" * 16, b"\0\0\5\x8c", None))
    data = write([replace(ADDED, data_file=file)], partition_types=types)
    assert read_manifest(data).entries[0].data_file == file


def data_with(**changes: Any) -> list[ManifestEntry]:
    return [replace(ADDED, data_file=replace(DATA, **changes))]


OF_INTS = [(1000, "x", "int")]
DELETED = replace(EXISTING, status=EntryStatus.DELETED)
REFUSED_ENTRIES: dict[str, tuple[list[ManifestEntry], dict[str, Any], str]] = {
    "delete file among data files": ([replace(ADDED, data_file=VECTOR)], {}, "content"),
    "data file among delete files": ([ADDED], {"data": False}, "content"),
    "delete file in v1": ([replace(ADDED, data_file=EQUALITY)], {"version": 1, "data": False}, "content"),
    "deletion vector in v2": ([replace(ADDED, data_file=VECTOR)], {"version": 2, "data": False}, "file_format"),
    "another spec": ([ADDED], {"spec": {"spec-id": 5, "fields": []}}, "partition_spec_id"),
    "partition value too many": (data_with(partition=(1,)), {}, "partition"),
    "partition value missing": ([ADDED], {"partition_types": OF_INTS}, "partition"),
    "existing without sequence number": ([replace(EXISTING, sequence_number=None)], {}, "sequence_number"),
    "deleted without sequence number": ([replace(DELETED, sequence_number=None)], {}, "sequence_number"),
    "added with first row id": (data_with(first_row_id=1), {}, "first_row_id"),
}


@pytest.mark.parametrize("name", REFUSED_ENTRIES)
def test_entries_that_may_not_be_written_are_refused(name: str) -> None:
    entries, options, field = REFUSED_ENTRIES[name]
    with pytest.raises(FormatError) as error:
        write(entries, **options)
    assert (error.value.kind, error.value.field) == ("manifest-entry", field)


REFUSED: list[tuple[list[ManifestEntry], str, type[DeletekitError], str]] = [
    ([], "fixed[4]", UnsupportedError, "partition-type"),
    ([], "struct<1: a: int>", FormatError, "partition-type"),
    (data_with(partition=("a",)), "int", InvalidInputError, "avro-value"),
]


@pytest.mark.parametrize(("entries", "kind", "error_type", "expected"), REFUSED)
def test_partition_values_that_cannot_be_written_are_refused(
    entries: list[ManifestEntry], kind: str, error_type: type[DeletekitError], expected: str
) -> None:
    with pytest.raises(error_type) as error:
        write(entries, partition_types=[(1000, "x", kind)])
    assert error.value.kind == expected


def test_existing_entry_without_file_sequence_number_may_be_written() -> None:
    entry = replace(EXISTING, file_sequence_number=None)
    assert read_manifest(write([entry])).entries == (entry,)


# --- damage: each case changes one value or one type of a record that is right ----------------------------------------


def manifest_fields(schema: Any) -> dict[str, Any]:
    (data_file,) = (f for f in schema["fields"] if f["name"] == "data_file")
    return {f["name"]: f for f in data_file["type"]["fields"]}


def manifest_with(
    *, value: Mapping[str, Any] | None = None, kind: Mapping[str, Any] | None = None, metadata: Any = None
) -> bytes:
    """Write a manifest of one equality delete with some values or Avro types changed; `...` drops the field."""
    schema = manifest_entry_schema(3, [(1000, "x", "int")])
    record: Any = {
        "status": 1,
        "snapshot_id": 1,
        "sequence_number": 2,
        "file_sequence_number": 2,
        "data_file": {
            "content": 2,
            "file_path": "d.parquet",
            "file_format": "parquet",
            "partition": {"x": 5},
            "record_count": 1,
            "file_size_in_bytes": 100,
            "equality_ids": [1],
        },
    }
    for name, changed in (kind or {}).items():
        place = schema if any(f["name"] == name for f in schema["fields"]) else manifest_schema_of_file(schema)
        if changed is ...:
            place["fields"] = [f for f in place["fields"] if f["name"] != name]
        for field in place["fields"]:
            if field["name"] == name:
                field["type"] = changed
                field.pop("default", None)
    for name, changed in (value or {}).items():
        (record if name in record else record["data_file"])[name] = changed
    sink = io.BytesIO()
    pairs = {"format-version": "3", "partition-spec-id": "0", **(metadata or {})}
    fastavro.writer(sink, fastavro.parse_schema(schema), [record], metadata=pairs)
    return sink.getvalue()


def manifest_schema_of_file(schema: Any) -> Any:
    (data_file,) = (f for f in schema["fields"] if f["name"] == "data_file")
    return data_file["type"]


def of_another_writer(schema: Any, prefix: str = "", metadata: Any = None, **partition: Any) -> ManifestEntry:
    """Give the one entry of a manifest with this schema, whose fields have other names or no ids."""
    names = {"content": 0, "file_path": "a.parquet", "file_format": "parquet", "partition": partition}
    file = names | {"record_count": 10, "file_size_in_bytes": 100}
    record = {f"{prefix}status": 1, f"{prefix}data_file": {f"{prefix}{name}": value for name, value in file.items()}}
    sink = io.BytesIO()
    fastavro.writer(sink, fastavro.parse_schema(schema), [record], metadata=metadata)
    (entry,) = read_manifest(sink.getvalue(), spec_id=0).entries
    return entry


VECTOR_VALUES = {
    "content": 1,
    "file_format": "puffin",
    "referenced_data_file": "a",
    "content_offset": 4,
    "content_size_in_bytes": 40,
}
OTHER_TYPES: list[tuple[str, Any, Any]] = [
    ("status", "string", "1"),
    ("data_file", "string", "x"),
    ("snapshot_id", "string", "1"),
    ("file_path", "bytes", b"x"),
    ("file_path", "int", 1),
    ("record_count", "boolean", True),
    ("split_offsets", ["null", "long"], 4),
    ("equality_ids", ["null", "long"], 4),
    ("value_counts", ["null", {"type": "array", "items": "long"}], [1]),
    ("lower_bounds", ["null", {"type": "map", "values": "bytes"}], {"1": b""}),
    ("partition", "int", 1),
]
WRONG_VALUES: list[tuple[str, Any]] = [
    *(("status", 3), ("status", -1), ("content", 3), ("content", -1)),
    *(("file_size_in_bytes", -1), ("content_offset", -1), ("content_size_in_bytes", -1), ("first_row_id", -1)),
    *(("equality_ids", None), ("equality_ids", [])),
]
OF_LISTS = {"type": "record", "name": "p", "fields": [{"name": "x", "type": {"type": "array", "items": "int"}}]}


def case(error: str, field: str, **changes: Any) -> tuple[Callable[[], bytes], str, str]:
    return lambda: manifest_with(**changes), error, field


DAMAGE: dict[str, tuple[Callable[[], bytes], str, str | None]] = {
    "not Avro": (lambda: b"PAR1" + bytes(40), "avro-magic", "magic"),
    "another record": (
        lambda: avro_file({"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}),
        "manifest",
        "avro.schema",
    ),
    "manifest list": (lambda: content("manifests", "v3_list.avro"), "manifest", "avro.schema"),
    **{
        f"format version {text}": case(kind, "format-version", metadata={"format-version": text})
        for text, kind in (("4", "format-version"), ("0", "format-version"), ("v2", "manifest"))
    },
    "spec id of words": case("manifest", "partition-spec-id", metadata={"partition-spec-id": "x"}),
    **{
        f"no {name}": case("manifest", "avro.schema", kind={name: ...})
        for name in ("status", "data_file", "file_path", "record_count")
    },
    **{
        f"{name} of {kind}": case("manifest", name, kind={name: kind}, value={name: value})
        for name, kind, value in OTHER_TYPES
    },
    "partition value of a list": case(
        "manifest-entry", "x", kind={"partition": OF_LISTS}, value={"partition": {"x": [1]}}
    ),
    **{
        f"{name} null": case("manifest-entry", name, kind={name: ["null", kind]}, value={name: None})
        for name, kind in (("status", "int"), ("file_path", "string"), ("record_count", "long"))
    },
    **{f"{name} {value}": case("manifest-entry", name, value={name: value}) for name, value in WRONG_VALUES},
    **{f"format {text}": case("file-format", "file_format", value={"file_format": text}) for text in ("csv", "")},
    **{
        f"deletion vector without {name}": case("manifest-entry", name, value={**VECTOR_VALUES, name: None})
        for name in ("referenced_data_file", "content_offset", "content_size_in_bytes")
    },
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(name: str) -> None:
    make, kind, field = DAMAGE[name]
    with pytest.raises(FormatError) as error:
        read_manifest(make())
    assert (error.value.kind, error.value.field) == (kind, field)
    assert error.value.found is not None
    assert error.value.expected is not None


def test_manifest_that_the_damage_starts_from_is_read() -> None:
    (entry,) = read_manifest(manifest_with()).entries
    assert entry.data_file == replace(EQUALITY, partition=(5,))
    (entry,) = read_manifest(manifest_with(value=VECTOR_VALUES)).entries
    assert isinstance(entry.data_file, DeleteFile)
    assert entry.data_file.is_deletion_vector


# --- other writers ----------------------------------------------------------------------------------------------------


def test_fields_are_found_by_id_under_other_names() -> None:
    schema = manifest_entry_schema(2, OF_INTS)
    for field in (*schema["fields"], *manifest_schema_of_file(schema)["fields"]):
        field["name"] = f"old_{field['name']}"
    found = of_another_writer(schema, "old_", {"format-version": "2"}, x=5)
    assert found == replace(ADDED, data_file=replace(DATA, partition=(5,)))


def test_manifest_without_ids_is_read_by_names() -> None:
    schema = json.loads(json.dumps(manifest_entry_schema(2, [])).replace('"field-id"', '"id"'))
    assert of_another_writer(schema) == replace(ADDED, data_file=DATA)


def test_manifest_without_a_partition_field_has_no_partition() -> None:
    data = manifest_with(kind={"partition": ...}, value={"partition": {}})
    manifest = read_manifest(data)
    assert manifest.partition_field_ids == ()
    assert [e.data_file.partition for e in manifest.entries] == [()]


def test_fixed_partition_as_avro_says_is_read_too() -> None:
    schema = manifest_entry_schema(2, OF_INTS)
    fixed = {"type": "fixed", "name": "fixed_4", "size": 4}
    manifest_fields(schema)["partition"]["type"]["fields"][0]["type"] = ["null", fixed]
    found = of_another_writer(schema, metadata={"format-version": "2"}, x=b"abcd")
    assert found.data_file == replace(DATA, partition=(b"abcd",))
