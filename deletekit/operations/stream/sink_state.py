"""What a sink keeps from batch to batch, and what it is made of.

Law: nothing here is needed to be right: index and reader may be thrown away at any time, and are made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.commit.commit import Attempt, check_request
from deletekit.commit.validation import check_delete_kind
from deletekit.deletes.write_context import check_parquet_only
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.operations.changes import equality_fields_of
from deletekit.operations.stream.progress import sink_tag
from deletekit.operations.stream.table_index import TableIndex
from deletekit.table.metadata import TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table

__all__ = ["SinkMode", "SinkState"]

SinkMode = Literal["auto", "flink", "eq-only", "index-only"]


@dataclass(slots=True, kw_only=True)
class SinkState:
    """A sink's table and options (see `sink`), and the index and reader it keeps."""

    table: Table
    sink_id: str
    mode: SinkMode
    ref: str
    equality_fields: Sequence[str] | None
    allow_rewind: bool
    max_index_keys: int | None
    engine: Engine
    index: TableIndex | None = None
    kept_reader: SnapshotReader | None = None

    def close(self) -> None:
        """Give back the index."""
        if self.index is not None:
            self.index.close()
            self.index = None

    def key_fields(self, schema: Schema) -> tuple[NestedField, ...]:
        """The key columns. Raises InvalidInputError."""
        names: Any = self.equality_fields if self.equality_fields is not None else schema.identifier_field_ids
        if not names:
            raise InvalidInputError(
                "a sink needs key columns, and the schema names none", kind="equality-key", field="equality_fields"
            )
        return equality_fields_of(schema, names)

    def index_of(self, attempt: Attempt) -> tuple[TableIndex, int]:
        """The index, right for the attempt's base, and how many data files were read for that."""
        fields = self.key_fields(attempt.base.metadata.schema)
        if self.index is None or [_kind(f) for f in self.index.fields] != [_kind(f) for f in fields]:
            self.close()
            self.index = TableIndex(fields, max_keys=self.max_index_keys)
        read = self.index.catch_up(attempt.table.io, attempt.base, self.engine)
        return self.index, read

    def reader(self, metadata: TableMetadata) -> SnapshotReader:
        """The reader that is kept from batch to batch."""
        if self.kept_reader is None:
            self.kept_reader = SnapshotReader(self.table.io, metadata)
        else:
            self.kept_reader.renew(self.table.io, metadata, metadata.snapshot_of_ref(self.ref))
        return self.kept_reader

    def check(self) -> None:
        """Refuse, before anything is written, a table or branch that batches cannot be written to."""
        metadata = self.table.metadata
        check_request(self.table, self.ref)
        check_delete_kind("equality-delete", metadata.format_version)
        check_parquet_only(metadata, "write.format.default", "write.delete.format.default")
        self.key_fields(metadata.schema)
        tag = metadata.refs.get(sink_tag(self.sink_id))
        if tag is not None and tag.get("type") != "tag":
            raise InvalidInputError(
                "a branch has the name of the sink's tag", kind="ref", field="ref", found=sink_tag(self.sink_id)
            )


def _kind(field: NestedField) -> tuple[int, str]:
    return field.field_id, str(field.field_type)
