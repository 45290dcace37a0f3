"""One of several processes that write to one table: `python -m tests.catalogs.writer '<json>'`.

It changes only rows whose id is its own number, modulo the number of writers, and keeps a list of what it was told
has happened. Every line it prints is JSON: what it is about to do, what was done, and at the end the sum of it.
"""

from __future__ import annotations

import json
import random
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import deletekit as dk
from tests.catalogs.stores import Store
from tests.tables import MODES

__all__ = ["Job", "Report"]


@dataclass
class Job:
    """What a writer is told."""

    kind: str
    folder: str
    properties: dict[str, str]
    name: str
    namespace: str
    number: int
    writers: int
    seconds: float
    rows: dict[int, float]
    only_appends: bool = False


@dataclass
class Report:
    """What a writer has seen: its rows as they should be, and how often what happened."""

    rows: dict[int, float]
    commits: int = 0
    attempts: int = 0
    conflicts: int = 0
    by_verb: dict[str, int] = field(default_factory=dict)


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    job.rows = {int(k): v for k, v in job.rows.items()}
    store = Store(job.kind, Path(job.folder), job.properties, job.name, job.namespace)
    table = store.load("t")
    chance = random.Random(job.number)
    report = Report(job.rows)
    deadline = time.monotonic() + job.seconds
    next_id = 1_000_000 * job.writers + job.number
    while time.monotonic() < deadline:
        verb = "append" if job.only_appends else chance.choice(["append", "delete", "update", "merge", "delete_keys"])
        new = {next_id + job.writers * i: chance.random() for i in range(2)}
        next_id += 2 * job.writers
        say(start=verb, ids=list(new))
        try:
            commit = attempt(table, verb, report.rows, new, chance)
        except dk.CommitConflictError:
            report.conflicts += 1
            continue
        if commit is None or commit.snapshot_id is None:
            continue
        report.commits += 1
        report.attempts += commit.attempts
        report.by_verb[verb] = report.by_verb.get(verb, 0) + 1
        say(done=verb, ids=list(new))
    say(report=asdict(report))
    store.close()


def attempt(
    table: dk.Table, verb: str, rows: dict[int, float], new: dict[int, float], chance: random.Random
) -> dk.Commit | None:
    """One verb; `rows` follows it only when it has returned."""
    mode = chance.choice(MODES[table.format_version])
    some = chance.sample(sorted(rows), min(len(rows), 3))
    if verb in ("append", "merge"):
        source = {**new, **({i: chance.random() for i in some[:1]} if verb == "merge" else {})}
        listed = [{"id": i, "value": v} for i, v in source.items()]
        commit = dk.append(table, listed) if verb == "append" else dk.merge(table, listed, on=["id"], mode=mode)
        rows.update(source)
        return commit
    if not some:
        return None
    where = f"id in ({', '.join(map(str, some))})"
    if verb == "update":
        value = chance.random()
        commit = dk.update(table, {"value": value}, where=where, mode=mode)
        rows.update(dict.fromkeys(some, value))
        return commit
    if verb == "delete":
        commit = dk.delete(table, where, mode=mode)
    else:
        commit = dk.delete_keys(table, [{"id": i} for i in some])
    for i in some:
        del rows[i]
    return commit


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
