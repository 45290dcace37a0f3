"""The other views against plain models: differences, what applies, costs; and large tables."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import deletekit as dk
from deletekit.course.drawings import file_tree
from deletekit.course.recordings.costs import measure_costs, measure_trial
from deletekit.course.views.bitmap_bytes import bitmap_bytes
from deletekit.course.views.byte_layout import blob_layout
from deletekit.course.views.cost_meter import cost_meter
from deletekit.course.views.explore import EXPLORED
from deletekit.course.views.page import Cells, Facts, Grid, Page, Tree
from deletekit.course.views.row_fate import row_fate
from deletekit.course.views.sequence_timeline import sequence_timeline
from deletekit.course.views.snapshot_diff import snapshot_diff
from deletekit.course.views.table_tree import table_tree
from deletekit.course.views.table_view import TableView
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.table.file_io import PyIcebergIO
from tests.course.widgets.scenes import big_table
from tests.stored import entries, snapshots_json
from tests.tables import ITEMS, MODES, files_of, items, make


def grid(page: Page, name: str) -> Grid:
    found = page.block(name)
    assert isinstance(found, Grid)
    return found


# --- SnapshotDiff -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["copy-on-write", "deletion-vector", "equality-delete"])
def test_rows_in_and_out_are_those_of_two_scans(catalog: dk.Catalog, mode: Any) -> None:
    table = make(catalog, items(*((i % 7, "ab"[i % 2], float(i % 3)) for i in range(40))), format_version=3)
    dk.delete(table, "id = 3", mode=mode)
    dk.append(table, items((3, "a", 0.0), (9, "b", 1.0)))
    dk.update(table, {"value": 5.0}, where="id = 1", mode=mode)
    ids = [s["snapshot-id"] for s in snapshots_json(table)]
    view = TableView(table)
    for i, before in enumerate(ids):
        for j, after in enumerate(ids):
            page = snapshot_diff(view, before=f"S{i + 1}", after=f"S{j + 1}")
            old, new = (
                Counter(map(str, dk.scan(table, snapshot_id=s).to_arrow().to_pylist())) for s in (before, after)
            )
            found = Counter(line.mark for line in grid(page, "rows").lines)
            assert grid(page, "rows").shown == ""
            assert found["added"] == (new - old).total()
            assert found["removed"] == (old - new).total()


def changed_rows(page: Page) -> list[tuple[str, ...]]:
    return [line.cells for line in grid(page, "rows").lines]


def test_changed_rows_are_said_with_what_changed(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0), (3, "c", 3.0)), format_version=3)
    dk.delete(table, "id = 1", mode="equality-delete")
    dk.update(table, {"value": 9.0}, where="id = 3", mode="deletion-vector")
    dk.append(table, items((4, "d", 4.0)))
    dk.compact(table)
    there = snapshot_diff(table, before="S1")
    assert grid(there, "rows").columns == ("_change_type", "id", "category", "value")
    assert changed_rows(there) == [
        ("delete", "1", "'a'", "1.0"),
        ("update_before", "3", "'c'", "3.0"),
        ("update_after", "3", "'c'", "9.0"),
        ("insert", "4", "'d'", "4.0"),
    ]
    assert [line.mark for line in grid(there, "rows").lines] == ["removed", "removed", "added", "added"]
    assert [row[0] for row in changed_rows(snapshot_diff(table, before="S5", after="S1"))] == [
        "delete",
        "update_before",
        "update_after",
        "insert",
    ]
    assert changed_rows(snapshot_diff(table)) == []  # a compaction changes nothing
    assert grid(snapshot_diff(table), "files").lines != ()


def test_an_update_of_version_2_is_paired_by_identifier_fields_while_they_are_unique(catalog: dk.Catalog) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), identifier_field_ids=[1])
    table = make(catalog, schema=schema, format_version=2)
    dk.add_column(table, "value", "long")
    dk.append(table, [{"id": 1, "value": 1}])
    dk.update(table, {"value": 2}, where="id = 1", mode="equality-delete")
    assert changed_rows(snapshot_diff(table)) == [("update_before", "1", "1"), ("update_after", "1", "2")]
    dk.append(table, [{"id": 1, "value": 3}, {"id": 1, "value": 4}])
    assert [row[0] for row in changed_rows(snapshot_diff(table))] == ["insert", "insert"]


def test_few_rows_of_a_large_file_are_compared_where_a_vector_says_which(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deletekit.course.views.snapshot_diff.MOST_ROWS", 20)
    table = make(catalog, items(*((i, "a", 1.0) for i in range(100))), format_version=3)
    dk.delete(table, "id in (3, 7)", mode="deletion-vector")
    dk.delete(table, "id = 9", mode="equality-delete")
    assert [row[1] for row in changed_rows(snapshot_diff(table, after="S2"))] == ["3", "7"]
    for page in (snapshot_diff(table, after="S1"), snapshot_diff(table, after="S3")):
        assert grid(page, "rows").shown == "more than 20 rows may have changed: not compared"
        assert page.sentence.endswith("rows in: ?, rows out: ?.")


def test_a_column_of_a_change_s_name_leaves_the_files(catalog: dk.Catalog) -> None:
    schema = pa.schema({"id": pa.int64(), "_change_type": pa.string()})
    page = snapshot_diff(make(catalog, [{"id": 1}], schema=schema, format_version=3))
    assert not page.error
    assert grid(page, "rows").shown == "the table has a column with a name that changes need"
    assert len(grid(page, "files").lines) == 1


def test_counters_are_those_written_and_a_wrong_one_is_marked(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)), format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    same = snapshot_diff(table).block("counters")
    assert isinstance(same, Facts)
    ((_, names),) = same.items
    assert {"added-dvs", "total-delete-files", "total-records"} <= set(names.split(", "))
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    metadata["snapshots"][-1]["summary"]["added-dvs"] = "7"
    forged = Path(table.location.removeprefix("file://")) / "metadata" / "99999-forged.metadata.json"
    forged.write_text(json.dumps(metadata))
    wrong = [line.cells for line in grid(snapshot_diff(forged), "counters").lines if line.mark == "wrong"]
    assert wrong == [("added-dvs", "7", "1", "different")]


# --- SequenceTimeline -------------------------------------------------------------------------------------------------


def test_a_moved_delete_applies_by_its_new_number(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0)), format_version=2)
    dk.delete_keys(table, [{"id": 1}])
    dk.append(table, items((1, "b", 1.0)))
    for number, expected in ((0, ["-", "-"]), (1, ["-", "-"]), (2, ["E1", "-"]), (3, ["E1", "-"]), (4, ["E1", "E1"])):
        page = sequence_timeline(table, moved="E1", moved_to=number)
        assert [line.cells[2] for line in grid(page, "files").lines] == expected


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dk.Table]:
    with big_table(tmp_path_factory.mktemp("big"), 2_000, 45) as made:
        yield made


def test_files_stand_side_by_side_and_those_with_the_same_deletes_fold(big: dk.Table) -> None:
    page = sequence_timeline(big)
    figure = grid(page, "files").figure
    points = {p["name"]: p for p in figure["points"]}
    assert len({(p["place"], p["column"], p["y"]) for p in points.values()}) == len(points) == len(figure["points"])
    assert all({delete, data} <= set(points) for delete, data in figure["arrows"])
    lanes = dict.fromkeys(p["row"] for p in sorted(points.values(), key=lambda p: p["y"]))
    assert [row for row, _ in figure["lanes"]] == list(lanes)
    assert all(p["column"] < len(figure["numbers"]) and p["y"] < figure["lines"] for p in points.values())
    files = entries(big, 0)
    shown = [line.cells[0] for line in grid(page, "files").lines]
    assert sum(int(name.partition("(")[2].rstrip(")") or 1) for name in shown) == len(files) > len(shown)
    assert "D25" in {line.cells[0] for line in grid(sequence_timeline(big, data_file="D25"), "files").lines}


def test_a_delete_outside_of_the_bounds_applies_and_need_not_be_opened(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 1.0)), format_version=2)
    dk.delete_keys(table, [{"id": 99}])
    assert grid(row_fate(table, lang="en"), "deletes").lines[0].cells[4].startswith("applies, but need not be opened")
    assert grid(sequence_timeline(table), "files").lines[0].cells[2] == "-"
    assert "E1 applies to D1." in file_tree(table, lang="en").text


def test_a_tree_begins_with_the_newest_snapshots_and_with_what_is_gone(
    big: dk.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert big.location in table_tree(big, node="metadata/location").sentence  # in full, outside of lessons
    monkeypatch.setattr("deletekit.course.views.table_tree.AT_ONCE", 20)
    page = table_tree(big, lang="en")
    tree = page.block("tree")
    assert isinstance(tree, Tree)
    labels = [node.label for node in tree.nodes]
    assert labels[3:5] == ["102-83", "S102"]
    assert "manifest-list" in labels
    rows = sum(e["data_file"]["record_count"] for e in entries(big, 1) if e["data_file"]["file_format"] == "PUFFIN")
    assert f"Rows hidden by deletion vectors: {rows:,} (vectors: 16: V1, V2, V3, V4, V5, …)." in page.sentence


@pytest.mark.parametrize("name", EXPLORED)
def test_a_large_table_is_opened_with_few_files_and_sent_in_few_bytes(
    big: dk.Table, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    for way in ("open", "read"):
        original = getattr(PyIcebergIO, way)
        monkeypatch.setattr(
            PyIcebergIO, way, lambda io, path, *a, o=original: (opened.append(path), o(io, path, *a))[1]
        )
    page = EXPLORED[name](dk.from_metadata(big.metadata_location))
    assert not page.error
    # The history is read once for the names; then come the files that the page is about, at most the 56 deletes.
    assert 100 < len(set(opened)) < 2 * len(big.metadata.snapshots) + 60
    assert len(json.dumps(page.to_json())) < 60_000


# --- CostMeter --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_copy_on_write_is_read_with_the_fewest_bytes_and_written_with_the_most(version: int) -> None:
    costs = {c.mode: c for c in measure_trial(2_000, 3, 10, version).modes}
    position = "deletion-vector" if version == 3 else "position-delete"
    assert list(costs) == ["copy-on-write", position, "equality-delete"]
    assert min(costs.values(), key=lambda c: c.bytes_read).mode == "copy-on-write"
    assert max(costs.values(), key=lambda c: c.bytes_written).mode == "copy-on-write"
    assert (costs["copy-on-write"].files_read, costs["equality-delete"].files_read) == (3, 4)
    for wrong in ((0, 1, 1, 3), (1, 0, 1, 3), (1, 1, 101, 3), (1, 1, 1, 4)):
        with pytest.raises(dk.InvalidInputError):
            measure_trial(*wrong)


def read_by_hand(table: dk.Table) -> tuple[int, int]:
    """The files that a scan opens, and the bytes of the schema's columns and of the deletes in them, by pyarrow."""
    files = [e["data_file"] for content in (0, 1) for e in entries(table, content) if e["status"] != 2]
    total = 0
    for file in files:
        if file["content"] == 0:
            footer = pq.read_metadata(file["file_path"].removeprefix("file://"))
            groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
            chunks = [group.column(i) for group in groups for i in range(footer.num_columns)]
            total += sum(c.total_compressed_size for c in chunks if c.path_in_schema in ITEMS.names)
        else:
            total += file.get("content_size_in_bytes") or file["file_size_in_bytes"]
    return len(files), total


