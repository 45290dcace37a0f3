"""A stream that is maintained after its third batch."""

import deletekit as dk
from tests.commit.crashing import NAME, PROPERTIES
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
