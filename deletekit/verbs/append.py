"""CREATE TABLE and INSERT: create a table, append rows to one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import polars as pl
import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids, index_by_id

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.swap import Commit, commit_metadata, create_with
from deletekit.engines.current import engine_or_default
from deletekit.errors import InvalidInputError
from deletekit.log import tell
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align, as_table
from deletekit.rows.row_source import RowSource
from deletekit.rows.sort_order import sort_order_fields
from deletekit.rows.write_context import check_parquet_only
from deletekit.table.catalog import Catalog
from deletekit.table.column_names import check_name
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.identifier import Identifier, check_new, to_identifier
from deletekit.table.locations import normalised_properties
from deletekit.table.metadata import MAIN, TableMetadata, new_metadata
from deletekit.table.table import Table, load_table
from deletekit.table.types import arrow_schema, schema_from_arrow
from deletekit.verbs.shared.foreign_rows import foreign_rows
from deletekit.verbs.shared.guards import Guards, Way, commit_guarded
from deletekit.verbs.shared.partition_fields import partition_spec, sort_fields
from deletekit.verbs.shared.replacement import check_location, replacing_updates

DEFAULT_FORMAT_VERSION = 2


def create_table(
    catalog: Catalog,
    identifier: str | Sequence[str],
    schema: Any,
    *,
    rows: bool = False,
    format_version: int = DEFAULT_FORMAT_VERSION,
    partition_by: str | Sequence[str] = (),
    sort_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
    replace: bool = False,
) -> Table:
    """Create an empty table, or with `rows=True` one with its first rows; its namespace is created when missing.

    Parameters
    ----------
    schema: a schema of pyiceberg, pyarrow or polars; or rows as `append` takes them (a pandas, polars or Arrow frame,
        the path of a file), whose columns the table gets. It gets new field ids, as in Java.
    rows: whether the table gets the rows of `schema` too; else it is empty. The table and its rows are made in one
        step; with `replace`, the rows come in a second commit.
    format_version: 1, 2 or 3.
    partition_by: partition fields, as `column`, `bucket(16, column)`, `truncate(4, column)`, `year(column)`, `month`,
        `day`, `hour` or `void`; nested columns by their dotted name.
    sort_by: the order of the rows of each file: fields as those, each with `desc` and `nulls first` or `nulls last`.
    properties: table properties, such as `write.delete.mode`.
    location: where the table's files go; default under the catalog's warehouse.
    replace: a table of this name becomes this one, empty, in one step. It keeps its snapshots, location, properties
        that are not given, and a higher format version.

    Raises InvalidInputError when the table exists and is not to be replaced, or what is given cannot be;
    UnsupportedError for a column type deletekit cannot hold, or a format version that the catalog cannot.

    Examples
    --------
    >>> events = dk.create_table(catalog, "demo.events", users.metadata.schema, partition_by="day(timestamp)")
    >>> dk.scan(dk.create_table(catalog, "demo.pets", [{"id": 1, "name": "Rex"}], rows=True)).count()
    1
    """
    key = to_identifier(identifier)
    check_new(key)
    iceberg, pieces = _schema_and_rows(schema, rows, format_version)
    spec = partition_spec(iceberg, partition_by)
    catalog.check_writable(format_version)
    if replace and catalog.table_exists(key):
        make = partial(replacing_updates, schema=iceberg, format_version=format_version)
        make = partial(make, partition_by=partition_by, sort_by=sort_by)
        return _replaced(load_table(catalog, key), location, make, properties or {}, pieces)
    metadata = new_metadata(
        iceberg,
        spec,
        location=location or catalog.default_location(key),
        format_version=format_version,
        properties=properties,
        sort_fields=sort_order_fields(sort_fields(iceberg, sort_by)),
    )
    table = _filled(catalog, key, metadata, pieces) if rows else Table(key, catalog.create(key, metadata), catalog)
    tell("create", table=table.name, format_version=format_version, location=table.location)
    return table


def append(
    table: Table,
    rows: Any,
    *,
    ref: str = MAIN,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    readable_by: str | Sequence[str] | None = None,
) -> Commit:
    """Insert rows in one commit.

    Parameters
    ----------
    rows: pyarrow Table or RecordBatch, a list of dicts, or anything that speaks Arrow (`__arrow_c_stream__` or
        `__arrow_c_array__`: polars, pandas 3, DuckDB, a scan); a RecordBatchReader, a pyarrow Dataset or Scanner, a
        polars LazyFrame; a generator or other iterable of any of these, or of dicts; the path of a local file, a
        pattern as `rows/*.parquet`, or an address as `s3://bucket/rows.parquet`, read through the table's storage
        (Parquet, Arrow, CSV with a header, JSON lines), or a list of these. Columns are matched by name; a
        missing optional one takes its write default, else null. Or a Spark DataFrame, whose rows Spark's executors
        write, by `write.distribution-mode` (`none`; `hash`, the default of partitioned tables; `range`, that of sorted
        ones); texts are taken for a uuid column, which Spark has not.
    ref: branch to commit to.
    dry_run: as in `delete`; a stream is read to its end.
    readable_by: engines that must read the table right after it, as in `delete`.

    Rows that come as a stream are written as they come: about `write.parquet.row-group-size-bytes` of them are held,
    however many there are. Files end near `write.target-file-size-bytes` on disk.

    Raises InvalidInputError, naming the column, for rows that do not fit the schema: before anything is written if they
    are in memory, else in the batch that does not fit. Also for a stream that must be read a second time, because the
    schema or a property of the table changed while it was written. No file of a failed append stays, and what a source
    raises is passed on.
    Returns the commit; its `snapshot_id` is None when there were no rows.

    Examples
    --------
    >>> dk.append(users, dk.datasets.users())
    Commit(append, snapshot_id=..., sequence_number=2, added_data_files=1)
    """
    frame, source = foreign_rows(rows), RowSource(rows, table.schema, io=table.io)

    def plan(base: Base, _: Way) -> RowDelta:
        metadata = base.metadata
        check_parquet_only(metadata, "write.format.default")
        if frame is not None:
            files = frame.append(base)
        else:
            return _appended(source.pieces(), base)
        return RowDelta(added_data_files=tuple(files), matched_rows=0, read_set=ReadSet())

    guards = Guards(ref, commit_properties, dry_run, readable_by=readable_by)
    return commit_guarded(table, plan, guards, engine_or_default(None))


def _replaced(
    table: Table, location: str | None, make: Any, properties: Mapping[str, str], pieces: Iterator[Any]
) -> Table:
    check_location(table.metadata, location)
    commit_metadata(table, partial(make, properties=normalised_properties(properties)), unchanged_refs=[MAIN])
    append(table, pieces)
    return table


def _filled(catalog: Catalog, key: Identifier, metadata: TableMetadata, pieces: Iterator[Any]) -> Table:
    io = PyIcebergIO(catalog.pyiceberg.properties, metadata.location)
    return create_with(catalog, key, metadata, io, partial(_appended, pieces))[0]


def _appended(pieces: Iterable[Any], base: Base) -> RowDelta:
    files = write_data_files(base.write, (align(piece, base.metadata.schema) for piece in pieces))
    return RowDelta(added_data_files=tuple(files), matched_rows=0, read_set=ReadSet())


def _schema_and_rows(given: Any, with_rows: bool, format_version: int) -> tuple[Schema, Iterator[Any]]:
    """Return an Iceberg schema with fresh ids, and the rows to write."""
    if isinstance(given, pl.Schema):
        given = given.to_frame()
    if isinstance(given, Schema | pa.Schema):
        if with_rows:
            raise InvalidInputError("a schema has no rows", "schema", "rows", True, "a frame or a file")
        return schema_of(given), iter(())
    source = RowSource(given, Schema(), "schema")
    pieces = (as_table(piece, Schema(), "schema") for piece in source.pieces())
    first = next(pieces, pa.table({}))
    if not first.column_names:
        raise InvalidInputError("there are no columns", "schema", "schema", None, "a schema, or rows with columns")
    fields = schema_of(pa.schema([_column(f, format_version) for f in first.schema]))
    return fields, chain([first], pieces) if with_rows else iter(())


def _column(field: pa.Field, format_version: int) -> pa.Field:
    """Return a column of a frame: its zone becomes UTC, and nanoseconds microseconds where a version has none."""
    if not pa.types.is_timestamp(kind := field.type):
        return field
    return field.with_type(pa.timestamp("us" if format_version < 3 else kind.unit, kind.tz and "UTC"))


def schema_of(schema: Schema | pa.Schema) -> Schema:
    """Return an Iceberg schema with fresh ids, from one of pyiceberg or pyarrow. Raises as `create_table`."""
    made = _with_fresh_ids(schema) if isinstance(schema, Schema) else schema_from_arrow(schema)
    for field in index_by_id(made).values():
        check_name(field.name, "schema")
    arrow_schema(made)  # refuses, by name, a type that could never be read back
    return made


def _with_fresh_ids(schema: Schema) -> Schema:
    fresh = assign_fresh_schema_ids(schema)
    with_defaults = [  # pyiceberg's function forgets them
        new.model_copy(update={"initial_default": old.initial_default, "write_default": old.write_default})
        for new, old in zip(fresh.fields, schema.fields, strict=True)
    ]
    return Schema(*with_defaults, schema_id=0, identifier_field_ids=fresh.identifier_field_ids)
