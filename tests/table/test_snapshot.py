"""Live files by path: what a look at every live entry finds, from columns and from entries."""

from dataclasses import replace
from pathlib import Path

import pytest

import deletekit as dk
from deletekit.deletes.changed_files import changed_files
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table import snapshot as snapshot_module
from deletekit.table.snapshot import LiveFiles, SnapshotReader
from tests.benchmarks import planning_tables
from tests.benchmarks.planning_tables import build, data_file, vector
from tests.tables import items, make

FILES = 220


@pytest.fixture(params=["columns", "entries"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dk.Table:
    """A table whose files 10 and 20 have two vectors each, one of them in another manifest, and file 30 none."""
    for name in ("_WORTH_POLARS_BYTES", "_WORTH_COLUMNS_BYTES"):
        monkeypatch.setattr(snapshot_module, name, 0 if request.param == "columns" else 1 << 60)

    def twice(root: str, n: int) -> DeleteFile:
        of = {150: 10, 21: 20, 30: 31}.get(n, n)
        return replace(vector(root, n), referenced_data_file=data_file(root, of).file_path)

    monkeypatch.setattr(planning_tables, "vector", twice)
    return dk.from_metadata(build(tmp_path / "t", FILES, 6))


def entries(table: dk.Table, content: ManifestContent) -> list[ManifestEntry]:
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    return list(SnapshotReader(table.io, table.metadata).live_entries(snapshot, content))


def live(table: dk.Table, content: ManifestContent) -> LiveFiles:
    return LiveFiles(SnapshotReader(table.io, table.metadata), table.metadata.current_snapshot, content)


def test_files_are_found_by_path(table: dk.Table) -> None:
    data, root = live(table, ManifestContent.DATA), table.metadata.location
    paths = [data_file(root, n).file_path for n in (200, 3, 3)]
    found = [entry for _, entry in data.with_paths([*paths, "s3://none", "\udcff"])]
    assert found == [e for e in entries(table, ManifestContent.DATA) if e.data_file.file_path in paths]
    assert all(isinstance(e.data_file, DataFile) for e in found)
    assert len(found) == 2
    reader = SnapshotReader(table.io, table.metadata)
    assert all(entry in reader.entries(listed) for listed, entry in data.with_paths(paths)), "each with its manifest"
    assert list(data.with_paths([])) == []


def test_every_vector_of_a_puffin_file_is_found_by_its_path(table: dk.Table) -> None:
    deletes, path = live(table, ManifestContent.DELETES), vector(table.metadata.location, 60).file_path
    found = [entry for _, entry in deletes.with_paths([path])]
    assert found == [e for e in entries(table, ManifestContent.DELETES) if e.data_file.file_path == path]
    assert len(found) == 50


def test_vectors_are_found_by_data_file(table: dk.Table) -> None:
    deletes, root = live(table, ManifestContent.DELETES), table.metadata.location
    paths = [data_file(root, n).file_path for n in (5, 10, 30)]
    found = [entry for _, entry in deletes.vectors_of(paths)]
    assert [e.data_file.content_offset for e in found] == [vector(root, n).content_offset for n in (5, 10, 150)]
    assert list(deletes.vectors_of([])) == []


def test_no_snapshot_has_no_files(table: dk.Table) -> None:
    none = LiveFiles(SnapshotReader(table.io, table.metadata), None, ManifestContent.DATA)
    assert list(none.with_paths(["a"])) == []
    assert list(none.vectors_of(["a"])) == []


@pytest.mark.parametrize("old_first", [True, False])
def test_row_ids_do_not_depend_on_which_snapshot_is_read_first(catalog: dk.Catalog, old_first: bool) -> None:
    """The first commit after the upgrade to v3 lists the manifests of v2 with row ids; the older list has none."""
    table = make(catalog, items((1, "a", 1.0), (2, "a", 2.0)), items((3, "b", 3.0)), format_version=2)
    dk.upgrade_format_version(table, 3)
    dk.append(table, items((4, "b", 4.0)))
    metadata = table.refresh().metadata
    new = metadata.current_snapshot
    assert new is not None
    assert new.parent_snapshot_id is not None
    old = metadata.snapshot_by_id(new.parent_snapshot_id)
    reader = SnapshotReader(table.io, metadata)
    shared = {m.manifest_path for m in reader.manifests(old)} & {m.manifest_path for m in reader.manifests(new)}
    assert shared

    found = {}
    for snapshot in (old, new) if old_first else (new, old):
        live = reader.live_entries(snapshot, ManifestContent.DATA)
        found[snapshot.snapshot_id] = {e.data_file.first_row_id: e.data_file.record_count for e in live}  # type: ignore[union-attr]
    assert set(found[old.snapshot_id]) == {None}
    ends = [first + count for first, count in sorted(found[new.snapshot_id].items())]
    assert sorted(found[new.snapshot_id]) == [0, *ends[:-1]]
    assert ends[-1] == metadata.next_row_id == 4


def test_a_manifest_that_two_snapshots_list_with_other_numbers_is_two(catalog: dk.Catalog) -> None:
    """Java appends a manifest as it is: its files inherit the numbers of each snapshot that it is appended to."""
    table = make(catalog, [{"id": 1}], format_version=3)
    dk.delete_keys(table, [{"id": 1}])
    metadata, snapshot = table.refresh().metadata, table.current_snapshot
    assert snapshot is not None
    reader = SnapshotReader(table.io, metadata)
    deletes, data = sorted(reader.manifests(snapshot), key=lambda m: m.content == 0)
    sides = []
    for number, row_id in ((1, 0), (1, 7), (9, 7)):
        sides.append(replace(snapshot, snapshot_id=100 + len(sides)))
        listed = replace(data, sequence_number=number, first_row_id=row_id, added_snapshot_id=number)
        reader.know(sides[-1].snapshot_id, [listed, deletes])
    found = [next(iter(reader.live_entries(s, ManifestContent.DATA))) for s in sides]
    assert [(e.sequence_number, e.data_file.first_row_id) for e in found] == [(1, 0), (1, 7), (9, 7)]
    assert changed_files(metadata, reader, sides[0], sides[1]) == []  # the same file, hidden by the same key
    (change,) = changed_files(metadata, reader, sides[0], sides[2])
    ends = change.before, change.after
    assert [t and (t.data.sequence_number, t.data_file.first_row_id, len(t.deletes)) for t in ends] == [
        (1, 0, 1),
        (9, 7, 0),
    ]
