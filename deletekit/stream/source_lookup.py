"""Find the old rows of an upsert through the data source: each task looks for its own keys, with what was planned once.

Rows of data files in the table's key index are looked up there. Of the others the key columns are read by every task,
so there may be only a few. Otherwise the process that commits looks for old rows (`upsert_plan.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyiceberg.expressions import BooleanExpression
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import LocalEngine
from deletekit.formats.deletion_vector import PositionBitmap, encode_blob
from deletekit.log import tell
from deletekit.stream.key_hashes import KeyHasher, KeyHashes
from deletekit.stream.key_index import by_file
from deletekit.stream.live_rows import contains
from deletekit.stream.saved_index import RunPart, index_entry, load_index, tell_damage
from deletekit.stream.split_index import SplitIndex, covered, split_index
from deletekit.stream.split_lookup import live_in_index
from deletekit.table.index_files import DamagedIndexError

_METRICS = (
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUp:
    """What tasks need to find old rows: a value that can be pickled.

    Attributes
    ----------
    tasks: the live data files of the head, each with its deletes, without metrics of columns: each task gets them all.
    runs, places: the index, and the numbers in it of live data files with their places among `tasks`.
    others: places of the data files that are not in the index.
    entry, paths: what the summary of the commit says of the index, and the paths that this leads to.
    written: paths that were written for it.
    """

    fields: tuple[NestedField, ...]
    tasks: Sequence[ScanTask]
    runs: tuple[RunPart, ...]
    places: Mapping[int, int]
    others: Sequence[int]
    entry: Mapping[str, str]
    paths: tuple[str, ...]
    written: tuple[str, ...]

    def find(self, context: ReadContext, hashes: KeyHashes, where: BooleanExpression) -> dict[str, bytes] | None:
        """Return the positions of the live rows with some keys, as bytes by data file.

        Parameters
        ----------
        hashes: of the keys, sorted.
        where: bound filter that is true for every row with one of the keys.

        Returns None if the index is damaged, which is told to the log. Raises FormatError or NotFoundError for files of
        the table.
        """
        try:
            found = dict(self._in_index(context, hashes))
        except DamagedIndexError as e:
            tell_damage(e)
            return None
        found |= self._in_files(context, hashes, where)
        return {path: encode_blob(positions) for path, positions in found.items()}

    def _in_index(self, context: ReadContext, hashes: KeyHashes) -> Iterator[tuple[str, PositionBitmap]]:
        indexed = {number: self.tasks[place] for number, place in self.places.items()}
        hits = live_in_index(context, self.runs, indexed, self.fields, hashes)
        for number, rows in by_file(hits.files):
            yield indexed[number].data_file.file_path, PositionBitmap(hits.positions[rows])

    def _in_files(
        self, context: ReadContext, hashes: KeyHashes, where: BooleanExpression
    ) -> Iterator[tuple[str, PositionBitmap]]:
        hasher, request = KeyHasher(self.fields), ReadRequest(self.fields, where, only_live=True)
        for place in self.others:
            task = self.tasks[place]
            parts = [np.empty(0, np.int64)]
            for batch in read_task(context, task, request):
                wanted = hasher(batch.table.columns[: len(self.fields)])
                parts.append(batch.positions(contains(hashes, wanted) & batch.live))
            positions = PositionBitmap(np.concatenate(parts))
            if positions:
                yield task.data_file.file_path, positions


def look_up(base: Base, fields: tuple[NestedField, ...], *, keep: bool) -> LookUp | None:
    """Plan the look-ups of tasks on a head; None if too many data files are in no index.

    Parameters
    ----------
    keep: make an index, or extend the table's, with what it lacks. Otherwise only one that has most rows is used.
    """
    tasks = list(plan_scan(base.metadata, base.snapshot, base.reader))
    try:
        index = _index(base, fields, tasks, keep=keep)
    except DamagedIndexError as e:
        tell_damage(e)
        base.write.discard()
        if not keep:
            return None
        index = split_index(base, tasks, fields, LocalEngine(), None, load=False)
    if index is None:
        return None
    entry, paths = index_entry(base, fields, index.saved if index.is_new else None, keeps=index.saved is not None)
    tell("key-index", indexed=len(index.places), others=len(index.others), new=index.is_new)
    return LookUp(
        fields=fields,
        tasks=[_without_metrics(task) for task in tasks],
        runs=index.parts,
        places=index.places,
        others=index.others,
        entry=entry,
        paths=paths,
        written=tuple(base.write.written),
    )


def _without_metrics(task: ScanTask) -> ScanTask:
    none: dict[str, Any] = dict.fromkeys(_METRICS)
    file = replace(task.data_file, **none)
    return replace(task, data=replace(task.data, data_file=file))


def _index(base: Base, fields: tuple[NestedField, ...], tasks: Sequence[ScanTask], *, keep: bool) -> SplitIndex | None:
    saved = load_index(base.table.io, base.metadata, base.snapshot, fields)
    found = covered(saved, is_new=False, tasks=tasks)
    if not keep and found.lacks_many(tasks):
        rows = [task.data_file.record_count for task in tasks]
        if 2 * sum(rows[place] for place in found.others) > sum(rows):
            return None
    return split_index(base, tasks, fields, LocalEngine(), saved)
