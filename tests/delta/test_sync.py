"""What a sync makes of logs and vectors that no public writer writes, of damage, and of tables that others changed."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from tests.delta.handmade import HandMade, Json, body_of, frame, inline, native_body, remove, with_vector, z85
from tests.delta.reading import VERSIONS, by_deltalake, check_synced, live_delete_entries, raises_kind, sync
from tests.tables import ids, raises


def files(path: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in path.rglob("*") if p.is_file() and p.suffix != ".db"}


@VERSIONS
@pytest.mark.parametrize(
    ("body", "deleted"),
    [
        (body_of([3, 5]), {3, 5}),
        (native_body([3, 5]), {3, 5}),
        (native_body([3, 5], ">"), {3, 5}),
    ],
    ids=["portable", "native", "native-big-endian"],
)
@pytest.mark.parametrize("place", ["inline", "file"])
def test_vectors_no_writer_writes(
    delta: HandMade, catalog: dk.Catalog, body: bytes, deleted: set[int], place: str, format_version: int
) -> None:
    if place == "inline":
        vector = inline(body, len(deleted))
    else:
        vector = {**delta.vector_file(body)[0], "cardinality": len(deleted)}
    delta.commit(with_vector(delta.data(range(10)), vector))
    table = sync(delta, catalog, format_version=format_version).table
    assert ids(table) == sorted(set(range(10)) - deleted)
    assert dk.verify(table).ok
    check_synced(table)


@VERSIONS
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
def test_a_table_that_begins_without_a_schema(
    delta: HandMade, catalog: dk.Catalog, at_once: bool, format_version: int
) -> None:
    """As Databricks' pipelines make them (`delta-live-table`, a test table of delta-rs)."""
    bare = delta.metadata()
    del bare["metaData"]["schemaString"]
    delta.log(0).write_text("\n".join(map(json.dumps, (delta.protocol(), bare))))
    delta.version = 1
    delta.commit(delta.metadata(), with_vector(delta.data(range(10)), inline(body_of([3]), 1)))
    if not at_once:
        first = sync(delta, catalog, version=0, format_version=format_version).table
        assert (first.schema.fields, dk.scan(first).count()) == ((), 0)
        with raises(dk.UnsupportedError, "no-columns"):
            dk.scan(first).to_arrow()
    table = sync(delta, catalog, format_version=format_version).table
    assert ids(table) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert dk.verify(table).ok


@VERSIONS
def test_inline_examples_of_others(delta: HandMade, catalog: dk.Catalog, format_version: int) -> None:
    """The protocol's own is big-endian and native; delta-kernel's is the same vector in the portable form.

    The last one is of delta-kernel-rs's test table `cdf-table-with-dv`: 34 bytes, of which `##093` are two.
    """
    kernel = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    protocol = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    marked = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093"
    for text, size, count in ((kernel, 44, 6), (protocol, 40, 6), (marked, 34, 1)):
        vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": count}
        delta.commit(with_vector(delta.data(range(30)), vector))
    expected = sorted(set(range(30)) - {3, 4, 7, 11, 18, 29})
    assert ids(sync(delta, catalog, format_version=format_version).table) == sorted(
        [*expected, *expected, *range(3), *range(4, 30)]
    )


def test_copied_vectors_are_deltas_bytes(delta: HandMade, catalog: dk.Catalog) -> None:
    bodies = [body_of([1]), body_of(range(0, 500, 3)), body_of([*range(100, 400), 7])]
    vectors = delta.vector_file(*bodies)
    counts = [1, 167, 301]
    adds = [with_vector(delta.data(range(500)), {**v, "cardinality": n}) for v, n in zip(vectors, counts, strict=True)]
    delta.commit(*adds)
    table = sync(delta, catalog).table
    entries = live_delete_entries(table)
    assert len({e["file_path"] for e in entries}) == 1, "one Puffin file"
    stored = {e["record_count"]: e for e in entries}
    for body, count in zip(bodies, counts, strict=True):
        entry = stored[count]
        data = Path(entry["file_path"]).read_bytes()[entry["content_offset"] :][: entry["content_size_in_bytes"]]
        assert data == frame(body)


