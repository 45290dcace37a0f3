"""The frame of a Delta table's deletion vector: where it lies, and its bytes.

Law: read-only, and nothing of the frame is believed here: who decodes it checks it.
Spec: Delta protocol, "Deletion Vectors", "Deletion Vector Descriptor Schema".
"""

from __future__ import annotations

from deletekit.delta.deletion_vector import FRAME_BYTES, DeletionVectorDescriptor, frame_of_body
from deletekit.errors import FormatError
from deletekit.table.file_io import FileIO

__all__ = ["read_frame", "vector_offset"]


def vector_offset(io: FileIO, path: str, descriptor: DeletionVectorDescriptor) -> int:
    """Where the frame begins in a file. No offset means 0, and to some writers 1, behind the version byte."""
    if descriptor.offset is not None:
        return descriptor.offset
    begins_there = io.read(path, 0, 4) == descriptor.size_in_bytes.to_bytes(4, "big")
    return 0 if begins_there or io.read(path, 0, 1) != b"\x01" else 1


def read_frame(io: FileIO, root: str, descriptor: DeletionVectorDescriptor) -> tuple[str | None, int, bytes]:
    """The file of a vector, where its frame begins in it, and the frame; an inline vector has no file, and a frame is
    made for it.

    Raises NotFoundError for a file that is gone, FormatError for one that is too short or a damaged descriptor.
    """
    path = descriptor.file_path(root)
    if path is None:
        return None, 0, frame_of_body(descriptor.inline_body())
    offset, length, size = vector_offset(io, path, descriptor), descriptor.size_in_bytes + FRAME_BYTES, io.size(path)
    if offset + length > size:  # before a buffer as large as a damaged log says is asked for
        raise FormatError(
            "deletion vector reaches past the end of its file",
            kind="truncated",
            file=path,
            field="sizeInBytes",
            found=f"{size} bytes",
            expected=f"{offset + length} bytes",
        )
    return path, offset, io.read(path, offset, length)
