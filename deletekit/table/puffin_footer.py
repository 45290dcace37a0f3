"""Read the footer of a Puffin file from storage, without reading its blobs."""

from __future__ import annotations

from deletekit.errors import FormatError
from deletekit.formats.puffin import FOOTER_TAIL_BYTES, MAGIC, FileMetadata, footer_size, read_footer
from deletekit.table.file_io import FileIO

__all__ = ["puffin_footer"]


def puffin_footer(io: FileIO, path: str) -> FileMetadata:
    """Return the footer of a Puffin file. Raise FormatError if the file does not begin and end as Puffin files do."""
    size = io.size(path)
    if size < len(MAGIC) or io.read(path, 0, len(MAGIC)) != MAGIC:
        raise FormatError(
            "file does not begin as Puffin", kind="puffin-magic", field="magic at the start", expected=MAGIC.hex()
        )
    need = footer_size(io.read(path, max(size - FOOTER_TAIL_BYTES, 0)), size)
    return read_footer(io.read(path, size - need), size)
