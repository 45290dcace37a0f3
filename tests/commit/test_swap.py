"""Commits: one snapshot each, lost races planned anew, failures without a trace, and Java's bookkeeping."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import deletekit as dk
from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import Commit, commit, commit_together
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.table.catalog import SqlStore, TableState
from deletekit.table.identifier import Identifier
from tests.commit.racing import QUICK, Interfering
from tests.invariants import check_table, reachable
from tests.storage import stored_at
from tests.stored import avro, entries, head_json, live_files, manifest_list, metadata_json, snapshots_json
from tests.tables import (
    VERSION_AND_MODE,
    expected,
    files_of,
    ids,
    items,
    live,
    make,
    raises,
    set_by_another_writer,
    unchanged,
)

FIVE = items((1, "a", 1.0), (2, None, 2.0), (3, "b", 3.0), (4, "a", None), (5, None, 5.0))
EVERY_MODE = pytest.mark.parametrize(("version", "mode"), VERSION_AND_MODE)
Json = Mapping[str, Any]
Verb = Callable[[dk.Table], Any]


class Failing(SqlStore):
    """The embedded catalog with an error before or after the swap."""

    def __init__(self, catalog: dk.Catalog, error: Exception, *, lands: bool) -> None:
        super().__init__(catalog.pyiceberg)  # type: ignore[arg-type]
        self._error = error
        self._lands = lands

    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        if self._lands:
            super().commit(identifier, requirements, updates)
        raise self._error


# --- lost races -------------------------------------------------------------------------------------------------------

NEW = items((6, "n", 6.0), (1, "n", 1.5))


def verbs(mode: str) -> dict[str, Verb]:
    by_id = {"on": ["id", "category"]} if mode == "equality-delete" else {}
    found: dict[str, Verb] = {
        "append": lambda t: dk.append(t, items((7, "v", 7.0))),
        "delete": lambda t: dk.delete(t, "id <= 2", mode=mode),
        "delete all": lambda t: dk.delete(t, "category = 'a' and id > 0", mode=mode, **by_id),
        "update": lambda t: dk.update(t, {"value": 0.5}, where="id in (1, 3)", mode=mode),
        "merge": lambda t: dk.merge(t, items((1, "m", 0.1), (8, "m", 0.2)), on=["id"], mode=mode),
    }
    if mode == "equality-delete":
        found["delete keys"] = lambda t: dk.delete_keys(t, [{"category": None}])
    return found


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize(("old", "new"), [(1, 2), (1, 3), (2, 3)])
@pytest.mark.parametrize("verb", ["append", "delete", "update", "merge"])
@pytest.mark.parametrize("rows", [0, 5])
def test_an_upgrade_meanwhile(catalog: dk.Catalog, old: int, new: int, verb: str, rows: int) -> None:
    """What was written for the old version is thrown away and written for the new one."""
    mode = "copy-on-write" if old == 1 else "merge-on-read"
    plain = make(catalog, *([FIVE[:rows]] if rows else []), format_version=old, properties=QUICK)
    racing = Interfering(catalog)
    racing.others.append(lambda: dk.upgrade_format_version(dk.load_table(catalog, plain.name), new))
    table = dk.load_table(racing, plain.name)
    done = verbs(mode)[verb](table)
    serial = make(catalog, *([FIVE[:rows]] if rows else []), format_version=old)
    verbs(mode)[verb](serial)
    assert live(table) == live(serial)
    check_table(table)
    if done.snapshot_id is not None:
        assert done.attempts == 2
        assert {d["file_format"] for d in live_files(table, 1)} <= {"PUFFIN" if new == 3 else "PARQUET"}


def test_an_upgrade_meanwhile_of_a_mode_that_the_new_version_lacks(catalog: dk.Catalog) -> None:
    plain = make(catalog, FIVE, properties=QUICK)
    racing = Interfering(catalog)
    racing.others.append(lambda: dk.upgrade_format_version(dk.load_table(catalog, plain.name), 3))
    table = dk.load_table(racing, plain.name)
    with raises(dk.InvalidInputError, "delete-kind"):
        dk.delete(table, "id = 1", mode="position-delete")
    assert live(table.refresh()) == expected(FIVE)
    check_table(table)


def test_a_column_that_is_dropped_meanwhile(catalog: dk.Catalog) -> None:
    plain = make(catalog, FIVE, properties=QUICK)
    racing = Interfering(catalog)

    def drop_and_write() -> None:
        other = dk.load_table(catalog, plain.name)
        dk.drop_column(other, "category")
        dk.append(other, [{"id": 6}])

    racing.others.append(drop_and_write)
    with raises(dk.InvalidInputError, "filter"):
        dk.delete(dk.load_table(racing, plain.name), "category = 'a'")
    check_table(plain.refresh())


def test_a_build_that_commits_in_between(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, properties=QUICK)
    other = dk.load_table(catalog, table.name)
    seen: list[tuple[int | None, int]] = []

    def build(base: Base) -> RowDelta:
        if len(seen) < 3:
            dk.append(other, items((10 + len(seen), "o", 0.0)))
        head = base.snapshot
        seen.append((head.sequence_number if head else None, base.metadata.last_sequence_number))
        rows = align(items((99, "mine", 0.0)), base.metadata.schema)
        return RowDelta(added_data_files=tuple(write_data_files(base.write, rows)))

    done = commit(plan_change(table, build))
    assert (done.attempts, done.sequence_number) == (4, 5)
    assert seen == [(1, 1), (2, 2), (3, 3), (4, 4)], "each attempt is planned on a fresh head"
    assert ids(table) == [1, 2, 3, 4, 5, 10, 11, 12, 99]
    assert len([f for f in live_files(table, 0) if f["record_count"] == 1]) == 4
    check_table(table)


def test_of_several_changes_one_may_become_empty(catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lost race there is nothing more to do in one table; the other gets its change."""
    one, two = (make(catalog, FIVE, properties=QUICK) for _ in range(2))
    swap = SqlStore.commit_together

    def overtaken(store: SqlStore, changes: Any) -> Any:
        dk.append(dk.load_table(catalog, one.name), NEW)
        return swap(store, changes)

    def build(base: Base) -> RowDelta:
        if len(base.metadata.snapshots) > 1:
            return RowDelta()
        return RowDelta(added_data_files=tuple(write_data_files(base.write, align(NEW, base.metadata.schema))))

    monkeypatch.setattr(SqlStore, "commit_together", overtaken)
    nothing, done = commit_together([plan_change(table, build) for table in (one, two)])
    assert (nothing.snapshot_id, done.snapshot_id) == (None, head_json(two)["snapshot-id"])
    assert ids(one) == ids(two) == [1, 1, 2, 3, 4, 5, 6]
    for table in (one, two):
        check_table(table.refresh())


