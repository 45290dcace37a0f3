"""Extend a table's key index on Spark's executors: tasks read the keys of new data files and write the runs.

The driver plans, and writes the root. It gets what the root says of each run. Data files that are not in the index are
searched by reading their keys, so the index is extended only when there are some of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyiceberg.types import NestedField

from deletekit.commit.change import Base
from deletekit.deletes.read import ReadContext
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.write_context import WriteContext
from deletekit.engines.local import Engine
from deletekit.stream.file_keys import index_rows, read_file_keys
from deletekit.stream.key_hashes import KeyHasher
from deletekit.stream.key_index import MOST_FILES, Run, compacted, new_run, open_run
from deletekit.stream.saved_index import RunPart, SavedIndex, key_of, load_index
from deletekit.table.index_files import IndexedFile, IndexRoot, RunInfo, encode_root
from deletekit.table.sink_files import RUN, sink_path

# The index is extended when so many data files, or rows, are not in it.
_NEW_FILES = 8
_NEW_ROWS = 1_000_000
# A task makes a run of so many rows, in memory; longer runs are not merged.
_RUN_ROWS = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitIndex:
    """An index for the data files of a head.

    Attributes
    ----------
    saved: the index; None for none.
    is_new: whether it was written for this commit.
    places: of the live data files in it: the number in the index, and the place among the scan tasks.
    others: places of the data files that are not in it.
    """

    saved: SavedIndex | None
    is_new: bool
    places: Mapping[int, int]
    others: Sequence[int]

    @property
    def parts(self) -> tuple[RunPart, ...]:
        """Return what a task needs to look up keys."""
        return self.saved.parts_of(0, 1) if self.saved is not None and self.places else ()

    def lacks_many(self, tasks: Sequence[ScanTask]) -> bool:
        """Tell whether it lacks so much that it must be extended. Otherwise each task reads those keys."""
        rows = sum(tasks[place].data_file.record_count for place in self.others)
        return len(self.others) >= _NEW_FILES or rows >= _NEW_ROWS


def split_index(
    base: Base,
    tasks: Sequence[ScanTask],
    fields: Sequence[NestedField],
    engine: Engine,
    kept: SavedIndex | None,
    *,
    load: bool = True,
) -> SplitIndex:
    """Return the index of a head's history, extended if many data files are not in it. Raise DamagedIndexError.

    Parameters
    ----------
    kept: the index of the last call, which need not be read again.
    load: False makes a new index of all data files.
    """
    saved = load_index(base.table.io, base.metadata, base.snapshot, fields) if load else None
    if saved is not None and kept is not None and kept.name == saved.name:
        saved = kept
    found = covered(saved, is_new=False, tasks=tasks)
    if load and not found.lacks_many(tasks):
        return found
    number = saved.root.next_number if saved is not None else 0
    if not found.others or number + len(found.others) >= MOST_FILES:
        return found
    return covered(_extended(base, tasks, fields, engine, found, number), is_new=True, tasks=tasks)


def covered(saved: SavedIndex | None, *, is_new: bool, tasks: Sequence[ScanTask]) -> SplitIndex:
    """Return an index with the places of the data files of a head. Raise DamagedIndexError."""
    known = {} if saved is None else {f.path: f for f in sorted(saved.files.values(), key=lambda f: f.number)}
    places, others = {}, []
    for place, task in enumerate(tasks):
        file = known.get(task.data_file.file_path)
        now = task.data_file.record_count, task.data_file.file_size_in_bytes
        if file is not None and (file.rows, file.size) == now:
            places[file.number] = place
        else:
            others.append(place)
    return SplitIndex(saved=saved, is_new=is_new, places=places, others=others)


def _extended(
    base: Base,
    tasks: Sequence[ScanTask],
    fields: Sequence[NestedField],
    engine: Engine,
    found: SplitIndex,
    number: int,
) -> SavedIndex:
    """Write runs of the data files that are not in the index, merge short runs, and write the root."""
    context, write = ReadContext(base.table.io, base.metadata), base.write
    numbered = [(number + i, tasks[place]) for i, place in enumerate(found.others)]
    next_number = number + len(numbered)
    groups: list[list[tuple[int, ScanTask]]] = []
    held = 0
    for item in numbered:
        if not groups or held + item[1].data_file.record_count > _RUN_ROWS:
            groups.append([])
            held = 0
        groups[-1].append(item)
        held += item[1].data_file.record_count
    new = list(engine.map(lambda group: _run_of(context, write, fields, group), groups))
    live = np.zeros(next_number, np.bool_)
    live[[*found.places, *(n for n, _ in numbered)]] = True
    old = [] if found.saved is None else _with_live_files(found.saved, live)
    stacks = _stacks([*old, *new])
    merged = engine.map(lambda stack: stack[0] if len(stack) == 1 else _merged(write, stack, live), stacks)
    root = IndexRoot(
        table_uuid=base.metadata.table_uuid,
        key=key_of(fields),
        snapshot_id=base.snapshot.snapshot_id if base.snapshot else None,
        next_number=next_number,
        runs=tuple(merged),
    )
    name, data = encode_root(root)
    write.write(sink_path(base.metadata, name), data)
    return SavedIndex(base.table.io, base.metadata, name, root)


def _run_of(
    context: ReadContext, write: WriteContext, fields: Sequence[NestedField], group: Sequence[tuple[int, ScanTask]]
) -> RunInfo:
    hasher = KeyHasher(fields)
    rows = [index_rows(hasher, number, read_file_keys(context, task, fields)) for number, task in group]
    files = [
        IndexedFile(
            number=number,
            path=task.data_file.file_path,
            rows=task.data_file.record_count,
            size=task.data_file.file_size_in_bytes,
        )
        for number, task in group
    ]
    return _written(write, new_run(rows, files, wide=not hasher.exact), f"n{group[0][0]}")


def _merged(write: WriteContext, runs: Sequence[RunInfo], live: npt.NDArray[np.bool_]) -> RunInfo:
    opened = [open_run(write.io, sink_path(write.metadata, info.name), info) for info in runs]
    (run,) = compacted(sorted(opened, key=len, reverse=True), live)
    return _written(write, run, f"m{runs[0].digest[:8]}")


def _written(write: WriteContext, run: Run, text: str) -> RunInfo:
    # With the attempt in its name, the driver removes the files of others.
    path = sink_path(write.metadata, f"{write.operation_id}-{text}{RUN}")
    write.remember(path)
    run.save(write.io, path)
    assert run.saved is not None
    return run.saved


def _with_live_files(saved: SavedIndex, live: npt.NDArray[np.bool_]) -> list[RunInfo]:
    """Return the runs that have rows of live data files."""
    return [run.saved for run in saved.runs() if run.saved and any(live[f.number] for f in run.files)]


def _stacks(runs: Sequence[RunInfo]) -> list[list[RunInfo]]:
    """Put runs together that become one: those of about the same length, as long as a task can hold them."""
    stacks: list[list[RunInfo]] = []
    for run in sorted(runs, key=lambda r: r.rows, reverse=True):
        stacks.append([run])
        while len(stacks) > 1:
            below, top = (sum(r.rows for r in stack) for stack in stacks[-2:])
            if below > 2 * top or below + top > _RUN_ROWS:
                break
            stacks[-2:] = [[*stacks[-2], *stacks[-1]]]
    return stacks
