"""Convert equality deletes to deletion vectors (v3) or position deletes (v2).

No data file is rewritten and no row changes. A data file without a live row is dropped. An equality delete file is
removed only if the rows that it hides are now hidden by position in every data file that it applies to (of any spec, if
it is global). After a lost race the change is replanned.
Spec: "Equality Delete Files", "Scan Planning"; Iceberg ConvertEqualityDeleteFiles.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change, read_base
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.merge_previous_deletes import HiddenRows, Replacement, replace_deletes
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import ReadContext, deleted_positions
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.filters.filter import Filter, unbound_filter
from deletekit.formats.content_file import DeleteFile, FileContent, ManifestEntry
from deletekit.maintenance.head_files import Head, check_delete_rewrite, replacing
from deletekit.notebook_html import result
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table
from deletekit.verbs.shared.row_changes import group_tasks


@result
class ConvertedEqualityDeletes:
    """What `convert_equality_deletes` did; in a dry run, what it would do.

    Attributes
    ----------
    data_files: how many data files were read.
    converted_delete_files: paths of the equality delete files that were removed from the table.
    kept_delete_files: paths of those that still apply to data files outside of the filter.
    added_delete_files: paths. A Puffin file is listed once for each vector. A dry run does not know them.
    commit: the commit. None if there was nothing to do, and in a dry run.
    """

    data_files: int = 0
    converted_delete_files: tuple[str, ...] = ()
    kept_delete_files: tuple[str, ...] = ()
    added_delete_files: tuple[str, ...] = ()
    commit: Commit | None = None
    dry_run: bool = False


def convert_equality_deletes(
    table: Table,
    where: Filter = None,
    *,
    ref: str = MAIN,
    dry_run: bool = False,
    engine: Engine | None = None,
    commit_properties: Mapping[str, str] | None = None,
) -> ConvertedEqualityDeletes:
    """Replace equality deletes by deletes of the same rows by position.

    Parameters
    ----------
    where: only in data files that may hold rows of this filter. Equality deletes that also apply to others are kept.
    ref: the branch.
    dry_run: report which files would change. Read no data and write nothing.
    engine: where data files are read.
    commit_properties: extra entries of the snapshot summary.

    A v3 table gets one deletion vector for each data file with hidden rows. It includes the positions that were hidden
    before. A v2 table gets position delete files of `write.delete.granularity`. Equality deletes that apply to no data
    file are removed too, and so are data files without a live row.

    Raises InvalidInputError for a bad filter, ref or file format; CommitConflictError, CommitStateUnknownError as every
    commit; FormatError for files that cannot be read.
    """
    check_delete_rewrite(table, where, ref, commit_properties)
    runner = engine_or_default(engine)
    plans: list[_Plan] = []

    def build(base: Base) -> RowDelta:
        head = Head(base)
        plans.append(_plan(base, head, where))
        write, context = base.write, head.context  # the base has the catalog, which cannot be sent

        def convert(tasks: Sequence[ScanTask]) -> Replacement:
            return replace_deletes(write, context.loader, _hits(context, tasks))

        groups = group_tasks(plans[-1].tasks, getattr(runner, "threads", 1))
        return replacing(runner.map(convert, groups), plans[-1].converted)

    done = Commit()
    if dry_run:
        base = read_base(table, ref)
        plans.append(_plan(base, Head(base), where))
    else:
        done = commit(plan_change(table, build, ref=ref, properties=commit_properties))
    return ConvertedEqualityDeletes(
        data_files=len(plans[-1].tasks),
        converted_delete_files=tuple(e.data_file.file_path for e in plans[-1].converted),
        kept_delete_files=tuple(e.data_file.file_path for e in plans[-1].kept),
        added_delete_files=tuple(f.file_path for f in done.added_delete_files),
        commit=done if done.snapshot_id is not None else None,
        dry_run=dry_run,
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """Data files with equality deletes to convert, the deletes that this removes, and those that stay."""

    tasks: list[ScanTask] = field(default_factory=list)
    converted: list[ManifestEntry] = field(default_factory=list)
    kept: list[ManifestEntry] = field(default_factory=list)


def _plan(base: Base, head: Head, where: Filter) -> _Plan:
    """Plan the conversion. A scan without a filter tells what each equality delete applies to, over all specs."""
    deletes = [e for e, _ in head.deletes(FileContent.EQUALITY_DELETES)]
    if not deletes:
        return _Plan()
    hit = [t for t in plan_scan(base.metadata, base.snapshot, base.reader) if _by_value(t)]
    filtered: Iterable[ScanTask] = hit
    if where is not None:
        filtered = plan_scan(base.metadata, base.snapshot, base.reader, unbound_filter(where, base.metadata.schema))
    chosen = {t.data_file.file_path for t in filtered}
    needed = {d.identity for t in hit if t.data_file.file_path not in chosen for d in _by_value(t)}
    return _Plan(
        tasks=[t for t in hit if t.data_file.file_path in chosen],
        converted=[e for e in deletes if e.data_file.identity not in needed],
        kept=[e for e in deletes if e.data_file.identity in needed],
    )


def _by_value(task: ScanTask) -> list[DeleteFile]:
    return [d for d in task.delete_files if d.kind == "equality-delete"]


def _hits(context: ReadContext, tasks: Sequence[ScanTask]) -> Iterator[HiddenRows]:
    """Find the rows of data files that only equality deletes hide."""
    for task in tasks:
        before = context.loader.positions(task)
        new = deleted_positions(context, task) - before
        if new:
            yield HiddenRows(task, new, before)
