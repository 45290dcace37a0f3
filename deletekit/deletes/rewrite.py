"""Rewriting data files into others with the same live rows.

Law: a pure task over one group of data files. Every delete that applies to a file is applied; every row keeps its row
lineage; rows go to the partitions of the table's current spec. It commits nothing.
Spec: "Row-level Deletes", "Row Lineage"; Java SparkBinPackFileRewriteRunner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from deletekit.deletes.data_file_writer import write_data_files
from deletekit.deletes.plan import ScanTask
from deletekit.deletes.read import LINEAGE_FIELDS, ReadContext, ReadRequest, read_task
from deletekit.deletes.replace import existing
from deletekit.deletes.write_context import WriteContext
from deletekit.formats.content_file import DataFile
from deletekit.formats.deletion_vector import PositionBitmap

__all__ = ["deleted_positions", "existing_positions", "live_share", "rewrite_data_files"]


def live_share(context: ReadContext, task: ScanTask) -> float:
    """The share of a data file's rows that deletes by position leave; equality deletes are not looked at."""
    rows = task.data_file.record_count
    return 1 - context.loader.positions(task).count_in(0, rows) / rows if rows else 0.0


def rewrite_data_files(
    context: ReadContext,
    write: WriteContext,
    tasks: Sequence[ScanTask],
    rows_per_file: int | None = None,
    drop: BooleanExpression | None = None,
) -> list[DataFile]:
    """The live rows of some data files, in their order, in new data files; none for no rows.

    Parameters
    ----------
    rows_per_file: how many rows a new file gets at the most; None decides by size.
    drop: bound filter; rows for which it is true are left out.

    Raises FormatError and NotFoundError for files that cannot be read. Files written before that stay `write`'s to
    discard.
    """
    lineage = context.metadata.version.has_row_lineage and any(t.data_file.first_row_id is not None for t in tasks)
    request = ReadRequest(tuple(context.metadata.schema.fields), drop or AlwaysTrue(), lineage)
    fields = LINEAGE_FIELDS if lineage else ()
    out: list[DataFile] = []
    for rows in _chunks(_live_rows(context, tasks, request, drops=drop is not None), rows_per_file):
        out += write_data_files(write, rows, context.metadata.spec, fields, rows_per_file)
    return out


def _live_rows(
    context: ReadContext, tasks: Sequence[ScanTask], request: ReadRequest, *, drops: bool
) -> Iterator[pa.Table]:
    for task in tasks:
        for batch in read_task(context, task, request):
            keep = ~batch.deleted & ~batch.selected if drops else ~batch.deleted
            if keep.any():
                yield batch.table if keep.all() else batch.table.filter(pa.array(keep))


def _chunks(tables: Iterator[pa.Table], rows: int | None) -> Iterator[pa.Table]:
    """Tables of so many rows, the last one of what is left; one table when there is no limit."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += len(table)
        while rows is not None and count >= rows:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, rows)
            waiting, count = [joined.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(waiting)


def deleted_positions(context: ReadContext, task: ScanTask) -> PositionBitmap:
    """Positions of a data file that any of its deletes hides, those by value too."""
    parts = [b.positions(b.deleted) for b in read_task(context, task, ReadRequest(()))]
    return PositionBitmap(np.concatenate(parts)) if parts else PositionBitmap()


def existing_positions(context: ReadContext, task: ScanTask) -> PositionBitmap:
    """What deletes by position hide of a data file, without positions behind its end, which some writers leave."""
    return existing(context.loader.positions(task), task.data_file)
