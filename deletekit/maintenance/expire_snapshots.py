"""Expire snapshots: remove old snapshots and refs from the metadata, then the files that only they led to.

The commit comes first. Which files to remove is decided on the metadata after it, so that a file which a concurrent
commit uses stays. If it is unknown whether the commit happened, no file is removed.
Spec: "Snapshot Retention Policy"; Java RemoveSnapshots and ReachableFileCleanup.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from deletekit.commit.swap import commit_metadata
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.maintenance.latest_metadata import read_latest
from deletekit.maintenance.reachable import (
    DATA,
    MANIFEST,
    MANIFEST_LIST,
    STATISTICS,
    Reachability,
    statistics_files,
)
from deletekit.maintenance.remove_files import check_gc_enabled, check_not_needed, remove_files
from deletekit.maintenance.retention import Expiry, ExpiryRequest, plan_expiry
from deletekit.table.locations import KnownFiles, SpellingRules
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.metadata_file import logged_files
from deletekit.table.own_places import check_own_metadata
from deletekit.table.sink_batches import KEPT_FOR_EVER, rewound_sinks
from deletekit.table.table import Table
from deletekit.verbs.shared.read_options import milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredSnapshots:
    """What `expire_snapshots` did; in a dry run, what it would do.

    Attributes
    ----------
    snapshot_ids, refs: removed from the table's metadata.
    deleted_data_files, ...: paths removed from storage, by kind of file. A Puffin file counts once.
    kept_files: files that no snapshot leads to any more, but that lie outside of the table's folders. They stay.
    failed_files: path -> reason, of files that could not be removed. They are orphans now.
    """

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    deleted_data_files: tuple[str, ...] = ()
    deleted_position_delete_files: tuple[str, ...] = ()
    deleted_deletion_vector_files: tuple[str, ...] = ()
    deleted_equality_delete_files: tuple[str, ...] = ()
    deleted_manifest_files: tuple[str, ...] = ()
    deleted_manifest_lists: tuple[str, ...] = ()
    deleted_statistics_files: tuple[str, ...] = ()
    kept_files: tuple[str, ...] = ()
    failed_files: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False


# Files are removed in this order: what a crash leaves is then still explained by what leads to it.
_FIELDS = {
    DATA: "deleted_data_files",
    "position-delete": "deleted_position_delete_files",
    "deletion-vector": "deleted_deletion_vector_files",
    "equality-delete": "deleted_equality_delete_files",
    MANIFEST: "deleted_manifest_files",
    MANIFEST_LIST: "deleted_manifest_lists",
    STATISTICS: "deleted_statistics_files",
}


def expire_snapshots(
    table: Table,
    *,
    older_than: int | str | datetime | None = None,
    retain_last: int | None = None,
    snapshot_ids: Sequence[int] = (),
    other_locations: Sequence[str] = (),
    dry_run: bool = False,
    engine: Engine | None = None,
) -> ExpiredSnapshots:
    """Remove snapshots and refs that are too old, and the files that no remaining snapshot leads to.

    Parameters
    ----------
    older_than: snapshots made before this time expire (milliseconds, a datetime or ISO 8601; UTC by default). Default:
        the table's `history.expire.max-snapshot-age-ms` ago, 5 days. A branch's own `max-snapshot-age-ms` overrides
        both.
    retain_last: how many of its newest snapshots a branch keeps, whatever their age. Default: the table's
        `history.expire.min-snapshots-to-keep`, 1. A branch's own `min-snapshots-to-keep` overrides both.
    snapshot_ids: these expire too, whatever their age.
    other_locations: folders whose files also belong to this table. Files outside of these, of the table's location and
        of its `write.data.path` and `write.metadata.path` stay, and are listed in `kept_files`: metadata may name any
        file, even another table's.
    dry_run: decide everything, change nothing.
    engine: where manifests are read and files removed.

    Refs older than their `max-ref-age-ms` (default: `history.expire.max-ref-age-ms`) expire, except `main`.

    Raises InvalidInputError if `gc.enabled` is false, for a snapshot that is the head of a retained ref, for a table
    whose metadata file is not where its location says, and for a read-only table; NotFoundError for an unknown
    snapshot; CommitConflictError after too many lost races; CommitStateUnknownError if the catalog's answer was lost,
    and then no file is removed; FormatError if metadata that must be read is damaged, before anything changes.
    """
    table.require_catalog()
    metadata = table.refresh().metadata
    check_gc_enabled(metadata)
    request = _request(older_than, retain_last, snapshot_ids)
    for snapshot_id in request.snapshot_ids:
        metadata.snapshot_by_id(snapshot_id)
    places = check_own_metadata(metadata, table.metadata_location, other_locations)
    return _expired(table, request, engine_or_default(engine), dry_run=dry_run, owned=places.hold)


def expire_only(
    table: Table, snapshot_ids: Sequence[int], engine: Engine, other_locations: Sequence[str] = ()
) -> ExpiredSnapshots:
    """Remove exactly these snapshots, whatever the retention policies say. Heads stay.

    Raises as `expire_snapshots`, but not for snapshots that are unknown or are heads.
    """
    metadata = table.refresh().metadata
    check_gc_enabled(metadata)
    request = ExpiryRequest(now_ms=time.time_ns() // 1_000_000, snapshot_ids=tuple(snapshot_ids), by_policy=False)
    places = check_own_metadata(metadata, table.metadata_location, other_locations)
    return _expired(table, request, engine, dry_run=False, owned=places.hold)


def expire_owned(
    table: Table,
    older_than: int | str | datetime | None,
    owned: Callable[[str], bool],
    engine: Engine,
    *,
    dry_run: bool,
) -> ExpiredSnapshots:
    """Expire as `expire_snapshots`, even if `gc.enabled` is false, and remove only `owned` files."""
    return _expired(table, _request(older_than, None, ()), engine, dry_run=dry_run, owned=owned, others_files=True)


def _expired(
    table: Table,
    request: ExpiryRequest,
    engine: Engine,
    *,
    dry_run: bool,
    owned: Callable[[str], bool],
    others_files: bool = False,
) -> ExpiredSnapshots:
    """Expire. `owned` tells which files may be removed; `others_files` that the rest is known to be another table's."""
    reachability = Reachability(table.io, engine)

    def plan(metadata: TableMetadata) -> tuple[Expiry, _Unreachable]:
        expiry = plan_expiry(metadata, request)
        after = _without(metadata, expiry)
        return expiry, _unreachable(reachability, metadata, expiry, after, _metadata_files(table))

    # Read before the commit: unreadable metadata must be found while the snapshots still lead to it.
    expiry, unreachable = read_latest(table, plan)
    if not dry_run and (expiry.snapshots or expiry.refs):
        before, expiry = _commit(table, request, others_files=others_files)
        # Decide again on the latest metadata: a concurrent commit may have added a removed file again, and then the
        # file is live (apache/iceberg#17304).
        unreachable = read_latest(
            table, lambda now: _unreachable(reachability, before, expiry, now, _metadata_files(table))
        )
    removable = {path: kind for path, kind in unreachable.files.items() if owned(path)}
    check_not_needed(removable, unreachable.needed)
    failed = {} if dry_run else remove_files(table.io, table.metadata, removable, engine)
    removed: dict[str, list[str]] = {}
    for path, kind in removable.items():
        if path not in failed:
            removed.setdefault(_FIELDS[kind], []).append(path)
    return ExpiredSnapshots(
        snapshot_ids=tuple(s.snapshot_id for s in expiry.snapshots),
        refs=expiry.refs,
        kept_files=() if others_files else tuple(sorted(unreachable.files.keys() - removable.keys())),
        failed_files=failed,
        dry_run=dry_run,
        **{name: tuple(sorted(paths)) for name, paths in removed.items()},
    )


