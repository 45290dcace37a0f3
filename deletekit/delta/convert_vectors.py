"""Convert Delta's deletion vectors for Iceberg: copy them, refer to them, or write position delete files.

Each vector is checked against its descriptor first. Nothing is committed here.
Spec: Delta protocol, "Deletion Vector Format"; Iceberg, "Deletion Vectors", "Position Delete Files".
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from deletekit.deletes.delete_loader import BlobRanges
from deletekit.deletes.merge_previous_deletes import EncodedVector, stream_position_deletes, write_encoded_vectors
from deletekit.deletes.write_context import WriteContext, granularity_of
from deletekit.delta.deletion_vector import (
    FRAME_BYTES,
    DeletionVectorDescriptor,
    blob_of_frame,
    decode_body,
    frame_of_body,
    read_frame,
    vector_offset,
)
from deletekit.delta.roaring_stream import stream_positions
from deletekit.engines.local import Engine
from deletekit.errors import DeletekitError, FormatError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.formats.deletion_vector import MAGIC, decode_blob
from deletekit.table.file_io import FileIO
from deletekit.table.properties import value_of

VECTOR_ID = "delta-dv-id"
"""Property of a Puffin blob, and of a position delete file's footer: `uniqueId` of the vector that it was made of."""
VectorMode = Literal["copy", "reference", "position-delete"]
Positions = npt.NDArray[np.int64]

_PIECE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorJob:
    """A vector to convert: its data file, the root of the Delta table, and the Delta version that has them."""

    descriptor: DeletionVectorDescriptor
    data_file: DataFile
    root: str
    version: int

    @property
    def path(self) -> str | None:
        return self.descriptor.file_path(self.root)

    def offset(self, storage: FileIO) -> int:
        """Return where the vector begins in its file. Raise NotFoundError."""
        path = self.path
        assert path is not None
        try:
            return vector_offset(storage, path, self.descriptor)
        except DeletekitError as e:
            raise self.named(e) from e

    def named(self, error: DeletekitError) -> DeletekitError:
        """Return the same error, with the vector's file, data file and version."""
        return _named(error, self.path, self.data_file.file_path, self.version)


def check_empty(storage: FileIO, descriptor: DeletionVectorDescriptor, data_file: str, root: str, version: int) -> None:
    """Check a vector of cardinality 0.

    Raise FormatError if it has positions, because Delta's readers would apply them; raise NotFoundError if its file is
    gone.
    """
    try:
        blob_of_frame(read_frame(storage, root, descriptor)[2], descriptor, None)
    except DeletekitError as e:
        raise _named(e, descriptor.file_path(root), data_file, version) from e


def _named(error: DeletekitError, file: str | None, data_file: str, version: int) -> DeletekitError:
    message = f"{error.message} (of data file {data_file} at Delta version {version})"
    named = type(error)(
        message, kind=error.kind, file=error.file, field=error.field, found=error.found, expected=error.expected
    )
    return named.in_file(file or data_file)


def referred_id(path: str, offset: int) -> str:
    """Return the id of a vector that was only referred to and is copied later: its file and its offset."""
    return f"{path}@{offset}"


