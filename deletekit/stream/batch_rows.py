"""Hold the change rows of a batch, in this process as Arrow or on Spark's executors, and write them by the same tasks.

A batch is one or more groups of change rows, each with all changes of its keys. A task for each group finds the old
rows of its keys in the index and writes the new rows. Then tasks for groups of data files hide the old rows. The
process that commits gets counts, positions and files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from importlib import import_module
from operator import or_
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.merge_previous_deletes import HiddenRows
from deletekit.engines.local import Engine, LocalEngine
from deletekit.spark.releases import to_arrow
from deletekit.stream.batch_delta import (
    BatchDelta,
    WrittenRows,
    by_position,
    equality_delta,
    truncate_delta,
    write_by_position,
)
from deletekit.stream.batch_digest import batch_digest
from deletekit.stream.change_rows import Changes, read_changes
from deletekit.stream.dead_letters import BatchLetters, with_rejected, without_dead_letters
from deletekit.stream.evolve import evolve_table, evolving_rows, schema_for
from deletekit.stream.remembered_deletes import Memory
from deletekit.stream.saved_index import Index
from deletekit.stream.sequence_guard import Guarded
from deletekit.stream.sink_state import SinkState
from deletekit.stream.stored_values import UnsentError, filled
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import specs_in_use


class BatchRows:
    """The rows of a batch. Each method that writes may be called again, for another base.

    Attributes
    ----------
    engine: where tasks write; reads: where a task reads data files.
    schema, fields: what the rows were parsed with: the table's schema, and the key columns.
    keys: how many different keys there are.
    newest: the highest value of the order column.
    digest: of everything that the batch writes.
    truncates: whether the batch deletes all rows before its own.
    letters: the dead letters, which are none of its rows.
    guarded: what `sequence_by` left of the batch when it was last written; None before, and without that column.
    takes_stored: whether it takes values from stored rows.
    source: what its source says about it beside its rows.
    """

    schema: Schema
    fields: tuple[NestedField, ...]
    keys: int
    newest: Any
    digest: str
    letters: BatchLetters
    truncates = takes_stored = False
    source: pa.Table | None = None
    guarded: Guarded | None = None

    def __init__(self, state: SinkState, engine: Engine, reads: Engine) -> None:
        self.state, self.engine, self.reads = state, engine, reads

    def __len__(self) -> int:
        raise NotImplementedError

    def evolve(self, table: Table) -> None:
        """Give the table the schema that the rows need. The digest is then that of the ids that columns have got."""
        raise NotImplementedError

    def parse(self, schema: Schema, fields: tuple[NestedField, ...]) -> None:
        """Parse the rows again, by another schema. Raises InvalidInputError if they do not fit."""
        raise NotImplementedError

    def reject(self, error: UnsentError) -> None:
        """Make dead letters of the rows that an error has. Without a table for them raise it."""
        raise error

    def discard(self) -> None:
        """Remove what was kept for the batch outside of memory."""

    def index(self, base: Base, *, load: bool) -> tuple[Index, int]:
        """Return the index of the attempt's base, and how many data files are read beside it."""
        raise NotImplementedError

    def groups(self) -> Sequence[Any]:
        """Return the groups of rows."""
        raise NotImplementedError

    def changes(self) -> Callable[[Any], Changes]:
        """Return what makes changes of a group, in any process where tasks run."""
        return lambda changes: changes

    # --- writing ------------------------------------------------------------------------------------------------------

    def by_position(self, base: Base) -> tuple[BatchDelta, int]:
        """Write the batch, with old rows hidden by position. Also return how many data files were read."""
        return self.state.retried(base, lambda load: self._by_position(base, load=load))

    def _by_position(self, base: Base, *, load: bool) -> tuple[BatchDelta, int]:
        (index, read), guard = self.index(base, load=load), self.state.guard(base.metadata.schema)
        memory = Memory() if guard is None else guard.memory(base)
        changes, write, reads = self.changes(), base.write, self.reads

        def written(group: Any) -> WrittenRows:
            return write_by_position(write, changes(group), index, guard, memory, reads)

        done = list(self.engine.map(written, self.groups()))
        old = {n: reduce(or_, (d.old[n] for d in done if n in d.old)) for n in {n for d in done for n in d.old}}
        hidden = [HiddenRows(index.tasks[n], old[n], index.hidden(n)) for n in sorted(old)]
        files = [file for d in done for file in d.files]
        delta = replace(by_position(base, hidden, self.engine), added_data_files=tuple(file for file, _ in files))
        if guard is not None:
            memory = guard.remembered(base, memory, [d.deleted for d in done if d.deleted is not None], self.engine)
            self.guarded = Guarded(late=sum(d.late for d in done), memory=memory)
        hits = sum(d.hits for d in done)
        batch = BatchDelta(
            delta=delta,
            hits=hits,
            misses=sum(d.keys for d in done) - hits,
            targets=frozenset(h.task.data_file.file_path for h in hidden),
            index=index.after(base, files, delta.added_delete_files, old),
        )
        return batch, read

    def by_value(self, base: Base) -> BatchDelta:
        """Write the batch, with old rows deleted by value, without looking for them."""
        changes, write, specs = self.changes(), base.write, specs_in_use(base)
        if self.takes_stored:  # only these need to know where the old rows are
            given, with_index = changes, self.state.with_index
            changes = lambda group: with_index(base, lambda index: filled(given(group), index))  # noqa: E731
        done = list(self.engine.map(lambda group: equality_delta(write, specs, changes(group)), self.groups()))
        delta = RowDelta(
            added_data_files=tuple(f for d in done for f in d.added_data_files),
            added_delete_files=tuple(f for d in done for f in d.added_delete_files),
        )
        return BatchDelta(delta=delta, misses=self.keys)

    def as_truncation(self, base: Base) -> BatchDelta:
        """Remove all rows of the table, and write those of the batch, which is held in this process."""
        (group,) = self.groups()
        return truncate_delta(base, filled(self.changes()(group), None))