def _request(
    older_than: int | str | datetime | None, retain_last: int | None, snapshot_ids: Sequence[int]
) -> ExpiryRequest:
    if retain_last is not None and retain_last < 1:
        raise InvalidInputError(
            "a branch keeps at least one snapshot",
            kind="retain-last",
            field="retain_last",
            found=retain_last,
            expected="1 or more",
        )
    return ExpiryRequest(
        now_ms=time.time_ns() // 1_000_000,
        older_than_ms=None if older_than is None else milliseconds(older_than, "older_than"),
        retain_last=retain_last,
        snapshot_ids=tuple(snapshot_ids),
    )


def _commit(table: Table, request: ExpiryRequest, *, others_files: bool) -> tuple[TableMetadata, Expiry]:
    """Commit the removal. Return the metadata that the commit was planned on, and its plan.

    The commit requires that no ref has moved and none was created on a snapshot to be removed. So a concurrent
    rollback, fast-forward, cherry-pick or new branch is seen by the next plan, or is refused itself.
    """
    planned: list[tuple[TableMetadata, Expiry]] = []

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        if not others_files:
            check_gc_enabled(metadata)
        expiry = plan_expiry(metadata, request)
        planned.append((metadata, expiry))
        updates: list[Mapping[str, Any]] = [{"action": "remove-snapshot-ref", "ref-name": n} for n in expiry.refs]
        ids = [s.snapshot_id for s in expiry.snapshots]
        if not ids:
            return updates
        # The parents of snapshots show what was rolled back, and they are removed now.
        for tag, head in rewound_sinks(metadata).items():
            if tag not in expiry.refs:
                to = {"ref-name": tag, "type": "tag", "snapshot-id": head, **KEPT_FOR_EVER}
                updates.append({"action": "set-snapshot-ref", **to})
        return [*updates, {"action": "remove-snapshots", "snapshot-ids": ids}]

    commit_metadata(table, build, unchanged_refs=None)
    return planned[-1]


