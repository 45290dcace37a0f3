"""Replace what hides rows of data files by position: the one way to write a deletion vector or position delete file.

- A new deletion vector (v3) merges everything that hides rows of its data file by position. It replaces the file's own
  deletes: its vector, and the position delete files that are about this file alone. Position delete files of a whole
  partition stay, because they may also be about other data files.
- A position delete file (v2) of granularity `file` merges and replaces the own deletes of its data file. One of
  granularity `partition` is added beside what is there.
- Positions behind the end of the data file are dropped. They hide nothing. But the cardinality of a vector counts them,
  and some readers subtract it from the row count. Java keeps them.
- A data file without a live row is removed, with its own deletes.
- A delete gets the spec and partition of the data file that it is about, never the table's current ones. No file is
  written for no deletes.

Nothing is committed. Spec: "Deletion Vectors", "Position Delete Files"; Java BaseDVFileWriter, PositionDeleteWriter,
SparkPositionDeltaWrite.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec

from deletekit import version
from deletekit.deferred import pq
from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import own_deletes, scope_of
from deletekit.errors import FormatError
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent, ManifestEntry
from deletekit.formats.delete_file import encode_position_deletes, position_delete_schema
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.formats.metrics import single_value_bytes
from deletekit.formats.parquet import split_offsets
from deletekit.formats.puffin import DELETION_VECTOR_V1, Blob, puffin_parts
from deletekit.formats.reserved_fields import FILE_PATH_ID, POS_COLUMN_ID, POS_ID
from deletekit.rows.write_context import WriteContext, granularity_of
from deletekit.table.properties import value_of

_ROW_GROUP_ROWS = 1 << 20
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """Rows of a live data file to hide.

    Attributes
    ----------
    task: the data file, with all deletes that apply to it.
    positions: the rows to hide.
    hidden: the rows that are hidden already, if the caller knows them: all that deletes by position hide, and perhaps
        others that equality deletes hide. None: they are read from the deletes that are replaced.
    """

    task: ScanTask
    positions: PositionBitmap
    hidden: PositionBitmap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The files that a `RowDelta` adds and removes, each once."""

    added_delete_files: tuple[DeleteFile, ...]
    removed_delete_files: tuple[ManifestEntry, ...]
    removed_data_files: tuple[ManifestEntry, ...]


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
    highest: the largest position, if known: in the entry it spares `count()` the vector (`VectorIndex.hidden`).
    """

    data_file: str
    spec_id: int
    partition: tuple[Any, ...]
    blob: bytes
    cardinality: int
    properties: Mapping[str, str] = field(default_factory=dict)
    highest: int | None = None

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
            upper_bounds=None if self.highest is None else {POS_ID: single_value_bytes(self.highest, pa.int64())},
        )


# --- merge ------------------------------------------------------------------------------------------------------------


def replace_deletes(
    write: WriteContext,
    loader: DeleteLoader,
    hidden: Iterable[HiddenRows],
    *,
    granularity: str | None = None,
    rows: Callable[[ScanTask, PositionBitmap], pa.Table] | None = None,
    drops: bool = True,
) -> Replacement:
    """Hide rows of live data files by position, and replace the deletes that do so already.

    Parameters
    ----------
    hidden: one item for each data file. They are taken one after the other, so that what was just read is still in
        memory.
    granularity: of the delete files, as in `write_positions`.
    rows: returns the rows at some positions, to store them in position delete files.
    drops: whether data files without a live row are removed. Otherwise a delete covers all their rows.

    Raises FormatError if a row to hide is behind the end that the manifest states.
    """
    merged: list[FilePositions] = []
    removed: list[ManifestEntry] = []
    dropped: list[ManifestEntry] = []
    for item in hidden:
        file = item.task.data_file
        if item.positions.count_in(0, file.record_count) < len(item.positions):
            check_rows(file, int(item.positions.to_numpy()[-1]) + 1)
        positions, replaced = _merged(write, loader, item, granularity)
        gone = positions if item.hidden is None else positions | item.hidden
        if drops and len(positions_in_file(gone, file)) == file.record_count:
            dropped.append(item.task.data)
            removed += own_deletes(file.file_path, item.task.deletes)
            continue
        removed += replaced
        positions = positions_in_file(positions, file)
        merged.append(FilePositions(file, positions, rows(item.task, positions) if rows is not None else None))
    return Replacement(
        added_delete_files=tuple(write_positions(write, merged, granularity)),
        # Two tasks may list one position delete file with equal bounds.
        removed_delete_files=tuple({e.data_file.identity: e for e in removed}.values()),
        removed_data_files=tuple(dropped),
    )


def positions_in_file(positions: PositionBitmap, file: DataFile) -> PositionBitmap:
    """Return the positions that lie in the data file. Some writers leave others behind its end; they hide nothing."""
    if positions.count_in(0, file.record_count) == len(positions):
        return positions
    return positions.below(file.record_count)


def hides_all_rows(context: ReadContext, task: ScanTask, positions: PositionBitmap) -> bool:
    """Tell whether these live rows are all live rows of their data file."""
    rows, hidden = task.data_file.record_count, context.loader.positions(task)
    if len(positions) == rows - hidden.count_in(0, rows):
        return True
    if not any(d.kind == "equality-delete" for d in task.delete_files):
        return False
    batches = read_task(context, task, ReadRequest((), only_live=True))
    return len(positions) == sum(np.count_nonzero(~batch.deleted) for batch in batches)


def check_rows(file: DataFile, rows: int) -> None:
    """Raise FormatError if a data file has more rows than its manifest entry says: they could get lost or come back."""
    if rows > file.record_count:
        message, expected = "data file has more rows than its manifest entry says", f"{file.record_count} rows"
        raise FormatError(
            message, "record-count", "record_count", f"{rows} rows or more", expected, file=file.file_path
        )


def _merged(
    write: WriteContext, loader: DeleteLoader, item: HiddenRows, granularity: str | None
) -> tuple[PositionBitmap, list[ManifestEntry]]:
    """Return the positions of the new delete, and the predecessors that it replaces."""
    task, hidden = item.task, item.hidden
    path = task.data_file.file_path
    own = own_deletes(path, task.deletes)
    if write.metadata.version.has_deletion_vectors:
        hidden = loader.positions(task) if hidden is None else hidden
    elif not own or granularity_of(write.metadata, granularity) != "file":
        return item.positions, []
    elif hidden is None:
        deletes = (entry.data_file for entry in own)
        hidden = reduce(or_, (loader.positions_of(d, path) for d in deletes if isinstance(d, DeleteFile)))
    return item.positions | hidden, own


# --- write ------------------------------------------------------------------------------------------------------------


def write_positions(
    context: WriteContext, hidden: Iterable[FilePositions], granularity: str | None = None
) -> list[DeleteFile]:
    """Write deletion vectors (v3) or position delete files (v2) that replace nothing; for no positions, no file.

    Use it for new data files, and to combine delete files that the caller removes.

    Parameters
    ----------
    granularity: `file`, a position delete file or Puffin file for each data file, or `partition`. None takes
        `write.delete.granularity`. The incremental expiry of Iceberg Java deletes a Puffin file as soon as one of its
        vectors is replaced, whatever else it holds.

    Raises InvalidInputError for another granularity, or if only some of the rows are given.
    """
    inside = [FilePositions(h.data_file, positions_in_file(h.positions, h.data_file), h.rows) for h in hidden]
    write = write_deletion_vectors if context.metadata.version.has_deletion_vectors else write_position_deletes
    return write(context, inside, granularity)


def write_deletion_vectors(
    context: WriteContext, deletes: Iterable[FilePositions], granularity: str | None = None
) -> list[DeleteFile]:
    """Write a vector for each data file that has positions.

    With `partition`, those of one spec go into one Puffin file, up to `write.delete.target-file-size-bytes`. Each spec
    has manifests of its own, so entries are listed in the order of the blobs, however manifests are listed.
    """
    chosen = sorted((d for d in deletes if d.positions), key=lambda d: d.data_file.spec_id)
    by_file = granularity_of(context.metadata, granularity) == "file"
    most = 0 if by_file else value_of(context.metadata.properties, "write.delete.target-file-size-bytes")
    written: list[DeleteFile] = []
    group: list[tuple[FilePositions, bytes]] = []
    size = 0
    for delete in chosen:
        blob = encode_blob(delete.positions)
        if group and (size + len(blob) > most or group[0][0].data_file.spec_id != delete.data_file.spec_id):
            written += _puffin_file(context, group)
            group, size = [], 0
        group.append((delete, blob))
        size += len(blob)
    return [*written, *_puffin_file(context, group)] if group else written


def write_position_deletes(
    context: WriteContext, deletes: Iterable[FilePositions], granularity: str | None = None
) -> list[DeleteFile]:
    """Write position delete files (v2), one for each data file or for each partition."""
    by_file = granularity_of(context.metadata, granularity) == "file"
    groups: dict[Hashable, list[FilePositions]] = {}
    for delete in deletes:
        if delete.positions:
            key = delete.data_file.file_path if by_file else scope_of(delete.data_file)
            groups.setdefault(key, []).append(delete)
    return [_position_delete_file(context, group) for group in groups.values()]


def write_encoded_vectors(context: WriteContext, path: str, vectors: Sequence[EncodedVector]) -> list[DeleteFile]:
    """Write one Puffin file of deletion vectors, with the bytes of each as they are.

    The smallest is first: DuckDB 1.5.5 keeps a read together with the bytes behind it, if these are not more than the
    read, and takes the first vector there for each that it asks for later.
    """
    vectors = sorted(vectors, key=lambda v: len(v.blob))
    blobs = [
        Blob(
            type=DELETION_VECTOR_V1,
            data=v.blob,
            fields=(POS_COLUMN_ID,),
            properties={"referenced-data-file": v.data_file, "cardinality": str(v.cardinality), **v.properties},
        )
        for v in vectors
    ]
    parts, metadata = puffin_parts(blobs, {"created-by": f"deletekit {version.__version__}"})
    context.write(path, *parts)
    size = sum(map(len, parts))
    return [
        v.entry(path, file_size=size, offset=blob.offset, size=blob.length)
        for v, blob in zip(vectors, metadata.blobs, strict=True)
    ]


def stream_position_deletes(
    context: WriteContext, path: str, data_file: DataFile, pieces: Iterable[Positions], footer: Mapping[str, str]
) -> DeleteFile:
    """Write the position delete file of one data file while its positions are still being read.

    No more than a row group of positions is held in memory.

    Parameters
    ----------
    path: the file to write; `context` remembers it before the first byte is written.
    pieces: positions in ascending order, at least one. After an error of theirs, `context.discard` removes the file.
    footer: further key-values of the Parquet footer.
    """
    schema, schema_json = position_delete_schema()
    schema = schema.set(0, schema.field(0).with_type(pa.dictionary(pa.int32(), pa.string())))  # stored as text
    options = context.delete_parquet
    name = data_file.file_path
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
            names = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int32), [name])
            writer.write_table(pa.Table.from_arrays([names, pa.array(positions)], schema=schema))
        metadata = {"delete-type": "position", "iceberg.schema": json.dumps(schema_json, separators=(",", ":"))}
        writer.add_key_value_metadata({**metadata, **footer})
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
        lower_bounds={FILE_PATH_ID: name.encode(), POS_ID: single_value_bytes(lowest, pa.int64())},
        upper_bounds={FILE_PATH_ID: name.encode(), POS_ID: single_value_bytes(highest, pa.int64())},
        split_offsets=split_offsets(written),
        referenced_data_file=name,
    )


def _puffin_file(context: WriteContext, group: Sequence[tuple[FilePositions, bytes]]) -> list[DeleteFile]:
    files = [d.data_file for d, _ in group]
    is_one_partition = len({scope_of(f) for f in files}) == 1
    spec = context.metadata.specs[files[0].spec_id] if is_one_partition else PartitionSpec()
    path = context.data_path(spec, files[0].partition if is_one_partition else (), "-deletes.puffin")
    vectors = [
        EncodedVector(
            data_file=d.data_file.file_path,
            spec_id=d.data_file.spec_id,
            partition=d.data_file.partition,
            blob=blob,
            cardinality=len(d.positions),
            highest=d.positions.highest,
        )
        for d, blob in group
    ]
    return write_encoded_vectors(context, path, vectors)


def _position_delete_file(context: WriteContext, group: Sequence[FilePositions]) -> DeleteFile:
    file = group[0].data_file
    positions = {d.data_file.file_path: d.positions for d in group}
    rows = {d.data_file.file_path: d.rows for d in group if d.rows is not None}
    encoded = encode_position_deletes(positions, rows=rows or None, options=context.delete_parquet)
    spec, written = context.metadata.specs[file.spec_id], (encoded.file, encoded.metrics, encoded.record_count)
    return DeleteFile(
        content=FileContent.POSITION_DELETES,
        # Java infers file scope from equal bounds. The field says it outright, and both agree.
        referenced_data_file=file.file_path if len(group) == 1 else None,
        **context.write_parquet(spec, file.partition, "-deletes.parquet", *written),
    )


def _row_groups(pieces: Iterable[Positions]) -> Iterator[Positions]:
    """Yield the same positions in pieces of about a row group, none of them empty."""
    held: list[Positions] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= _ROW_GROUP_ROWS:
            yield np.concatenate(held)
            held = []
    if sum(map(len, held)):
        yield np.concatenate(held)
