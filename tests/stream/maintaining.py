"""A stream that is maintained, and the process whose children die in it: `python -m tests.stream.maintaining`.

It reads lines of JSON, `[folder, number of the call, when]`, and for each forks a child that writes a batch and ends at
that call; then it prints the child's exit code.
"""

from pathlib import Path

import deletekit as dk
from tests.commit.crashing import NAME, PROPERTIES, Case, run
from tests.commit.faults import Faults
from tests.commit.forks import serve
from tests.stream.replay import PEOPLE, random_batches

__all__ = ["BATCHES", "NAME", "POLICY", "make_people", "write_next"]

BATCHES = list(random_batches(2, batches=6, rows=8, keys=9))
POLICY = dk.stream.Maintain(every=3, min_small_files=2, expire=2)


def make_people(catalog: dk.Catalog, version: int) -> dk.Table:
    """Make a table with two batches of a stream: the third one is followed by maintenance."""
    table = dk.create_table(catalog, NAME, PEOPLE, format_version=version, properties=PROPERTIES)
    for number in (0, 1):
        write_next(table, number)
    return table


def write_next(table: dk.Table, number: int = 2) -> dk.stream.BatchProgress:
    with dk.stream.sink(table, "people", on=["id"], mode="eq-only", maintain=POLICY) as sink:
        return sink.write(BATCHES[number], number)


def live(folder: str, at: int, when: str) -> None:
    run(Path(folder), Case(write_next), Faults(at, when, kill=True))


if __name__ == "__main__":
    serve(live, ["polars"])
