"""VERIFY, what is in files: Puffin bytes, position and equality delete files, data files, each broken on disk."""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import ANY

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from deletekit.formats.reserved_fields import POS_ID
from tests.maintenance.damage import (
    Case,
    Change,
    edit_bytes,
    edit_file,
    edit_parquet,
    findings,
    found,
    put_back,
    resized,
    with_metadata,
)
from tests.storage import stored_at
from tests.stored import live_files
from tests.tables import items, make, new_catalog

ROWS = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, "c", 5.0), (6, "b", float("nan")))
INT = struct.Struct("<i")
Tables = dict[str, dk.Table]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """Sound tables; a test that breaks a file puts it back.

    `vectors` is of v3: two data files, whose deletion vectors share a Puffin file. The others are of v2: `positions`
    has one position delete file of two data files, `position` one of one data file, `keys` one global equality delete
    file, and partitions by category.
    """
    with new_catalog(tmp_path_factory.mktemp("files")) as catalog:
        made = {
            "vectors": make(catalog, ROWS, ROWS, format_version=3),
            "positions": make(catalog, ROWS, ROWS, format_version=2),
            "position": make(catalog, ROWS, format_version=2),
            "keys": make(catalog, ROWS, format_version=2, partition_by=["category"]),
        }
        where, one = "id in (1, 2, 3)", LocalEngine(1)
        dk.delete(made["vectors"], where, mode="deletion-vector", engine=one)
        dk.delete(made["positions"], where, mode="position-delete", granularity="partition", engine=one)
        dk.delete(made["position"], where, mode="position-delete", granularity="file")
        dk.delete_keys(made["keys"], [{"id": 1, "category": "a"}, {"id": 2, "category": None}], scope="global")
        yield made


def file_of(table: dk.Table, content: int) -> str:
    return str(live_files(table, content)[0]["file_path"])


def gone(content: int) -> Change:
    def change(table: dk.Table) -> str:
        stored_at(path := file_of(table, content)).unlink()
        return path

    return change


def entry(content: int, **fields: Any) -> Change:
    """Change the manifest entry of the first data or delete file."""
    return lambda table: edit_file(table, content, **fields)


def in_bytes(content: int, edit: Callable[[bytearray], Any]) -> Change:
    def change(table: dk.Table) -> str:
        edit_bytes(path := file_of(table, content), edit)
        return path

    return change


def in_vector(at: int, edit: Callable[[bytes], bytes], *, crc: bool = True) -> Change:
    """Change four bytes of the first vector, counted from its beginning, its checksum along with them."""

    def change(table: dk.Table) -> str:
        vector = live_files(table, 1)[0]
        start, size = vector["content_offset"], vector["content_size_in_bytes"]
        path = str(vector["file_path"])
        data = bytearray(stored_at(path).read_bytes())
        data[start + at : start + at + 4] = edit(bytes(data[start + at : start + at + 4]))
        if crc:
            body = data[start + 4 : start + size - 4]
            data[start + size - 4 : start + size] = struct.pack(">I", zlib.crc32(body))
        stored_at(path).write_bytes(data)
        return path

    return change


def in_rows(content: int, edit: Callable[[pa.Table], pa.Table], metadata: Any = None) -> Change:
    """Write the rows of the first file again, otherwise."""

    def change(table: dk.Table) -> str:
        path = file_of(table, content)
        resized(table, content, edit_parquet(path, edit, metadata))
        return path

    return change


def as_text(name: str) -> Callable[[pa.Table], pa.Table]:
    def change(t: pa.Table) -> pa.Table:
        at = t.schema.get_field_index(name)
        return t.set_column(at, t.schema.field(at).with_type(pa.string()), t[name].cast(pa.string()))

    return change


def without_ids(t: pa.Table) -> pa.Table:
    return pa.table(dict(zip(t.column_names, t.columns, strict=True)))


def a_null_id(table: dk.Table) -> str:
    def change(t: pa.Table) -> pa.Table:
        nulls = pc.if_else(pc.equal(t["id"], 4), pa.scalar(None, pa.int32()), t["id"])
        return t.set_column(0, t.schema.field("id").with_nullable(True), nulls)

    path = in_rows(0, change)(table)
    edit_file(table, 0, null_value_counts=None)
    return path