@pytest.mark.parametrize(("version", "mode"), [(version, mode) for version in (2, 3) for mode in MODES[version]])
def test_a_cost_is_what_the_delete_then_costs_and_nothing_is_written(
    catalog: dk.Catalog, version: int, mode: Any
) -> None:
    rows = (items(*((i, "abc"[i % 3], i * 1.5) for i in range(first, first + 50))) for first in (0, 50))
    table = make(catalog, *rows, format_version=version)
    dk.delete(table, "id = 7", mode="merge-on-read")
    before = files_of(table)
    found = {c.mode: c for c in measure_costs(TableView(table), "id in (3, 60)").modes}[mode]
    assert files_of(table) == before
    with dk.engine.local(threads=1):
        done = dk.delete(table, "id in (3, 60)", mode=mode)
    assert found.files_written == len([*done.added_data_files, *done.added_delete_files])
    assert (found.files_read, found.bytes_read) == read_by_hand(table)


def test_a_mode_that_cannot_and_a_table_that_is_too_big_are_said(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 2.0)), format_version=3)
    assert "a filter as in dk.delete" in dk.widgets.CostMeter(table).page["sentence"]
    shown = dk.widgets.CostMeter(table, where="value > 1.5", lang="en").shown
    assert grid(shown, "costs").shown == "equality-delete: column cannot be an equality key"
    monkeypatch.setattr("deletekit.course.recordings.costs.MOST_ROWS", 1)
    assert "too many rows to try every mode" in dk.widgets.CostMeter(table, where="id < 9").page["sentence"]


