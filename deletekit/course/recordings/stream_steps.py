"""Record a change stream: the real sink applies it to a temporary table, is stopped at a point, and starts again.

Nothing is modelled. The rows that a reader should see come from replaying the changes into a dict, without any table.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, Literal

import pyarrow as pa

from deletekit.course.recordings.flink_writer import write_checkpoint
from deletekit.course.recordings.stream_crashes import SinkStopped, StoppingCatalog
from deletekit.course.recordings.temporary_table import temporary_table
from deletekit.course.views.stream_stepper import (
    BATCHES,
    CRASHES,
    STREAM_MODES,
    Change,
    Crash,
    Row,
    StreamCall,
    StreamRecord,
)
from deletekit.engines.local import LocalEngine
from deletekit.errors import InvalidInputError
from deletekit.maintenance.compact import compact
from deletekit.maintenance.expire_snapshots import expire_snapshots
from deletekit.maintenance.remove_orphan_files import remove_orphan_files
from deletekit.stream.batch_run import BatchProgress
from deletekit.stream.sink import Sink, convert, sink
from deletekit.stream.sink_options import SinkMode
from deletekit.table.catalog import Catalog
from deletekit.table.metadata import Snapshot
from deletekit.table.table import Table, load_table
from deletekit.verbs.append import append, create_table
from deletekit.verbs.delete import delete_keys
from deletekit.verbs.scan import scan

StreamMode = SinkMode | Literal["flink"]
_NAME = "stream.steps"
_SINK = "steps"
_LATER = 2**62
_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.string())])


def record_stream(
    steps: int,
    *,
    mode: StreamMode = "auto",
    format_version: int = 3,
    crash: Crash | Literal[""] = "",
    resumed: bool = False,
    checkpoint_check: bool = True,
) -> StreamRecord:
    """Apply the first `steps` of `BATCHES` and return what each call did.

    Parameters
    ----------
    mode, format_version: of the sink and the table. In `flink` the writer is that of `write_checkpoint`.
    crash: where the sink is stopped in the last batch. `before-files`: nothing is written yet. `before-manifests`: data
        files and deletes are written. `before-commit`: manifests are written too. `answer-lost`: the sink goes on, but
        is not told that its commit landed. `after-commit`: the commit landed, and nothing was told so. `in-conversion`:
        the batch is committed, and its equality deletes are being converted. `markers-expired`: as `after-commit`, then
        the table is compacted and its old snapshots expire. "": the sink is not stopped.
    resumed: another process goes on. The source sends the batch again, because nothing told it that the batch arrived.
    checkpoint_check: False for a writer that is not a sink and leaves no marker. It deletes the keys of updates and
        deletes by value, then appends, in two commits, and does not check which batch was the last.

    Raises InvalidInputError if the step, mode, version or crash does not exist.
    """
    _check(steps, mode, format_version, crash)
    calls: list[StreamCall] = []
    orphans: list[str] = []

    def make(catalog: Catalog) -> Table:
        table = create_table(catalog, _NAME, _SCHEMA, format_version=format_version)
        _Recording(catalog, mode if checkpoint_check else None, calls).go(steps, crash, resumed=resumed)
        found = remove_orphan_files(table, older_than=_LATER, force=True, dry_run=True, engine=LocalEngine(1))
        orphans.extend(found.orphan_files)
        return table

    table = temporary_table(make)
    landed = steps - (crash in ("before-files", "before-manifests", "before-commit") and not resumed)
    seen = scan(table).to_arrow()
    return StreamRecord(
        table=table,
        calls=tuple(calls),
        orphans=tuple(orphans),
        rows=tuple(sorted(zip(seen["id"].to_pylist(), seen["value"].to_pylist(), strict=True))),
        expected=_replayed(BATCHES[:landed]),
    )


class _Recording:
    """Calls the sink, or without a mode a writer that is none, and notes what each call did."""

    def __init__(self, catalog: Catalog, mode: StreamMode | None, calls: list[StreamCall]) -> None:
        self._catalog, self._mode, self._calls = catalog, mode, calls

    def go(self, steps: int, crash: Crash | Literal[""], *, resumed: bool) -> None:
        gate = StoppingCatalog(self._catalog)
        with suppress(SinkStopped), self._sink(gate) as first:
            for number in range(steps):
                self._write(1, first, gate, number, _crash_in_batch(crash) if number == steps - 1 else "")
            if crash == "in-conversion" and steps and self._mode is not None:
                gate.crash_at("before-commit")
                self._convert(1, first or load_table(gate, _NAME))
        if crash == "markers-expired" and steps:
            self._expire()
        if resumed and any(call.stopped for call in self._calls):
            gate = StoppingCatalog(self._catalog)
            with self._sink(gate) as second:
                self._write(2, second, gate, steps - 1, "")
                if crash == "in-conversion" and self._mode is not None:
                    self._convert(2, second or load_table(gate, _NAME))

    def _sink(self, catalog: Catalog) -> AbstractContextManager[Sink | None]:
        if self._mode is None or self._mode == "flink":
            return nullcontext()
        table = load_table(catalog, _NAME)
        return sink(table, _SINK, on=["id"], mode=self._mode, engine=LocalEngine(1))

    def _write(
        self, process: int, opened: Sink | None, gate: StoppingCatalog, number: int, crash: Crash | Literal[""]
    ) -> None:
        batch = BATCHES[number]

        def write() -> Any:
            if opened is not None:
                gate.crash_at(crash)
                return opened.write([dict(change) for change in batch], number)
            table = load_table(gate, _NAME)
            if self._mode == "flink":
                gate.crash_at(crash)
                return write_checkpoint(table, [dict(change) for change in batch], number)
            ended = sorted({change["id"] for change in batch if change["_change_type"] != "INSERT"})
            if ended:
                delete_keys(table, [{"id": key} for key in ended])
            gate.crash_at(crash)
            return append(table, [{"id": key, "value": value} for key, value in _replayed([batch])])

        self._noted(StreamCall(process=process, name="write", batch_id=number), write)

    def _convert(self, process: int, opened: Sink | Table) -> None:
        self._noted(StreamCall(process=process, name="convert"), lambda: convert(opened))

    def _expire(self) -> None:
        table = load_table(self._catalog, _NAME)
        self._noted(StreamCall(process=1, name="compact"), lambda: compact(table, rewrite_all=True))
        expire = partial(expire_snapshots, table, older_than=_LATER, retain_last=1)
        self._noted(StreamCall(process=1, name="expire_snapshots"), expire)

    def _noted(self, call: StreamCall, do: Callable[[], Any]) -> None:
        before = next(self._history(), None)
        answer: Any = None
        stopped = True
        try:
            answer = do()
            stopped = False
        finally:
            new = tuple(takewhile(lambda snapshot: snapshot != before, self._history()))[::-1]
            progress = answer if isinstance(answer, BatchProgress) else None
            self._calls.append(replace(call, progress=progress, snapshots=new, stopped=stopped))

    def _history(self) -> Iterator[Snapshot]:
        """Yield the snapshots of `main`, the newest first."""
        table = load_table(self._catalog, _NAME)
        head = table.current_snapshot
        return table.metadata.ancestors(head.snapshot_id if head else None)


def _crash_in_batch(crash: Crash | Literal[""]) -> Crash | Literal[""]:
    return {"in-conversion": "", "markers-expired": "after-commit"}.get(crash, crash)  # type: ignore[return-value]


def _replayed(batches: Sequence[Sequence[Change]]) -> tuple[Row, ...]:
    """Return the rows after some changes: a later change of a key replaces an earlier one."""
    state: dict[int, str] = {}
    for change in (change for batch in batches for change in batch):
        if change["_change_type"] in ("INSERT", "UPDATE_AFTER"):
            state[change["id"]] = change["value"]
        else:
            state.pop(change["id"], None)
    return tuple(sorted(state.items()))


def _check(steps: int, mode: str, format_version: int, crash: str) -> None:
    for name, value, known in (
        ("mode", mode, STREAM_MODES),
        ("format_version", format_version, (2, 3)),
        ("crash", crash, ("", *CRASHES)),
    ):
        if value not in known:
            raise InvalidInputError("no such choice", "stream", name, value, ", ".join(map(str, known)))
    if not 0 <= steps <= len(BATCHES):
        raise InvalidInputError("no such step", "stream", "step", steps, f"0 .. {len(BATCHES)}")
