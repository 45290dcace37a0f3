"""Views of damaged and of hostile tables: a page, or an error that names the file; and never more than can be sent."""

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.course.views.explore import EXPLORED, explore_pages
from deletekit.course.views.page import Grid
from deletekit.course.views.page_html import page_html
from deletekit.course.views.page_text import page_text
from deletekit.course.views.row_fate import row_fate
from deletekit.course.views.snapshot_diff import snapshot_diff
from deletekit.course.views.table_tree import table_tree
from tests.course.widgets.scenes import sample_table
from tests.tables import make, new_catalog

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "metadata").glob("*.metadata.json*"))
MOST_SENT = 1_000_000
SUFFIXES = (".json", ".avro", ".puffin", ".parquet")


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
def test_whatever_the_bytes_are_each_view_says_what_is_wrong(tmp_path: Path, version: int) -> None:
    with sample_table(tmp_path / "wh", version) as table:
        home, metadata = Path(table.location.removeprefix("file://")), table.metadata_location.removeprefix("file://")
    files = sorted(f for f in home.rglob("*") if f.suffix in SUFFIXES and (f.suffix != ".json" or str(f) == metadata))
    good = {file: file.read_bytes() for file in files}
    choose = random.Random(version)
    shown = failed = unopened = 0
    for _ in range(120):
        file = choose.choice(files)
        data = bytearray(good[file])
        for _ in range(choose.randint(1, 4)):
            data[choose.randrange(len(data))] = choose.randrange(256)
        file.write_bytes(data[: choose.choice([len(data), len(data), choose.randrange(len(data))])])
        try:
            pages = explore_pages(metadata)
        except dk.DeletekitError:
            unopened += file.suffix == ".json"
        else:
            assert [page.view for page in pages] == list(EXPLORED)
            for page in pages:
                assert page_text(page)
                shown, failed = shown + (not page.error), failed + page.error
        file.write_bytes(good[file])
    assert min(shown, failed) > 30
    assert unopened > 0


@pytest.mark.parametrize("suffix", [".avro", ".puffin", ".parquet"])
def test_a_file_that_is_gone_or_cut_off_is_named(tmp_path: Path, suffix: str) -> None:
    with sample_table(tmp_path / "wh") as table:
        home, metadata = Path(table.location.removeprefix("file://")), table.metadata_location
    for file in sorted(f for f in home.rglob(f"*{suffix}")):
        data = file.read_bytes()
        for left in (None, data[: len(data) // 2]):
            file.unlink()
            if left is not None:
                file.write_bytes(left)
            wrong = [page for page in explore_pages(metadata) if page.error]
            assert wrong or file.name not in json.dumps([p.to_json() for p in explore_pages(metadata)])
            for page in wrong:
                assert file.name in page_text(page), page_text(page)
            file.write_bytes(data)


@pytest.mark.golden
@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.name)
def test_golden_metadata_is_opened_and_what_is_not_there_is_named(path: Path, tmp_path: Path) -> None:
    """Java's metadata, of tables that are nowhere: the tree is shown, and what lies behind it is missing by name."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    copy = tmp_path / "00001-copy.metadata.json"
    copy.write_text(text.replace("s3://", f"file://{tmp_path}/"))
    if '"variant"' in text:
        with pytest.raises(dk.UnsupportedError, match="variant"):
            explore_pages(copy)
        return
    pages = explore_pages(copy)
    assert [page.view for page in pages] == list(EXPLORED)
    assert not table_tree(copy, expanded=["metadata", "metadata/schemas"]).error
    for page in pages:
        assert not page.error or "file" in dict(page.blocks[0].items), page_text(page)  # type: ignore[union-attr]


def test_names_and_values_without_end_are_cut(tmp_path: Path) -> None:
    long = "x" * 2_000_000
    schema = pa.schema(
        [pa.field("id", pa.int32(), nullable=False), *(pa.field(f"c{i}", pa.string()) for i in range(40))]
    )
    with new_catalog(tmp_path) as catalog:
        table = make(catalog, schema=schema, format_version=3, properties={long: long, "p": long})
        rows = [{"id": i, **{f"c{n}": long if i == n == 0 else "v" for n in range(40)}} for i in range(80)]
        dk.append(table, rows, commit_properties={long: long})
        dk.delete(table, "id = 1", mode="deletion-vector")
        table = dk.from_metadata(table.metadata_location)
        for page in explore_pages(table):
            assert not page.error, page.sentence
            assert len(json.dumps(page.to_json())) < MOST_SENT
            assert len(page_html(page)) < MOST_SENT
        for node in ("metadata/properties", "snapshots/S1/summary"):
            for raw in (False, True):
                assert len(json.dumps(table_tree(table, node=node, raw=raw).to_json())) < MOST_SENT
        for page in (row_fate(table), snapshot_diff(table, after="S1")):
            grid = page.block("rows")
            assert isinstance(grid, Grid)
            assert "Columns not shown: 29." in grid.shown