@VERSIONS
def test_a_vector_that_changes_leaves_its_data_file_alone(
    delta: HandMade, catalog: dk.Catalog, format_version: int
) -> None:
    plain = delta.data(range(100))
    delta.commit(plain)
    steps = [delta.vector([1, 2, 3]), delta.vector([1, 2, 3, 4]), delta.vector([2]), delta.vector([]), None]
    table = sync(delta, catalog, format_version=format_version).table
    entry = data_entries(table)
    before = plain
    for vector in steps:
        after = with_vector(plain, vector)
        delta.commit(after, remove(before))
        done = sync(delta, catalog)
        assert done.commit.added_data_files == () == done.commit.removed_data_files
        assert data_entries(done.table) == entry, "sequence number, snapshot and row ids stay"
        assert len(live_delete_entries(done.table)) == (1 if vector and vector["cardinality"] else 0)
        assert dk.scan(done.table).count() == 100 - (vector["cardinality"] if vector else 0)
        before = after
    check_synced(table.refresh())


def data_entries(table: dk.Table) -> list[Any]:
    entries = [e for m in dk.inspect(table)["manifests"] for e in m["entries"]]
    keys = ("file_path", "first_row_id", "record_count")
    return [
        (e["sequence_number"], e["snapshot_id"], *(e["data_file"].get(k) for k in keys))
        for e in entries
        if e["data_file"]["content"] == 0 and e["status"] != 2
    ]


def test_tombstones_of_unknown_files_are_ignored(delta: HandMade, catalog: dk.Catalog) -> None:
    add = delta.data(range(10))
    delta.commit(add, remove(delta.data(range(3))), {"remove": {"path": "deletion_vector_x.bin", "dataChange": False}})
    delta.commit(remove(with_vector(add, delta.vector([1]))))  # of a vector that the file does not have
    assert ids(sync(delta, catalog).table) == list(range(10))


def test_an_absent_offset_is_zero_or_one(delta: HandMade, catalog: dk.Catalog) -> None:
    body = body_of([4])
    vector = {**delta.vector_file(body)[0], "cardinality": 1}
    del vector["offset"]
    delta.commit(with_vector(delta.data(range(10)), vector))
    assert ids(sync(delta, catalog).table) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    delta.bin_of(vector).write_bytes(frame(body))
    assert ids(dk.sync_delta(delta.path, catalog, "t.zero").table) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_a_log_without_its_beginning(delta: HandMade, catalog: dk.Catalog) -> None:
    """Checkpoints: classic with parsed statistics, in two parts, and a tip whose commits are partly cleaned up."""
    adds = [delta.data(range(i * 10, i * 10 + 10)) for i in range(3)]
    delta.commit(adds[0])
    sync(delta, catalog)
    delta.commit(adds[1])
    delta.commit(adds[2], with_vector(adds[0], delta.vector([0])), remove(adds[0]))
    state = [delta.protocol(), delta.metadata(), adds[1], adds[2], with_vector(adds[0], delta.vector([0]))]
    write_checkpoint(delta, 2, state[:3], state[3:])
    for version in (0, 1, 2):
        delta.log(version).unlink()
    done = sync(delta, catalog)
    assert (done.previous_version, done.version, len(done.commits)) == (0, 2, 1)
    assert ids(done.table) == list(range(1, 30))
    with pytest.raises(dk.NotFoundError, match="does not reach"):
        dk.sync_delta(delta.path, catalog, "t.other", version=1)


def write_checkpoint(delta: HandMade, version: int, *parts: list[Json]) -> None:
    for number, rows in enumerate(parts, 1):
        names = ("protocol", "metaData", "add")
        columns = {n: [r.get(n) for r in rows] for n in names}
        for add in columns["add"]:
            if add is not None:
                add["partitionValues"] = []
                add["stats_parsed"] = json.loads(add.pop("stats"))
        columns["metaData"] = [
            None if m is None else {**m, "configuration": [], "format": {"provider": "parquet"}}
            for m in columns["metaData"]
        ]
        table = pa.table({n: pa.array(c) for n, c in columns.items() if any(v is not None for v in c)})
        name = f"{version:020d}.checkpoint.{number:010d}.{len(parts):010d}.parquet"
        pq.write_table(table, delta.path / "_delta_log" / name)


