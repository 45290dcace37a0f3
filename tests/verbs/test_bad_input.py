"""Bad calls and damaged files: each has an error class and a kind of its own, and the table stays as it was."""

import json
import random
import shutil
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from tests.storage import stored_at
from tests.stored import avro, head_json, live_files, manifest_list, metadata_json
from tests.tables import ITEMS, Row, expected, items, live, make, raises, refused, set_by_another_writer, unchanged

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
Call = Callable[[dk.Table], Any]


# --- calls ------------------------------------------------------------------------------------------------------------

KEYS = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("category", pa.string()),
        ("value", pa.float64()),
        ("f", pa.float32()),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("s", pa.struct([("x", pa.int32()), ("y", pa.float64()), ("deep", pa.list_(pa.struct([("z", pa.int32())])))])),
    ]
)

BAD_CALLS: dict[str, tuple[Call, type[dk.DeletekitError], str, str]] = {
    "mode": (lambda t: dk.delete(t, "id = 1", mode="soft"), dk.InvalidInputError, "mode", "mode"),
    "mode of update": (
        lambda t: dk.update(t, {"value": 1.0}, where="id = 1", mode="MOR"), dk.InvalidInputError, "mode", "mode",
    ),
    "granularity": (
        lambda t: dk.delete(t, "id = 1", mode="position-delete", granularity="row"),
        dk.InvalidInputError, "property", "write.delete.granularity",
    ),
    "no filter": (lambda t: dk.delete(t, None), dk.InvalidInputError, "filter", "where"),
    "empty filter": (lambda t: dk.delete(t, " "), dk.InvalidInputError, "filter", "where"),
    "column of a filter": (lambda t: dk.delete(t, "nope = 1"), dk.InvalidInputError, "filter", "where"),
    "type in a filter": (lambda t: dk.delete(t, "id = 'one'"), dk.InvalidInputError, "filter", "where"),
    "list in a filter": (lambda t: dk.delete(t, "l = 1"), dk.InvalidInputError, "filter", "where"),
    "rows of another mode": (
        lambda t: dk.delete(t, "id = 1", mode="equality-delete", with_rows=True),
        dk.InvalidInputError, "mode", "with_rows",
    ),
    "keys of another mode": (
        lambda t: dk.delete(t, "id = 1", mode="copy-on-write", on=["id"]),
        dk.InvalidInputError, "mode", "on",
    ),
    "double key": (
        lambda t: dk.delete(t, "value = 1.0", mode="equality-delete"), dk.InvalidInputError, "equality-key", "value",
    ),
    "float key": (lambda t: dk.delete_keys(t, [{"f": 1.0}]), dk.InvalidInputError, "equality-key", "f"),
    "nested double key": (lambda t: dk.delete_keys(t, [{"s.y": 1.0}]), dk.InvalidInputError, "equality-key", "y"),
    "list key": (lambda t: dk.delete_keys(t, [{"l": [1]}]), dk.InvalidInputError, "equality-key", "l"),
    "element key": (lambda t: dk.delete_keys(t, [{"l.element": 1}]), dk.InvalidInputError, "equality-key", "element"),
    "key in a list": (lambda t: dk.delete_keys(t, [{"s.deep.element.z": 1}]),
        dk.InvalidInputError, "equality-key", "z"),
    "map key": (lambda t: dk.delete_keys(t, [{"m": {"a": 1}}]), dk.InvalidInputError, "equality-key", "m"),
    "value of a map as key": (lambda t: dk.delete_keys(t, [{"m.value": 1}]),
        dk.InvalidInputError, "equality-key", "value"),
    "struct key": (lambda t: dk.delete_keys(t, [{"s": {"x": 1}}]), dk.InvalidInputError, "equality-key", "s"),
    "unknown key": (lambda t: dk.delete_keys(t, [{"nope": 1}]), dk.InvalidInputError, "column-not-found", "nope"),
    "no key": (lambda t: dk.delete_keys(t, [{}]), dk.InvalidInputError, "equality-key", "on"),
    "missing key": (
        lambda t: dk.delete_keys(t, [{"id": 1}], on=["id", "category"]),
        dk.InvalidInputError, "column-not-found", "category",
    ),
    "keys that differ": (lambda t: dk.delete_keys(t, [{"id": 1}, {"category": "a"}]),
        dk.InvalidInputError, "rows", "keys"),
    "keys of no shape": (lambda t: dk.delete_keys(t, [1, 2]), dk.InvalidInputError, "rows", "keys"),
    "text for an int key": (lambda t: dk.delete_keys(t, [{"id": "1"}]), dk.InvalidInputError, "column-type", "id"),
    "a key too large": (lambda t: dk.delete_keys(t, [{"id": 2**40}]), dk.InvalidInputError, "column-type", "id"),
    "half a key": (lambda t: dk.delete_keys(t, [{"id": 1.5}]), dk.InvalidInputError, "column-type", "id"),
    "scope": (lambda t: dk.delete_keys(t, [{"id": 1}], scope="table"), dk.InvalidInputError, "equality-scope", "scope"),
    "branch": (lambda t: dk.append(t, [{"id": 1}], ref="nope"), dk.NotFoundError, "ref-not-found", "ref"),
    "tag": (lambda t: dk.append(t, [{"id": 1}], ref="tag"), dk.InvalidInputError, "ref", "ref"),
    "null": (lambda t: dk.append(t, [{"id": None}]), dk.InvalidInputError, "null-in-required", "id"),
    "extra column": (lambda t: dk.append(t, [{"id": 1, "x": 1}]), dk.InvalidInputError, "column-not-found", "x"),
    "list of texts": (lambda t: dk.append(t, [{"id": 1, "l": ["1"]}]),
        dk.InvalidInputError, "column-type", "l.element"),
    "list for a map": (lambda t: dk.append(t, [{"id": 1, "m": [1, 2]}]), dk.InvalidInputError, "column-type", "m"),
    "assigned null": (lambda t: dk.update(t, {"id": None}, where="id = 1"),
        dk.InvalidInputError, "null-in-required", "id"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CALLS)
@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=["whole", "partitioned"])
def test_bad_calls(catalog: dk.Catalog, case: str, partition_by: list[str]) -> None:
    call, error, kind, field = BAD_CALLS[case]
    table = make(catalog, [{"id": 1, "category": "a"}], schema=KEYS, partition_by=partition_by)
    dk.create_tag(table, "tag")
    with refused(table, error, kind, field=field) as refusal:
        call(table)
    assert field in str(refusal.error)


