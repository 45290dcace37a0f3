"""Convert Delta's deletion vectors for Iceberg: copy them, refer to them, or write position delete files.

Each vector is checked against its descriptor first. Nothing is committed here.
Spec: Delta protocol, "Deletion Vector Format"; Iceberg, "Deletion Vectors", "Position Delete Files".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from deletekit.deletes.delete_loader import BlobRanges
from deletekit.deletes.merge_previous_deletes import EncodedVector, stream_position_deletes, write_encoded_vectors
from deletekit.delta.deletion_vector import (
    FRAME_BYTES,
    DeletionVectorDescriptor,
    blob_of_frame,
    frame_of_body,
    positions_of_frame,
    read_frame,
    vector_offset,
)
from deletekit.engines.local import LocalEngine
from deletekit.errors import DeletekitError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.formats.deletion_vector import PositionBitmap, decode_blob
from deletekit.rows.write_context import WriteContext, granularity_of
from deletekit.table.file_io import FileIO, reads_at_a_time
from deletekit.table.properties import value_of

VECTOR_ID = "delta-dv-id"
"""Property of a Puffin blob, and of a position delete file's footer: `uniqueId` of the vector that it was made of."""
VectorMode = Literal["copy", "reference", "position-delete"]
Positions = npt.NDArray[np.int64]
T = TypeVar("T")

_POSITIONS_AT_A_TIME = 1 << 16
_SMALL_BYTES = 1 << 20
_TARGET = "write.delete.target-file-size-bytes"


@dataclass(frozen=True, kw_only=True)
class VectorJob:
    """A vector to convert: its data file, the root of the Delta table, and the Delta version that has them."""

    descriptor: DeletionVectorDescriptor
    data_file: DataFile
    root: str
    version: int

    @cached_property
    def path(self) -> str | None:
        return self.descriptor.file_path(self.root)

    @property
    def frame_size(self) -> int:
        return self.descriptor.size_in_bytes + FRAME_BYTES

    def offset(self, storage: FileIO, path: str) -> int:
        """Return where the vector begins in its file. Raise NotFoundError."""
        with _named(path, self.data_file.file_path, self.version):
            return vector_offset(storage, path, self.descriptor)


def check_empty(storage: FileIO, descriptor: DeletionVectorDescriptor, data_file: str, root: str, version: int) -> None:
    """Check a vector of cardinality 0.

    Raise FormatError if it has positions, because Delta's readers would apply them; raise NotFoundError if its file is
    gone.
    """
    with _named(descriptor.file_path(root), data_file, version):
        blob_of_frame(read_frame(storage, root, descriptor)[2], descriptor, None)


@contextmanager
def _named(file: str | None, data_file: str, version: int) -> Iterator[None]:
    """Add the vector's file, its data file and the Delta version to errors."""
    try:
        yield
    except DeletekitError as e:
        message = f"{e.message} (of data file {data_file} at Delta version {version})"
        named = type(e)(message, kind=e.kind, file=e.file, field=e.field, found=e.found, expected=e.expected)
        raise named.in_file(file or data_file) from e


def referred_id(path: str, offset: int) -> str:
    """Return the id of a vector that was only referred to and is copied later: its file and its offset."""
    return f"{path}@{offset}"


def convert_vectors(
    write: WriteContext, jobs: Sequence[VectorJob], mode: VectorMode, directory: str, prefix: str
) -> list[DeleteFile]:
    """Write a delete file for each vector.

    Parameters
    ----------
    mode: `copy`, the frames' bytes into Puffin files; `reference`, entries that point into Delta's own files (what lies
        inline, or in the native serialisation, is written as by `copy`); `position-delete`, for format version 2.
    directory, prefix: where new files go, and how their names begin.

    Raises FormatError naming the file of a vector that is damaged, NotFoundError for one that is gone.
    """
    ordered = sorted(jobs, key=lambda j: (j.path or "", j.descriptor.offset or 0, j.data_file.file_path))
    names = file_names(write, directory, prefix)
    if mode == "position-delete":
        named = [(job, f"{next(names)}-deletes.parquet") for job in ordered]
        engine = LocalEngine(reads_at_a_time(directory))
        return list(engine.map(lambda pair: _position_deletes(write, *pair), named))
    references: list[DeleteFile] = []

    def to_write() -> Iterator[EncodedVector]:
        for batch in _batches(ordered, value_of(write.metadata.properties, _TARGET), lambda job: job.frame_size):
            for job, vector, is_same in _verified(write.io, batch):
                path = job.path
                if mode == "reference" and path is not None and is_same:
                    size, offset = write.io.size(path), job.offset(write.io, path)
                    references.append(vector.entry(path, file_size=size, offset=offset, size=job.frame_size))
                else:
                    yield vector
                del vector  # it may be large, and the next one is read before this name is used again

    written = list(write_vectors(write, names, to_write(), one_each=granularity_of(write.metadata) == "file"))
    return [*references, *written]


