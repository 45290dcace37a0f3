"""Which Delta version a table is at: also after versions without data, after rollbacks, and from the first on."""

import json
import threading
from pathlib import Path

import pytest

import deletekit as dk
from deletekit.delta.log import DeltaLog
from tests.commit.racing import Interfering
from tests.delta.handmade import HandMade, Json, remove, with_vector
from tests.delta.reading import VERSIONS, check_synced, raises_kind
from tests.tables import ids

NO_DATA: Json = {"commitInfo": {"operation": "SET TBLPROPERTIES"}}


def test_a_version_without_data_is_recorded(
    delta: HandMade, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next sync continues behind it, and does not read it again."""
    delta.commit(delta.data(range(3)))
    dk.sync_delta(delta.path, catalog, "t.d")
    for _ in range(2):
        delta.commit(NO_DATA)
    synced = dk.sync_delta(delta.path, catalog, "t.d")
    assert (synced.version, synced.previous_version, synced.commits) == (2, 0, ())
    assert dk.sync_delta(delta.path, catalog, "t.d").previous_version == 2
    delta.commit(delta.data(range(3, 5)))
    read: list[int] = []
    commit = DeltaLog._commit
    monkeypatch.setattr(DeltaLog, "_commit", lambda log, version: read.append(version) or commit(log, version))
    synced = dk.sync_delta(delta.path, catalog, "t.d")
    assert set(read) == {3}
    assert (synced.version, synced.previous_version, len(synced.commits)) == (3, 2, 1)
    check_synced(synced.table)


def test_a_rollback_takes_a_version_without_data_back(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(delta.data(range(3)))
    first = dk.sync_delta(delta.path, catalog, "t.d").commit.snapshot_id
    delta.commit(delta.data(range(3, 5)))
    dk.sync_delta(delta.path, catalog, "t.d")
    delta.commit(NO_DATA)
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert first is not None
    dk.rollback(table, snapshot_id=first)
    synced = dk.sync_delta(delta.path, catalog, "t.d")
    assert (synced.previous_version, synced.version, ids(synced.table)) == (0, 2, [0, 1, 2, 3, 4])


def test_data_files_of_delta_are_not_compacted(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(*(delta.data(range(i, i + 1)) for i in range(9)))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    for dry_run in (True, False):
        with raises_kind("delta-data-files"):
            dk.compact(table, min_input_files=2, dry_run=dry_run)
    dk.rewrite_manifests(table)
    delta.commit(delta.data(range(50, 51)))
    assert len(ids(dk.sync_delta(delta.path, catalog, "t.d").table)) == 10


def test_an_empty_table_has_a_version(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit()
    assert dk.sync_delta(delta.path, catalog, "t.d").version == 0
    delta.commit(NO_DATA)
    synced = dk.sync_delta(delta.path, catalog, "t.d")
    assert (synced.previous_version, synced.version) == (0, 1)
    delta.commit(delta.data(range(2)))
    synced = dk.sync_delta(delta.path, catalog, "t.d")
    assert (synced.previous_version, synced.version, ids(synced.table)) == (1, 2, [0, 1])


def test_another_delta_table_behind_an_empty_one(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit()
    dk.sync_delta(delta.path, catalog, "t.d")
    delta.log(0).write_text(delta.log(0).read_text().replace("handmade", "another"))
    with raises_kind("delta-table-replaced", found="another"):
        dk.sync_delta(delta.path, catalog, "t.d")


@VERSIONS
def test_the_first_sync_makes_a_snapshot_for_each_version(
    delta: HandMade, catalog: dk.Catalog, format_version: int
) -> None:
    add = delta.data(range(4))
    delta.commit(add)
    delta.commit(NO_DATA)
    deleted = with_vector(add, delta.vector([0]))
    delta.commit(remove(add), deleted)
    delta.commit(remove(deleted), delta.data(range(7, 9)))
    synced = dk.sync_delta(delta.path, catalog, "t.d", commits="each", format_version=format_version)
    assert (synced.version, synced.previous_version) == (3, None)
    seen = [dk.scan(synced.table, snapshot_id=c.snapshot_id).to_arrow() for c in synced.commits]
    assert [sorted(rows["id"].to_pylist()) for rows in seen] == [[0, 1, 2, 3], [1, 2, 3], [7, 8]]
    check_synced(synced.table)


def test_the_first_sync_begins_where_files_are_left(delta: HandMade, catalog: dk.Catalog) -> None:
    gone = delta.data(range(4), "gone.parquet")
    delta.commit(gone)
    delta.commit(remove(gone), delta.data(range(4, 6)))
    delta.commit(delta.data(range(6, 7)))
    (delta.path / "gone.parquet").unlink()
    synced = dk.sync_delta(delta.path, catalog, "t.d", commits="each")
    assert len(synced.commits) == 2
    assert ids(synced.table) == [4, 5, 6]
    (delta.path / next(delta.path.glob("part-*.parquet"))).unlink()
    with pytest.raises(dk.NotFoundError):
        dk.sync_delta(delta.path, catalog, "t.other", commits="each")


@VERSIONS
def test_syncs_at_once(delta: HandMade, catalog: dk.Catalog, format_version: int) -> None:
    """Syncs of the same table at the same time, as one commit or many: each ends at the newest version."""
    adds = [delta.data(range(i * 10, i * 10 + 10), f"{i}.parquet") for i in range(6)]
    for add in adds:
        delta.commit(add)
    dk.sync_delta(delta.path, catalog, "t.d", version=0, format_version=format_version)
    for add in adds[:3]:
        delta.commit(remove(add), with_vector(add, delta.vector([0, 3])))
    failed: list[BaseException] = []

    def sync(commits: str) -> None:
        try:
            dk.sync_delta(delta.path, catalog, "t.d", commits=commits)  # type: ignore[arg-type]
        except BaseException as e:  # noqa: BLE001
            failed.append(e)

    threads = [threading.Thread(target=sync, args=(c,)) for c in ("each", "coalesce", "each", "coalesce")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    table = dk.load_table(catalog, "t.d")
    assert dk.sync_delta(delta.path, catalog, "t.d").previous_version == 8
    assert len(ids(table)) == 60 - 6
    check_synced(table)


@VERSIONS
def test_another_version_is_committed_before_one_without_change_is_recorded(
    delta: HandMade, catalog: dk.Catalog, format_version: int
) -> None:
    """From version 0 to version 2 no file changes, but from version 1 to version 2 one does."""
    delta.commit(delta.data(range(3)))
    dk.sync_delta(delta.path, catalog, "t.d", format_version=format_version)
    extra = delta.data(range(10, 13))
    delta.commit(extra)
    delta.commit(remove(extra))
    racing = Interfering(catalog)
    racing.others.append(lambda: dk.sync_delta(delta.path, catalog, "t.d", version=1))
    synced = dk.sync_delta(delta.path, racing, "t.d")
    assert (synced.version, len(synced.commits), ids(synced.table)) == (2, 1, [0, 1, 2])
    assert dk.sync_delta(delta.path, catalog, "t.d").previous_version == 2
    check_synced(synced.table)


def test_someone_else_commits_before_a_version_without_data_is_recorded(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(delta.data(range(3)))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    delta.commit(NO_DATA)
    racing = Interfering(catalog)
    racing.others.append(lambda: dk.delete(table, "id = 1", mode="deletion-vector"))
    with raises_kind("delta-foreign-commit"):
        dk.sync_delta(delta.path, racing, "t.d")


@pytest.mark.parametrize("version", [None, 1])
def test_a_later_version_without_data_is_recorded_first(
    delta: HandMade, catalog: dk.Catalog, version: int | None
) -> None:
    """The slower sync takes neither the version nor the schema back."""
    delta.commit(delta.data(range(3)))
    dk.sync_delta(delta.path, catalog, "t.d")
    delta.commit(NO_DATA)

    def ahead() -> None:
        fields = json.loads(delta.schema)["fields"]
        delta.schema = json.dumps({"type": "struct", "fields": [*fields, {**fields[0], "name": "v"}]})
        delta.commit(delta.metadata())
        dk.sync_delta(delta.path, catalog, "t.d")

    racing = Interfering(catalog)
    racing.others.append(ahead)
    if version is None:
        assert dk.sync_delta(delta.path, racing, "t.d").version == 2
    else:
        with pytest.raises(dk.InvalidInputError, match="force would take the table back"):
            dk.sync_delta(delta.path, racing, "t.d", version=version)
    table = dk.load_table(catalog, "t.d")
    assert [f.name for f in table.schema.fields] == ["id", "v"]
    assert dk.sync_delta(delta.path, catalog, "t.d").previous_version == 2


def test_a_table_that_is_up_to_date_is_proven_too(delta: HandMade, catalog: dk.Catalog) -> None:
    """`verify` reads every manifest also if there is no new version; a sync without it does not."""
    delta.commit(delta.data(range(3)))
    table = dk.sync_delta(delta.path, catalog, "t.d").table
    assert dk.sync_delta(delta.path, catalog, "t.d", verify=True).commits == ()
    for manifest in Path(table.location.removeprefix("file://")).glob("metadata/*-m*.avro"):
        manifest.write_bytes(b"damaged")
    dk.sync_delta(delta.path, catalog, "t.d")
    with pytest.raises(dk.FormatError):
        dk.sync_delta(delta.path, catalog, "t.d", verify=True)
