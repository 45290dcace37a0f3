"""Delete files of each mode, from positions or keys to `DeleteFile` values.

Law: writes files, commits nothing. A delete takes the spec and partition of the data file it is about, never the
table's current ones. Nothing is written for no deletes.
Spec: "Delete Formats"; Java PositionDeleteWriter, EqualityDeleteWriter, BaseDVFileWriter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from deletekit import version
from deletekit.deletes.write_context import WriteContext, granularity_of
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent
from deletekit.formats.delete_file import EncodedDeletes, encode_equality_deletes, encode_position_deletes
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.formats.metrics import to_optional
from deletekit.formats.puffin import DELETION_VECTOR_V1, Blob, write_puffin
from deletekit.table.types import schema_to_json

__all__ = [
    "EncodedVector",
    "FilePositions",
    "write_deletion_vectors",
    "write_encoded_vectors",
    "write_equality_deletes",
    "write_position_deletes",
]

POS_FIELD_ID = 2147483645
"""Reserved id of `_pos`; Java puts it in a deletion vector blob's `fields`."""


@dataclass(frozen=True, slots=True)
class FilePositions:
    """Positions to delete in one data file, and the deleted rows (with field ids) when they are to be stored."""

    data_file: DataFile
    positions: PositionBitmap
    rows: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedVector:
    """The blob of a deletion vector, and the data file that it is about; `properties` are extra ones of the blob."""

    data_file: str
    spec_id: int
    partition: tuple[Any, ...]
    blob: bytes
    cardinality: int
    properties: Mapping[str, str] = field(default_factory=dict)

    def entry(self, path: str, *, file_size: int, offset: int, size: int) -> DeleteFile:
        """Return the vector's delete file, for a blob at an offset of a file."""
        return DeleteFile(
            content=FileContent.POSITION_DELETES,
            spec_id=self.spec_id,
            partition=self.partition,
            file_path=path,
            file_format="PUFFIN",
            record_count=self.cardinality,
            file_size_in_bytes=file_size,
            referenced_data_file=self.data_file,
            content_offset=offset,
            content_size_in_bytes=size,
        )


def write_deletion_vectors(
    context: WriteContext, deletes: Sequence[FilePositions], granularity: str | None = None
) -> list[DeleteFile]:
    """Deletion vectors, one for each data file that has positions, in Puffin files; no file for none.

    Parameters
    ----------
    deletes: `positions` must already contain those of the data file's previous vector and position deletes.
    granularity: `"file"`, a Puffin file for each vector: Iceberg Java's incremental expiry deletes a Puffin file
        as soon as one of its vectors is replaced, whatever else it holds. `"partition"`, one for all. None takes
        `write.delete.granularity`.

    Raises InvalidInputError for another granularity.
    """
    chosen = sorted((d for d in deletes if d.positions), key=lambda d: d.data_file.file_path)
    if granularity_of(context.metadata, granularity) == "file":
        return [file for delete in chosen for file in _puffin_file(context, [delete])]
    return _puffin_file(context, chosen) if chosen else []


def write_encoded_vectors(context: WriteContext, path: str, vectors: Sequence[EncodedVector]) -> list[DeleteFile]:
    """Write deletion vectors that are encoded already to one Puffin file, and return an entry for each."""
    blobs = [
        Blob(
            type=DELETION_VECTOR_V1,
            data=v.blob,
            fields=(POS_FIELD_ID,),
            properties={"referenced-data-file": v.data_file, "cardinality": str(v.cardinality), **v.properties},
        )
        for v in vectors
    ]
    data, metadata = write_puffin(blobs, {"created-by": f"deletekit {version.__version__}"})
    context.write(path, data)
    return [
        v.entry(path, file_size=len(data), offset=blob.offset, size=blob.length)
        for v, blob in zip(vectors, metadata.blobs, strict=True)
    ]


