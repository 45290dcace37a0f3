"""REPAIR: what is done changes no row of a plain model, in one commit, and leaves a table that verifies clean."""

from typing import Any

import pytest
from pyiceberg.table.puffin import PuffinFile

import deletekit as dk
from deletekit.engines.local import LocalEngine
from tests.maintenance.damage import (
    Record,
    edit_avro,
    edit_bytes,
    edit_file,
    edit_list,
    edit_manifest,
    findings,
    with_metadata,
)
from tests.storage import io_properties, stored_at
from tests.stored import avro, entries, head_json, live_files, manifest_list, vectors
from tests.tables import expected, items, live, make, raises, refused, unchanged

ROWS = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, "c", 5.0), (6, "b", 6.0))
ONE = LocalEngine(1)


def rows_without(*ids: int, times: int = 1) -> list[dict[str, Any]]:
    return expected([r for r in ROWS if r["id"] not in ids] * times)


def with_two_vectors(catalog: dk.Catalog, *, partition_by: tuple[str, ...] = (), **options: Any) -> dk.Table:
    """A head whose manifest list also names the delete manifest of a branch: each has a vector of every data file."""
    table = make(catalog, ROWS, format_version=3, partition_by=list(partition_by), **options)
    dk.delete_keys(table, [{"id": 99}])
    dk.create_branch(table, "dev")
    dk.delete(table, "id in (1, 2, 3)", mode="deletion-vector", ref="dev", engine=ONE)
    dk.delete(table, "id in (2, 4)", mode="deletion-vector", engine=ONE)
    known = {row["manifest_path"] for row in manifest_list(table)}
    borrowed = [row for row in manifest_list(table, "dev") if row["manifest_path"] not in known and row["content"] == 1]
    edit_list(table, lambda rows: rows.extend(borrowed))
    return table


def repaired(table: dk.Table, *kinds: str, **options: Any) -> dk.results.RepairReport:
    """Repair, and hold that it was one `replace` snapshot on top of the head."""
    before = head_json(table)["snapshot-id"]
    report = dk.repair(table, kinds or None, **options)
    assert report.commit is not None
    assert report.commit.operation == "replace"
    assert head_json(table)["parent-snapshot-id"] == before
    assert report.commit.added_data_files == report.commit.removed_data_files == ()
    return report


def clean(table: dk.Table) -> None:
    assert findings(table) == ()
    assert dk.repair(table).commit is None, "there is nothing left to do"


# --- two vectors of one data file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition_by", [(), ("category",)], ids=str)
def test_two_vectors_become_one(catalog: dk.Catalog, partition_by: tuple[str, ...]) -> None:
    table = with_two_vectors(catalog, partition_by=partition_by)
    twice = [f for f in findings(table, level="metadata") if f.kind == "duplicate-deletion-vector"]
    with raises(dk.FormatError, "duplicate-deletion-vector"):
        live(table)
    kept = {d["file_path"] for d in live_files(table, 1) if d["content"] == 2}
    assert len(kept) == 1
    report = repaired(table)
    assert {a.file for a in report.actions if a.kind == "duplicate-deletion-vector"} == {f.file for f in twice}
    assert report.refused == ()
    assert live(table) == rows_without(1, 2, 3, 4)
    assert sorted(len(p) for p in vectors(table).values()) == ([4] if not partition_by else [1, 2])
    assert {d["file_path"] for d in live_files(table, 1) if d["content"] == 2} == kept
    clean(table)


def test_the_vectors_that_were_merged_leave_in_the_same_commit(catalog: dk.Catalog) -> None:
    table = with_two_vectors(catalog)
    old = {(d["file_path"], d["content_offset"]) for d in live_files(table, 1) if d["content"] == 1}
    repaired(table, "duplicate-deletion-vector")
    head = head_json(table)["snapshot-id"]
    gone = [e for e in entries(table, 1) if e["status"] == 2]
    assert {(e["data_file"]["file_path"], e["data_file"]["content_offset"]) for e in gone} == old
    assert {e["snapshot_id"] for e in gone} == {head}
    added = [e for e in entries(table, 1) if e["status"] == 1 and e["data_file"]["content"] == 1]
    assert [e["data_file"]["record_count"] for e in added] == [4]


