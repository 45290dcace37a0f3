"""Check what is in files. Data files: footers, and at the deepest level every row. Delete files: everything.

Delete files are Puffin footers with deletion vectors, position deletes and equality deletes. A file is compared with
its manifest entries. Whether deletes fit the live data files is judged elsewhere.
Spec: "Data File Fields", "Column Projection", "Partitioning", "Row Lineage", "Delete Formats", Puffin
"deletion-vector-v1 blob type".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.partitioning import PartitionField
from pyiceberg.transforms import IdentityTransform

from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.which_apply import position_bound, referenced_path
from deletekit.errors import DeletekitError, FormatError
from deletekit.formats.content_file import ContentFile, DeleteFile, FileContent
from deletekit.formats.delete_file import read_position_deletes
from deletekit.formats.deletion_vector import PositionBitmap, decode_blob
from deletekit.formats.metrics import field_id_of
from deletekit.formats.puffin import DELETION_VECTOR_V1, FileMetadata
from deletekit.formats.reserved_fields import FILE_PATH_ID, POS_ID
from deletekit.formats.tabular import TabularFile, open_tabular, read_all
from deletekit.maintenance.verify.column_stats import FileStats
from deletekit.maintenance.verify.report import DAMAGE, Finding, differs, error, from_error, in_file, not_checked
from deletekit.rows.keys import KeySet
from deletekit.rows.projection import FieldPaths, FileColumns, project, with_field_ids
from deletekit.table.file_io import FileIO, read_puffin_footer
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import schema_of_spec
from deletekit.table.properties import NAME_MAPPING
from deletekit.table.transforms import partition_values
from deletekit.table.types import LAST_UPDATED_FIELD, ROW_ID_FIELD, partition_types, stored_value


@dataclass
class CheckedFile:
    """What was found in one file.

    Attributes
    ----------
    last_positions: for each delete, by identity, the highest position in each data file that it names.
    rows: how many rows or positions were read.
    """

    findings: list[Finding] = field(default_factory=list)
    last_positions: dict[tuple[Any, ...], dict[str, int]] = field(default_factory=dict)
    rows: int = 0


def check_size(io: FileIO, file: ContentFile) -> list[Finding]:
    """Check that a file exists, and its size."""
    path, stated = file.file_path, file.file_size_in_bytes
    try:
        found = io.size(path)
    except DAMAGE as e:
        return [from_error(e, path, "file_path")]
    return list(differs("file-size", "file has another size", "file_size_in_bytes", stated, found, file=path))


def check_data_file(io: FileIO, metadata: TableMetadata, every_row: bool, file: ContentFile) -> CheckedFile:
    """Check a data file. An Avro file has no footer: it is opened for its rows only."""
    if not every_row and file.file_format == "AVRO" and file.key_metadata is None:
        return CheckedFile()
    return _opened(io, file, partial(_data_file, metadata, every_row, file))


def check_delete_file(io: FileIO, metadata: TableMetadata, files: Sequence[DeleteFile]) -> CheckedFile:
    """Check the deletes of one path: all deletion vectors of a Puffin file, or one delete file."""
    if files[0].is_deletion_vector and files[0].key_metadata is None:
        return _puffin_file(io, files)
    return _opened(io, files[0], partial(_delete_file, io, metadata, files[0]))


def _opened(io: FileIO, file: ContentFile, check: Callable[[Any, CheckedFile], Iterator[Finding]]) -> CheckedFile:
    """Open a file and check what is in it."""
    checked, path = CheckedFile(), file.file_path
    if file.key_metadata is not None:
        return CheckedFile([not_checked("files", path)])
    try:
        with io.open(path) as source:
            checked.findings += in_file(check(source, checked), path)
    except DAMAGE as e:
        checked.findings.append(from_error(e, path, "file_path"))
    return checked


def _with_ids(schema: pa.Schema, metadata: TableMetadata) -> pa.Schema | Finding:
    """Return the file schema with field ids, or what is wrong with them."""
    try:
        return with_field_ids(schema, metadata.properties.get(NAME_MAPPING))
    except FormatError as e:
        return error("field-ids", e.message, e.field or "schema", e.found, e.expected)


# --- data files -------------------------------------------------------------------------------------------------------


def _data_file(
    metadata: TableMetadata, every_row: bool, file: ContentFile, source: Any, checked: CheckedFile
) -> Iterator[Finding]:
    opened = open_tabular(source, file.file_format)
    if file.file_format == "PARQUET":
        yield from _row_groups(source, file)
    count = sum(g.num_rows for g in opened.row_groups)
    yield from differs("record-count", "file has other rows", "record_count", file.record_count, count)
    schema = _with_ids(opened.schema, metadata)
    if isinstance(schema, Finding):
        yield schema
    elif every_row:
        yield from _Rows(file, metadata, opened, schema).check()
        checked.rows = count


def _row_groups(source: Any, file: ContentFile) -> Iterator[Finding]:
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

    def __init__(self, file: ContentFile, metadata: TableMetadata, opened: TabularFile, schema: pa.Schema) -> None:
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
        for wanted in self._metadata.schema.fields:
            column = stats.columns.get(wanted.field_id)
            if wanted.required and column is not None and column.nulls:
                yield error("required-null", "required column holds nulls", wanted.name, column.nulls, 0)
        yield from once.values()

    def _lineage(self, table: pa.Table) -> Iterator[Finding]:
        """Check that stored row ids are below next-row-id, and stored sequence numbers not above the last (v3)."""
        limits = (
            (ROW_ID_FIELD, self._metadata.next_row_id - 1),
            (LAST_UPDATED_FIELD, self._metadata.last_sequence_number),
        )
        for lineage, most in limits if self._metadata.version.has_row_lineage else ():
            if lineage.field_id in self._columns.by_id:
                extremes = pc.min_max(project(table, self._columns, lineage)).as_py()
                wrong = [v for v in extremes.values() if v is not None and not 0 <= v <= most]
                if wrong:
                    yield error("row-id", "value was never given out", lineage.name, wrong[0], f"0 .. {most}")

    def _partition(self) -> Iterator[tuple[PartitionField, str, Any]]:
        """Yield (field, type, value) of the partition that all rows belong to, if the file holds the source column."""
        spec, values = self._metadata.specs.get(self._file.spec_id), self._file.partition
        if spec is None or len(spec.fields) != len(values):
            return
        types = partition_types(spec, schema_of_spec(self._metadata, spec))
        for part, (_, _, kind), value in zip(spec.fields, types, values, strict=True):
            if not str(part.transform).startswith(("void", "unknown")):
                top, _ = self._paths.path(part.source_id)
                if top.field_id in self._columns.by_id:
                    yield part, kind, value

    def _stranger(self, table: pa.Table, part: PartitionField, kind: str, value: Any) -> Finding | None:
        """Find a row of another partition."""
        top, path = self._paths.path(part.source_id)
        column = project(table, self._columns, top.model_copy(update={"required": False}))
        column = pc.struct_field(column, list(path)) if path else column
        if not len(column):
            return None
        flat = pa.concat_arrays([c.storage if isinstance(c, pa.ExtensionArray) else c for c in column.chunks])
        result = partition_values(part.transform, flat)
        for scalar in pc.unique(result):
            found = stored_value(scalar, kind)
            if value is None and found in ("", b"") and isinstance(part.transform, IdentityTransform):
                continue  # as Delta writes NULL: readers take the partition's value
            if found != value and not (found != found and value != value):
                message = "row belongs to another partition"
                return error("partition-value", message, part.name, found, repr(value))
        return None


# --- Puffin -----------------------------------------------------------------------------------------------------------


def vector_of(io: FileIO, file: DeleteFile) -> PositionBitmap:
    """Read a deletion vector by the offset and size of its manifest entry. Raises FormatError, NotFoundError.

    Its cardinality is not compared with the entry's: the caller reports both.
    """
    assert file.content_offset is not None
    assert file.content_size_in_bytes is not None
    size = io.size(file.file_path)
    if file.content_offset + file.content_size_in_bytes > size:
        raise FormatError(
            "deletion vector lies outside its file",
            kind="deletion-vector-offset",
            field="content_offset",
            found=f"{file.content_offset}+{file.content_size_in_bytes}",
            expected=f"within {size} bytes",
        )
    return decode_blob(io.read(file.file_path, file.content_offset, file.content_size_in_bytes))


def _puffin_file(io: FileIO, files: Sequence[DeleteFile]) -> CheckedFile:
    checked, path, intact = CheckedFile(), files[0].file_path, True
    footer: FileMetadata | None = None
    unreadable: Finding | None = None
    try:
        footer = read_puffin_footer(io, path)
    except DAMAGE as e:
        unreadable = _of_kind("puffin-footer", from_error(e, path, "footer"))
    for file in files:
        try:
            positions = vector_of(io, file)
        except DAMAGE as e:
            intact = False
            finding = _of_kind("deletion-vector", from_error(e, path, "content_offset"))
            message = f"{finding.message} (at {file.content_offset}, of {file.referenced_data_file})"
            checked.findings.append(replace(finding, message=message))
            continue
        count = len(positions)
        checked.rows += count
        checked.last_positions[file.identity] = _last({file.referenced_data_file or "": positions})
        message = "deletion vector has another cardinality"
        checked.findings += differs("record-count", message, "record_count", file.record_count, count, file=path)
        bound, last = position_bound(file), positions.highest
        if bound is not None and bound < last:
            found = error("bounds", "bound leaves a position out", "upper_bounds.pos", bound, f">= {last}")
            checked.findings.append(replace(found, file=path))
        intact = intact and count == file.record_count
        if footer is not None:
            checked.findings += in_file(_blob(file, footer, count), path)
    if unreadable is not None:
        checked.findings.append(replace(unreadable, repair="puffin-footer" if intact else None))
    return checked


def _of_kind(kind: str, finding: Finding) -> Finding:
    """Give a finding about damage a more exact kind. Everything found in a Puffin file is an error."""
    return replace(finding, severity="error", kind=kind if finding.kind == "unreadable-file" else finding.kind)


def _blob(file: DeleteFile, footer: FileMetadata, cardinality: int) -> Iterator[Finding]:
    """Compare the footer's description of a vector. No reader needs it, but it must not contradict the manifest."""
    kind, offset = "puffin-blob", file.content_offset
    blob = next((b for b in footer.blobs if b.offset == offset), None)
    if blob is None:
        offsets = [b.offset for b in footer.blobs]
        yield error(kind, "footer has no blob at this offset", "content_offset", offset, offsets)
        return
    message = f"footer and manifest differ about the blob at {offset}"
    for name, found, expected in (
        ("length", blob.length, file.content_size_in_bytes),
        ("type", blob.type, DELETION_VECTOR_V1),
        ("compression-codec", blob.compression_codec, None),
        ("referenced-data-file", blob.properties.get("referenced-data-file"), file.referenced_data_file),
        ("cardinality", blob.properties.get("cardinality"), str(cardinality)),
    ):
        if found != expected:
            yield error(kind, message, name, found or "nothing", expected or "nothing")