def _without(metadata: TableMetadata, expiry: Expiry) -> TableMetadata:
    """Return the metadata after the commit, as far as reachability needs it."""
    gone = {s.snapshot_id for s in expiry.snapshots}
    raw = dict(metadata.raw)
    for name in ("snapshots", "statistics", "partition-statistics"):
        raw[name] = [entry for entry in raw.get(name) or () if entry["snapshot-id"] not in gone]
    return TableMetadata(raw)


def _metadata_files(table: Table) -> set[str]:
    return {table.metadata_location, *logged_files(table.metadata)}


@dataclass(frozen=True, slots=True)
class _Unreachable:
    """Files that no snapshot leads to any more, with their kinds, in order of removal; and the needed files."""

    files: Mapping[str, str]
    needed: Collection[str]


def _unreachable(
    reachability: Reachability, before: TableMetadata, expiry: Expiry, after: TableMetadata, metadata_files: set[str]
) -> _Unreachable:
    """Find the files of expired snapshots that no snapshot leads to afterwards, however their paths are spelled.

    A missing file of an expired snapshot leads to nothing. A missing file of a remaining snapshot is an error.
    """
    if not expiry.snapshots:
        return _Unreachable({}, ())
    rules = SpellingRules()
    expired = reachability.manifests(before, expiry.snapshots, missing_ok=True)
    kept = reachability.manifests(after, after.snapshots.values())
    needed = {*kept, *_lists(after.snapshots.values()), *statistics_files(after), *metadata_files}
    known = KnownFiles(rules, needed)
    ids = [s.snapshot_id for s in expiry.snapshots]
    others = dict.fromkeys(expired, MANIFEST) | dict.fromkeys(_lists(expiry.snapshots), MANIFEST_LIST)
    others |= dict.fromkeys(statistics_files(before, ids), STATISTICS)
    others = {path: kind for path, kind in others.items() if path not in known}
    candidates = reachability.content([m for p, m in expired.items() if p in others], missing_ok=True)
    # A manifest list was read, so it cannot be a live data file by another name. Anything else can.
    if candidates or not {*others.values()} <= {MANIFEST_LIST}:
        live = reachability.content(kept.values())
        needed |= live.keys()
        known.add(live)
    found = {rules.key(path): (path, kind) for path, kind in (candidates | others).items()}
    order = list(_FIELDS)
    files = sorted(found.values(), key=lambda item: (order.index(item[1]), item[0]))
    return _Unreachable({path: kind for path, kind in files if path not in known}, needed)


def _lists(snapshots: Iterable[Snapshot]) -> set[str]:
    return {s.manifest_list for s in snapshots if s.manifest_list is not None}