@pytest.mark.parametrize(
    ("properties", "field"),
    [
        ({"write.delete.mode": "soft", "write.update.mode": "soft", "write.merge.mode": "soft"}, "write.{}.mode"),
        ({"write.format.default": "orc"}, "write.format.default"),
        ({"write.format.default": "AVRO"}, "write.format.default"),
        ({"write.parquet.compression-codec": "lzo"}, "write.parquet.compression-codec"),
        ({"write.target-file-size-bytes": "0"}, "write.target-file-size-bytes"),
        ({"write.target-file-size-bytes": "1 MB"}, "write.target-file-size-bytes"),
    ],
    ids=str,
)
def test_bad_properties(catalog: dk.Catalog, properties: dict[str, str], field: str) -> None:
    kind = "file-format" if "format" in field else "property"
    table = make(catalog, FIVE)
    set_by_another_writer(table, properties)
    calls: dict[str, Call] = {
        "delete": lambda t: dk.delete(t, "id = 1"),
        "update": lambda t: dk.update(t, {"value": 1.0}, where="id = 1"),
        "merge": lambda t: dk.merge(t, FIVE, on=["id"]),
    }
    if "mode" not in field:
        calls["append"] = lambda t: dk.append(t, FIVE)
    for verb, call in calls.items():
        with refused(table, dk.InvalidInputError, kind, field=field.format(verb)):
            call(table)


