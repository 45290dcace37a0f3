"""Hiding rows whose positions are known, as a delete does: merged with what hides rows of their files already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deletekit.deletes.plan import ScanTask
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest
from deletekit.deletes.row_change import ChangeOptions, ChangeResult, change_files
from deletekit.deletes.write_context import WriteContext, check_parquet_only, granularity_of
from deletekit.formats.deletion_vector import PositionBitmap

__all__ = ["hide_positions"]


def hide_positions(
    context: ReadContext, write: WriteContext, rows: Iterable[tuple[ScanTask, PositionBitmap]]
) -> ChangeResult:
    """Write deletion vectors (v3) or position deletes (v2) for rows, each task's positions of its data file.

    A data file without a live row left is dropped. Raises InvalidInputError for delete files that are not Parquet.
    """
    rows = list(rows)
    if not rows:
        return ChangeResult()
    kind = context.metadata.version.position_delete_kind
    if kind == "position-delete":
        check_parquet_only(context.metadata, "write.delete.format.default")
    options = ChangeOptions(kind, granularity_of(context.metadata))
    done = ChangeResult()
    for task, positions in rows:
        one = change_files(context, write, [task], _Rows(positions), options)
        done.added_delete_files += one.added_delete_files
        done.removed_delete_files += one.removed_delete_files
        done.removed_data_files += one.removed_data_files
    return done


@dataclass
class _Rows:
    """The change that removes rows of one data file by position."""

    positions: PositionBitmap
    request: ReadRequest = field(default_factory=lambda: ReadRequest(()))
    replaces: bool = False

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], None]:
        return self.positions.mask(batch.first_position, len(batch)) & ~batch.deleted, None

    def new_rows(self, current: pa.Table, index: npt.NDArray[np.int64] | None) -> pa.Table:
        raise NotImplementedError  # nothing is replaced
