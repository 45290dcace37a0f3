"""A fault at every storage and catalog call of every verb: the table is as before or as after, whole, and clean.

Each verb runs once to count its calls. Then, for each call, on a copy of the same table, it runs with an error there
(the call not made, made by half, or made and not answered), and in a process of its own that ends there.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deletekit as dk
from tests.commit.faults import KILLED, WHEN, Fault, Faults, faulty
from tests.commit.racing import QUICK
from tests.invariants import check_table, reachable
from tests.tables import MODES, Row, expected, files_of, items, live, make, new_catalog

FIRST = items((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0))
SECOND = items((4, "b", 4.0), (5, "b", 5.0))
PROPERTIES = {**QUICK, "commit.status-check.min-wait-ms": "1", "commit.status-check.num-retries": "1"}
NAME = "test.t"


def verbs(version: int) -> dict[str, Callable[[dk.Table], Any]]:
    found: dict[str, Callable[[dk.Table], Any]] = {
        "append": lambda t: dk.append(t, items((9, "n", 9.0))),
        "delete_keys": lambda t: dk.delete_keys(t, [{"id": 1}]),
    }
    for mode in MODES[version]:
        found[f"delete, {mode}"] = lambda t, mode=mode: dk.delete(t, "id in (1, 4)", mode=mode)
    for mode in MODES[version][:2]:
        found[f"update, {mode}"] = lambda t, mode=mode: dk.update(t, {"value": 0.5}, where="id = 1", mode=mode)
        found[f"merge, {mode}"] = lambda t, mode=mode: dk.merge(
            t, items((1, "m", 0.1), (8, "m", 0.2)), on=["id"], mode=mode
        )
    return found


CASES = [(version, name) for version in (2, 3) for name in verbs(version)]


class Trial:
    """A table that can be put back, on disk and in the catalog, to what it was."""

    def __init__(self, folder: Path, version: int) -> None:
        self.home, self.kept = folder / "warehouse", folder / "kept"
        with new_catalog(self.home) as catalog:
            table = dk.create_table(catalog, NAME, make_schema(), format_version=version, properties=PROPERTIES)
            dk.append(table, FIRST)
            dk.append(table, SECOND)
            dk.delete(table, "id = 3", mode="merge-on-read")  # so that a vector has a predecessor
            self.before = live(table)
        shutil.copytree(self.home, self.kept)

    def reset(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.kept, self.home)

    def run(self, verb: Callable[[dk.Table], Any], faults: Faults) -> None:
        with new_catalog(self.home) as catalog, dk.engine.local(1), faulty(faults, catalog):
            verb(dk.load_table(catalog, NAME))

    def check(self, after: list[Row], what: str) -> bool:
        """Hold what must be, whatever happened; say whether the change is there."""
        with new_catalog(self.home) as catalog:
            table = dk.load_table(catalog, NAME)
            rows = live(table)
            assert rows in (self.before, after), what
            dk.remove_orphan_files(table, older_than=int(time.time() * 1000) + 60_000, force=True)
            assert files_of(table) == reachable(table), what
            check_table(table)
            report = dk.verify(table)
            assert report.ok, (what, report)
            return rows == after


def make_schema() -> Any:
    from tests.tables import ITEMS  # noqa: PLC0415

    return ITEMS


def run_killed(trial: Trial, verb: Callable[[dk.Table], Any], faults: Faults) -> None:
    """Run in a child that ends at the fault, without a word to anybody."""
    child = os.fork()
    if child == 0:
        try:
            trial.run(verb, faults)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == KILLED


@pytest.mark.slow
@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_fault_at_every_call(tmp_path: Path, version: int, name: str) -> None:
    verb = verbs(version)[name]
    trial = Trial(tmp_path, version)
    dry = Faults()
    trial.run(verb, dry)
    with new_catalog(trial.home) as catalog:
        after = live(dk.load_table(catalog, NAME))
    assert after != trial.before
    outcomes: Counter[str] = Counter()
    for at, call in enumerate(dry.names, 1):
        for when in WHEN if call == "write" else ("before", "after"):
            trial.reset()
            faults = Faults(at, when)
            raised = "answered"
            try:
                trial.run(verb, faults)
            except (dk.DeletekitError, Fault) as e:
                raised = type(e).__name__
            landed = trial.check(after, f"{name} v{version}: {call} {at} {when}")
            assert landed or raised != "answered", "what was acknowledged is there"
            assert not landed or raised in ("answered", "CommitStateUnknownError", "Fault")
            outcomes[f"{raised}, {'after' if landed else 'before'}"] += 1
    print(f"\n{name} v{version}: {sum(outcomes.values())} faults at {len(dry.names)} calls: {dict(outcomes)}")
