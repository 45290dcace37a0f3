"""VERIFY finds nothing in what is right: the tables of every scenario; and every kind of finding has its test."""

from pathlib import Path

import pytest

import deletekit as dk
from deletekit.cli.repair import KINDS as REPAIRABLE
from deletekit.deletes.delete_file_index import DeleteFileIndex
from deletekit.formats.manifest_list import ManifestContent
from deletekit.maintenance.verify import KINDS, REPAIRS
from deletekit.maintenance.verify.snapshot_rules import SnapshotFiles
from deletekit.table.metadata import Snapshot
from deletekit.table.snapshot import SnapshotReader
from tests.interop.scenarios import SCENARIOS, Scenario


@pytest.mark.sampled(4, tier=1)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_the_tables_of_scenarios_are_clean(catalog: dk.Catalog, scenario: Scenario) -> None:
    table, rows = scenario.make(catalog, "test.scenario")
    report = dk.verify(table, level="data")
    assert [str(f) for f in report.findings if f.severity == "error"] == []
    assert {f.kind for f in report.warnings} <= {"dangling-equality-delete", "dangling-position-delete"}
    assert report.checked["snapshots"] == len(table.metadata.snapshots)
    assert report.checked["rows"] >= len(rows)
    for snapshot in table.metadata.snapshots.values():
        assert_dangling_are_those_that_no_reader_uses(table, snapshot)
    # A dangling delete can go, and nobody reads other rows.
    before = dk.scan(table).to_arrow()
    dk.repair(table)
    assert dk.scan(table).to_arrow().sort_by(before.column_names[0]) == before.sort_by(before.column_names[0])
    assert dk.verify(table, level="data", snapshots="heads").findings == ()


def assert_dangling_are_those_that_no_reader_uses(table: dk.Table, snapshot: Snapshot) -> None:
    """The rule that is told the other way round: from each data file to its deletes, without pruning by bounds."""
    reader = SnapshotReader(table.io, table.metadata)
    data, deletes = (tuple(reader.live_entries(snapshot, content)) for content in ManifestContent)
    index = DeleteFileIndex(reader.live_columns(snapshot, ManifestContent.DELETES), table.metadata.specs, {})
    used = {delete.data_file.identity for entry in data for delete in index.for_data_file(entry)}
    dangling = {delete.identity for _, delete in SnapshotFiles(table.metadata, (*data, *deletes)).dangling()}
    assert dangling == {entry.data_file.identity for entry in deletes} - used


def test_every_kind_of_finding_is_provoked_somewhere() -> None:
    here = Path(__file__)
    others = [f for f in here.parent.glob("test_verify_*.py") if f != here]
    others += [here.parent / "test_repair.py", here.parents[1] / "stream" / "test_sequence_by.py"]
    text = "\n".join(f.read_text(encoding="utf-8") for f in others)
    assert [kind for kind in KINDS if f'"{kind}"' not in text] == []
    assert set(REPAIRS) <= set(KINDS)
    assert set(REPAIRABLE) == set(REPAIRS)
