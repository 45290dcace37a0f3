"""CREATE TABLE and INSERT: create an empty table, append rows to one."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids, index_by_id

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import Commit, commit, commit_metadata
from deletekit.errors import InvalidInputError
from deletekit.log import tell
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.rows.row_source import RowSource
from deletekit.rows.sort_order import sort_order_fields
from deletekit.rows.write_context import check_parquet_only
from deletekit.table.catalog import Catalog
from deletekit.table.column_names import check_name
from deletekit.table.identifier import check_new, to_identifier
from deletekit.table.locations import normalised_properties
from deletekit.table.metadata import MAIN, new_metadata
from deletekit.table.table import Table, load_table
from deletekit.table.types import arrow_schema, schema_from_arrow
from deletekit.text import count
from deletekit.verbs.shared.foreign_rows import foreign_rows
from deletekit.verbs.shared.partition_fields import partition_spec, sort_fields
from deletekit.verbs.shared.replacement import check_location, replacing_updates

DEFAULT_FORMAT_VERSION = 2


def create_table(
    catalog: Catalog,
    identifier: str | Sequence[str],
    schema: Schema | pa.Schema | pa.Table,
    *,
    format_version: int = DEFAULT_FORMAT_VERSION,
    partition_by: str | Sequence[str] = (),
    sort_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
    replace: bool = False,
) -> Table:
    """Create an empty table; its namespace is created when missing.

    Parameters
    ----------
    schema: a pyiceberg Schema or a pyarrow one, or a pyarrow Table without rows; it gets new field ids, as in Java.
    format_version: 1, 2 or 3.
    partition_by: partition fields, as `column`, `bucket(16, column)`, `truncate(4, column)`, `year(column)`, `month`,
        `day`, `hour` or `void`; nested columns by their dotted name.
    sort_by: the order of the rows of each file: fields as those, each with `desc` and `nulls first` or `nulls last`.
    properties: table properties, such as `write.delete.mode`.
    location: where the table's files go; default under the catalog's warehouse.
    replace: a table of this name becomes this one, empty, in one step. It keeps its snapshots, location, properties
        that are not given, and a higher format version.

    Raises InvalidInputError when the table exists and is not to be replaced, or the schema, partitioning, sort order or
    format version cannot be; UnsupportedError for a column type deletekit cannot hold, or a catalog that cannot hold
    the format version.

    Examples
    --------
    >>> events = dk.create_table(catalog, "demo.events", users.metadata.schema, partition_by="day(timestamp)")
    >>> dk.scan(events).count()
    0
    """
    key = to_identifier(identifier)
    check_new(key)
    iceberg = _named(schema_of(schema))
    arrow_schema(iceberg)  # refuses, by name, a type that could never be read back
    spec = partition_spec(iceberg, partition_by)
    catalog.check_writable(format_version)
    if replace and catalog.table_exists(key):
        table = load_table(catalog, key)
        check_location(table.metadata, location)
        given = normalised_properties(properties or {})
        make = partial(replacing_updates, schema=iceberg, format_version=format_version, properties=given)
        commit_metadata(table, partial(make, partition_by=partition_by, sort_by=sort_by), unchanged_refs=[MAIN])
        return table
    metadata = new_metadata(
        iceberg,
        spec,
        location=location or catalog.default_location(key),
        format_version=format_version,
        properties=properties,
        sort_fields=sort_order_fields(sort_fields(iceberg, sort_by)),
    )
    table = Table(key, catalog.create(key, metadata), catalog)
    tell("create", table=table.name, format_version=format_version, location=table.location)
    return table


def append(
    table: Table,
    rows: Any,
    *,
    ref: str = MAIN,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Commit:
    """Insert rows in one commit.

    Parameters
    ----------
    rows: pyarrow Table or RecordBatch, a list of dicts, or anything that speaks Arrow (`__arrow_c_stream__` or
        `__arrow_c_array__`: polars, pandas 3, DuckDB, a scan); a RecordBatchReader, a pyarrow Dataset or Scanner, a
        polars LazyFrame; a generator or other iterable of any of these, or of dicts. Columns are matched by name; a
        missing optional one takes its write default, else null. Or a Spark DataFrame, whose rows Spark's executors
        write, by `write.distribution-mode` (`none`; `hash`, the default of partitioned tables; `range`, that of sorted
        ones); texts are taken for a uuid column, which Spark has not.
    ref: branch to commit to.
    dry_run: as in `delete`; a stream is read to its end.

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
    frame, source = foreign_rows(rows), RowSource(rows)

    def plan(base: Base) -> RowDelta:
        metadata = base.metadata
        check_parquet_only(metadata, "write.format.default")
        if frame is not None:
            files = frame.append(base)
        else:
            files = write_data_files(base.write, (align(piece, metadata.schema) for piece in source.pieces()))
        return RowDelta(added_data_files=tuple(files), matched_rows=0, read_set=ReadSet())

    return commit(plan_change(table, plan, ref=ref, properties=commit_properties, dry_run=dry_run))


def _named(schema: Schema) -> Schema:
    for field in index_by_id(schema).values():
        check_name(field.name, "schema")
    return schema


def schema_of(schema: Schema | pa.Schema | pa.Table) -> Schema:
    """Return an Iceberg schema with fresh ids, from one of pyiceberg or pyarrow."""
    if isinstance(schema, Schema):
        fresh = assign_fresh_schema_ids(schema)
        with_defaults = [  # pyiceberg's function forgets them
            new.model_copy(update={"initial_default": old.initial_default, "write_default": old.write_default})
            for new, old in zip(fresh.fields, schema.fields, strict=True)
        ]
        return Schema(*with_defaults, schema_id=0, identifier_field_ids=fresh.identifier_field_ids)
    if isinstance(schema, pa.Table):
        if len(schema):
            message, expected = "the new table is empty: these rows would not be in it", "their schema, and then append"
            found = count(len(schema), "row")
            raise InvalidInputError(message, "schema", "schema", found, expected)
        schema = schema.schema
    return schema_from_arrow(schema)
