"""VERIFY, what is in files: Puffin bytes, position and equality delete files, data files, each broken on disk."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import deletekit as dk
from deletekit.engines.local import LocalEngine
from deletekit.formats.reserved_fields import POS_ID
from tests.maintenance.damage import (
    edit_bytes,
    edit_file,
    edit_parquet,
    findings,
    found,
    head_id,
    put_back,
    resized,
    with_metadata,
)
from tests.storage import stored_at
from tests.tables import items, live_files, make, new_catalog

ROWS = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, "c", 5.0), (6, "b", float("nan")))
INT = struct.Struct("<i")


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Catalog]:
    with new_catalog(tmp_path_factory.mktemp("files")) as catalog:
        yield catalog


@pytest.fixture(scope="module")
def vectors_made(catalogs: dk.Catalog) -> dk.Table:
    """v3: two data files, whose deletion vectors share a Puffin file."""
    table = make(catalogs, ROWS, ROWS, format_version=3)
    dk.delete(table, "id in (1, 2, 3)", mode="deletion-vector", engine=LocalEngine(1))
    return table


@pytest.fixture(scope="module")
def positions_made(catalogs: dk.Catalog) -> dk.Table:
    """v2: one position delete file of two data files."""
    table = make(catalogs, ROWS, ROWS, format_version=2)
    dk.delete(table, "id in (1, 2, 3)", mode="position-delete", granularity="partition", engine=LocalEngine(1))
    return table


@pytest.fixture(scope="module")
def position_made(catalogs: dk.Catalog) -> dk.Table:
    """v2: a position delete file of one data file."""
    table = make(catalogs, ROWS, format_version=2)
    dk.delete(table, "id in (1, 2, 3)", mode="position-delete", granularity="file")
    return table


@pytest.fixture(scope="module")
def keys_made(catalogs: dk.Catalog) -> dk.Table:
    """v2, partitioned by category: one global equality delete file."""
    table = make(catalogs, ROWS, format_version=2, partition_by=["category"])
    dk.delete_keys(table, [{"id": 1, "category": "a"}, {"id": 2, "category": None}], scope="global")
    return table


@pytest.fixture
def vectors(vectors_made: dk.Table) -> Iterator[dk.Table]:
    with put_back(vectors_made):
        yield vectors_made


@pytest.fixture
def positions(positions_made: dk.Table) -> Iterator[dk.Table]:
    with put_back(positions_made):
        yield positions_made


@pytest.fixture
def position(position_made: dk.Table) -> Iterator[dk.Table]:
    with put_back(position_made):
        yield position_made


@pytest.fixture
def keys(keys_made: dk.Table) -> Iterator[dk.Table]:
    with put_back(keys_made):
        yield keys_made


def file_of(table: dk.Table, content: int) -> str:
    return str(live_files(table, content)[0]["file_path"])


def test_they_are_sound(vectors: dk.Table, positions: dk.Table, position: dk.Table, keys: dk.Table) -> None:
    for table in (vectors, positions, position, keys):
        assert findings(table, snapshots="all") == ()


# --- any file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [0, 1])
def test_a_file_that_is_gone(keys: dk.Table, content: int) -> None:
    path = file_of(keys, content)
    stored_at(path).unlink()
    finding = found(findings(keys), "missing-file")
    assert (finding.file, finding.field, finding.snapshot_ids) == (path, "file_path", (head_id(keys),))
    assert findings(keys, level="metadata") == (), "which looks at no data or delete file"


@pytest.mark.parametrize("content", [0, 1])
def test_a_file_of_another_size(keys: dk.Table, content: int) -> None:
    size = stored_at(file_of(keys, content)).stat().st_size
    path = edit_file(keys, content, file_size_in_bytes=10**6)
    finding = found(findings(keys), "file-size")
    assert (finding.file, finding.found, finding.expected) == (path, 10**6, size)


@pytest.mark.parametrize("content", [0, 1])
@pytest.mark.parametrize("level", ["deletes", "data"])
def test_a_file_that_is_damaged(keys: dk.Table, content: int, level: str) -> None:
    path = file_of(keys, content)
    edit_bytes(path, lambda data: data[:-4] + b"LIAR")
    assert found(findings(keys, level=level), "unreadable-file").file == path


def test_damage_within_the_rows_shows_when_they_are_read(keys: dk.Table) -> None:
    path = file_of(keys, 0)
    edit_bytes(path, lambda data: data[:4] + bytes(60) + data[64:])
    assert findings(keys, level="deletes") == ()
    assert found(findings(keys, level="data"), "unreadable-file").file == path


@pytest.mark.parametrize("content", [0, 1])
def test_an_encrypted_file_is_said_to_be_unchecked(keys: dk.Table, content: int) -> None:
    path = edit_file(keys, content, key_metadata=b"key")
    finding = found(findings(keys), "not-checked", "warning")
    assert (finding.file, finding.field) == (path, "key_metadata")


# --- Puffin -----------------------------------------------------------------------------------------------------------


def in_vector(table: dk.Table, at: int, change: Callable[[bytes], bytes], *, crc: bool = True) -> str:
    """Change bytes of the first vector, counted from its beginning, its checksum along with them."""
    vector = live_files(table, 1)[0]
    start, size = vector["content_offset"], vector["content_size_in_bytes"]
    path = str(vector["file_path"])
    data = bytearray(stored_at(path).read_bytes())
    data[start + at : start + at + 4] = change(bytes(data[start + at : start + at + 4]))
    if crc:
        body = data[start + 4 : start + size - 4]
        data[start + size - 4 : start + size] = struct.pack(">I", zlib.crc32(body))
    stored_at(path).write_bytes(data)
    return path


VECTOR_CASES: dict[str, tuple[str, int, Callable[[bytes], bytes], bool]] = {
    "length": ("length", 0, lambda b: struct.pack(">I", struct.unpack(">I", b)[0] + 1), False),
    "magic": ("magic", 4, lambda _: b"WRNG", True),
    "bitmaps": ("bitmap count", 8, lambda _: b"\xff\xff\xff\xff", True),
    "checksum": ("crc", 8, lambda _: b"\x02\x00\x00\x00", False),
}


@pytest.mark.parametrize("case", VECTOR_CASES)
def test_a_damaged_vector(vectors: dk.Table, case: str) -> None:
    field, at, change, crc = VECTOR_CASES[case]
    path = in_vector(vectors, at, change, crc=crc)
    seen = [f for f in findings(vectors) if f.kind == "deletion-vector"]
    assert len(seen) == 1, "the other vector of the file is whole"
    assert seen[0].file == path
    if case != "bitmaps":
        assert seen[0].field == field
    assert seen[0].repair is None


def test_a_vector_outside_its_file(vectors: dk.Table) -> None:
    path = edit_file(vectors, 1, content_offset=10**6)
    finding = next(f for f in findings(vectors) if f.kind == "deletion-vector")
    assert (finding.file, finding.field) == (path, "content_offset")


def test_another_cardinality(vectors: dk.Table) -> None:
    path = edit_file(vectors, 1, record_count=2)
    seen = findings(vectors)
    finding = next(f for f in seen if f.kind == "record-count")
    assert (finding.file, finding.found, finding.expected) == (path, 2, 3)
    assert {f.kind for f in seen if f.severity == "error"} == {"record-count", "manifest-count"}


@pytest.mark.parametrize(("bound", "kinds"), [(0, {"bounds"}), (10**6, set())])
def test_a_bound_of_a_vector_leaves_no_position_out(vectors: dk.Table, bound: int, kinds: set[str]) -> None:
    path = edit_file(vectors, 1, upper_bounds=[{"key": POS_ID, "value": bound.to_bytes(8, "little")}])
    seen = findings(vectors)
    assert {(f.kind, f.severity, f.file, f.field) for f in seen} == {
        (k, "error", path, "upper_bounds.pos") for k in kinds
    }


FOOTERS: dict[str, Callable[[bytearray], Any]] = {
    "end magic": lambda data: data[:-4] + b"NOPE",
    "start magic": lambda data: b"NOPE" + data[4:],
    "flags": lambda data: data[:-8] + b"\xff\xff\xff\xff" + data[-4:],
    "json": lambda data: data.replace(b'{"blobs"', b'?"blobs"'),
    "cut off": lambda data: data[:-20],
}


@pytest.mark.parametrize("case", FOOTERS)
def test_a_puffin_file_without_a_readable_footer(vectors: dk.Table, case: str) -> None:
    path = file_of(vectors, 1)
    edit_bytes(path, FOOTERS[case])
    size = stored_at(path).stat().st_size
    seen = [f for f in findings(vectors) if f.kind != "file-size"]
    assert [(f.kind, f.file, f.repair) for f in seen] == [("puffin-footer", path, "puffin-footer")]
    assert size == live_files(vectors, 1)[0]["file_size_in_bytes"] or case == "cut off"


BLOBS: dict[str, tuple[str, bytes, bytes]] = {
    "type": ("type", b"deletion-vector-v1", b"deletion-vector-v2"),
    "cardinality": ("cardinality", b'"cardinality":"3"', b'"cardinality":"4"'),
    "offset": ("content_offset", b'"offset":4,', b'"offset":5,'),
    "property": ("referenced-data-file", b"referenced-data-file", b"referenced-data-fild"),
}


@pytest.mark.parametrize("case", BLOBS)
def test_a_footer_that_says_something_else(vectors: dk.Table, case: str) -> None:
    field, before, after = BLOBS[case]
    path = file_of(vectors, 1)
    edit_bytes(path, lambda data: data.replace(before, after, 1))
    finding = found(findings(vectors), "puffin-blob")
    assert (finding.file, finding.field, finding.repair) == (path, field, None)


def test_positions_behind_the_last_row(vectors: dk.Table) -> None:
    data = edit_file(vectors, 0, record_count=2)
    seen = [f for f in findings(vectors, level="deletes") if f.kind == "position-out-of-range"]
    assert {f.severity for f in seen} == {"warning"}
    assert {(f.field, f.found, f.expected) for f in seen if f.field == "pos"} == {("pos", 2, "< 2")}
    assert all(data in f.message or data in str(f.expected) for f in seen)


# --- position delete files --------------------------------------------------------------------------------------------


def rewritten(table: dk.Table, change: Callable[[pa.Table], pa.Table], metadata: Any = None) -> str:
    path = file_of(table, 1)
    resized(table, 1, edit_parquet(path, change, metadata))
    return path


def test_position_deletes_out_of_order(positions: dk.Table) -> None:
    path = rewritten(positions, lambda t: t.take([1, 0, 2, 3, 4, 5]))
    finding = found(findings(positions), "delete-order")
    assert (finding.file, finding.found) == (path, "row 1")
    rewritten(positions, lambda t: t.sort_by([("file_path", "descending"), ("pos", "ascending")]))
    assert found(findings(positions), "delete-order").found == "row 3"


def test_duplicate_positions_are_legal(positions: dk.Table) -> None:
    rewritten(positions, lambda t: t.take([0, 0, 1, 3, 4, 4]))
    assert [f for f in findings(positions) if f.severity == "error"] == []


def test_other_rows_than_counted(positions: dk.Table) -> None:
    path = rewritten(positions, lambda t: t.slice(0, 5))
    finding = found(findings(positions), "record-count")
    assert (finding.file, finding.found, finding.expected) == (path, 6, 5)


def test_columns_without_the_reserved_ids(positions: dk.Table) -> None:
    path = rewritten(positions, lambda t: pa.table({"file_path": t["file_path"], "pos": t["pos"]}))
    seen = [f for f in findings(positions) if f.severity == "error"]
    assert {(f.kind, f.file, f.field) for f in seen} == {("field-ids", path, "file_path"), ("field-ids", path, "pos")}


def test_a_position_delete_file_that_says_it_is_of_another_kind(positions: dk.Table) -> None:
    path = rewritten(positions, lambda t: t, {b"delete-type": b"equality"})
    assert found(findings(positions), "delete-type").file == path


def test_a_delete_of_one_file_that_names_another(positions: dk.Table) -> None:
    data = file_of(positions, 0)
    path = edit_file(positions, 1, referenced_data_file=data)
    finding = found(findings(positions), "delete-scope")
    assert (finding.file, finding.expected) == (path, data)
    assert finding.found != data


def test_bounds_of_positions(position: dk.Table) -> None:
    delete = live_files(position, 1)[0]
    lower = [b if b["key"] != 2147483545 else b | {"value": struct.pack("<q", 1)} for b in delete["lower_bounds"]]
    path = edit_file(position, 1, lower_bounds=lower)
    finding = found(findings(position), "bounds")
    assert (finding.file, finding.field, finding.found) == (path, "lower_bounds.pos", struct.pack("<q", 1))


def test_null_positions(positions: dk.Table) -> None:
    path = rewritten(
        positions,
        lambda t: t.set_column(1, t.schema.field(1).with_nullable(True), pa.array([None] * len(t), pa.int64())),
    )
    assert found(findings(positions), "unreadable-file").file == path


# --- equality delete files --------------------------------------------------------------------------------------------


def test_an_equality_delete_file_without_a_key(keys: dk.Table) -> None:
    path = rewritten(keys, lambda t: t.select(["id"]))
    finding = found(findings(keys), "equality-column")
    assert (finding.file, finding.field) == (path, "category")


def test_a_key_of_another_type(keys: dk.Table) -> None:
    path = rewritten(
        keys, lambda t: t.set_column(0, t.schema.field("id").with_type(pa.string()), t["id"].cast(pa.string()))
    )
    seen = [f for f in findings(keys) if f.severity == "error"]
    assert {(f.kind, f.file, f.field) for f in seen} == {("column-type", path, "id")}


def test_keys_without_field_ids(keys: dk.Table) -> None:
    path = rewritten(keys, lambda t: pa.table({"id": t["id"], "category": t["category"]}))
    assert found(findings(keys), "field-ids").file == path


METRICS: dict[str, tuple[str, dict[str, Any]]] = {
    "value_counts.id": ("value-count", {"value_counts": [{"key": 1, "value": 9}]}),
    "null_value_counts.category": ("null-count", {"null_value_counts": [{"key": 2, "value": 0}]}),
    "lower_bounds.id": ("bounds", {"lower_bounds": [{"key": 1, "value": INT.pack(2)}]}),
    "upper_bounds.id": ("bounds", {"upper_bounds": [{"key": 1, "value": INT.pack(1)}]}),
    "upper_bounds.category": ("bounds", {"upper_bounds": [{"key": 2, "value": b"A"}]}),
}


@pytest.mark.parametrize("field", METRICS)
def test_metrics_of_deleted_rows(keys: dk.Table, field: str) -> None:
    kind, change = METRICS[field]
    path = edit_file(keys, 1, **change)
    finding = next(f for f in findings(keys, level="deletes") if f.kind == kind)
    assert (finding.severity, finding.file, finding.field) == ("error", path, field)


# --- data files -------------------------------------------------------------------------------------------------------


def test_another_number_of_rows(vectors: dk.Table) -> None:
    path = edit_file(vectors, 0, record_count=7, value_counts=None, null_value_counts=None, nan_value_counts=None)
    finding = next(f for f in findings(vectors, level="deletes") if f.kind == "record-count")
    assert (finding.file, finding.found, finding.expected) == (path, 7, 6)


def test_split_offsets_where_no_row_group_begins(vectors: dk.Table) -> None:
    path = edit_file(vectors, 0, split_offsets=[5])
    finding = found(findings(vectors, level="deletes"), "split-offsets")
    assert (finding.file, finding.found, finding.expected) == (path, [5], [4])


def test_a_data_file_without_field_ids(vectors: dk.Table) -> None:
    path = file_of(vectors, 0)
    resized(vectors, 0, edit_parquet(path, lambda t: pa.table(dict(zip(t.column_names, t.columns, strict=True)))))
    assert found(findings(vectors, level="deletes"), "field-ids").file == path
    mapping = '[{"field-id":1,"names":["id"]},{"field-id":2,"names":["category"]},{"field-id":3,"names":["value"]}]'
    named = with_metadata(vectors, lambda raw: raw["properties"].update({"schema.name-mapping.default": mapping}))
    assert [f for f in findings(named) if f.severity == "error"] == []


DATA_METRICS = METRICS | {
    "nan_value_counts.value": ("nan-count", {"nan_value_counts": [{"key": 3, "value": 0}]}),
    "lower_bounds.value": ("bounds", {"lower_bounds": [{"key": 3, "value": struct.pack("<d", 1.5)}]}),
    "lower_bounds.category": ("bounds", {"lower_bounds": [{"key": 2, "value": b"aa"}]}),
}


@pytest.mark.parametrize("field", DATA_METRICS)
def test_metrics_of_data(vectors: dk.Table, field: str) -> None:
    kind, change = DATA_METRICS[field]
    path = edit_file(vectors, 0, **change)
    finding = next(f for f in findings(vectors) if f.kind == kind)
    assert (finding.severity, finding.file, finding.field) == ("error", path, field)
    assert [f for f in findings(vectors, level="deletes") if f.kind == kind] == []


@pytest.mark.parametrize(
    "bounds",
    [
        {"lower_bounds": [{"key": 2, "value": b""}], "upper_bounds": [{"key": 2, "value": b"d"}]},
        {"lower_bounds": None, "upper_bounds": None, "nan_value_counts": None},
        {"lower_bounds": [{"key": 1, "value": INT.pack(-9)}], "upper_bounds": [{"key": 1, "value": INT.pack(9)}]},
    ],
)
def test_loose_or_absent_bounds_are_right(vectors: dk.Table, bounds: dict[str, Any]) -> None:
    edit_file(vectors, 0, **bounds)
    assert findings(vectors) == ()


def test_the_sign_of_zero_counts(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", -0.0), (2, "a", 0.0)), format_version=2)
    assert findings(table) == ()
    path = edit_file(table, 0, lower_bounds=[{"key": 3, "value": struct.pack("<d", 0.0)}])
    assert found(findings(table), "bounds").file == path


def test_nulls_in_a_required_column(vectors: dk.Table) -> None:
    path = file_of(vectors, 0)

    def change(t: pa.Table) -> pa.Table:
        nulls = pc.if_else(pc.equal(t["id"], 4), pa.scalar(None, pa.int32()), t["id"])
        return t.set_column(0, t.schema.field("id").with_nullable(True), nulls)

    resized(vectors, 0, edit_parquet(path, change))
    edit_file(vectors, 0, null_value_counts=None)
    finding = found(findings(vectors), "required-null")
    assert (finding.file, finding.field, finding.found) == (path, "id", 1)


def test_a_column_that_cannot_be_read_as_its_type(vectors: dk.Table) -> None:
    path = file_of(vectors, 0)
    resized(
        vectors,
        0,
        edit_parquet(
            path,
            lambda t: t.set_column(2, t.schema.field("value").with_type(pa.string()), t["value"].cast(pa.string())),
        ),
    )
    finding = found(findings(vectors), "column-type")
    assert (finding.file, finding.field) == (path, "value")


@pytest.mark.parametrize("transform", ["category", "bucket(4, id)", "truncate(2, id)"])
def test_a_row_of_another_partition(catalog: dk.Catalog, transform: str) -> None:
    table = make(catalog, ROWS[:1], format_version=2, partition_by=[transform])
    assert findings(table) == ()
    path = file_of(table, 0)

    def change(t: pa.Table) -> pa.Table:
        return t.set_column(0, t.schema.field("id"), pa.array([77], pa.int32())).set_column(
            1, t.schema.field("category"), pa.array(["zz"])
        )

    resized(table, 0, edit_parquet(path, change))
    edit_file(table, 0, lower_bounds=None, upper_bounds=None)
    assert found(findings(table), "partition-value").file == path


def test_row_ids_that_nobody_gave_out(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=3)
    dk.update(table, {"value": 0.0}, where="id = 1", mode="copy-on-write")
    assert findings(table) == ()
    path = file_of(table, 0)
    limit = table.metadata.next_row_id

    def change(t: pa.Table) -> pa.Table:
        at = t.schema.get_field_index("_row_id")
        return t.set_column(at, t.schema.field(at), pa.array([limit] * len(t), pa.int64()))

    resized(table, 0, edit_parquet(path, change))
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
