"""A deferred module in a function that travels by value, as to executors without deletekit."""

import gc
import json
import pickle

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
