"""OVERWRITE: put rows in place of those that a filter chooses, or of whole partitions, in one commit."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysFalse

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.swap import Commit
from deletekit.deletes.delete_modes import ChangeOptions
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import own_deletes, scope_of
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.filters.filter import Filter, evaluate
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.rows.keys import column_at
from deletekit.rows.row_source import RowSource
from deletekit.rows.write_context import check_parquet_only, granularity_of
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table
from deletekit.verbs.shared.count_rows import count_live_rows
from deletekit.verbs.shared.foreign_rows import foreign_rows
from deletekit.verbs.shared.guards import Guards, Way, commit_guarded
from deletekit.verbs.shared.row_changes import DeleteWhere, change_where, choose_mode, filter_of_reads, required_filter


def overwrite(
    table: Table,
    rows: Any,
    where: Filter,
    *,
    mode: str | None = None,
    ref: str = MAIN,
    granularity: str | None = None,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    at_most: int | str | None = None,
    expect: int | None = None,
    readable_by: str | Sequence[str] | None = None,
    engine: Engine | None = None,
) -> Commit:
    """Put rows in place of those for which a filter is true, in one commit.

    Parameters
    ----------
    rows: as in `append`, but no Spark DataFrame; all are held in memory. The filter must be true for each, so that the
        same call once more leaves the same rows.
    where: as in `delete`; `"true"` replaces every row.
    mode: how the old rows go, as in `delete`; None takes `write.delete.mode`.
    ref, granularity, commit_properties, dry_run, at_most, expect, readable_by: as in `delete`.

    Under `write.delete.isolation-level` = `serializable`, the default, rows that others commit meanwhile and that the
    filter chooses are replaced too; `snapshot` leaves them. Under both, no row comes back that someone else deleted.

    Returns the commit; its `snapshot_id` is None when nothing had to change. Raises InvalidInputError before anything
    is written for a bad filter, or rows that do not fit the schema or the filter; UnsupportedError for a DataFrame;
    CommitConflictError when too many races are lost. Spec: "Snapshots"; Java OverwriteFiles.
    """
    runner, source = engine_or_default(engine), RowSource(rows, table.schema, io=table.io)
    guards = Guards(ref, commit_properties, dry_run, at_most, expect, readable_by)
    if foreign_rows(rows, engine) is not None:
        raise UnsupportedError("an overwrite by filter takes no Spark DataFrame", "rows", "rows")

    def plan(base: Base, way: Way) -> RowDelta:
        metadata = base.metadata
        _, bound = found = required_filter(where, metadata.schema)
        options = ChangeOptions(choose_mode(metadata, "delete", way.mode), granularity_of(metadata, way.granularity))
        new = align(source.whole(metadata.schema), metadata.schema)
        chosen = evaluate(bound, lambda i: column_at(new, metadata.schema, i), len(new))
        outside = len(new) - (pc.sum(chosen).as_py() or 0)
        if outside:
            raise InvalidInputError(
                "the filter is not true for rows that an overwrite puts in place of others",
                "overwrite",
                "where",
                f"{outside} of {len(new)} rows",
                "rows that the filter chooses",
            )
        return change_where(base, found, DeleteWhere(bound), "delete", options, runner, more=lambda _: [new])

    return commit_guarded(table, plan, guards, runner, verb="delete", mode=mode, granularity=granularity)


def overwrite_partitions(
    table: Table,
    rows: Any,
    *,
    ref: str = MAIN,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    at_most: int | str | None = None,
    expect: int | None = None,
    readable_by: str | Sequence[str] | None = None,
) -> Commit:
    """Put rows in place of all rows of their partitions, in one commit: a dynamic partition overwrite.

    Parameters
    ----------
    rows: as in `append`, a Spark DataFrame too; a stream is written as it comes. Partitions without a row among them
        keep theirs.
    ref, commit_properties, dry_run, at_most, expect, readable_by: as in `delete`.

    Data files that others add to these partitions meanwhile are replaced too under `write.delete.isolation-level` =
    `serializable`, the default; `snapshot` leaves them.

    Returns the commit; its `snapshot_id` is None when there were no rows. Raises InvalidInputError before anything is
    committed for rows that do not fit, a table without partitions, or one with files of another partition spec, which
    may hold rows of these partitions; CommitConflictError when too many races are lost. Java ReplacePartitions.
    """
    frame, source = foreign_rows(rows), RowSource(rows, table.schema, io=table.io)
    runner, guards = engine_or_default(None), Guards(ref, commit_properties, dry_run, at_most, expect, readable_by)

    def plan(base: Base, way: Way) -> RowDelta:
        metadata = base.metadata
        check_parquet_only(metadata, "write.format.default")
        tasks = _tasks_of_partitions(base)
        if frame is not None:
            files = frame.append(base)
        else:
            files = write_data_files(base.write, (align(piece, metadata.schema) for piece in source.pieces()))
        partitions = frozenset(scope_of(file) for file in files)
        removed = [t for t in tasks if scope_of(t.data_file) in partitions]
        deletes = {d.data_file.identity: d for t in removed for d in own_deletes(t.data_file.file_path, t.deletes)}
        context = ReadContext(base.table.io, metadata)
        is_read = not isinstance(filter_of_reads(metadata, "delete"), AlwaysFalse)
        return RowDelta(
            added_data_files=tuple(files),
            removed_data_files=tuple(t.data for t in removed),
            removed_delete_files=tuple(deletes.values()),
            operation="overwrite" if files else None,
            summary={"replace-partitions": "true"},
            matched_rows=count_live_rows(context, removed, runner) if way.counts else None,
            read_set=ReadSet(partitions=partitions if is_read else frozenset()),
        )

    return commit_guarded(table, plan, guards, runner)


def _tasks_of_partitions(base: Base) -> Sequence[ScanTask]:
    """Return the live data files, each in a partition of the current spec. Raises InvalidInputError for any other."""
    spec, table = base.metadata.spec, base.table.name
    if not spec.fields:
        message, expected = "the table has no partitions", "overwrite(table, rows, 'true') for the whole table"
        raise InvalidInputError(message, "overwrite", "table", table, expected)
    tasks = plan_scan(base.metadata, base.snapshot, base.reader)
    others = sorted({t.data_file.spec_id for t in tasks} - {spec.spec_id})
    if others:
        message = "data files of another partition spec may hold rows of these partitions"
        expected = f"only {spec.spec_id}: compact the table before, or overwrite by a filter"
        raise InvalidInputError(message, "overwrite", "spec_id", others, expected)
    return tasks