def test_only_one_damaged_vector_leaves_the_others_to_be_merged(catalog: dk.Catalog) -> None:
    table = with_two_vectors(catalog, partition_by=("category",))
    broken = next(d for d in live_files(table, 1) if d["partition"] == {"category": "b"})
    at = broken["content_offset"] + broken["content_size_in_bytes"] - 1

    def flip(data: bytearray) -> None:
        data[at] ^= 0xFF

    edit_bytes(broken["file_path"], flip)
    planned = dk.repair(table, dry_run=True)
    assert [(r.kind, r.file) for r in planned.refused] == []  # of "b", dev has a vector and main has none
    report = repaired(table)
    assert {a.kind for a in report.actions} == {"duplicate-deletion-vector", "summary-total"}
    assert {f.kind for f in findings(table)} == {"deletion-vector"}, "which nobody but its writer can mend"


def doubtful(table: dk.Table, case: str) -> None:
    vector = live_files(table, 1)[0]
    if case == "checksum":
        edit_bytes(vector["file_path"], lambda data: data.__setitem__(vector["content_offset"] + 12, 0xFF))
    elif case == "gone":
        stored_at(vector["file_path"]).unlink()
    elif case == "cardinality":
        edit_file(table, 1, record_count=7)
    else:
        own = [r for r in manifest_list(table) if r["content"] == 1][-1]
        edit_list(table, lambda rows: rows.append(own))


@pytest.mark.filterwarnings("ignore:record_count of files")
@pytest.mark.parametrize("case", ["checksum", "gone", "cardinality", "live twice"])
def test_a_doubt_about_a_vector_is_refused(catalog: dk.Catalog, case: str) -> None:
    table = with_two_vectors(catalog)
    doubtful(table, case)
    planned = dk.repair(table, ["duplicate-deletion-vector"], dry_run=True)
    assert planned.actions == ()
    assert [r.kind for r in planned.refused] == ["duplicate-deletion-vector"]
    assert planned.refused[0].refused
    with unchanged(table):
        done = dk.repair(table, ["duplicate-deletion-vector"])
    assert (done.commit, done.refused) == (None, planned.refused)


def test_vectors_of_another_partition_are_refused(catalog: dk.Catalog) -> None:
    table = with_two_vectors(catalog, partition_by=("category",))

    def move(stored: list[Record]) -> None:
        for entry in stored:
            entry["data_file"]["partition"] = {"category": "elsewhere"}

    specs = [row["partition_spec_id"] for row in manifest_list(table) if row["content"] == 1]
    edit_manifest(table, move, 1, specs.index(table.metadata.spec.spec_id))
    planned = dk.repair(table, ["duplicate-deletion-vector"], dry_run=True)
    assert {r.refused.partition(";")[0] for r in planned.refused if r.refused} == {
        "the deletion vector is of another partition"
    }


def test_a_head_that_stays_broken_is_still_named(catalog: dk.Catalog) -> None:
    """Only what was asked for is repaired: the commit does not look at vectors of other data files, and scans do."""
    table = with_two_vectors(catalog)
    dk.repair(table, ["summary-total"])
    assert "duplicate-deletion-vector" in {f.kind for f in findings(table, level="metadata")}
    with raises(dk.FormatError, "duplicate-deletion-vector"):
        dk.scan(table).to_arrow()


# --- dangling deletes -------------------------------------------------------------------------------------------------


def without_data(table: dk.Table, manifests: int) -> None:
    """Delete the files of the newest data manifests in the head, as a writer does that leaves their deletes behind."""
    head, rows = head_json(table), manifest_list(table)
    gone = [row["manifest_path"] for row in rows if row["content"] == 0][:manifests]

    def delete(row: Record) -> None:
        number = {"sequence_number": row["sequence_number"], "file_sequence_number": row["sequence_number"]}
        status = {"status": 2, "snapshot_id": head["snapshot-id"]}
        stored = stored_at(row["manifest_path"]).read_bytes()  # older snapshots keep the manifest as it is
        row["manifest_path"] = row["manifest_path"].replace("-m0.avro", "-m1.avro")
        stored_at(row["manifest_path"]).write_bytes(stored)
        edit_avro(row["manifest_path"], lambda stored: [e | status | number for e in stored])
        counts = {f"deleted_{unit}_count": row[f"added_{unit}_count"] for unit in ("files", "rows")}
        row |= {**counts, "added_files_count": 0, "added_rows_count": 0, "sequence_number": head["sequence-number"]}
        row["added_snapshot_id"] = head["snapshot-id"]
        row["manifest_length"] = stored_at(row["manifest_path"]).stat().st_size

    edit_list(table, lambda rows: [delete(row) for row in rows if row["manifest_path"] in gone] and rows)


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_dangling_position_deletes_are_removed(catalog: dk.Catalog, granularity: str) -> None:
    table = make(catalog, ROWS, ROWS, ROWS, format_version=2)
    dk.delete(table, "id = 1", mode="position-delete", granularity=granularity, engine=ONE)
    without_data(table, 2)
    before = live(table)
    assert before == rows_without(1)
    dangling = [f.file for f in findings(table, level="metadata") if f.kind == "dangling-position-delete"]
    assert len(dangling) == (2 if granularity == "file" else 0), "a file of the partition still applies"
    report = repaired(table)
    assert {a.file for a in report.actions if a.kind == "dangling-position-delete"} == set(dangling)
    assert len(live_files(table, 1)) == 1
    assert live(table) == before
    clean(table)