@pytest.mark.parametrize("written", ["orc", "avro"])
@pytest.mark.parametrize("version", [2, 3])
def test_delete_formats_that_are_not_written(catalog: dk.Catalog, version: int, written: str) -> None:
    table = make(
        catalog,
        FIVE,
        format_version=version,
        partition_by=["category"],
        properties={"write.delete.format.default": written},
    )
    calls: list[Call] = [
        lambda t: dk.delete(t, "id = 1", mode="equality-delete"),
        lambda t: dk.delete_keys(t, [{"id": 1}]),
        lambda t: dk.update(t, {"value": 1.0}, where="id = 1", mode="equality-delete"),
    ]
    if version == 2:
        calls.append(lambda t: dk.delete(t, "id = 1", mode="position-delete"))
    for call in calls:
        with refused(table, dk.InvalidInputError, "file-format", field="write.delete.format.default", found=written):
            call(table)
    dk.delete(table, "id = 1", mode="copy-on-write")  # writes no delete file
    assert len(live(table)) == 4


def test_read_only_tables(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    reader = dk.from_metadata(table.location)
    calls: list[Call] = [
        lambda t: dk.append(t, FIVE),
        lambda t: dk.delete(t, "id = 1"),
        lambda t: dk.delete_keys(t, [{"id": 1}]),
        lambda t: dk.update(t, {"value": 1.0}, where="id = 1"),
        lambda t: dk.merge(t, FIVE, on=["id"]),
        lambda t: dk.add_column(t, "x", "int"),
        lambda t: dk.add_partition_field(t, "id"),
        lambda t: dk.set_properties(t, {"a": "b"}),
        lambda t: dk.upgrade_format_version(t, 3),
        lambda t: dk.create_branch(t, "b"),
        lambda t: dk.drop_ref(t, "b"),
    ]
    for call in calls:
        with unchanged(table), raises(dk.InvalidInputError, "read-only", file=table.metadata_location):
            call(reader)


# --- table metadata ---------------------------------------------------------------------------------------------------


def test_format_version_four(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    text = json.dumps({**metadata_json(table), "format-version": 4})
    stored_at(table.metadata_location).write_text(text)
    calls: list[Callable[[], Any]] = [
        lambda: dk.load_table(catalog, table.name),
        lambda: dk.from_metadata(table.location),
        lambda: dk.append(table, FIVE),
    ]
    for call in calls:
        with pytest.raises(dk.UnsupportedError) as caught:
            call()
        error = caught.value
        assert (error.kind, error.file, error.field, error.found) == (
            "format-version", table.metadata_location, "format-version", 4,
        )  # fmt: skip
    assert stored_at(table.metadata_location).read_text() == text


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda m: json.dumps(m).encode()[:-20],
        lambda _: b"[]",
        lambda _: b"PAR1" * 20,
        lambda _: b"\x1f\x8b" + b"x" * 30,
        lambda m: json.dumps({k: v for k, v in m.items() if k != "format-version"}).encode(),
        lambda m: json.dumps({**m, "format-version": "2"}).encode(),
        lambda m: json.dumps({k: v for k, v in m.items() if k != "schemas"}).encode(),
        lambda m: json.dumps({**m, "schemas": []}).encode(),
        lambda m: json.dumps({**m, "current-schema-id": 7}).encode(),
        lambda m: json.dumps({**m, "default-spec-id": 7}).encode(),
        lambda m: json.dumps({**m, "partition-specs": [{"spec-id": 0, "fields": [{}]}]}).encode(),
        lambda m: json.dumps({**m, "refs": {"main": {"snapshot-id": 1, "type": "branch"}}}).encode(),
        lambda m: json.dumps({**m, "snapshots": [{"snapshot-id": 1}]}).encode(),
        lambda m: json.dumps({**m, "location": None}).encode(),
        lambda m: json.dumps({**m, "schemas": [{"schema-id": 0, "type": "struct", "fields": [{"id": 1}]}]}).encode(),
        lambda m: json.dumps({**m, "schemas": [with_type(m, "decimal(99, 2)")]}).encode(),
    ],
    ids=range(17),
)
def test_damaged_metadata(catalog: dk.Catalog, damage: Callable[[Any], bytes]) -> None:
    table = make(catalog, FIVE)
    stored_at(table.metadata_location).write_bytes(damage(metadata_json(table)))
    for call in (lambda: dk.load_table(catalog, table.name), lambda: dk.append(table, FIVE)):
        with pytest.raises(dk.FormatError) as caught:
            call()
        assert caught.value.kind in ("table-metadata", "schema"), caught.value
        assert caught.value.file == table.metadata_location


