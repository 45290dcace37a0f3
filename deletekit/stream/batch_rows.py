"""Hold the change rows of a batch: in this process as Arrow, or on Spark's executors, with the same interface."""

from importlib import import_module
from typing import Any, Protocol

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.stream.batch_delta import BatchDelta, equality_delta, flink_delta, indexed_delta, truncate_delta
from deletekit.stream.batch_digest import batch_digest
from deletekit.stream.change_rows import ChangeFormat, read_changes
from deletekit.stream.old_digest import old_digest
from deletekit.stream.sink_state import SinkState
from deletekit.verbs.shared.equality_keys import specs_in_use


class BatchRows(Protocol):
    """The change rows of one batch. Each method that writes may be called again, for another base.

    Attributes
    ----------
    schema, fields: what the rows were parsed with: the table's schema, and the key columns.
    keys: how many different keys there are.
    newest: the highest value of the order column.
    digest: of everything that the batch writes.
    truncates: whether the batch deletes all rows before its own.
    """

    schema: Schema
    fields: tuple[NestedField, ...]
    keys: int
    newest: Any
    digest: str
    truncates: bool

    def __len__(self) -> int: ...

    def old_digest(self) -> str:
        """Return the digest as releases until 1.0 wrote it."""

    def parse(self, schema: Schema, fields: tuple[NestedField, ...]) -> None:
        """Parse the rows again, by another schema. Raises InvalidInputError if they do not fit."""

    def by_position(self, base: Base) -> tuple[BatchDelta, int]:
        """Write the batch, with old rows hidden by position. Also return how many data files were read."""

    def by_value(self, base: Base) -> BatchDelta:
        """Write the batch, with old rows deleted by value."""

    def as_flink(self, base: Base) -> BatchDelta:
        """Write the batch as Flink's sink does."""

    def as_truncation(self, base: Base) -> BatchDelta:
        """Remove all rows of the table, and write those of the batch."""

    def discard(self) -> None:
        """Remove what was kept for the batch."""


class HeldRows:
    """Rows in this process. Raises as `read_changes`."""

    def __init__(self, state: SinkState, rows: Any, schema: Schema, form: ChangeFormat) -> None:
        self._state, self._rows, self._form = state, rows, form
        self.parse(schema, form.fields)
        self.digest = batch_digest(self._changes)

    def __len__(self) -> int:
        return len(self._changes)

    def old_digest(self) -> str:
        return old_digest(self._changes)

    def parse(self, schema: Schema, fields: tuple[NestedField, ...]) -> None:
        form = ChangeFormat(
            fields=fields, change_type=self._form.change_type, order=self._form.order, ordered=self._form.ordered
        )
        self._changes = read_changes(self._rows, schema, form)
        self.schema, self.fields = schema, fields
        self.keys, self.newest = len(self._changes.last), self._changes.newest
        self.truncates = self._changes.truncate

    def by_position(self, base: Base) -> tuple[BatchDelta, int]:
        return self._state.with_index(base, lambda index: indexed_delta(base, self._changes, index))

    def by_value(self, base: Base) -> BatchDelta:
        return equality_delta(base.write, specs_in_use(base), self._changes)

    def as_flink(self, base: Base) -> BatchDelta:
        return flink_delta(base.write, specs_in_use(base), self._changes)

    def as_truncation(self, base: Base) -> BatchDelta:
        return truncate_delta(base, self._changes)

    def discard(self) -> None:
        """Nothing is kept outside of memory."""


def batch_rows(state: SinkState, rows: Any, schema: Schema, form: ChangeFormat) -> BatchRows:
    """Return the rows of a batch, those of a Spark DataFrame on its executors. Raises InvalidInputError."""
    if type(rows).__name__ != "DataFrame" or not type(rows).__module__.startswith("pyspark.sql."):
        return HeldRows(state, rows, schema, form)
    # By name: a sink works without pyspark, which is an extra.
    made: BatchRows = import_module("deletekit.stream.split_rows").SplitRows(state, rows, schema, form)
    return made