def lost_data(delta: HandMade, vector: Json) -> None:
    path = json.loads(delta.log(1).read_text().splitlines()[1])["add"]["path"]
    (delta.path / path).unlink()


def flipped_bit(delta: HandMade, vector: Json) -> None:
    file = delta.bin_of(vector)
    data = bytearray(file.read_bytes())
    data[-6] ^= 1
    file.write_bytes(data)


def another_magic(delta: HandMade, vector: Json) -> None:
    body = b"\x00\x00\x00\x00" + body_of([1, 2])[4:]
    delta.bin_of(vector).write_bytes(b"\x01" + frame(body))


def far_positions(delta: HandMade, vector: Json) -> None:
    body = body_of([1, (1 << 32) + 5])
    delta.bin_of(vector).write_bytes(b"\x01" + frame(body))
    set_vector(sizeInBytes=len(body))(delta, vector)


def set_add(**fields: Any) -> Callable[[HandMade, Json], None]:
    """Change the add action that has a vector."""

    def change(delta: HandMade, _: Json) -> None:
        lines = [json.loads(line) for line in delta.log(1).read_text().splitlines()]
        next(line["add"] for line in lines if "deletionVector" in line.get("add", {})).update(fields)
        delta.log(1).write_text("\n".join(map(json.dumps, lines)))

    return change


def set_vector(**fields: Any) -> Callable[[HandMade, Json], None]:
    return lambda delta, vector: set_add(deletionVector={**vector, **fields})(delta, vector)


def unknown_feature(delta: HandMade, vector: Json) -> None:
    delta.features = ("deletionVectors", "timeMachine")
    delta.commit(delta.protocol())


def two_vectors(delta: HandMade, vector: Json) -> None:
    lines = [json.loads(line) for line in delta.log(1).read_text().splitlines()]
    add = next(line for line in lines if "deletionVector" in line.get("add", {}))
    delta.commit(with_vector(add, delta.vector([7])))


def wrong_checksum(delta: HandMade, vector: Json) -> None:
    delta.log(1).with_suffix(".crc").write_text(json.dumps({"numFiles": 7, "numDeletedRecordsOpt": 2}))


def a_type_of_the_future(delta: HandMade, vector: Json) -> None:
    schema = json.loads(delta.schema)
    schema["fields"].append({"name": "v", "type": "variant", "nullable": True, "metadata": {}})
    delta.schema = json.dumps(schema)
    delta.commit(delta.metadata())


def widened_to_double(delta: HandMade, vector: Json) -> None:
    changes = {"delta.typeChanges": [{"fromType": "integer", "toType": "double"}]}
    schema = {"type": "struct", "fields": [{"name": "id", "type": "double", "nullable": True, "metadata": changes}]}
    delta.schema = json.dumps(schema)
    delta.commit(delta.metadata())


def escaping_path(delta: HandMade, vector: Json) -> None:
    delta.commit({"add": {"path": "../x.parquet", "partitionValues": {}, "size": 1, "dataChange": True}})


