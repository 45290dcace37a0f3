"""Make Iceberg data file entries from Delta's add actions, and check each file against the log.

Each file is opened when it is added. Its size and row count must be those of the log. Its field ids, if it has any,
must be those of the table's columns. Its partition columns, if it has any, must hold the value of the log. Otherwise
Iceberg's readers would show other rows than Delta's.
Spec: Delta protocol, "Add File", "Column Mapping"; Iceberg, "Column Projection", "Data File Fields".
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from os import SEEK_END
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg import types as it

from deletekit.delta.actions import AddFile
from deletekit.delta.row_ids import finds_row_ids
from deletekit.delta.schema_from_delta import DeltaColumn, DeltaSchema
from deletekit.delta.values import metrics_of, partition_tuple
from deletekit.errors import DeletekitError, FormatError, UnsupportedError, is_storage_failure
from deletekit.formats.content_file import DataFile
from deletekit.formats.metrics import FIELD_ID_KEY, field_id_of, to_optional
from deletekit.rows.projection import FileColumns, project
from deletekit.table.file_io import FileIO
from deletekit.table.types import stored_value

_NESTED = ("<element>", "<key>", "<value>")
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFiles:
    """Make the entries of one version's data files."""

    io: FileIO
    schema: DeltaSchema
    spec_id: int
    time_zone: tzinfo
    _good: list[pa.Schema] = dataclasses.field(default_factory=list, init=False, repr=False)

    def entry(self, add: AddFile, path: str) -> DataFile:
        """Return the data file of an add action, at a storage path.

        Raises FormatError for statistics or partition values that cannot be, and for a file that is not what the log
        says; NotFoundError when it is gone; UnsupportedError for field ids that name other columns, and for partition
        columns in the file that hold another value.
        """
        try:
            partition = partition_tuple(add.partition_values, self.schema.partition_columns, self.time_zone)
            stats = add.parsed_stats
            records, has_row_ids = self._checked(path, add, add.records_of(stats), partition)
            metrics = metrics_of({**stats, "numRecords": records}, self.schema.columns)
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
            first_row_id=add.base_row_id if has_row_ids else None,
        )

    def _checked(self, path: str, add: AddFile, num_records: int | None, partition: Sequence[Any]) -> tuple[int, bool]:
        """Return the file's row count, and whether it has Delta's row ids.

        Everything that readers rely on is compared with the log, which counts `num_records`.
        """
        with self.io.open(path) as source:
            _check_same("size", "delta-size", "size", source.seek(0, SEEK_END), add.size)
            with _damage_named():
                # INT96 may be in years that nanoseconds cannot express.
                file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
                schema, records = file.schema_arrow, int(file.metadata.num_rows)
            if num_records is not None:
                _check_same("number of rows", "delta-num-records", "numRecords", records, num_records)
            if not any(schema.equals(good, check_metadata=True) for good in self._good):
                check_field_ids(schema, self.schema)
                self._good[:] = [schema]  # the next file mostly has the same
            for column, value in zip(self.schema.partition_columns, partition, strict=True):
                self._check_partition(file, column, value)
        return records, self.schema.carries_row_ids and finds_row_ids(schema, self.schema.row_id_column)

    def _check_partition(self, file: pq.ParquetFile, column: DeltaColumn, value: Any) -> None:
        """Check that the file's own partition column agrees with the log.

        Delta reads the log; most readers of Iceberg read the file. An empty text is NULL in Delta.
        """
        name = _name_in_file(file.schema_arrow, column)
        if name is None:
            return
        with _damage_named():
            stored = pc.unique(file.read([name]).column(name))
        named = pa.schema([pa.field(name, stored.type, metadata={FIELD_ID_KEY: str(column.field_id)})])
        field = it.NestedField(column.field_id, name, column.type, required=False)
        values = project(pa.table([stored], schema=named), FileColumns(named), field)
        found = [stored_value(v, str(column.type)) for v in values]
        other = [v for v in found if repr(v) != repr(value) and not (value is None and v in ("", b""))]
        if other:
            message = "data file has a partition column with another value than the Delta log"
            expected = f"{value!r}; UPDATE in Delta rewrites the file, also if it sets {name} to itself"
            raise UnsupportedError(message, "delta-partition-value", name, repr(other[0]), expected)


def check_field_ids(file: pa.Schema, schema: DeltaSchema) -> None:
    """Check the field ids of a data file. If a file has any, Iceberg finds columns only by them.

    Raises UnsupportedError for a file in which Iceberg would find other columns than Delta does, or not all of them.
    """
    by_name = dict(_paths(file, by_id=False))
    if all(field_id is None for field_id in by_name.values()):
        _check_case(file.names, schema)
        return
    for field in file:
        _check_nested(field, (field.name,), schema.names)
    in_file = dict(_paths(file, by_id=True)) if schema.found_by_id else by_name
    wanted = dict(_wanted_ids(schema.schema.as_struct(), schema.names, by_id=schema.found_by_id))
    paths = {field_id: path for path, field_id in wanted.items()}
    message = "data file has field ids of another schema: Iceberg would read other columns"
    for path, field_id in in_file.items():
        if field_id in paths and paths[field_id] != path:
            raise UnsupportedError(message, "delta-field-ids", _shown(path), field_id, paths[field_id])
    for path, field_id in wanted.items():
        unnamed = path[-1] in _NESTED and in_file.get(path) is None
        if not unnamed and in_file.get(path, field_id) != field_id:
            raise UnsupportedError(message, "delta-field-ids", _shown(path), in_file[path], field_id)


