"""A process that only forks: each child runs a sink on a source, and ends at the call that it is told.

It reads lines of JSON, `[folder, source, arguments, number of the call, when]`, and prints the child's exit code.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deletekit as dk
from deletekit.stream.sources import Source, decoder, kafka, table_changes
from tests.commit.faults import Faults, faulty, parent_of_killed
from tests.commit.forks import serve
from tests.tables import new_catalog

__all__ = ["NAME", "ROOT", "Dying", "dying"]

NAME = "test.t"
ROOT = Path(__file__).parents[3]


class Dying:
    """The parent of processes that end at a call."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, folder: Path, source: str, arguments: Mapping[str, Any], at: int, when: str) -> int:
        """Run a sink until the source's end, or until call number `at`. Return the exit code."""
        self.start(folder, source, arguments, at, when)
        return self.wait()

    def start(self, folder: Path, source: str, arguments: Mapping[str, Any], at: int, when: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(folder), source, dict(arguments), at, when]) + "\n")
        self._process.stdin.flush()

    def wait(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextmanager
def dying() -> Iterator[Dying]:
    with parent_of_killed("tests.stream.sources.dying") as process:
        yield Dying(process)


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
