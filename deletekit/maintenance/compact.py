"""Compact: write few data files of a good size instead of many small ones, or ones full of deleted rows.

No row comes back and none is lost, whatever is committed meanwhile. The new files have the sequence number of the
snapshot they were read from, so that concurrent equality deletes still apply. A group of files is read again if a
concurrent commit deleted rows of it by position. No delete file is dropped for its sequence number.
Spec: "Snapshots" (operation `replace`), "Sequence Number Inheritance", "Row Lineage"; Java RewriteDataFilesSparkAction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Unpack

import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext
from deletekit.deletes.rewrite import live_share, rewrite_data_files
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import CommitStateUnknownError, DeletekitError, InvalidInputError
from deletekit.filters.filter import Filter, parse_filter, unbound_filter
from deletekit.maintenance.file_groups import CompactOptions, RewriteOptions, group_data_files, rewrite_options
from deletekit.maintenance.head_files import Head, RewrittenGroup
from deletekit.maintenance.reachable import read_latest
from deletekit.notebook_html import result
from deletekit.rows.keys import column_at
from deletekit.rows.sort_order import RowOrder
from deletekit.rows.write_context import WriteContext, check_parquet_only
from deletekit.table.column_names import as_names
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.own_places import check_own_data
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.verbs.shared.partition_fields import sort_fields

Group = tuple[ScanTask, ...]

# Columns of a group with more rows are not kept: they would take much memory.
_KEPT_ROWS = 1 << 23


@result
class CompactedFiles:
    """What `compact` did; in a dry run, what it would do.

    Attributes
    ----------
    rewritten_data_files, added_data_files, removed_delete_files: paths. A Puffin file is listed once for each vector. A
        dry run does not know what it would add.
    rewritten_bytes: size of the rewritten data files.
    file_groups: how many groups of files were rewritten.
    failed_data_files: path -> reason, of files that were not rewritten because of lost races or a file that cannot be
        read. Only with `partial_progress`.
    commits: one; with `partial_progress` several; none if there was nothing to do.
    """

    rewritten_data_files: tuple[str, ...] = ()
    added_data_files: tuple[str, ...] = ()
    removed_delete_files: tuple[str, ...] = ()
    rewritten_bytes: int = 0
    file_groups: int = 0
    failed_data_files: Mapping[str, str] = field(default_factory=dict)
    commits: tuple[Commit, ...] = ()
    dry_run: bool = False


def compact(
    table: Table,
    where: Filter = None,
    *,
    ref: str = MAIN,
    partial_progress: bool = False,
    max_commits: int = 10,
    use_starting_sequence_number: bool = True,
    dry_run: bool = False,
    engine: Engine | None = None,
    commit_properties: Mapping[str, str] | None = None,
    **options: Unpack[CompactOptions],
) -> CompactedFiles:
    """Rewrite data files that are too small, too large or full of deleted rows. No row changes.

    Parameters
    ----------
    where: only data files that may hold rows of this filter. They are rewritten whole.
    ref: the branch.
    partial_progress, max_commits: use up to so many commits, so that one that fails does not undo the others.
    use_starting_sequence_number: new files have the sequence number of the snapshot that they were read from; else
        files are read again after a concurrent equality delete.
    dry_run: choose files, read and write none.
    engine: where files are rewritten.
    commit_properties: extra entries of the snapshot summaries.
    options: `target_file_size_bytes`, `min_file_size_bytes`, `max_file_size_bytes`, `min_input_files`,
        `max_file_group_size_bytes`, `rewrite_all`, `delete_file_threshold`, `delete_ratio_threshold`: which files;
        `strategy`, `sort_order`: in which order their rows. `CompactOptions` has Iceberg's names and defaults.

    Files of older specs are rewritten to the current one. A rewritten file's own deletes are removed with it. Other
    deletes may be left without effect: see `remove_dangling_deletes`.

    Raises InvalidInputError for a bad filter, option, ref or file format, and for a table that follows a Delta table;
    CommitConflictError, FormatError and NotFoundError (with `partial_progress` only if nothing was committed);
    CommitStateUnknownError if the answer was lost: files then stay.

    Examples
    --------
    >>> commit = dk.append(users, dk.datasets.users())
    >>> done = dk.compact(users, min_input_files=2)
    >>> len(done.rewritten_data_files), len(done.added_data_files)
    (2, 1)
    """
    check_request(table.refresh(), ref, commit_properties)
    check_own_data(table.metadata)
    chosen = rewrite_options(table.metadata, "write.target-file-size-bytes", options)
    if max_commits < 1:
        raise InvalidInputError("bad option", kind="rewrite-option", field="max_commits", found=max_commits)
    order = _row_order(table.metadata, chosen)
    groups = _plan(table, where, ref, chosen)
    if dry_run:
        return _planned(groups)
    paths = [tuple(task.data_file.file_path for task in group) for group in groups]
    size = -(-len(paths) // (max_commits if partial_progress else 1))
    runner = engine_or_default(engine)
    parts = [
        _Part(table, paths[at : at + size], chosen, runner, use_starting_sequence_number, order)
        for at in range(0, len(paths), size or 1)
    ]
    return _run(parts, ref, commit_properties, goes_on=partial_progress)


def compact_groups(
    table: Table,
    groups: Sequence[Sequence[str]],
    *,
    ref: str,
    engine: Engine,
    commit_properties: Mapping[str, str] | None = None,
    keep: Sequence[int] = (),
) -> tuple[CompactedFiles, dict[str, pa.Table]]:
    """Rewrite groups of data files, given by their paths, in one commit, which also merges small manifests.

    Also return some columns of new files by path, in file order: those of the field ids `keep`, then the `_row_id` if
    rows have one. Groups that are large or sorted are left out. Raises as `compact`.
    """
    check_request(table.refresh(), ref, commit_properties)
    check_own_data(table.metadata)
    check_parquet_only(table.metadata, "write.format.default")
    options = rewrite_options(table.metadata, "write.target-file-size-bytes", {})
    part = _Part(table, [tuple(g) for g in groups], options, engine, use_starting_sequence_number=True, order=None)
    part.keep, part.merges_manifests = tuple(keep), True
    done = _run([part], ref, commit_properties, goes_on=False)
    return done, {path: rows for group in part.groups for path, rows in group.kept_of_files().items()}


def _planned(groups: Sequence[Group]) -> CompactedFiles:
    files = [task.data_file for group in groups for task in group]
    return CompactedFiles(
        rewritten_data_files=tuple(f.file_path for f in files),
        rewritten_bytes=sum(f.file_size_in_bytes for f in files),
        file_groups=len(groups),
        dry_run=True,
    )


def _row_order(metadata: TableMetadata, options: RewriteOptions) -> RowOrder | None:
    """Return the order that `sort` asks for. Raises InvalidInputError for a bad order, or if there is none."""
    strategy, sort_order = options.strategy, options.sort_order
    if strategy not in ("binpack", "sort") or (strategy == "binpack" and sort_order):
        kind, field, found = "rewrite-option", "strategy", strategy
        expected = "sort, for a sort order" if sort_order else "binpack or sort"
        raise InvalidInputError("bad option", kind=kind, field=field, found=found, expected=expected)
    if strategy == "binpack":
        return None
    names = as_names(sort_order)
    z_order = re.fullmatch(r"\s*zorder\s*\((.+)\)\s*", names[0], re.IGNORECASE) if len(names) == 1 else None
    if z_order:
        names = [name.strip() for name in z_order[1].split(",")]
    order = RowOrder(sort_fields(metadata.schema, names), z_order=bool(z_order)) if names else RowOrder.of(metadata)
    if not order.fields:
        message, expected = "no order to sort by", "sort_order, or a table with a sort order"
        raise InvalidInputError(message, kind="sort-order", field="sort_order", expected=expected)
    return order.within(metadata)


def _plan(table: Table, where: Filter, ref: str, options: RewriteOptions) -> list[Group]:
    def plan(metadata: TableMetadata) -> list[Group]:
        parse_filter(where, metadata.schema)
        check_parquet_only(metadata, "write.format.default")
        reader, snapshot = SnapshotReader(table.io, metadata), metadata.snapshot_of_ref(ref)
        tasks = plan_scan(metadata, snapshot, reader, unbound_filter(where, metadata.schema))
        return group_data_files(tasks, options, metadata.spec.spec_id)

    return read_latest(table, plan)


def _run(parts: Sequence[_Part], ref: str, properties: Mapping[str, str] | None, *, goes_on: bool) -> CompactedFiles:
    done: list[Commit] = []
    groups = 0
    failed: dict[str, str] = {}
    for part in parts:
        paths = [path for group in part.todo for path in group]
        try:
            done.append(part.run(ref, properties))
            groups += len(part.groups)
        except CommitStateUnknownError:
            raise
        except DeletekitError as e:
            failed |= dict.fromkeys(paths, str(e))
            if not goes_on or (part is parts[-1] and not done):
                raise
    commits = [c for c in done if c.snapshot_id is not None]
    removed = [f for c in commits for f in c.removed_data_files]
    return CompactedFiles(
        rewritten_data_files=tuple(f.file_path for f in removed),
        added_data_files=tuple(f.file_path for c in commits for f in c.added_data_files),
        removed_delete_files=tuple(f.file_path for c in commits for f in c.removed_delete_files),
        rewritten_bytes=sum(f.file_size_in_bytes for f in removed),
        file_groups=groups,
        failed_data_files=failed,
        commits=tuple(commits),
    )


@dataclass
class _Part:
    """Groups of data files that are committed together.

    The new files are kept after a lost race. Only groups that a concurrent commit changed are read again.

    Attributes
    ----------
    todo: the paths of each group that must still be rewritten.
    groups: those that are rewritten.
    keep: field ids of columns to keep of the new files.
    merges_manifests: whether the commit merges small manifests.
    """

    table: Table
    todo: list[tuple[str, ...]]
    options: RewriteOptions
    engine: Engine
    use_starting_sequence_number: bool
    order: RowOrder | None
    groups: list[RewrittenGroup] = field(default_factory=list)
    keep: tuple[int, ...] = ()
    merges_manifests: bool = False

    def run(self, ref: str, properties: Mapping[str, str] | None) -> Commit:
        """Rewrite and commit. If the commit certainly failed, delete the new files."""
        try:
            return commit(plan_change(self.table, self._build, ref=ref, properties=properties))
        except CommitStateUnknownError:
            raise
        except Exception:  # also what storage raises while manifests are written
            self._discard(self.groups)
            raise

    def _build(self, base: Base) -> RowDelta:
        try:
            head = Head(base)
            stale = [g for g in self.groups if not head.still_holds(g)]
            self.groups = [g for g in self.groups if g not in stale]
            self._discard(stale)
            self.todo += [tuple(t.data_file.file_path for t in g.tasks) for g in stale]
            self.groups += self._rewritten(base, head)
            self.todo = []
            return self._delta(head)
        except BaseException:
            self._discard(self.groups)
            self.groups = []
            raise

    def _rewritten(self, base: Base, head: Head) -> list[RewrittenGroup]:
        """Rewrite the groups as they are on this head. Skip files that are no longer live."""
        groups = [tuple(tasks) for paths in self.todo if (tasks := head.tasks(paths))]
        if not groups or base.snapshot is None:
            return []
        write = WriteContext(base.table.io, base.metadata)
        keeps = self.use_starting_sequence_number and base.metadata.version.has_sequence_numbers
        number = base.snapshot.sequence_number if keeps else None
        # `self` cannot travel to another process.
        context, options, order, keep = head.context, self.options, self.order, self.keep
        if order is not None or RowOrder.of(base.metadata).fields:
            keep = ()

        def rewrite(tasks: Group) -> RewrittenGroup:
            rows = _rows_per_file(context, tasks, options)
            are_few = sum(task.data_file.record_count for task in tasks) <= _KEPT_ROWS
            kept = _KeptColumns(context.metadata.schema, keep if are_few else ())
            files = rewrite_data_files(context, write, tasks, rows, order=order, seen=kept.add)
            return RewrittenGroup(tasks, tuple(files), number, kept.rows)

        try:
            return list(self.engine.map(rewrite, groups))
        except BaseException:
            write.discard()
            raise

    def _delta(self, head: Head) -> RowDelta:
        paths = [t.data_file.file_path for g in self.groups for t in g.tasks]
        files = [(f, g.sequence_number) for g in self.groups for f in g.files]
        return RowDelta(
            added_data_files=tuple(f for f, _ in files),
            removed_data_files=tuple(t.data for t in head.tasks(paths)),
            removed_delete_files=tuple(head.own_deletes(paths)),
            operation="replace",
            merges_manifests=self.merges_manifests,
            sequence_numbers={f.file_path: n for f, n in files if n is not None},
        )

    def _discard(self, groups: Sequence[RewrittenGroup]) -> None:
        for group in groups:
            for file in group.files:
                with suppress(Exception):  # the caller must see the reason to discard instead
                    self.table.io.delete(file.file_path)


class _KeptColumns:
    """Columns of the rows that are written, and their row ids."""

    def __init__(self, schema: Schema, field_ids: Sequence[int]) -> None:
        self._schema, self._field_ids = schema, field_ids
        self._parts: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        if self._field_ids:
            columns = {str(i): column_at(rows, self._schema, i) for i in self._field_ids}
            lineage = rows.columns[len(self._schema.fields) :]
            self._parts.append(pa.table({**columns, **dict(zip(["_row_id"], lineage, strict=False))}))

    @property
    def rows(self) -> pa.Table | None:
        return pa.concat_tables(self._parts) if self._parts else None


def _rows_per_file(context: ReadContext, tasks: Group, options: RewriteOptions) -> int | None:
    """Estimate how many rows a file of the target size holds, from the bytes that each row takes now."""
    shares = [(task.data_file, live_share(context, task)) for task in context.loader.announced(tasks)]
    rows = sum(file.record_count * share for file, share in shares)
    size = sum(file.file_size_in_bytes * share for file, share in shares)
    return max(1, -(-round(rows) // options.output_files(round(size))))
