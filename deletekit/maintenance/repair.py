"""Repair damage that has one safe repair, in one commit that changes no row.

Only what `verify` reports as repairable is repaired, and only the kinds that the call asks for. What needs a decision
is refused and left alone. The history stays: older snapshots keep what they have.
Spec: "Deletion Vectors", "Snapshots". Two deletion vectors of one file are an error for every reader, so the live rows
of such a file are those that neither vector deletes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.merge_previous_deletes import HiddenRows, positions_in_file, replace_deletes
from deletekit.deletes.read import ReadContext, deleted_positions
from deletekit.deletes.scan_task import ScanTask
from deletekit.deletes.which_apply import is_old_enough, referenced_path, scope_of
from deletekit.deletes.write_context import check_parquet_only
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import DeletekitError, FormatError, InvalidInputError, NotFoundError
from deletekit.formats.content_file import DataFile, DeleteFile, ManifestEntry
from deletekit.formats.deletion_vector import PositionBitmap
from deletekit.formats.manifest_list import ManifestContent
from deletekit.maintenance.verify.delete_file_rules import check_delete_file, vector_of
from deletekit.maintenance.verify.dropped_deletes import DROPPED, dropped_deletes
from deletekit.maintenance.verify.finding_kinds import REPAIRS
from deletekit.maintenance.verify.live_file_checks import names_nothing
from deletekit.maintenance.verify.report import Finding, error
from deletekit.maintenance.verify.run import verify
from deletekit.maintenance.verify.snapshot_files import SnapshotFiles, dangling_kind
from deletekit.maintenance.verify.unreadable import DAMAGE
from deletekit.table.file_io import FileIO, read_puffin_footer
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What `repair` returns.

    Attributes
    ----------
    actions: what was done; in a dry run, what would be done.
    refused: damage of these kinds that was left, with the reason.
    unrepaired: errors that `verify(level="deletes")` finds in the branch's head, and that were not repaired.
    commit: the commit. None in a dry run, and if there was nothing to do.
    """

    actions: tuple[RepairAction, ...] = ()
    refused: tuple[RepairAction, ...] = ()
    unrepaired: tuple[Finding, ...] = ()
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
        the totals again. `dropped-equality-delete` hides the rows that came back when a rewrite removed an equality
        delete that they need. It is done only if it is named, because readers see it; its operation is `delete`.
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
        return _plan(table.refresh(), ref, chosen, engine, named=named).report(None)
    plans: list[_Plan] = []

    def build(base: Base) -> RowDelta:
        plan = _Plan(base.table.io, base.metadata, base.snapshot, base.reader, chosen, named)
        plan.make(engine)
        plans.append(plan)
        return plan.delta(base)

    done = commit(plan_change(table, build, ref=ref, properties=commit_properties))
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
        raise InvalidInputError(
            "kind has no safe repair",
            kind="repair",
            field="kinds",
            found=", ".join(unknown),
            expected=", ".join(REPAIRS),
        )
    return chosen


def _plan(table: Table, ref: str, kinds: frozenset[str], engine: Engine, *, named: bool) -> _Plan:
    refs = table.metadata.refs
    if ref in refs and refs[ref].get("type") == "tag":
        raise InvalidInputError("a tag cannot be written to", kind="ref", field="ref", found=ref, expected="a branch")
    snapshot = table.metadata.snapshot_of_ref(ref)
    plan = _Plan(table.io, table.metadata, snapshot, SnapshotReader(table.io, table.metadata), kinds, named)
    plan.make(engine)
    return plan