DAMAGE: dict[str, tuple[Callable[[HandMade, Json], Any], type[dk.DeletekitError], str]] = {
    "broken log": (lambda d, _: d.log(1).write_text(d.log(1).read_text()[:-30]), dk.FormatError, "delta-action"),
    "gap": (lambda d, _: d.log(0).unlink(), dk.NotFoundError, "delta-log-gap"),
    "lost vector": (lambda d, vector: d.bin_of(vector).unlink(), dk.NotFoundError, "file-not-found"),
    "lost data": (lost_data, dk.NotFoundError, "file-not-found"),
    "cut vector": (lambda d, vector: os.truncate(d.bin_of(vector), 30), dk.FormatError, "truncated"),
    "flipped bit": (flipped_bit, dk.FormatError, "deletion-vector-crc"),
    "magic": (another_magic, dk.FormatError, "delta-deletion-vector"),
    "size": (set_vector(sizeInBytes=21), dk.FormatError, "delta-deletion-vector"),
    "negative size": (set_vector(sizeInBytes=-1), dk.FormatError, "delta-deletion-vector"),
    "cardinality": (set_vector(cardinality=3), dk.FormatError, "delta-deletion-vector"),
    "offset": (set_vector(offset=2), dk.FormatError, ""),
    "far offset": (set_vector(offset=2**31 - 1), dk.FormatError, "truncated"),
    "far positions": (far_positions, dk.FormatError, "delta-deletion-vector"),
    "storage type": (set_vector(storageType="r"), dk.UnsupportedError, "delta-storage-type"),
    "not z85": (set_vector(pathOrInlineDv="~" * 20), dk.FormatError, "delta-deletion-vector"),
    "inline not z85": (
        set_vector(storageType="i", offset=None, pathOrInlineDv="~" * 20), dk.FormatError, "delta-deletion-vector",
    ),
    "inline size": (
        set_vector(storageType="i", offset=None, pathOrInlineDv=z85(bytes(8))), dk.FormatError, "delta-deletion-vector",
    ),
    "rows": (set_add(stats='{"numRecords": 11}'), dk.FormatError, "delta-num-records"),
    "stats": (set_add(stats="{"), dk.FormatError, "delta-action"),
    "file size": (set_add(size=3), dk.FormatError, "delta-size"),
    "no path": (set_add(path=None), dk.FormatError, "delta-action"),
    "feature": (unknown_feature, dk.UnsupportedError, "delta-feature"),
    "two vectors": (two_vectors, dk.FormatError, "delta-log"),
    "checksum": (wrong_checksum, dk.FormatError, "delta-checksum"),
    "variant": (a_type_of_the_future, dk.UnsupportedError, "delta-type"),
    "widening": (widened_to_double, dk.UnsupportedError, "delta-type-widening"),
    "path": (escaping_path, dk.FormatError, "delta-path"),
}  # fmt: skip


@pytest.mark.sampled(6, tier=1)
@VERSIONS
@pytest.mark.parametrize("first", [True, False], ids=["new table", "old table"])
@pytest.mark.parametrize("name", DAMAGE)
def test_damage_has_its_error_and_the_table_is_as_it_was(
    delta: HandMade, catalog: dk.Catalog, tmp_path: Path, name: str, first: bool, format_version: int
) -> None:
    damage, error, kind = DAMAGE[name]
    delta.commit(delta.data(range(5)))
    vector = delta.vector([1, 2])
    if not first:
        sync(delta, catalog, format_version=format_version)
    delta.commit({"commitInfo": {}}, with_vector(delta.data(range(10), "its.parquet"), vector))
    bin_file = delta.bin_of(vector)
    damage(delta, vector)
    before = files(tmp_path / "warehouse")
    with pytest.raises(error) as e:
        sync(delta, catalog, format_version=format_version)
    assert not kind or e.value.kind == kind
    if name in VECTORS:
        assert e.value.file == str(bin_file)
        assert f"{delta.path}/its.parquet at Delta version 1" in str(e.value)
    assert files(tmp_path / "warehouse") == before
    if first:
        with pytest.raises(dk.NotFoundError):
            dk.load_table(catalog, "t.d")
    else:
        assert ids(dk.load_table(catalog, "t.d")) == list(range(5))


VECTORS = (
    "lost vector", "cut vector", "flipped bit", "magic", "size", "cardinality", "offset", "far offset", "far positions",
)  # fmt: skip


def test_another_row_count_of_a_known_file_is_refused(delta: HandMade, catalog: dk.Catalog) -> None:
    """Somebody rewrote the file in place."""
    add = delta.data(range(10))
    delta.commit(add)
    sync(delta, catalog)
    delta.commit({"add": {**add["add"], "stats": '{"numRecords": 12}'}})
    with raises_kind("delta-num-records"):
        sync(delta, catalog)


