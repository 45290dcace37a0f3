"""Open what BitmapBytes shows: a file of deletion vectors, and the vector of it that is mapped.

The bytes are laid out before anything is decoded, so the bytes of a vector that cannot be decoded are shown too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deletekit.course.views.build import MOST_OPTIONS
from deletekit.course.views.byte_layout import layout
from deletekit.course.views.table_view import TableView, as_table_view, delete_of
from deletekit.delta.deletion_vector import decode_body
from deletekit.errors import DeletekitError, FormatError, InvalidInputError, NotFoundError, UnsupportedError
from deletekit.formats.content_file import DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import Snapshot

LARGEST_FILE = 1 << 28
_FILES_LOOKED_AT = 2_000


class VectorFile:
    """A file of deletion vectors and the vector of it that is mapped; `problem` is why it cannot be mapped."""

    def __init__(self, data: bytes, name: str, names: Sequence[str], source: str, location: str = "") -> None:
        self.data = data
        self.ranges = layout(data)
        self.name = name
        self.names = names
        self.source = source
        self.location = location
        self.bitmap: PositionBitmap | None = None
        self.limit: int | None = None
        self.problem: DeletekitError | None = None

    def map_blob(self, number: str) -> None:
        """Decode a vector of the file by its number. A blob of another type has no positions."""
        parts = [r for r in self.ranges if r.part == f"blob {number}"]
        if parts and parts[0].field == "length":
            try:
                self.bitmap = decode_body(memoryview(self.data)[parts[1].start : parts[-1].start])
            except FormatError as e:
                self.problem = e


def is_vector_file(source: Any) -> bool:
    """Return whether a source is the bytes or path of a file, not a table."""
    return isinstance(source, bytes) or (isinstance(source, str | Path) and str(source).endswith((".puffin", ".bin")))


def open_vector_file(source: Any, delete_file: str | None, snapshot: str | None) -> VectorFile | None:
    """Open a source of `bitmap_bytes`. Return None for a table without vectors."""
    if isinstance(source, bytes):
        return _of_bytes(source, delete_file)
    if is_vector_file(source):
        return _of_path(Path(str(source).removeprefix("file://")), delete_file)
    view = as_table_view(source)
    at = view.snapshot(snapshot)
    entry = _vector(view, at, delete_file) if at is not None else None
    if at is None or entry is None:
        return None
    try:
        return _of_entry(view, at, entry)
    except (FormatError, UnsupportedError) as e:
        raise e.in_file(delete_of(entry).file_path) from e


def _of_path(path: Path, name: str | None) -> VectorFile:
    if not path.is_file():
        raise NotFoundError("file does not exist", kind="file-not-found", file=str(path))
    if path.stat().st_size > LARGEST_FILE:
        raise _too_large(str(path), path.stat().st_size)
    try:
        shown = _of_bytes(path.read_bytes(), name)
    except (FormatError, UnsupportedError) as e:
        raise e.in_file(str(path)) from e
    if shown.problem is not None:
        shown.problem = shown.problem.in_file(str(path))
    return shown


def _of_bytes(data: bytes, name: str | None) -> VectorFile:
    shown = VectorFile(data, "0", (), "data")
    names = sorted({r.part.removeprefix("blob ") for r in shown.ranges if r.part.startswith("blob ")}, key=int)
    shown.name = name if name is not None else names[0] if names else "0"
    if name is not None and name not in names:
        expected = f"{names[0]} .. {names[-1]}" if names else "none"
        raise InvalidInputError("no such blob", kind="blob", field="delete_file", found=name, expected=expected)
    shown.names = names[:MOST_OPTIONS]
    shown.map_blob(shown.name)
    return shown


def _of_entry(view: TableView, snapshot: Snapshot, entry: ManifestEntry) -> VectorFile:
    delete = delete_of(entry)
    size = view.table.io.size(delete.file_path)
    if size > LARGEST_FILE:
        raise _too_large(delete.file_path, size)
    data = view.table.io.read(delete.file_path)
    names = [view.aliases.file(e) for e in _vectors(view, snapshot)[:MOST_OPTIONS]]
    shown = VectorFile(data, view.aliases.file(entry), names, "table", view.metadata.location)
    try:
        shown.bitmap = view.context.loader.vector(delete)
        shown.limit = _rows_of(view, snapshot, delete)
    except FormatError as e:
        shown.problem = e.in_file(delete.file_path)
    return shown


def _rows_of(view: TableView, snapshot: Snapshot, delete: DeleteFile) -> int | None:
    """Return the row count of a vector's data file."""
    found = view.live(snapshot, ManifestContent.DATA).find((delete.referenced_data_file,))
    return found.data_file.record_count if found is not None else None


def _vector(view: TableView, snapshot: Snapshot, name: str | None) -> ManifestEntry | None:
    if name is not None:
        entry = view.delete_file(snapshot, name)
        if not delete_of(entry).is_deletion_vector:
            raise InvalidInputError("not a deletion vector", kind="delete-kind", field="delete_file", found=name)
        return entry
    return next(iter(_vectors(view, snapshot)), None)


def _vectors(view: TableView, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the first deletion vectors of a snapshot, by the number in their names."""
    live = view.live(snapshot, ManifestContent.DELETES)[:_FILES_LOOKED_AT]
    return sorted((e for e in live if delete_of(e).is_deletion_vector), key=view.aliases.number)


def _too_large(path: str, size: int) -> UnsupportedError:
    return UnsupportedError(
        "file is too large to lay out", kind="size", file=path, found=size, expected=f"<= {LARGEST_FILE}"
    )
