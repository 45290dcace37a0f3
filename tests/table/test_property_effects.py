"""What table properties do to files, seen by readers that are not deletekit and by functions written from the specs."""

import math
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deletekit as dk
from deletekit.formats import parquet
from deletekit.formats.parquet import _distinct
from deletekit.rows.write_context import data_location
from deletekit.table import properties
from deletekit.table.metadata import TableMetadata
from tests.storage import stored_at
from tests.stored import entries
from tests.tables import items, live, make, refused, set_by_another_writer


def murmur3(data: bytes) -> int:
    """MurmurHash3 of 32 bits with seed 0, from its description."""
    mask, h = 0xFFFFFFFF, 0

    def mixed(k: int) -> int:
        k = k * 0xCC9E2D51 & mask
        return (k << 15 | k >> 17) * 0x1B873593 & mask

    for at in range(0, len(data) - 3, 4):
        h ^= mixed(int.from_bytes(data[at : at + 4], "little"))
        h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    rest = data[len(data) & ~3 :]
    h ^= mixed(int.from_bytes(rest, "little")) if rest else 0
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ h >> shift) * factor & mask
    return h


def folders(name: str) -> str:
    bits = f"{murmur3(name.encode()) & 0xFFFFF:020b}"
    return f"{bits[:4]}/{bits[4:8]}/{bits[8:12]}/{bits[12:]}"


def test_the_independent_hash_is_murmur3() -> None:
    assert murmur3(b"iceberg") == 1210000089, "the specification's example, Appendix B"
    assert murmur3(b"\x00\x01\x02\x03") == -188683207 & 0xFFFFFFFF


def metadata(location: str, **given: str) -> TableMetadata:
    return TableMetadata({"location": location, "properties": {"write.object-storage.enabled": "true", **given}})


def test_object_storage_paths_are_javas() -> None:
    """The paths of Java's own TestLocationProvider."""
    for name, hashed in {
        "a": "0101/0110/1001/10110010",
        "b": "1110/0111/1110/00000011",
        "c": "0010/1101/0110/01011111",
        "d": "1001/0001/0100/01110011",
    }.items():
        assert data_location(metadata("s3://b/db/t"), "", name) == f"s3://b/db/t/data/{hashed}/{name}"
    flat: Any = {"write.object-storage.partitioned-paths": "false"}
    path = data_location(metadata("s3://b/db/t", **flat), "data=val", "test.parquet")
    assert path == "s3://b/db/t/data/0110/1010/0011/11101000-test.parquet"
    path = data_location(metadata("s3://b/db/t"), "data%231=val%231", "test.parquet")
    assert path == f"s3://b/db/t/data/{folders('data%231=val%231/test.parquet')}/data%231=val%231/test.parquet"


@pytest.mark.parametrize(
    ("location", "context"), [("s3://b/w/db/t", "db/t"), ("s3://b/t", "t"), ("/w/db/t", "db/t"), ("file:/w/t", "w/t")]
)
def test_tables_that_share_a_folder_do_not_share_paths(location: str, context: str) -> None:
    elsewhere: Any = {"write.data.path": "s3://other/data"}
    assert data_location(metadata(location, **elsewhere), "", "f") == f"s3://other/data/{folders('f')}/{context}/f"


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_with_object_storage_paths(catalog: dk.Catalog, version: int) -> None:
    given = {"write.object-storage.enabled": "true"}
    rows = items((1, "a", 1.0), (2, "b c", 2.0))
    table = make(catalog, rows, partition_by="category", format_version=version, properties=given)
    dk.delete(table, "id = 2", mode="equality-delete")
    dk.append(table, items((3, "a", 1.0), (4, "a", 1.0)))
    dk.delete(table, "id = 3", mode="position-delete" if version == 2 else "deletion-vector")
    for entry in entries(table):
        path = entry["data_file"]["file_path"].split("/data/", 1)[1]
        hashed, name = path[:23].rstrip("/"), path[24:]
        assert hashed == folders(name), path
        assert name.startswith("category=") or version == 3
    assert [row["id"] for row in live(table)] == [1, 4]
    assert not dk.remove_orphan_files(table, dry_run=True).orphan_files
    assert not dk.verify(table).findings


