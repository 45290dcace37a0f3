"""Check what is in delete files: Puffin footers and deletion vectors, position deletes, equality deletes.

A file is compared with its manifest entries. Whether its deletes fit the live data files is judged elsewhere.
Spec: "Delete Formats", Puffin "deletion-vector-v1 blob type".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.projection import with_field_ids
from deletekit.deletes.which_apply import referenced_path
from deletekit.errors import DeletekitError, FormatError
from deletekit.formats.content_file import DeleteFile, FileContent
from deletekit.formats.delete_file import read_position_deletes
from deletekit.formats.deletion_vector import PositionBitmap, decode_blob
from deletekit.formats.metrics import field_id_of
from deletekit.formats.puffin import (
    DELETION_VECTOR_V1,
    FileMetadata,
)
from deletekit.formats.reserved_fields import FILE_PATH_ID, POS_ID
from deletekit.formats.tabular import open_tabular, read_all
from deletekit.maintenance.verify.column_stats import FileStats
from deletekit.maintenance.verify.report import Finding, error, in_file
from deletekit.maintenance.verify.unreadable import DAMAGE, from_error, not_checked
from deletekit.table.file_io import FileIO, read_puffin_footer
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import NAME_MAPPING


@dataclass
class DeleteContent:
    """What was found in one file.

    Attributes
    ----------
    last_positions: for each delete, by identity, the highest position in each data file that it names.
    rows: how many rows or positions were read.
    """

    findings: list[Finding] = field(default_factory=list)
    last_positions: dict[tuple[Any, ...], dict[str, int]] = field(default_factory=dict)
    rows: int = 0


def check_delete_file(io: FileIO, metadata: TableMetadata, files: Sequence[DeleteFile]) -> DeleteContent:
    """Check the deletes of one path: all deletion vectors of a Puffin file, or one delete file."""
    content, path = DeleteContent(), files[0].file_path
    if files[0].key_metadata is not None:
        return DeleteContent([not_checked("files", path)])
    if files[0].is_deletion_vector:
        _check_puffin(io, files, content)
        return content
    try:
        with io.open(path) as source:
            content.findings += in_file(_check_rows(source, io, metadata, files[0], content), path)
    except DAMAGE as e:
        return DeleteContent([from_error(e, path, "file_path")])
    return content


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


def _check_puffin(io: FileIO, files: Sequence[DeleteFile], content: DeleteContent) -> None:
    path, intact = files[0].file_path, True
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
            content.findings.append(replace(finding, message=message))
            continue
        count = len(positions)
        content.rows += count
        content.last_positions[file.identity] = _last({file.referenced_data_file or "": positions})
        if count != file.record_count:
            intact = False
            message = "deletion vector has another cardinality"
            content.findings.append(error("record-count", message, "record_count", file.record_count, count, file=path))
        if footer is not None:
            content.findings += in_file(_blob(file, footer, count), path)
    if unreadable is not None:
        content.findings.append(replace(unreadable, repair="puffin-footer" if intact else None))


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
    for name, found, expected in (
        ("length", blob.length, file.content_size_in_bytes),
        ("type", blob.type, DELETION_VECTOR_V1),
        ("compression-codec", blob.compression_codec, None),
        ("referenced-data-file", blob.properties.get("referenced-data-file"), file.referenced_data_file),
        ("cardinality", blob.properties.get("cardinality"), str(cardinality)),
    ):
        if found != expected:
            message = f"footer and manifest differ about the blob at {offset}"
            yield error(kind, message, name, found or "nothing", expected or "nothing")


# --- position and equality deletes ------------------------------------------------------------------------------------


def _check_rows(
    source: Any, io: FileIO, metadata: TableMetadata, file: DeleteFile, content: DeleteContent
) -> Iterator[Finding]:
    opened = open_tabular(source, file.file_format)
    table = read_all(opened)
    content.rows = len(table)
    if len(table) != file.record_count:
        yield error("record-count", "file has other rows", "record_count", file.record_count, len(table))
    wanted, own = file.kind.removesuffix("-delete"), opened.metadata.get("delete-type")
    if own is not None and own != wanted:
        yield error("delete-type", "file says it is of another kind", "delete-type", own, wanted)
    if file.content == FileContent.EQUALITY_DELETES:
        yield from _equality(io, metadata, file, table)
        return
    yield from _position_columns(file, table, metadata)
    by_path = read_position_deletes(opened)
    content.last_positions[file.identity] = _last(by_path)
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
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    numbers = positions.to_numpy()
    same = codes[1:] == codes[:-1]
    falling = np.flatnonzero(same & (numbers[1:] < numbers[:-1]))
    names = encoded.dictionary.to_pylist()
    wrong = [int(i) for i in falling[:1]]
    for i in np.flatnonzero(~same):
        before, after = names[codes[i]], names[codes[i + 1]]
        if before > after and before.encode("utf-16-be") > after.encode("utf-16-be"):
            wrong.append(int(i))
            break
    return min(wrong) + 1 if wrong else None


def _equality(io: FileIO, metadata: TableMetadata, file: DeleteFile, table: pa.Table) -> Iterator[Finding]:
    try:
        schema = with_field_ids(table.schema, metadata.properties.get(NAME_MAPPING))
    except FormatError as e:
        yield error("field-ids", e.message, e.field or "schema", e.found, e.expected)
        return
    ids = tuple(sorted(file.equality_ids or ()))
    try:
        DeleteLoader(io, metadata).keys_of(ids, [file])
    except DeletekitError as e:
        kind = {"equality-ids": "equality-column", "column-type": "column-type"}.get(e.kind)
        if kind is None and e.kind != "field-id":  # that one is reported of the manifest entry
            yield from_error(e, file.file_path, "equality_ids")
        elif kind is not None:
            yield error(kind, e.message, e.field or "equality_ids", e.found, e.expected)
    stats = FileStats(file, metadata)
    stats.add(table, schema)
    yield from stats.check()


def _last(by_path: Mapping[str, PositionBitmap]) -> dict[str, int]:
    """Return the highest position of each path."""
    last = {}
    for path, positions in by_path.items():
        if positions.by_key:
            high = max(positions.by_key)
            last[path] = (high << 32) | positions.by_key[high].max()
    return last
