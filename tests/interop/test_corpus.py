"""deletekit reads what Spark and Iceberg Java wrote, row for row: every read of every table of the corpus."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyiceberg.catalog.sql import IcebergTables

import deletekit as dk
from deletekit.course.views.bitmap_bytes import bitmap_bytes
from deletekit.course.views.byte_layout import layout
from deletekit.course.views.explore import explore_pages
from deletekit.course.views.page import Grid
from deletekit.course.views.row_fate import candidates_of, fates, row_fate
from deletekit.course.views.table_view import TableView
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from tests.interop.changes_of_corpus import check_against_java, check_pairs
from tests.interop.corpus_case import Case, Read
from tests.interop.rows import same_rows
from tests.optional_types import SparkSession
from tests.tables import new_catalog

# pyarrow decodes ORC timestamps to nanoseconds, so it has none before 1677 or after 2262: refused by name.
BEYOND_PYARROW = {"orc_times_beyond_nanoseconds"}


# All tables, before a release; else for each feature at least one: a fifth of them.
WHOLE = os.environ.get("DELETEKIT_CORPUS") == "whole"


@pytest.fixture(scope="module")
def corpus(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    from tests.interop.corpus import build, sample  # noqa: PLC0415  # needs pyspark

    return build(spark, "local", tmp_path_factory.mktemp("corpus"), () if WHOLE else sample())


def scan_of(table: dk.Table, read: Read, columns: list[str]) -> dk.results.Scan:
    arguments: dict[str, Any] = {
        "snapshot": lambda: {"snapshot_id": read.args["snapshot_id"]},
        "ref": lambda: {"ref": read.args["ref"]},
        "as_of": lambda: {"as_of": read.args["as_of_ms"]},
    }.get(read.kind, dict)()
    return dk.scan(table, read.args.get("where"), columns=columns, **arguments)


def test_the_corpus_is_whole(corpus: list[Case]) -> None:
    assert len(corpus) >= (157 if WHOLE else 30)
    assert sum(len(case.reads) for case in corpus) >= (550 if WHOLE else 80)
    features = {feature for case in corpus for feature in case.features}
    assert {"copy-on-write", "lineage", "avro", "orc"} <= features


def test_every_read_is_row_for_row_what_spark_reads(corpus: list[Case]) -> None:
    wrong = []
    for case in corpus:
        if case.name in BEYOND_PYARROW:
            continue
        for read in case.reads:
            expected = case.rows(read)
            try:
                found = scan_of(dk.from_metadata(case.metadata_location), read, expected.column_names)
                same_rows(found.to_arrow().rename_columns(expected.column_names).to_pylist(), expected.to_pylist())
                assert found.count() == len(expected), "count()"
            except Exception as error:  # noqa: BLE001  # every case is tried; all that fail are shown
                wrong.append(f"{case.name} {read.kind} {read.args}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def test_every_table_that_spark_and_java_wrote_verifies_clean(corpus: list[Case]) -> None:
    """Warnings are true: deletes that Java leaves behind, positions that were made to lie behind the last row."""
    legal = {"dangling-equality-delete", "dangling-position-delete", "position-out-of-range"}
    for case in corpus:
        report = dk.verify(dk.from_metadata(case.metadata_location), level="data")
        assert [str(f) for f in report.findings if f.severity == "error"] == [], case.name
        wrong = [f for f in report.warnings if f.kind not in legal]
        # Java does not count the bytes of files that add_files takes over (SnapshotSummary.addedManifest).
        wrong = [f for f in wrong if (f.kind, f.field) != ("summary-total", "total-files-size")]
        assert all(f.kind == "not-checked" for f in wrong) if case.name in BEYOND_PYARROW else wrong == [], case.name


def test_orc_timestamps_beyond_nanoseconds_are_refused_by_name(corpus: list[Case]) -> None:
    cases = [case for case in corpus if case.name in BEYOND_PYARROW]
    assert {case.name for case in cases} == BEYOND_PYARROW
    for case in cases:
        with pytest.raises(dk.UnsupportedError, match="ORC") as caught:
            dk.scan(dk.from_metadata(case.metadata_location)).to_arrow()
        assert caught.value.kind == "orc-timestamp"


def test_inspect_and_explain_open_every_table(corpus: list[Case]) -> None:
    for case in corpus:
        table = dk.from_metadata(case.metadata_location)
        shown = dk.inspect(table, deletes=True)
        assert shown["metadata"]["table-uuid"]
        if case.name in BEYOND_PYARROW:
            continue
        live = [version.row for version in dk.explain(table, "true").live]
        same_rows(live, as_told(dk.scan(table).to_arrow()))


def test_row_fates_are_sparks_rows(corpus: list[Case]) -> None:
    """Each row's verdict by each delete on its own: the live rows, and those that Spark marks as deleted."""
    hidden = 0
    for case in corpus:
        if case.name in BEYOND_PYARROW:
            continue
        view = TableView(case.metadata_location)
        found = list(all_fates(view))
        hidden += sum(not live for _, live in found)
        for read in case.reads:
            expected = case.rows(read)
            if read.kind == "current":
                same_rows((row for row, live in found if live), named(expected, view))
            elif read.kind == "deleted":
                marked = [{**row, "_deleted": not live} for row, live in found]
                same_rows(marked, named(expected, view))
    assert hidden > 300