def columns(table: dk.Table) -> dict[str, Any]:
    """The first row group's columns of the one data file, by path."""
    (entry,) = entries(table, 0)
    group = pq.ParquetFile(stored_at(entry["data_file"]["file_path"])).metadata.row_group(0)
    return {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}


NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("plain", pa.string()),
        ("s", pa.struct([("k", pa.string()), ("l", pa.list_(pa.string()))])),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)
ROWS = [{"id": i, "plain": str(i), "s": {"k": f"k{i}", "l": [f"l{i}"]}, "m": [(f"m{i}", i)]} for i in range(2000)]


def test_bloom_filters_of_columns_at_any_depth(catalog: dk.Catalog, tmp_path: Path) -> None:
    named = "write.parquet.bloom-filter-enabled.column."
    on = {named + column: "true" for column in ("id", "s.k", "s.l.element", "m.key", "gone")}
    off = {named + "plain": "false", "write.parquet.bloom-filter-fpp.column.id": "0.00001"}
    table = make(catalog, pa.Table.from_pylist(ROWS, schema=NESTED), schema=NESTED, properties={**on, **off})
    (entry,) = entries(table, 0)
    path = stored_at(entry["data_file"]["file_path"])
    found = duckdb.sql(
        f"SELECT path_in_schema, bloom_filter_offset, bloom_filter_length FROM parquet_metadata('{path}')"
    ).fetchall()
    sizes = {name: size for name, _, size in found if size is not None}
    assert sizes.keys() == {"id", "s, k", "s, l, list, element", "m, key_value, key"}, found
    assert sizes["id"] > sizes["s, k"], "a filter that errs less is larger"
    probe = f"SELECT bool_and(bloom_filter_excludes) FROM parquet_bloom_probe('{path}', 'id', {{}})"
    assert duckdb.sql(probe.format(1999)).fetchall() == [(False,)]
    wrong = sum(duckdb.sql(probe.format(i)).fetchall() == [(False,)] for i in range(5000, 5200))
    assert wrong <= 1, "hardly any is expected"


@pytest.mark.parametrize("most", [32, 100, 1024, 1 << 20])
@pytest.mark.parametrize("fpp", [0.5, 0.01, 1e-6])
def test_a_filter_stays_within_its_size(most: int, fpp: float) -> None:
    distinct = _distinct(fpp, 10_000_000, most)
    bits = -8 * distinct / math.log(1 - fpp ** (1 / 8))  # Arrow's formula, rounded up to a power of two
    assert 2 ** math.ceil(math.log2(bits)) <= max(most, 32) * 8
    assert _distinct(fpp, 5, 1 << 20) == 5


def test_encodings_statistics_and_pages(catalog: dk.Catalog) -> None:
    given = {
        "write.parquet.dict-encoding-enabled.column.plain": "false",
        "write.parquet.stats-enabled.column.s.k": "false",
        "write.parquet.page-version": "v2",
    }
    table = make(catalog, pa.Table.from_pylist(ROWS, schema=NESTED), schema=NESTED, properties=given)
    found = columns(table)
    assert "RLE_DICTIONARY" in found["id"].encodings
    assert "RLE_DICTIONARY" not in found["plain"].encodings
    assert found["s.k"].statistics is None
    assert found["plain"].statistics.max == "999"
    other = make(catalog, pa.Table.from_pylist(ROWS, schema=NESTED), schema=NESTED)
    pages = {"write.parquet.page-row-limit": "100"}
    paged = make(catalog, pa.Table.from_pylist(ROWS, schema=NESTED), schema=NESTED, properties=pages)
    sizes = [entries(t, 0)[0]["data_file"]["file_size_in_bytes"] for t in (other, paged)]
    assert sizes[1] > sizes[0] + 19 * 6 * 15, "twenty pages of six columns, each with a header"
    assert live(table) == live(other)


