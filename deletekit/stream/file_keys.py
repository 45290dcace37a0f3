"""Hold the keys of one data file's rows, from its writer or read from the file.

All rows of the file are there, in order, hidden ones too, so that the index of a key is its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.table.types import arrow_type


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKeys:
    """Key columns of a data file.

    Attributes
    ----------
    hidden: True for each row that a delete hides; None if no row is hidden.
    row_ids: the `_row_id` of each row if the file stores them; None if they follow from `first_row_id`.
    """

    columns: tuple[Any, ...]
    hidden: npt.NDArray[np.bool_] | None = None
    row_ids: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.columns[0])


def read_file_keys(context: ReadContext, task: ScanTask, fields: Sequence[NestedField]) -> FileKeys:
    """Read the keys of a data file, and what its deletes hide. Raise FormatError or NotFoundError."""
    first = task.data_file.first_row_id
    request = ReadRequest(tuple(fields), lineage=first is not None)
    tables, hidden = [], []
    for batch in read_task(context, task, request):
        tables.append(batch.table)
        hidden.append(batch.deleted)
    kinds = [arrow_type(f.field_type) for f in fields]
    columns = tuple(
        pa.chunked_array([c for t in tables for c in t.column(i).chunks], type=kind) for i, kind in enumerate(kinds)
    )
    return FileKeys(
        columns=columns,
        hidden=np.concatenate(hidden) if task.deletes and hidden else None,
        row_ids=None if first is None else _stored_ids(tables, first),
    )


def _stored_ids(tables: Sequence[pa.Table], first_row_id: int) -> pa.Array | None:
    """Return the row ids, or None if each follows from its position."""
    parts = [t.column("_row_id").to_numpy() for t in tables]
    ids = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return None if (ids == first_row_id + np.arange(len(ids))).all() else pa.array(ids)
