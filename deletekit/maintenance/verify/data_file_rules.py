"""Check what is in data files: footers, and at the deepest level every row.

Spec: "Data File Fields", "Column Projection", "Partitioning", "Row Lineage".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.partitioning import PartitionField

from deletekit.deletes.data_file_writer import stored_scalar
from deletekit.deletes.field_path import FieldPaths
from deletekit.deletes.projection import FileColumns, project, with_field_ids
from deletekit.errors import FormatError
from deletekit.formats.content_file import DataFile, ManifestEntry
from deletekit.formats.tabular import TabularFile, open_tabular
from deletekit.maintenance.verify.column_stats import FileStats
from deletekit.maintenance.verify.report import (
    DAMAGE,
    Finding,
    Level,
    differs,
    error,
    from_error,
    in_file,
    not_checked,
)
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import partition_values, schema_of_spec
from deletekit.table.properties import NAME_MAPPING
from deletekit.table.reserved_fields import LAST_UPDATED_FIELD, ROW_ID_FIELD
from deletekit.table.types import partition_types


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
            message = "file has other rows"
            findings += differs("record-count", message, "record_count", file.record_count, count)
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
        self._paths = FieldPaths(metadata)

    def check(self) -> Iterator[Finding]:
        stats, once = FileStats(self._file, self._metadata), dict[str | None, Finding]()
        partition = list(self._partition())
        for group in self._opened.row_groups:
            table = self._opened.read(group, self._opened.schema.names)
            stats.add(table, self._schema)
            for found in self._lineage(table):
                once.setdefault(found.field, found)
            if not any(f.kind == "partition-value" for f in once.values()):
                strangers = (self._stranger(table, *each) for each in partition)
                stranger = next((f for f in strangers if f is not None), None)
                once |= {"": stranger} if stranger else {}
        yield from stats.check()
        # A column that holds nulls may not become required.
        for field in self._metadata.schema.fields:
            column = stats.columns.get(field.field_id)
            if field.required and column is not None and column.nulls:
                yield error("required-null", "required column holds nulls", field.name, column.nulls, 0)
        yield from once.values()

    def _lineage(self, table: pa.Table) -> Iterator[Finding]:
        """Check that stored row ids are below next-row-id, and stored sequence numbers not above the last (v3)."""
        limits = (
            (ROW_ID_FIELD, self._metadata.next_row_id - 1),
            (LAST_UPDATED_FIELD, self._metadata.last_sequence_number),
        )
        for field, most in limits if self._metadata.version.has_row_lineage else ():
            if field.field_id in self._columns.by_id:
                extremes = pc.min_max(project(table, self._columns, field)).as_py()
                wrong = [v for v in extremes.values() if v is not None and not 0 <= v <= most]
                if wrong:
                    yield error("row-id", "value was never given out", field.name, wrong[0], f"0 .. {most}")

    def _partition(self) -> Iterator[tuple[PartitionField, str, Any]]:
        """Yield (field, type, value) of the partition that all rows belong to, if the file holds the source column."""
        spec, values = self._metadata.specs.get(self._file.spec_id), self._file.partition
        if spec is None or len(spec.fields) != len(values):
            return
        types = partition_types(spec, schema_of_spec(self._metadata, spec))
        for field, (_, _, kind), value in zip(spec.fields, types, values, strict=True):
            if not str(field.transform).startswith(("void", "unknown")):
                top, _ = self._paths.path(field.source_id)
                if top.field_id in self._columns.by_id:
                    yield field, kind, value

    def _stranger(self, table: pa.Table, field: PartitionField, kind: str, value: Any) -> Finding | None:
        """Find a row of another partition."""
        top, path = self._paths.path(field.source_id)
        column = project(table, self._columns, top.model_copy(update={"required": False}))
        column = pc.struct_field(column, list(path)) if path else column
        if not len(column):
            return None
        flat = pa.concat_arrays([c.storage if isinstance(c, pa.ExtensionArray) else c for c in column.chunks])
        result = partition_values(field, self._paths.field(field.source_id).field_type, flat)
        for scalar in pc.unique(result):
            found = stored_scalar(scalar, kind)
            if found != value and not (found != found and value != value):
                message = "row belongs to another partition"
                return error("partition-value", message, field.name, found, repr(value))
        return None