# --- position and equality deletes ------------------------------------------------------------------------------------


def _delete_file(
    io: FileIO, metadata: TableMetadata, file: DeleteFile, source: Any, checked: CheckedFile
) -> Iterator[Finding]:
    opened = open_tabular(source, file.file_format)
    table = read_all(opened)
    checked.rows = len(table)
    yield from differs("record-count", "file has other rows", "record_count", file.record_count, len(table))
    wanted = file.kind.removesuffix("-delete")
    own = opened.metadata.get("delete-type", wanted)
    yield from differs("delete-type", "file says it is of another kind", "delete-type", own, wanted)
    if file.content == FileContent.EQUALITY_DELETES:
        yield from _equality(io, metadata, file, table)
        return
    yield from _position_columns(file, table, metadata)
    by_path = read_position_deletes(opened)
    checked.last_positions[file.identity] = _last(by_path)
    only = referenced_path(file)
    strangers = sorted(set(by_path) - {only})
    if only is not None and strangers:
        yield error("delete-scope", "delete of one data file names another", "file_path", strangers[0], only)


def _position_columns(file: DeleteFile, table: pa.Table, metadata: TableMetadata) -> Iterator[Finding]:
    ids = {field_id_of(f): f.name for f in table.schema}
    for field_id, name in ((FILE_PATH_ID, "file_path"), (POS_ID, "pos")):
        if field_id not in ids:
            yield error("field-ids", "column has not the reserved field id", name, sorted(map(str, ids)), field_id)
    paths = table.column(ids.get(FILE_PATH_ID, "file_path"))
    positions = table.column(ids.get(POS_ID, "pos"))
    row = _first_out_of_order(paths, positions)
    if row is not None:
        expected = "sorted by file_path and pos"
        yield error("delete-order", "position deletes are not sorted", "pos", f"row {row}", expected)
    stats = FileStats(file, metadata)
    stats.add(table, table.schema)
    yield from stats.check()


