"""The page about table properties says of each property of Iceberg what the code does with it."""

from __future__ import annotations

import re
from pathlib import Path

from deletekit.table.properties import COLUMN_PROPERTIES, PROPERTIES, REFUSED, RESERVED, UNHEEDED

PAGE = Path(__file__).parents[2] / "docs" / "properties.md"
ROW = re.compile(r"^\| `([a-z0-9.*-]+)` \| (yes|warned|refused|no effect) \| (?:`(.*?)`)? *\| (\S.*) \|$", re.MULTILINE)
GROUPS = {"write.parquet.row-group-size-bytes", "write.delete.parquet.row-group-size-bytes"}
ICEBERG = [
    "comment",
    "commit.manifest-merge.enabled",
    "commit.manifest.min-count-to-merge",
    "commit.manifest.target-size-bytes",
    "commit.retry.max-wait-ms",
    "commit.retry.min-wait-ms",
    "commit.retry.num-retries",
    "commit.retry.total-timeout-ms",
    "commit.status-check.max-wait-ms",
    "commit.status-check.min-wait-ms",
    "commit.status-check.num-retries",
    "commit.status-check.total-timeout-ms",
    "compatibility.snapshot-id-inheritance.enabled",
    "current-schema",
    "current-snapshot-id",
    "current-snapshot-summary",
    "current-snapshot-timestamp-ms",
    "default-partition-spec",
    "default-sort-order",
    "encryption.data-key-length",
    "encryption.key-id",
    "engine.hive.enabled",
    "engine.hive.lock-enabled",
    "format-version",
    "gc.enabled",
    "history.expire.max-ref-age-ms",
    "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
    "identifier-fields.rely",
    "read.data-planning-mode",
    "read.delete-planning-mode",
    "read.orc.vectorization.batch-size",
    "read.orc.vectorization.enabled",
    "read.parquet.vectorization.batch-size",
    "read.parquet.vectorization.enabled",
    "read.split.adaptive-size.enabled",
    "read.split.metadata-target-size",
    "read.split.open-file-cost",
    "read.split.planning-lookback",
    "read.split.target-size",
    "schema.name-mapping.default",
    "snapshot-count",
    "uuid",
    "write.avro.compression-codec",
    "write.avro.compression-level",
    "write.data.path",
    "write.delete.avro.compression-codec",
    "write.delete.avro.compression-level",
    "write.delete.distribution-mode",
    "write.delete.format.default",
    "write.delete.granularity",
    "write.delete.isolation-level",
    "write.delete.mode",
    "write.delete.orc.block-size-bytes",
    "write.delete.orc.compression-codec",
    "write.delete.orc.compression-strategy",
    "write.delete.orc.stripe-size-bytes",
    "write.delete.orc.vectorized.batch-size",
    "write.delete.parquet.compression-codec",
    "write.delete.parquet.compression-level",
    "write.delete.parquet.dict-size-bytes",
    "write.delete.parquet.page-row-limit",
    "write.delete.parquet.page-size-bytes",
    "write.delete.parquet.page-version",
    "write.delete.parquet.row-group-check-max-record-count",
    "write.delete.parquet.row-group-check-min-record-count",
    "write.delete.parquet.row-group-size-bytes",
    "write.delete.target-file-size-bytes",
    "write.distribution-mode",
    "write.folder-storage.path",
    "write.format.default",
    "write.location-provider.impl",
    "write.manifest.compression-codec",
    "write.manifest.compression-level",
    "write.merge.distribution-mode",
    "write.merge.isolation-level",
    "write.merge.mode",
    "write.metadata.compression-codec",
    "write.metadata.delete-after-commit.enabled",
    "write.metadata.metrics.column.",
    "write.metadata.metrics.default",
    "write.metadata.metrics.max-inferred-column-defaults",
    "write.metadata.path",
    "write.metadata.previous-versions-max",
    "write.object-storage.enabled",
    "write.object-storage.partitioned-paths",
    "write.object-storage.path",
    "write.orc.block-size-bytes",
    "write.orc.bloom.filter.columns",
    "write.orc.bloom.filter.fpp",
    "write.orc.compression-codec",
    "write.orc.compression-strategy",
    "write.orc.stripe-size-bytes",
    "write.orc.vectorized.batch-size",
    "write.parquet.bloom-filter-adaptive-enabled",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-max-bytes",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.compression-codec",
    "write.parquet.compression-level",
    "write.parquet.dict-encoding-enabled.column.",
    "write.parquet.dict-size-bytes",
    "write.parquet.page-row-limit",
    "write.parquet.page-size-bytes",
    "write.parquet.page-version",
    "write.parquet.row-group-check-max-record-count",
    "write.parquet.row-group-check-min-record-count",
    "write.parquet.row-group-size-bytes",
    "write.parquet.row-group-size-track-uncompressed",
    "write.parquet.shred-variants",
    "write.parquet.stats-enabled.column.",
    "write.parquet.variant-inference-buffer-size",
    "write.spark.accept-any-schema",
    "write.spark.advisory-partition-size-bytes",
    "write.spark.auto-schema-evolution.enabled",
    "write.spark.fanout.enabled",
    "write.summary.partition-limit",
    "write.target-file-size-bytes",
    "write.update.distribution-mode",
    "write.update.isolation-level",
    "write.update.mode",
    "write.upsert.enabled",
    "write.wap.enabled",
]
"""The names in Java's TableProperties of 1.12."""
PYICEBERG = {"write.parquet.row-group-limit", "write.delete.parquet.row-group-limit"}


def page() -> dict[str, tuple[str, str]]:
    """What the page says of each property, and its default; a property of columns by how it begins."""
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len({name for name, *_ in found}) == len(found), "no property twice"
    return {name.removesuffix("*"): (does, default) for name, does, default, _ in found}


def test_the_page_names_every_property_of_iceberg_and_no_other() -> None:
    assert page().keys() == {*ICEBERG, *PYICEBERG}
    assert len(ICEBERG) == len(set(ICEBERG)) == 124


def test_the_page_says_what_the_code_does() -> None:
    known = {**PROPERTIES, **COLUMN_PROPERTIES}
    for name, (does, default) in page().items():
        if name in known:
            assert (does, default) == ("yes", known[name].default or ""), name
        elif name in UNHEEDED:
            assert does == "warned", name
        elif name in REFUSED or name in RESERVED:
            assert does == "refused", name
        else:
            assert does == "no effect" or name in GROUPS, name


def test_the_code_follows_no_property_that_the_page_keeps_quiet_about() -> None:
    assert {*PROPERTIES, *COLUMN_PROPERTIES, *UNHEEDED, *REFUSED, *RESERVED} <= page().keys()