def test_no_figure_is_near_where_it_would_be_rounded_otherwise() -> None:
    # What committed notebooks show: a few bytes more or less must not change it.
    costs = measure_trial(20_000, 4, 10, 3)
    exact = [n for c in costs.modes for n in (c.bytes_written, c.bytes_read)]
    shown = [cell for line in grid(cost_meter(costs), "costs").lines for cell in (line.cells[2], line.cells[4])]
    assert shown == ["~280,000", "~230,000", "~4,200", "~260,000", "~5,500", "~260,000"]
    for number, about in zip(exact, shown, strict=True):
        middle = int(about.strip("~").replace(",", ""))
        step = 10 ** (len(str(number)) - (2 if number >= 1_000 else 1))
        assert abs(number - middle) < 0.45 * step, (number, about)


# --- BitmapBytes ------------------------------------------------------------------------------------------------------


def test_edits_change_bytes_and_container_kinds(catalog: dk.Catalog) -> None:
    table = make(catalog, items(*((i, "a", 1.0) for i in range(300))), format_version=3)
    dk.delete(table, "id in (5, 9)", mode="deletion-vector")
    edits = [*range(10, 200), 5]
    page = bitmap_bytes(table, edits=edits, zoom=1)
    found = {9, *range(10, 200)}
    expected = encode_blob(PositionBitmap(found))
    assert len(grid(page, "bytes").lines) == len(blob_layout(expected))
    assert any(line.cells[3] == "run container" for line in grid(page, "bytes").lines)
    assert sum(int(line.cells[1]) for line in grid(page, "bytes").lines) == len(expected)
    cells = page.block("map")
    assert isinstance(cells, Cells)
    assert cells.signs == "".join(".-+*#"[len(found & {*range(i, i + 4)})] for i in range(0, 300, 4))
    assert dk.scan(table).count() == 298


