"""Plan a change on the head of a branch, and plan or rebase it again after a lost race.

A `PlannedChange` is a value: its files are written, and nothing of it is visible in the table. `swap.commit` commits
it, a dry run only reports it, and after a lost race it is rebased or replanned. If planning fails, its files are
deleted.
Spec: "Commit Conflict Resolution and Retry".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.conflicts import judge, merge_vectors
from deletekit.commit.new_snapshot import NewSnapshot
from deletekit.deletes.read import ReadContext
from deletekit.errors import CommitConflictError, DeletekitError, InvalidInputError, NotFoundError
from deletekit.rows.write_context import WriteContext
from deletekit.table.back_off import BackOff, retry
from deletekit.table.consistency import check_manifest_list, check_writable
from deletekit.table.file_io import WritesNothing
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.properties import check_heeded
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table

Plan = Callable[[Base], RowDelta]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """What `plan_change` was asked for; every attempt needs it again."""

    table: Table
    plan: Plan
    ref: str
    properties: Mapping[str, str]
    table_uuid: str | None
    pinned_snapshot_id: int | None = None
    validate: Callable[[Base], None] | None = None
    check: Callable[[Base, NewSnapshot], None] | None = None
    reader: Callable[[TableMetadata], SnapshotReader] | None = None
    counts_totals: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A change with its files written, on the base that it was planned on, ready to be committed.

    Attributes
    ----------
    delta: the files that it adds and removes.
    request: how it was asked for, so that it can be planned again.
    back_off: counts the attempts to commit it.
    plans: how often it was planned.
    """

    base: Base
    delta: RowDelta
    request: CommitRequest
    back_off: BackOff
    plans: int

    def discard(self) -> None:
        """Delete the files of the change. Only allowed while it is certain that no commit holds them."""
        self.base.write.discard()

    def conflict(self, lost: DeletekitError) -> DeletekitError:
        """Return the error of the last lost race: what landed, and what keeps the change from being rebased onto it."""
        try:
            head = read_base(self.request.table.refresh(), self.request.ref, reader=self.base.reader.follow)
            if self.delta.read_set is not None:
                judge(self.delta, self.delta.read_set, self.base, head)
        except CommitConflictError as conflict:
            lost = self.back_off.gave_up(conflict)
        except DeletekitError:
            pass  # what cannot be judged is a lost race
        metadata, start = self.request.table.metadata, self.base.snapshot and self.base.snapshot.snapshot_id
        newest = metadata.refs.get(self.request.ref, {}).get("snapshot-id")
        since = islice(takewhile(lambda each: each.snapshot_id != start, metadata.ancestors(newest)), 5)
        landed = ", ".join(f"{each.operation} {each.snapshot_id}" for each in since)
        return lost.changed(message=f"{lost.message}; landed meanwhile: {landed or 'no snapshot of this branch'}")

    def replanned(self, head: Base | None = None) -> PlannedChange:
        """Return the change planned again on `head`, or on the current one; the files of the old plan are deleted."""
        self.discard()
        return _plan(self.request, self.back_off, self.plans, head)

    def rebased(self) -> PlannedChange:
        """Return the change on the current head, with its files where that is safe; else planned again."""
        head = _current_head(self.request)
        base = replace(head, reader=self.base.reader.follow(head.metadata), write=self.base.write, is_rebased=True)
        delta = self._delta_on(base)
        if delta is None:
            return self.replanned(head)
        files = (f.file_path for f in (*delta.added_data_files, *delta.added_delete_files))
        base.write.discard(keep={*files, *delta.other_files})
        return replace(self, base=base, delta=delta)

    def _delta_on(self, head: Base) -> RowDelta | None:
        """Return the change for a new head, or None if it must be planned again."""
        delta = self.delta
        if delta.read_set is None:
            return None
        if any(head.metadata.refs.get(ref.name, {}).get("snapshot-id") != ref.found for ref in delta.refs):
            return None
        try:
            _check_head(self.request, head)
            delta, overlaps = judge(delta, delta.read_set, self.base, head)
            return merge_vectors(delta, overlaps, head.write, ReadContext(head.table.io, head.metadata).loader)
        except (CommitConflictError, NotFoundError):  # not found: the head itself has expired since
            return None


def plan_change(
    table: Table,
    plan: Plan,
    *,
    ref: str = MAIN,
    properties: Mapping[str, str] | None = None,
    pinned_snapshot_id: int | None = None,
    validate: Callable[[Base], None] | None = None,
    check: Callable[[Base, NewSnapshot], None] | None = None,
    reader: Callable[[TableMetadata], SnapshotReader] | None = None,
    counts_totals: bool = False,
    dry_run: bool = False,
    refreshed: bool = False,
) -> PlannedChange:
    """Plan a change on the current head of a branch.

    Parameters
    ----------
    plan: gets the base, writes files through `base.write`, and returns the change. It is called again after a lost race
        unless the change can be rebased, which needs a `read_set`.
    properties: extra entries for the snapshot summary.
    pinned_snapshot_id: a snapshot whose files the change uses. It must not have expired when the change is committed.
    validate: raises if the change may not be committed on a head. Called with the head of every attempt.
    check: raises if the snapshot may not be committed that was made on the base; a dry run's snapshot too.
    reader: returns a reader of the table's manifests, which may know some of them already.
    counts_totals: the change counts the totals of the head again, so they may be wrong.
    dry_run: write no file; also allowed for a table without a catalog.
    refreshed: the caller has just asked the catalog for the table, which need not be asked again.

    Raises InvalidInputError, NotFoundError, UnsupportedError, FormatError as `check_request`; CommitConflictError if
    every base expired while `plan` read it; and whatever `plan` raises.
    """
    request = CommitRequest(
        table=table,
        plan=plan,
        ref=ref,
        properties=properties or {},
        pinned_snapshot_id=pinned_snapshot_id,
        validate=validate,
        check=check,
        reader=reader,
        counts_totals=counts_totals,
        dry_run=dry_run,
        table_uuid=table.metadata.table_uuid,
    )
    back_off = BackOff(table.properties, name=table.name)
    back_off.limits()  # refuses a bad property before anything is written
    return _plan(request, back_off, head=_head(request) if refreshed else None)


