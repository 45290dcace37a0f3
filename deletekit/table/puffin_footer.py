"""Read the footer of a Puffin file from storage, without reading its blobs."""

from __future__ import annotations

from functools import partial

from deletekit.errors import FormatError
from deletekit.formats.puffin import MAGIC, FileMetadata, read_footer
from deletekit.table.file_io import FileIO


def puffin_footer(io: FileIO, path: str) -> FileMetadata:
    """Return the footer of a Puffin file. Raise FormatError if the file does not begin and end as Puffin files do."""
    size = io.size(path)
    if size < len(MAGIC) or io.read(path, 0, len(MAGIC)) != MAGIC:
        raise FormatError(
            "file does not begin as Puffin", kind="puffin-magic", field="magic at the start", expected=MAGIC.hex()
        )
    return read_footer(partial(io.read, path), size)