def test_what_paths_make_of_a_footer_is_shown_when_asked_for(catalog: dk.Catalog) -> None:
    table = make(catalog, items(*((i, "a", 1.0) for i in range(9))), format_version=3)
    dk.delete(table, "id = 3", mode="deletion-vector")
    (entry,) = entries(table, 1)
    full, masked = ([line.cells for line in grid(bitmap_bytes(table, raw=raw), "bytes").lines] for raw in (True, False))
    assert sum(int(cells[1]) for cells in full) == entry["data_file"]["file_size_in_bytes"]
    differing = [(m[2], m[3], m[i]) for f, m in zip(full, masked, strict=True) for i in range(6) if f[i] != m[i]]
    assert ("footer", "payload", "…") in differing
    assert {(part, shown) for part, _, shown in differing} == {("footer", "…")}


@pytest.mark.parametrize(
    ("name", "value"), [("byte", -1), ("byte", 10**9), ("position", -1), ("zoom", 17), ("edits", [-1])]
)
def test_what_is_out_of_range_is_refused(catalog: dk.Catalog, name: str, value: Any) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "b", 1.0)), format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    with pytest.raises(dk.InvalidInputError):
        bitmap_bytes(table, **{name: value})


# Processor time, because what else the machine does is nobody's fault here.
# --- large ------------------------------------------------------------------------------------------------------------


def test_ten_thousand_files_open_and_page_quickly(tmp_path: Path) -> None:
    from tests.benchmarks.planning_tables import build  # noqa: PLC0415

    table = build(tmp_path, 10_000, manifests=4)
    start = time.process_time()
    view = TableView(table)
    tree = table_tree(view).block("tree")
    assert isinstance(tree, Tree)
    opened = table_tree(view, node="snapshots/S1/manifest-list/1/entries/4901-5000/D4950")
    assert len(json.dumps(opened.to_json())) < 200_000
    assert "D4950" in {n.label for n in opened.block("tree").nodes}  # type: ignore[union-attr]
    assert len(grid(sequence_timeline(view), "files").lines) == 40
    assert grid(sequence_timeline(view, start=9_960), "files").shown == "showing 9,961-10,000 of 10,000"
    assert time.process_time() - start < 2
