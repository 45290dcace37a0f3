"""The one table of properties: what is refused when it is set, and that no other module parses one."""

import re
from pathlib import Path

import pytest

import deletekit as dk
from deletekit.table.properties import (
    BLOOM_FILTER,
    BLOOM_FILTER_FPP,
    COLUMN_METRICS,
    COLUMN_PROPERTIES,
    DICTIONARY,
    PROPERTIES,
    STATISTICS,
    check_properties,
    value_of,
)
from tests.stored import metadata_json
from tests.tables import items, make, raises, refused, set_by_another_writer

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
SOURCES = Path(dk.__file__).parent

# What Iceberg's documentation says that a property of each end may be, worked out by hand.
NUMBERS = (
    "-bytes",
    "-ms",
    "-limit",
    "-retries",
    "-max",
    "-keep",
    "-size",
    "-cost",
    "-merge",
    "-defaults",
    "ndv.column.id",
)
WORDS = {
    "write.delete.mode": ("copy-on-write", "merge-on-read"),
    "write.update.mode": ("copy-on-write", "merge-on-read"),
    "write.merge.mode": ("copy-on-write", "merge-on-read"),
    "write.delete.isolation-level": ("serializable", "snapshot"),
    "write.update.isolation-level": ("serializable", "snapshot"),
    "write.merge.isolation-level": ("serializable", "snapshot"),
    "write.delete.granularity": ("file", "partition"),
    "write.format.default": ("parquet", "avro", "orc"),
    "write.delete.format.default": ("parquet", "avro", "orc"),
    "write.distribution-mode": ("none", "hash", "range"),
    "write.parquet.compression-codec": ("zstd", "gzip", "snappy", "lz4", "brotli", "uncompressed"),
    "write.delete.parquet.compression-codec": ("zstd", "gzip", "snappy", "lz4", "brotli", "uncompressed"),
    "write.parquet.compression-level": ("3", "-1"),
    "write.delete.parquet.compression-level": ("3", "-1"),
    "write.manifest.compression-codec": ("gzip", "zstd", "snappy", "uncompressed"),
    "write.metadata.compression-codec": ("none", "gzip"),
    "write.metadata.delete-after-commit.enabled": ("true", "false", "TRUE"),
    "write.metadata.metrics.default": ("none", "counts", "truncate(16)", "full"),
    COLUMN_METRICS + "id": ("none", "counts", "truncate(16)", "full"),
    "gc.enabled": ("true", "false"),
    "read.split.adaptive-size.enabled": ("true", "false"),
    "commit.manifest-merge.enabled": ("true", "FALSE"),
    "write.object-storage.enabled": ("true", "false"),
    "write.object-storage.partitioned-paths": ("true", "false"),
    "write.parquet.page-version": ("v1", "V2"),
    "write.delete.parquet.page-version": ("v1", "v2"),
    BLOOM_FILTER + "id": ("true", "false"),
    BLOOM_FILTER_FPP + "id": ("0.01", ".5", "1.0E-4"),
    DICTIONARY + "id": ("true", "false"),
    STATISTICS + "id": ("true", "false"),
    "write.data.path": ("s3://bucket/data",),
    "write.metadata.path": ("s3://bucket/metadata/",),
    "deletekit.readable-by": ("spark", "duckdb 1.5.5, snowflake"),
    "schema.name-mapping.default": ("[]",),
}
NEVER = ("", "\u00b2", "bad", "1 MB", "1_000", "-200", " 7", "\u0663", "1e3", "0x10")
PATHS = {"write.data.path", "write.metadata.path"}  # any text may be a path
NAMES_OF_ENGINES = "deletekit.readable-by"  # any text may be a name
NAMES = sorted(PROPERTIES.keys() | {begin + "id" for begin in COLUMN_PROPERTIES})


def test_a_value_that_a_property_cannot_have_is_refused_when_it_is_set(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    for name in NAMES:
        texts = ("", "/") if name in PATHS else ("", "spark,") if name == NAMES_OF_ENGINES else NEVER
        for text in texts:
            with raises(dk.InvalidInputError, "property", field=name):
                check_properties({"owner": "me", name: text})
        with pytest.raises(dk.InvalidInputError, match=re.escape(name)):
            dk.set_properties(table, {"owner": "me", name: texts[-1]})
        with pytest.raises(dk.InvalidInputError, match=re.escape(name)):
            dk.create_table(catalog, "test.never", table.schema, properties={name: texts[-1]})
    assert "owner" not in metadata_json(table.refresh())["properties"]
    assert [t[-1] for t in catalog.list_tables("test")] == [table.identifier[-1]]


def test_a_value_that_a_property_can_have_is_taken_as_it_is(catalog: dk.Catalog) -> None:
    for name in NAMES:
        for text in WORDS.get(name) or ("1", "100000"):
            assert name in WORDS or name.endswith(NUMBERS)
            check_properties({name: text})
            assert value_of({name: text}, name) is not None
    table = make(catalog, properties={"write.delete.mode": "Merge-On-Read"})
    assert metadata_json(table)["properties"] == {"write.delete.mode": "Merge-On-Read"}


def test_what_nobody_knows_is_anybodys(catalog: dk.Catalog) -> None:
    table = make(catalog, properties={"write.wap.enabled": "maybe", "owner": "\u00b2"})
    assert metadata_json(table)["properties"] == {"write.wap.enabled": "maybe", "owner": "\u00b2"}


def test_the_format_version_is_no_property(catalog: dk.Catalog) -> None:
    with pytest.raises(dk.InvalidInputError, match="format_version"):
        make(catalog, properties={"format-version": "3"})


def test_every_default_is_a_value() -> None:
    by_table = {
        *PATHS,
        "commit.retry.num-retries",
        "write.distribution-mode",
        "schema.name-mapping.default",
        "write.parquet.compression-level",
        "deletekit.readable-by",
    }
    without = {name for name in PROPERTIES if value_of({}, name) is None}
    assert without == by_table | {name for name in PROPERTIES if name.startswith("write.delete.parquet.")}


@pytest.mark.parametrize("name", ["write.delete.mode", "commit.retry.num-retries", "write.target-file-size-bytes"])
def test_a_bad_value_of_another_writer_is_refused_by_name_and_can_be_set_right(catalog: dk.Catalog, name: str) -> None:
    table = make(catalog, FIVE)
    set_by_another_writer(table, {name: "\u00b2"})
    with refused(table, dk.InvalidInputError, "property", field=name):
        dk.delete(table, "id = 1")
    dk.set_properties(table, {name: None})
    assert dk.delete(table, "id = 1").snapshot_id is not None


def test_no_other_module_parses_a_property() -> None:
    own = "schema.name-mapping.default"  # a format of its own, with a parser of its own
    asked = re.compile(r"""properties(?:\.get\(|\[)\s*["']([a-z]+\.[a-z.-]+)["']""")
    found = {
        f"{file.relative_to(SOURCES)}: {name}"
        for file in SOURCES.rglob("*.py")
        for name in asked.findall(file.read_text(encoding="utf-8"))
        if name in PROPERTIES and name != own
    }
    assert found == set()
