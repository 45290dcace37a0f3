"""REPACK: deletion vectors that lie in files without a Puffin footer, copied into ones that every reader opens.

Law: the same vectors, byte for byte, in one snapshot; no row changes. What is read of a vector is checked first.
Spec: Puffin; Iceberg, "Deletion Vectors": offset and size "must exactly match" those of the Puffin footer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.replace import EncodedVector, write_encoded_vectors
from deletekit.deletes.write_context import WriteContext
from deletekit.delta.target import (
    DELETE_DIRECTORY,
    DELTA_LOCATION,
    DELTA_TABLE_ID,
    DELTA_VERSION,
    watermark_of,
)
from deletekit.delta.vectors import VECTOR_ID, referred_id
from deletekit.errors import DeletekitError, FormatError, InvalidInputError
from deletekit.formats.content_file import DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import decode_blob
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.puffin import DELETION_VECTOR_V1
from deletekit.maintenance.verify.delete_content import puffin_footer
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.properties import value_of
from deletekit.table.table import Table

__all__ = ["RepackedVectors", "repack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepackedVectors:
    """What `repack` did.

    Attributes
    ----------
    vectors: how many deletion vectors were copied.
    files: the files that they were in, which stay: they are not the table's own.
    commit: the commit; None when every vector was in a Puffin file already.
    """

    vectors: int = 0
    files: tuple[str, ...] = ()
    commit: Commit | None = None


def repack(table: Table, *, ref: str = MAIN, commit_properties: Mapping[str, str] | None = None) -> RepackedVectors:
    """Copy the deletion vectors that lie in other than Puffin files into Puffin files, in one commit.

    Such tables are made by `sync_delta(..., deletion_vectors="reference")`, by Delta's UniForm (IcebergCompatV3), and
    by early writers of DuckDB and DuckLake. Iceberg Java reads a vector by its offset and asks for no footer; pyiceberg
    and polars do ask.

    Raises InvalidInputError for a table below format version 3; FormatError for a vector that is damaged,
    NotFoundError for one that is gone; else as every commit.
    """
    check_request(table.refresh(), ref, commit_properties)
    if not table.metadata.version.has_deletion_vectors:
        raise InvalidInputError(
            "the table has no deletion vectors",
            kind="format-version",
            field="format-version",
            found=table.format_version,
            expected=3,
        )

    def build(base: Base) -> RowDelta:
        strays = list(_strays(base, base.table.io))
        return RowDelta(
            added_delete_files=tuple(_copied(base.write, base.table.io, strays)),
            removed_delete_files=tuple(strays),
            operation="replace" if strays else None,
        )

    watermark = _watermark(table.metadata, ref)
    done = commit(plan_change(table, build, ref=ref, properties={**(commit_properties or {}), **watermark}))
    return RepackedVectors(
        vectors=len(done.removed_delete_files),
        files=tuple(sorted({f.file_path for f in done.removed_delete_files})),
        commit=done if done.snapshot_id is not None else None,
    )


def _watermark(metadata: TableMetadata, ref: str) -> dict[str, str]:
    """So that a sync goes on from here: the table is at the Delta version that it was at."""
    found = watermark_of(metadata, metadata.snapshot_of_ref(ref))
    if found is None or found.foreign is not None or found.rewritten:
        return {}
    out = {DELTA_VERSION: str(found.version), DELTA_TABLE_ID: found.table_id or ""}
    return out | {k: metadata.properties[k] for k in (DELTA_LOCATION,) if k in metadata.properties}


def _strays(base: Base, io: FileIO) -> Iterator[ManifestEntry]:
    """Live vectors that are not where the footer of a Puffin file says."""
    footers: dict[str, frozenset[tuple[int, int]]] = {}
    if base.snapshot is None:
        return
    for columns in base.reader.live_columns(base.snapshot, ManifestContent.DELETES):
        for entry in columns.entries(np.flatnonzero(columns.is_live & columns.is_vector)):
            file = entry.data_file
            assert isinstance(file, DeleteFile)
            if file.file_path not in footers:
                footers[file.file_path] = _blobs(io, file.file_path)
            if (file.content_offset, file.content_size_in_bytes) not in footers[file.file_path]:
                yield entry


def _blobs(io: FileIO, path: str) -> frozenset[tuple[int, int]]:
    """Where a Puffin file says that its vectors are; nowhere, for a file that is none."""
    try:
        return frozenset((b.offset, b.length) for b in puffin_footer(io, path).blobs if b.type == DELETION_VECTOR_V1)
    except FormatError:
        return frozenset()


def _copied(write: WriteContext, io: FileIO, strays: Iterable[ManifestEntry]) -> Iterator[DeleteFile]:
    target = value_of(write.metadata.properties, "write.delete.target-file-size-bytes")
    held: list[tuple[DeleteFile, bytes]] = []
    number = 0
    ordered = sorted((e.data_file for e in strays), key=lambda f: (f.file_path, getattr(f, "content_offset", 0)))
    for file in ordered:
        assert isinstance(file, DeleteFile)
        held.append((file, _blob(io, file)))
        if sum(len(blob) for _, blob in held) >= target:
            number += 1
            yield from _puffin(write, held, number)
            held = []
    if held:
        yield from _puffin(write, held, number + 1)


def _blob(io: FileIO, file: DeleteFile) -> bytes:
    try:
        blob = io.read(file.file_path, file.content_offset or 0, file.content_size_in_bytes)
        decode_blob(blob, cardinality=file.record_count)
    except DeletekitError as e:
        raise e.in_file(file.file_path) from e
    return blob


def _puffin(write: WriteContext, held: list[tuple[DeleteFile, bytes]], number: int) -> list[DeleteFile]:
    directory = write.metadata.properties.get(DELETE_DIRECTORY, f"{write.metadata.location}/data").rstrip("/")
    path = f"{directory}/repack-{write.operation_id}-{number:05d}-deletes.puffin"
    vectors = [
        EncodedVector(
            data_file=file.referenced_data_file or "",
            spec_id=file.spec_id,
            partition=file.partition,
            blob=blob,
            cardinality=file.record_count,
            properties={VECTOR_ID: referred_id(file.file_path, file.content_offset or 0)},
        )
        for file, blob in held
    ]
    return write_encoded_vectors(write, path, vectors)
