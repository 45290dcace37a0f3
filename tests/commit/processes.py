"""What one of several processes does to a table, for test_concurrency; a module of its own, so that it can be sent.

Every commit says in its snapshot summary what was asked for, as JSON: the same steps, done on a dict in the order of
the snapshots, must give the same rows.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import deletekit as dk
from tests.catalogs.stores import Store
from tests.tables import MODES

__all__ = ["PROPERTY", "Job", "replay", "work"]

PROPERTY = "asked"
SHARED = 60
"""Ids that all processes change; those they append are their own."""

Step = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What a process is told."""

    kind: str
    folder: str
    properties: dict[str, str]
    name: str
    namespace: str
    number: int
    seconds: float


def work(job: Job) -> Counter[str]:
    """Do one random step after the other until the time is up; count what became of them."""
    store = Store(job.kind, Path(job.folder), job.properties, job.name, job.namespace)
    table = store.load("t")
    chance = random.Random(job.number)
    done: Counter[str] = Counter()
    deadline = time.monotonic() + job.seconds
    next_id = 1000 * (job.number + 1)
    while time.monotonic() < deadline:
        step = draw(chance, next_id)
        next_id += 2
        mode = chance.choice(MODES[table.format_version])
        try:
            commit = run(table, step, mode, {PROPERTY: json.dumps(step)})
        except dk.CommitConflictError:
            done["conflicts"] += 1
            continue
        done["attempts"] += commit.attempts
        done["retries"] += commit.attempts - 1
        done["planned again"] += commit.plans - 1
        done["commits" if commit.snapshot_id is not None else "nothing to do"] += 1
    store.close()
    return done


def draw(chance: random.Random, next_id: int) -> Step:
    some = sorted(chance.sample(range(SHARED), 2))
    verb = chance.choice(["append", "delete", "delete by value", "update", "add", "merge", "delete keys"])
    return {"verb": verb, "ids": some, "new": [next_id, next_id + 1], "value": float(chance.randrange(100))}


def run(table: dk.Table, step: Step, mode: str, properties: dict[str, str]) -> dk.Commit:
    verb, some, value = step["verb"], step["ids"], step["value"]
    where = f"id in ({some[0]}, {some[1]})"
    options: dict[str, Any] = {"commit_properties": properties}
    if verb == "append":
        return dk.append(table, [{"id": i, "value": value} for i in step["new"]], **options)
    if verb == "delete keys":
        return dk.delete_keys(table, [{"id": i} for i in some], **options)
    options["mode"] = mode
    if verb == "delete":
        return dk.delete(table, where, **options)
    if verb == "delete by value":
        keys = {"equality_fields": ["id"]} if mode == "equality-delete" else {}
        return dk.delete(table, f"value = {value}", **keys, **options)
    if verb == "update":
        return dk.update(table, {"value": value}, where=where, **options)
    if verb == "add":
        return dk.update(table, {"value": _one_more}, where=where, **options)
    source = [{"id": i, "value": value} for i in [*some, step["new"][0]]]
    return dk.merge(table, source, on=["id"], **options)


def _one_more(rows: pa.Table) -> Any:
    return pc.add(rows.column("value"), 1.0)


def replay(rows: dict[int, float], step: Step) -> dict[int, float]:
    """The same on a dict."""
    verb, some, value = step["verb"], step["ids"], step["value"]
    if verb == "append":
        return rows | dict.fromkeys(step["new"], value)
    if verb in ("delete", "delete keys"):
        return {i: v for i, v in rows.items() if i not in some}
    if verb == "delete by value":
        return {i: v for i, v in rows.items() if v != value}
    if verb == "update":
        return {i: value if i in some else v for i, v in rows.items()}
    if verb == "add":
        return {i: v + 1.0 if i in some else v for i, v in rows.items()}
    return rows | dict.fromkeys([*some, step["new"][0]], value)
