"""A deferred module in a function that travels by value, as to executors without deletekit."""

import json
import pickle

from deletekit.deferred import Deferred


def test_a_deferred_module_travels() -> None:
    there = pickle.loads(pickle.dumps(Deferred("json")))  # noqa: S301  # our own bytes
    assert there.loads is json.loads