@pytest.mark.parametrize(("most", "expected"), [("2", {1, 2}), ("5", {1, 2, 5}), ("100", {1, 2, 5}), ("0", set())])
def test_metrics_of_the_first_columns_of_a_wide_table(catalog: dk.Catalog, most: str, expected: set[int]) -> None:
    given = {"write.metadata.metrics.max-inferred-column-defaults": most}
    table = make(catalog, pa.Table.from_pylist(ROWS[:5], schema=NESTED), schema=NESTED, properties=given)
    assert {f["field_id"] if isinstance(f, dict) else f for f in counted(table)} == expected
    dk.set_properties(table, {"write.metadata.metrics.column.s.k": "counts"})
    dk.append(table, ROWS[:1])
    assert 5 in counted(table), "a property of the column itself wins"
    dk.set_properties(table, {"write.metadata.metrics.default": "counts"})
    dk.append(table, ROWS[:1])
    assert counted(table) == {1, 2, 5}


def test_sorted_columns_have_bounds(catalog: dk.Catalog) -> None:
    given = {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.value": "counts"}
    table = make(catalog, items((1, "a", 1.0)), sort_by=["id", "value", "bucket(4, category)"], properties=given)
    (entry,) = entries(table)
    assert [pair["key"] for pair in entry["data_file"]["lower_bounds"]] == [1], "a bucket says nothing of its column"
    assert counted(table) == {1, 3}


def counted(table: dk.Table) -> set[int]:
    newest = max(entries(table, 0), key=lambda e: e["inherited"])
    return {pair["key"] for pair in newest["data_file"]["value_counts"] or ()}


def test_a_property_without_effect_is_warned_of_once(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "_warned", set())
    table = make(catalog, properties={"write.parquet.shred-variants": "false"})
    with pytest.warns(UserWarning, match="write.manifest.compression-level has no effect: manifests are"):
        dk.set_properties(table, {"write.manifest.compression-level": "3"})
    set_by_another_writer(table, {"write.location-provider.impl": "org.example.Ours"})
    with pytest.warns(UserWarning, match="write.location-provider.impl"):
        dk.append(table, items((1, "a", 1.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dk.append(table, items((2, "a", 1.0)))


def test_what_an_old_pyarrow_cannot_write_is_warned_of(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "_warned", set())
    monkeypatch.setattr(properties, "PYARROW", 23)
    monkeypatch.setattr(parquet, "PYARROW", 23)
    with pytest.warns(UserWarning, match=r"write\.parquet\.page-row-limit has no effect: .* pyarrow 26 can"):
        table = make(catalog, properties={"write.parquet.page-row-limit": "100"})
    with pytest.warns(UserWarning, match=r"enabled\.column\.id has no effect: .* pyarrow 24 can"):
        dk.set_properties(table, {properties.BLOOM_FILTER + "id": "true"})
    dk.append(table, items((1, "a", 1.0)))
    assert len(live(table)) == 1


@pytest.mark.parametrize("name", sorted(properties.REFUSED))
def test_a_property_that_no_writer_may_pass_over_is_refused(catalog: dk.Catalog, name: str) -> None:
    table = make(catalog, items((1, "a", 1.0)))
    with refused(table, dk.InvalidInputError, "property", field=name):
        dk.set_properties(table, {name: "x"})
    set_by_another_writer(table, {name: "x"})
    with refused(table, dk.InvalidInputError, "property", field=name):
        dk.append(table, items((2, "a", 1.0)))
    assert len(live(table)) == 1
    dk.set_properties(table, {name: None})
    assert dk.append(table, items((2, "a", 1.0))).snapshot_id is not None