def null_positions(t: pa.Table) -> pa.Table:
    return t.set_column(1, t.schema.field(1).with_nullable(True), pa.array([None] * len(t), pa.int64()))


def bound_of_position(table: dk.Table) -> str:
    lower = live_files(table, 1)[0]["lower_bounds"]
    return edit_file(
        table, 1, lower_bounds=[b if b["key"] != POS_ID else b | {"value": struct.pack("<q", 1)} for b in lower]
    )


def of_another(table: dk.Table) -> str:
    return edit_file(table, 1, referenced_data_file=file_of(table, 0))


ROWS_COUNTED = {"value_counts": None, "null_value_counts": None, "nan_value_counts": None}
CASES: dict[str, tuple[str, Case]] = {
    **{
        f"{name}, content {content}": case
        for content in (0, 1)
        for name, case in {
            "gone": ("keys", Case(gone(content), "missing-file", "file_path", unseen="metadata")),
            "another size": ("keys", Case(entry(content, file_size_in_bytes=10**6), "file-size", found=10**6)),
            "damaged": (
                "keys",
                Case(in_bytes(content, lambda data: data[:-4] + b"LIAR"), "unreadable-file", level="deletes"),
            ),
            "encrypted": (
                "keys",
                Case(entry(content, key_metadata=b"key"), "not-checked", "key_metadata", severity="warning"),
            ),
        }.items()
    },
    "damage within the rows": (
        "keys",
        Case(in_bytes(0, lambda data: data[:4] + bytes(60) + data[64:]), "unreadable-file", unseen="deletes"),
    ),
    # Puffin
    "length": (
        "vectors",
        Case(
            in_vector(0, lambda b: struct.pack(">I", struct.unpack(">I", b)[0] + 1), crc=False),
            "deletion-vector",
            "length",
        ),
    ),
    "magic": ("vectors", Case(in_vector(4, lambda _: b"WRNG"), "deletion-vector", "magic")),
    "bitmaps": ("vectors", Case(in_vector(8, lambda _: b"\xff\xff\xff\xff"), "deletion-vector")),
    "checksum": ("vectors", Case(in_vector(8, lambda _: b"\x02\x00\x00\x00", crc=False), "deletion-vector", "crc")),
    "outside": ("vectors", Case(entry(1, content_offset=10**6), "deletion-vector", "content_offset", beside=None)),
    "cardinality": (
        "vectors",
        Case(entry(1, record_count=2), "record-count", ANY, 2, 3, beside=frozenset({"manifest-count"})),
    ),
    "bound of a vector": (
        "vectors",
        Case(entry(1, upper_bounds=[{"key": POS_ID, "value": bytes(8)}]), "bounds", "upper_bounds.pos"),
    ),
    **{
        f"footer, {name}": (
            "vectors",
            Case(in_bytes(1, edit), "puffin-footer", repair="puffin-footer", beside=frozenset({"file-size"})),
        )
        for name, edit in {
            "end magic": lambda data: data[:-4] + b"NOPE",
            "start magic": lambda data: b"NOPE" + data[4:],
            "flags": lambda data: data[:-8] + b"\xff\xff\xff\xff" + data[-4:],
            "json": lambda data: data.replace(b'{"blobs"', b'?"blobs"'),
            "cut off": lambda data: data[:-20],
        }.items()
    },
    **{
        f"blob, {field}": (
            "vectors",
            Case(in_bytes(1, lambda data, b=before, a=after: data.replace(b, a, 1)), "puffin-blob", field),
        )
        for field, before, after in (
            ("type", b"deletion-vector-v1", b"deletion-vector-v2"),
            ("cardinality", b'"cardinality":"3"', b'"cardinality":"4"'),
            ("content_offset", b'"offset":4,', b'"offset":5,'),
            ("referenced-data-file", b"referenced-data-file", b"referenced-data-fild"),
        )
    },
    # position delete files
    "out of order": (
        "positions",
        Case(in_rows(1, lambda t: t.take([1, 0, 2, 3, 4, 5])), "delete-order", found="row 1"),
    ),
    "paths out of order": (
        "positions",
        Case(
            in_rows(1, lambda t: t.sort_by([("file_path", "descending"), ("pos", "ascending")])),
            "delete-order",
            found="row 3",
        ),
    ),
    "fewer deletes": ("positions", Case(in_rows(1, lambda t: t.slice(0, 5)), "record-count", ANY, 6, 5)),
    "no reserved ids": ("positions", Case(in_rows(1, without_ids), "field-ids", number=2)),
    "another kind": ("positions", Case(in_rows(1, lambda t: t, {b"delete-type": b"equality"}), "delete-type")),
    "another file": ("positions", Case(of_another, "delete-scope")),
    "bound of positions": ("position", Case(bound_of_position, "bounds", "lower_bounds.pos", struct.pack("<q", 1))),
    "null positions": ("positions", Case(in_rows(1, null_positions), "unreadable-file")),
    # equality delete files
    "no key": ("keys", Case(in_rows(1, lambda t: t.select(["id"])), "equality-column", "category")),
    "key of another type": ("keys", Case(in_rows(1, as_text("id")), "column-type", "id", number=ANY)),
    "keys without ids": ("keys", Case(in_rows(1, without_ids), "field-ids")),
    # data files
    "more rows counted": (
        "vectors",
        Case(entry(0, record_count=7, **ROWS_COUNTED), "record-count", ANY, 7, 6, beside=None, level="deletes"),
    ),
    "split offsets": ("vectors", Case(entry(0, split_offsets=[5]), "split-offsets", ANY, [5], [4], level="deletes")),
    "no field ids": ("vectors", Case(in_rows(0, without_ids), "field-ids", level="deletes")),
    "null in a required column": ("vectors", Case(a_null_id, "required-null", "id", 1)),
    "column of another type": ("vectors", Case(in_rows(0, as_text("value")), "column-type", "value")),
}
METRICS: dict[str, tuple[str, dict[str, Any]]] = {
    "value_counts.id": ("value-count", {"value_counts": [{"key": 1, "value": 9}]}),
    "null_value_counts.category": ("null-count", {"null_value_counts": [{"key": 2, "value": 0}]}),
    "lower_bounds.id": ("bounds", {"lower_bounds": [{"key": 1, "value": INT.pack(2)}]}),
    "upper_bounds.id": ("bounds", {"upper_bounds": [{"key": 1, "value": INT.pack(1)}]}),
    "upper_bounds.category": ("bounds", {"upper_bounds": [{"key": 2, "value": b"A"}]}),
}
DATA_METRICS = METRICS | {
    "nan_value_counts.value": ("nan-count", {"nan_value_counts": [{"key": 3, "value": 0}]}),
    "lower_bounds.value": ("bounds", {"lower_bounds": [{"key": 3, "value": struct.pack("<d", 1.5)}]}),
    "lower_bounds.category": ("bounds", {"lower_bounds": [{"key": 2, "value": b"aa"}]}),
}
for field, (kind, fields) in METRICS.items():
    CASES[f"deletes, {field}"] = ("keys", Case(entry(1, **fields), kind, field, beside=None, level="deletes"))
