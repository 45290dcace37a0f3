"""Rewrite a group of data files as new ones with the same live rows, for compaction and erasure.

Every delete that applies to a file is applied. Every row keeps its lineage and goes to its partition of the table's
current spec. Nothing is committed.
Spec: "Row-level Deletes", "Row Lineage"; Java SparkBinPackFileRewriteRunner.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.formats.content_file import DataFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.rows.data_file_writer import in_pieces, write_data_files
from deletekit.rows.rolling_files import HELD_BYTES
from deletekit.rows.row_lineage import has_lineage
from deletekit.rows.sort_order import RowOrder
from deletekit.rows.write_context import WriteContext


def live_share(context: ReadContext, task: ScanTask) -> float:
    """Return the share of a data file's rows that no delete by position hides; equality deletes are not read."""
    rows = task.data_file.record_count
    return 1 - context.loader.positions(task).count_in(0, rows) / rows if rows else 0.0


def rewrite_data_files(
    context: ReadContext,
    write: WriteContext,
    tasks: Sequence[ScanTask],
    rows_per_file: int | None = None,
    drop: BooleanExpression | None = None,
    gone: PositionBitmap | None = None,
    order: RowOrder | None = None,
    seen: Callable[[pa.Table], None] | None = None,
) -> list[DataFile]:
    """Write the live rows of data files to new data files, in their order or another; for no rows, no file.

    Parameters
    ----------
    rows_per_file: how many rows a new file gets at most; None decides by size.
    drop: bound filter; rows for which it is true are left out.
    gone: positions of further rows to leave out, of the one data file of `tasks`.
    order: sort all rows of a partition by it, which takes all of them in memory. None sorts them by the table's if they
        are few enough to be held, else not at all, as Java's bin-packing.
    seen: is called with the rows to write as they come, before they are sorted and divided: the table's columns, then
        the lineage's if it is stored.

    Raises FormatError or NotFoundError for files that cannot be read. `write.discard` removes what was written before.
    """
    lineage = any(has_lineage(context.metadata, t.data_file) for t in tasks)
    request = ReadRequest(tuple(context.metadata.schema.fields), drop or AlwaysTrue(), lineage)

    def live_rows() -> Iterator[pa.Table]:
        for batch in chain.from_iterable(read_task(context, task, request) for task in tasks):
            keep = ~batch.deleted if drop is None else ~batch.deleted & ~batch.selected
            if gone is not None:
                keep &= ~gone.mask(batch.first_position, len(batch))
            if keep.any():
                rows = batch.table if keep.all() else batch.table.filter(pa.array(keep))
                if seen is not None:
                    seen(rows)
                yield rows

    if order is None and not RowOrder.of(write.metadata).fields:
        return write_data_files(write, live_rows(), rows_per_file)
    if order is None:
        # Sorted a piece at a time, each piece would be a file of its own, and small files would never become fewer.
        pieces = in_pieces(live_rows(), HELD_BYTES)
        first = list(islice(pieces, 2))
        return write_data_files(write, chain(first, pieces), rows_per_file, RowOrder() if len(first) > 1 else None)
    tables = list(live_rows())
    return write_data_files(write, pa.concat_tables(tables), rows_per_file, order) if tables else []