def _first_out_of_order(paths: pa.ChunkedArray, positions: pa.ChunkedArray) -> int | None:
    """Find the first row that belongs before the one above it. Text may be in the order of UTF-8 or of UTF-16."""
    if len(paths) < 2 or paths.null_count or positions.null_count:
        return None
    encoded = paths.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    codes, names = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()
    numbers = positions.to_numpy()
    wrong = np.ones(len(codes) - 1, np.bool_)
    for encoding in ("utf-8", "utf-16-be"):
        places = {name: i for i, name in enumerate(sorted(names, key=lambda n: n.encode(encoding)))}
        order = np.array([places[name] for name in names])[codes]
        wrong &= (order[1:] < order[:-1]) | ((order[1:] == order[:-1]) & (numbers[1:] < numbers[:-1]))
    return int(np.argmax(wrong)) + 1 if wrong.any() else None


def _equality(io: FileIO, metadata: TableMetadata, file: DeleteFile, table: pa.Table) -> Iterator[Finding]:
    schema = _with_ids(table.schema, metadata)
    if isinstance(schema, Finding):
        yield schema
        return
    ids = tuple(sorted(file.equality_ids or ()))
    try:
        KeySet(DeleteLoader(io, metadata).key_columns(ids, file))
    except DeletekitError as e:
        kinds = {"equality-ids": "equality-column", "column-type": "column-type"}
        if e.kind in kinds:
            yield error(kinds[e.kind], e.message, e.field or "equality_ids", e.found, e.expected)
        elif e.kind != "field-id":  # that one is reported of the manifest entry
            yield from_error(e, file.file_path, "equality_ids")
    stats = FileStats(file, metadata)
    stats.add(table, schema)
    yield from stats.check()


def _last(by_path: Mapping[str, PositionBitmap]) -> dict[str, int]:
    """Return the highest position of each path."""
    return {path: positions.highest for path, positions in by_path.items() if positions}
