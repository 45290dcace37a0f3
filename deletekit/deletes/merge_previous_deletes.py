"""Replace what hides rows of data files by position: the one way to write a deletion vector or position delete file.

- A new deletion vector (v3) merges everything that hides rows of its data file by position. It replaces the file's own
  deletes: its vector, and the position delete files that are about this file alitem. Position delete files of a whole
  partition stay, because they may also be about other data files.
- A position delete file (v2) of granularity `file` merges and replaces the own deletes of its data file. One of
  granularity `partition` is added beside what is there.
- Positions behind the end of the data file are dropped. They hide nothing. But the cardinality of a vector counts them,
  and some readers subtract it from the row count. Java keeps them.
- A data file without a live row is removed, with its own deletes.

This package writes files and commits nothing. Spec: "Deletion Vectors", "Position Delete Files"; Java BaseDVFileWriter,
SparkPositionDeltaWrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.position_delete_writer import (
    EncodedVector,
    FilePositions,
    stream_position_deletes,
    write_deletion_vectors,
    write_encoded_vectors,
    write_position_deletes,
)
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import own_deletes
from deletekit.deletes.write_context import WriteContext, granularity_of
from deletekit.errors import FormatError
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap

__all__ = [
    "EncodedVector",
    "FilePositions",
    "HiddenRows",
    "Replacement",
    "check_rows",
    "hides_all_rows",
    "positions_in_file",
    "replace_deletes",
    "stream_position_deletes",
    "write_encoded_vectors",
    "write_positions",
]


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


def write_positions(
    write: WriteContext, hidden: Iterable[FilePositions], granularity: str | None = None
) -> list[DeleteFile]:
    """Write deletion vectors (v3) or position delete files (v2) that replace nothing; for no positions, no file.

    Use it for new data files, and to combine delete files that the caller removes.

    Parameters
    ----------
    granularity: `file`, a position delete file or Puffin file for each data file, or `partition`. None takes
        `write.delete.granularity`.
    """
    inside = [FilePositions(h.data_file, positions_in_file(h.positions, h.data_file), h.rows) for h in hidden]
    kind = write_deletion_vectors if write.metadata.version.has_deletion_vectors else write_position_deletes
    return kind(write, inside, granularity)


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
        raise FormatError(
            "data file has more rows than its manifest entry says",
            kind="record-count",
            file=file.file_path,
            field="record_count",
            found=f"{rows} rows or more",
            expected=f"{file.record_count} rows",
        )


def _merged(
    write: WriteContext, loader: DeleteLoader, item: HiddenRows, granularity: str | None
) -> tuple[PositionBitmap, list[ManifestEntry]]:
    """Return the positions of the new delete, and the predecessors that it replaces."""
    task = item.task
    own = own_deletes(task.data_file.file_path, task.deletes)
    if write.metadata.version.has_deletion_vectors:
        return item.positions | (loader.positions(task) if item.hidden is None else item.hidden), own
    if not own or granularity_of(write.metadata, granularity) != "file":
        return item.positions, []
    if item.hidden is not None:
        return item.positions | item.hidden, own
    positions = item.positions
    for entry in own:
        assert isinstance(entry.data_file, DeleteFile)
        positions = positions | loader.positions_of(entry.data_file, task.data_file.file_path)
    return positions, own
