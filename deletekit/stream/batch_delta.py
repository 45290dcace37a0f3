"""Write the files of a batch of changes, and return them as one RowDelta.

With an index old rows are hidden by position, and without one they are deleted by value. Rows that the batch itself
replaces are not written.

Data and deletes of a batch have one sequence number. An equality delete applies only to strictly older files, so it
does not hide the batch's own rows. A position delete also applies to files of its own commit, so it may hide them.
Spec: "Scan Planning"; Flink BaseEqualityDeltaWriter.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.merge_previous_deletes import HiddenRows, Replacement, replace_deletes
from deletekit.deletes.read import ReadContext
from deletekit.engines.local import Engine, LocalEngine
from deletekit.formats.content_file import DataFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.rows.data_file_writer import split_by_partition, write_data_files
from deletekit.rows.row_lineage import with_row_ids
from deletekit.rows.sort_order import RowOrder
from deletekit.rows.write_context import WriteContext
from deletekit.stream.change_rows import Changes
from deletekit.stream.key_index import FileKeys, by_file
from deletekit.stream.remembered_deletes import Memory
from deletekit.stream.saved_index import Index, NewFiles, OldRows, SavedIndex
from deletekit.stream.sequence_guard import Deleted, SequenceGuard
from deletekit.stream.stored_values import filled
from deletekit.table.metadata import TableMetadata
from deletekit.verbs.shared.equality_keys import write_key_deletes

Numbers = npt.NDArray[np.int64]
_GRANULARITY = "write.delete.granularity"
# Old rows of a task. Less work than a task's start is worth makes small files.
_GROUP_HITS = 1 << 17


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """What a task did with a part of a batch: it found the old rows of its keys, and wrote their new rows.

    Attributes
    ----------
    files: the data files of the new rows, each with its keys if the index wants them.
    keys: how many keys were applied; hits: those with an old row.
    late: keys whose change was dropped by `sequence_by`; deleted: the hashes and values of its deletes.
    old: the positions of the old rows, by the number of their data file.
    """

    files: NewFiles
    keys: int
    hits: int
    old: OldRows
    late: int = 0
    deleted: Deleted | None = None


def write_by_position(
    write: WriteContext, changes: Changes, index: Index, guard: SequenceGuard | None, memory: Memory, engine: Engine
) -> WrittenRows:
    """Find the old rows of a part of a batch, and write the new ones. An updated row keeps its `_row_id`.

    Parameters
    ----------
    index: that of the attempt's base.
    guard, memory: what drops late changes; engine: where data files are read for that.
    """
    hits, known, late, deleted = index.find(changes.last.keys), None, 0, None
    if guard is not None:
        changes, hits, known, late, deleted = guard.newest_of(memory, changes, index, hits, engine)
    changes, last = filled(changes, index, known), changes.last
    files = [
        (file, FileKeys(columns=tuple(c.take(pa.array(keys)) for c in last.keys), row_ids=ids) if index.keeps else None)
        for file, keys, ids in write_last_rows(write, changes, hits.keys, index.row_ids(hits))
    ]
    old = {number: PositionBitmap(hits.positions[at]) for number, at in by_file(hits.files)}
    found = len(np.unique(hits.keys))
    return WrittenRows(files=files, keys=len(last), hits=found, old=old, late=late, deleted=deleted)


def equality_delta(write: WriteContext, specs: Sequence[PartitionSpec], changes: Changes) -> RowDelta:
    """Delete old rows by value, without looking for them, in data files of the specs in use."""
    last, fields = changes.last, changes.form.fields
    files = write_data_files(write, changes.puts.take(pa.array(last.put[last.put >= 0])))
    keys = pa.table(dict(zip([str(f.field_id) for f in fields], last.keys, strict=True)))
    deletes = write_key_deletes(write, specs, keys, fields, None) if len(last) else []
    return RowDelta(added_data_files=tuple(files), added_delete_files=tuple(deletes))


def truncate_delta(base: Base, changes: Changes) -> BatchDelta:
    """Remove all files of the head, and write the batch's own rows."""
    last = changes.last
    files = write_data_files(base.write, changes.puts.take(pa.array(last.put[last.put >= 0])))
    data, deletes = (
        tuple(base.reader.live_entries(base.snapshot, content)) if base.snapshot else ()
        for content in (ManifestContent.DATA, ManifestContent.DELETES)
    )
    delta = RowDelta(added_data_files=tuple(files), removed_data_files=data, removed_delete_files=deletes)
    return BatchDelta(delta=delta, misses=len(last), targets=frozenset(e.data_file.file_path for e in data))