def test_a_lost_vector_without_an_offset_is_named_too(delta: HandMade, catalog: dk.Catalog) -> None:
    vector = delta.vector([1])
    del vector["offset"]
    delta.commit(with_vector(delta.data(range(10), "its.parquet"), vector))
    delta.bin_of(vector).unlink()
    with pytest.raises(dk.NotFoundError, match=r"its.parquet at Delta version 0"):
        sync(delta, catalog)


@VERSIONS
@pytest.mark.parametrize("first", [True, False], ids=["new file", "old file"])
@pytest.mark.parametrize("place", ["inline", "file"])
def test_a_vector_that_says_it_is_empty_and_is_not(
    delta: HandMade, catalog: dk.Catalog, place: str, first: bool, format_version: int
) -> None:
    """Delta's readers hide its rows."""
    plain = delta.data(range(5))
    said = inline(body_of([1, 2]), 0) if place == "inline" else {**delta.vector([1, 2]), "cardinality": 0}
    lying = with_vector(plain, said)
    if not first:
        delta.commit(plain)
        sync(delta, catalog, format_version=format_version)
    delta.commit(lying, *([] if first else [remove(plain)]))
    assert [row["id"] for row in by_deltalake(delta.path)] == [0, 3, 4]
    with pytest.raises(dk.FormatError) as e:
        sync(delta, catalog, format_version=format_version)
    assert (e.value.kind, e.value.field, e.value.found) == ("delta-deletion-vector", "cardinality", 2)
    assert f"at Delta version {delta.version - 1}" in str(e.value)


SPELLINGS = [
    ("x.parquet", "./x.parquet"),
    ("a/x.parquet", "a//x.parquet"),
    ("a/x.parquet", "a/./x.parquet"),
    ("x-y.parquet", "x%2Dy.parquet"),
    ("x%20y.parquet", "x y.parquet"),
    ("é.parquet", "%C3%A9.parquet"),
]


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("removed", [True, False], ids=["removed", "added"])
@pytest.mark.parametrize("pair", [*SPELLINGS, *((b, a) for a, b in SPELLINGS)])
def test_a_file_by_two_spellings_is_refused(
    delta: HandMade, catalog: dk.Catalog, pair: tuple[str, str], removed: bool
) -> None:
    """Spark takes them for one file, delta-kernel for two."""
    add = delta.data(range(3), unquote(pair[0]))
    one, two = ({"add": {**add["add"], "path": path}} for path in pair)
    delta.commit(one)
    assert ids(sync(delta, catalog).table) == [0, 1, 2], "one spelling is right, whichever"
    delta.commit(remove(two) if removed else two)
    with raises_kind("delta-path-spelling", found=f"{pair[0]} and {pair[1]}"):
        sync(delta, catalog)
    with pytest.raises(dk.FormatError):
        dk.sync_delta(delta.path, catalog, "t.new")


def test_a_spelling_that_is_gone_is_free_again(delta: HandMade, catalog: dk.Catalog) -> None:
    add = delta.data(range(3), "x.parquet")
    dotted = {"add": {**add["add"], "path": "./x.parquet"}}
    delta.commit(dotted)
    delta.commit(remove(dotted))
    delta.commit(add)
    assert ids(sync(delta, catalog).table) == [0, 1, 2]


def test_a_relative_and_an_absolute_path_of_one_file_are_refused(delta: HandMade, catalog: dk.Catalog) -> None:
    add = delta.data(range(3), "x.parquet")
    delta.commit(add, {"add": {**add["add"], "path": f"file://{delta.path}/x.parquet"}})
    with pytest.raises(dk.FormatError, match="live twice"):
        sync(delta, catalog)


@pytest.mark.parametrize("text", ["", "\n", " \n{}\n"])
@pytest.mark.parametrize("first", [True, False], ids=["new table", "old table"])
def test_an_empty_commit_is_waited_for(delta: HandMade, catalog: dk.Catalog, text: str, first: bool) -> None:
    """Its writer has made the file and not filled it: what comes into it would be missed for ever."""
    delta.commit(delta.data(range(3)))
    if not first:
        sync(delta, catalog)
    late = delta.data(range(3, 5))
    delta.log(1).write_text(text)
    with raises_kind("delta-commit-empty", file=str(delta.log(1))):
        sync(delta, catalog)
    delta.log(1).write_text(json.dumps(late))
    assert ids(sync(delta, catalog).table) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["metaData", "protocol"])
