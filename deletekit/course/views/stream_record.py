"""What a recorded stream consists of: the batches, the calls on the sink, and the table they leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from deletekit.table.metadata import Snapshot
from deletekit.table.table import Table

Change = Mapping[str, Any]
Row = tuple[int, str]
Crash = Literal[
    "before-files",
    "before-manifests",
    "before-commit",
    "answer-lost",
    "after-commit",
    "in-conversion",
    "markers-expired",
]
CRASHES: tuple[Crash, ...] = get_args(Crash)
"""Where a sink can be stopped; see `record_stream`."""
STREAM_MODES = ("auto", "flink", "eq-only", "index-only")
"""Modes of the sink."""


def _change(kind: str, number: int, value: str | None = None) -> Change:
    return {"id": number, "value": value, "_change_type": kind}


BATCHES: tuple[tuple[Change, ...], ...] = (
    (_change("INSERT", 1, "a"), _change("INSERT", 2, "b"), _change("INSERT", 3, "c"), _change("INSERT", 6, "f")),
    (_change("UPDATE_BEFORE", 2, "b"), _change("UPDATE_AFTER", 2, "b2"), _change("DELETE", 3)),
    (_change("INSERT", 4, "d"), _change("UPDATE_AFTER", 4, "d2"), _change("UPDATE_AFTER", 1, "a2")),
    (_change("DELETE", 2), _change("INSERT", 5, "e")),
)
"""The stream: change rows, batch by batch. The key is `id`."""


class Progress(Protocol):
    """What a sink's write returns: see `deletekit.stream.BatchProgress`."""

    @property
    def status(self) -> str: ...
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...
    @property
    def read_files(self) -> int: ...
    @property
    def index_rows(self) -> int: ...
    @property
    def index_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCall:
    """One call on a sink, or one of maintenance between two sinks.

    Attributes
    ----------
    process: 1, or 2 after the first one was stopped.
    name: `write`, `convert`, `compact` or `expire_snapshots`.
    batch_id: of a write.
    progress: what a write returned; None for other calls, and for one that was stopped.
    snapshot: the new head of `main`; None if the call did not move it.
    stopped: the process was stopped in this call.
    """

    process: int
    name: Literal["write", "convert", "compact", "expire_snapshots"]
    batch_id: int | None = None
    progress: Progress | None = None
    snapshot: Snapshot | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord:
    """What the first batches did.

    Attributes
    ----------
    table: the table, read-only; its files exist as long as this object does.
    calls: in order.
    orphans: paths of orphan files, as `remove_orphan_files` finds them.
    rows: what a reader sees, sorted.
    expected: the rows after replaying the changes into a dict, sorted.
    """

    table: Table = field(repr=False)
    calls: tuple[StreamCall, ...]
    orphans: tuple[str, ...]
    rows: tuple[Row, ...]
    expected: tuple[Row, ...]

    @property
    def stopped(self) -> bool:
        """Whether the sink reached the point where it should stop."""
        return any(call.stopped for call in self.calls)

    @property
    def waits(self) -> bool:
        """Whether the sink was stopped and has not been started again."""
        return self.stopped and all(call.process == 1 for call in self.calls)
