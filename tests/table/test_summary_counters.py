"""What a snapshot's summary counts, from the entries of its manifests."""

import pytest

import deletekit as dk
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.summary_counters import COUNTERS, TOTALS, count_entries, count_totals
from tests.tables import items, make


@pytest.mark.parametrize("mode", ["copy-on-write", "equality-delete", "position-delete", "deletion-vector"])
def test_the_manifests_of_a_commit_say_what_its_summary_says(catalog: dk.Catalog, mode: str) -> None:
    version = 3 if mode == "deletion-vector" else 2
    table = make(catalog, items(*((i, "a", float(i)) for i in range(9))), format_version=version)
    dk.delete(table, "id in (2, 5)", mode=mode)
    dk.delete(table, "id = 7", mode=mode)
    reader = SnapshotReader(table.io, table.metadata)
    for snapshot in table.metadata.snapshots.values():
        entries = list(reader.changed_entries(snapshot))
        counts = {name: str(count) for name, count in count_entries(snapshot.snapshot_id, entries).items()}
        assert counts == {name: snapshot.summary[name] for name in COUNTERS if name in snapshot.summary}
        live = [e.data_file for content in ManifestContent for e in reader.live_entries(snapshot, content)]
        assert {name: str(total) for name, total in count_totals(live).items()} == {
            name: snapshot.summary[name] for name in TOTALS
        }


def test_entries_of_data_files_and_of_delete_files_are_read_apart(catalog: dk.Catalog) -> None:
    table = make(catalog, items((1, "a", 1.0), (2, "a", 2.0)), format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    reader, snapshot = SnapshotReader(table.io, table.metadata), table.current_snapshot
    assert snapshot is not None
    assert list(reader.changed_entries(snapshot, ManifestContent.DATA)) == []
    assert list(reader.changed_entries(snapshot, ManifestContent.DELETES)) == list(reader.changed_entries(snapshot))
