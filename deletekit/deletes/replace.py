"""Replacing what hides rows of data files by position: the one place that writes deletion vectors and position deletes.

Law: a pure task: data files with their deletes, and positions, in; files and entries out. It commits nothing.

- A deletion vector (v3) takes in all that hides rows of its data file by position, and replaces the vector and the
  position delete files that are about this data file alone. Those of a partition stay: they may be about others too.
- A position delete file (v2) of granularity `file` takes in those that are about its data file alone, and replaces
  them. One of granularity `partition` comes beside what is there.
- Positions behind the end of the data file are left out. They hide nothing, but a vector's cardinality counts them, and
  there are readers that subtract it from the row count. Java keeps what it is given.
- A data file without a row left is dropped, with the deletes that are about it alone.

Spec: "Deletion Vectors", "Position Delete Files"; Java BaseDVFileWriter, SparkPositionDeltaWrite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from deletekit.deletes.delete_loader import DeleteLoader
from deletekit.deletes.delete_writers import FilePositions, write_deletion_vectors, write_position_deletes
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import referenced_path
from deletekit.deletes.write_context import WriteContext, granularity_of
from deletekit.errors import FormatError
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap

__all__ = ["HiddenRows", "Replacement", "check_rows", "existing", "own_deletes", "replace_deletes", "write_positions"]


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """Rows of a live data file that shall be hidden.

    Attributes
    ----------
    task: the data file, with all deletes that apply to it.
    positions: what is to be hidden, beside what is.
    hidden: what is hidden already, where that is known: all that deletes by position hide, and perhaps more that
        deletes by value do. None: it is read from the deletes that are replaced.
    """

    task: ScanTask
    positions: PositionBitmap
    hidden: PositionBitmap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What a `RowDelta` needs; an entry is in it once."""

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
    """Hide rows of live data files by position, in the place of the deletes that did so.

    Parameters
    ----------
    hidden: each data file once. Taken one after the other, so that what was just read is still at hand.
    granularity: of delete files, as in `write_positions`.
    rows: the rows at some positions, to be stored in position delete files.
    drops: whether data files without a row left are dropped; else they are covered whole.

    Raises FormatError when a row that is to be hidden is behind the end that the manifest tells.
    """
    merged: list[FilePositions] = []
    removed: list[ManifestEntry] = []
    dropped: list[ManifestEntry] = []
    for one in hidden:
        file = one.task.data_file
        if one.positions.count_in(0, file.record_count) < len(one.positions):
            check_rows(file, int(one.positions.to_numpy()[-1]) + 1)
        positions, replaced = _merged(write, loader, one, granularity)
        gone = positions if one.hidden is None else positions | one.hidden
        if drops and len(existing(gone, file)) == file.record_count:
            dropped.append(one.task.data)
            removed += own_deletes(one.task)
            continue
        removed += replaced
        positions = existing(positions, file)
        merged.append(FilePositions(file, positions, rows(one.task, positions) if rows is not None else None))
    return Replacement(
        added_delete_files=tuple(write_positions(write, merged, granularity)),
        # A position delete file with equal bounds is about one data file, yet may be listed by two.
        removed_delete_files=tuple({e.data_file.identity: e for e in removed}.values()),
        removed_data_files=tuple(dropped),
    )


def write_positions(
    write: WriteContext, hidden: Iterable[FilePositions], granularity: str | None = None
) -> list[DeleteFile]:
    """Write deletes by position of the kind that the format version takes, replacing nothing; no file for none.

    For data files that are new, and for groups of delete files whose replacement is the caller's matter.

    Parameters
    ----------
    granularity: `file`, a position delete file or Puffin file for each data file, or `partition`; None takes
        `write.delete.granularity`.
    """
    inside = [FilePositions(h.data_file, existing(h.positions, h.data_file), h.rows) for h in hidden]
    kind = write_deletion_vectors if write.metadata.version.has_deletion_vectors else write_position_deletes
    return kind(write, inside, granularity)


def existing(positions: PositionBitmap, file: DataFile) -> PositionBitmap:
    """The positions that lie in the data file; some writers leave others behind its end, which hide nothing."""
    if positions.count_in(0, file.record_count) == len(positions):
        return positions
    return positions.below(file.record_count)


def own_deletes(task: ScanTask) -> list[ManifestEntry]:
    """The deletes by position that are about this data file alone, and go when it goes."""
    return [entry for entry in task.deletes if _is_only_about(entry, task.data_file.file_path)]


def check_rows(file: DataFile, rows: int) -> None:
    """Raise FormatError when a data file has more rows than its entry says: they could get lost, or come back."""
    if rows > file.record_count:
        raise FormatError(
            "data file has more rows than its manifest entry says",
            kind="record-count",
            file=file.file_path,
            field="record_count",
            found=f"{rows} rows or more",
            expected=f"{file.record_count} rows",
        )


def _is_only_about(entry: ManifestEntry, path: str) -> bool:
    delete = entry.data_file
    return isinstance(delete, DeleteFile) and delete.kind != "equality-delete" and referenced_path(delete) == path


def _merged(
    write: WriteContext, loader: DeleteLoader, one: HiddenRows, granularity: str | None
) -> tuple[PositionBitmap, list[ManifestEntry]]:
    """The positions of the new delete, and the deletes that it replaces."""
    task, own = one.task, own_deletes(one.task)
    if write.metadata.version.has_deletion_vectors:
        return one.positions | (loader.positions(task) if one.hidden is None else one.hidden), own
    if not own or granularity_of(write.metadata, granularity) != "file":
        return one.positions, []
    if one.hidden is not None:
        return one.positions | one.hidden, own
    positions = one.positions
    for entry in own:
        assert isinstance(entry.data_file, DeleteFile)
        positions = positions | loader.positions_of(entry.data_file, task.data_file.file_path)
    return positions, own