@pytest.mark.parametrize("place", ["commit", "checkpoint", "parts"])
def test_two_of_what_a_commit_has_one_of(delta: HandMade, catalog: dk.Catalog, name: str, place: str) -> None:
    twice = delta.metadata("other") if name == "metaData" else delta.protocol()
    if place == "commit":
        delta.commit(twice, delta.data(range(3)))
    else:
        delta.commit(delta.data(range(3)))
        state = [delta.protocol(), delta.metadata()]
        write_checkpoint(delta, 0, *([[*state, twice]] if place == "checkpoint" else [state, [twice]]))
        delta.log(0).unlink()
    with pytest.raises(dk.FormatError) as e:
        sync(delta, catalog)
    assert e.value.field in (name, "metadata")


@pytest.mark.parametrize("nested", [True, False])
def test_columns_that_differ_in_case_only(delta: HandMade, catalog: dk.Catalog, nested: bool) -> None:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "ID")]
    inner = {"type": "struct", "fields": fields}
    if nested:
        fields = [{"name": "s", "type": inner, "nullable": True, "metadata": {}}]
    delta.schema = json.dumps({"type": "struct", "fields": fields})
    row = {"id": 1, "ID": 2}
    delta.commit(delta.data(pa.Table.from_pylist([{"s": row} if nested else row])))
    with pytest.raises(dk.FormatError, match="differ in case only") as e:
        sync(delta, catalog)
    assert (e.value.field, e.value.found) == ("ID", "id and ID")


def test_a_column_of_a_file_in_another_case(delta: HandMade, catalog: dk.Catalog) -> None:
    """Spark reads it, delta-kernel and Iceberg take it for NULL."""
    delta.commit(delta.data(pa.table({"ID": pa.array([7], pa.int64())})))
    with raises_kind("delta-column-case", field="id", found="ID"):
        sync(delta, catalog)


def test_commits_one_by_one_pass_over_what_was_vacuumed(delta: HandMade, catalog: dk.Catalog) -> None:
    add = delta.data(range(10))
    delta.commit(add)
    sync(delta, catalog)
    gone, kept = delta.vector([1]), delta.vector([1, 2])
    one, two = with_vector(add, gone), with_vector(add, kept)
    delta.commit(one, remove(add))
    delta.commit(two, remove(one))
    delta.commit(delta.data(range(100, 101)))
    delta.bin_of(gone).unlink()
    done = sync(delta, catalog, commits="each")
    assert [c.summary["deletekit.delta-version"] for c in done.commits] == ["2", "3"]
    assert ids(done.table) == [0, *range(3, 10), 100]


def test_a_reference_is_repacked_and_followed(delta: HandMade, catalog: dk.Catalog) -> None:
    adds = [with_vector(delta.data(range(10)), delta.vector([n])) for n in range(3)]
    adds.append(with_vector(delta.data(range(10)), inline(body_of([9]), 1)))
    delta.commit(*adds)
    table = sync(delta, catalog, deletion_vectors="reference").table
    assert [Path(e["file_path"]).suffix for e in live_delete_entries(table)].count(".bin") == 3
    assert table.properties["gc.enabled"] == "false"
    assert len(ids(table)) == 36
    report = dk.repack(table)
    assert report.vectors == 3
    assert dk.verify(table).ok
    assert dk.repack(table).commit is None
    delta.commit(*({"add": {**a["add"], "dataChange": False}} for a in adds))
    assert sync(delta, catalog).commits == (), "the vectors are known for what they are"
    delta.commit(remove(adds[0]))
    assert len(ids(sync(delta, catalog).table)) == 27


