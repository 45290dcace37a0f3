"""Commit a planned change, a change of metadata, or a new table: swap the metadata, again after each lost race.

Each commit is one compare-and-swap of the metadata location, which `table/catalog.py` asks the catalog for. If it
fails, its files are deleted. If the catalog's answer was lost, they are kept and CommitStateUnknownError is raised,
because the commit may have happened.
Spec: "Commit Conflict Resolution and Retry"; properties `commit.retry.*`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.new_snapshot import NewSnapshot, new_snapshot
from deletekit.commit.planned_change import PlannedChange, expiry_as_lost_race, read_base
from deletekit.errors import CommitConflictError, CommitStateUnknownError, DeletekitError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.log import tell, telling_failure
from deletekit.notebook_html import result
from deletekit.table.back_off import BackOff, retry
from deletekit.table.catalog import Catalog, TableState
from deletekit.table.consistency import check_writable
from deletekit.table.file_io import FileIO
from deletekit.table.identifier import Identifier
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_update import apply_updates, requirements_of
from deletekit.table.summary_counters import COUNTERS
from deletekit.table.table import Table
from deletekit.text import count, size

_T = TypeVar("_T")
_OPENED = ("deletes", "bytes of deletes", "data files")


@result
class Commit:
    """What a verb that writes returns.

    Attributes
    ----------
    snapshot_id, sequence_number: of the new snapshot; None when nothing had to change, and of a dry run.
    operation: of the snapshot; None when nothing had to change.
    summary: the snapshot's summary, all text.
    matched_rows: rows of the table that the change found, to delete or replace them; None where it counted none: for
        keys that are written down without reading, and for whole files.
    added_data_files, removed_data_files, added_delete_files, removed_delete_files: as `DataFile` and `DeleteFile`. The
        `kind` of a delete file is how its rows are deleted. Added files of a dry run do not exist.
    attempts: how many times the change was offered to the catalog; 1 unless a race was lost, 0 of a dry run.
    plans: how many times it was planned; 1 unless a concurrent commit was in its way.
    dry_run: whether the change was only planned, and nothing was written.
    """

    snapshot_id: int | None = None
    operation: str | None = None
    sequence_number: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    matched_rows: int | None = None
    added_data_files: tuple[DataFile, ...] = ()
    removed_data_files: tuple[DataFile, ...] = ()
    added_delete_files: tuple[DeleteFile, ...] = ()
    removed_delete_files: tuple[DeleteFile, ...] = ()
    attempts: int = 1
    plans: int = 1
    dry_run: bool = False

    def __repr__(self) -> str:
        if self.operation is None:
            return "Commit(nothing to change)"
        names = ("added_data_files", "removed_data_files", "added_delete_files", "removed_delete_files")
        files = [f"{name}={len(getattr(self, name))}" for name in names if getattr(self, name)]
        ids = [f"snapshot_id={self.snapshot_id}", f"sequence_number={self.sequence_number}"]
        parts = [*(["dry run"] if self.dry_run else ids), *files]
        return f"Commit({self.operation}, {', '.join(parts)})"

    def __str__(self) -> str:
        return "\n".join(["Dry run: nothing was written.", *self.preview()]) if self.dry_run else repr(self)

    def preview(self) -> list[str]:
        """Return lines that say what the change does: its rows, its files, and what readers open then."""
        if self.operation is None:
            return ["Nothing has to change."]
        new, old = self.added_delete_files, self.removed_delete_files
        added, removed = _by_kind(self.added_data_files, new), _by_kind(self.removed_data_files, old)
        files = [*(f"{text} added" for text in added), *(f"{text} removed" for text in removed)]
        more = len(new) - len(old), sum(d.content_bytes for d in new) - sum(d.content_bytes for d in old)
        data = len(self.added_data_files) - len(self.removed_data_files)
        opened = [f"{n:+,} {what}" for n, what in zip((*more, data), _OPENED, strict=True) if n]
        written = sum(f.file_size_in_bytes for f in self.added_data_files) + sum(d.content_bytes for d in new)
        rows = "not counted" if self.matched_rows is None else count(self.matched_rows, "row")
        return [
            f"{self.operation}: {rows} of the table deleted or changed",
            f"files: {', '.join(files)}",
            f"to write: {size(written)}, and manifests",
            f"a reader then opens: {', '.join(opened) or 'as many files as before'}",
        ]


def commit(change: PlannedChange) -> Commit:
    """Commit a change. After a lost race rebase or replan it, and try again.

    An empty change commits nothing. Of a change that was planned as a dry run, what it would commit is returned.

    Raises CommitConflictError when the retries or the time of `commit.retry.*` are used up, naming the conflict if
    there is one; CommitStateUnknownError if the catalog's answer was lost; and whatever planning it again raises. The
    files of a failed commit are deleted, but in the unknown case they are kept.
    """
    if change.request.dry_run:
        planned = _result_of(_write_snapshot(change))
        return replace(planned, snapshot_id=None, sequence_number=None, attempts=0, plans=change.plans, dry_run=True)
    return commit_together([change])[0]


def commit_together(changes: Sequence[PlannedChange]) -> list[Commit]:
    """Commit changes of different tables of one catalog in one transaction: all of them or none.

    Spec: REST catalog, "CommitTransactionRequest".

    Raises as `commit`, and UnsupportedError if the catalog has no transactions over several tables.
    """
    attempts = _Attempts(list(changes))
    with telling_failure(", ".join(change.request.table.name for change in changes), changes[0].request.ref):
        done = attempts.until_committed()
    for change, one in zip(attempts.changes, done, strict=True):
        _tell_commit(change, one)
    return done


def _tell_commit(change: PlannedChange, done: Commit) -> None:
    """Log a commit, if something had to change."""
    table, ref = change.request.table, change.request.ref
    if done.snapshot_id is not None:
        names = ("operation", "snapshot_id", "sequence_number", "attempts", "plans")
        facts: dict[str, Any] = {name: getattr(done, name) for name in names}
        facts |= {name: done.summary[name] for name in COUNTERS if name in done.summary}
        tell("commit", table=table.name, ref=ref, **facts, seconds=change.back_off.seconds)


class _Question:
    """A swap that a catalog is asked for.

    Attributes
    ----------
    is_open: the catalog was asked and has not refused, so the commit may have happened.
    """

    is_open = False

    def ask(self, swap: Callable[[], _T]) -> _T:
        """Return the catalog's answer. Raise CommitStateUnknownError for any error that is none."""
        self.is_open = True
        try:
            return swap()
        except CommitStateUnknownError:
            raise
        except DeletekitError:
            self.is_open = False
            raise
        except Exception as e:
            raise _broken_off(e) from e


