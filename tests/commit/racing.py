"""A catalog in which somebody else is always a little faster."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import deletekit as dk
from deletekit.table.catalog import SqlStore, TableState
from deletekit.table.identifier import Identifier

QUICK = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "5"}
Json = Mapping[str, Any]


class Interfering(SqlStore):
    """The embedded catalog, in which somebody else commits between our looking and our swapping."""

    def __init__(self, catalog: dk.Catalog) -> None:
        super().__init__(catalog.pyiceberg)  # type: ignore[arg-type]
        self.others: list[Callable[[], Any]] = []

    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        if self.others:
            self.others.pop(0)()
        return super().commit(identifier, requirements, updates)


def racing(catalog: dk.Catalog, table: dk.Table, *others: Callable[[dk.Table], Any]) -> dk.Table:
    """Open the table anew; each of its first commits is preceded by one of the others', through a handle of its own."""
    store = Interfering(catalog)
    store.others += [lambda other=other: other(dk.load_table(catalog, table.name)) for other in others]
    return dk.load_table(store, table.name)
