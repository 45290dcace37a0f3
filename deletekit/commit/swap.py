"""Committing: produce on the current head, compare-and-swap, and go on from there when someone else was first.

Law: nothing of a failed attempt stays, unless the catalog could not say whether it failed. After a lost race a change
is committed on the new head as it is written where `conflicts.judge` finds that it may be, and else planned anew, which
is always safe, because nothing of the old plan is visible.
Spec: "Commit Conflict Resolution and Retry"; properties `commit.retry.*`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from deletekit.commit.change import Base, Produced, RowDelta, produce
from deletekit.commit.conflicts import PlannedChange, carry, judge
from deletekit.commit.manifest_rewrite import ManifestRewrite, produce_rewrite
from deletekit.deletes.read import ReadContext
from deletekit.deletes.write_context import WriteContext
from deletekit.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeletekitError,
    InvalidInputError,
    NotFoundError,
)
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.table.catalog import TableState
from deletekit.table.consistency import check_manifest_list, check_writable
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.properties import value_of
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table

__all__ = ["Attempt", "Build", "Commit", "check_same_table", "commit", "commit_result"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a verb that writes returns.

    Attributes
    ----------
    snapshot_id, operation, sequence_number: of the new snapshot; None when nothing had to change.
    summary: the snapshot's summary, all text.
    added_data_files, removed_data_files, added_delete_files, removed_delete_files: as `DataFile` and `DeleteFile`.
    attempts: how many times the change was offered to the catalog; 1 unless a race was lost.
    plans: how many times it was planned: once, unless what landed meanwhile was in its way.
    """

    snapshot_id: int | None = None
    operation: str | None = None
    sequence_number: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    added_data_files: tuple[DataFile, ...] = ()
    removed_data_files: tuple[DataFile, ...] = ()
    added_delete_files: tuple[DeleteFile, ...] = ()
    removed_delete_files: tuple[DeleteFile, ...] = ()
    attempts: int = 1
    plans: int = 1


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: the state to plan on, and where to write."""

    table: Table
    base: Base
    write: WriteContext


Change = RowDelta | PlannedChange | ManifestRewrite
Build = Callable[[Attempt], Change]
Validate = Callable[[Base], None]
ReaderOf = Callable[[TableMetadata], SnapshotReader]


def commit(
    table: Table,
    build: Build,
    *,
    ref: str = MAIN,
    properties: Mapping[str, str] | None = None,
    pinned_snapshot_id: int | None = None,
    validate: Validate | None = None,
    reader: ReaderOf | None = None,
) -> Commit:
    """Plan a change with `build`, and commit it on branch `ref`; when another commit was first, again on what it made.

    Parameters
    ----------
    build: plans on `attempt.base` and writes files through `attempt.write`. A PlannedChange is committed on a new head
        as it is written where that is safe; a RowDelta or ManifestRewrite is planned again for each attempt. An empty
        change commits nothing.
    properties: extra entries for the snapshot summary.
    pinned_snapshot_id: a snapshot whose files the change makes use of, and which must not have expired when it lands.
    validate: raises when the change may not be committed on a head; asked of the head of every attempt.
    reader: gives a reader of the table's manifests, which may know some of them already.

    Raises CommitConflictError when `commit.retry.num-retries` races were lost, naming what was in the way if the change
    would have to be planned again; CommitStateUnknownError when the catalog could not say; whatever else `build`
    raises. Files of attempts that failed are removed; in the unknown case they are kept, because the commit may have
    landed.
    """
    waits = Waits(table.properties)
    uuid = table.metadata.table_uuid
    number = plans = 0
    work: _Work | None = None
    while True:
        number += 1
        with _discarding(work):
            check_request(table.refresh(), ref, properties)
            check_same_table(table, uuid)
            if validate is not None:
                validate(_base(table, ref, reader))
            kept = None if work is None else _carried(work, ref)
        work = kept
        try:
            if work is None:
                plans += 1
                work = _plan(table, ref, build, reader)
            produced = _produce(work, properties)
            if produced is None:
                return Commit(attempts=number, plans=plans)
            state = _submit(work, produced, pinned_snapshot_id)
        except CommitConflictError as lost:
            with _discarding(work):
                if not waits.again(number):
                    raise _reason(work, table, ref, lost) from lost
            continue
        table.adopt(state)
        return replace(commit_result(produced), attempts=number, plans=plans)


def check_request(table: Table, ref: str, properties: Mapping[str, str] | None = None) -> None:
    """Refuse what no change can be committed with: a read-only table, a tag, summary entries that are not text.

    Raises InvalidInputError; NotFoundError for a branch that is not there; UnsupportedError when the catalog cannot
    write the table's format version, though it lets it be read; FormatError for metadata that contradicts itself.
    """
    table.require_catalog().check_writable(table.format_version)
    _check_properties(properties or {})
    refs = table.metadata.refs
    if ref in refs and refs[ref].get("type") == "tag":
        raise InvalidInputError("a tag cannot be written to", kind="ref", field="ref", found=ref, expected="a branch")
    table.metadata.snapshot_of_ref(ref)
    check_writable(table.metadata, table.metadata_location)


def check_same_table(table: Table, uuid: str | None) -> None:
    """Refuse what was meant for one table where another got its name. Raises NotFoundError."""
    found = table.metadata.table_uuid
    if uuid is not None and found != uuid:
        raise NotFoundError(
            "the table was replaced by another of its name",
            kind="table-not-found",
            field="table-uuid",
            found=found,
            expected=uuid,
        )


class Waits:
    """Exponential back-off with jitter, by the table's `commit.retry.*` properties. Raises InvalidInputError."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._retries = value_of(properties, "commit.retry.num-retries")
        self._min = value_of(properties, "commit.retry.min-wait-ms") / 1000
        self._max = value_of(properties, "commit.retry.max-wait-ms") / 1000
        self._deadline = time.monotonic() + value_of(properties, "commit.retry.total-timeout-ms") / 1000

    def again(self, failed: int) -> bool:
        """Sleep and say True, or False when the attempts or the time are used up."""
        wait = min(self._max, self._min * 2 ** min(failed - 1, 30)) * random.uniform(0.5, 1.0)  # noqa: S311  # jitter, not a secret
        if failed > self._retries or time.monotonic() + wait > self._deadline:
            return False
        time.sleep(wait)
        return True