def test_an_old_handle_is_no_race(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    other = dk.load_table(catalog, table.name)
    dk.delete(other, "id = 1", mode="position-delete")
    done = dk.delete(table, "id in (1, 2)", mode="position-delete")
    assert (done.attempts, ids(table)) == (1, [3, 4, 5])
    assert sum(f["record_count"] for f in live_files(table, 1)) == 2, "row 1 was deleted once"


# --- commits that move no rows ----------------------------------------------------------------------------------------


def racing_table(catalog: dk.Catalog, other: Verb, times: int = 1, **properties: str) -> dk.Table:
    """A table of `FIVE`, to which `other` is done just before each of the first commits."""
    plain = make(catalog, FIVE, properties={**QUICK, **properties}, partition_by=["category"])
    racing = Interfering(catalog)
    racing.others += [lambda: other(dk.load_table(catalog, plain.name))] * times
    return dk.load_table(racing, plain.name)


def test_two_columns_at_once(catalog: dk.Catalog) -> None:
    table = racing_table(catalog, lambda t: dk.add_column(t, "theirs", "int"))
    dk.add_column(table, "mine", "string")
    assert [(f.name, f.field_id) for f in table.schema.fields][3:] == [("theirs", 4), ("mine", 5)]
    assert metadata_json(table)["last-column-id"] == 5


def test_two_partition_fields_at_once(catalog: dk.Catalog) -> None:
    table = racing_table(catalog, lambda t: dk.add_partition_field(t, "bucket(2, id)"))
    dk.add_partition_field(table, "truncate(3, id)")
    fields = [("category", 1000), ("id_bucket", 1001), ("id_trunc", 1002)]
    assert [(f.name, f.field_id) for f in table.spec.fields] == fields


def test_properties_at_once(catalog: dk.Catalog) -> None:
    table = racing_table(catalog, lambda t: dk.set_properties(t, {"a": "theirs", "b": "theirs"}))
    dk.set_properties(table, {"a": "mine", "c": "mine"})
    assert {n: table.properties[n] for n in "abc"} == {"a": "mine", "b": "theirs", "c": "mine"}


SECONDS: dict[str, tuple[Verb, Verb, type[dk.DeletekitError], str]] = {
    "column": (
        lambda t: dk.add_column(t, "x", "int"), lambda t: dk.add_column(t, "x", "int"),
        dk.InvalidInputError, "schema",
    ),
    "dropped": (
        lambda t: dk.drop_column(t, "value"), lambda t: dk.rename_column(t, "value", "v"),
        dk.NotFoundError, "column-not-found",
    ),
    "field": (
        lambda t: dk.drop_partition_field(t, "category"), lambda t: dk.drop_partition_field(t, "category"),
        dk.NotFoundError, "partition-spec",
    ),
    "ref": (
        lambda t: dk.create_tag(t, "r"), lambda t: dk.create_branch(t, "r"),
        dk.InvalidInputError, "ref",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SECONDS)
def test_the_second_finds_what_the_first_did(catalog: dk.Catalog, case: str) -> None:
    other, mine, error, kind = SECONDS[case]
    table = racing_table(catalog, other)
    with pytest.raises(error) as caught:
        mine(table)
    assert caught.value.kind == kind
    check_table(table.refresh())


def test_two_upgrades_at_once(catalog: dk.Catalog) -> None:
    for version in (2, 3):
        plain = make(catalog, FIVE, format_version=1, properties=QUICK)
        racing = Interfering(catalog)
        other = dk.load_table(catalog, plain.name)
        racing.others.append(lambda other=other, version=version: dk.upgrade_format_version(other, version))
        table = dk.load_table(racing, plain.name)
        if version == 2:
            dk.upgrade_format_version(table, 2)
        else:
            with raises(dk.InvalidInputError, "format-version"):
                dk.upgrade_format_version(table, 2)
        assert table.refresh().format_version == version
        check_table(table)


def test_a_column_after_too_many_lost_races(catalog: dk.Catalog) -> None:
    names = itertools.count()
    retries = {"commit.retry.num-retries": "2"}
    table = racing_table(catalog, lambda t: dk.add_column(t, f"c{next(names)}", "int"), times=9, **retries)
    with pytest.raises(dk.CommitConflictError):
        dk.add_column(table, "mine", "string")
    assert [f.name for f in table.refresh().schema.fields][3:] == ["c0", "c1", "c2"]
    check_table(table)


# --- giving up --------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3, tier=1)
@EVERY_MODE
@pytest.mark.parametrize("retries", [0, 2])
def test_too_many_lost_races(catalog: dk.Catalog, version: int, mode: str, retries: int) -> None:
    for name, verb in verbs(mode).items():
        properties = {**QUICK, "commit.retry.num-retries": str(retries)}
        plain = make(catalog, FIVE, format_version=version, properties=properties)
        racing = Interfering(catalog)
        number = itertools.count(100)

        def other(plain: dk.Table = plain, number: Any = number) -> None:
            dk.append(dk.load_table(catalog, plain.name), items((next(number), "o", 0.0)))

        racing.others += [other] * 10
        table = dk.load_table(racing, plain.name)
        with pytest.raises(dk.CommitConflictError) as caught:
            verb(table)
        # A merge has read the range of its keys. Keys that were looked up would hide rows that nobody has seen.
        unread = not (mode == "equality-delete" and name in ("delete", "update", "delete all", "merge"))
        assert caught.value.kind == ("commit-conflict" if unread else "conflicting-data-file"), name
        assert caught.value.retryable
        said = str(caught.value)
        assert f"gave up after {1 + retries} attempt" in said
        landed = f"landed meanwhile: append {head_json(plain.refresh())['snapshot-id']}"
        assert f"call again, or set table property commit.retry.num-retries above {retries}; {landed}" in said
        assert "nothing was committed" in said
        assert len(racing.others) == 10 - 1 - retries
        assert ids(table.refresh()) == [1, 2, 3, 4, 5, *range(100, 101 + retries)]
        check_table(table)  # no file of the lost attempts is left


def test_a_deadline(catalog: dk.Catalog) -> None:
    properties = {"commit.retry.num-retries": "1000", "commit.retry.total-timeout-ms": "50", **QUICK}
    plain = make(catalog, FIVE, properties=properties)
    racing = Interfering(catalog)
    racing.others += [lambda: dk.append(dk.load_table(catalog, plain.name), FIVE)] * 1000
    with pytest.raises(dk.CommitConflictError, match="timeout-ms above 50; landed meanwhile"):
        dk.append(dk.load_table(racing, plain.name), FIVE)
    check_table(plain.refresh())


@pytest.mark.sampled(4, tier=1)
@pytest.mark.parametrize(
    "name",
    [
        "commit.retry.num-retries",
        "commit.retry.min-wait-ms",
        "commit.retry.max-wait-ms",
        "commit.retry.total-timeout-ms",
    ],
)
@pytest.mark.parametrize("value", ["many", "-1", "", "1.5"])
def test_retry_properties_that_are_no_numbers(catalog: dk.Catalog, name: str, value: str) -> None:
    table = make(catalog)
    set_by_another_writer(table, {name: value})
    with unchanged(table), raises(dk.InvalidInputError, "property", field=name, found=value or ""):
        dk.append(table, FIVE)


@pytest.mark.parametrize("properties", [{"a": 1}, {1: "a"}, {"a": None}, {"operation": "append"}], ids=str)
def test_summary_entries_that_cannot_be(catalog: dk.Catalog, properties: Any) -> None:
    table = make(catalog, FIVE, partition_by=["category"])
    calls: list[Verb] = [
        lambda t: dk.append(t, FIVE, commit_properties=properties),
        lambda t: dk.delete(t, "id = 1", commit_properties=properties),
        lambda t: dk.delete_keys(t, [{"id": 1}], commit_properties=properties),
    ]
    for call in calls:
        with unchanged(table), raises(dk.InvalidInputError, "commit-properties"):
            call(table)


# --- unknown state ----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4, tier=1)
@EVERY_MODE
@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("error", [dk.CommitStateUnknownError("no answer"), ConnectionResetError("by peer")], ids=str)
def test_files_of_an_unknown_commit_are_kept(
    catalog: dk.Catalog, version: int, mode: str, lands: bool, error: Exception
) -> None:
    """The commit may be there, or may still come: whoever removes its files may destroy the table."""
    for verb in verbs(mode).values():
        plain = make(catalog, FIVE, format_version=version)
        before, old = files_of(plain), live(plain)
        table = dk.load_table(Failing(catalog, error, lands=lands), plain.name)
        with pytest.raises(dk.CommitStateUnknownError) as caught:
            verb(table)
        assert error in (caught.value, caught.value.__cause__)
        added = files_of(plain) - before
        assert any("/metadata/snap-" in f for f in added)
        plain.refresh()
        if lands:
            check_table(plain)
            assert len(snapshots_json(plain)) == 2
        else:
            assert live(plain) == old
            assert added & reachable(plain) == set()
        assert dk.append(plain, items((50, "later", 0.0))).snapshot_id is not None, "and the table works on"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_are_not_added_again_that_a_lost_race_had_added(catalog: dk.Catalog, version: int) -> None:
    """New files are not looked for among the live ones, but they are after the catalog's first answer."""
    plain = make(catalog, FIVE, format_version=version, properties=QUICK)
    lost = Failing(catalog, dk.CommitConflictError("another writer committed first"), lands=True)
    with raises(dk.InvalidInputError, "duplicate-file"):
        dk.append(dk.load_table(lost, plain.name), items((9, "z", 9.0)))
    assert len(snapshots_json(plain.refresh())) == 2


@pytest.mark.sampled(3, tier=1)
@EVERY_MODE
def test_files_of_a_refused_commit_are_removed(catalog: dk.Catalog, version: int, mode: str) -> None:
    for error in (dk.UnsupportedError("no"), dk.InvalidInputError("no"), dk.NotFoundError("no such table")):
        plain = make(catalog, FIVE, format_version=version)
        for verb in verbs(mode).values():
            table = dk.load_table(Failing(catalog, error, lands=False), plain.name)
            with unchanged(plain), pytest.raises(type(error)):
                verb(table)


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_files_of_a_build_that_fails_are_removed(catalog: dk.Catalog, error: BaseException) -> None:
    table = make(catalog, FIVE)

    def build(base: Base) -> RowDelta:
        rows = align(FIVE, base.metadata.schema)
        written = write_data_files(base.write, rows)
        assert stored_at(written[0].file_path).exists()
        raise error

    with unchanged(table), pytest.raises(type(error)):
        commit(plan_change(table, build))


def test_a_change_that_turns_out_empty_leaves_no_file(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)

    def build(base: Base) -> RowDelta:
        write_data_files(base.write, align(FIVE, base.metadata.schema))
        return RowDelta()

    with unchanged(table):
        assert commit(plan_change(table, build)) == Commit(attempts=1)


def test_only_own_files_are_removed(catalog: dk.Catalog) -> None:
    """A path that is taken is somebody else's file: the attempt that ran into it must not remove it."""
    table = make(catalog, FIVE, properties={**QUICK, "commit.retry.num-retries": "1"})
    theirs = f"{table.location}/data/theirs.parquet"
    stored_at(theirs).write_bytes(b"theirs")

    def build(base: Base) -> RowDelta:
        base.write.write(f"{table.location}/data/mine-{len(base.write.operation_id)}.parquet", b"mine")
        base.write.write(theirs, b"mine")
        return RowDelta()

    with unchanged(table), raises(dk.CommitConflictError, "file-exists", file=theirs):
        commit(plan_change(table, build))
    assert stored_at(theirs).read_bytes() == b"theirs"


# --- summaries --------------------------------------------------------------------------------------------------------


def size(*files: Mapping[str, Any]) -> str:
    return str(sum(f.get("content_size_in_bytes") or stored_at(f["file_path"]).stat().st_size for f in files))


def summary_of(table: dk.Table) -> dict[str, str]:
    """The head's summary without who wrote it and the totals, which are checked here."""
    check_table(table)
    summary: dict[str, str] = head_json(table)["summary"]
    assert summary.pop("engine-name") == "deletekit"
    assert summary.pop("engine-version")
    return {name: value for name, value in summary.items() if not name.startswith("total-")}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_summary_of_an_append(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, FIVE, format_version=version, partition_by=["category"])
    new = [e["data_file"] for e in entries(table, 0) if e["snapshot_id"] == head_json(table)["snapshot-id"]]
    assert len(new) == 3
    assert summary_of(table) == {
        "operation": "append",
        "added-data-files": "3",
        "added-records": "5",
        "added-files-size": size(*new),
        "changed-partition-count": "3",
        "manifests-created": "1",
        "manifests-kept": "1",
        "manifests-replaced": "0",
    }


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_summary_of_a_copy_on_write_delete(catalog: dk.Catalog, version: int) -> None:
    table = make(catalog, FIVE, FIVE[:1], format_version=version)
    old = live_files(table, 0)
    dk.delete(table, "id in (1, 2)", mode="copy-on-write")
    (new,) = live_files(table, 0)
    assert summary_of(table) == {
        "operation": "overwrite",
        "added-data-files": "1",
        "added-records": "3",
        "added-files-size": size(new),
        "deleted-data-files": "2",
        "deleted-records": "6",
        "removed-files-size": size(*old),
        "changed-partition-count": "1",
        "manifests-created": "3",
        "manifests-kept": "0",
        "manifests-replaced": "2",
    }


def test_the_summary_of_a_delete_of_whole_files(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:1], FIVE[1:])
    gone = next(f for f in live_files(table, 0) if f["record_count"] == 1)
    dk.delete(table, "id = 1", mode="copy-on-write")
    assert summary_of(table) == {
        "operation": "delete",
        "deleted-data-files": "1",
        "deleted-records": "1",
        "removed-files-size": size(gone),
        "changed-partition-count": "1",
        "manifests-created": "1",
        "manifests-kept": "1",
        "manifests-replaced": "1",
    }


MERGE_ON_READ = [
    (2, "position-delete", {"added-position-delete-files": "1", "added-position-deletes": "2"}),
    (2, "equality-delete", {"added-equality-delete-files": "1", "added-equality-deletes": "2"}),
    (3, "deletion-vector", {"added-dvs": "1", "added-position-deletes": "2"}),
    (3, "equality-delete", {"added-equality-delete-files": "1", "added-equality-deletes": "2"}),
]


@pytest.mark.parametrize(("version", "mode", "counters"), MERGE_ON_READ)
def test_the_summary_of_a_merge_on_read_delete(
    catalog: dk.Catalog, version: int, mode: str, counters: dict[str, str]
) -> None:
    table = make(catalog, FIVE, format_version=version)
    dk.delete(table, "id in (1, 2)", mode=mode)
    (delete,) = live_files(table, 1)
    assert summary_of(table) == {
        "operation": "delete",
        "added-files-size": size(delete),
        "added-delete-files": "1",
        **counters,
        "changed-partition-count": "1",
        "manifests-created": "1",
        "manifests-kept": "1",
        "manifests-replaced": "0",
    }


def test_the_summary_of_a_replaced_vector(catalog: dk.Catalog) -> None:
    """The full new cardinality is added and the full old one removed; its size is that of the blob, not of the file."""
    table = make(catalog, FIVE, format_version=3)
    dk.delete(table, "id = 1", mode="deletion-vector")
    (old,) = live_files(table, 1)
    dk.delete(table, "id = 2", mode="deletion-vector")
    (new,) = live_files(table, 1)
    assert summary_of(table) == {
        "operation": "delete",
        "added-files-size": str(new["content_size_in_bytes"]),
        "added-delete-files": "1",
        "added-dvs": "1",
        "added-position-deletes": "2",
        "removed-files-size": str(old["content_size_in_bytes"]),
        "removed-delete-files": "1",
        "removed-dvs": "1",
        "removed-position-deletes": "1",
        "changed-partition-count": "1",
        "manifests-created": "2",
        "manifests-kept": "1",
        "manifests-replaced": "1",
    }


def test_the_summary_of_an_update(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, format_version=3, partition_by=["category"])
    dk.update(table, {"category": "z"}, where="id = 1", mode="deletion-vector")
    (delete,) = live_files(table, 1)
    (new,) = [e["data_file"] for e in entries(table, 0) if e["snapshot_id"] == head_json(table)["snapshot-id"]]
    found = summary_of(table)
    assert found["operation"] == "overwrite"
    assert {n: v for n, v in found.items() if n.startswith(("added", "removed", "deleted", "changed"))} == {
        "added-data-files": "1",
        "added-records": "1",
        "added-files-size": size(new, delete),
        "added-delete-files": "1",
        "added-dvs": "1",
        "added-position-deletes": "1",
        "changed-partition-count": "2",
    }


def test_partitions_in_the_summary(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE, partition_by=["category"], properties={"write.summary.partition-limit": "3"})
    found = summary_of(table)
    assert found["partition-summaries-included"] == "true"
    parts = {n: v for n, v in found.items() if n.startswith("partitions.")}
    assert set(parts) == {"partitions.category=a", "partitions.category=b", "partitions.category=null"}
    (b,) = [f for f in live_files(table, 0) if f["partition"]["category"] == "b"]
    values = dict(pair.split("=") for pair in parts["partitions.category=b"].split(","))
    assert values == {"added-data-files": "1", "added-records": "1", "added-files-size": size(b)}
    dk.append(table, items(*((i, str(i), 0.0) for i in range(4))))
    assert not any(n.startswith("partition") for n in summary_of(table)), "more than the limit"


def test_totals_that_the_parent_lacks_are_left_out(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE)
    metadata = metadata_json(table)
    summary = metadata["snapshots"][0]["summary"]
    del summary["total-records"]
    summary["total-data-files"] = "some"

    stored_at(table.metadata_location).write_text(json.dumps(metadata))
    dk.append(table, FIVE)
    found = head_json(table)["summary"]
    assert "total-records" not in found
    assert "total-data-files" not in found
    assert found["total-delete-files"] == "0"


# --- manifests --------------------------------------------------------------------------------------------------------


def test_the_order_of_manifests(catalog: dk.Catalog) -> None:
    """New data, old data, then new deletes, old deletes: as Java writes the list."""
    table = make(catalog, FIVE[:2], FIVE[2:], format_version=3)
    dk.delete(table, "id in (2, 3)", mode="deletion-vector")
    dk.delete_keys(table, [{"id": 77}])
    before = manifest_list(table)
    dk.update(table, {"value": 0.0}, where="id = 4", mode="deletion-vector")
    after = manifest_list(table)
    assert [m["content"] for m in after] == [0, 0, 0, 1, 1, 1]
    numbers = [m["sequence_number"] for m in after]
    assert numbers == [5, 2, 1, 5, 4, 5], "the vectors' manifest was rewritten, in its place"
    kept = [m["manifest_path"] for m in before]
    assert [m["manifest_path"] for m in after][1:3] == kept[:2]
    assert after[4]["manifest_path"] == kept[2]
    assert [e["status"] for e in avro(after[5]["manifest_path"])] in ([0, 2], [2, 0])


def test_manifests_without_a_live_file_are_dropped_by_the_next_commit(catalog: dk.Catalog) -> None:
    table = make(catalog, FIVE[:1], FIVE[1:])
    dk.delete(table, "id = 1", mode="copy-on-write")
    emptied = [m for m in manifest_list(table) if {e["status"] for e in avro(m["manifest_path"])} == {2}]
    assert len(emptied) == 1, "it tells what this snapshot deleted"
    dk.append(table, items((7, "x", 0.0)))
    assert emptied[0]["manifest_path"] not in {m["manifest_path"] for m in manifest_list(table)}


@pytest.mark.parametrize("codec", ["gzip", "zstd", "snappy", "uncompressed"])
def test_manifest_codecs(catalog: dk.Catalog, codec: str) -> None:
    table = make(catalog, FIVE, properties={"write.manifest.compression-codec": codec})
    dk.delete(table, "id = 1", mode="position-delete")
    header = stored_at(manifest_list(table)[0]["manifest_path"]).read_bytes()[:4000]
    names = {"gzip": b"deflate", "zstd": b"zstandard", "uncompressed": b"null"}
    assert names.get(codec, codec.encode()) in header
    assert ids(table) == [2, 3, 4, 5]