class _Attempts:
    """The attempts to commit changes together.

    Attributes
    ----------
    changes: as they were last planned.
    """

    def __init__(self, changes: list[PlannedChange]) -> None:
        self.changes = changes
        self._back_off = changes[0].back_off
        self._question = _Question()
        self._again: Callable[[PlannedChange], PlannedChange] | None = None

    def until_committed(self) -> list[Commit]:
        """Try until no race is lost."""
        try:
            return retry(self._attempt, self._back_off)
        except BaseException as error:
            if self._question.is_open:
                if isinstance(error, CommitStateUnknownError) or not isinstance(error, Exception):
                    raise
                raise _broken_off(error) from error
            try:
                if self._again is PlannedChange.rebased and isinstance(error, CommitConflictError):
                    raise self.changes[0].conflict(error) from error
                raise
            finally:
                for change in self.changes:
                    change.discard()

    def _attempt(self) -> list[Commit]:
        again, self._again = self._again, PlannedChange.replanned
        if again is not None:
            for number, change in enumerate(self.changes):
                self.changes[number] = again(change)
        made = [(change, _write_snapshot(change)) for change in self.changes]
        offered = [(change, snapshot) for change, snapshot in made if snapshot is not None]
        if offered:
            self._swap(offered)
        attempts = self._back_off.attempts
        return [replace(_result_of(snapshot), attempts=attempts, plans=change.plans) for change, snapshot in made]

    def _swap(self, offered: Sequence[tuple[PlannedChange, NewSnapshot]]) -> None:
        tables = [change.request.table for change, _ in offered]
        parts = [(change.request.table.identifier, new.requirements, _updates(change, new)) for change, new in offered]
        catalog = tables[0].require_catalog()
        try:
            if len(parts) == 1:
                states = [self._question.ask(lambda: catalog.commit(*parts[0]))]
            else:
                states = self._question.ask(lambda: catalog.commit_together(parts))
        except CommitConflictError:
            self._again = PlannedChange.rebased
            raise
        for table, state in zip(tables, states, strict=True):
            table.adopt(state)


