"""Stop a sink while it writes a batch: a catalog and storage that let nothing through after a chosen point.

A stopped sink cannot even clean up, so the storage holds what a killed process leaves behind.
"""

from __future__ import annotations

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


class _Gate:
    """Lets calls through until the chosen point is reached, and none afterwards."""

    def __init__(self) -> None:
        self.point = ""
        self.closed = False

    def check(self) -> None:
        if self.closed:
            raise SinkStopped

    def reach(self, point: Crash) -> None:
        self.closed = self.closed or point == self.point
        self.check()


class StoppingCatalog(Catalog):
    """A catalog and its tables' storage that stop a sink at `crash_at`.

    `in-conversion` and `markers-expired` are not points of a batch: see `record_stream`.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.pyiceberg = catalog.pyiceberg
        self._inner = catalog
        self._gate = _Gate()

    def crash_at(self, point: Crash | Literal[""]) -> None:
        """Choose the point where the sink stops; "" lets everything through."""
        self._gate.point = point

    def load(self, identifier: Identifier) -> TableState:
        self._gate.check()
        return self._watched(self._inner.load(identifier))

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        self._gate.check()
        return self._watched(self._inner.create(identifier, metadata))

    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        self._gate.reach("before-commit")
        state = self._watched(self._inner.commit(identifier, requirements, updates))
        self._gate.reach("after-commit")
        if self._gate.point == "answer-lost":
            self._gate.point = ""
            raise CommitStateUnknownError("the catalog's answer was lost", kind="answer-lost")
        return state

    def _watched(self, state: TableState) -> TableState:
        return replace(state, io=cast("FileIO", _StoppingIO(state.io, self._gate)))


class _StoppingIO:
    """Storage behind the gate: a new file passes `before-files`, one of metadata `before-manifests` too."""

    def __init__(self, inner: FileIO, gate: _Gate) -> None:
        self._inner, self._gate = inner, gate

    def __getattr__(self, name: str) -> Any:
        """Check the gate, then return what the storage has."""
        self._gate.check()
        return getattr(self._inner, name)

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        self._begin(path)
        self._inner.write(path, data)

    def create(self, path: str) -> Any:
        self._begin(path)
        return self._inner.create(path)

    def _begin(self, path: str) -> None:
        self._gate.reach("before-files")
        if path.endswith(".avro"):
            self._gate.reach("before-manifests")