def by_position(base: Base, hidden: Iterable[HiddenRows], engine: Engine = LocalEngine(1)) -> RowDelta:  # noqa: B008
    """Hide rows by deletion vectors (v3) or position deletes (v2). Remove a data file without a live row."""
    write, metadata, granularity = base.write, base.metadata, delete_granularity(base.metadata)

    def hide(some: Iterable[HiddenRows]) -> Replacement:
        return replace_deletes(write, ReadContext(write.io, metadata).loader, some, granularity=granularity)

    done = list(engine.map(hide, _dealt(hidden, getattr(engine, "threads", 1))))
    # A position delete file may be about data files of several tasks.
    removed = {e.data_file.identity: e for one in done for e in one.removed_delete_files}
    return RowDelta(
        granularity=granularity,
        removed_data_files=tuple(e for one in done for e in one.removed_data_files),
        added_delete_files=tuple(d for one in done for d in one.added_delete_files),
        removed_delete_files=tuple(removed.values()),
    )


def _dealt(hidden: Iterable[HiddenRows], workers: int) -> list[Iterable[HiddenRows]]:
    """Return the data files in order, in groups of work for a task each."""
    if workers == 1:
        return [hidden]
    held = list(hidden)
    most = max(1, min(workers, sum(len(h.positions) for h in held) // _GROUP_HITS))
    each = max(1, -(-len(held) // most))
    return [held[at : at + each] for at in range(0, len(held), each)]


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
    write: WriteContext, changes: Changes, hits: Numbers, row_ids: Numbers
) -> Iterator[tuple[DataFile, Numbers, pa.Array | None]]:
    """Write the last row of each key. Yield each data file, the numbers of its keys, and the row ids that it stores.

    A row takes over the row id of the row that it replaces, unless the batch deleted that first.

    Parameters
    ----------
    hits: the numbers of keys with an old row; row_ids: the ids of these rows; -1 for none.
    """
    last, ids = changes.last, None
    kept = np.flatnonzero(last.put >= 0)
    if write.metadata.version.has_row_lineage and len(hits):
        of_key = np.full(len(last), -1, np.int64)
        of_key[hits] = row_ids
        of_key[last.was_deleted] = -1
        ids = pa.array(of_key[kept], mask=of_key[kept] < 0)
    rows = changes.puts.take(pa.array(last.put[kept]))
    if ids is not None and ids.null_count < len(ids):
        rows = with_row_ids(rows, ids)
    for file, numbers in write_rows(write, rows):
        yield file, kept[numbers], None if ids is None else ids.take(pa.array(numbers))


def write_rows(write: WriteContext, rows: pa.Table) -> Iterator[tuple[DataFile, Numbers]]:
    """Write rows as `write_data_files`. Yield each data file with the numbers of its rows, in file order."""
    numbered, order = rows.append_column("_pos", pa.array(np.arange(len(rows)))), RowOrder.of(write.metadata)
    for _, unsorted in split_by_partition(write, numbered, write.metadata.spec):
        part = order.sorted(write.metadata, unsorted)
        numbers, start = part.column("_pos").to_numpy(), 0
        for file in write_data_files(write, part.drop_columns("_pos"), order=order):
            yield file, numbers[start : start + file.record_count]
            start += file.record_count