@dataclass(slots=True)
class _Work:
    """A change that is written, on one head. `lost`: the catalog took another commit first, and the files are there."""

    attempt: Attempt
    change: Change
    lost: bool = False

    @property
    def reader(self) -> SnapshotReader:
        return self.attempt.base.reader


def _plan(table: Table, ref: str, build: Build, reader: ReaderOf | None) -> _Work:
    attempt = Attempt(table, _base(table, ref, reader), WriteContext(table.io, table.metadata))
    with _cleaning(attempt.write), _expiring(attempt):
        _check_head(table, attempt.base)
        return _Work(attempt, build(attempt))


def _produce(work: _Work, properties: Mapping[str, str] | None) -> Produced | None:
    """Everything before the catalog hears of it; whatever goes wrong here, the files can go."""
    change, base, write = work.change, work.attempt.base, work.attempt.write
    work.lost = False
    with _cleaning(write), _expiring(work.attempt):
        if change.is_empty:
            write.discard()
            return None
        if isinstance(change, ManifestRewrite):
            return produce_rewrite(base, change, write, properties)
        return produce(base, change.delta if isinstance(change, PlannedChange) else change, write, properties)


def _submit(work: _Work, produced: Produced, pinned: int | None) -> TableState:
    """The compare-and-swap. Files go only when the answer was a definite no: our own errors but the unknown one."""
    table = work.attempt.table
    updates = produced.updates if pinned is None else _while_there(pinned, produced)
    try:
        return table.require_catalog().commit(table.identifier, produced.requirements, updates)
    except CommitStateUnknownError:
        raise
    except CommitConflictError:
        work.lost = True
        raise
    except DeletekitError:
        work.attempt.write.discard()
        raise
    except Exception as e:  # nothing that a catalog answers with: it may have landed
        raise CommitStateUnknownError("the commit broke off", found=f"{type(e).__name__}: {e}") from e


def _carried(work: _Work, ref: str) -> _Work | None:
    """The change on the new head, with the data and delete files it has; None, and no file left, to plan it anew."""
    table, write = work.attempt.table, work.attempt.write
    head = _base(table, ref, lambda _: work.reader)
    if not work.lost or not isinstance(work.change, PlannedChange) or _moved(work.change.delta, head.metadata):
        write.discard()
        return None
    try:
        _check_head(table, head)
        verdict = judge(work.change, work.attempt.base, head)
        if isinstance(verdict, CommitConflictError):
            raise verdict
        delta = carry(verdict, write, ReadContext(table.io, head.metadata).loader)
    except (CommitConflictError, NotFoundError):  # not found: the head itself has expired since
        write.discard()
        return None
    write.discard(keep={f.file_path for f in (*delta.added_data_files, *delta.added_delete_files)})
    return _Work(Attempt(table, head, write), replace(work.change, delta=delta))


