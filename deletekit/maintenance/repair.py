"""Repair damage that has one safe repair, in one commit that changes no row.

Only what `verify` reports as repairable is repaired, and only the kinds that the call asks for. What needs a decision
is refused and left alone. The history stays: older snapshots keep what they have.
Spec: "Deletion Vectors", "Snapshots". Two deletion vectors of one file are an error for every reader, so the live rows
of such a file are those that neither vector deletes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change, read_base
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.merge_previous_deletes import HiddenRows, positions_in_file, replace_deletes
from deletekit.deletes.read import ReadContext, deleted_positions
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import is_old_enough, referenced_path, scope_of
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import DeletekitError, FormatError, InvalidInputError, NotFoundError
from deletekit.formats.content_file import DataFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.maintenance.head_files import replacing
from deletekit.maintenance.verify.dropped_deletes import DROPPED, dropped_deletes
from deletekit.maintenance.verify.file_rules import check_delete_file, vector_of
from deletekit.maintenance.verify.finding_kinds import REPAIRS, REWRITES
from deletekit.maintenance.verify.lost_files import History
from deletekit.maintenance.verify.report import DAMAGE, Finding, error
from deletekit.maintenance.verify.run import verify
from deletekit.maintenance.verify.snapshot_rules import LiveDelete, SnapshotFiles
from deletekit.notebook_html import result
from deletekit.rows.write_context import check_parquet_only
from deletekit.table.file_io import FileIO, read_puffin_footer
from deletekit.table.metadata import MAIN, Snapshot
from deletekit.table.table import Table

NOT_LOOKED_AT = (
    f"Wrong metrics of data files ({', '.join(REWRITES)}), which make filters miss rows, are left: "
    'verify(level="data") finds them, and compact(rewrite_all=True) mends them.'
)


@result
class RepairAction:
    """One repair, or why there was none.

    Attributes
    ----------
    kind: the kind of the finding.
    file: the data file for `duplicate-deletion-vector`, else the delete file. None for the summary.
    action: what is done, in one sentence.
    refused: why it is not done. None if it is done.
    """

    kind: str
    file: str | None = None
    action: str
    refused: str | None = None


@result
class RepairReport:
    """What `repair` returns.

    Attributes
    ----------
    actions: what was done; in a dry run, what would be done.
    refused: damage of these kinds that was left, with the reason.
    unrepaired: errors that `verify(level="deletes")` finds in the branch's head, and that were not repaired.
    not_looked_at: which errors `repair` neither looks for nor mends, and what does.
    commit: the commit. None in a dry run, and if there was nothing to do.
    """

    actions: tuple[RepairAction, ...] = ()
    refused: tuple[RepairAction, ...] = ()
    unrepaired: tuple[Finding, ...] = ()
    not_looked_at: str = NOT_LOOKED_AT
    commit: Commit | None = None


def repair(
    table: Table,
    kinds: str | Iterable[str] | None = None,
    *,
    ref: str = MAIN,
    dry_run: bool = False,
    engine: Engine | None = None,
    commit_properties: Mapping[str, str] | None = None,
) -> RepairReport:
    """Repair the head of a branch in one commit that changes no row which a reader can see.

    Parameters
    ----------
    kinds: which kinds of findings to repair, each a key of `deletekit.maintenance.verify.REPAIRS`; None for all.
        `duplicate-deletion-vector` merges the vectors of a data file into one. `dangling-deletion-vector`,
        `dangling-position-delete` and `dangling-equality-delete` remove deletes that apply to nothing.
        `puffin-footer` writes vectors whose Puffin file has no readable footer into a new one. `summary-total` counts
        the totals again, unless files may be lost (`lost-files`): then they stay. `dropped-equality-delete` hides the
        rows that came back when a rewrite removed an equality delete that they need. It is done only if it is named,
        because readers see it; its operation is `delete`.
    ref: the branch.
    dry_run: report what would be done, and write nothing. The table may be opened without a catalog.
    engine: where delete files are read.
    commit_properties: extra entries of the snapshot's summary.

    Returns what was done, what was refused and why, and which errors are left. Raises InvalidInputError for a kind
    without a repair, a tag, a read-only table, and a head that no commit may build on (two deletion vectors of a file
    that were not merged); FormatError and NotFoundError for manifests that cannot be read; and as every commit.
    """
    runner = engine_or_default(engine)
    report = repair_kinds(table, kinds, ref=ref, dry_run=dry_run, engine=runner, commit_properties=commit_properties)
    return _with_rest(table, ref, report, runner)


def repair_kinds(
    table: Table,
    kinds: Iterable[str] | None,
    *,
    ref: str,
    dry_run: bool,
    engine: Engine,
    commit_properties: Mapping[str, str] | None,
) -> RepairReport:
    """Repair as `repair`, without looking for errors that are left."""
    chosen, named = _kinds(kinds), kinds is not None
    if dry_run:
        refs = table.refresh().metadata.refs
        if ref in refs and refs[ref].get("type") == "tag":
            raise InvalidInputError("a tag cannot be written to", "ref", "ref", ref, "a branch")
        return _Plan(read_base(table, ref), engine, chosen, named).report(None)
    plans: list[_Plan] = []

    def build(base: Base) -> RowDelta:
        plans.append(_Plan(base, engine, chosen, named))
        return plans[-1].delta()

    done = commit(plan_change(table, build, ref=ref, properties=commit_properties, counts_totals=True))
    return plans[-1].report(done if done.snapshot_id is not None else None)


def _with_rest(table: Table, ref: str, report: RepairReport, engine: Engine) -> RepairReport:
    """Add the errors that no action and no refusal is about."""
    snapshot = table.metadata.snapshot_of_ref(ref)
    if snapshot is None:
        return report
    named = {(a.kind, a.file) for a in (*report.actions, *report.refused)}
    try:
        errors = verify(table, level="deletes", snapshots=[snapshot.snapshot_id], engine=engine).errors
    except (DeletekitError, OSError) as e:
        if report.commit is None:
            raise
        # The repair is committed. An exception would say that it is not.
        errors = (error("not-checked", "the repaired table could not be verified", file=table.location, found=str(e)),)
    return replace(report, unrepaired=tuple(f for f in errors if (f.kind, f.file) not in named))


def _kinds(kinds: Iterable[str] | None) -> frozenset[str]:
    chosen = frozenset(REPAIRS if kinds is None else [kinds] if isinstance(kinds, str) else kinds)
    unknown = sorted(map(str, chosen - set(REPAIRS)))
    if unknown:
        raise InvalidInputError("kind has no safe repair", "repair", "kinds", ", ".join(unknown), ", ".join(REPAIRS))
    return chosen


class _Plan:
    """The repairs of one head.

    Attributes
    ----------
    named: the caller chose the kinds.
    live, twice: the live files, and the identities of deletes that are live twice.
    removed: delete entries to remove.
    written: deletion vectors to write.
    hidden: rows to hide, by the path of their data file.
    totals: the right totals of the summary, if they are wrong and repaired.
    """

    def __init__(self, base: Base, engine: Engine, kinds: frozenset[str], named: bool) -> None:
        self.base, self.engine, self.kinds, self.named = base, engine, kinds, named
        self.context = ReadContext(base.table.io, base.metadata)
        self.removed: dict[tuple[Any, ...], ManifestEntry] = {}
        self.written: list[HiddenRows] = []
        self.hidden: dict[str, tuple[ScanTask, PositionBitmap]] = {}
        self.totals: dict[str, int] | None = None
        self.actions: list[RepairAction] = []
        # The entries are collected here, because `DeleteFileIndex` refuses duplicate vectors.
        head = base.snapshot
        entries = [base.reader.live_entries(head, content) for content in ManifestContent] if head else []
        self.live = SnapshotFiles(base.metadata, chain.from_iterable(entries))
        self.twice = {i for i, n in Counter(d.identity for _, d in self.live.deletes).items() if n > 1}
        if head is not None:
            self._dangling()
            if "duplicate-deletion-vector" in self.kinds:
                for path, vectors in sorted(self.live.duplicate_vectors().items()):
                    self._rewrite("duplicate-deletion-vector", path, path, vectors)
            self._footers()
            self._dropped(head)
            self._totals(head)

    def delta(self) -> RowDelta:
        """Write the new vectors, and return the change."""
        metadata, write = self.base.metadata, self.base.write
        if self.hidden and not metadata.version.has_deletion_vectors:
            check_parquet_only(metadata, "write.delete.format.default")
        hidden = (HiddenRows(task, gone, deleted_positions(self.context, task)) for task, gone in self.hidden.values())
        again = replace_deletes(write, self.context.loader, hidden)
        done = replace_deletes(write, self.context.loader, self.written, drops=False)
        operation = None if self.hidden else "replace"
        return replacing([done, again], self.removed.values(), operation=operation, parent_totals=self.totals)

    def report(self, done: Commit | None) -> RepairReport:
        return RepairReport(
            actions=tuple(a for a in self.actions if a.refused is None),
            refused=tuple(a for a in self.actions if a.refused is not None),
            commit=done,
        )

    def _note(self, kind: str, file: str | None, action: str, refused: str | None = None) -> None:
        self.actions.append(RepairAction(kind=kind, file=file, action=action, refused=refused))

    def _dangling(self) -> None:
        for entry, delete in (*self.live.dangling(), *self._naming_nothing()):
            kind = f"dangling-{delete.kind}"
            if kind not in self.kinds or delete.identity in self.removed:
                continue
            at = f" at {delete.content_offset}" if delete.is_deletion_vector else ""
            refused = "it is live twice" if delete.identity in self.twice else None
            self._note(kind, delete.file_path, f"remove the {delete.kind}{at}", refused)
            if refused is None:
                self.removed[delete.identity] = entry

    def _naming_nothing(self) -> Iterator[LiveDelete]:
        """Find position delete files of a partition that name no live data file. Skip those that cannot be read."""
        if "dangling-position-delete" not in self.kinds:
            return
        known = {d.identity for _, d in self.live.dangling()}
        of_partition = (
            x for x in self.live.deletes if x[1].kind == "position-delete" and referenced_path(x[1]) is None
        )
        scoped = [(e, d) for e, d in of_partition if d.identity not in known]
        check = partial(check_delete_file, self.context.io, self.base.metadata)
        for (entry, delete), content in zip(scoped, self.engine.map(check, [(d,) for _, d in scoped]), strict=True):
            last = content.last_positions.get(delete.identity)
            if last is not None and self.live.names_nothing(entry, last):
                yield entry, delete

    def _footers(self) -> None:
        if "puffin-footer" not in self.kinds:
            return
        by_path: dict[str, list[LiveDelete]] = {}
        for entry, delete in self.live.deletes:
            if delete.is_deletion_vector:
                by_path.setdefault(delete.file_path, []).append((entry, delete))
        readable = self.engine.map(partial(_has_footer, self.context.io), by_path)
        for (path, vectors), fine in zip(by_path.items(), readable, strict=True):
            for entry, vector in () if fine else vectors:
                target = vector.referenced_data_file or ""
                if vector.identity in self.removed:
                    continue
                if len(self.live.vectors.get(target, ())) > 1:
                    self._note("puffin-footer", path, "write it again", f"{target} has more than one deletion vector")
                else:
                    self._rewrite("puffin-footer", path, target, [(entry, vector)])

    def _rewrite(self, kind: str, file: str, target: str, vectors: Sequence[LiveDelete]) -> None:
        """Replace the vectors of one data file by one with all their positions, or refuse."""
        if all(vector.identity in self.removed for _, vector in vectors):
            return
        offsets = ", ".join(f"{vector.file_path}@{vector.content_offset}" for _, vector in vectors)
        action = f"write one deletion vector for {target} instead of {offsets}"
        try:
            data, positions = self._merged(target, vectors)
        except DAMAGE as e:
            self._note(kind, file, action, str(e))
            return
        self.removed |= {vector.identity: entry for entry, vector in vectors}
        task = ScanTask(data, tuple(entry for entry, _ in vectors))
        self.written.append(HiddenRows(task, positions, PositionBitmap()))
        self._note(kind, file, f"{action}, with {len(positions)} positions")

    def _merged(self, target: str, vectors: Sequence[LiveDelete]) -> tuple[ManifestEntry, PositionBitmap]:
        """Return the data file and the positions of all its vectors. Raises FormatError, NotFoundError if in doubt."""
        data = self.live.by_path.get(target)
        if data is None:
            raise NotFoundError("the data file is not live: the vectors are dangling", file=target)
        assert isinstance(data.data_file, DataFile)
        positions = PositionBitmap()
        for entry, vector in vectors:
            if vector.identity in self.twice:
                raise FormatError("the deletion vector is live twice", file=vector.file_path)
            if scope_of(vector) != scope_of(data.data_file):
                raise FormatError("the deletion vector is of another partition", file=vector.file_path)
            if not is_old_enough(data, entry):
                raise FormatError("the deletion vector is older than its data file", file=vector.file_path)
            found, expected = vector_of(self.context.io, vector), vector.record_count
            if len(found) != expected:
                message = "the deletion vector has another cardinality"
                raise FormatError(message, file=vector.file_path, found=len(found), expected=expected)
            positions = positions | found
        positions = positions_in_file(positions, data.data_file)
        if not positions:
            # Without a vector, position delete files would apply again.
            raise FormatError("the deletion vector hides no row", file=target)
        return data, positions

    def _dropped(self, head: Snapshot) -> None:
        try:
            found = list(dropped_deletes(self.context, head, self.base.reader)) if DROPPED in self.kinds else []
        except DAMAGE:
            return  # the head is damaged; that has findings of its own, and comes first
        for dropped in found:
            file, why = dropped.entry.data_file.file_path, None
            what = f"hide {dropped.count} rows of {len(dropped.rows)} data files that came back"
            if dropped.unread is not None:
                what = "hide the rows that came back"
                why = f"its keys cannot be read, so that which rows came back is not known: {dropped.unread}"
            elif not self.named:
                why = "it changes what a reader sees: ask for this kind by its name"
            elif any(d.data_file.identity in self.removed for task, _ in dropped.rows for d in task.deletes):
                why = "another repair replaces deletes of these data files: repair again"
            self._note(DROPPED, file, what, why)
            for task, positions in dropped.rows if why is None else ():
                _, known = self.hidden.get(task.data_file.file_path, (task, PositionBitmap()))
                self.hidden[task.data_file.file_path] = (task, known | positions)

    def _totals(self, head: Snapshot) -> None:
        wrong = self.live.wrong_totals(head.summary)
        if wrong and "summary-total" in self.kinds:
            changes = ", ".join(f"{name} {found} -> {expected}" for name, (found, expected) in wrong.items())
            lost = History(self.base.metadata, self.base.reader).unexplained(head, self.live.totals())
            refused = "files may be lost, and the totals are what still tells of them (verify: lost-files)"
            self._note("summary-total", None, f"count totals again: {changes}", refused if lost else None)
            self.totals = None if lost else self.live.totals()


def _has_footer(io: FileIO, path: str) -> bool:
    """Tell whether a Puffin file has a readable footer, or does not exist, so that nothing can be rewritten."""
    try:
        read_puffin_footer(io, path)
    except NotFoundError:
        return True
    except FormatError:
        return False
    return True
