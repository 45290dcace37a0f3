"""One of several processes that append to one table until they are killed: `python -m tests.catalogs.writer '<json>'`.

Every line it prints is JSON: the ids it is about to append, and the same once they are committed.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deletekit as dk
from tests.catalogs.stores import Store

SECONDS = 60
"""After which it ends by itself, should whoever meant to kill it be gone."""


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


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    store = Store(job.kind, Path(job.folder), job.properties, job.name, job.namespace)
    table = store.load("t")
    next_id = 1_000_000 * job.writers + job.number
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ids = [next_id, next_id + job.writers]
        next_id += 2 * job.writers
        say(start=ids)
        try:
            dk.append(table, [{"id": i, "value": 0.0} for i in ids])
        except dk.CommitConflictError:
            continue
        say(done=ids)


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