@dataclass
class _Plan:
    """The repairs of one head.

    Attributes
    ----------
    named: the caller chose the kinds.
    removed: delete entries to remove.
    written: deletion vectors to write.
    hidden: rows to hide, by the path of their data file.
    totals: the right totals of the summary, if they are wrong and repaired.
    live, twice: the live files, and the identities of deletes that are live twice.
    """

    io: FileIO
    metadata: TableMetadata
    snapshot: Snapshot | None
    reader: SnapshotReader
    kinds: frozenset[str]
    named: bool
    removed: dict[tuple[Any, ...], ManifestEntry] = field(default_factory=dict)
    written: list[HiddenRows] = field(default_factory=list)
    actions: list[RepairAction] = field(default_factory=list)
    refused: list[RepairAction] = field(default_factory=list)
    totals: dict[str, int] | None = None
    hidden: dict[str, tuple[ScanTask, PositionBitmap]] = field(default_factory=dict)
    live: SnapshotFiles = field(init=False)
    twice: set[tuple[Any, ...]] = field(init=False)

    def make(self, engine: Engine) -> None:
        """Plan every repair. The entries are collected here, because `DeleteFileIndex` refuses duplicate vectors."""
        if self.snapshot is None:
            return
        files = (self.reader.live_entries(self.snapshot, content) for content in ManifestContent)
        self.live = SnapshotFiles(self.metadata, chain.from_iterable(files))
        self.twice = {i for i, n in Counter(e.data_file.identity for e in self.live.deletes).items() if n > 1}
        self._dangling(engine)
        if "duplicate-deletion-vector" in self.kinds:
            for path, entries in sorted(self.live.duplicate_vectors().items()):
                self._rewrite("duplicate-deletion-vector", path, path, entries)
        if "puffin-footer" in self.kinds:
            self._footers(engine)
        if DROPPED in self.kinds:
            self._dropped(self.snapshot)
        wrong = self.live.wrong_totals(self.snapshot.summary)
        if wrong and "summary-total" in self.kinds:
            self.totals = self.live.totals()
            changes = ", ".join(f"{name} {found} -> {expected}" for name, (found, expected) in wrong.items())
            self.actions.append(RepairAction(kind="summary-total", action=f"count totals again: {changes}"))

    def delta(self, base: Base) -> RowDelta:
        """Write the new vectors, and return the change."""
        context = ReadContext(self.io, self.metadata)
        if self.hidden and not self.metadata.version.has_deletion_vectors:
            check_parquet_only(self.metadata, "write.delete.format.default")
        hidden = (HiddenRows(task, gone, deleted_positions(context, task)) for task, gone in self.hidden.values())
        again = replace_deletes(base.write, context.loader, hidden)
        done = replace_deletes(base.write, context.loader, self.written, drops=False)
        removed = {e.data_file.identity: e for e in (*self.removed.values(), *again.removed_delete_files)}
        return RowDelta(
            added_delete_files=(*done.added_delete_files, *again.added_delete_files),
            removed_delete_files=tuple(removed.values()),
            removed_data_files=again.removed_data_files,
            operation=None if self.hidden else "replace",
            parent_totals=self.totals,
        )

    def _dropped(self, head: Snapshot) -> None:
        try:
            found = list(dropped_deletes(ReadContext(self.io, self.metadata), head, self.reader))
        except DAMAGE:
            return  # the head is damaged; that has findings of its own, and comes first
        for dropped in found:
            file = dropped.entry.data_file.file_path
            what = f"hide {dropped.count} rows of {len(dropped.rows)} data files that came back"
            busy = any(d.data_file.identity in self.removed for task, _ in dropped.rows for d in task.deletes)
            if dropped.unread is not None:
                why = f"its keys cannot be read, so that which rows came back is not known: {dropped.unread}"
                self._refuse(DROPPED, file, "hide the rows that came back", why)
            elif not self.named:
                self._refuse(DROPPED, file, what, "it changes what a reader sees: ask for this kind by its name")
            elif busy:
                self._refuse(DROPPED, file, what, "another repair replaces deletes of these data files: repair again")
            else:
                for task, positions in dropped.rows:
                    known = self.hidden.get(task.data_file.file_path)
                    both = positions if known is None else known[1] | positions
                    self.hidden[task.data_file.file_path] = (task, both)
                self.actions.append(RepairAction(kind=DROPPED, file=file, action=what))

    def report(self, done: Commit | None) -> RepairReport:
        return RepairReport(actions=tuple(self.actions), refused=tuple(self.refused), commit=done)

    def _dangling(self, engine: Engine) -> None:
        for entry in (*self.live.dangling(), *self._naming_nothing(engine)):
            delete = entry.data_file
            assert isinstance(delete, DeleteFile)
            kind = dangling_kind(delete)
            if kind not in self.kinds or delete.identity in self.removed:
                continue
            at = f" at {delete.content_offset}" if delete.is_deletion_vector else ""
            what = {"kind": kind, "file": delete.file_path, "action": f"remove the {delete.kind}{at}"}
            if delete.identity in self.twice:
                self.refused.append(RepairAction(**what, refused="it is live twice"))
                continue
            self.removed[delete.identity] = entry
            self.actions.append(RepairAction(**what))

    def _naming_nothing(self, engine: Engine) -> Iterator[ManifestEntry]:
        """Find position delete files of a partition that name no live data file. Skip those that cannot be read."""
        if "dangling-position-delete" not in self.kinds:
            return
        live = self.live
        known = {e.data_file.identity for e in live.dangling()}
        scoped = [
            (e, d)
            for e, d in live.delete_files()
            if d.kind == "position-delete" and referenced_path(d) is None and d.identity not in known
        ]
        contents = engine.map(partial(check_delete_file, self.io, self.metadata), [(d,) for _, d in scoped])
        for (entry, delete), content in zip(scoped, contents, strict=True):
            last = content.last_positions.get(delete.identity)
            if last is not None and names_nothing(live, entry, last):
                yield entry

    def _footers(self, engine: Engine) -> None:
        by_path: dict[str, list[ManifestEntry]] = {}
        for entry, delete in self.live.delete_files():
            if delete.is_deletion_vector:
                by_path.setdefault(delete.file_path, []).append(entry)
        readable = engine.map(partial(_has_footer, self.io), by_path)
        for (path, entries), fine in zip(by_path.items(), readable, strict=True):
            for entry in () if fine else entries:
                vector = entry.data_file
                assert isinstance(vector, DeleteFile)
                target = vector.referenced_data_file or ""
                if vector.identity in self.removed:
                    continue
                if len(self.live.vectors.get(target, ())) > 1:
                    self._refuse("puffin-footer", path, "write it again", f"{target} has more than one deletion vector")
                    continue
                self._rewrite("puffin-footer", path, target, [entry])

    def _rewrite(self, kind: str, file: str, target: str, entries: list[ManifestEntry]) -> None:
        """Replace the vectors of one data file by one with all their positions, or refuse."""
        if all(e.data_file.identity in self.removed for e in entries):
            return
        offsets = ", ".join(f"{e.data_file.file_path}@{_offset(e)}" for e in entries)
        action = f"write one deletion vector for {target} instead of {offsets}"
        try:
            data, positions = self._merged(target, entries)
        except DAMAGE as e:
            self._refuse(kind, file, action, str(e))
            return
        self.removed |= {e.data_file.identity: e for e in entries}
        self.written.append(HiddenRows(ScanTask(data, tuple(entries)), positions, PositionBitmap()))
        self.actions.append(RepairAction(kind=kind, file=file, action=f"{action}, with {len(positions)} positions"))

    def _merged(self, target: str, entries: list[ManifestEntry]) -> tuple[ManifestEntry, PositionBitmap]:
        """Return the data file and the positions of all its vectors. Raises FormatError, NotFoundError if in doubt."""
        data = self.live.by_path.get(target)
        if data is None:
            raise NotFoundError("the data file is not live: the vectors are dangling", file=target)
        assert isinstance(data.data_file, DataFile)
        positions = PositionBitmap()
        for entry in entries:
            delete = entry.data_file
            assert isinstance(delete, DeleteFile)
            if delete.identity in self.twice:
                raise FormatError("the deletion vector is live twice", file=delete.file_path)
            if scope_of(delete) != scope_of(data.data_file):
                raise FormatError("the deletion vector is of another partition", file=delete.file_path)
            if not is_old_enough(data, entry):
                raise FormatError("the deletion vector is older than its data file", file=delete.file_path)
            found = vector_of(self.io, delete)
            if len(found) != delete.record_count:
                raise FormatError(
                    "the deletion vector has another cardinality",
                    file=delete.file_path,
                    found=len(found),
                    expected=delete.record_count,
                )
            positions = positions | found
        positions = positions_in_file(positions, data.data_file)
        if not positions:
            # Without a vector, position delete files would apply again.
            raise FormatError("the deletion vector hides no row", file=target)
        return data, positions

    def _refuse(self, kind: str, file: str, action: str, why: str) -> None:
        self.refused.append(RepairAction(kind=kind, file=file, action=action, refused=why))


def _has_footer(io: FileIO, path: str) -> bool:
    """Tell whether a Puffin file has a readable footer, or does not exist, so that nothing can be rewritten."""
    try:
        read_puffin_footer(io, path)
    except NotFoundError:
        return True
    except FormatError:
        return False
    return True


def _offset(entry: ManifestEntry) -> int | None:
    return entry.data_file.content_offset if isinstance(entry.data_file, DeleteFile) else None