def convert_vectors(
    write: WriteContext, jobs: Sequence[VectorJob], mode: VectorMode, directory: str, prefix: str, engine: Engine
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
        return list(engine.map(lambda pair: _position_deletes(write, *pair), named))
    out: list[DeleteFile] = []
    files = VectorFiles(write, names, one_each=granularity_of(write.metadata) == "file")
    for batch in _batches(ordered, value_of(write.metadata.properties, _TARGET)):
        for job, (vector, is_same) in zip(batch, _verified(write.io, batch, engine), strict=True):
            if mode == "reference" and job.path is not None and is_same:
                out.append(_reference(write.io, job, job.path, vector))
            else:
                out += files.add(vector)
    return [*out, *files.finish()]


def file_names(write: WriteContext, directory: str, prefix: str) -> Iterator[str]:
    """Name new files, without their suffixes."""
    return (f"{directory.rstrip('/')}/{prefix}-{write.operation_id}-{number:05d}" for number in count(1))


_TARGET = "write.delete.target-file-size-bytes"


def _verified(storage: FileIO, jobs: Sequence[VectorJob], engine: Engine) -> Iterator[tuple[EncodedVector, bool]]:
    """Read some vectors, adjacent ones together. Yield each with whether its blob is the frame in Delta's file."""
    ranges = BlobRanges(storage)
    of_files = ((j, path) for j in jobs if (path := j.path) is not None)
    ranges.expect((path, j.offset(storage), _frame_size(j)) for j, path in of_files)
    return engine.map(lambda job: _blob(storage, ranges, job), jobs)


class VectorFiles:
    """Write vectors to Puffin files of about the table's target size, or each to its own file (`one_each`)."""

    def __init__(self, write: WriteContext, names: Iterator[str], *, one_each: bool) -> None:
        self._write = write
        self._names = names
        self._one_each = one_each
        self._target = value_of(write.metadata.properties, _TARGET)
        self._waiting: list[EncodedVector] = []
        self._bytes = 0

    def add(self, vector: EncodedVector) -> list[DeleteFile]:
        """Add a vector. Return the delete files of those that were written."""
        self._waiting.append(vector)
        self._bytes += len(vector.blob)
        return self.finish() if self._one_each or self._bytes >= self._target else []

    def finish(self) -> list[DeleteFile]:
        """Write the vectors that still wait. Return their delete files."""
        if not self._waiting:
            return []
        vectors, self._waiting, self._bytes = self._waiting, [], 0
        return write_encoded_vectors(self._write, f"{next(self._names)}-deletes.puffin", vectors)


def _batches(jobs: Sequence[VectorJob], size: int) -> Iterator[list[VectorJob]]:
    batch: list[VectorJob] = []
    total = 0
    for job in jobs:
        batch.append(job)
        total += _frame_size(job)
        if total >= size:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def _frame_size(job: VectorJob) -> int:
    return job.descriptor.size_in_bytes + FRAME_BYTES


def _blob(storage: FileIO, ranges: BlobRanges, job: VectorJob) -> tuple[EncodedVector, bool]:
    path = job.path
    try:
        if path is None:
            frame = frame_of_body(job.descriptor.inline_body())
        else:
            frame = ranges.read(path, vector_offset(storage, path, job.descriptor), _frame_size(job))
        blob = blob_of_frame(frame, job.descriptor, job.data_file.record_count)
    except DeletekitError as e:
        raise job.named(e) from e
    vector = EncodedVector(
        data_file=job.data_file.file_path,
        spec_id=job.data_file.spec_id,
        partition=job.data_file.partition,
        blob=blob,
        cardinality=job.descriptor.cardinality,
        properties={VECTOR_ID: job.descriptor.unique_id},
    )
    return vector, blob is frame


def read_checked_blob(io: FileIO, vector: DeleteFile) -> bytes:
    """Read the blob of an Iceberg table's deletion vector, and check that it is one. Raise FormatError if not."""
    try:
        blob = io.read(vector.file_path, vector.content_offset or 0, vector.content_size_in_bytes)
        decode_blob(blob, cardinality=vector.record_count)
    except DeletekitError as e:
        raise e.in_file(vector.file_path) from e
    return blob


def _reference(storage: FileIO, job: VectorJob, path: str, vector: EncodedVector) -> DeleteFile:
    return vector.entry(path, file_size=storage.size(path), offset=job.offset(storage), size=_frame_size(job))


def _position_deletes(write: WriteContext, job: VectorJob, path: str) -> DeleteFile:
    source = job.path
    footer = {VECTOR_ID: job.descriptor.unique_id}
    try:
        if source is None:
            body = io.BytesIO(job.descriptor.inline_body())
            return stream_position_deletes(write, path, job.data_file, _FrameReader(body, job).positions(), footer)
        with write.io.open(source) as stream:
            stream.seek(vector_offset(write.io, source, job.descriptor))
            pieces = _FrameReader(stream, job, framed=True).positions()
            return stream_position_deletes(write, path, job.data_file, pieces, footer)
    except DeletekitError as e:
        raise job.named(e) from e


class _FrameReader:
    """Read a frame from front to back. If no error was raised at the end, every claim of its descriptor was right."""

    def __init__(self, stream: BinaryIO, job: VectorJob, *, framed: bool = False) -> None:
        self._stream = stream
        self._job = job
        self._framed = framed
        self._left = job.descriptor.size_in_bytes
        self._crc = 0

    def positions(self) -> Iterator[Positions]:
        """Yield the positions in ascending order, by container. Raise FormatError, at the latest after the last one."""
        descriptor = self._job.descriptor
        if self._framed:
            self._check("size", int.from_bytes(self._exactly(4), "big"), descriptor.size_in_bytes)
        found, last = 0, -1
        for piece in self._pieces():
            found, last = found + len(piece), int(piece[-1])
            yield piece
        self._check("bytes behind the bitmap", self._left, 0)
        if self._framed:
            self._check("crc", int.from_bytes(self._exactly(4), "big"), self._crc, kind="deletion-vector-crc")
        self._check("cardinality", found, descriptor.cardinality)
        if last >= self._job.data_file.record_count:
            self._check("position", last, f"< {self._job.data_file.record_count} rows of the data file")

    def _pieces(self) -> Iterator[Positions]:
        magic = self._read(len(MAGIC))
        if magic == MAGIC:
            yield from stream_positions(self._read)
            return
        positions = iter(decode_body(magic + self._read(self._left)))
        while len(piece := np.fromiter(islice(positions, _PIECE), np.int64)):
            yield piece

    def _read(self, size: int) -> bytes:
        if size > self._left:
            self._check("bitmap", f"{size} bytes", f"at most the {self._left} left of sizeInBytes")
        data = self._exactly(size)
        self._left -= size
        self._crc = zlib.crc32(data, self._crc)
        return data

    def _exactly(self, size: int) -> bytes:
        data = bytes(self._stream.read(size))
        if len(data) != size:
            self._check("file", f"{len(data)} bytes", f"{size} bytes", kind="truncated")
        return data

    @staticmethod
    def _check(field: str, found: object, expected: object, kind: str = "delta-deletion-vector") -> None:
        if found != expected:
            raise FormatError("damaged deletion vector", kind=kind, field=field, found=found, expected=expected)
