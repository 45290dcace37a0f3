"""Hold a sink's table, and the index and reader that it keeps between batches.

Index and reader only make the sink faster. They may be thrown away at any time and are then made again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from pyiceberg.schema import Schema

from deletekit.commit.change import Base
from deletekit.commit.planned_change import check_request, check_same_table
from deletekit.engines.current import engine_or_default
from deletekit.errors import DeletekitError, InvalidInputError
from deletekit.rows.write_context import check_parquet_only
from deletekit.stream.applied_batches import check_owner, newest_marker
from deletekit.stream.change_order import sequence_field
from deletekit.stream.dead_letters import DeadLetters
from deletekit.stream.remembered_deletes import RememberedDeletes
from deletekit.stream.saved_index import SavedIndex, key_of, tell_damage
from deletekit.stream.sequence_guard import SequenceGuard, check_guard
from deletekit.stream.sink_options import SinkOptions
from deletekit.stream.table_index import TableIndex
from deletekit.table.metadata import TableMetadata
from deletekit.table.sinks.batches import sink_tag
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.verbs.shared.guards import Guards

if TYPE_CHECKING:
    import pyarrow as pa

    from deletekit.stream.sources.messages import Reject

T = TypeVar("T")


class SinkState:
    """A sink's table and options, and what it keeps between batches. Nothing of that need be right.

    Attributes
    ----------
    table_uuid: the table that the sink was opened for.
    engine: where data files are read; spark_engine: what runs batches of Spark, if `engine` is not Spark's.
    dead_letters: what keeps rows that do not fit, or None.
    batches: those of this sink since the last maintenance; None if not counted yet.
    file_index: the index that the last batch of Spark was looked up in.
    lock: held while the table, the index or the reader is used.

    Raises InvalidInputError for a table or branch to which batches cannot be written.
    """

    def __init__(self, table: Table, options: SinkOptions) -> None:
        self.table, self.options, self.table_uuid = table, options, table.metadata.table_uuid
        self.engine = engine_or_default(options.engine)
        Guards(readable_by=options.readable_by).readable(table.properties)  # refuses an unknown engine
        self.spark_engine: Any = None
        letters = options.dead_letters
        self.dead_letters = None if letters is None else DeadLetters(letters, options.max_dead_letters)
        self.index: TableIndex | None = None
        self.file_index: SavedIndex | None = None
        self.batches: int | None = None
        self._guard: SequenceGuard | None = None
        self._reader: SnapshotReader | None = None
        self.lock = RLock()
        self.check()

    def close(self) -> None:
        """Free the index."""
        with self.lock:
            self.index = self.file_index = None

    def guard(self, schema: Schema) -> SequenceGuard | None:
        """Return the guard of `sequence_by`, which keeps the deletes that it has read."""
        options = self.options
        column, key = sequence_field(schema, options.sequence_by), options.key_fields(schema)
        if column is None:
            return None
        if self._guard is None:
            deletes = RememberedDeletes(key, column, options.forget_deletes_after, options.allow_rewind)
            self._guard = SequenceGuard(options.sink_id, column, deletes)
        self._guard.renew(key, column)
        return self._guard

    def caught_up(self, base: Base, *, load: bool) -> tuple[TableIndex, int]:
        """Return the index of the attempt's base, and how many data files were read for it."""
        fields = self.options.key_fields(base.metadata.schema)
        index, self.index = self.index, None  # an error leaves none
        if index is None or key_of(index.fields) != key_of(fields):
            index = TableIndex(fields)
        read = index.catch_up(base, self.engine, load=load)
        self.index = index
        return index, read

    def with_index(self, base: Base, use: Callable[[TableIndex], T]) -> T:
        """Return what a function makes of the index of the attempt's base."""
        return self.retried(base, lambda load: use(self.caught_up(base, load=load)[0]))

    def retried(self, base: Base, use: Callable[[bool], T]) -> T:
        """Call `use` with True: it loads the index that is saved.

        If files of the index are damaged or gone, what was written until then is removed, and `use` is called with
        False: it makes the index again from the data files.
        """
        try:
            return use(True)
        except DeletekitError as e:
            if e.kind != "key-index":  # in a task of Spark it has lost its class
                raise
            tell_damage(e)
        base.write.discard()
        self.close()
        return use(False)

    def decoded(self, decode: Callable[[Schema, Reject | None], pa.Table]) -> pa.Table:
        """Return the change rows of a source's batch; messages that cannot be understood are dead letters of it."""
        letters = self.dead_letters
        if letters is not None:
            letters.clear()  # those of a batch that failed come again with it
        return decode(self.table.refresh().schema, None if letters is None else letters.reject)

    def reader(self, metadata: TableMetadata) -> SnapshotReader:
        """Return the reader that is kept between batches."""
        if self._reader is None:
            self._reader = SnapshotReader(self.table.io, metadata)
        else:
            self._reader.renew(self.table.io, metadata, metadata.snapshot_of_ref(self.options.ref))
        return self._reader

    def check(self) -> None:
        """Refuse, before anything is written, a table or branch to which batches cannot be written."""
        metadata, options = self.table.metadata, self.options
        check_same_table(self.table, self.table_uuid)
        check_request(self.table, options.ref)
        metadata.version.check_delete_kind("equality-delete")
        if self.dead_letters is not None:
            self.dead_letters.check(self.table)
        check_parquet_only(metadata, "write.format.default", "write.delete.format.default")
        marker = newest_marker(metadata, metadata.snapshot_of_ref(options.ref), options.sink_id)
        form = options.form(metadata.schema, ordered=True)
        if marker is not None:
            check_owner(metadata, marker, tuple(f.field_id for f in form.fields))
            check_guard(metadata, marker, form.sequence)
        name = sink_tag(options.sink_id)
        if metadata.refs.get(name, {}).get("type", "tag") != "tag":
            raise InvalidInputError("a branch has the name of the sink's tag", kind="ref", field="ref", found=name)
