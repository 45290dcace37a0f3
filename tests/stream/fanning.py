"""A fan-out that maintains its tables, and the process whose children die in it: `python -m tests.stream.fanning`.

It reads lines of JSON, `[folder, deed, number, number of the call, when]`, and for each forks a child that does the
deed and ends at that call; then it prints the child's exit code.
"""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import deletekit as dk
from tests.commit.crashing import NAME, PROPERTIES, Case, run
from tests.commit.faults import Faults
from tests.commit.forks import serve
from tests.stream.replay import PEOPLE, Row

NAMES = (NAME, "test.u", "test.v")
POLICY = dk.stream.Maintain(every=2, min_small_files=2, expire=2)


def _batch(draw: random.Random, number: int) -> list[Row]:
    rows = []
    for name in (*NAMES, *draw.choices(NAMES, k=6)):
        kind = draw.choice(("INSERT", "UPDATE_AFTER", "DELETE"))
        rows.append({"_table": name, "id": draw.randrange(8), "name": f"n{number}", "score": 1.0, "_change_type": kind})
    return rows


BATCHES = [_batch(random.Random(number), number) for number in range(40)]


def make_all(catalog: dk.Catalog) -> None:
    for name in NAMES:
        dk.create_table(catalog, name, PEOPLE, format_version=3, properties=PROPERTIES)


def _fan(number: int, table: dk.Table) -> Any:
    catalog = table.require_catalog()
    with dk.stream.fan_out(catalog, "_table", "s", on="id", atomic=True, maintain=POLICY) as fan:
        return fan.write(BATCHES[number], number)


def _maintain(number: int, table: dk.Table) -> Any:
    one = dk.load_table(table.require_catalog(), NAMES[number % len(NAMES)])
    dk.compact(one, rewrite_all=True)
    return dk.expire_snapshots(one, older_than=2**50, retain_last=1)


def deed(name: str, number: int) -> Callable[[dk.Table], Any]:
    """Return what a process does: `fan` writes a batch, `maintain` maintains one of the tables."""
    return partial(_fan if name == "fan" else _maintain, number)


def live(folder: str, name: str, number: int, at: int, when: str) -> None:
    run(Path(folder), Case(deed(name, number)), Faults(at, when, kill=True))


if __name__ == "__main__":
    serve(live, ["polars"])
