"""What is in delete files: Puffin footers and deletion vectors, position deletes, equality deletes.

Law: a function of an open file and what its manifest entries say; whether it fits the live data is judged elsewhere.
Spec: "Delete Formats", Puffin "deletion-vector-v1 blob type".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.field_path import FieldPaths
from deletekit.deletes.projection import with_field_ids
from deletekit.deletes.scope import referenced_path
from deletekit.errors import DeletekitError, FormatError
from deletekit.formats.content_file import DeleteFile, FileContent
from deletekit.formats.delete_file import FILE_PATH_ID, POS_ID, read_position_deletes
from deletekit.formats.deletion_vector import PositionBitmap, decode_blob
from deletekit.formats.metrics import field_id_of
from deletekit.formats.puffin import (
    DELETION_VECTOR_V1,
    FOOTER_TAIL_BYTES,
    MAGIC,
    FileMetadata,
    footer_size,
    read_footer,
)
from deletekit.formats.tabular import open_tabular, read_all
from deletekit.maintenance.verify.column_stats import FileStats
from deletekit.maintenance.verify.damage import DAMAGE, from_error
from deletekit.maintenance.verify.report import Finding, error, warning
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import TableMetadata

__all__ = ["DeleteContent", "check_delete_file", "puffin_footer", "vector_of"]

NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True)
class DeleteContent:
    """What was found in one file.

    Attributes
    ----------
    last_positions: for each delete, by identity, the highest position of each data file that it names.
    rows: how many rows or positions were read.
    """

    findings: list[Finding] = field(default_factory=list)
    last_positions: dict[tuple[Any, ...], dict[str, int]] = field(default_factory=dict)
    rows: int = 0


def check_delete_file(io: FileIO, metadata: TableMetadata, files: Sequence[DeleteFile]) -> DeleteContent:
    """Check the deletes of one path: all deletion vectors of a Puffin file, or one delete file."""
    if files[0].key_metadata is not None:
        path = files[0].file_path
        return DeleteContent(
            [warning("not-checked", "encrypted files cannot be read", file=path, field="key_metadata")]
        )
    if files[0].is_deletion_vector:
        return _puffin(io, files)
    content = DeleteContent()
    try:
        with io.open(files[0].file_path) as source:
            return _rows(source, io, metadata, files[0])
    except DAMAGE as e:
        content.findings.append(from_error(e, files[0].file_path, "file_path"))
    return content


# --- Puffin -----------------------------------------------------------------------------------------------------------


def puffin_footer(io: FileIO, path: str) -> FileMetadata:
    """The footer of a Puffin file whose first bytes are Puffin's. Raises FormatError."""
    size = io.size(path)
    if size < len(MAGIC) or io.read(path, 0, len(MAGIC)) != MAGIC:
        raise FormatError(
            "file does not begin as Puffin", kind="puffin-magic", field="magic at the start", expected=MAGIC.hex()
        )
    need = footer_size(io.read(path, max(size - FOOTER_TAIL_BYTES, 0)), size)
    return read_footer(io.read(path, size - need), size)


def vector_of(io: FileIO, file: DeleteFile) -> PositionBitmap:
    """A deletion vector, by the offset and size of its manifest entry. Raises FormatError, NotFoundError."""
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


def _puffin(io: FileIO, files: Sequence[DeleteFile]) -> DeleteContent:
    content, path = DeleteContent(), files[0].file_path
    footer: FileMetadata | None = None
    unreadable: Finding | None = None
    try:
        footer = puffin_footer(io, path)
    except DAMAGE as e:
        unreadable = _unreadable_footer(e, path)
    intact = True
    rows = 0
    for file in files:
        try:
            positions = vector_of(io, file)
        except DAMAGE as e:
            intact = False
            content.findings.append(_broken_vector(e, file))
            continue
        rows += len(positions)
        content.last_positions[file.identity] = _last({file.referenced_data_file or "": positions})
        if len(positions) != file.record_count:
            intact = False
            content.findings.append(
                _wrong(file, "record-count", "deletion vector has another cardinality", "record_count",
                       file.record_count, len(positions))
            )  # fmt: skip
        if footer is not None:
            content.findings.extend(_blob(file, footer, len(positions)))
    if unreadable is not None:
        repair = "puffin-footer" if intact else None
        content.findings.append(
            error(unreadable.kind, unreadable.message, file=path, field=unreadable.field, found=unreadable.found,
                  expected=unreadable.expected, repair=repair)
        )  # fmt: skip
    return DeleteContent(content.findings, content.last_positions, rows)


def _unreadable_footer(e: Exception, path: str) -> Finding:
    finding = from_error(e, path, "footer")
    kind = "puffin-footer" if finding.kind == "unreadable-file" else finding.kind
    return error(kind, finding.message, file=path, field=finding.field, found=finding.found, expected=finding.expected)


