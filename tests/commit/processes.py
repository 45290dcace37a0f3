"""What one of several processes does to a table, for test_concurrency; a module of its own, so that it can be sent.

Everybody remembers what they asked for and which sequence number their commit got: the same steps, done on a dict in
the order of these numbers, must give the same rows.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import deletekit as dk
from tests.catalogs.stores import Store
from tests.commit.crashing import LATER
from tests.tables import MODES

SHARED = 60
"""Ids that all processes change; those they append are their own."""
KEPT = 5
"""Snapshots that every expiry leaves."""

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


@dataclass
class Done:
    """What a process has to tell.

    Attributes
    ----------
    steps: by the sequence number of its snapshot, each step that changed rows.
    counts: how often what came of a step.
    """

    steps: dict[int, Step] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


def work(job: Job) -> Done:
    """Do one random step after the other until the time is up."""
    store = Store(job.kind, Path(job.folder), job.properties, job.name, job.namespace)
    table = store.load("t")
    chance = random.Random(job.number)
    done = Done()
    deadline = time.monotonic() + job.seconds
    next_id = 1000 * (job.number + 1)
    while time.monotonic() < deadline:
        step = draw(chance, next_id)
        next_id += 2
        mode = chance.choice(MODES[table.format_version])
        done.counts["steps"] += 1
        try:
            commits = run(table, step, mode)
        except dk.CommitConflictError:
            done.counts["given up"] += 1
            continue
        done.counts["expiries"] += step["verb"] == "expire"
        for commit in commits:
            done.counts["lost races"] += commit.attempts - 1
            done.counts["planned again"] += commit.plans - 1
            if commit.sequence_number is not None:
                done.counts["commits"] += 1
                done.steps[commit.sequence_number] = step
    store.close()
    return done


VERBS = ("append", "delete", "delete by value", "update", "add", "merge", "delete keys")


def expire(table: dk.Table) -> Sequence[dk.results.Commit]:
    dk.expire_snapshots(table, older_than=LATER, retain_last=KEPT)
    return ()  # it makes no snapshot


MAINTENANCE: dict[str, Callable[[dk.Table], Sequence[dk.results.Commit | None]]] = {
    "expire": expire,
    "rewrite manifests": lambda t: [dk.rewrite_manifests(t).commit],
    "compact": lambda t: dk.compact(t, min_input_files=2, partial_progress=True, max_commits=2).commits,
    "convert": lambda t: [dk.convert_equality_deletes(t).commit],
    "dangling": lambda t: [dk.remove_dangling_deletes(t).commit],
}
"""What changes no row, one for each line."""


def draw(chance: random.Random, next_id: int) -> Step:
    some = sorted(chance.sample(range(SHARED), 2))
    verb = chance.choice((*VERBS, *VERBS, *MAINTENANCE))
    return {"verb": verb, "ids": some, "new": [next_id, next_id + 1], "value": float(chance.randrange(100))}


def run(table: dk.Table, step: Step, mode: str) -> list[dk.results.Commit]:
    verb, some, value = step["verb"], step["ids"], step["value"]
    if verb in MAINTENANCE:
        return [commit for commit in MAINTENANCE[verb](table) if commit is not None]
    return [change(table, verb, some, step["new"], value, mode)]


def change(table: dk.Table, verb: str, some: list[int], new: list[int], value: float, mode: str) -> dk.results.Commit:
    where = f"id in ({some[0]}, {some[1]})"
    if verb == "append":
        return dk.append(table, [{"id": i, "value": value} for i in new])
    if verb == "delete keys":
        return dk.delete_keys(table, [{"id": i} for i in some])
    if verb == "delete":
        return dk.delete(table, where, mode=mode)
    if verb == "delete by value":
        keys = {"on": ["id"]} if mode == "equality-delete" else {}
        return dk.delete(table, f"value = {value}", mode=mode, **keys)
    if verb == "update":
        return dk.update(table, {"value": value}, where=where, mode=mode)
    if verb == "add":
        return dk.update(table, {"value": _one_more}, where=where, mode=mode)
    source = [{"id": i, "value": value} for i in [*some, new[0]]]
    return dk.merge(table, source, on=["id"], mode=mode)


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
    if verb in MAINTENANCE:
        return rows
    if verb == "add":
        return {i: v + 1.0 if i in some else v for i, v in rows.items()}
    return rows | dict.fromkeys([*some, step["new"][0]], value)
