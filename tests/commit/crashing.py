"""The verbs that test_crash_injection breaks, and the process that dies of them: `python -m tests.commit.crashing`.

It reads lines of JSON, `[folder, version, verb, number of the call, when]`, and for each forks a child that runs the
verb and ends at that call; then it prints the child's exit code. Forking wants a process without threads, so this one
does nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deletekit as dk
from tests.commit.faults import Faults, faulty
from tests.commit.racing import QUICK
from tests.tables import items, new_catalog

__all__ = ["CASES", "NAME", "PROPERTIES", "run", "verbs"]

NAME = "test.t"
PROPERTIES = {**QUICK, "commit.status-check.min-wait-ms": "1", "commit.status-check.num-retries": "1"}

Verb = Callable[[dk.Table], Any]
MODES = {2: ("position-delete",), 3: ("copy-on-write", "deletion-vector", "equality-delete")}


def verbs(version: int) -> dict[str, Verb]:
    found: dict[str, Verb] = {
        "append": lambda t: dk.append(t, items((9, "n", 9.0))),
        "delete_keys": lambda t: dk.delete_keys(t, [{"id": 1}]),
    }
    for mode in MODES[version]:
        found[f"delete, {mode}"] = lambda t, mode=mode: dk.delete(t, "id in (1, 4)", mode=mode)
        source = items((1, "m", 0.1), (8, "m", 0.2))
        if mode != "equality-delete":
            found[f"update, {mode}"] = lambda t, mode=mode: dk.update(t, {"value": 0.5}, where="id = 1", mode=mode)
            found[f"merge, {mode}"] = lambda t, mode=mode, source=source: dk.merge(t, source, on=["id"], mode=mode)
    return found


CASES = [(3, name) for name in verbs(3)] + [(2, name) for name in verbs(2) if "," in name]


def run(folder: Path, verb: Verb, faults: Faults) -> None:
    with new_catalog(folder) as catalog, dk.engine.local(1), faulty(faults, catalog):
        verb(dk.load_table(catalog, NAME))


def main() -> None:
    for line in sys.stdin:
        folder, version, name, at, when = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                run(Path(folder), verbs(version)[name], Faults(at, when, kill=True))
            finally:
                os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