def test_clean_up_removes_our_files_and_none_of_deltas(delta: HandMade, catalog: dk.Catalog) -> None:
    add = delta.data(range(10))
    delta.commit(add)
    sync(delta, catalog)
    before = add
    for n in range(1, 4):
        after = with_vector(add, delta.vector(range(n)))
        delta.commit(after, remove(before))
        table = sync(delta, catalog).table
        before = after
    sources = files(delta.path)
    done = dk.clean_up_delta(table, older_than=2**61)
    assert len(done.snapshot_ids) == 3
    assert len([p for p in done.deleted_files if p.endswith(".puffin")]) == 2
    assert files(delta.path) == sources
    assert ids(table) == list(range(3, 10))
    assert dk.verify(table).ok
    check_synced(table)
    with pytest.raises(dk.InvalidInputError):
        dk.expire_snapshots(table)


@pytest.mark.parametrize("place", ["metadata", "elsewhere"])
def test_clean_up_removes_metadata_that_nothing_leads_to(
    delta: HandMade, catalog: dk.Catalog, tmp_path: Path, place: str
) -> None:
    """What a killed sync leaves beside its delete files; younger files, and those of other names, stay."""
    folder = tmp_path / place
    properties = {} if place == "metadata" else {"write.metadata.path": str(folder)}
    delta.commit(with_vector(delta.data(range(5)), delta.vector([1])))
    table = sync(delta, catalog, properties=properties).table
    folder = Path(table.metadata_location).parent
    before = files(folder.parent) if place == "metadata" else files(folder)
    left = [folder / name for name in ("x-m0.avro", "snap-7-1-x.avro", "00009-x.metadata.json")]
    kept = [folder / name for name in ("version-hint.text", "note.txt", "sub/x-m0.avro")]
    for path in (*left, *kept):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    assert dk.clean_up_delta(table).deleted_files == (), "they may be of a sync that still runs"
    assert dk.clean_up_delta(table, orphan_hours=-1, dry_run=True).deleted_files == tuple(sorted(map(str, left)))
    assert dk.clean_up_delta(table, orphan_hours=-1).deleted_files == tuple(sorted(map(str, left)))
    after = files(folder.parent) if place == "metadata" else files(folder)
    assert after == before | {str(path): b"" for path in kept}
    delta.commit(delta.data(range(5, 6)))
    assert ids(sync(delta, catalog).table) == [0, 2, 3, 4, 5]


def test_schema_changes_go_with_their_rows(delta: HandMade, catalog: dk.Catalog) -> None:
    """A column added, then a table overwritten with others: ids of columns that are gone are not given again."""
    delta.commit(delta.data(range(3)))
    table = sync(delta, catalog).table
    fields = json.loads(delta.schema)["fields"]
    delta.schema = json.dumps({"type": "struct", "fields": [*fields, {**fields[0], "name": "v"}]})
    rows = pa.table({"id": pa.array([7], pa.int64()), "v": pa.array([8], pa.int64())})
    second = delta.data(rows)
    delta.commit(delta.metadata(), second)
    done = sync(delta, catalog)
    assert done.commit.snapshot_id is not None
    assert dk.scan(done.table).to_arrow().sort_by("id").to_pylist()[-1] == {"id": 7, "v": 8}
    delta.schema = json.dumps({"type": "struct", "fields": [{**fields[0], "name": "other"}]})
    first = json.loads(delta.log(0).read_text().splitlines()[2])
    new = delta.data(pa.table({"other": pa.array([1], pa.int64())}))
    delta.commit(delta.metadata(), new, remove(first), remove(second))
    done = sync(delta, catalog)
    assert dk.scan(done.table).to_arrow().to_pylist() == [{"other": 1}]
    assert [f.field_id for f in done.table.schema.fields] == [3]
    delta.schema = json.dumps({"type": "struct", "fields": [{**fields[0], "name": "renamed"}]})
    delta.commit(delta.metadata(), delta.data(pa.table({"renamed": pa.array([2], pa.int64())})), remove(new))
    assert [f.field_id for f in sync(delta, catalog).table.schema.fields] == [4]
    delta.schema = json.dumps({"type": "struct", "fields": [{**fields[0], "name": "renamed", "type": "string"}]})
    delta.commit(delta.metadata())
    with raises_kind("delta-schema-change"):
        sync(delta, catalog)
    check_synced(table.refresh())
