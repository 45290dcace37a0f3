"""Hold a sink's table and options, and the index and reader that it keeps between batches.

Index and reader only make the sink faster. They may be thrown away at any time and are then made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.commit.planned_change import check_request, check_same_table
from deletekit.deletes.write_context import check_parquet_only
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.stream.applied_batches import check_owner, check_sink_id, newest_marker
from deletekit.stream.change_order import sequence_field
from deletekit.stream.change_rows import ChangeFormat
from deletekit.stream.dead_letters import DeadLetters
from deletekit.stream.remembered_deletes import RememberedDeletes
from deletekit.stream.saved_index import SavedIndex, tell_damage
from deletekit.stream.sequence_guard import SequenceGuard, check_guard
from deletekit.stream.table_index import TableIndex
from deletekit.table.index_files import DamagedIndexError
from deletekit.table.metadata import TableMetadata
from deletekit.table.sink_batches import sink_tag
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.verbs.shared.key_fields import equality_fields_of

if TYPE_CHECKING:
    import pyarrow as pa

    from deletekit.stream.maintain import Maintain
    from deletekit.stream.sources.messages import Reject

T = TypeVar("T")
SinkMode = Literal["auto", "eq-only", "index-only"]
Evolve = Literal["refuse", "add", "widen"]


@dataclass(slots=True, kw_only=True)
class SinkState:
    """A sink's table and options (see `sink`), and the index and reader that it keeps.

    Attributes
    ----------
    table_uuid: the table that the sink was opened for.
    spark_engine: what runs batches of Spark, if `engine` is not Spark's.
    maintain: when and how the table is maintained after a batch.
    batches: those of this sink since the last maintenance; None if not counted yet.
    split_index: the index that the last batch of Spark was looked up in.
    lock: held while the table, the index or the reader is used.
    """

    table: Table
    sink_id: str
    mode: SinkMode
    ref: str
    equality_fields: str | Sequence[str] | None
    allow_rewind: bool
    allow_gaps: bool
    engine: Engine
    sequence_by: str | None = None
    forget_deletes_after: int | None = None
    evolve: Evolve = "refuse"
    starts_anywhere: bool = False
    maintain: Maintain | None = None
    batches: int | None = None
    dead_letters: DeadLetters | None = None
    index: TableIndex | None = None
    kept_guard: SequenceGuard | None = None
    kept_reader: SnapshotReader | None = None
    spark_engine: Any = None
    split_index: SavedIndex | None = None
    lock: RLock = field(default_factory=RLock)
    table_uuid: str | None = field(init=False)

    def __post_init__(self) -> None:
        check_sink_id(self.sink_id)
        self.table_uuid = self.table.metadata.table_uuid

    def close(self) -> None:
        """Free the index."""
        with self.lock:
            self.index = self.split_index = None

    def key_fields(self, schema: Schema) -> tuple[NestedField, ...]:
        """Return the key columns. Raise InvalidInputError."""
        names: Any = self.equality_fields if self.equality_fields is not None else schema.identifier_field_ids
        if not names:
            message = "a sink needs key columns, but the schema has no identifier fields"
            raise InvalidInputError(message, kind="equality-key", field="equality_fields")
        return equality_fields_of(schema, names)

    def sequence(self, schema: Schema) -> NestedField | None:
        """Return the column of `sequence_by`. Raise InvalidInputError."""
        return sequence_field(schema, self.sequence_by)

    def form(self, schema: Schema, columns: tuple[str | None, str | None], *, ordered: bool) -> ChangeFormat:
        """Return what the columns of change rows mean: `columns` are those of the change's type and of the order."""
        fields, sequence = self.key_fields(schema), self.sequence(schema)
        return ChangeFormat(fields=fields, change_type=columns[0], order=columns[1], ordered=ordered, sequence=sequence)

    def guard(self, schema: Schema) -> SequenceGuard | None:
        """Return the guard of `sequence_by`, which keeps the deletes that it has read."""
        column, key = self.sequence(schema), self.key_fields(schema)
        if column is None:
            return None
        if self.kept_guard is None:
            deletes = RememberedDeletes(key, column, self.forget_deletes_after, self.allow_rewind)
            self.kept_guard = SequenceGuard(self.sink_id, column, deletes, self.engine)
        self.kept_guard.renew(key, column)
        return self.kept_guard

    def with_index(self, base: Base, use: Callable[[TableIndex], T]) -> tuple[T, int]:
        """Call `use` with the index of the attempt's base. Return its result, and how many data files were read.

        If files of the index are damaged or gone, what `use` has written is removed, and the index is made again from
        the data files, once.
        """
        try:
            return self._with_caught_up(base, use)
        except DamagedIndexError as e:
            tell_damage(e)
            base.write.discard()
            self.close()
        return self._with_caught_up(base, use, load=False)

    def _with_caught_up(self, base: Base, use: Callable[[TableIndex], T], *, load: bool = True) -> tuple[T, int]:
        fields = self.key_fields(base.metadata.schema)
        if self.index is None or [_kind(f) for f in self.index.fields] != [_kind(f) for f in fields]:
            self.close()
            self.index = TableIndex(fields, load=load)
        read = self.index.catch_up(base.table.io, base, self.engine)
        return use(self.index), read

    def decoded(self, decode: Callable[[Schema, Reject | None], pa.Table]) -> pa.Table:
        """Return the change rows of a source's batch; messages that cannot be understood are dead letters of it."""
        letters = self.dead_letters
        if letters is not None:
            letters.clear()  # those of a batch that failed come again with it
        return decode(self.table.refresh().schema, None if letters is None else letters.reject)

    def reader(self, metadata: TableMetadata) -> SnapshotReader:
        """Return the reader that is kept between batches."""
        if self.kept_reader is None:
            self.kept_reader = SnapshotReader(self.table.io, metadata)
        else:
            self.kept_reader.renew(self.table.io, metadata, metadata.snapshot_of_ref(self.ref))
        return self.kept_reader

    def check(self) -> None:
        """Refuse, before anything is written, a table or branch to which batches cannot be written."""
        metadata = self.table.metadata
        check_same_table(self.table, self.table_uuid)
        check_request(self.table, self.ref)
        metadata.version.check_delete_kind("equality-delete")
        if self.dead_letters is not None:
            self.dead_letters.check(self.table)
        check_parquet_only(metadata, "write.format.default", "write.delete.format.default")
        marker = newest_marker(metadata, metadata.snapshot_of_ref(self.ref), self.sink_id)
        key = tuple(f.field_id for f in self.key_fields(metadata.schema))
        self.sequence(metadata.schema)
        if marker is not None:
            check_owner(metadata, marker, key)
            check_guard(metadata, marker, self.sequence(metadata.schema))
        tag = metadata.refs.get(sink_tag(self.sink_id))
        if tag is not None and tag.get("type") != "tag":
            raise InvalidInputError(
                "a branch has the name of the sink's tag", kind="ref", field="ref", found=sink_tag(self.sink_id)
            )


def _kind(field: NestedField) -> tuple[int, str]:
    return field.field_id, str(field.field_type)
