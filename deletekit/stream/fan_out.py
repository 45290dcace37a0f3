"""Write one stream of change rows into many tables: each batch is split by a column, and each table gets its part.

A table without rows of a batch gets nothing, so its batch numbers have gaps. Each part is written exactly once, because
a batch that comes again is split in the same way. With `atomic=True` all parts of a batch are one transaction of the
catalog.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature
from typing import Any, Self

import pyarrow as pa

from deletekit.commit.planned_change import PlannedChange
from deletekit.commit.swap import commit_together
from deletekit.errors import CommitStateUnknownError, InvalidInputError, NotFoundError
from deletekit.public import public, public_methods
from deletekit.spark.releases import query_of_frame
from deletekit.stream.applied_batches import BatchId
from deletekit.stream.batch_rows import is_data_frame
from deletekit.stream.batch_run import AlreadyCommittedError, BatchProgress, BatchRun, prepared
from deletekit.stream.routes import Create, Router, created_table, without_others
from deletekit.stream.sink import Sink, sink
from deletekit.stream.sink_options import SinkOptions
from deletekit.stream.sink_state import SinkState
from deletekit.table.catalog import Catalog
from deletekit.table.table import Table, load_table

Key = str | Sequence[str] | Mapping[str, Any]


@public
def fan_out(
    catalog: Catalog,
    route: str | Callable[..., Any],
    sink_id: str,
    *,
    tables: Mapping[str, str] | None = None,
    on: str | Sequence[str] | Mapping[str, Any] | None = None,
    create: Mapping[str, Any] | Callable[..., Any] | None = None,
    atomic: bool = False,
    allow_gaps: bool = False,
    **options: Any,
) -> FanOut:
    """Open sinks for one stream into many tables.

    Parameters
    ----------
    route: the column that names the table of each row. Or a function of a batch's rows that returns a name for each.
    sink_id: names the sink in every table.
    tables: the table of each name, as `namespace.table`; None: the names are those of the tables.
    on: the key columns of every table, or a mapping from `namespace.table`; default their identifier fields.
    create: the arguments of `create_table` for a table that is missing, or a function of `namespace.table` that returns
        them. Otherwise a missing table is refused.
    atomic: write all parts of a batch in one transaction of the catalog. Otherwise one table after another, and if that
        breaks off, the batch must come again.
    allow_gaps: write a batch even if an earlier one is missing or incomplete.
    options: of every sink: `mode`, `ref`, `change_type`, `order`, `sequence_by`, `evolve` and so on, see `sink`.

    Raises InvalidInputError for an option that a sink does not have; UnsupportedError if `atomic` is asked for and the
    catalog has no transactions over several tables.
    """
    known = set(signature(sink).parameters) - {"table", "sink_id", "on", "allow_gaps"}
    unknown = sorted(set(options) - known)
    if unknown:
        message, expected = "a sink has no such option", ", ".join(sorted(known))
        raise InvalidInputError(message, kind="sink-option", field=unknown[0], expected=expected)
    if atomic:
        catalog.check_transactions()
    router = Router(route, tables)
    of_sinks = SinkOptions(sink_id=sink_id, allow_gaps=True, starts_anywhere=True, **options)
    return FanOut(catalog, router, of_sinks, _Options(on, create, atomic, allow_gaps))


@dataclass(frozen=True, slots=True)
class _Options:
    """What `fan_out` was asked for beside the options of its sinks."""

    on: Key | None
    create: Create | None
    atomic: bool
    allow_gaps: bool

    def key_of(self, name: str) -> Any:
        if not isinstance(self.on, Mapping):
            return self.on
        if name not in self.on:
            message, expected = "no key columns are given for this table", ", ".join(self.on)
            raise InvalidInputError(message, kind="fan-out-key", field="on", found=name, expected=expected)
        return self.on[name]


@public_methods
class FanOut:
    """Open sinks for many tables; made by `fan_out`.

    Attributes
    ----------
    sinks: the sinks that are open, by `namespace.table`.
    """

    def __init__(self, catalog: Catalog, router: Router, of_sinks: SinkOptions, options: _Options) -> None:
        self._catalog, self._router, self._of_sinks, self._options = catalog, router, of_sinks, options
        self.sinks: dict[str, Sink] = {}
        self._spark_engine: Any = None
        self._last: tuple[str, int] | None = None
        self._is_complete = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the indexes of all sinks."""
        for opened in self.sinks.values():
            opened.close()

    def write(
        self, changes: Any, batch_id: int, *, query_id: str = "", ordered: bool = True
    ) -> dict[str, BatchProgress]:
        """Apply one batch, each part unless it is in its table already. Return the result of each part, by table.

        Parameters
        ----------
        changes: as `Sink.write` takes them, with the columns of all tables. A column that a table lacks must have no
            value in the table's rows. The column of `route` is left out where a table lacks it. A DataFrame stays on
            the executors, and a function `route` gets a part of its rows at a time, as a pyarrow Table.
        batch_id, query_id, ordered: as `Sink.write`.

        Raises InvalidInputError, before anything is written to any table, for rows without a table, for a missing
        table, for a gap, and as `Sink.write` for each part; CommitConflictError and CommitStateUnknownError as every
        commit. The same batch must then come again before another one.
        """
        self._check_number(batch_id, query_id)
        with ExitStack() as stack:
            parts = stack.enter_context(self._parts(changes))
            self._open(parts)
            for name in sorted(parts):
                stack.enter_context(self.sinks[name].state.lock)
            batch = BatchId(sink_id=self._of_sinks.sink_id, query_id=query_id, batch_id=batch_id)
            runs: dict[str, BatchRun] = {}
            for name in sorted(parts):
                runs[name] = self._prepared(name, parts[name], batch, ordered)
                stack.callback(runs[name].discard)
            self._last, self._is_complete = (query_id, batch_id), False
            done = self._together(runs) if self._options.atomic else self._in_turn(runs)
            self._is_complete = True
        for name, progress in done.items():
            self.sinks[name].recent_progress.append(progress)
        return done

    def foreach_batch(self, frame: Any, batch_id: int) -> None:
        """Apply one micro-batch of Spark: `stream.writeStream.foreachBatch(fan_out.foreach_batch)`.

        The rows stay on the executors, as with `Sink.foreach_batch`: each table gets a part of them. Spark keeps the
        batch meanwhile. The order of its rows is not reliable, so `order` or `sequence_by` must tell several changes of
        a key apart. Raises as `Sink.foreach_batch`.
        """
        self.write(frame, batch_id, query_id=query_of_frame(frame), ordered=False)

    # --- the parts of a batch -----------------------------------------------------------------------------------------

    def _check_number(self, batch_id: int, query_id: str) -> None:
        """Refuse to go on after a batch that some tables may lack: their gaps would look like parts without rows."""
        if not 0 <= batch_id < 2**63:
            message = "a batch has a number"
            raise InvalidInputError(message, kind="batch-id", field="batch_id", found=batch_id, expected=">= 0")
        if self._last is None or self._options.allow_gaps or self._last[0] != query_id:
            return
        following = self._last[1] + self._is_complete
        if batch_id > following:
            message = "batches before this one are not in all their tables; allow_gaps=True applies it without them"
            expected = f"batch {following}"
            raise InvalidInputError(message, kind="batch-gap", field="batch", found=batch_id, expected=expected)

    def _open(self, names: Mapping[str, Any]) -> None:
        """Open the sinks of tables. Look for all tables before any is made."""
        found = {name: self._found(name) for name in names if name not in self.sinks}
        for name, table in found.items():
            made = created_table(self._catalog, name, self._options.create) if table is None else table
            options = replace(self._of_sinks, on=self._options.key_of(name))
            self.sinks[name] = Sink(SinkState(made.refresh(), options))

    def _found(self, name: str) -> Table | None:
        self._options.key_of(name)
        try:
            return load_table(self._catalog, name)
        except NotFoundError as e:
            if e.kind != "table-not-found":
                raise
            if self._options.create is not None:
                return None
            message, expected = "a row is for a table that is not there", "a table of the catalog, or create="
            raise InvalidInputError(message, kind="fan-out-table", field="route", found=name, expected=expected) from e

    @contextmanager
    def _parts(self, changes: Any) -> Iterator[Mapping[str, Any]]:
        """Give the part of each table: its rows, or a FramePart."""
        if not is_data_frame(changes):
            yield self._router.parts(changes)
            return
        # By name: pyspark is an extra.
        rows, routes = (import_module(f"deletekit.stream.split_{name}") for name in ("rows", "routes"))
        self._spark_engine = rows.engine_on(changes, self._of_sinks.engine, self._spark_engine)
        with routes.frame_parts(self._router, changes, self._spark_engine) as parts:
            yield parts

    def _prepared(self, name: str, part: Any, batch: BatchId, ordered: bool) -> BatchRun:
        state, columns = self.sinks[name].state, self._of_sinks.columns
        known = {f.name for f in state.table.refresh().metadata.schema.fields}
        if isinstance(part, list | pa.Table):
            return prepared(state, without_others(part, known, columns, self._router.column), batch, ordered=ordered)
        state.spark_engine = self._spark_engine
        run = prepared(state, part.without_others(known, columns), batch)
        try:
            part.check(run.rows)
        except BaseException:
            run.discard()
            raise
        return run

    def _in_turn(self, runs: Mapping[str, BatchRun]) -> dict[str, BatchProgress]:
        return {name: run.run(time.monotonic()) for name, run in runs.items()}

    def _together(self, runs: Mapping[str, BatchRun]) -> dict[str, BatchProgress]:
        """Commit all parts that are not in their tables in one transaction.

        If another process with the same sink commits them meanwhile, what is left is planned again.
        """
        started = time.monotonic()
        while True:
            planned = _planned(runs)
            skipped = {name: run.skipped(started) for name, run in runs.items() if name not in planned}
            if not planned:
                return skipped
            try:
                done = commit_together(list(planned.values()))
            except AlreadyCommittedError:
                continue
            except CommitStateUnknownError as unknown:
                if not all(run.has_landed(unknown) for run in runs.values()):
                    raise
                return {name: run.skipped(started) for name, run in runs.items()}
            made = dict(zip(planned, done, strict=True))
            return skipped | {name: runs[name].done(started, one) for name, one in made.items()}


def _planned(runs: Mapping[str, BatchRun]) -> dict[str, PlannedChange]:
    """Plan the parts that are not in their tables yet. If one cannot be planned, the files of all are deleted."""
    planned: dict[str, PlannedChange] = {}
    try:
        for name, run in runs.items():
            try:
                planned[name] = run.planned()
            except AlreadyCommittedError:
                continue
    except BaseException:
        for change in planned.values():
            change.discard()
        raise
    return planned
