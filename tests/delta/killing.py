"""A process that dies in the middle of a sync: `python -m tests.delta.killing`.

It reads lines of JSON, `[warehouse, Delta table, format version, number of the call, when]`, and for each forks a child
that syncs and ends at that call; then it prints the child's exit code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import deletekit as dk
from deletekit.delta import sync as sync_module
from deletekit.table import catalog as catalog_module
from tests.commit.faults import Faults, faulty
from tests.commit.forks import serve
from tests.tables import new_catalog

NAME = "t.d"


def run(warehouse: Path, delta: Path, format_version: int, faults: Faults) -> None:
    """Sync through faults of storage and catalog."""
    with new_catalog(warehouse) as catalog, faulty(faults, catalog), _storage_of_new_tables():
        dk.sync_delta(delta, catalog, NAME, format_version=format_version)


@contextmanager
def _storage_of_new_tables() -> Iterator[None]:
    original = sync_module.PyIcebergIO
    sync_module.PyIcebergIO = catalog_module.PyIcebergIO  # type: ignore[misc]
    try:
        yield
    finally:
        sync_module.PyIcebergIO = original  # type: ignore[misc]


def live(warehouse: str, delta: str, version: int, at: int, when: str) -> None:
    run(Path(warehouse), Path(delta), version, Faults(at, when, kill=True))


if __name__ == "__main__":
    serve(live)
