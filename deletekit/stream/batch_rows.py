"""Hold the change rows of a batch: in this process as Arrow, or on Spark's executors, with the same methods."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.spark.releases import to_arrow
from deletekit.stream.batch_delta import BatchDelta, equality_delta, indexed_delta, truncate_delta
from deletekit.stream.batch_digest import batch_digest
from deletekit.stream.change_rows import read_changes
from deletekit.stream.dead_letters import with_rejected, without_dead_letters
from deletekit.stream.evolve import evolve_table, evolving_rows, schema_for
from deletekit.stream.sequence_guard import Guarded
from deletekit.stream.sink_state import SinkState
from deletekit.stream.stored_values import UnsentError, filled
from deletekit.stream.table_index import TableIndex
from deletekit.table.table import Table
from deletekit.verbs.shared.equality_keys import specs_in_use

if TYPE_CHECKING:
    from deletekit.stream.split_rows import SplitRows

BatchRows: TypeAlias = "HeldRows | SplitRows"


class HeldRows:
    """Rows in this process. Each method that writes may be called again, for another base. Raises as `read_changes`.

    Attributes
    ----------
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

    def __init__(self, state: SinkState, rows: Any, *, ordered: bool, source: str) -> None:
        metadata, options = state.table.metadata, state.options
        rows = evolving_rows(rows, metadata.schema, options.evolve, options.columns)
        schema = schema_for(metadata, rows, options.evolve, options.columns)
        self._state, self._form = state, options.form(schema, ordered=ordered)
        self._rows, self.letters = without_dead_letters(state.dead_letters, rows, schema, self._form, source)
        self.source = rows if isinstance(rows, pa.Table) else None
        self.guarded: Guarded | None = None
        self.parse(schema, self._form.fields)
        self.digest = batch_digest(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def evolve(self, table: Table) -> None:
        """Give the table the schema that the rows need. The digest is then that of the ids that columns have got."""
        options = self._state.options
        evolve_table(table, self._rows, options.evolve, options.columns)
        self.parse(table.schema, options.key_fields(table.schema))
        self.digest = batch_digest(self._changes)

    def parse(self, schema: Schema, fields: tuple[NestedField, ...]) -> None:
        """Parse the rows again, by another schema. Raises InvalidInputError if they do not fit."""
        form = replace(self._state.options.form(schema, ordered=self._form.ordered), fields=fields)
        self._changes = read_changes(self._rows, schema, form)
        self.schema, self.fields = schema, fields
        self.keys, self.newest = len(self._changes.last), self._changes.newest
        self.truncates, self.takes_stored = self._changes.truncate, self._changes.unsent is not None

    def reject(self, error: UnsentError) -> None:
        """Make dead letters of the rows that an error has. Without a table for them raise it."""
        letters = self._state.dead_letters
        if letters is None:
            raise next(iter(error.rows.values()))
        self._rows, self.letters = with_rejected(letters, self._rows, self.schema, error.rows, self.letters)
        self.parse(self.schema, self.fields)

    def by_position(self, base: Base) -> tuple[BatchDelta, int]:
        """Write the batch, with old rows hidden by position. Also return how many data files were read."""
        return self._state.with_index(base, partial(self._indexed, base))

    def _indexed(self, base: Base, index: TableIndex) -> BatchDelta:
        guard, changes, known = self._state.guard(base.metadata.schema), self._changes, None
        if guard is not None:
            changes, known, self.guarded = guard.newest_of(base, changes, index)
        changes = filled(base, changes, index, known)
        return indexed_delta(base, changes, index)

    def by_value(self, base: Base) -> BatchDelta:
        """Write the batch, with old rows deleted by value."""
        changes = self._changes
        if self.takes_stored:  # only these need to know where the old rows are
            changes, _ = self._state.with_index(base, lambda index: filled(base, self._changes, index))
        return equality_delta(base.write, specs_in_use(base), changes)

    def as_truncation(self, base: Base) -> BatchDelta:
        """Remove all rows of the table, and write those of the batch."""
        return truncate_delta(base, filled(base, self._changes, None))

    def discard(self) -> None:
        """Remove what was kept for the batch: nothing is, outside of memory."""


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
    made: SplitRows = import_module("deletekit.stream.split_rows").SplitRows(state, rows)
    if not made.takes_stored:
        return made
    # What values of other rows decide is worked out in one place.
    made.discard()
    held = import_module("deletekit.spark.types").from_spark(to_arrow(rows), state.table.metadata.schema)
    return HeldRows(state, held, ordered=False, source=source)


def is_data_frame(rows: Any) -> bool:
    """Return whether rows are a DataFrame of Spark."""
    return type(rows).__name__ == "DataFrame" and type(rows).__module__.startswith("pyspark.sql.")