def write_position_deletes(
    context: WriteContext, deletes: Sequence[FilePositions], granularity: str | None = None
) -> list[DeleteFile]:
    """Position delete files (v2), one per data file or one per partition.

    Parameters
    ----------
    granularity: `"file"` or `"partition"`; None takes `write.delete.granularity`.

    Raises InvalidInputError for another granularity, or when only some of the rows are given.
    """
    by_file = granularity_of(context.metadata, granularity) == "file"
    groups: dict[Any, list[FilePositions]] = {}
    for delete in deletes:
        if delete.positions:
            file = delete.data_file
            key = file.file_path if by_file else (file.spec_id, file.partition)
            groups.setdefault(key, []).append(delete)
    return [_position_delete_file(context, group) for group in groups.values()]


def write_equality_deletes(
    context: WriteContext,
    keys: pa.Table,
    equality_ids: Sequence[int],
    spec: PartitionSpec,
    partition: tuple[Any, ...],
    key_schema: Schema,
) -> list[DeleteFile]:
    """An equality delete file for one partition of `spec` (or, with an unpartitioned spec, for the whole table).

    `keys` has the columns of `key_schema`, with field ids. No file for no keys.
    """
    if not len(keys):
        return []
    encoded = encode_equality_deletes(
        keys,
        equality_ids,
        schema_json=schema_to_json(key_schema),
        mode_of=context.metrics_mode,
        options=context.delete_parquet,
    )
    path = context.data_path(spec, partition, "-eq-deletes.parquet")
    return [
        _delete_file(
            context, encoded, path, FileContent.EQUALITY_DELETES, spec.spec_id, partition,
            equality_ids=tuple(equality_ids), sort_order_id=0,
        )
    ]  # fmt: skip


def _puffin_file(context: WriteContext, chosen: Sequence[FilePositions]) -> list[DeleteFile]:
    spec = context.metadata.specs[chosen[0].data_file.spec_id]
    shared = len({(d.data_file.spec_id, d.data_file.partition) for d in chosen}) == 1
    path = context.data_path(
        spec if shared else PartitionSpec(), chosen[0].data_file.partition if shared else (), "-deletes.puffin"
    )
    vectors = [
        EncodedVector(
            data_file=d.data_file.file_path,
            spec_id=d.data_file.spec_id,
            partition=d.data_file.partition,
            blob=encode_blob(d.positions),
            cardinality=len(d.positions),
        )
        for d in chosen
    ]
    return write_encoded_vectors(context, path, vectors)


def _position_delete_file(context: WriteContext, group: Sequence[FilePositions]) -> DeleteFile:
    file = group[0].data_file
    positions = {d.data_file.file_path: d.positions for d in group}
    with_rows = [d for d in group if d.rows is not None]
    rows: Mapping[str, pa.Table] | None = None
    if with_rows:
        rows = {d.data_file.file_path: d.rows for d in with_rows if d.rows is not None}
    encoded = encode_position_deletes(positions, rows=rows, options=context.delete_parquet)
    path = context.data_path(context.metadata.specs[file.spec_id], file.partition, "-deletes.parquet")
    # Java infers file scope from equal bounds; the field says it outright, and both agree.
    referenced = file.file_path if len(group) == 1 else None
    return _delete_file(
        context,
        encoded,
        path,
        FileContent.POSITION_DELETES,
        file.spec_id,
        file.partition,
        referenced_data_file=referenced,
    )


def _delete_file(
    context: WriteContext,
    encoded: EncodedDeletes,
    path: str,
    content: FileContent,
    spec_id: int,
    partition: tuple[Any, ...],
    **extra: Any,
) -> DeleteFile:
    context.write(path, encoded.file.data)
    metrics = encoded.metrics
    return DeleteFile(
        content=content,
        spec_id=spec_id,
        partition=partition,
        file_path=path,
        file_format="PARQUET",
        record_count=encoded.record_count,
        file_size_in_bytes=encoded.file.size,
        column_sizes=to_optional(encoded.file.column_sizes),
        value_counts=to_optional(metrics.value_counts),
        null_value_counts=to_optional(metrics.null_value_counts),
        nan_value_counts=to_optional(metrics.nan_value_counts),
        lower_bounds=to_optional(metrics.lower_bounds),
        upper_bounds=to_optional(metrics.upper_bounds),
        split_offsets=encoded.file.split_offsets,
        **extra,
    )
