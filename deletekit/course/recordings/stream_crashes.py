"""Stop a sink while it writes a batch: a catalog and storage that let nothing through after a chosen point.

A stopped sink cannot even clean up, so the storage holds what a killed process leaves behind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import pyarrow as pa

from deletekit.course.views.stream_stepper import Crash
from deletekit.errors import CommitStateUnknownError
from deletekit.table.catalog import Catalog, TableState
from deletekit.table.file_io import FileIO
from deletekit.table.identifier import Identifier
from deletekit.table.metadata import TableMetadata

Json = Mapping[str, Any]


class SinkStopped(BaseException):  # not an Exception: as with KeyboardInterrupt, no handler may catch it
    """The process that ran the sink is gone."""


class StoppingCatalog(Catalog):
    """A catalog and its tables' storage that stop a sink at `crash_at`: they let nothing through afterwards.

    `in-conversion` and `markers-expired` are not points of a batch: see `record_stream`.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.pyiceberg = catalog.pyiceberg
        self._inner = catalog
        self._point = ""
        self._stopped = False

    def crash_at(self, point: Crash | Literal[""]) -> None:
        """Choose the point where the sink stops; "" lets everything through."""
        self._point = point

    def reach(self, point: Crash | None = None) -> None:
        """Stop the sink if it has reached the point, or was stopped before."""
        self._stopped = self._stopped or point == self._point
        if self._stopped:
            raise SinkStopped

    def load(self, identifier: Identifier) -> TableState:
        self.reach()
        return self._watched(self._inner.load(identifier))

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        self.reach()
        return self._watched(self._inner.create(identifier, metadata))

    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        self.reach("before-commit")
        state = self._watched(self._inner.commit(identifier, requirements, updates))
        self.reach("after-commit")
        if self._point == "answer-lost":
            self._point = ""
            raise CommitStateUnknownError("the catalog's answer was lost", kind="answer-lost")
        return state

    def _watched(self, state: TableState) -> TableState:
        return replace(state, io=cast("FileIO", _StoppingIO(state.io, self)))


class _StoppingIO:
    """The storage: a new file reaches `before-files`, one of metadata `before-manifests` too."""

    def __init__(self, inner: FileIO, catalog: StoppingCatalog) -> None:
        self._inner, self._catalog = inner, catalog

    def __getattr__(self, name: str) -> Any:
        """Return what the storage has, unless the sink was stopped."""
        self._catalog.reach()
        return getattr(self._inner, name)

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        self._begin(path)
        self._inner.write(path, data)

    def create(self, path: str) -> Any:
        self._begin(path)
        return self._inner.create(path)

    def _begin(self, path: str) -> None:
        self._catalog.reach("before-files")
        if path.endswith(".avro"):
            self._catalog.reach("before-manifests")
