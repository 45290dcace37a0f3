"""Tables, scans, changes and results show themselves in a notebook, and nothing of a value is markup there."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit import results
from tests.counting_io import counted

EVIL = '<img src=x onerror="alert(1)">&\'\x1b[31m'


def shown(value: Any) -> dict[str, list[str]]:
    """Return the cells of each row in what a notebook shows, by the name of the row."""
    html = ET.fromstring(f"<page>{value._repr_html_()}</page>")  # noqa: S314  # it is ours; XML is stricter than HTML
    assert {part.tag for part in html.iter()} <= {"page", "div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    rows = [["".join(cell.itertext()) for cell in row] for row in html.iter("tr")]
    return {name: rest for name, *rest in rows}


@pytest.fixture
def table(tmp_path: Path) -> dk.Table:
    rows = pa.table({"id": [1, 2, 3], EVIL: [EVIL, "b", None]})
    return dk.create_table(dk.local_catalog(tmp_path / "warehouse"), "demo.t", rows, rows=True, format_version=3)


def test_a_table_shows_its_schema_and_what_it_counts(table: dk.Table) -> None:
    before = shown(table)
    assert before["total records"] == ["3"]
    assert before["2"] == [EVIL.replace("\x1b", "\\x1b"), "string"]
    assert before["snapshot"] == [str(table.snapshots()[-1].snapshot_id)]
    dk.delete(table, "id = 1", mode="deletion-vector")
    assert shown(table)["total position deletes"] == ["1"]
    assert [s.operation for s in table.snapshots()] == ["append", "delete"]


def test_a_scan_shows_its_schema_what_it_would_read_and_the_first_rows(table: dk.Table) -> None:
    dk.delete(table, "id = 1", mode="deletion-vector")
    seen = shown(dk.scan(table))
    assert seen["rows at most"] == ["3"]
    assert seen["columns"][0].startswith("id: int64")
    assert "1" not in seen
    assert seen["3"] == ["NULL"]
    dk.append(table, pa.table({"id": range(100, 200)}))
    assert "109" in shown(dk.scan(table))
    table, io = counted(table)
    assert "110" not in shown(dk.scan(table))  # ten rows, the newest file first
    assert [n for path, n in io.opened.items() if path.endswith(".avro")] == [1] * 4, "it is planned once"


def test_changes_show_the_first_rows(table: dk.Table) -> None:
    assert shown(dk.changes(table))["2"][1] == "'insert'"


def test_a_commit_shows_what_it_did_and_no_counter_that_is_zero(table: dk.Table) -> None:
    seen = shown(dk.delete(table, "id = 1"))
    assert seen["matched rows"] == ["1"]
    assert "0" not in [cell for row in seen.values() for cell in row]


def test_each_class_of_results_is_shown(table: dk.Table) -> None:
    classes = {getattr(results, name) for name in results.__all__}
    assert [c.__name__ for c in classes if not hasattr(c, "_repr_html_") and not hasattr(c, "_repr_mimebundle_")] == []
    found = dk.verify(table), dk.compact(table), dk.readers(table), dk.remove_orphan_files(table, dry_run=True)
    assert all(map(shown, found))
    assert shown(dk.compact(table)) == {"nothing": [""]}
    erased = str(dk.erase(table, "id = 3"))
    assert erased.startswith("Erasure(refs=('main',), commits=")
    assert erased.endswith("inspected=5, not_inspected=6, dry_run=False, is_erased=True)")
    assert len(erased) < 400
