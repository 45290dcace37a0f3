"""A short run of the kill loop; `python -m tests.stream.kill_loop` makes it as long as you like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stream.kill_loop import BATCHES, MODES, line, loop


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_killed_at_random(
    tmp_path: Path, mode: str, version: int, record_property: Callable[[str, object], None]
) -> None:
    """Ten kills of `auto` on a v3 table, and two of each other mode and version."""
    kills = 10 if (mode, version) == ("auto", 3) else 2
    counts = loop(kills, mode=mode, version=version, folder=tmp_path)
    record_property("figures", line("local", mode, version, 0, counts))
    assert counts["kills"] == kills
    assert counts["looks"] >= kills
    assert counts["batches"] <= counts["tables"] * BATCHES


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["driver", pytest.param("executor", marks=pytest.mark.long)])
def test_killed_on_spark(
    own_spark: None, tmp_path: Path, engine: str, record_property: Callable[[str, object], None]
) -> None:
    counts = loop(1, engine=engine, folder=tmp_path)
    record_property("figures", line(engine, "auto", 3, 0, counts))
    assert counts["kills"] == 1
