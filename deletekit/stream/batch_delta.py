"""Write the files of a batch of changes, and return them as one RowDelta.

With an index old rows are hidden by position, and without one they are deleted by value. Rows that the batch itself
replaces are not written.

Data and deletes of a batch have one sequence number. An equality delete applies only to strictly older files, so it
does not hide the batch's own rows. A position delete also applies to files of its own commit, so it may hide them.
Spec: "Scan Planning"; Flink BaseEqualityDeltaWriter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.merge_previous_deletes import HiddenRows, replace_deletes
from deletekit.deletes.read import ReadContext
from deletekit.formats.content_file import DataFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.rows.data_file_writer import split_by_partition, write_data_files
from deletekit.rows.row_lineage import with_row_ids
from deletekit.rows.sort_order import RowOrder
from deletekit.rows.write_context import WriteContext
from deletekit.stream.change_rows import Changes
from deletekit.stream.key_index import FileKeys, by_file
from deletekit.stream.saved_index import SavedIndex
from deletekit.stream.table_index import TableIndex
from deletekit.table.metadata import TableMetadata
from deletekit.verbs.shared.equality_keys import write_key_deletes

Numbers = npt.NDArray[np.int64]
_GRANULARITY = "write.delete.granularity"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDelta:
    """The files of a batch.

    Attributes
    ----------
    hits: keys with a known old row; misses: the other keys.
    targets: paths of the data files in which old rows were found.
    index: the index that was saved with them.
    """

    delta: RowDelta
    hits: int = 0
    misses: int = 0
    targets: frozenset[str] = frozenset()
    index: SavedIndex | None = None


def indexed_delta(base: Base, changes: Changes, index: TableIndex) -> BatchDelta:
    """Delete old rows by their positions in the index, which must be that of the attempt's base.

    An updated row keeps its `_row_id`. The index is told which files it need not read when it next catches up, and is
    saved.
    """
    last = changes.last
    hits = index.find(last.keys)
    found = np.zeros(len(last), np.bool_)
    found[hits.keys] = True
    written = [
        (file, FileKeys(columns=tuple(c.take(pa.array(keys)) for c in last.keys), row_ids=ids))
        for file, keys, ids in write_last_rows(base.write, changes, hits.keys, index.row_ids(hits))
    ]
    hidden = [
        HiddenRows(file.task, PositionBitmap(hits.positions[at]), file.hidden)
        for file, at in ((index.file(number), at) for number, at in index.in_scan_order(by_file(hits.files)))
    ]
    delta = by_position(base, hidden)
    delta = replace(delta, added_data_files=tuple(file for file, _ in written))
    index.expect(written, delta.added_delete_files, hits)
    return BatchDelta(
        index=index.save(base),
        delta=delta,
        hits=int(found.sum()),
        misses=int((~found).sum()),
        targets=frozenset(k.task.data_file.file_path for k in hidden),
    )


def equality_delta(write: WriteContext, specs: Sequence[PartitionSpec], changes: Changes) -> BatchDelta:
    """Delete old rows by value, without looking for them, in data files of the specs in use."""
    last = changes.last
    rows = changes.puts.take(pa.array(last.put[last.put >= 0]))
    files = [file for file, _ in write_rows(write, rows)]
    fields = changes.form.fields
    keys = pa.table(dict(zip([str(f.field_id) for f in fields], last.keys, strict=True)))
    deletes = write_key_deletes(write, specs, keys, fields, None) if len(last) else []
    delta = RowDelta(added_data_files=tuple(files), added_delete_files=tuple(deletes))
    return BatchDelta(delta=delta, misses=len(last))


def truncate_delta(base: Base, changes: Changes) -> BatchDelta:
    """Remove all files of the head, and write the batch's own rows."""
    last = changes.last
    files = [file for file, _ in write_rows(base.write, changes.puts.take(pa.array(last.put[last.put >= 0])))]
    old = [
        tuple(base.reader.live_entries(base.snapshot, content)) if base.snapshot else () for content in ManifestContent
    ]
    data, deletes = old[ManifestContent.DATA], old[ManifestContent.DELETES]
    delta = RowDelta(
        added_data_files=tuple(files),
        removed_data_files=data,
        removed_delete_files=deletes,
    )
    return BatchDelta(delta=delta, misses=len(last), targets=frozenset(e.data_file.file_path for e in data))


def by_position(base: Base, hidden: Sequence[HiddenRows]) -> RowDelta:
    """Hide rows by deletion vectors (v3) or position deletes (v2). Remove a data file without a live row."""
    granularity = delete_granularity(base.metadata)
    loader = ReadContext(base.table.io, base.metadata).loader
    done = replace_deletes(base.write, loader, hidden, granularity=granularity)
    return RowDelta(
        granularity=granularity,
        removed_data_files=done.removed_data_files,
        added_delete_files=done.added_delete_files,
        removed_delete_files=done.removed_delete_files,
    )


def delete_granularity(metadata: TableMetadata) -> str | None:
    """Return the granularity of a stream's deletes by position; None: `write.delete.granularity`, or its default.

    A position delete file (v2) is about one data file, unless the property says otherwise. So the next one replaces it,
    and neither grows in number with the batches nor is in the way of compaction. The deletion vectors (v3) of a batch
    are in one Puffin file.
    """
    if metadata.version.has_deletion_vectors or _GRANULARITY in metadata.properties:
        return None
    return "file"


def write_last_rows(
    write: WriteContext, changes: Changes, hits: Numbers, row_ids: pa.Array
) -> Iterator[tuple[DataFile, Numbers, pa.Array | None]]:
    """Write the last row of each key. Yield each data file, the numbers of its keys, and the row ids that it stores.

    A row takes over the row id of the row that it replaces, unless the batch deleted that first.

    Parameters
    ----------
    hits: the numbers of keys with an old row; row_ids: the ids of these rows; null or -1 for none.
    """
    last, ids = changes.last, None
    kept = np.flatnonzero(last.put >= 0)
    if write.metadata.version.has_row_lineage and len(hits):
        of_key = np.full(len(last), -1, np.int64)
        of_key[hits] = row_ids.fill_null(-1).to_numpy()
        of_key[last.was_deleted] = -1
        ids = pa.array(of_key[kept], mask=of_key[kept] < 0)
    for file, numbers in write_rows(write, changes.puts.take(pa.array(last.put[kept])), ids):
        yield file, kept[numbers], None if ids is None else ids.take(pa.array(numbers))


def write_rows(
    write: WriteContext, rows: pa.Table, row_ids: pa.Array | None = None
) -> Iterator[tuple[DataFile, Numbers]]:
    """Write rows of the table's columns. Yield each data file with the numbers of its rows, in file order.

    `row_ids` are stored, if there are any; null for a row whose id follows from its position.
    """
    if row_ids is not None and row_ids.null_count < len(row_ids):
        rows = with_row_ids(rows, row_ids)
    numbered = rows.append_column("_pos", pa.array(np.arange(len(rows))))
    order = RowOrder.of(write.metadata)
    for _, unsorted in split_by_partition(write, numbered, write.metadata.spec):
        part = order.sorted(write.metadata, unsorted)
        numbers, start = part.column("_pos").to_numpy(), 0
        for file in write_data_files(write, part.drop_columns("_pos"), order=order):
            yield file, numbers[start : start + file.record_count]
            start += file.record_count
