"""A driver that ends by `kill -9`: `python -m tests.pipeline.killed_driver DIRECTORY STEP WHEN [MASTER]`.

STEP is a step's name, `create` for the table's creation or `deliver` for the raw files. WHEN is `before` its commit,
`after` it, or `during`: as soon as one of its data files is there. `never` lets the run end.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data.pipeline import delivery, run, run_pipeline, session_opener
from data.pipeline.done_steps import STEP
from deletekit.table.catalog import SqlStore
from tests.pipeline.flights import some_flights

DAYS = 1
SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killing(function: Callable[..., Any], applies: Callable[..., bool], when: str) -> Callable[..., Any]:
    """The function, which kills this process before or after it runs."""

    def wrapped(*arguments: Any, **options: Any) -> Any:
        mine = applies(*arguments, **options)
        if mine and when == "before":
            die()
        answer = function(*arguments, **options)
        if mine and when == "after":
            die()
        return answer

    return wrapped


def commits(step: str) -> Callable[..., bool]:
    """Whether a call to `Catalog.commit` adds the snapshot of a step."""

    def applies(store: Any, identifier: Any, requirements: Any, updates: Any) -> bool:
        return any(u.get("snapshot", {}).get("summary", {}).get(STEP) == step for u in updates)

    return applies


def die_at_a_new_file(folder: Path) -> None:
    known = set(folder.rglob("*.parquet"))

    def watch() -> None:
        while set(folder.rglob("*.parquet")) <= known:
            time.sleep(0.005)
        die()

    threading.Thread(target=watch, daemon=True).start()


def prepare(directory: Path, step: str, when: str) -> None:
    if step == "deliver":
        delivery._write_csv = killing(  # type: ignore[attr-defined]
            delivery._write_csv, lambda _folder, path, _rows: path == "flights/2013-03.csv", "after"
        )
    elif step == "create":
        SqlStore.create = killing(SqlStore.create, lambda *_: True, when)  # type: ignore[method-assign]
    elif when == "during":
        began = run.properties_of

        def begins(identity: str, name: str, rows_in: int) -> dict[str, str]:
            if name == step:
                die_at_a_new_file(directory / "warehouse")
            return began(identity, name, rows_in)

        run.properties_of = begins  # type: ignore[attr-defined]
    else:
        SqlStore.commit = killing(SqlStore.commit, commits(step), when)  # type: ignore[method-assign]


def main(directory: str, step: str, when: str, master: str | None = None) -> int:
    if when != "never":
        prepare(Path(directory), step, when)
    with session_opener(Path(directory), master=master, settings=SETTINGS) as open_session:
        report = run_pipeline(Path(directory), open_session, days=DAYS, flights=some_flights())
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
