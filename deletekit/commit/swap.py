"""Commit a planned change, a change of metadata, or a new table: swap the metadata, again after each lost race.

Each commit is one compare-and-swap of the metadata location, which `table/catalog.py` asks the catalog for. If it
fails, its files are deleted. If the catalog's answer was lost, they are kept and CommitStateUnknownError is raised,
because the commit may have happened.
Spec: "Commit Conflict Resolution and Retry"; properties `commit.retry.*`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.new_snapshot import NewSnapshot, new_snapshot
from deletekit.commit.planned_change import PlannedChange, expiry_as_lost_race, read_base
from deletekit.errors import CommitConflictError, CommitStateUnknownError, DeletekitError
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.log import tell, telling_failure
from deletekit.table.back_off import BackOff, retry
from deletekit.table.catalog import Catalog, TableState
from deletekit.table.consistency import check_writable
from deletekit.table.file_io import FileIO
from deletekit.table.identifier import Identifier
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_update import apply_updates, requirements_of
from deletekit.table.summary_counters import COUNTERS
from deletekit.table.table import Table

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
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


def commit(change: PlannedChange) -> Commit:
    """Commit a change. After a lost race rebase or replan it, and try again.

    An empty change commits nothing. Of a change that was planned as a dry run, what it would commit is returned.

    Raises CommitConflictError after `commit.retry.num-retries` lost races, naming the conflict if there is one;
    CommitStateUnknownError if the catalog's answer was lost; and whatever planning it again raises. The files of a
    failed commit are deleted, but in the unknown case they are kept.
    """
    if change.request.dry_run:
        planned = result_of(write_snapshot(change))
        return replace(planned, snapshot_id=None, sequence_number=None, attempts=0, plans=change.plans, dry_run=True)
    with telling_failure(change.request.table.name, change.request.ref):
        done = _commit(change)
    tell_commit(change, done)
    return done


def tell_commit(change: PlannedChange, done: Commit) -> None:
    """Log a commit, if something had to change."""
    table, ref = change.request.table, change.request.ref
    if done.snapshot_id is not None:
        names = ("operation", "snapshot_id", "sequence_number", "attempts", "plans")
        facts: dict[str, Any] = {name: getattr(done, name) for name in names}
        facts |= {name: done.summary[name] for name in COUNTERS if name in done.summary}
        tell("commit", table=table.name, ref=ref, **facts, seconds=change.back_off.seconds)


def _commit(change: PlannedChange) -> Commit:
    started = lost = unknown = False

    def attempt() -> Commit:
        nonlocal change, started, lost, unknown
        again = (change.rebased if lost else change.replanned) if started else None
        started, lost = True, False
        change = again() if again else change
        snapshot = write_snapshot(change)
        if snapshot is not None:
            unknown = True
            try:
                state = _swap(change, snapshot)
            except CommitStateUnknownError:
                raise
            except DeletekitError as error:  # a definite no
                unknown, lost = False, isinstance(error, CommitConflictError)
                raise
            change.request.table.adopt(state)
        return replace(result_of(snapshot), attempts=change.back_off.attempts, plans=change.plans)

    try:
        return retry(attempt, change.back_off)
    except BaseException as error:
        if unknown:
            if isinstance(error, CommitStateUnknownError) or not isinstance(error, Exception):
                raise
            raise _broken_off(error) from error
        try:
            if lost and isinstance(error, CommitConflictError):
                raise change.conflict(error) from error
            raise
        finally:
            change.discard()


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
    unknown = False
    try:
        delta = plan(base)
        made = None if delta.is_empty else new_snapshot(base, delta, properties or {})
        whole = metadata if made is None else apply_updates(metadata, made.updates)
        unknown = True
        try:
            state = answered(lambda: catalog.create(identifier, whole))
        except CommitStateUnknownError:
            raise
        except DeletekitError:  # a definite no
            unknown = False
            raise
    except BaseException:
        if not unknown:
            base.write.discard()
        raise
    return Table(identifier, state, catalog), result_of(made)


def result_of(made: NewSnapshot | None) -> Commit:
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


def write_snapshot(change: PlannedChange) -> NewSnapshot | None:
    """Write the manifests of a change; None, and no file left, for an empty one."""
    if change.delta.is_empty:
        change.discard()
        return None
    with expiry_as_lost_race(change.base):
        return new_snapshot(change.base, change.delta, change.request.properties)


def _swap(change: PlannedChange, made: NewSnapshot) -> TableState:
    table, pinned = change.request.table, change.request.pinned_snapshot_id
    updates = made.updates if pinned is None else _while_retained(pinned, made)
    return answered(lambda: table.require_catalog().commit(table.identifier, made.requirements, updates))


def answered(ask: Callable[[], _T]) -> _T:
    """Ask the catalog to commit. Raise CommitStateUnknownError for any error that is not its answer."""
    try:
        return ask()
    except DeletekitError:
        raise
    except Exception as e:
        raise _broken_off(e) from e


def _broken_off(error: Exception) -> CommitStateUnknownError:
    return CommitStateUnknownError("the commit broke off", found=f"{type(error).__name__}: {error}")


def _while_retained(snapshot_id: int, made: NewSnapshot) -> tuple[Mapping[str, Any], ...]:
    """Return updates that a catalog refuses when it no longer has the snapshot.

    No requirement of the REST catalog says so. But every catalog refuses a ref to a missing snapshot, and a ref that
    the same commit sets and removes is never visible.
    """
    name = f"deletekit-{made.snapshot.snapshot_id}"
    return (
        {"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": snapshot_id},
        *made.updates,
        {"action": "remove-snapshot-ref", "ref-name": name},
    )
