"""A deferred module in a function that travels by value, as to executors without deletekit."""

import gc
import json
import pickle
import sys
from pathlib import Path

import pytest

from deletekit.deferred import Deferred, imported


def test_a_deferred_module_travels() -> None:
    there = pickle.loads(pickle.dumps(Deferred("json")))  # noqa: S301  # our own bytes
    assert there.loads is json.loads


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_collector_is_afterwards_as_it_was(is_enabled: bool) -> None:
    (gc.enable if is_enabled else gc.disable)()
    try:
        with pytest.raises(ModuleNotFoundError):
            imported("deletekit.no_such_module")
        assert imported("json") is json
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()


@pytest.mark.parametrize("is_frozen", [True, False])
def test_new_objects_count_as_old_ones_and_what_was_frozen_stays_frozen(
    is_frozen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "just_imported.py").write_text("objects = [[] for _ in range(300)]\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    gc.collect()
    if is_frozen:
        gc.freeze()
    try:
        objects = imported("just_imported").objects
        assert (gc.get_freeze_count() > 0) == is_frozen
        assert any(o is objects for o in gc.get_objects(generation=0 if is_frozen else 2))
    finally:
        gc.unfreeze()
        del sys.modules["just_imported"]