class HeldRows(BatchRows):
    """Rows in this process. Raises as `read_changes`."""

    def __init__(self, state: SinkState, rows: Any, *, ordered: bool, source: str) -> None:
        super().__init__(state, LocalEngine(1), state.engine)
        metadata, options = state.table.metadata, state.options
        rows = evolving_rows(rows, metadata.schema, options.evolve, options.columns)
        schema = schema_for(metadata, rows, options.evolve, options.columns)
        self._form = options.form(schema, ordered=ordered)
        self._rows, self.letters = without_dead_letters(state.dead_letters, rows, schema, self._form, source)
        self.source = rows if isinstance(rows, pa.Table) else None
        self.parse(schema, self._form.fields)
        self.digest = batch_digest(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def evolve(self, table: Table) -> None:
        options = self.state.options
        evolve_table(table, self._rows, options.evolve, options.columns)
        self.parse(table.schema, options.key_fields(table.schema))
        self.digest = batch_digest(self._changes)

    def parse(self, schema: Schema, fields: tuple[NestedField, ...]) -> None:
        form = replace(self.state.options.form(schema, ordered=self._form.ordered), fields=fields)
        self._changes = read_changes(self._rows, schema, form)
        self.schema, self.fields = schema, fields
        self.keys, self.newest = len(self._changes.last), self._changes.newest
        self.truncates, self.takes_stored = self._changes.truncate, self._changes.unsent is not None

    def reject(self, error: UnsentError) -> None:
        letters = self.state.dead_letters
        if letters is None:
            raise next(iter(error.rows.values()))
        self._rows, self.letters = with_rejected(letters, self._rows, self.schema, error.rows, self.letters)
        self.parse(self.schema, self.fields)

    def index(self, base: Base, *, load: bool) -> tuple[Index, int]:
        return self.state.caught_up(base, load=load)

    def groups(self) -> Sequence[Any]:
        return [self._changes]


def batch_rows(state: SinkState, rows: Any, *, ordered: bool, source: str) -> BatchRows:
    """Return the rows of a batch, those of a Spark DataFrame on its executors. Raises InvalidInputError.

    Parameters
    ----------
    ordered: whether rows come in order; those of a DataFrame never do.
    source: the path of the file that they come from, or no text.
    """
    if not is_data_frame(rows):
        return HeldRows(state, rows, ordered=ordered, source=source)
    # By name: a sink works without pyspark, which is an extra.
    made: BatchRows = import_module("deletekit.stream.split_rows").SplitRows(state, rows)
    if not made.takes_stored:
        return made
    # What values of other rows decide is worked out in one place.
    made.discard()
    held = import_module("deletekit.spark.types").from_spark(to_arrow(rows), state.table.metadata.schema)
    return HeldRows(state, held, ordered=False, source=source)


def is_data_frame(rows: Any) -> bool:
    """Return whether rows are a DataFrame of Spark."""
    return type(rows).__name__ == "DataFrame" and type(rows).__module__.startswith("pyspark.sql.")
