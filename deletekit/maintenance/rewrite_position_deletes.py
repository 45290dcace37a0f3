"""Rewrite position deletes: fewer position delete files, or after an upgrade to v3 deletion vectors instead.

Exactly the same rows are hidden. A position is kept only if it applied: its data file is live, of the same spec and
partition, and not newer than the delete. A deletion vector includes all positions that were hidden in its data file,
and is the only one of that file. After a lost race the change is replanned.
Spec: "Position Delete Files", "Deletion Vectors"; Java RewritePositionDeleteFilesSparkAction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change, read_base
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.merge_previous_deletes import (
    FilePositions,
    HiddenRows,
    Replacement,
    replace_deletes,
    write_positions,
)
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import is_old_enough, scope_of
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.filters.filter import Filter, unbound_filter
from deletekit.formats.content_file import ContentFile, DeleteFile, FileContent, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.maintenance.file_groups import RewriteOptions, SizeOptions, group_delete_files, in_parts, rewrite_options
from deletekit.maintenance.head_files import Head, check_delete_rewrite, replacing
from deletekit.notebook_html import result
from deletekit.rows.write_context import WriteContext
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table


@result
class RewrittenPositionDeletes:
    """What `rewrite_position_deletes` did; in a dry run, what it would do.

    Attributes
    ----------
    rewritten_delete_files: paths of the delete files that were removed from the table.
    added_delete_files: paths of the new files, a Puffin file once for each vector. A dry run does not know them.
    rewritten_bytes: size of the rewritten files.
    commit: the commit. None if there was nothing to do, and in a dry run.
    """

    rewritten_delete_files: tuple[str, ...] = ()
    added_delete_files: tuple[str, ...] = ()
    rewritten_bytes: int = 0
    commit: Commit | None = None
    dry_run: bool = False


def rewrite_position_deletes(
    table: Table,
    where: Filter = None,
    *,
    ref: str = MAIN,
    dry_run: bool = False,
    engine: Engine | None = None,
    commit_properties: Mapping[str, str] | None = None,
    **options: Unpack[SizeOptions],
) -> RewrittenPositionDeletes:
    """Combine position delete files, and drop positions in data files that are not live.

    Parameters
    ----------
    where: only deletes in partitions with data files that may hold rows of this filter.
    ref: the branch.
    dry_run: choose files, read and write none.
    engine: where delete files are read.
    commit_properties: extra entries of the snapshot summary.
    options: `target_file_size_bytes`, `min_file_size_bytes`, `max_file_size_bytes`, `min_input_files`,
        `max_file_group_size_bytes`, `rewrite_all`: which files of a v2 table; see `SizeOptions`. Names and defaults are
        those of Iceberg's rewrite_position_delete_files.

    A v2 table gets position delete files of `write.delete.granularity`, with the data sequence number of the newest
    that they replace. In a v3 table every position delete file is replaced, whatever its size, by a deletion vector for
    each data file that has none yet. If a data file has a vector, position delete files hide nothing of it.

    Raises InvalidInputError for a bad filter, option, ref or file format; CommitConflictError, CommitStateUnknownError
    as every commit; FormatError for delete files that cannot be read.
    """
    check_delete_rewrite(table, where, ref, commit_properties)
    chosen = rewrite_options(table.metadata, "write.delete.target-file-size-bytes", options)
    runner = engine_or_default(engine)

    def build(base: Base) -> RowDelta:
        head = Head(base)
        groups = _groups(base, head, where, chosen)
        return position_delete_rewrite(base, head, groups, chosen, runner)

    files: Sequence[ContentFile]
    if dry_run:
        base = read_base(table, ref)
        groups = _groups(base, Head(base), where, chosen)
        done, files = Commit(), [e.data_file for group in groups for e in group]
    else:
        done = commit(plan_change(table, build, ref=ref, properties=commit_properties))
        files = done.removed_delete_files
    return RewrittenPositionDeletes(
        rewritten_delete_files=tuple(f.file_path for f in files),
        added_delete_files=tuple(f.file_path for f in done.added_delete_files),
        rewritten_bytes=sum(f.file_size_in_bytes for f in files),
        commit=done if done.snapshot_id is not None else None,
        dry_run=dry_run,
    )


def rewrite_vectors(
    table: Table,
    puffin_files: Collection[str],
    *,
    ref: str = MAIN,
    commit_properties: Mapping[str, str] | None = None,
) -> Commit:
    """Write the deletion vectors of these Puffin files to new ones, as deletekit arranges them. No row changes.

    Raises as `rewrite_position_deletes`.
    """
    check_delete_rewrite(table, None, ref, commit_properties)

    def build(base: Base) -> RowDelta:
        tasks = plan_scan(base.metadata, base.snapshot, base.reader)
        chosen = [t for t in tasks if any(d.file_path in puffin_files for d in t.delete_files)]
        hidden = [HiddenRows(task, PositionBitmap()) for task in chosen]
        return replacing([replace_deletes(base.write, Head(base).context.loader, hidden, drops=False)])

    return commit(plan_change(table, build, ref=ref, properties=commit_properties))


def _groups(base: Base, head: Head, where: Filter, options: RewriteOptions) -> list[tuple[ManifestEntry, ...]]:
    entries = [e for e, _ in head.deletes(FileContent.POSITION_DELETES)]
    if where is not None:
        tasks = plan_scan(base.metadata, base.snapshot, base.reader, unbound_filter(where, base.metadata.schema))
        places = {scope_of(t.data_file) for t in tasks}
        entries = [e for e in entries if scope_of(e.data_file) in places]
    if base.metadata.version.has_deletion_vectors:
        options = replace(options, rewrite_all=True, max_file_group_size_bytes=2**63 - 1)
    return group_delete_files(entries, options)


def position_delete_rewrite(
    base: Base,
    head: Head,
    groups: Sequence[Sequence[ManifestEntry]],
    options: RewriteOptions | None,
    engine: Engine,
) -> RowDelta:
    """Return the change that replaces these position delete files, each group of one spec and partition."""
    v3 = base.metadata.version.has_deletion_vectors
    write = base.write

    def rewrite(group: Sequence[ManifestEntry]) -> Replacement:
        return _to_vectors(write, head, group) if v3 else _to_files(write, head, group, options)

    done = list(engine.map(rewrite, groups))
    numbers: dict[str, int] = {}
    for group, new in zip(groups, done, strict=True) if not v3 else ():
        newest = max(e.sequence_number or 0 for e in group)
        numbers |= {f.file_path: newest for f in new.added_delete_files}
    return replacing(done, (e for group in groups for e in group), sequence_numbers=numbers)


def _to_files(
    write: WriteContext, head: Head, group: Sequence[ManifestEntry], options: RewriteOptions | None
) -> Replacement:
    """Write position delete files of one partition, with the positions that apply."""
    merged: dict[str, FilePositions] = {}
    for task, positions in _applying(head, group):
        path = task.data_file.file_path
        known = merged[path].positions | positions if path in merged else positions
        merged[path] = FilePositions(task.data_file, known)
    deletes = [merged[path] for path in sorted(merged)]
    size = sum(e.data_file.file_size_in_bytes for e in group)
    count = min(options.output_files(size) if options else 1, len(deletes)) or 1
    files = tuple(f for part in in_parts(deletes, count) for f in write_positions(write, part))
    return Replacement(added_delete_files=files, removed_delete_files=(), removed_data_files=())


def _to_vectors(write: WriteContext, head: Head, group: Sequence[ManifestEntry]) -> Replacement:
    """Write vectors for the data files that these files hide rows of. Return them and the deletes that they replace.

    A vector includes every position delete of its data file, even those outside of the group: readers ignore position
    delete files of a data file that has a vector.
    """
    tasks = {task.data_file.file_path: task for task, _ in _applying(head, group)}
    chosen = [t for t in tasks.values() if not any(d.is_deletion_vector for d in t.delete_files)]
    hidden = [HiddenRows(task, PositionBitmap()) for task in chosen]
    return replace_deletes(write, head.context.loader, hidden, drops=False)


def _applying(head: Head, group: Iterable[ManifestEntry]) -> Iterator[tuple[ScanTask, PositionBitmap]]:
    """Yield the live data files that each delete file hides rows of by the scope rules, and the positions."""
    read = [
        (e, head.context.loader.positions_by_path(e.data_file)) for e in group if isinstance(e.data_file, DeleteFile)
    ]
    named = sorted({path for _, by_path in read for path in by_path})
    live = {task.data_file.file_path: task for task in head.tasks(named)}
    for entry, by_path in read:
        for path, task in live.items():
            if path not in by_path:
                continue
            applies = is_old_enough(task.data, entry) and scope_of(task.data_file) == scope_of(entry.data_file)
            if applies and by_path[path]:
                yield task, by_path[path]
