"""Two handles on one table: the later commit is planned anew or refused, and nothing that was written in vain stays."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import deletekit as dk
from deletekit.table import catalog as catalog_module
from tests.catalogs.stores import ROWS, SCHEMA, Store, leftovers, on_disk
from tests.tables import MODES, expected, items, live, raises

THEIRS = items((9, "z", 90.0))
MINE = items((5, "m", 50.0))


class Meanwhile:
    """Does something once, in the middle of somebody else's commit."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._action = action
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == 1:
            self._action()


def while_planning(meanwhile: Meanwhile, value: float) -> Callable[[pa.Table], pa.Array]:
    """An assignment for `dk.update`, which asks for it after it has read the head and before it commits."""

    def assign(rows: pa.Table) -> pa.Array:
        meanwhile()
        return pa.array([value] * len(rows))

    return assign


def before_the_swap(monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile) -> None:
    """Run `meanwhile` when a SQL catalog has checked the requirements and is about to write the metadata file."""
    real = catalog_module.metadata_file_bytes

    def patched(*arguments: Any) -> bytes:
        meanwhile()
        return real(*arguments)

    monkeypatch.setattr(catalog_module, "metadata_file_bytes", patched)


# --- a lost race is planned anew --------------------------------------------------------------------------------------


def test_a_lost_race_is_planned_anew(place: tuple[Store, int]) -> None:
    store, version = place
    for mode in MODES[version]:
        name = mode.replace("-", "_")
        table = store.create(name, SCHEMA, format_version=version)
        dk.append(table, ROWS)
        other = store.load(name)
        # It changes a row that the update has read already: 2 must be updated as it is now.
        meanwhile = Meanwhile(lambda other=other: dk.update(other, {"category": "theirs"}, where="id = 2"))
        changed = dk.update(table, {"value": while_planning(meanwhile, 0.0)}, where="id >= 2", mode=mode)
        assert (changed.attempts, meanwhile.calls) == (2, 2)
        rows = items((1, "a", 10.0), (2, "theirs", 0.0), (3, "c", 0.0))
        assert live(store.load(name)) == expected(rows) == live(table)
        assert leftovers(table) == set()
        assert [s.snapshot_id for s in table.metadata.snapshots.values()][-1] == changed.snapshot_id
        assert table.metadata.snapshots[changed.snapshot_id].parent_snapshot_id == other.current_snapshot.snapshot_id


# --- what the catalog itself refuses ----------------------------------------------------------------------------------


def test_a_requirement_that_no_longer_holds_changes_nothing(place: tuple[Store, int]) -> None:
    store, version = place
    table = store.create("t", SCHEMA, format_version=version)
    old = dk.append(table, ROWS).snapshot_id
    dk.append(table, THEIRS)
    catalog, files, location = store.open(), on_disk(table.location), table.metadata_location
    stale = [
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": old},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-ref-snapshot-id", "ref": "gone", "snapshot-id": old},
        {"type": "assert-table-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
        {"type": "assert-current-schema-id", "current-schema-id": 5},
        {"type": "assert-default-spec-id", "default-spec-id": 5},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1007},
    ]
    for requirement in stale:
        with pytest.raises(dk.CommitConflictError):
            catalog.commit(table.identifier, [requirement], [{"action": "set-properties", "updates": {"a": "b"}}])
    assert (store.load("t").metadata_location, on_disk(table.location)) == (location, files)


def test_the_swap_itself_is_lost(sql_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = sql_store.create("t", SCHEMA, format_version=3)
    dk.append(table, ROWS)
    other = sql_store.load("t")
    meanwhile = Meanwhile(lambda: dk.append(other, THEIRS))
    before_the_swap(monkeypatch, meanwhile)
    committed = dk.append(table, MINE)
    assert committed.attempts == 2
    assert meanwhile.calls == 3  # ours, theirs, ours again
    assert live(sql_store.load("t")) == expected(ROWS + THEIRS + MINE)
    assert leftovers(table) == set()


def test_two_make_one_table(sql_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = []
    meanwhile = Meanwhile(
        lambda: theirs.append(sql_store.create("t", SCHEMA, location=str(sql_store.folder / "theirs")))
    )
    before_the_swap(monkeypatch, meanwhile)
    mine = str(sql_store.folder / "mine")
    with raises(dk.InvalidInputError, "table-exists"):
        sql_store.create("t", SCHEMA, location=mine)
    assert on_disk(mine) == set()
    assert sql_store.load("t").metadata_location == theirs[0].metadata_location


def test_a_table_dropped_meanwhile_is_missed(sql_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    table = sql_store.create("t", SCHEMA)
    dk.append(table, ROWS)
    files = on_disk(table.location)
    before_the_swap(monkeypatch, Meanwhile(lambda: sql_store.open().drop_table(sql_store.full("t"))))
    with pytest.raises(dk.NotFoundError):
        dk.append(table, MINE)
    assert on_disk(table.location) == files
