"""Somebody else expires snapshots while a verb reads what they lead to: their files are not missed."""

from collections.abc import Callable
from typing import Any

import pytest

import deletekit as dk
from deletekit.table.file_io import PyIcebergIO
from tests.invariants import check_table
from tests.maintenance.model import FAR, other
from tests.storage import stored_at
from tests.stored import manifest_list
from tests.tables import items, live, make

VERBS: dict[str, Callable[[dk.Table], Any]] = {
    "expire_snapshots": lambda table: dk.expire_snapshots(table, older_than=FAR, retain_last=3),
    "expire_snapshots, dry run": lambda table: dk.expire_snapshots(table, older_than=FAR, retain_last=3, dry_run=True),
    "remove_orphan_files": lambda table: dk.remove_orphan_files(table, older_than=FAR, force=True),
    "compact": lambda table: dk.compact(table, rewrite_all=True),
    "erase": lambda table: dk.erase(table, "id = 2", dry_run=True),
}


def changed(catalog: dk.Catalog) -> dk.Table:
    """Five snapshots, each with manifests and files that the next one no longer has."""
    table = make(catalog, items(*((i, "a", float(i)) for i in range(9))), format_version=3)
    for value in range(5):
        dk.update(table, {"value": -1.0 - value}, where="id >= 0", mode="copy-on-write")
    return table


@pytest.mark.sampled(3, tier=1)
@pytest.mark.parametrize("at", [1, 2, 3, 4])
@pytest.mark.parametrize("verb", VERBS)
def test_what_expires_meanwhile_is_not_missed(
    catalog: dk.Catalog, monkeypatch: pytest.MonkeyPatch, verb: str, at: int
) -> None:
    table = changed(catalog)
    before, theirs = live(table), other(table)
    opened: list[str] = []
    original = PyIcebergIO.open

    def expiring(io: PyIcebergIO, path: str) -> Any:
        if path.endswith(".avro"):
            opened.append(path)
            if len(opened) == at:
                # One more change, or the head that is being read could not expire.
                dk.update(theirs, {"value": 7.0}, where="id = 0", mode="copy-on-write")
                dk.expire_snapshots(theirs, older_than=FAR, retain_last=1)
        return original(io, path)

    monkeypatch.setattr(PyIcebergIO, "open", expiring)
    VERBS[verb](table)
    monkeypatch.undo()
    assert len(opened) >= at
    assert live(table.refresh()) == [{**row, "value": 7.0} if row["id"] == 0 else row for row in before]
    check_table(table, orphans=verb != "compact")
    assert dk.verify(table).ok


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_missing_for_good_is(catalog: dk.Catalog, verb: str) -> None:
    table = changed(catalog)
    stored_at(manifest_list(table)[0]["manifest_path"]).unlink()
    with pytest.raises(dk.NotFoundError, match="does not exist"):
        VERBS[verb](table)
