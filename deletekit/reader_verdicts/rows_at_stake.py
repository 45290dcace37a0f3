"""Count the rows that each kind of delete hides: those that come back in an engine that does not apply it.

Exact counts read delete files, and key columns of data files with equality deletes. Metadata alone gives an upper
bound: a key may hide many rows, two deletes the same row, and a position may lie behind the end of its file.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyiceberg.partitioning import PartitionSpec

from deletekit.deletes.read import ReadContext, deleted_positions
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.verdict import reason_of
from deletekit.deletes.which_apply import is_old_enough
from deletekit.engines.local import Engine
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry, partition_key

BROKEN = frozenset({"partition-scope", "spec-scope", "strictly-older", "older-data-only"})
"""The rules without which equality deletes hide live rows."""

MIXED_UP = "vector-at-its-offset"
"""The rule without which a vector of a Puffin file is taken for another one of it."""

_TRAILER_BYTES = 12
_LONGEST_WAY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOfKinds:
    """Rows that deletes of these kinds hide, each row by every one of the kinds.

    Attributes
    ----------
    exact: whether it is this number; else it is at most so many.
    """

    kinds: tuple[str, ...]
    rows: int
    exact: bool = True

    def __str__(self) -> str:
        return f"{'' if self.exact else 'at most '}{self.rows:,} hidden by {' and by '.join(self.kinds)}"


def rows_at_stake(
    context: ReadContext, tasks: Sequence[ScanTask], engine: Engine, *, exact: bool
) -> tuple[RowsOfKinds, ...]:
    """Return how many rows deletes hide in these data files, by the kinds that hide a row.

    Raises FormatError, NotFoundError for files that cannot be read.
    """
    total: Counter[tuple[str, ...]] = Counter()
    counts: Iterable[Mapping[tuple[str, ...], int]]
    counts = engine.map(partial(_counted, context), tasks) if exact else map(_at_most, tasks)
    for found in counts:
        total.update(found)
    return tuple(RowsOfKinds(kinds=k, rows=n, exact=exact or n == 0) for k, n in sorted(total.items()))


def rows_if_ignored(hidden: Iterable[RowsOfKinds], kinds: Collection[str]) -> RowsOfKinds:
    """Return how many rows come back if deletes of these kinds are not applied, and all others are."""
    back = [h for h in hidden if set(h.kinds) <= set(kinds)]
    rows = sum(h.rows for h in back)
    return RowsOfKinds(kinds=tuple(sorted(kinds)), rows=rows, exact=all(h.exact for h in back))


def rows_lost(
    context: ReadContext,
    tasks: Sequence[ScanTask],
    deletes: Sequence[ManifestEntry],
    engine: Engine,
    rule: str,
    *,
    exact: bool,
) -> RowsOfKinds:
    """Return how many live rows equality deletes would hide if one rule of `BROKEN` did not hold.

    Parameters
    ----------
    tasks: those of a scan of the whole snapshot.
    deletes: the live deletes of the snapshot.
    """
    by_value = [d for d in deletes if d.data_file.content == FileContent.EQUALITY_DELETES]

    def lost(task: ScanTask) -> int:
        wrong = tuple(d for d in by_value if _hides_without(rule, d, task.data, context.metadata.specs))
        if not wrong or not exact:
            return task.data_file.record_count if wrong else 0
        hidden = deleted_positions(context, task) if task.deletes else context.loader.positions(task)
        return len(deleted_positions(context, ScanTask(task.data, wrong)) - hidden)

    rows = sum(engine.map(lost, tasks))
    return RowsOfKinds(kinds=("equality-delete",), rows=rows, exact=exact or rows == 0)


def rows_mixed_up(deletes: Iterable[DeleteFile]) -> RowsOfKinds:
    """Return how many rows at most come back and are lost if the vectors of `mixed_up_vectors` are mixed up."""
    rows = sum(vector.record_count + taken.record_count for vector, taken in mixed_up_vectors(deletes))
    return RowsOfKinds(kinds=("deletion-vector",), rows=rows, exact=False)


def mixed_up_vectors(deletes: Iterable[DeleteFile]) -> list[tuple[DeleteFile, DeleteFile]]:
    """Return the vectors that DuckDB 1.5.5 takes for others: each with the one that it takes instead.

    It keeps what it reads of a Puffin file, the last twelve bytes first. A read goes on to the next one that it has, if
    the way there is not longer than what was asked for. For each vector in such a read it takes the first one.

    Parameters
    ----------
    deletes: those of a snapshot, in the order in which manifests list them.
    """
    files: dict[str, list[DeleteFile]] = {}
    for delete in deletes:
        if delete.is_deletion_vector:
            files.setdefault(delete.file_path, []).append(delete)
    return [pair for vectors in files.values() if len(vectors) > 1 for pair in _mixed_up(vectors)]


def _mixed_up(vectors: Sequence[DeleteFile]) -> Iterator[tuple[DeleteFile, DeleteFile]]:
    size = vectors[0].file_size_in_bytes
    starts, ends, first = [size - _TRAILER_BYTES], {size - _TRAILER_BYTES: size}, dict[int, DeleteFile]()
    for vector in vectors:
        start, length = vector.content_offset or 0, vector.content_size_in_bytes or 0
        end, place = start + length, bisect_right(starts, start)
        before = starts[place - 1] if place else None
        if before is not None and end <= ends[before]:
            if before != start and before in first:
                yield vector, first[before]
            continue
        after = starts[bisect_left(starts, end) :][:1]
        way = after[0] - end if after else _LONGEST_WAY_BYTES + 1
        insort(starts, start)
        ends[start] = end + way if way <= min(length, _LONGEST_WAY_BYTES) else end
        first[start] = vector


def _hides_without(rule: str, delete: ManifestEntry, data: ManifestEntry, specs: Mapping[int, PartitionSpec]) -> bool:
    """Tell whether an equality delete applies to a data file only in a reader that breaks a rule."""
    reason = reason_of(delete, data, specs)
    if rule in ("strictly-older", "older-data-only"):
        return reason == "older" and (rule == "older-data-only" or delete.sequence_number == data.sequence_number)
    same = partition_key(delete.data_file.partition) == partition_key(data.data_file.partition)
    return reason == "scope" and is_old_enough(data, delete) and (rule == "partition-scope" or same)


def _counted(context: ReadContext, task: ScanTask) -> Mapping[tuple[str, ...], int]:
    by_value = tuple(d for d in task.deletes if d.data_file.content == FileContent.EQUALITY_DELETES)
    by_position = {d.kind for d in task.delete_files} - {"equality-delete"}
    positions = context.loader.positions(task).below(task.data_file.record_count)
    kind = min(by_position, default="")
    if not by_value:
        return {(kind,): len(positions)}
    values = deleted_positions(context, ScanTask(task.data, by_value))
    both = len(values) + len(positions) - len(values | positions)
    alone = {("equality-delete",): len(values) - both}
    return alone | ({(kind,): len(positions) - both, ("equality-delete", kind): both} if kind else {})


def _at_most(task: ScanTask) -> Mapping[tuple[str, ...], int]:
    rows = task.data_file.record_count
    found: Counter[tuple[str, ...]] = Counter()
    for delete in task.delete_files:
        found[(delete.kind,)] += rows if delete.kind == "equality-delete" else delete.record_count
    return {kinds: min(count, rows) for kinds, count in found.items()}