def with_type(metadata: dict[str, Any], kind: str) -> dict[str, Any]:
    fields = [{"id": 1, "name": "x", "type": kind, "required": False}]
    return {"schema-id": metadata["current-schema-id"], "type": "struct", "fields": fields}


def test_a_type_of_the_future(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3)
    metadata = metadata_json(table)
    stored_at(table.metadata_location).write_text(json.dumps({**metadata, "schemas": [with_type(metadata, "variant")]}))
    with raises(dk.UnsupportedError, "type", field="x", found="variant"):
        dk.scan(dk.load_table(catalog, table.name))


# --- damaged files ----------------------------------------------------------------------------------------------------


def explained(table: dk.Table) -> None:
    """Explain goes on past what cannot be read, and tells each error: raise the first."""
    for file in dk.explain(table, "true").unread:
        raise file.error


READING: dict[str, Call] = {
    "scan": lambda t: dk.scan(t).to_arrow(),
    "filtered scan": lambda t: dk.scan(t, "value > 0").to_arrow(),
    "filtered count": lambda t: dk.scan(t, "id > 0").count(),
    "explain": explained,
}
WRITING: dict[str, Call] = {
    "copy-on-write": lambda t: dk.delete(t, "id > 0 and value < 4", mode="copy-on-write"),
    "merge-on-read": lambda t: dk.delete(t, "id > 0 and value < 4", mode="merge-on-read"),
    "update": lambda t: dk.update(t, {"value": 0.0}, where="id > 0"),
    "merge": lambda t: dk.merge(t, FIVE, on=["id"]),
}
ROLES = {
    2: ("manifest list", "data manifest", "delete manifest", "data", "position delete", "equality delete"),
    3: ("manifest list", "data manifest", "delete manifest", "data", "vector", "equality delete"),
}
CASES = [(version, role) for version, roles in ROLES.items() for role in roles]


def scene(catalog: dk.Catalog, version: int) -> tuple[dk.Table, dict[str, str]]:
    """A table with every kind of file, and where they are. Live rows are 3, 4 and 5."""
    table = make(catalog, FIVE, format_version=version)
    dk.delete(table, "id = 1", mode="merge-on-read")
    dk.delete_keys(table, [{"id": 2, "category": None}])
    manifests = manifest_list(table)
    (data,) = live_files(table, 0)
    deletes = {f["content"]: f["file_path"] for f in live_files(table, 1)}
    return table, {
        "manifest list": head_json(table)["manifest-list"],
        "data manifest": manifests[0]["manifest_path"],
        "delete manifest": manifests[1]["manifest_path"],
        "data": data["file_path"],
        "position delete" if version == 2 else "vector": deletes[1],
        "equality delete": deletes[2],
    }


def check_named(error: dk.DeletekitError, path: str) -> None:
    assert error.file == path, error
    assert error.kind not in ("error", "invalid-input"), error
    assert path in str(error)


@pytest.mark.parametrize(("version", "role"), CASES)
def test_missing_files(catalog: dk.Catalog, version: int, role: str) -> None:
    table, paths = scene(catalog, version)
    stored_at(paths[role]).unlink()
    for call in (READING | WRITING).values():
        with refused(table, dk.NotFoundError, "file-not-found", file=paths[role]):
            call(table)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "one byte": lambda data: data[:1],
    "the first half": lambda data: data[: len(data) // 2],
    "without its tail": lambda data: data[:-5],
    "zeros": lambda data: bytes(len(data)),
    "noise": lambda data: random.Random(1).randbytes(len(data)),
    "without its head": lambda data: data[5:],
    "another head": lambda data: b"XXXX" + data[4:],
}


