"""Write deletion vectors and position delete files; only `merge_previous_deletes` calls this.

A delete gets the spec and partition of the data file that it is about, never the table's current ones. No file is
written for no deletes.

Spec: "Deletion Vectors", "Position Delete Files"; Java BaseDVFileWriter, PositionDeleteWriter.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import PartitionSpec

from deletekit import version
from deletekit.deletes.which_apply import scope_of
from deletekit.deletes.write_context import WriteContext, granularity_of
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent
from deletekit.formats.delete_file import encode_position_deletes, position_delete_schema
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.formats.metrics import single_value_bytes
from deletekit.formats.parquet import split_offsets
from deletekit.formats.puffin import DELETION_VECTOR_V1, Blob, write_puffin
from deletekit.formats.reserved_fields import FILE_PATH_ID, POS_COLUMN_ID, POS_ID

_ROW_GROUP_ROWS = 1 << 20
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FilePositions:
    """Positions to delete in one data file, and the deleted rows (with field ids) if they must be stored."""

    data_file: DataFile
    positions: PositionBitmap
    rows: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedVector:
    """A deletion vector as the bytes of its blob.

    Attributes
    ----------
    data_file: path of the data file that it is about; `spec_id` and `partition` are that file's.
    cardinality: how many positions it has.
    properties: further properties of the blob.
    """

    data_file: str
    spec_id: int
    partition: tuple[Any, ...]
    blob: bytes
    cardinality: int
    properties: Mapping[str, str] = field(default_factory=dict)

    def entry(self, path: str, *, file_size: int, offset: int, size: int) -> DeleteFile:
        """Return the entry of the vector, for a blob at an offset of a file."""
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
    """Write a deletion vector for each data file that has positions.

    Parameters
    ----------
    deletes: `positions` must already contain those of the data file's previous vector and position deletes.
    granularity: `"file"` is a Puffin file for each vector: the incremental expiry of Iceberg Java deletes a Puffin file
        as soon as one of its vectors is replaced, whatever else it holds. `"partition"` is one Puffin file for all.
        None takes `write.delete.granularity`.

    Raises InvalidInputError for another granularity.
    """
    chosen = sorted((d for d in deletes if d.positions), key=lambda d: d.data_file.file_path)
    if granularity_of(context.metadata, granularity) == "file":
        return [file for delete in chosen for file in _puffin_file(context, [delete])]
    return _puffin_file(context, chosen) if chosen else []


def write_encoded_vectors(context: WriteContext, path: str, vectors: Sequence[EncodedVector]) -> list[DeleteFile]:
    """Write one Puffin file of deletion vectors, with the bytes of each as they are."""
    blobs = [
        Blob(
            type=DELETION_VECTOR_V1,
            data=v.blob,
            fields=(POS_COLUMN_ID,),
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
    """Write position delete files (v2), one per data file or one per partition.

    Parameters
    ----------
    granularity: `"file"` or `"partition"`; None takes `write.delete.granularity`.

    Raises InvalidInputError for another granularity, or if only some of the rows are given.
    """
    by_file = granularity_of(context.metadata, granularity) == "file"
    groups: dict[Hashable, list[FilePositions]] = {}
    for delete in deletes:
        if delete.positions:
            key = delete.data_file.file_path if by_file else scope_of(delete.data_file)
            groups.setdefault(key, []).append(delete)
    return [_position_delete_file(context, group) for group in groups.values()]


def stream_position_deletes(
    context: WriteContext,
    path: str,
    data_file: DataFile,
    pieces: Iterable[Positions],
    footer: Mapping[str, str] | None = None,
) -> DeleteFile:
    """Write the position delete file of one data file while its positions are still being read.

    No more than a row group of positions is held in memory.

    Parameters
    ----------
    path: the file to write; `context` remembers it before the first byte is written.
    pieces: positions in ascending order, at least one in all. An error that they raise is passed on. The file then
        stays unfinished, and `context.discard` removes it.
    footer: further key-values of the Parquet footer.
    """
    schema, schema_json = position_delete_schema()
    options = context.delete_parquet
    context.remember(path)
    count, lowest, highest = 0, -1, -1
    with (
        context.io.create(path) as sink,
        pq.ParquetWriter(
            sink,
            schema,
            version="2.6",
            compression=options.compression,
            compression_level=options.compression_level,
            use_dictionary=["file_path"],
            column_encoding={"pos": "DELTA_BINARY_PACKED"},
            store_schema=False,
        ) as writer,
    ):
        for positions in _row_groups(pieces):
            lowest = int(positions[0]) if lowest < 0 else lowest
            highest, count = int(positions[-1]), count + len(positions)
            names = pa.repeat(pa.scalar(data_file.file_path), len(positions))
            writer.write_table(pa.Table.from_arrays([names, pa.array(positions)], schema=schema))
        metadata = {"delete-type": "position", "iceberg.schema": json.dumps(schema_json, separators=(",", ":"))}
        writer.add_key_value_metadata({**metadata, **(footer or {})})
    name = data_file.file_path.encode()
    with context.io.open(path) as source:
        written = pq.read_metadata(source)
    return DeleteFile(
        content=FileContent.POSITION_DELETES,
        spec_id=data_file.spec_id,
        partition=data_file.partition,
        file_path=path,
        file_format="PARQUET",
        record_count=count,
        file_size_in_bytes=context.io.size(path),
        lower_bounds={FILE_PATH_ID: name, POS_ID: single_value_bytes(lowest, pa.int64())},
        upper_bounds={FILE_PATH_ID: name, POS_ID: single_value_bytes(highest, pa.int64())},
        split_offsets=split_offsets(written),
        referenced_data_file=data_file.file_path,
    )


def _puffin_file(context: WriteContext, chosen: Sequence[FilePositions]) -> list[DeleteFile]:
    files = [d.data_file for d in chosen]
    is_one_partition = len({scope_of(f) for f in files}) == 1
    spec = context.metadata.specs[files[0].spec_id] if is_one_partition else PartitionSpec()
    path = context.data_path(spec, files[0].partition if is_one_partition else (), "-deletes.puffin")
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
    rows = {d.data_file.file_path: d.rows for d in group if d.rows is not None}
    encoded = encode_position_deletes(positions, rows=rows or None, options=context.delete_parquet)
    path = context.data_path(context.metadata.specs[file.spec_id], file.partition, "-deletes.parquet")
    return DeleteFile(
        content=FileContent.POSITION_DELETES,
        spec_id=file.spec_id,
        partition=file.partition,
        # Java infers file scope from equal bounds. The field says it outright, and both agree.
        referenced_data_file=file.file_path if len(group) == 1 else None,
        **context.write_parquet(path, encoded.file, encoded.metrics, encoded.record_count),
    )


def _row_groups(pieces: Iterable[Positions]) -> Iterator[Positions]:
    """Yield the same positions in pieces of about a row group, none of them empty."""
    held: list[Positions] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += len(piece)
        if rows >= _ROW_GROUP_ROWS:
            yield np.concatenate(held)
            held, rows = [], 0
    if rows:
        yield np.concatenate(held)