def commit_metadata(
    table: Table,
    build: Callable[[TableMetadata], Sequence[Mapping[str, Any]]],
    *,
    unchanged_refs: Collection[str] | None = (),
) -> None:
    """Commit a change of metadata and no rows: the updates that `build` makes, called again after a lost race.

    Parameters
    ----------
    build: gets the current metadata, and returns REST updates, or none if there is nothing to do.
    unchanged_refs: refs that must still point where `build` saw them, or still be missing; None: every ref of the
        metadata.

    The schema, spec and id counters that `build` saw must still be the table's. Raises FormatError for metadata that
    contradicts itself; CommitConflictError after too many lost races; CommitStateUnknownError.
    """
    catalog, back_off = table.require_catalog(), BackOff(table.properties, name=table.name)

    def attempt() -> None:
        metadata = table.refresh().metadata
        check_writable(metadata, table.metadata_location)
        updates = build(metadata)
        if updates:
            names = sorted(metadata.refs if unchanged_refs is None else unchanged_refs)
            refs = {name: metadata.refs.get(name, {}).get("snapshot-id") for name in names}
            requirements = requirements_of(metadata, refs, same_schema=True)
            table.adopt(catalog.commit(table.identifier, requirements, updates))
            actions = ",".join(sorted({update["action"] for update in updates}))
            tell("change", table=table.name, actions=actions, attempts=back_off.attempts, seconds=back_off.seconds)

    with telling_failure(table.name):
        retry(attempt, back_off)


def create_with(
    catalog: Catalog,
    identifier: Identifier,
    metadata: TableMetadata,
    io: FileIO,
    plan: Callable[[Base], RowDelta],
    properties: Mapping[str, str] | None = None,
) -> tuple[Table, Commit]:
    """Create a table with the change that `plan` returns, in one step: it is never seen empty.

    An empty change makes an empty table. If it fails, its files are deleted, unless the catalog's answer was lost.
    Spec: REST catalog, "CreateTableRequest" with `stage-create`.

    Parameters
    ----------
    metadata: of the table without a snapshot; its location is where files are written.
    properties: extra entries for the snapshot summary.

    Raises InvalidInputError when the table exists; else as `commit` does.
    """
    catalog.check_writable(metadata.format_version)
    base = read_base(Table(identifier, TableState(metadata, metadata.location, io), catalog))
    question = _Question()
    try:
        delta = plan(base)
        made = None if delta.is_empty else new_snapshot(base, delta, properties or {})
        whole = metadata if made is None else apply_updates(metadata, made.updates)
        state = question.ask(lambda: catalog.create(identifier, whole))
    except BaseException:
        if not question.is_open:
            base.write.discard()
        raise
    return Table(identifier, state, catalog), _result_of(made)


def _result_of(made: NewSnapshot | None) -> Commit:
    """Return what a verb returns for a snapshot that was committed; None: nothing had to change."""
    if made is None:
        return Commit()
    delta, snapshot = made.delta, made.snapshot
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.operation,
        sequence_number=snapshot.sequence_number,
        summary=dict(snapshot.summary),
        matched_rows=delta.matched_rows,
        added_data_files=delta.added_data_files,
        removed_data_files=tuple(e.data_file for e in delta.removed_data_files if isinstance(e.data_file, DataFile)),
        added_delete_files=delta.added_delete_files,
        removed_delete_files=tuple(
            e.data_file for e in delta.removed_delete_files if isinstance(e.data_file, DeleteFile)
        ),
    )


def _write_snapshot(change: PlannedChange) -> NewSnapshot | None:
    """Write the manifests of a change; None, and no file left, for an empty one."""
    if change.delta.is_empty:
        change.discard()
        return None
    with expiry_as_lost_race(change.base):
        made = new_snapshot(change.base, change.delta, change.request.properties)
        if change.request.check is not None:
            change.request.check(change.base, made)
    return made


def _by_kind(data: Sequence[DataFile], deletes: Sequence[DeleteFile]) -> Iterator[str]:
    """Yield how many files of each kind there are, and their bytes."""
    sizes = [("data file", f.file_size_in_bytes) for f in data] + [(d.kind, d.content_bytes) for d in deletes]
    for kind in dict.fromkeys(kind for kind, _ in sizes):
        of_kind = [n for k, n in sizes if k == kind]
        yield f"{count(len(of_kind), kind.replace('-', ' '))} ({size(sum(of_kind))})"


def _broken_off(error: Exception) -> CommitStateUnknownError:
    return CommitStateUnknownError("the commit broke off", found=f"{type(error).__name__}: {error}")


def _updates(change: PlannedChange, made: NewSnapshot) -> tuple[Mapping[str, Any], ...]:
    """Return the updates of a commit, such that a catalog refuses them when it no longer has the pinned snapshot.

    No requirement of the REST catalog says so. But every catalog refuses a ref to a missing snapshot, and a ref that
    the same commit sets and removes is never visible.
    """
    pinned = change.request.pinned_snapshot_id
    if pinned is None:
        return made.updates
    name = f"deletekit-{made.snapshot.snapshot_id}"
    return (
        {"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": pinned},
        *made.updates,
        {"action": "remove-snapshot-ref", "ref-name": name},
    )
