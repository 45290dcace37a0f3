"""Check what is in data files: footers, and at the deepest level every row.

Spec: "Data File Fields", "Column Projection", "Partitioning", "Row Lineage".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deletekit.deletes.projection import FieldPaths, FileColumns, project, with_field_ids
from deletekit.errors import FormatError
from deletekit.formats.content_file import DataFile, ManifestEntry
from deletekit.formats.tabular import TabularFile, open_tabular
from deletekit.maintenance.verify.column_stats import FileStats
from deletekit.maintenance.verify.report import Finding, Level, error, in_file
from deletekit.maintenance.verify.unreadable import DAMAGE, from_error, not_checked
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import partition_values, schema_of_spec
from deletekit.table.properties import NAME_MAPPING
from deletekit.table.types import LAST_UPDATED_FIELD, ROW_ID_FIELD, partition_types, storage_of, stored_value


def check_data_file(
    io: FileIO, metadata: TableMetadata, level: Level, entry: ManifestEntry
) -> tuple[list[Finding], int]:
    """Return findings, and how many rows were read. An Avro file has no footer: it is opened for its rows only."""
    file = entry.data_file
    assert isinstance(file, DataFile)
    if file.key_metadata is not None:
        return [not_checked("files", file.file_path)], 0
    if level != "data" and file.file_format == "AVRO":
        return [], 0
    findings: list[Finding] = []
    rows = 0
    try:
        with io.open(file.file_path) as source:
            opened = open_tabular(source, file.file_format)
            if file.file_format == "PARQUET":
                findings += _row_groups(source, file)
            count = sum(g.num_rows for g in opened.row_groups)
            if count != file.record_count:
                message = "file has other rows"
                findings.append(error("record-count", message, "record_count", file.record_count, count))
            try:
                schema = with_field_ids(opened.schema, metadata.properties.get(NAME_MAPPING))
            except FormatError as e:
                findings.append(error("field-ids", e.message, e.field or "schema", e.found, e.expected))
            else:
                if level == "data":
                    findings += _Rows(file, metadata, opened, schema).check()
                    rows = count
    except DAMAGE as e:
        findings.append(from_error(e, file.file_path, "file_path"))
    return list(in_file(findings, file.file_path)), rows


def _row_groups(source: Any, file: DataFile) -> Iterator[Finding]:
    """Check split offsets. A row group begins at its first column's dictionary if it has one, else at its data."""
    footer = pq.read_metadata(source)
    starts = set()
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        if group.num_columns:
            column = group.column(0)
            dictionary = column.dictionary_page_offset
            starts.add(column.data_page_offset if dictionary is None else min(dictionary, column.data_page_offset))
    wrong = sorted(set(file.split_offsets or ()) - starts)[:20]
    if starts and wrong:
        yield error("split-offsets", "no row group begins there", "split_offsets", wrong, sorted(starts)[:20])


class _Rows:
    """Check every row of one data file."""

    def __init__(self, file: DataFile, metadata: TableMetadata, opened: TabularFile, schema: pa.Schema) -> None:
        self._file = file
        self._metadata = metadata
        self._opened = opened
        self._schema = schema
        self._columns = FileColumns(schema)
        self._stats = FileStats(file, metadata)
        self._found: dict[str, Finding] = {}

    def check(self) -> Iterator[Finding]:
        partition = _Partition(self._file, self._metadata, self._columns)
        for group in self._opened.row_groups:
            table = self._opened.read(group, self._opened.schema.names)
            self._stats.add(table, self._schema)
            self._lineage(table)
            if "partition" not in self._found:
                stranger = partition.stranger(table)
                self._found |= {"partition": stranger} if stranger else {}
        yield from self._stats.check()
        yield from self._required()
        yield from self._found.values()

    def _required(self) -> Iterator[Finding]:
        """Check that no required column holds nulls: one that holds nulls may not become required."""
        for field in self._metadata.schema.fields:
            column = self._stats.columns.get(field.field_id)
            if field.required and column is not None and column.nulls:
                yield error("required-null", "required column holds nulls", field.name, column.nulls, 0)

    def _lineage(self, table: pa.Table) -> None:
        """Check that stored row ids are below next-row-id, and stored sequence numbers not above the last (v3)."""
        limits = (
            (ROW_ID_FIELD, self._metadata.next_row_id - 1),
            (LAST_UPDATED_FIELD, self._metadata.last_sequence_number),
        )
        for field, most in limits:
            if field.field_id not in self._columns.by_id or not self._metadata.version.has_row_lineage:
                continue
            column = project(table, self._columns, field)
            extremes = pc.min_max(column).as_py()
            wrong = [v for v in extremes.values() if v is not None and not 0 <= v <= most]
            if wrong:
                finding = error("row-id", "value was never given out", field.name, wrong[0], f"0 .. {most}")
                self._found.setdefault(field.name, finding)


class _Partition:
    """The partition that all rows of a file must belong to, by each field whose column the file holds."""

    def __init__(self, file: DataFile, metadata: TableMetadata, columns: FileColumns) -> None:
        self._columns = columns
        self._fields: list[tuple[Any, Any, str, Any]] = []
        spec = metadata.specs.get(file.spec_id)
        if spec is None or len(spec.fields) != len(file.partition):
            return
        self._paths = FieldPaths(metadata)
        types = partition_types(spec, schema_of_spec(metadata, spec))
        for field, (_, _, kind), value in zip(spec.fields, types, file.partition, strict=True):
            if str(field.transform) == "void" or str(field.transform).startswith("unknown"):
                continue
            top, _ = self._paths.path(field.source_id)
            if top.field_id in columns.by_id:
                self._fields.append((field, self._paths.field(field.source_id), kind, value))

    def stranger(self, table: pa.Table) -> Finding | None:
        """Find a row of another partition, for the first field that has one."""
        for field, source, kind, value in self._fields:
            top, path = self._paths.path(field.source_id)
            column = project(table, self._columns, top.model_copy(update={"required": False}))
            column = pc.struct_field(column, list(path)) if path else column
            flat = pa.concat_arrays([storage_of(c) for c in column.chunks]) if column.num_chunks else None
            if flat is None or not len(flat):
                continue
            result = partition_values(field, source.field_type, flat)
            for scalar in pc.unique(result):
                found = stored_value(scalar, kind)
                if found != value and not (found != found and value != value):
                    message = "row belongs to another partition"
                    return error("partition-value", message, field.name, found, repr(value))
        return None
