"""Syncs of tables that others changed, of Delta tables that are elsewhere or others, and several syncs at a time."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from tests.commit.racing import Interfering
from tests.delta.handmade import HandMade, remove, with_vector
from tests.delta.reading import VERSIONS, check_synced, live_delete_entries, raises_kind, sync
from tests.tables import ids


def test_a_foreign_commit_is_refused_and_forced_over(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(with_vector(delta.data(range(10)), delta.vector([1])))
    table = sync(delta, catalog).table
    dk.delete(table, "id = 5", mode="deletion-vector")
    dk.append(table, pa.table({"id": pa.array([77], pa.int64())}))
    dk.delete_keys(table, [{"id": 6}])
    delta.commit(delta.data(range(100, 101)))
    with raises_kind("delta-foreign-commit"):
        sync(delta, catalog)
    done = sync(delta, catalog, force=True)
    assert ids(done.table) == [0, *range(2, 10), 100]
    check_synced(done.table)


def test_a_version_that_is_behind(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(delta.data(range(10)))
    delta.commit(delta.data(range(1)))
    sync(delta, catalog)
    with raises_kind("delta-version-behind"):
        sync(delta, catalog, version=0)
    assert len(ids(sync(delta, catalog, version=0, force=True).table)) == 10


def test_a_table_that_was_never_deltas(delta: HandMade, catalog: dk.Catalog) -> None:
    delta.commit(delta.data(range(10)))
    dk.append(dk.create_table(catalog, "t.d", pa.schema([("id", pa.int64())])), [{"id": 1}])
    with raises_kind("delta-foreign-table"):
        sync(delta, catalog)


@pytest.mark.parametrize("place", ["iceberg", "a/deletion-vectors", "_p=1/x", ""])
def test_no_folder_that_vacuum_empties(delta: HandMade, catalog: dk.Catalog, place: str) -> None:
    delta.commit(delta.data(range(10)))
    with raises_kind("delta-location"):
        sync(delta, catalog, location=str(delta.path / place))
    with pytest.raises(dk.InvalidInputError):
        sync(delta, catalog, delete_directory=str(delta.path / place))
    with pytest.raises(dk.InvalidInputError):
        sync(delta, catalog, location=str(delta.path.parent))
    assert ids(sync(delta, catalog, location=str(delta.path / "_iceberg")).table) == list(range(10))


def test_a_sync_that_loses_a_race_is_planned_anew(delta: HandMade, catalog: dk.Catalog) -> None:
    """Another sync commits the same version first; then somebody else appends."""
    add = delta.data(range(10))
    delta.commit(add)
    sync(delta, catalog)
    delta.commit(with_vector(add, delta.vector([1])), remove(add))
    racing = Interfering(catalog)
    racing.others.append(lambda: sync(delta, catalog))
    done = dk.sync_delta(delta.path, racing, "t.d")
    assert done.commits == ()
    assert ids(done.table) == [0, *range(2, 10)]
    delta.commit(delta.data(range(20, 21)))
    racing.others.append(lambda: dk.append(dk.load_table(catalog, "t.d"), [{"id": 5}]))
    with raises_kind("delta-foreign-commit"):
        dk.sync_delta(delta.path, racing, "t.d")
    assert ids(dk.load_table(catalog, "t.d")) == [0, *range(2, 6), *range(5, 10)]


def ahead(delta: HandMade, catalog: dk.Catalog) -> dk.results.DeltaSync:
    """Delta commits once more, a new column among it, and another sync follows at once."""
    fields = json.loads(delta.schema)["fields"]
    if len(fields) == 1:
        delta.schema = json.dumps({"type": "struct", "fields": [*fields, {**fields[0], "name": "v"}]})
    delta.commit(delta.metadata(), delta.data(range(100 * delta.version, 100 * delta.version + 1)))
    return sync(delta, catalog)


@pytest.mark.parametrize("options", [{}, {"commits": "each"}, {"force": True}], ids=str)
def test_a_sync_that_another_one_overtakes_has_nothing_to_do(
    delta: HandMade, catalog: dk.Catalog, options: dict[str, Any]
) -> None:
    delta.commit(delta.data(range(3)))
    sync(delta, catalog)
    delta.commit(delta.data(range(3, 6)))
    racing = Interfering(catalog)
    racing.others.append(lambda: ahead(delta, catalog))
    done = dk.sync_delta(delta.path, racing, "t.d", **options)
    assert (done.version, done.commits) == (2, ())
    assert ids(done.table) == [*range(6), 200]
    assert [f.name for f in done.table.schema.fields] == ["id", "v"]
    assert sync(delta, catalog).commits == ()


def test_two_first_syncs(delta: HandMade, catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    delta.commit(delta.data(range(3)))
    racing = Interfering(catalog)
    create = racing.create

    def late(*arguments: Any) -> Any:
        ahead(delta, catalog)
        return create(*arguments)

    monkeypatch.setattr(racing, "create", late)
    done = dk.sync_delta(delta.path, racing, "t.d")
    assert (done.version, ids(done.table)) == (1, [0, 1, 2, 100])
    check_synced(done.table)


def test_a_log_that_was_cut_off(delta: HandMade, catalog: dk.Catalog) -> None:
    """A backup of Delta's was put back: its newest version is behind the table's."""
    delta.commit(delta.data(range(3)))
    delta.commit(delta.data(range(3, 6)))
    sync(delta, catalog)
    delta.log(1).unlink()
    with pytest.raises(dk.InvalidInputError, match="than the newest of the Delta log"):
        sync(delta, catalog)
    assert ids(dk.load_table(catalog, "t.d")) == list(range(6))


@pytest.mark.parametrize("new_version", [True, False])
@pytest.mark.parametrize("copied", [True, False])
def test_a_folder_that_was_moved_or_copied(
    delta: HandMade, catalog: dk.Catalog, tmp_path: Path, copied: bool, new_version: bool
) -> None:
    add = delta.data(range(5))
    delta.commit(with_vector(add, delta.vector([1])))
    table = sync(delta, catalog).table
    old, delta.path = delta.path, tmp_path / "elsewhere"
    (shutil.copytree if copied else shutil.move)(old, delta.path)
    if new_version:
        delta.commit(delta.data(range(5, 7)))
    with pytest.raises(dk.InvalidInputError) as e:
        sync(delta, catalog)
    assert (e.value.kind, e.value.found) == ("delta-moved", str(delta.path))
    assert str(old) in str(e.value.expected)
    table = sync(delta, catalog, force=True).table
    assert ids(table) == [0, 2, 3, 4, *([5, 6] if new_version else [])]
    assert all(f["file_path"].startswith(f"{delta.path}/") for f in data_files(table))
    assert table.properties["deletekit.delta-location"] == str(delta.path)
    delta.commit(delta.data(range(7, 8)))
    assert ids(sync(delta, catalog).table)[-1] == 7, "and is followed there"


def data_files(table: dk.Table) -> list[Any]:
    entries = [e for m in dk.inspect(table)["manifests"] for e in m["entries"]]
    return [e["data_file"] for e in entries if e["data_file"]["content"] == 0 and e["status"] != 2]


SPELLINGS: dict[str, Callable[[Path], str]] = {
    "slash": lambda path: f"{path}/",
    "slashes": lambda path: f"{path.parent}//{path.name}",
    "dot": lambda path: f"{path.parent}/./{path.name}",
    "dots": lambda path: f"{path}/_delta_log/..",
    "uri": lambda path: f"file://{path}",
    "short uri": lambda path: f"file:{path}/",
    "link": lambda path: str(path.parent / "link"),
    "behind link": lambda path: str(path.parent / "link/_delta_log/.."),
}


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("first", SPELLINGS)
@pytest.mark.parametrize("format_version", [3, 2])
def test_one_folder_has_many_spellings(delta: HandMade, catalog: dk.Catalog, first: str, format_version: int) -> None:
    """The first one is kept in the table; the next syncs may use another."""
    (delta.path.parent / "link").symlink_to(delta.path)
    add = delta.data(range(20))
    delta.commit(add)
    dk.sync_delta(SPELLINGS[first](delta.path), catalog, "t.d", format_version=format_version)
    before = add
    for number, spelled in enumerate(SPELLINGS.values(), 1):
        after = with_vector(add, delta.vector(range(number)))
        delta.commit(after, remove(before))
        table = dk.sync_delta(spelled(delta.path), catalog, "t.d").table
        assert ids(table) == list(range(number, 20))
        assert len(data_files(table)) == len(live_delete_entries(table)) == 1
        before = after
    check_synced(table)


@VERSIONS
@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("upgraded", [True, False])
def test_rewritten_position_deletes_are_followed(
    delta: HandMade, catalog: dk.Catalog, granularity: str, upgraded: bool, format_version: int
) -> None:
    adds = [with_vector(delta.data(range(10 * n, 10 * n + 10)), delta.vector([n])) for n in range(3)]
    delta.commit(*adds)
    properties = {"write.delete.granularity": granularity}
    table = sync(delta, catalog, format_version=format_version, properties=properties).table
    if upgraded:
        dk.upgrade_format_version(table, 3)
    dk.rewrite_position_deletes(table, rewrite_all=True)
    dk.repack(table) if table.format_version == 3 else None
    before = ids(table)
    assert before == [n for n in range(30) if n not in (0, 11, 22)]
    assert sync(delta, catalog).commits == (), "nothing is new"
    delta.commit(with_vector(adds[0], delta.vector([0, 5])), remove(adds[0]))
    table = sync(delta, catalog).table
    assert ids(table) == [n for n in before if n != 5]
    assert len(live_delete_entries(table)) == 3
    delta.commit(remove(adds[1]))
    done = sync(delta, catalog)
    assert ids(done.table) == [n for n in before if n != 5 and n // 10 != 1]
    assert len(done.commit.added_delete_files) == 0, "the others are known again"
    check_synced(done.table)
