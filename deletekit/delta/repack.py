"""Copy deletion vectors from files without a Puffin footer into Puffin files, which every reader opens.

The vectors keep their bytes, and no row changes. Each vector is checked before it is copied.
Spec: Puffin; Iceberg, "Deletion Vectors": offset and size "must exactly match" those of the Puffin footer.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.merge_previous_deletes import EncodedVector
from deletekit.delta.convert_vectors import VECTOR_ID, file_names, read_checked_blob, referred_id, write_vectors
from deletekit.delta.synced_table import DELETE_DIRECTORY, DELTA_TABLE_ID, DELTA_VERSION, delete_directory, watermark_of
from deletekit.errors import FormatError, InvalidInputError
from deletekit.formats.content_file import DeleteFile, ManifestEntry
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.puffin import DELETION_VECTOR_V1
from deletekit.notebook_html import result
from deletekit.rows.write_context import WriteContext
from deletekit.table.file_io import FileIO, read_puffin_footer
from deletekit.table.metadata import MAIN
from deletekit.table.own_places import DELTA_LOCATION
from deletekit.table.table import Table


@result
class RepackedVectors:
    """What `repack` did.

    Attributes
    ----------
    vectors: how many deletion vectors were copied.
    files: the files that held them. They stay, because they do not belong to the table.
    commit: the commit; None if every vector was in a Puffin file already.
    """

    vectors: int = 0
    files: tuple[str, ...] = ()
    commit: Commit | None = None


def repack(table: Table, *, ref: str = MAIN, commit_properties: Mapping[str, str] | None = None) -> RepackedVectors:
    """Copy the deletion vectors that are not in Puffin files into Puffin files, in one commit.

    Such tables are made by `sync_delta(..., deletion_vectors="reference")`, by Delta's UniForm (IcebergCompatV3), and
    by early writers of DuckDB and DuckLake. Iceberg Java reads a vector by its offset and needs no footer; pyiceberg
    and polars need one.

    Raises InvalidInputError for a table below format version 3; FormatError for a damaged vector, NotFoundError for a
    missing one; otherwise as every commit.
    """
    check_request(table.refresh(), ref, commit_properties)
    if not table.metadata.version.has_deletion_vectors:
        message, number = "the table has no deletion vectors", table.format_version
        raise InvalidInputError(message, kind="format-version", field="format-version", found=number, expected=3)

    def build(base: Base) -> RowDelta:
        outside = list(_outside_puffin(base, base.table.io))
        return RowDelta(
            added_delete_files=tuple(_copied(base.write, base.table.io, outside)),
            removed_delete_files=tuple(outside),
            operation="replace" if outside else None,
            summary=_watermark(base),
        )

    done = commit(plan_change(table, build, ref=ref, properties=commit_properties))
    return RepackedVectors(
        vectors=len(done.removed_delete_files),
        files=tuple(sorted({f.file_path for f in done.removed_delete_files})),
        commit=done if done.snapshot_id is not None else None,
    )


def _watermark(base: Base) -> dict[str, str]:
    """Return the summary entries that keep the base's Delta version, so that the next sync continues from it."""
    found = watermark_of(base.metadata, base.snapshot)
    if found is None or found.foreign is not None or found.rewritten:
        return {}
    out = {DELTA_VERSION: str(found.version), DELTA_TABLE_ID: found.table_id or ""}
    return out if found.location is None else {**out, DELTA_LOCATION: found.location}


def _outside_puffin(base: Base, io: FileIO) -> Iterator[ManifestEntry]:
    """Yield live vectors that the footer of a Puffin file does not list."""
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
    """Return offset and length of each vector that a Puffin file lists; nothing for a file that is not Puffin."""
    try:
        return frozenset(
            (b.offset, b.length) for b in read_puffin_footer(io, path).blobs if b.type == DELETION_VECTOR_V1
        )
    except FormatError:
        return frozenset()


def _copied(write: WriteContext, io: FileIO, outside: Iterable[ManifestEntry]) -> Iterator[DeleteFile]:
    directory = delete_directory(write.metadata.properties.get(DELETE_DIRECTORY, "data"), write.metadata.location)
    files = [e.data_file for e in outside if isinstance(e.data_file, DeleteFile)]
    vectors = (
        EncodedVector(
            data_file=vector.referenced_data_file or "",
            spec_id=vector.spec_id,
            partition=vector.partition,
            blob=read_checked_blob(io, vector),
            cardinality=vector.record_count,
            properties={VECTOR_ID: referred_id(vector.file_path, vector.content_offset or 0)},
        )
        for vector in sorted(files, key=lambda v: (v.file_path, v.content_offset or 0))
    )
    return write_vectors(write, file_names(write, directory, "repack"), vectors, one_each=False)
