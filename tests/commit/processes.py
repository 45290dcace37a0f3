"""What one of several processes does to a table, for test_concurrency; a module of its own, so that it can be sent."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import deletekit as dk
from tests.tables import new_catalog


@dataclass
class Done:
    """What a process was told had been committed: ids inserted and deleted, and how often it was told of a conflict."""

    inserted: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)
    commits: int = 0
    attempts: int = 0
    conflicts: int = 0


def work(directory: str, name: str, number: int, rounds: int) -> Done:
    """Append rows and delete some of the process's own, in turn; ids are `number` * 1000 and up."""
    choice = random.Random(number)
    done = Done()
    with new_catalog(directory) as catalog:  # type: ignore[arg-type]
        table = dk.load_table(catalog, name)
        for i in range(rounds):
            first = number * 1000 + i * 10
            rows = [{"id": first + k, "category": str(number % 3), "value": float(k)} for k in range(3)]
            if _committed(done, lambda rows=rows: dk.append(table, rows)):
                done.inserted |= {row["id"] for row in rows}
            mine = sorted(done.inserted - done.deleted)
            if not mine:
                continue
            gone = choice.choice(mine)
            mode = choice.choice(["copy-on-write", "deletion-vector", "equality-delete"])
            if _committed(done, lambda gone=gone, mode=mode: dk.delete(table, f"id = {gone}", mode=mode)):
                done.deleted.add(gone)
    return done


def _committed(done: Done, verb: Any) -> bool:
    try:
        commit = verb()
    except dk.CommitConflictError:
        done.conflicts += 1
        return False
    assert commit.snapshot_id is not None
    done.commits += 1
    done.attempts += commit.attempts
    return True
