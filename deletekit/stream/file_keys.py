"""Read the key columns of data files, and turn them into rows of the key index."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.stream.key_hashes import KeyHasher
from deletekit.stream.key_index import NO_ID, IndexRows, pack
from deletekit.table.types import arrow_type


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKeys:
    """Key columns of a data file, from its writer or read from the file.

    All rows of the file are there, in order, hidden ones too, so that the index of a key is its position.

    Attributes
    ----------
    row_ids: the `_row_id` of each row, null where it follows from `first_row_id`; None if all do.
    """

    columns: tuple[Any, ...]
    row_ids: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.columns[0])


def read_file_keys(context: ReadContext, task: ScanTask, fields: Sequence[NestedField]) -> FileKeys:
    """Read the keys of a data file, of hidden rows too. Raise FormatError or NotFoundError."""
    first = task.data_file.first_row_id
    request = ReadRequest(tuple(fields), lineage=first is not None)
    tables = [batch.table for batch in read_task(context, replace(task, deletes=()), request)]
    kinds = [arrow_type(f.field_type) for f in fields]
    columns = tuple(
        pa.chunked_array([c for t in tables for c in t.column(i).chunks], type=kind) for i, kind in enumerate(kinds)
    )
    row_ids = None
    if first is not None:
        ids = np.concatenate([np.empty(0, np.int64), *(t.column("_row_id").to_numpy() for t in tables)])
        inherited = ids == first + np.arange(len(ids))
        row_ids = None if inherited.all() else pa.array(ids, mask=inherited)
    return FileKeys(columns=columns, row_ids=row_ids)


def kept_keys(rows: pa.Table) -> FileKeys:
    """Return the keys of a data file from the columns that its writer kept: the key's, then the row ids, if any."""
    has_ids = rows.column_names[-1] == "_row_id"
    columns = rows.columns[:-1] if has_ids else rows.columns
    return FileKeys(columns=tuple(columns), row_ids=rows.column("_row_id") if has_ids else None)


def index_rows(hasher: KeyHasher, number: int, keys: FileKeys) -> IndexRows:
    """Return the rows of a data file for the index. Raise UnsupportedError for a file with too many rows."""
    hashes = hasher(keys.columns)
    ids = None
    if keys.row_ids is not None and keys.row_ids.null_count < len(keys):
        ids = keys.row_ids.fill_null(NO_ID).to_numpy()
    return IndexRows(hashes, pack(number, np.arange(len(keys)), hashes.is_null), ids)