def test_a_position_delete_file_that_names_nothing_live_is_removed(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS[4:], ROWS[:2], ROWS[:2], format_version=2)
    dk.delete(table, "id = 1", mode="position-delete", granularity="partition", engine=ONE)
    without_data(table, 2)
    repaired(table)
    assert live_files(table, 1) == []
    assert live(table) == expected(ROWS[4:])
    clean(table)


def test_dangling_vectors_are_removed(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, ROWS, format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector", engine=ONE)
    without_data(table, 1)
    assert len(live_files(table, 1)) == 2
    report = repaired(table, "dangling-deletion-vector", "summary-total")
    assert [a.kind for a in report.actions] == ["dangling-deletion-vector", "summary-total"]
    assert len({d["file_path"] for d in live_files(table, 1)}) == 1
    assert live(table) == rows_without(1)
    clean(table)


def test_dangling_equality_deletes_are_removed(catalog: dk.Catalog) -> None:
    table = make(catalog, [*ROWS, *items((7, "a", 7.0))], format_version=2, partition_by=["category"])
    dk.delete_keys(table, [{"id": 1}], scope="global")
    dk.delete_keys(table, [{"id": 4, "category": "a"}], scope="partition")
    dk.update(table, {"value": 0.0}, where="category = 'a'", mode="copy-on-write")
    dk.append(table, ROWS[:1])
    before = live(table)
    (partitioned,) = (d["file_path"] for d in live_files(table, 1) if d["partition"] == {"category": "a"})
    report = repaired(table)
    assert [(a.kind, a.file) for a in report.actions] == [("dangling-equality-delete", partitioned)]
    assert len(live_files(table, 1)) == 1, "the global one applies to older files of other partitions"
    assert live(table) == before
    clean(table)


def test_only_the_kinds_that_are_asked_for(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=2)
    dk.delete_keys(table, [{"id": 1}])
    dk.update(table, {"value": 0.0}, where="id >= 0", mode="copy-on-write")
    for kind in ("dangling-position-delete", "puffin-footer", "duplicate-deletion-vector", "summary-total"):
        with unchanged(table):
            assert dk.repair(table, kind).commit is None  # type: ignore[arg-type]  # one kind, as text, will do
    repaired(table, "dangling-equality-delete")
    clean(table)


# --- Puffin files without footer --------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut off", "bare"])
def test_vectors_without_footer_move_to_a_real_puffin_file(catalog: dk.Catalog, damage: str) -> None:
    table = make(catalog, ROWS, ROWS, format_version=3)
    dk.delete(table, "id in (1, 2)", mode="deletion-vector", engine=ONE)
    before = vectors(table)
    path = live_files(table, 1)[0]["file_path"]
    last = max(d["content_offset"] + d["content_size_in_bytes"] for d in live_files(table, 1))
    edit_bytes(path, lambda data: data[:last] if damage == "cut off" else b"\0\0\0\0" + data[4:last])
    edit_all = stored_at(path).stat().st_size

    def sized(stored: list[Record]) -> None:
        for entry in stored:
            entry["data_file"]["file_size_in_bytes"] = edit_all

    edit_manifest(table, sized, 1)
    assert live(table) == rows_without(1, 2, times=2), "readers go by the manifest"
    report = repaired(table)
    assert [a.kind for a in report.actions] == ["puffin-footer", "puffin-footer"]
    assert live(table) == rows_without(1, 2, times=2)
    assert vectors(table) == before
    (new,) = {d["file_path"] for d in live_files(table, 1)}
    assert new != path
    footer = PuffinFile(stored_at(new).read_bytes()).footer
    assert {b.properties["referenced-data-file"] for b in footer.blobs} == set(before)
    clean(table)


def test_a_footer_that_says_something_else_is_for_a_person(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    path = live_files(table, 1)[0]["file_path"]
    edit_bytes(path, lambda data: data.replace(b'"cardinality":"1"', b'"cardinality":"2"'))
    with unchanged(table):
        report = dk.repair(table)
    assert (report.actions, report.commit) == ((), None)


# --- summary ----------------------------------------------------------------------------------------------------------


def test_totals_are_counted_anew(catalog: dk.Catalog) -> None:
    table = make(catalog, ROWS, ROWS, format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector", engine=ONE)
    without_data(table, 1)
    before = head_json(table)["summary"]
    report = repaired(table, "summary-total")
    assert [a.file for a in report.actions] == [None]
    after = head_json(table)["summary"]
    assert (before["total-records"], after["total-records"]) == ("12", "6")
    assert (before["total-data-files"], after["total-data-files"]) == ("2", "1")
    assert after["total-delete-files"] == "2", "what is dangling stays, for it was not asked for"
    assert report.commit is not None
    assert report.commit.added_delete_files == report.commit.removed_delete_files == ()
    assert avro(head_json(table)["manifest-list"]) != []
    assert {f.kind for f in findings(table)} == {"dangling-deletion-vector"}


# --- how --------------------------------------------------------------------------------------------------------------


def test_a_dry_run_says_the_same_and_writes_nothing(catalog: dk.Catalog) -> None:
    table = with_two_vectors(catalog)
    read_only = dk.from_metadata(table.metadata_location, **io_properties())
    with unchanged(table):
        planned = dk.repair(table, dry_run=True)
        assert dk.repair(read_only, dry_run=True) == planned
    assert planned.commit is None
    assert dk.repair(table).actions == planned.actions
    with raises(dk.InvalidInputError, "read-only"):
        dk.repair(read_only)


def test_a_branch_is_repaired_and_main_stays(catalog: dk.Catalog) -> None:
    table = with_two_vectors(catalog)
    dk.create_branch(table, "copy")
    main = head_json(table)["snapshot-id"]
    report = dk.repair(table, ref="copy", commit_properties={"why": "two vectors"})
    assert report.commit is not None
    assert report.commit.summary["why"] == "two vectors"
    assert live(table, ref="copy") == rows_without(1, 2, 3, 4)
    assert head_json(table)["snapshot-id"] == main
    seen = dk.verify(table, snapshots=[report.commit.snapshot_id or 0], level="data")
    assert seen.findings == ()


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_cannot_be_asked_for(catalog: dk.Catalog, dry_run: bool) -> None:
    table = make(catalog, ROWS, format_version=3)
    dk.create_tag(table, "t")
    with refused(table, dk.InvalidInputError, "repair"):
        dk.repair(table, ["manifest-count"], dry_run=dry_run)
    with refused(table, dk.InvalidInputError, "ref"):
        dk.repair(table, ref="t", dry_run=dry_run)
    with refused(table, dk.NotFoundError, "ref-not-found"):
        dk.repair(table, ref="nothing", dry_run=dry_run)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_sound_table_is_left_alone(catalog: dk.Catalog, version: int) -> None:
    for rows in ((), (ROWS,)):
        table = make(catalog, *rows, format_version=version)
        with unchanged(table):
            assert dk.repair(table) == dk.results.RepairReport()


def test_what_verify_promises_repair_does(catalog: dk.Catalog) -> None:
    table = with_two_vectors(catalog)
    promised = {f.kind for f in findings(table) if f.repair}
    assert promised == {a.kind for a in dk.repair(table, dry_run=True).actions}
    stale = with_metadata(table, lambda raw: raw.update({"refs": {}, "current-snapshot-id": None}))
    assert [f.repair for f in findings(stale, snapshots="all") if f.kind == "duplicate-deletion-vector"] == [None]


def test_what_cannot_be_repaired_is_told(catalog: dk.Catalog) -> None:
    """A Puffin file is gone: no repair is safe, and a report of nothing would say that the table is sound."""
    table = make(catalog, ROWS, format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    (vector,) = live_files(table, 1)
    stored_at(vector["file_path"]).unlink()
    for dry_run in (True, False):
        with unchanged(table):
            report = dk.repair(table, dry_run=dry_run)
        assert (report.actions, report.refused, report.commit) == ((), (), None)
        assert {(f.kind, f.file) for f in report.unrepaired} == {("missing-file", vector["file_path"])}


def test_what_is_repaired_is_not_told_as_left(catalog: dk.Catalog) -> None:
    table = with_two_vectors(catalog)
    assert dk.repair(table, dry_run=True).unrepaired == ()
    chosen = dk.repair(table, ["summary-total"], dry_run=True).unrepaired
    assert "duplicate-deletion-vector" in {f.kind for f in chosen}
    assert dk.repair(table).unrepaired == ()