def named(rows: pa.Table, view: TableView) -> list[dict[str, Any]]:
    names = [f.name for f in view.metadata.schema.fields]
    return as_told(rows.rename_columns([*names, *rows.column_names[len(names) :]]))


def as_told(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows with nanoseconds as their text, for which Python's `datetime` has no place."""
    return [
        {k: v.isoformat() if isinstance(v, pd.Timestamp) else v for k, v in row.items()} for row in rows.to_pylist()
    ]


def all_fates(view: TableView) -> Iterator[tuple[dict[str, Any], bool]]:
    """Every row of every live data file, and whether RowFate calls it live."""
    snapshot = view.snapshot(None)
    if snapshot is None:
        return
    live = view.live(snapshot, ManifestContent.DATA)
    fields = view.metadata.schema.fields
    for entry in live:
        count = entry.data_file.record_count
        rows = fates(
            view, entry, fields, PositionBitmap.from_range(0, count), candidates_of(view, snapshot, entry)
        ).rows
        assert [fate.position for fate in rows] == list(range(count))
        shown = row_fate(view, data_file=view.aliases.of(entry)).block("rows")
        assert isinstance(shown, Grid)
        assert [line.mark for line in shown.lines] == ["live" if f.live else "hidden" for f in rows[:50]]
        yield from ((dict(zip([f.name for f in fields], fate.values, strict=True)), fate.live) for fate in rows)


def test_every_view_opens_every_table(corpus: list[Case]) -> None:
    for case in corpus:
        pages = explore_pages(case.metadata_location)
        wrong = {page.view: page.sentence for page in pages if page.error}
        assert set(wrong) <= ({"RowFate", "SnapshotDiff"} if case.name in BEYOND_PYARROW else set()), (case.name, wrong)


def test_every_byte_of_a_puffin_that_java_wrote_once(corpus: list[Case]) -> None:
    vectors = 0
    for case in corpus:
        view = TableView(case.metadata_location)
        for puffin in Path(urlparse(view.metadata.location).path).rglob("*.puffin"):
            data = puffin.read_bytes()
            ranges = layout(data)
            assert [r.start for r in ranges] == [0, *(r.stop for r in ranges[:-1])]
            assert ranges[-1].stop == len(data)
            assert not any(r.field == "unused" or ", but " in r.value for r in ranges)
            footer = json.loads(data[len(data) - 12 - int.from_bytes(data[-12:-8], "little") : -12])
            for number, blob in enumerate(footer["blobs"]):
                mine = [r for r in ranges if r.part == f"blob {number}"]
                assert (mine[0].start, sum(r.length for r in mine)) == (blob["offset"], blob["length"])
                assert sum(r.cardinality or 0 for r in mine) == int(blob["properties"]["cardinality"])
                assert not bitmap_bytes(puffin, delete_file=str(number)).error
                vectors += 1
    assert vectors > (20 if WHOLE else 5)


def test_changes_lead_from_each_snapshot_to_each_later_one(corpus: list[Case]) -> None:
    compared, wrong = 0, []
    for case in corpus:
        try:
            compared += check_pairs(dk.from_metadata(case.metadata_location))
        except Exception as error:  # noqa: BLE001  # every case is tried; all that fail are shown
            if case.name not in BEYOND_PYARROW:
                wrong.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
    assert compared > (4000 if WHOLE else 200)


def test_changes_are_those_of_javas_create_changelog_view(spark: SparkSession, corpus: list[Case]) -> None:
    compared, refused, wrong = 0, 0, []
    for case in corpus:
        if case.name in BEYOND_PYARROW:
            continue
        try:
            answered, unread = check_against_java(spark, "local", case)
            compared, refused = compared + answered, refused + unread
        except Exception as error:  # noqa: BLE001  # every case is tried; all that fail are shown
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
    assert compared > (300 if WHOLE else 15)
    assert refused < compared / 10


LINEAGE = ["_row_id", "_last_updated_sequence_number"]
PARQUET = {"write.format.default": "parquet", "write.delete.format.default": "parquet"}


def all_rewriting(table: dk.Table) -> None:
    dk.convert_equality_deletes(table)
    dk.rewrite_position_deletes(table, rewrite_all=True)
    dk.remove_dangling_deletes(table)
    dk.compact(table, rewrite_all=True)
    dk.rewrite_manifests(table)


def upgraded(table: dk.Table) -> None:
    dk.upgrade_format_version(table, 3)
    dk.rewrite_position_deletes(table)
    dk.convert_equality_deletes(table)


REWRITING: dict[str, Callable[[dk.Table], Any]] = {
    "compact": lambda table: dk.compact(table, rewrite_all=True),
    "compact what has deletes": lambda table: dk.compact(table, delete_file_threshold=1),
    "upgrade, to deletion vectors": upgraded,
    "one after the other": all_rewriting,
}


@pytest.fixture
def adopted(tmp_path: Path) -> Iterator[Callable[[str, str], dk.Table]]:
    """Give what opens a metadata file as a table of a catalog of ours, which commits beside it."""
    with new_catalog(tmp_path) as catalog:
        engine = catalog.pyiceberg.engine  # type: ignore[attr-defined]

        def adopt(name: str, metadata_location: str) -> dk.Table:
            row = {"catalog_name": catalog.pyiceberg.name, "table_namespace": "theirs", "table_name": name}
            with engine.begin() as connection:
                connection.execute(sa.insert(IcebergTables).values(**row, metadata_location=metadata_location))
            table = dk.load_table(catalog, f"theirs.{name}")
            dk.set_properties(table, PARQUET)
            return table

        yield adopt


# What the two compactions do is part of doing all, one after the other.
@pytest.mark.parametrize(
    "verb", [pytest.param(name, marks=pytest.mark.long if name.startswith("compact") else ()) for name in REWRITING]
)
def test_rewriting_a_table_of_others_changes_no_row(
    corpus: list[Case], adopted: Callable[[str, str], dk.Table], verb: str
) -> None:
    """The rows are those that Spark recorded; lineage is what it was, and verify finds nothing new."""
    wrong = []
    for case in corpus:
        if case.name in BEYOND_PYARROW or (verb.startswith("upgrade") and case.format_version > 2):
            continue
        table = adopted(case.name, case.metadata_location)
        # A table that was upgraded and never written to has no row ids yet.
        has_ids = table.format_version >= 3 and case.name != "lineage_without_a_v3_commit"
        columns = [f.name for f in table.schema.fields] + (LINEAGE if has_ids else [])
        before = dk.scan(table, columns=columns).to_arrow().to_pylist()
        current = next(read for read in case.reads if read.kind == "current")
        expected = case.rows(current)
        try:
            REWRITING[verb](table)
            same_rows(dk.scan(table, columns=columns).to_arrow().to_pylist(), before)
            found = dk.scan(table, columns=expected.column_names).to_arrow().rename_columns(expected.column_names)
            same_rows(found.to_pylist(), expected.to_pylist())
            assert dk.verify(table).ok
        except Exception as error:  # noqa: BLE001  # every case is tried; all that fail are shown
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)