def _check_nested(field: pa.Field, path: _Path, names: Mapping[int, str]) -> None:
    """Refuse a list or map that Iceberg Java fails at, in a file in which other fields have ids.

    Java reads what has an id, or has a part inside that has one. So elements and map values without id must be structs,
    whose columns have ids, or hold such structs. Keys need no id. It fails at others in every query of the column.
    `names` are the table's columns by id; what else is in a file is not read.
    """
    parts, field_id = _parts(field), field_id_of(field)
    if path[-1] not in _NESTED and field_id not in names:
        return
    value = parts[-1] if parts and parts[-1].name in _NESTED else None
    if value is not None and all(field_id_of(part) is None for part in parts) and not _has_ids(value):
        message = "Iceberg Java does not read a list or map whose values have no id in a file with ids for columns"
        expected = "files written with delta.enableIcebergCompatV2, which has ids for them"
        raise UnsupportedError(message, "delta-nested-ids", _shown((*path, value.name)), expected=expected)
    for part in parts:
        _check_nested(part, (*path, part.name), names)


def _has_ids(field: pa.Field) -> bool:
    """Return whether a field holds one that Iceberg Java finds by id."""
    parts = _parts(field)
    inner = parts[-1:] if parts and parts[0].name in _NESTED else parts
    return any(field_id_of(part) is not None for part in parts) or any(_has_ids(part) for part in inner)


def _parts(field: pa.Field) -> list[pa.Field]:
    """List the fields of a struct, the element of a list, or the key and value of a map."""
    kind = field.type
    if pa.types.is_struct(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [kind.key_field.with_name("<key>"), kind.item_field.with_name("<value>")]
    return [kind.value_field.with_name("<element>")] if pa.types.is_nested(kind) else []


def _check_case(names: Sequence[str], schema: DeltaSchema) -> None:
    """Refuse a column in another case. Spark finds it; delta-kernel and Iceberg's readers do not."""
    by_case = {name.lower(): name for name in names}
    for name in sorted({schema.names[field.field_id] for field in schema.schema.fields}.difference(names)):
        if name.lower() in by_case:
            message = "data file has the column in another case, and readers do not agree whether it is the same"
            raise UnsupportedError(message, "delta-column-case", name, by_case[name.lower()], name)


def _paths(fields: Iterable[pa.Field], path: _Path = (), *, by_id: bool) -> Iterator[tuple[_Path, int | None]]:
    """Yield all fields of a file with their ids.

    With `by_id`, fields without id are left out, and paths are made of ids.
    """
    for field in fields:
        field_id = field_id_of(field)
        if by_id and field_id is None and field.name not in _NESTED:
            continue
        here = (*path, f"#{field_id}" if by_id and field.name not in _NESTED else field.name)
        yield here, field_id
        yield from _paths(_parts(field), here, by_id=by_id)


def _wanted_ids(
    kind: it.IcebergType, names: Mapping[int, str], path: _Path = (), *, by_id: bool
) -> Iterator[tuple[_Path, int]]:
    """Yield the ids of the table's columns, by paths as `_paths` makes them."""
    parts: list[tuple[str, int, it.IcebergType]] = []
    if isinstance(kind, it.StructType):
        parts = [(f"#{f.field_id}" if by_id else names[f.field_id], f.field_id, f.field_type) for f in kind.fields]
    elif isinstance(kind, it.ListType):
        parts = [("<element>", kind.element_id, kind.element_type)]
    elif isinstance(kind, it.MapType):
        parts = [("<key>", kind.key_id, kind.key_type), ("<value>", kind.value_id, kind.value_type)]
    for name, field_id, inner in parts:
        yield (*path, name), field_id
        yield from _wanted_ids(inner, names, (*path, name), by_id=by_id)


def _name_in_file(file: pa.Schema, column: DeltaColumn) -> str | None:
    """Return the file's column that Iceberg's readers take for this one, or None if the file has none."""
    ids = {field_id_of(field): field.name for field in file}
    if column.field_id in ids:
        return str(ids[column.field_id])
    name = column.physical_path[-1]
    return name if name in file.names and set(ids) == {None} else None


def _shown(path: _Path) -> str:
    return ".".join(part.strip("<>") for part in path)


@contextmanager
def _damage_named() -> Iterator[None]:
    """Raise FormatError where the Parquet library finds damage."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as e:
        if is_storage_failure(e):
            raise
        raise FormatError("damaged Parquet file", kind="parquet", found=f"{type(e).__name__}: {e}") from e


def _check_same(what: str, kind: str, field: str, found: int, expected: int) -> None:
    if found != expected:
        raise FormatError(f"data file has another {what} than the Delta log", kind, field, found, expected)
