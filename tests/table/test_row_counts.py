"""Files whose entries have no count of rows, or a wrong one: the file itself is counted."""

from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.maintenance.damage import edit_avro, edit_file, edit_list, edit_manifest, put_back
from tests.storage import stored_at
from tests.tables import ids, items, make, new_catalog, raises

ROWS = items(*((i, "a", float(i)) for i in range(1, 9)))


def counts(value: int, content: int) -> Any:
    def change(entries: list[Any]) -> None:
        for entry in entries:
            entry["data_file"]["record_count"] = value

    return change


def first_format(path: str) -> str:
    found: list[Any] = []
    edit_avro(path, found.extend)
    return str(found[0]["data_file"]["file_format"])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.filterwarnings("ignore:record_count of files")
def test_rows_are_counted_in_files_without_a_count(version: int, tmp_path: Path) -> None:
    """Of data files and of each kind of delete; -1 is of Java's imports, other numbers contradict the manifest list."""
    with new_catalog(tmp_path) as catalog:
        table = make(catalog, ROWS, format_version=version)
        dk.delete(table, "id in (1, 2)", mode="merge-on-read")
        dk.delete_keys(table, [{"id": 3}])
        table = table.refresh()
        row_ids = dk.scan(table, columns=["id", "_row_id"]).to_arrow().to_pylist() if version == 3 else []
        for value in (-1, 100, 2**63 - 1) if version == 3 else (-1, 0):
            for content, at in ((0, 0), (1, 0), (1, 1)):
                with put_back(table):
                    path = edit_manifest(table, counts(value, content), content, at)
                    is_vector = first_format(path) == "PUFFIN"
                    if is_vector and value != -1:  # a cardinality is also a check of the vector
                        for read in (dk.scan(table).to_arrow, dk.scan(table).count):
                            with pytest.raises(dk.FormatError):
                                read()
                        continue
                    with pytest.warns(UserWarning, match="record_count"):
                        assert ids(table) == [4, 5, 6, 7, 8]
                    assert dk.scan(table).count() == 5
                    assert dk.scan(table, "id > 6").count() == 2
                    assert len(dk.changes(table).to_arrow()) > 0
                    assert not dk.verify(table, snapshots="heads", level="deletes").ok
                    if version == 3:
                        assert dk.scan(table, columns=["id", "_row_id"]).to_arrow().to_pylist() == row_ids


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read", "equality-delete"])
@pytest.mark.filterwarnings("ignore:record_count of files")
def test_changes_of_a_table_without_counts(mode: str, tmp_path: Path) -> None:
    """As another writer's imports left it: -1 in the entries, and their sum in the manifest list."""
    for version in (2, 3):
        with new_catalog(tmp_path / str(version)) as catalog:
            table = make(catalog, ROWS[:4], ROWS[4:], format_version=version)
            for at in (0, 1):
                edit_manifest(table, counts(-1, 0), 0, at)
            edit_list(table, lambda rows: [r | {"added_rows_count": -1} for r in rows])
            table = table.refresh()
            dk.delete(table, "id in (1, 5, 6, 7, 8)", mode=mode)
            dk.append(table, items((9, "b", 9.0)))
            assert ids(table) == [2, 3, 4, 9]
            assert dk.scan(table).count() == 4
            dk.compact(table, rewrite_all=True)
            assert ids(table) == [2, 3, 4, 9]
            assert dk.verify(table, snapshots="heads", level="data").ok
            if version == 3:
                rows = dk.scan(table, columns=["_row_id"]).to_arrow().column(0).to_pylist()
                assert len(set(rows)) == 4


def test_rows_that_cannot_be_counted_are_refused_by_name(tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        table = make(catalog, ROWS)
        path = edit_file(table, record_count=-1)
        stored_at(path).unlink()
        with raises(dk.FormatError, "record-count", field="record_count", file=path):
            dk.scan(table).count()
        assert not dk.verify(table).ok