def file_names(write: WriteContext, directory: str, prefix: str) -> Iterator[str]:
    """Name new files, without their suffixes."""
    return (f"{directory.rstrip('/')}/{prefix}-{write.operation_id}-{number:05d}" for number in count(1))


def _verified(storage: FileIO, jobs: Sequence[VectorJob]) -> Iterator[tuple[VectorJob, EncodedVector, bool]]:
    """Read some vectors, adjacent ones together. Yield with each whether its blob is the frame in Delta's file."""
    ranges = BlobRanges(storage)
    of_files = ((j, path) for j in jobs if (path := j.path) is not None)
    ranges.expect((path, j.offset(storage, path), j.frame_size) for j, path in of_files)
    # Large vectors are not held by the dozen.
    are_small = max((job.frame_size for job in jobs), default=0) <= _SMALL_BYTES
    engine = LocalEngine(reads_at_a_time(jobs[0].root) if jobs and are_small else None)
    return engine.map(lambda job: _blob(storage, ranges, job), jobs)


def write_vectors(
    write: WriteContext, names: Iterator[str], vectors: Iterable[EncodedVector], *, one_each: bool
) -> Iterator[DeleteFile]:
    """Write vectors to Puffin files of about the table's target size, or each to its own file (`one_each`)."""
    target = 0 if one_each else value_of(write.metadata.properties, _TARGET)
    for batch in _batches(vectors, target, lambda vector: len(vector.blob)):
        yield from write_encoded_vectors(write, f"{next(names)}-deletes.puffin", batch)
        batch.clear()


def _batches(items: Iterable[T], size: int, size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Group items, in their order, so that each group but the last has at least some size."""
    batch: list[T] = []
    total = 0
    for item in items:
        batch.append(item)
        total += size_of(item)
        del item
        if total >= size:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def _blob(storage: FileIO, ranges: BlobRanges, job: VectorJob) -> tuple[VectorJob, EncodedVector, bool]:
    path = job.path
    with _named(path, job.data_file.file_path, job.version):
        if path is None:
            frame = frame_of_body(job.descriptor.inline_body())
        else:
            frame = ranges.read(path, vector_offset(storage, path, job.descriptor), job.frame_size)
        blob = blob_of_frame(frame, job.descriptor, job.data_file.record_count)
    vector = EncodedVector(
        data_file=job.data_file.file_path,
        spec_id=job.data_file.spec_id,
        partition=job.data_file.partition,
        blob=blob,
        cardinality=job.descriptor.cardinality,
        properties={VECTOR_ID: job.descriptor.unique_id},
    )
    return job, vector, blob is frame


def read_checked_blob(io: FileIO, vector: DeleteFile) -> bytes:
    """Read the blob of an Iceberg table's deletion vector, and check that it is one. Raise FormatError if not."""
    try:
        blob = io.read(vector.file_path, vector.content_offset or 0, vector.content_size_in_bytes)
        decode_blob(blob, cardinality=vector.record_count)
    except DeletekitError as e:
        raise e.in_file(vector.file_path) from e
    return blob


def _position_deletes(write: WriteContext, job: VectorJob, path: str) -> DeleteFile:
    with _named(job.path, job.data_file.file_path, job.version):
        frame = read_frame(write.io, job.root, job.descriptor)[2]
        positions = positions_of_frame(frame, job.descriptor, job.data_file.record_count)
        footer = {VECTOR_ID: job.descriptor.unique_id}
        return stream_position_deletes(write, path, job.data_file, _pieces(positions), footer)


def _pieces(positions: PositionBitmap) -> Iterator[Positions]:
    """Yield positions in ascending order, some at a time: in memory a bitmap is much smaller than its positions."""
    for key, bitmap in positions.by_key.items():
        for start in range(0, len(bitmap), _POSITIONS_AT_A_TIME):
            lows = np.frombuffer(bitmap[start : start + _POSITIONS_AT_A_TIME].to_array(), np.uint32)
            yield lows.astype(np.int64) | (key << 32)
