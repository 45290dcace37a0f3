"""Values made once, by whichever thread comes first."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from deletekit.deletes.shared_value import SharedValues


def test_threads_share_one_value() -> None:
    made: list[int] = []
    started = threading.Barrier(4)

    def make() -> object:
        made.append(1)
        return object()

    once = SharedValues()

    def get(_: int) -> object:
        started.wait()
        return once.get("key", make)

    with ThreadPoolExecutor(4) as pool:
        values = set(map(id, pool.map(get, range(4))))
    assert len(values) == len(made) == 1


def test_an_error_is_not_kept() -> None:
    once = SharedValues()
    with pytest.raises(ZeroDivisionError):
        once.get("key", lambda: 1 // 0)
    assert once.get("key", lambda: 7) == 7
    assert once.get("key", lambda: 8) == 7


def test_the_oldest_goes_first() -> None:
    once = SharedValues(size=2)
    assert [once.get(k, lambda k=k: k) for k in (1, 2, 3)] == [1, 2, 3]  # type: ignore[misc]
    assert once.get(2, lambda: "again") == 2
    assert once.get(1, lambda: "again") == "again"


def test_it_travels_empty() -> None:
    once = SharedValues(size=2)
    once.get("key", lambda: 1)
    assert pickle.loads(pickle.dumps(once)).get("key", lambda: 2) == 2  # noqa: S301  # our own bytes
