"""Row lineage: the `_row_id` of a row, and the sequence number of the commit that last changed it.

A row that is written again, in another file, keeps both. A row that changes keeps its `_row_id`; its number is null,
which means that of its data file. A data file without stored values inherits them by position.

Spec: "Row Lineage", https://iceberg.apache.org/spec/#row-lineage
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.deferred import pc
from deletekit.formats.content_file import DataFile, ManifestEntry
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import LINEAGE_FIELDS


def has_lineage(metadata: TableMetadata, file: DataFile) -> bool:
    """Return whether the rows of a data file have row ids: not in v2, nor in files that came from v2."""
    return metadata.version.has_row_lineage and file.first_row_id is not None


def inherited(
    entry: ManifestEntry, positions: npt.NDArray[np.int64], row_ids: pa.ChunkedArray, numbers: pa.ChunkedArray
) -> list[Any]:
    """Return the row ids and last sequence numbers of rows of a data file.

    Parameters
    ----------
    positions: where the rows are in the file.
    row_ids, numbers: what the file stores; null where a row inherits.
    """
    assert isinstance(entry.data_file, DataFile)
    first = entry.data_file.first_row_id
    if first is None:
        return [pa.chunked_array([pa.nulls(len(row_ids), pa.int64())])] * 2
    by_position = pa.array(positions + first)
    number = pa.scalar(entry.sequence_number, pa.int64())
    if row_ids.null_count == numbers.null_count == len(positions):
        return [by_position, pa.repeat(number, len(positions))]
    return [pc.coalesce(row_ids, by_position), pc.coalesce(numbers, number)]


def with_row_ids(rows: pa.Table, row_ids: pa.ChunkedArray) -> pa.Table:
    """Append the lineage of changed rows: their row ids, null for a new row, and null numbers."""
    row_id, last_updated = LINEAGE_FIELDS
    nulls = pa.nulls(len(rows), pa.int64())
    return rows.append_column(row_id.name, row_ids).append_column(last_updated.name, nulls)


def stored_fields(metadata: TableMetadata, rows: pa.Table) -> Sequence[NestedField]:
    """Return the fields of rows to write: those of the table, and those of the lineage if the rows have it."""
    fields = metadata.schema.fields
    return (*fields, *LINEAGE_FIELDS) if rows.num_columns > len(fields) else fields
