"""A short run of the kill loop; `python -m tests.stream.kill_loop` makes it as long as you like."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stream.kill_loop import BATCHES, MODES, line, loop

CASES = [(mode, version) for mode in MODES for version in (2, 3)]
# Each mode once; the others before a release.
SOON = {("auto", 3), ("index-only", 2), ("eq-only", 3)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "version"), [pytest.param(*case, marks=() if case in SOON else pytest.mark.long) for case in CASES]
)
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
def test_killed_on_spark(own_spark: None, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """The driver dies; tests/engines/test_cluster.py kills executors."""
    counts = loop(1, engine="driver", folder=tmp_path)
    record_property("figures", line("driver", "auto", 3, 0, counts))
    assert counts["kills"] == 1
