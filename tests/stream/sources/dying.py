"""A process that only forks: each child runs a sink on a source, and ends at the call that it is told.

It reads lines of JSON, `[folder, source, arguments, number of the call, when]`, and prints the child's exit code.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import deletekit as dk
from deletekit.stream.sources import Source, decoder, kafka, table_changes
from tests.commit.faults import Dying, Faults, faulty, parent_of_killed
from tests.commit.forks import serve
from tests.tables import new_catalog

NAME = "test.t"
ROOT = Path(__file__).parents[3]


def dying() -> AbstractContextManager[Dying]:
    return parent_of_killed(__name__)


def source_of(kind: str, arguments: dict[str, Any], catalog: dk.Catalog) -> Source:
    if kind == "kafka":
        return kafka(decoder=decoder("debezium-json"), **arguments)
    return table_changes(dk.load_table(catalog, arguments["name"]), on="id")


def run(folder: Path, kind: str, arguments: dict[str, Any], faults: Faults) -> None:
    with (
        new_catalog(folder) as catalog,
        dk.engine.local(1),
        faulty(faults, catalog),
        dk.stream.sink(dk.load_table(catalog, NAME), "s", on="id") as sink,
    ):
        for _ in sink.run_source(source_of(kind, arguments, catalog)):
            pass


def live(folder: str, kind: str, arguments: Any, at: int, when: str) -> None:
    run(Path(folder), kind, arguments, Faults(at, when, kill=True))


if __name__ == "__main__":
    serve(live, ["polars", "confluent_kafka.admin"])
