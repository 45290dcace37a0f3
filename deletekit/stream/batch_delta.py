"""What a batch of changes becomes: data files, deletes, and one RowDelta.

| mode       | old rows of the batch's keys                       | rows that the batch itself replaces  |
|------------|----------------------------------------------------|--------------------------------------|
| indexed    | by position where the index finds them; all by     | are not written                      |
|            | value where the index is not complete              |                                      |
| eq-only    | by value                                           | are not written                      |
| flink      | by value                                           | are written, and hidden by position  |

Law: data and deletes of a batch have one sequence number, so that an equality delete, which hides what is older, spares
the batch's own rows, and a delete by position, which hides what is not newer, may be about them.
Spec: "Scan Planning"; Flink BaseEqualityDeltaWriter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import NestedField

from deletekit.commit.change import Base, RowDelta
from deletekit.deletes.data_file_writer import split_by_partition, write_data_files
from deletekit.deletes.read import LINEAGE_FIELDS, ReadContext
from deletekit.deletes.replace import FilePositions, HiddenRows, replace_deletes, write_positions
from deletekit.deletes.write_context import WriteContext
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.stream.change_rows import Changes, Folded
from deletekit.stream.file_keys import FileKeys
from deletekit.stream.table_index import Hits, TableIndex, by_file
from deletekit.verbs.shared.equality_keys import specs_in_use, write_key_deletes

__all__ = [
    "BatchDelta",
    "by_position",
    "equality_delta",
    "flink_delta",
    "indexed_delta",
    "write_rows",
]

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDelta:
    """A batch, written.

    Attributes
    ----------
    hits: keys whose old row was found; misses: the others.
    targets: paths of the data files in which old rows were found.
    """

    delta: RowDelta
    hits: int = 0
    misses: int = 0
    targets: frozenset[str] = frozenset()


def indexed_delta(base: Base, changes: Changes, folded: Folded, index: TableIndex) -> BatchDelta:
    """Old rows by their place in the index, which must be that of the attempt's base.

    By value where the index is not complete, also those that it finds: an older row of a key may be outside of it.
    An updated row keeps its `_row_id`. The index is told what it need not read when it next catches up.
    """
    hits = index.find(folded.keys)
    found = np.zeros(len(folded), np.bool_)
    found[hits.keys] = True
    kept = np.flatnonzero(folded.put >= 0)
    rows = changes.puts.take(pa.array(folded.put[kept]))
    row_ids = _row_ids(base, folded, index, hits, kept)
    files, written = [], {}
    for file, numbers in write_rows(base.write, rows, row_ids):
        files.append(file)
        columns = tuple(c.take(pa.array(kept[numbers])) for c in folded.keys)
        own = None if row_ids is None else row_ids.take(pa.array(numbers))
        written[file.file_path] = FileKeys(columns=columns, row_ids=own)
    unknown = np.empty(0, np.int64) if index.is_complete else np.arange(len(folded))
    gone = [(n, PositionBitmap(hits.positions[at])) for n, at in by_file(hits.files) if index.is_complete]
    killed = [HiddenRows(index.task(n), positions, index.hidden(n)) for n, positions in gone]
    delta = by_position(base, killed)
    delta = replace(
        delta,
        added_data_files=tuple(files),
        added_delete_files=(*delta.added_delete_files, *_by_value(base, folded, unknown, index.fields)),
    )
    index.expect(written, delta.added_delete_files, hits)
    return BatchDelta(
        delta=delta,
        hits=int(found.sum()),
        misses=int((~found).sum()),
        targets=frozenset(k.task.data_file.file_path for k in killed),
    )


def equality_delta(base: Base, changes: Changes, folded: Folded, fields: Sequence[NestedField]) -> BatchDelta:
    """Old rows by value, without looking for them."""
    rows = changes.puts.take(pa.array(folded.put[folded.put >= 0]))
    files = [file for file, _ in write_rows(base.write, rows)]
    deletes = _by_value(base, folded, np.arange(len(folded)), fields)
    delta = RowDelta(added_data_files=tuple(files), added_delete_files=tuple(deletes))
    return BatchDelta(delta=delta, misses=len(folded))


def flink_delta(base: Base, changes: Changes, folded: Folded, fields: Sequence[NestedField]) -> BatchDelta:
    """As Flink's upsert sink: every row that is put is written; those that a later change replaces are hidden again."""
    numbers = changes.put_of[changes.order]
    numbers = numbers[numbers >= 0]
    files, hidden = [], []
    for file, rows in write_rows(base.write, changes.puts.take(pa.array(numbers))):
        files.append(file)
        hidden.append(FilePositions(file, PositionBitmap(np.flatnonzero(~np.isin(numbers[rows], folded.put)))))
    deletes = _by_value(base, folded, np.arange(len(folded)), fields)
    deletes += write_positions(base.write, hidden)
    hits = sum(len(h.positions) for h in hidden)
    delta = RowDelta(added_data_files=tuple(files), added_delete_files=tuple(deletes))
    return BatchDelta(delta=delta, hits=hits, misses=len(folded))


def by_position(base: Base, killed: Sequence[HiddenRows]) -> RowDelta:
    """Deletion vectors (v3) or position deletes (v2) for rows that go; a data file that has no row left goes whole."""
    loader = ReadContext(base.table.io, base.metadata).loader
    done = replace_deletes(base.write, loader, killed)
    return RowDelta(
        removed_data_files=done.removed_data_files,
        added_delete_files=done.added_delete_files,
        removed_delete_files=done.removed_delete_files,
    )


def write_rows(
    write: WriteContext, rows: pa.Table, row_ids: pa.Array | None = None
) -> Iterator[tuple[DataFile, Numbers]]:
    """Write rows of the table's columns; gives each data file with the numbers of its rows, in their order there.

    `row_ids` are stored, when there are any; null for a row that gets one by its place.
    """
    spec = write.metadata.spec
    lineage = LINEAGE_FIELDS if row_ids is not None and row_ids.null_count < len(row_ids) else ()
    if lineage:
        rows = rows.append_column(LINEAGE_FIELDS[0].name, row_ids)
        rows = rows.append_column(LINEAGE_FIELDS[1].name, pa.nulls(len(rows), pa.int64()))
    numbered = rows.append_column("_pos", pa.array(np.arange(len(rows))))
    for _, part in split_by_partition(write, numbered, spec):
        numbers, start = part.column("_pos").to_numpy(), 0
        for file in write_data_files(write, part.drop_columns("_pos"), spec, lineage):
            yield file, numbers[start : start + file.record_count]
            start += file.record_count


def _by_value(base: Base, folded: Folded, numbers: Numbers, fields: Sequence[NestedField]) -> list[DeleteFile]:
    if not len(numbers):
        return []
    columns = [c.take(pa.array(numbers)) for c in folded.keys]
    keys = pa.table(dict(zip([str(f.field_id) for f in fields], columns, strict=True)))
    return write_key_deletes(base.write, specs_in_use(base), keys, fields, None)


def _row_ids(base: Base, folded: Folded, index: TableIndex, hits: Hits, kept: Numbers) -> pa.Array | None:
    """The row id that each row takes over from the row in whose place it comes; null where there is none."""
    if not base.metadata.version.has_row_lineage or not len(hits):
        return None
    of_key = np.full(len(folded), -1, np.int64)
    of_key[hits.keys] = index.row_ids(hits).fill_null(-1).to_numpy()
    of_key[folded.renewed] = -1
    return pa.array(of_key[kept], mask=of_key[kept] < 0)