@pytest.mark.sampled(4, tier=1)
@pytest.mark.parametrize(("version", "role"), CASES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files(catalog: dk.Catalog, version: int, role: str, damage: str) -> None:
    """Found, and by name; or not needed, as the tail of a Puffin file is not, and then the rows are right."""
    table, paths = scene(catalog, version)
    file = stored_at(paths[role])
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    # A blob's place is known from the manifest, and Parquet is read from its end.
    unneeded = {"vector": ("the first half", "without its tail", "another head")}
    parquet_files = ("data", "position delete", "equality delete")
    if damage in unneeded.get(role, ("another head",) if role in parquet_files else ()):
        assert live(table) == expected(FIVE[2:])
        if damage != "another head":
            damaged = [d["error"] for d in dk.inspect(table, deletes=True)["deletes"] if "error" in d]
            assert {e["file"] for e in damaged} == {paths[role]}
        return
    for call in (READING | WRITING).values():
        with unchanged(table), pytest.raises(dk.FormatError) as caught:
            call(table)
        check_named(caught.value, paths[role])


@pytest.mark.parametrize(("version", "role"), CASES)
def test_mislabelled_files(catalog: dk.Catalog, version: int, role: str) -> None:
    """A file of one kind in the place of another."""
    table, paths = scene(catalog, version)
    place, kept = stored_at(paths[role]), stored_at(paths[role]).read_bytes()
    for other, path in paths.items():
        if other == role or {other, role} <= {"data", "equality delete", "position delete"}:
            continue
        shutil.copy(path, place)
        for call in (READING | WRITING).values():
            with unchanged(table), pytest.raises(dk.FormatError) as caught:
                call(table)
            assert caught.value.file is not None, (other, caught.value)
        place.write_bytes(kept)
    assert live(table) == expected(FIVE[2:])


@pytest.mark.parametrize(
    ("role", "other", "error", "kind"),
    [
        ("position delete", "data", dk.FormatError, "position-delete"),
        ("position delete", "equality delete", dk.FormatError, "position-delete"),
        ("equality delete", "position delete", dk.FormatError, "equality-ids"),
    ],
)
def test_parquet_of_another_kind(
    catalog: dk.Catalog, role: str, other: str, error: type[dk.DeletekitError], kind: str
) -> None:
    table, paths = scene(catalog, 2)
    shutil.copy(paths[other], paths[role])
    for call in (READING | WRITING).values():
        with refused(table, error, kind, file=paths[role]):
            call(table)


def test_a_data_file_of_another_table(catalog: dk.Catalog) -> None:
    """Its ids are those of other types: what it holds cannot be read as the table's columns."""
    table, paths = scene(catalog, 2)
    other = make(catalog, [{"x": "text"}] * 5, schema=pa.schema([("x", pa.string())]))
    shutil.copy(live_files(other, 0)[0]["file_path"], paths["data"])
    with refused(table, dk.FormatError, "column-type", file=paths["data"], field="id", found="string", expected="int"):
        dk.scan(table).to_arrow()


def test_a_data_file_without_ids(catalog: dk.Catalog) -> None:
    table, paths = scene(catalog, 2)
    pq.write_table(pa.Table.from_pylist(FIVE), paths["data"])
    with refused(table, dk.FormatError, "field-ids", file=paths["data"]):
        dk.scan(table).to_arrow()
    mapping = [{"field-id": i, "names": [name]} for i, name in enumerate(ITEMS.names, start=1)]
    dk.set_properties(table, {"schema.name-mapping.default": json.dumps(mapping)})
    dk.update_column(table, "id", type="long")  # pyarrow has made it an int64
    assert sorted(r["id"] for r in live(table)) == [3, 4, 5]
    set_by_another_writer(table, {"schema.name-mapping.default": "{"})
    with refused(table, dk.FormatError, "field-ids", field="schema.name-mapping.default"):
        dk.scan(table).to_arrow()


# --- manifests that are well-formed and wrong -------------------------------------------------------------------------


def rewrite(path: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the records of an Avro file in place."""
    with stored_at(path).open("rb") as source:
        reader = fastavro.reader(source)
        records, schema, codec = list(reader), reader.writer_schema, reader.codec
        metadata = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    change(records)
    with stored_at(path).open("wb") as sink:
        fastavro.writer(sink, fastavro.parse_schema(schema), records, codec=codec, metadata=metadata)


def entry_of(content: int, /, **changes: Any) -> Callable[[list[Row]], None]:
    """Set fields of the `data_file` of the (only) entry of some content."""

    def change(records: list[Row]) -> None:
        (record,) = [r for r in records if r["data_file"]["content"] == content]
        for name, value in changes.items():
            record["data_file"][name] = value(record["data_file"][name]) if callable(value) else value

    return change


def delete_manifest_of(table: dk.Table, content: int) -> str:

    for manifest in manifest_list(table):
        path: str = manifest["manifest_path"]
        if any(e["data_file"]["content"] == content for e in avro(path)):
            return path
    raise AssertionError(content)


@pytest.mark.parametrize(
    ("changes", "kind", "field"),
    [
        ({"content_offset": 5}, "deletion-vector-length", None),
        ({"content_offset": 0}, "deletion-vector-length", None),
        ({"content_offset": 10**6}, "deletion-vector-offset", "content_offset"),
        ({"content_offset": -1}, "manifest-entry", "content_offset"),
        ({"content_size_in_bytes": 43}, "deletion-vector-length", None),
        ({"content_size_in_bytes": 45}, "deletion-vector-length", None),
        ({"content_size_in_bytes": 10**9}, "deletion-vector-offset", "content_offset"),
        ({"content_size_in_bytes": 0}, "deletion-vector-length", None),
        ({"content_offset": None}, "manifest-entry", "content_offset"),
        ({"content_size_in_bytes": None}, "manifest-entry", "content_size_in_bytes"),
        ({"referenced_data_file": None}, "manifest-entry", "referenced_data_file"),
        ({"record_count": 2}, "deletion-vector-cardinality", "record_count"),
        ({"record_count": 0}, "deletion-vector-cardinality", "record_count"),
        ({"file_format": "PARQUET"}, None, None),
        ({"file_format": "zip"}, "file-format", "file_format"),
        ({"content": 7}, "manifest-entry", "content"),
        ({"content": 0}, "manifest", "content"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:record_count of files")
def test_entries_of_vectors(catalog: dk.Catalog, changes: dict[str, Any], kind: str | None, field: str | None) -> None:
    table, _ = scene(catalog, 3)
    rewrite(delete_manifest_of(table, 1), entry_of(1, **changes))
    for call in READING.values():
        with unchanged(table), pytest.raises(dk.FormatError) as caught:
            call(table)
        assert caught.value.file is not None
        assert kind is None or caught.value.kind == kind, caught.value
        assert field is None or caught.value.field == field, caught.value


@pytest.mark.parametrize(
    ("changes", "kind", "field"),
    [
        ({"equality_ids": None}, "manifest-entry", "equality_ids"),
        ({"equality_ids": []}, "manifest-entry", "equality_ids"),
        ({"equality_ids": [99]}, "field-id", "equality_ids"),
        ({"equality_ids": [3]}, "equality-ids", "value"),
        ({"file_format": "ORC"}, None, None),
        ({"file_format": "AVRO"}, None, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("version", [2, 3])
def test_entries_of_equality_deletes(
    catalog: dk.Catalog, version: int, changes: dict[str, Any], kind: str | None, field: str | None
) -> None:
    table, paths = scene(catalog, version)
    rewrite(delete_manifest_of(table, 2), entry_of(2, **changes))
    for name, call in READING.items():
        with unchanged(table), pytest.raises(dk.FormatError) as caught:
            call(table)
        assert caught.value.file in (paths["equality delete"], delete_manifest_of(table, 2), paths["data"]), name
        assert kind is None or caught.value.kind == kind, caught.value
        assert field is None or caught.value.field == field, caught.value


def test_two_live_vectors_of_a_data_file(catalog: dk.Catalog) -> None:
    """No reader can tell which one counts; Java refuses such a table too."""
    table, paths = scene(catalog, 3)

    def twice(records: list[Row]) -> None:
        again = {**records[0], "data_file": {**records[0]["data_file"], "file_path": f"{paths['vector']}.copy"}}
        records.append(again)

    rewrite(delete_manifest_of(table, 1), twice)
    for call in (READING | WRITING).values():
        with refused(table, dk.FormatError, "duplicate-deletion-vector", file=paths["data"]) as refusal:
            call(table)
        assert refusal.error.expected == "at most one"


def test_a_vector_in_another_partition_than_its_data(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3, partition_by=["category"])
    dk.delete(table, "id = 1", mode="deletion-vector")
    rewrite(delete_manifest_of(table, 1), entry_of(1, partition={"category": "b"}))
    for call in (READING | WRITING).values():
        with refused(table, dk.FormatError, "delete-partition", field="partition"):
            call(table)


def test_a_vector_older_than_its_data(catalog: dk.Catalog) -> None:
    """The data would have to be of a number that its manifest cannot have."""
    table, _ = scene(catalog, 3)

    def newer(records: list[Row]) -> None:
        records[0] |= {"status": 0, "sequence_number": 9, "file_sequence_number": 9}

    (data_manifest,) = [m["manifest_path"] for m in manifest_list(table) if m["content"] == 0]
    rewrite(data_manifest, newer)
    with refused(table, dk.FormatError, "manifest-entry", file=data_manifest, field="sequence_number"):
        dk.scan(table).to_arrow()


def test_data_in_a_delete_manifest(catalog: dk.Catalog) -> None:
    table, paths = scene(catalog, 2)

    def swapped(records: list[Row]) -> None:
        for record in records:
            record["content"] = 1 - record["content"]

    rewrite(paths["manifest list"], swapped)
    with refused(table, dk.FormatError, "manifest", field="content"):
        dk.scan(table).to_arrow()


def test_a_spec_that_the_table_lacks(catalog: dk.Catalog) -> None:
    table, paths = scene(catalog, 2)
    rewrite(paths["manifest list"], lambda records: records[0].update(partition_spec_id=9))
    with refused(table, dk.FormatError, "partition-spec", field="partition_spec_id", found=9):
        dk.scan(table).to_arrow()


def test_added_entries_with_a_sequence_number_missing(catalog: dk.Catalog) -> None:
    """Only an added entry may leave its sequence number to be inherited."""
    table, paths = scene(catalog, 2)
    rewrite(paths["data manifest"], lambda records: records[0].update(status=0))
    with refused(table, dk.FormatError, "manifest-entry", file=paths["data manifest"]):
        dk.scan(table).to_arrow()


@pytest.mark.filterwarnings("ignore:record_count of files")
@pytest.mark.parametrize("count", [4, 6])
def test_a_record_count_that_is_not_the_files(catalog: dk.Catalog, count: int) -> None:
    """`count` believes it, where rows are read the file speaks."""
    table, paths = scene(catalog, 2)
    rewrite(paths["data manifest"], entry_of(0, record_count=count))
    assert len(live(table)) == 3


@pytest.mark.parametrize(
    ("mode", "near"),
    [
        *(("mor", "merge-on-read"), ("merge_on_read", "merge-on-read"), ("Deletion-Vector", "deletion-vector")),
        *(("dv", "deletion-vector"), ("cow", "copy-on-write"), ("nothing like it", None)),
    ],
)
def test_a_mode_of_another_name_gets_the_nearest_one(catalog: dk.Catalog, mode: str, near: str | None) -> None:
    table = make(catalog, items((1, "a", 0.5)))
    with refused(table, dk.InvalidInputError, "mode", found=mode) as caught:
        dk.delete(table, "id = 1", mode=mode)
    assert (f"did you mean {near}?" in str(caught.error.expected)) == (near is not None)