def _reason(work: _Work | None, table: Table, ref: str, lost: CommitConflictError) -> CommitConflictError:
    """What was in the way of a change that is given up: a conflict that can be named, or only the lost race."""
    if work is None or not work.lost or not isinstance(work.change, PlannedChange):
        return lost
    with suppress(DeletekitError):
        verdict = judge(work.change, work.attempt.base, _base(table.refresh(), ref, lambda _: work.reader))
        if isinstance(verdict, CommitConflictError):
            return verdict
    return lost


@contextmanager
def _discarding(work: _Work | None) -> Iterator[None]:
    """Around what happens between two attempts: if it fails, the change is given up."""
    if work is None:
        yield
        return
    with _cleaning(work.attempt.write):
        yield


@contextmanager
def _expiring(attempt: Attempt) -> Iterator[None]:
    """Around what reads the base: when it expired meanwhile, and its files are gone, the race is lost, no more."""
    try:
        yield
    except NotFoundError as gone:
        base, metadata = attempt.base.snapshot, attempt.table.refresh().metadata
        if base is None or base.snapshot_id in metadata.snapshots:
            raise
        raise CommitConflictError(
            "the snapshot that the change was planned on expired meanwhile",
            kind="expired-snapshot",
            file=gone.file,
            found=base.snapshot_id,
        ) from gone


@contextmanager
def _cleaning(write: WriteContext) -> Iterator[None]:
    try:
        yield
    except BaseException:
        write.discard()
        raise


def _while_there(snapshot_id: int, produced: Produced) -> tuple[Mapping[str, Any], ...]:
    """The updates, which a catalog refuses when it does not have that snapshot any more.

    No requirement of the REST catalog says so; but a ref to a snapshot that is not there is refused by every catalog,
    and nobody sees one that the same commit sets and removes.
    """
    name = f"deletekit-{produced.snapshot.snapshot_id}"
    return (
        {"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": snapshot_id},
        *produced.updates,
        {"action": "remove-snapshot-ref", "ref-name": name},
    )


def _base(table: Table, ref: str, reader: ReaderOf | None = None) -> Base:
    """The head of a branch; best with a reader that knows the manifests that are still there."""
    metadata = table.metadata
    known = SnapshotReader(table.io, metadata) if reader is None else reader(metadata)
    return Base(metadata=metadata, ref=ref, snapshot=metadata.snapshot_of_ref(ref), reader=known)


def _check_head(table: Table, head: Base) -> None:
    """Refuse a manifest list that the metadata contradicts; a commit reads the list anyway."""
    listed = () if head.snapshot is None else head.reader.manifests(head.snapshot)
    check_manifest_list(head.metadata, listed, table.metadata_location)


def _moved(delta: RowDelta, metadata: TableMetadata) -> bool:
    """Whether a reference that the change moves too has been moved by someone else."""
    return any(metadata.refs.get(ref.name, {}).get("snapshot-id") != ref.found for ref in delta.refs)


def _check_properties(properties: Mapping[str, str]) -> None:
    pairs: dict[Any, Any] = dict(properties)
    for key, value in pairs.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidInputError(
                "summary entries are text", kind="commit-properties", field=str(key), found=value, expected="str"
            )
        if key == "operation":
            raise InvalidInputError("the operation is not the caller's to set", kind="commit-properties", field=key)


def commit_result(produced: Produced) -> Commit:
    """What is told of a snapshot that has landed."""
    delta, snapshot = produced.delta, produced.snapshot
    return Commit(
        snapshot_id=snapshot.snapshot_id,
        operation=snapshot.operation,
        sequence_number=snapshot.sequence_number,
        summary=dict(snapshot.summary),
        added_data_files=delta.added_data_files,
        removed_data_files=tuple(e.data_file for e in delta.removed_data_files if isinstance(e.data_file, DataFile)),
        added_delete_files=delta.added_delete_files,
        removed_delete_files=tuple(
            e.data_file for e in delta.removed_delete_files if isinstance(e.data_file, DeleteFile)
        ),
    )
