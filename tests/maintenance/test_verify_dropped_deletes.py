"""A rewrite that dropped an equality delete too early, as Java's does: verify finds the rows that are back, repair
hides them again; held against a plain list of the rows that should be live.
"""

from dataclasses import replace
from typing import Any

import pytest

import deletekit as dk
from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.formats.content_file import DataFile
from deletekit.formats.manifest_list import ManifestContent
from tests.invariants import check_table
from tests.maintenance.damage import findings, found
from tests.storage import stored_at
from tests.stored import live_files
from tests.tables import expected, items, live, make, unchanged

KIND = "dropped-equality-delete"
ROWS = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0), (4, "b", 4.0))


def rows_without(*ids: int) -> list[dict[str, Any]]:
    return expected([r for r in ROWS if r["id"] not in ids])


def rewritten(table: dk.Table, sequence_number: int, dropped: int) -> str:
    """Commit a rewrite of the oldest data file that was planned at `sequence_number`, and that drops the first
    `dropped` equality deletes as too old for any data file; give the first one's path.

    Java computes the lowest number of the data files that stay, without the one that it adds.
    """

    def build(base: Base) -> RowDelta:
        reader, head = base.reader, base.snapshot
        assert head is not None
        old = min(reader.live_entries(head, ManifestContent.DATA), key=lambda e: e.sequence_number or 0)
        deletes = sorted(reader.live_entries(head, ManifestContent.DELETES), key=lambda e: e.sequence_number or 0)
        assert isinstance(old.data_file, DataFile)
        path = old.data_file.file_path.replace(".parquet", "-again.parquet")
        stored_at(path).write_bytes(stored_at(old.data_file.file_path).read_bytes())
        gone.extend(e.data_file.file_path for e in deletes[:dropped])
        return RowDelta(
            removed_data_files=(old,),
            added_data_files=(replace(old.data_file, file_path=path),),
            removed_delete_files=tuple(deletes[:dropped]),
            sequence_numbers={path: sequence_number},
            operation="replace",
        )

    gone: list[str] = []
    commit(plan_change(table, build))
    return gone[0]


@pytest.mark.parametrize("partition_by", [[], ["category"]], ids=str)
@pytest.mark.parametrize("version", [2, 3])
def test_java_case_4_1_3_is_found_and_repaired(catalog: dk.Catalog, version: int, partition_by: list[str]) -> None:
    """The delete of id 1 is needed by the file that was rewritten while it landed; that of id 2 is there."""
    table = make(catalog, ROWS, format_version=version, partition_by=partition_by)
    keys = {"category": "a"} if partition_by else {}
    dk.delete_keys(table, [{"id": 1, **keys}])
    dk.delete_keys(table, [{"id": 2, **keys}])
    dk.append(table, items((1, "a", 9.0)))
    again = items((1, "a", 9.0))
    right = expected([*rows_without(1, 2), *again])
    assert live(table) == right
    path = rewritten(table, 1, 1)
    assert live(table) == expected([*rows_without(2), *again]), "the row is back"
    assert findings(table, level="deletes") == ()
    finding = found(findings(table), KIND)
    assert (finding.file, finding.repair) == (path, KIND)
    assert "1 rows" in str(finding.found)
    with unchanged(table):
        unasked = dk.repair(table)
        assert [(a.kind, a.file) for a in unasked.refused] == [(KIND, path)]
        assert "by its name" in str(unasked.refused[0].refused)
        dry = dk.repair(table, [KIND], dry_run=True)
    assert [(a.kind, a.file) for a in dry.actions] == [(KIND, path)]
    done = dk.repair(table, [KIND])
    assert (done.actions, done.refused, done.unrepaired) == (dry.actions, (), ())
    assert done.commit is not None
    assert done.commit.operation == "delete"
    assert live(table) == right, "the row that was inserted again stays"
    # The delete of id 2 may have lost the last file that it applied to, which is legal.
    assert {f.kind for f in findings(table)} <= {"dangling-equality-delete"}
    assert dk.repair(table, [KIND]).commit is None
    check_table(table)


@pytest.mark.parametrize("version", [2, 3])
def test_several_deletes_and_what_hides_rows_already(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, ROWS, format_version=version)
    dk.delete_keys(table, [{"id": 1}])
    dk.delete_keys(table, [{"id": 2}, {"id": 3}])
    rewritten(table, 1, 2)
    dk.delete(table, "id = 3", mode="deletion-vector" if version == 3 else "position-delete")
    assert live(table) == rows_without(3)
    assert len([f for f in findings(table) if f.kind == KIND]) == 2
    dk.repair(table, [KIND])
    assert live(table) == rows_without(1, 2, 3)
    assert findings(table) == ()
    check_table(table)


def test_a_delete_file_that_is_gone_cannot_be_given_back(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=3)
    dk.delete_keys(table, [{"id": 1}])
    path = rewritten(table, 1, 1)
    stored_at(path).unlink()
    finding = found(findings(table), KIND, "warning")
    assert (finding.file, finding.repair) == (path, None)
    with unchanged(table):
        report = dk.repair(table, [KIND])
    assert (report.actions, report.commit) == ((), None)
    assert [a.file for a in report.refused] == [path]
    assert "cannot be read" in str(report.refused[0].refused)


@pytest.mark.parametrize("version", [2, 3])
def test_rewrites_that_are_right_are_no_finding(catalog: dk.Catalog, version: int) -> None:
    """A conversion and a compaction remove equality deletes while older data stays; no row comes back."""
    table = make(catalog, ROWS, items((5, "c", 5.0)), format_version=version)
    dk.delete_keys(table, [{"id": 1}])
    dk.convert_equality_deletes(table)
    assert findings(table) == ()
    dk.delete_keys(table, [{"id": 2}])
    dk.compact(table, rewrite_all=True, min_input_files=1)
    dk.remove_dangling_deletes(table)
    assert [d for d in live_files(table, 1) if d["content"] == 2] == []
    assert findings(table) == ()
    assert dk.repair(table, [KIND]).refused == ()
