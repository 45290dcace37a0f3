"""Count live rows: those of a scan, from metadata where that is exact, and those with one of some keys."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.deletes.plan import ScanTasks, plan_scan
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest, read_task
from deletekit.deletes.scan_task import ScanTask, TaskPart, task_parts
from deletekit.deletes.which_apply import is_global, partition_scope
from deletekit.engines.local import Engine
from deletekit.formats.content_file import FileContent
from deletekit.rows.keys import KeySet
from deletekit.verbs.shared.key_fields import range_of_keys

_ALL = AlwaysTrue()


def count_live_rows(
    context: ReadContext, planned: Sequence[ScanTask], engine: Engine, bound: BooleanExpression = _ALL
) -> int:
    """Return how many rows of a scan are live, and pass a bound filter.

    Without a filter, files under no delete or under a deletion vector of ours are counted from the manifests, files
    under other vectors or position deletes from those; only a filter or an equality delete opens data files.
    """
    total, is_whole = 0, isinstance(bound, AlwaysTrue)
    by_position: list[ScanTask] = []
    to_read: list[ScanTask] = []
    if is_whole and isinstance(planned, ScanTasks):
        total, planned = planned.counted()
    for task in planned:
        if not is_whole or any(d.content == FileContent.EQUALITY_DELETES for d in task.delete_files):
            to_read.append(task)
        else:
            total += task.data_file.record_count
            by_position.append(task)
    total -= sum(engine.map(lambda task: _hidden(context, task), context.loader.announced(by_position)))
    request = ReadRequest((), bound, only_live=True)
    parts = task_parts(context.loader.announced(to_read, share_keys=True))
    return total + sum(engine.map(lambda part: _count(context, part, request), parts))


def count_rows_with_keys(base: Base, keys: pa.Table, fields: Sequence[NestedField], engine: Engine) -> int:
    """Return how many live rows have one of the keys, whose columns are named by field id."""
    where = range_of_keys(keys.columns, base.metadata.schema, fields, all_keys=True) if len(keys) else None
    return count_rows_in_reach(base, {None: KeySet(keys.columns)}, fields, engine, where)


def count_rows_in_reach(
    base: Base,
    sets: Mapping[Any, KeySet],
    fields: Sequence[NestedField],
    engine: Engine,
    where: BooleanExpression | None = None,
) -> int:
    """Return how many live rows have a key of the set that reaches them: by `reach`, None for every row."""
    context, specs = ReadContext(base.table.io, base.metadata), base.metadata.specs
    request = ReadRequest(tuple(fields), only_live=True)

    def count(task: ScanTask) -> int:
        places = {None, reach(specs[task.data_file.spec_id], task.data_file.partition)}
        keys = [sets[place] for place in places if place in sets]
        return sum(_hits(keys, batch) for batch in read_task(context, task, request)) if keys else 0

    return sum(engine.map(count, plan_scan(base.metadata, base.snapshot, base.reader, where)))


def reach(spec: PartitionSpec, partition: tuple[Any, ...]) -> Any:
    """Return the scope of an equality delete of a spec and partition; None is global."""
    return None if is_global(spec) else partition_scope(spec.spec_id, partition)


def _hits(keys: Sequence[KeySet], batch: FileBatch) -> int:
    hit = np.zeros(len(batch), dtype=np.bool_)
    for key_set in keys:
        hit |= key_set.contains(batch.table.columns).to_numpy(zero_copy_only=False)
    return int(np.count_nonzero(hit & ~batch.deleted))


def _hidden(context: ReadContext, task: ScanTask) -> int:
    # Only positions that are in the file: see `VectorIndex.hidden`.
    return context.loader.positions(task).count_in(0, task.data_file.record_count)


def _count(context: ReadContext, part: TaskPart, request: ReadRequest) -> int:
    masks = ((batch.live_mask, len(batch)) for batch in read_task(context, part, request))
    return sum(rows if mask is None else mask.true_count for mask, rows in masks)