def _broken_vector(e: Exception, file: DeleteFile) -> Finding:
    finding = from_error(e, file.file_path, "content_offset")
    kind = "deletion-vector" if finding.kind == "unreadable-file" else finding.kind
    message = f"{finding.message} (at {file.content_offset}, of {file.referenced_data_file})"
    return error(
        kind, message, file=file.file_path, field=finding.field, found=finding.found, expected=finding.expected
    )


def _blob(file: DeleteFile, footer: FileMetadata, cardinality: int) -> Iterator[Finding]:
    """The footer's description of a vector; no reader needs it, and it must not say something else."""
    blob = next((b for b in footer.blobs if b.offset == file.content_offset), None)
    if blob is None:
        offsets = [b.offset for b in footer.blobs]
        yield _wrong(
            file, "puffin-blob", "footer has no blob at this offset", "content_offset", file.content_offset, offsets
        )
        return
    for name, found, expected in (
        ("length", blob.length, file.content_size_in_bytes),
        ("type", blob.type, DELETION_VECTOR_V1),
        ("compression-codec", blob.compression_codec, None),
        ("referenced-data-file", blob.properties.get("referenced-data-file"), file.referenced_data_file),
        ("cardinality", blob.properties.get("cardinality"), str(cardinality)),
    ):
        if found != expected:
            message = f"footer and manifest differ about the blob at {blob.offset}"
            yield _wrong(file, "puffin-blob", message, name, found or "nothing", expected or "nothing")


# --- position and equality deletes ------------------------------------------------------------------------------------


def _rows(source: Any, io: FileIO, metadata: TableMetadata, file: DeleteFile) -> DeleteContent:
    opened = open_tabular(source, file.file_format)
    table = read_all(opened)
    content = DeleteContent(rows=len(table))
    found = content.findings
    if len(table) != file.record_count:
        found.append(_wrong(file, "record-count", "file has other rows", "record_count", file.record_count, len(table)))
    wanted = file.kind.removesuffix("-delete")
    own = opened.metadata.get("delete-type")
    if own is not None and own != wanted:
        found.append(_wrong(file, "delete-type", "file says it is of another kind", "delete-type", own, wanted))
    if file.content == FileContent.EQUALITY_DELETES:
        found += _equality(io, metadata, file, table)
        return content
    found += _position_columns(file, table, metadata)
    by_path = read_position_deletes(opened)
    content.last_positions[file.identity] = _last(by_path)
    scope = referenced_path(file)
    strangers = sorted(set(by_path) - {scope})
    if scope is not None and strangers:
        found.append(
            _wrong(file, "delete-scope", "delete of one data file names another", "file_path", strangers[0], scope)
        )
    return content


def _position_columns(file: DeleteFile, table: pa.Table, metadata: TableMetadata) -> Iterator[Finding]:
    ids = {field_id_of(f): f.name for f in table.schema}
    for field_id, name in ((FILE_PATH_ID, "file_path"), (POS_ID, "pos")):
        if field_id not in ids:
            yield _wrong(
                file, "field-ids", "column has not the reserved field id", name, sorted(map(str, ids)), field_id
            )
    paths = table.column(ids.get(FILE_PATH_ID, "file_path"))
    positions = table.column(ids.get(POS_ID, "pos"))
    at = _first_out_of_order(paths, positions)
    if at is not None:
        yield _wrong(
            file, "delete-order", "position deletes are not sorted", "pos", f"row {at}", "sorted by file_path and pos"
        )
    stats = FileStats(file, metadata)
    stats.add(table, table.schema)
    yield from stats.check()


def _first_out_of_order(paths: pa.ChunkedArray, positions: pa.ChunkedArray) -> int | None:
    """The first row that belongs before the one above it; text may be in the order of UTF-8 or of UTF-16."""
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
        yield _wrong(file, "field-ids", e.message, e.field or "schema", e.found, e.expected)
        return
    ids = tuple(sorted(file.equality_ids or ()))
    try:
        DeleteLoader(io, metadata, FieldPaths(metadata)).keys_of(ids, [file])
    except DeletekitError as e:
        kind = {"equality-ids": "equality-column", "column-type": "column-type"}.get(e.kind)
        if kind is None and e.kind != "field-id":  # that one is reported of the manifest entry
            yield from_error(e, file.file_path, "equality_ids")
        elif kind is not None:
            yield _wrong(file, kind, e.message, e.field or "equality_ids", e.found, e.expected)
    stats = FileStats(file, metadata)
    stats.add(table, schema)
    yield from stats.check()


def _last(by_path: dict[str, PositionBitmap]) -> dict[str, int]:
    """The highest position of each path."""
    last = {}
    for path, positions in by_path.items():
        halves = positions.by_key
        if halves:
            high = max(halves)
            last[path] = (high << 32) | halves[high].max()
    return last


def _wrong(file: DeleteFile, kind: str, message: str, field: str, found: Any, expected: Any) -> Finding:
    return error(kind, message, file=file.file_path, field=field, found=found, expected=expected)
