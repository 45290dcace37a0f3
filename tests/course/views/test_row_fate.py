"""RowFate's verdicts are those of a plain model, and of Spark; a broken rule shows what the rule is for."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.course.views.byte_layout import puffin_layout
from deletekit.course.views.page import Grid
from deletekit.course.views.row_fate import row_fate
from deletekit.course.views.table_view import TableView
from tests.optional_types import SparkSession
from tests.stored import entries, parquet, position_deletes, vectors
from tests.tables import ITEMS, MODES, items, make


def rows_of(view: TableView, name: str, **state: Any) -> list[tuple[str, ...]]:
    """All rows of a data file, page by page: (position, verdict, deletes, ...)."""
    found: list[tuple[str, ...]] = []
    start: int | None = 0
    while start is not None:
        grid = row_fate(view, data_file=name, start=start, **state).block("rows")
        assert isinstance(grid, Grid)
        found += [line.cells for line in grid.lines]
        start = grid.next
    return found


def names_of(view: TableView) -> list[str]:
    """The data files that are live now."""
    snapshot = view.snapshot(None)
    assert snapshot is not None
    from deletekit.formats.manifest_list import ManifestContent  # noqa: PLC0415

    live = view.live(snapshot, ManifestContent.DATA)
    return [view.aliases.of(e) for e in live]


def hidden_by_hand(table: dk.Table) -> dict[tuple[str, int], bool]:
    """Each row of each live data file, and whether it is hidden: the spec's sentences, on what others' readers read."""
    data = [e for e in entries(table, 0) if e["status"] != 2]
    deletes = [e for e in entries(table, 1) if e["status"] != 2]
    by_vector = vectors(table)
    positions = {p for rows in position_deletes(table) for p in rows}
    keys = [(e["inherited"], parquet(e["data_file"]["file_path"])) for e in deletes if e["data_file"]["content"] == 2]
    found = {}
    for entry in data:
        path = entry["data_file"]["file_path"]
        for position, row in enumerate(parquet(path).to_pylist()):
            hidden = position in by_vector.get(path, ())
            hidden |= path not in by_vector and (path, position) in positions
            hidden |= any(
                entry["inherited"] < number and any(all(row[c] == k[c] for c in k) for k in keys_.to_pylist())
                for number, keys_ in keys
            )
            found[path, position] = hidden
    return found


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("version", [2, 3])
def test_verdicts_of_random_tables_are_those_of_the_model(catalog: dk.Catalog, version: int, seed: int) -> None:
    choose = random.Random(seed * 10 + version)
    table = make(catalog, format_version=version)
    for _ in range(choose.randint(4, 9)):
        rows = [(choose.randint(0, 30), choose.choice("abc"), float(i)) for i in range(choose.randint(1, 70))]
        step = choose.choice(["append", "append", "delete", "keys"])
        if step == "append" or table.current_snapshot is None:
            dk.append(table, items(*rows))
        elif step == "delete":
            dk.delete(table, f"id = {choose.randint(0, 30)} or value = 3.0", mode=choose.choice(MODES[version][1:2]))
        else:
            dk.delete_keys(table, [{"id": choose.randint(0, 30)}, {"id": choose.randint(0, 30)}])
    view = TableView(table)
    model = hidden_by_hand(table)
    seen = {}
    for name in names_of(view):
        path = view.aliases.identity(name)[0]
        for cells in rows_of(view, name):
            seen[path, int(cells[0].replace(",", ""))] = cells[1] == "hidden"
        hidden = {(path, int(cells[0].replace(",", ""))) for cells in rows_of(view, name, hidden_only=True)}
        assert hidden == {row for row, gone in model.items() if gone and row[0] == path}
    assert seen == model
    assert any(model.values()) or not dk.scan(table, columns=["_deleted"]).to_arrow()["_deleted"].to_pylist().count(
        True
    )


def test_a_row_is_found_by_a_filter_in_whatever_file_it_is(catalog: dk.Catalog) -> None:
    table = make(catalog, *(items(*((i % 40, "a", float(i)) for i in range(n, n + 60))) for n in (0, 60)))
    dk.delete(table, "id = 7", mode="position-delete")
    widget = dk.widgets.RowFate(table, where="id = 7", lang="en")
    by_hand = [
        (widget._source.aliases.identity(name)[0], i)
        for name in ("D1", "D2")
        for i, row in enumerate(parquet(widget._source.aliases.identity(name)[0]).to_pylist())
        if row["id"] == 7
    ]
    found = []
    for number in range(len(by_hand)):
        widget.hit = number
        assert widget.page["sentence"].startswith(f"Found by id = 7: row {number + 1} of {len(by_hand)}. Row ")
        assert "is hidden" in widget.page["sentence"]
        found.append((widget._source.aliases.identity(widget.data_file)[0], widget.row))
    assert found == by_hand
    assert widget.page["code"] == "dk.widgets.RowFate(table, where='id = 7', hit=2)"
    widget.row = 1  # the reader goes on by hand
    assert (widget.where, widget.row) == (None, 1)
    widget.where = "id = 99"
    assert "No row of a data file matches id = 99." in widget.page["sentence"]
    widget.where = "nope = 1"
    assert widget.page["error"]
    assert "no such column" in widget.page["sentence"]


def test_verdicts_are_what_spark_calls_deleted(spark: SparkSession, tmp_path: Path) -> None:
    for version in (2, 3):
        name = f"local.fates.v{version}"
        spark.sql("CREATE NAMESPACE IF NOT EXISTS local.fates")
        spark.sql(
            f"CREATE TABLE {name} (id INT, part STRING) USING iceberg PARTITIONED BY (part) TBLPROPERTIES "
            f"('format-version'='{version}', 'write.delete.mode'='merge-on-read')"
        )
        for start in (0, 40):
            spark.sql(
                f"INSERT INTO {name} SELECT CAST(id AS INT), CAST(id % 3 AS STRING) FROM range({start}, {start + 60})"
            )
        spark.sql(f"DELETE FROM {name} WHERE id % 7 = 0")
        spark.sql(f"DELETE FROM {name} WHERE id BETWEEN 45 AND 50")
        recorded = spark.sql(f"SELECT _file, _pos, _deleted FROM {name}").collect()
        location = spark.sql(f"SELECT file FROM {name}.metadata_log_entries").collect()[-1][0]
        view = TableView(dk.from_metadata(location.removeprefix("file:")))
        found = {}
        for alias in names_of(view):
            path = view.aliases.identity(alias)[0]
            for cells in rows_of(view, alias):
                found[path, int(cells[0])] = cells[1] == "hidden"
        assert found == {(r[0], r[1]): r[2] for r in recorded}
        assert 0 < sum(found.values()) < len(found)
        puffins = list(Path(view.metadata.location.removeprefix("file:")).rglob("*.puffin"))
        assert bool(puffins) == (version == 3)
        for puffin in puffins:  # written by Iceberg Java: each byte once, and every vector shown
            ranges = puffin_layout(puffin.read_bytes())
            assert [r.start for r in ranges] == [0, *(r.stop for r in ranges[:-1])]
            assert ranges[-1].stop == puffin.stat().st_size
            assert sum(r.cardinality or 0 for r in ranges) > 0


def test_each_rule_switched_off_shows_what_it_is_for(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0)), format_version=3)
    dk.delete_keys(table, [{"id": 1}])
    view = TableView(table)
    assert [c[1] for c in rows_of(view, "D1")] == ["hidden"]
    page = row_fate(view, row=0)
    assert page.sentence == "Row 0 of D1 is hidden: equality delete E1 has its key (id), and 1 < 2."
    # A row of the same commit as an equality delete: an upsert.
    dk.append(table, items((2, "a", 1.0)))
    dk.merge(table, [{"id": 2, "category": "b", "value": 2.0}], on=["id"], mode="equality-delete")
    later = TableView(table)
    names = names_of(later)
    newest = max(names, key=lambda n: int(n[1:]))
    right = [c[1] for c in rows_of(later, newest)]
    assert right == ["live"]
    assert [c[1] for c in rows_of(later, newest, sequence_rule=False)] == ["hidden"]
    assert "<=" in row_fate(later, data_file=newest, row=0, sequence_rule=False).sentence


def test_scope_and_vector_rules(catalog: dk.Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), ("part", pa.string())])
    table = make(catalog, schema=schema, format_version=2, partition_by=["part"])
    dk.append(table, [{"id": 1, "part": "a"}, {"id": 1, "part": "b"}])
    dk.delete(table, "id = 1 and part = 'a'", mode="equality-delete", on=["id"])
    view = TableView(table)
    fates = {row[4]: row[1] for name in names_of(view) for row in rows_of(view, name)}
    assert fates == {"'a'": "hidden", "'b'": "live"}
    broken = {row[4]: row[1] for name in names_of(view) for row in rows_of(view, name, scope_rule=False)}
    assert broken["'b'"] == "hidden"
    page = row_fate(view, data_file=names_of(view)[0], row=0, scope_rule=False)
    assert page.sentence.startswith("A rule is switched off, so Iceberg may read this differently: ")


def test_a_row_that_is_not_there_is_refused(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0)))
    for row in (-1, 1):
        with pytest.raises(dk.InvalidInputError) as caught:
            row_fate(table, row=row)
        assert caught.value.field == "row"
    with pytest.raises(dk.NotFoundError):
        row_fate(table, data_file="D9")


def test_an_empty_table_says_so(catalog: dk.Catalog) -> None:
    assert "no data file" in row_fate(make(catalog, schema=ITEMS)).sentence