def read_base(
    table: Table,
    ref: str = MAIN,
    *,
    reader: Callable[[TableMetadata], SnapshotReader] | None = None,
    dry_run: bool = False,
) -> Base:
    """Return the head of a branch, as the table handle knows it. Raises NotFoundError for an unknown branch."""
    metadata = table.metadata
    return Base(
        table=table,
        ref=ref,
        metadata=metadata,
        snapshot=metadata.snapshot_of_ref(ref),
        reader=SnapshotReader(table.io, metadata) if reader is None else reader(metadata),
        write=WriteContext(WritesNothing(table.io) if dry_run else table.io, metadata),
    )


def check_request(
    table: Table, ref: str, properties: Mapping[str, str] | None = None, *, dry_run: bool = False
) -> None:
    """Refuse what no change can be committed with: a read-only table, a tag, summary entries that are not text.

    Raises InvalidInputError, also for a table property that writers must follow and deletekit cannot; NotFoundError for
    an unknown branch; UnsupportedError if the catalog can read the table's
    format version but not write it; FormatError for metadata that contradicts itself.
    """
    if table.catalog is not None or not dry_run:
        table.require_catalog().check_writable(table.format_version)
    _check_properties(properties or {})
    check_heeded(table.properties)
    refs = table.metadata.refs
    if ref in refs and refs[ref].get("type") == "tag":
        raise InvalidInputError("a tag cannot be written to", kind="ref", field="ref", found=ref, expected="a branch")
    table.metadata.snapshot_of_ref(ref)
    check_writable(table.metadata, table.metadata_location)


def check_same_table(table: Table, uuid: str | None) -> None:
    """Raise NotFoundError if the table of this name is not the one with this uuid any more."""
    found = table.metadata.table_uuid
    if uuid is not None and found != uuid:
        message, field = "the table was replaced by another of its name", "table-uuid"
        raise NotFoundError(message, kind="table-not-found", field=field, found=found, expected=uuid)


def _plan(request: CommitRequest, back_off: BackOff, plans: int = 0, head: Base | None = None) -> PlannedChange:
    """Plan on `head`, or on the current head. If that expires meanwhile, wait and plan on the next one."""

    def attempt() -> PlannedChange:
        nonlocal plans, head
        base, head = head or _current_head(request), None
        plans += 1
        try:
            with expiry_as_lost_race(base):
                _check_head(request, base)
                delta = request.plan(base)
        except BaseException:
            base.write.discard()
            raise
        return PlannedChange(base=base, delta=delta, request=request, back_off=back_off, plans=plans)

    return retry(attempt, back_off)


def _current_head(request: CommitRequest) -> Base:
    """Refresh the table and return the head of the branch, once it is certain that it can be committed on."""
    request.table.refresh()
    return _head(request)


def _head(request: CommitRequest) -> Base:
    """Return the same of the table as its handle knows it."""
    table = request.table
    check_request(table, request.ref, request.properties, dry_run=request.dry_run)
    check_same_table(table, request.table_uuid)
    base = read_base(table, request.ref, reader=request.reader, dry_run=request.dry_run)
    if request.validate is not None:
        request.validate(base)
    return base


def _check_head(request: CommitRequest, head: Base) -> None:
    """Refuse a manifest list that contradicts the metadata; a commit reads the list anyway."""
    counted = None if request.counts_totals else head.snapshot
    check_manifest_list(head.metadata, counted, head.manifests, head.table.metadata_location)


def _check_properties(properties: Mapping[Any, Any]) -> None:
    kind = "commit-properties"
    for key, value in properties.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInputError("summary entries are text", kind=kind, field=str(key), found=value, expected="str")
        if key == "operation":
            raise InvalidInputError("the operation is not the caller's to set", kind=kind, field=key)


@contextmanager
def expiry_as_lost_race(base: Base) -> Iterator[None]:
    """If the base's snapshot expired while the block read it, report a lost race instead of a missing file."""
    try:
        yield
    except NotFoundError as missing:
        snapshot, metadata = base.snapshot, base.table.refresh().metadata
        if snapshot is None or snapshot.snapshot_id in metadata.snapshots:
            raise
        message, found = "the snapshot that the change was planned on expired meanwhile", snapshot.snapshot_id
        raise CommitConflictError(message, kind="expired-snapshot", file=missing.file, found=found) from missing
