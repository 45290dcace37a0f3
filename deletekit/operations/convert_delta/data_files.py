"""Delta's data files as Iceberg's: the entry that the log's facts make, and a look into the file itself.

Law: the log is believed only where the file agrees: its rows are as many, and its field ids, if it has any, are those
that the table has for these columns.
Spec: Delta protocol, "Add File", "Column Mapping"; Iceberg, "Column Projection", "Data File Fields".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deletekit.errors import DeletekitError, FormatError, UnsupportedError, is_storage_failure
from deletekit.formats.content_file import DataFile
from deletekit.formats.delta_actions import AddFile
from deletekit.formats.metrics import field_id_of, to_optional
from deletekit.table.delta_schema import DeltaSchema
from deletekit.table.delta_values import metrics_of, partition_tuple
from deletekit.table.file_io import FileIO

__all__ = ["DataFiles"]

_DAMAGE = (pa.ArrowException, OSError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFiles:
    """Makes entries of one version's schema. `look` opens each file's footer, even where the log says enough."""

    io: FileIO
    schema: DeltaSchema
    spec_id: int
    time_zone: tzinfo
    look: bool

    def entry(self, add: AddFile, path: str) -> DataFile:
        """The data file of an add action, at a storage path.

        Raises FormatError for statistics or partition values that cannot be, and for a file that is not what the log
        says; NotFoundError when it is gone; UnsupportedError for field ids that name other columns.
        """
        try:
            records = add.num_records
            if self.look or records is None:
                records = self._records(path, records, add.size)
            metrics = metrics_of({**add.parsed_stats, "numRecords": records}, self.schema.columns)
            partition = partition_tuple(add.partition_values, self.schema.partition_columns, self.time_zone)
        except DeletekitError as e:
            raise e.in_file(path) from e
        return DataFile(
            spec_id=self.spec_id,
            file_path=path,
            file_format="PARQUET",
            partition=partition,
            record_count=records,
            file_size_in_bytes=add.size,
            value_counts=to_optional(metrics.value_counts),
            null_value_counts=to_optional(metrics.null_value_counts),
            lower_bounds=to_optional(metrics.lower_bounds),
            upper_bounds=to_optional(metrics.upper_bounds),
        )

    def _records(self, path: str, expected: int | None, size: int) -> int:
        """Rows of the file, by its own footer."""
        try:
            with self.io.open(path) as source:
                footer = pq.read_metadata(source)
                schema = footer.schema.to_arrow_schema()
        except _DAMAGE as e:
            if is_storage_failure(e):
                raise
            raise FormatError("damaged Parquet file", kind="parquet", found=f"{type(e).__name__}: {e}") from e
        records = int(footer.num_rows)
        if expected is not None and records != expected:
            raise FormatError(
                "data file has another number of rows than the Delta log says",
                kind="delta-num-records",
                field="numRecords",
                found=records,
                expected=expected,
            )
        found = self.io.size(path)
        if found != size:
            raise FormatError(
                "data file has another size than the Delta log says",
                kind="delta-size",
                field="size",
                found=found,
                expected=size,
            )
        self._check_ids(schema)
        return records

    def _check_ids(self, schema: pa.Schema) -> None:
        """Iceberg finds a column by the id in the file and by nothing else, if the file has ids at all."""
        in_file = dict(_fields(schema))
        if not any(field_id is not None for field_id in in_file.values()):
            return
        ids = {c.field_id: c.physical_path for c in self.schema.columns}
        nested = next((path for path in _without_id(schema) if path[0] in self.schema.top_level_names), None)
        if nested is not None:
            # Iceberg Java reads no file of which some fields have ids and these have none.
            raise UnsupportedError(
                "lists and maps of a table with column mapping need ids that only IcebergCompat writes",
                kind="delta-nested-ids",
                field=".".join(nested),
                expected="delta.columnMapping.nested.ids",
            )
        if self.schema.found_by_id:
            return  # and so does Delta
        for path, field_id in in_file.items():
            if field_id in ids and ids[field_id] != path:
                raise _other_ids(path, field_id, ids[field_id])
        for column in self.schema.columns:
            found = in_file.get(column.physical_path, column.field_id)
            if found != column.field_id:
                raise _other_ids(column.physical_path, found, column.field_id)


def _fields(fields: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int | None]]:
    """Columns and fields of structs, by path, with their ids."""
    for field in fields:
        here = (*path, field.name)
        yield here, field_id_of(field)
        if pa.types.is_struct(field.type):
            yield from _fields([field.type.field(i) for i in range(field.type.num_fields)], here)


def _without_id(fields: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Elements, keys and values that have no id."""
    for field in fields:
        here, kind = (*path, field.name), field.type
        if pa.types.is_struct(kind):
            yield from _without_id([kind.field(i) for i in range(kind.num_fields)], here)
        elif pa.types.is_nested(kind):
            parts = [kind.key_field, kind.item_field] if pa.types.is_map(kind) else [kind.value_field]
            yield from ((*here, part.name) for part in parts if field_id_of(part) is None)
            yield from _without_id(parts, here)


def _other_ids(path: tuple[str, ...], found: Any, expected: Any) -> UnsupportedError:
    return UnsupportedError(
        "data file has field ids of another schema: Iceberg would read other columns",
        kind="delta-field-ids",
        field=".".join(path),
        found=found,
        expected=expected,
    )


def log_records(add: AddFile, known: Mapping[str, int], path: str) -> int:
    """Rows of a live data file, as the log says, or else as its entry has it."""
    number = add.num_records
    return known[path] if number is None else number