for field, (kind, fields) in DATA_METRICS.items():
    CASES[f"data, {field}"] = ("vectors", Case(entry(0, **fields), kind, field, beside=None))


@pytest.mark.parametrize("name", CASES)
def test_a_damage_is_found(tables: Tables, name: str) -> None:
    kind, case = CASES[name]
    case.check(tables[kind])


RIGHT: dict[str, tuple[str, Change]] = {
    "loose text": (
        "vectors",
        entry(0, lower_bounds=[{"key": 2, "value": b""}], upper_bounds=[{"key": 2, "value": b"d"}]),
    ),
    "absent": ("vectors", entry(0, lower_bounds=None, upper_bounds=None, nan_value_counts=None)),
    "loose numbers": (
        "vectors",
        entry(0, lower_bounds=[{"key": 1, "value": INT.pack(-9)}], upper_bounds=[{"key": 1, "value": INT.pack(9)}]),
    ),
    "loose bound of a vector": (
        "vectors",
        entry(1, upper_bounds=[{"key": POS_ID, "value": (10**6).to_bytes(8, "little")}]),
    ),
    "position twice": ("positions", in_rows(1, lambda t: t.take([0, 0, 1, 3, 4, 4]))),
    **{name: (name, lambda _: "") for name in ("vectors", "positions", "position", "keys")},
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_found(tables: Tables, name: str) -> None:
    kind, change = RIGHT[name]
    with put_back(tables[kind]):
        change(tables[kind])
        assert [str(f) for f in findings(tables[kind]) if f.severity == "error"] == []


def test_a_name_mapping_stands_for_field_ids(tables: Tables) -> None:
    mapping = '[{"field-id":1,"names":["id"]},{"field-id":2,"names":["category"]},{"field-id":3,"names":["value"]}]'
    with put_back(table := tables["vectors"]):
        in_rows(0, without_ids)(table)
        named = with_metadata(table, lambda raw: raw["properties"].update({"schema.name-mapping.default": mapping}))
        assert [f for f in findings(named) if f.severity == "error"] == []


def test_positions_behind_the_last_row(tables: Tables) -> None:
    with put_back(table := tables["vectors"]):
        data = edit_file(table, 0, record_count=2)
        seen = [f for f in findings(table, level="deletes") if f.kind == "position-out-of-range"]
        assert {f.severity for f in seen} == {"warning"}
        assert {(f.field, f.found, f.expected) for f in seen if f.field == "pos"} == {("pos", 2, "< 2")}
        assert all(data in f.message or data in str(f.expected) for f in seen)


def test_the_sign_of_zero_counts(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", -0.0), (2, "a", 0.0)), format_version=2)
    assert findings(table) == ()
    path = edit_file(table, 0, lower_bounds=[{"key": 3, "value": struct.pack("<d", 0.0)}])
    assert found(findings(table), "bounds").file == path


@pytest.mark.parametrize("transform", ["category", "bucket(4, id)", "truncate(2, id)"])
def test_a_row_of_another_partition(catalog: dk.Catalog, transform: str) -> None:
    table = make(catalog, ROWS[:1], format_version=2, partition_by=[transform])
    assert findings(table) == ()

    def change(t: pa.Table) -> pa.Table:
        return t.set_column(0, t.schema.field("id"), pa.array([77], pa.int32())).set_column(
            1, t.schema.field("category"), pa.array(["zz"])
        )

    path = in_rows(0, change)(table)
    edit_file(table, 0, lower_bounds=None, upper_bounds=None)
    assert found(findings(table), "partition-value").file == path


def test_row_ids_that_nobody_gave_out(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=3)
    dk.update(table, {"value": 0.0}, where="id = 1", mode="copy-on-write")
    assert findings(table) == ()
    limit = table.metadata.next_row_id

    def change(t: pa.Table) -> pa.Table:
        at = t.schema.get_field_index("_row_id")
        return t.set_column(at, t.schema.field(at), pa.array([limit] * len(t), pa.int64()))

    path = in_rows(0, change)(table)
    finding = found(findings(table), "row-id")
    assert (finding.file, finding.field, finding.found) == (path, "_row_id", limit)


def test_files_of_older_snapshots_are_looked_for_but_not_opened(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=2)
    path = file_of(table, 0)
    dk.update(table, {"value": 0.0}, where="id = 1", mode="copy-on-write")
    stored_at(path).write_bytes(b"x" * stored_at(path).stat().st_size)
    assert findings(table, snapshots="all") == ()
    first = min(table.metadata.snapshots.values(), key=lambda s: s.sequence_number)
    assert found(findings(table, snapshots=[first.snapshot_id]), "unreadable-file").file == path
    stored_at(path).unlink()
    finding = found(findings(table, snapshots="all"), "missing-file")
    assert finding.snapshot_ids == (first.snapshot_id,)
