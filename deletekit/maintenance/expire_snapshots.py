"""Expire snapshots: remove old snapshots and refs from the metadata, then the files that only they led to.

The commit comes first. Which files to remove is decided on the metadata after it, so that a file which a concurrent
commit uses stays. If it is unknown whether the commit happened, no file is removed.
The head of a retained ref never expires.
Spec: "Snapshot Retention Policy"; properties `history.expire.*`; Java RemoveSnapshots and ReachableFileCleanup.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from deletekit.commit.swap import commit_metadata
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.maintenance.reachable import (
    Reachability,
    check_gc_enabled,
    check_not_needed,
    read_latest,
    remove_files,
    statistics_files,
)
from deletekit.notebook_html import result
from deletekit.table.locations import KnownFiles, SpellingRules
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.metadata_file import logged_files
from deletekit.table.metadata_update import apply_updates
from deletekit.table.own_places import check_own_metadata
from deletekit.table.properties import value_of
from deletekit.table.sinks.batches import KEPT_FOR_EVER, file_logs, rewound_sinks
from deletekit.table.sinks.promotions import promotion_tags
from deletekit.table.table import Table
from deletekit.verbs.shared.read_options import milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRequest:
    """What a call asks for. None means the table's property. `now_ms` is the time of the call.

    Without `by_policy`, only `snapshot_ids` expire, except heads.
    """

    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    by_policy: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Snapshots and refs to remove, in the metadata's order, and tags of promotions to move first."""

    snapshots: tuple[Snapshot, ...] = ()
    refs: tuple[str, ...] = ()
    tags: Mapping[str, int] = field(default_factory=dict)


@result
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
    deleted_key_index_files: tuple[str, ...] = ()
    deleted_file_logs: tuple[str, ...] = ()
    kept_files: tuple[str, ...] = ()
    failed_files: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False


# Files are removed in this order: what a crash leaves is then still explained by what leads to it.
_FIELDS = {
    "data": "deleted_data_files",
    "position-delete": "deleted_position_delete_files",
    "deletion-vector": "deleted_deletion_vector_files",
    "equality-delete": "deleted_equality_delete_files",
    "manifest": "deleted_manifest_files",
    "manifest-list": "deleted_manifest_lists",
    "statistics": "deleted_statistics_files",
    "key-index": "deleted_key_index_files",
    "file-log": "deleted_file_logs",
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

    Refs older than their `max-ref-age-ms` (default: `history.expire.max-ref-age-ms`) expire, except `main`. A snapshot
    that no ref leads to, as one that is staged (write-audit-publish), expires if it is older than `older_than`,
    whatever `retain_last` says.

    Raises InvalidInputError if `gc.enabled` is false, for a snapshot that is the head of a retained ref, for a table
    whose metadata file is not where its location says, and for a read-only table; NotFoundError for an unknown
    snapshot; CommitConflictError after too many lost races; CommitStateUnknownError if the catalog's answer was lost,
    and then no file is removed; FormatError if metadata that must be read is damaged, before anything changes.
    """
    table.require_catalog()
    check_gc_enabled(table.refresh().metadata)
    request = _request(older_than, retain_last, snapshot_ids)
    for snapshot_id in request.snapshot_ids:
        table.metadata.snapshot_by_id(snapshot_id)
    places = check_own_metadata(table.metadata, table.metadata_location, other_locations)
    return _expired(table, request, engine_or_default(engine), dry_run=dry_run, owned=places.hold)


def expire_only(
    table: Table, snapshot_ids: Sequence[int], engine: Engine, other_locations: Sequence[str] = ()
) -> ExpiredSnapshots:
    """Remove exactly these snapshots, whatever the retention policies say. Heads stay.

    Raises as `expire_snapshots`, but not for snapshots that are unknown or are heads.
    """
    check_gc_enabled(table.refresh().metadata)
    request = ExpiryRequest(snapshot_ids=tuple(snapshot_ids), by_policy=False)
    places = check_own_metadata(table.metadata, table.metadata_location, other_locations)
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

    def unreachable(before: TableMetadata, expiry: Expiry, after: TableMetadata) -> tuple[dict[str, str], set[str]]:
        metadata_files = {table.metadata_location, *logged_files(table.metadata)}
        return _unreachable(reachability, before, expiry, after, metadata_files)

    def plan(metadata: TableMetadata) -> tuple[Expiry, tuple[dict[str, str], set[str]]]:
        expiry = plan_expiry(metadata, request)
        after = apply_updates(metadata, _updates(metadata, expiry), request.now_ms)
        return expiry, unreachable(metadata, expiry, after)

    # Read before the commit: unreadable metadata must be found while the snapshots still lead to it.
    expiry, (files, needed) = read_latest(table, plan)
    if not dry_run and (expiry.snapshots or expiry.refs):
        before, expiry = _commit(table, request, others_files=others_files)
        # Decide again on the latest metadata: a concurrent commit may have added a removed file again, and then the
        # file is live (apache/iceberg#17304).
        files, needed = read_latest(table, lambda now: unreachable(before, expiry, now))
    removable = {path: kind for path, kind in files.items() if owned(path)}
    check_not_needed(removable, needed)
    failed = {} if dry_run else remove_files(table.io, table.metadata, removable, engine)
    removed: dict[str, list[str]] = {}
    for path, kind in removable.items():
        if path not in failed:
            removed.setdefault(_FIELDS[kind], []).append(path)
    return ExpiredSnapshots(
        snapshot_ids=tuple(s.snapshot_id for s in expiry.snapshots),
        refs=expiry.refs,
        kept_files=() if others_files else tuple(sorted(files.keys() - removable.keys())),
        failed_files=failed,
        dry_run=dry_run,
        **{name: tuple(sorted(paths)) for name, paths in removed.items()},
    )


def _request(
    older_than: int | str | datetime | None, retain_last: int | None, snapshot_ids: Sequence[int]
) -> ExpiryRequest:
    if retain_last is not None and retain_last < 1:
        raise InvalidInputError(
            "a branch keeps at least one snapshot", "retain-last", "retain_last", retain_last, "1 or more"
        )
    return ExpiryRequest(
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
        planned.append((metadata, plan_expiry(metadata, request)))
        return _updates(*planned[-1])

    commit_metadata(table, build, unchanged_refs=None)
    return planned[-1]


def _updates(metadata: TableMetadata, expiry: Expiry) -> list[Mapping[str, Any]]:
    updates: list[Mapping[str, Any]] = [{"action": "remove-snapshot-ref", "ref-name": n} for n in expiry.refs]
    ids = [s.snapshot_id for s in expiry.snapshots]
    if not ids:
        return updates
    # The parents of snapshots show what was rolled back, and they are removed now.
    moved = {**rewound_sinks(metadata), **expiry.tags}
    for tag, head in moved.items():
        if tag not in expiry.refs:
            to = {"ref-name": tag, "type": "tag", "snapshot-id": head, **KEPT_FOR_EVER}
            updates.append({"action": "set-snapshot-ref", **to})
    return [*updates, {"action": "remove-snapshots", "snapshot-ids": ids}]


def _unreachable(
    reachability: Reachability, before: TableMetadata, expiry: Expiry, after: TableMetadata, metadata_files: set[str]
) -> tuple[dict[str, str], set[str]]:
    """Find the files of expired snapshots that no snapshot leads to afterwards, however their paths are spelled.

    Return them with their kinds, in order of removal, and the needed files.

    A missing file of an expired snapshot leads to nothing. A missing file of a remaining snapshot is an error.
    """
    if not expiry.snapshots:
        return {}, set()
    rules = SpellingRules()
    expired = reachability.manifests(before, expiry.snapshots, missing_ok=True)
    kept = reachability.manifests(after, after.snapshots.values())
    needed = {*kept, *_lists(after.snapshots.values()), *statistics_files(after), *metadata_files}
    needed |= reachability.indexes(after, after.snapshots.values()) | file_logs(after, after.snapshots.values())
    known = KnownFiles(rules, needed)
    ids = [s.snapshot_id for s in expiry.snapshots]
    others = dict.fromkeys(expired, "manifest") | dict.fromkeys(_lists(expiry.snapshots), "manifest-list")
    others |= dict.fromkeys(statistics_files(before, ids), "statistics")
    others |= dict.fromkeys(reachability.indexes(before, expiry.snapshots), "key-index")
    others |= dict.fromkeys(file_logs(before, expiry.snapshots), "file-log")
    others = {path: kind for path, kind in others.items() if path not in known}
    candidates = reachability.content([m for p, m in expired.items() if p in others], missing_ok=True)
    # A manifest list was read, so it cannot be a live data file by another name. Anything else can.
    if candidates or not {*others.values()} <= {"manifest-list"}:
        live = reachability.content(kept.values())
        needed |= live.keys()
        known.add(live)
    found = {rules.key(path): (path, kind) for path, kind in (candidates | others).items()}
    order = list(_FIELDS)
    files = sorted(found.values(), key=lambda item: (order.index(item[1]), item[0]))
    return {path: kind for path, kind in files if path not in known}, needed


def _lists(snapshots: Iterable[Snapshot]) -> set[str]:
    return {s.manifest_list for s in snapshots if s.manifest_list is not None}


# --- the retention policy ---------------------------------------------------------------------------------------------


def plan_expiry(metadata: TableMetadata, request: ExpiryRequest) -> Expiry:
    """Decide what expires, as Java's RemoveSnapshots does.

    A ref expires by the age of its head; `main` never does. A branch keeps its newest ancestors: as many as its
    `min-snapshots-to-keep`, and all that are young enough. A tag keeps its one snapshot. A snapshot that no ref leads
    to (staged, or rolled back from) is kept while it is young. Named ids expire whatever their age.

    Raises InvalidInputError for a named snapshot that is the head of a retained ref, or a property without a number.
    """
    moved, dropped = _promotion_tags(metadata, request)
    if not request.by_policy:
        wanted = set(request.snapshot_ids) - {int(ref["snapshot-id"]) for ref in metadata.refs.values()}
        found = tuple(s for i, s in metadata.snapshots.items() if i in wanted)
        return Expiry(snapshots=found, refs=tuple(sorted(dropped)), tags=moved)
    older_than = request.older_than_ms
    if older_than is None:
        older_than = request.now_ms - value_of(metadata.properties, "history.expire.max-snapshot-age-ms")
    keep = request.retain_last or value_of(metadata.properties, "history.expire.min-snapshots-to-keep")
    refs = {n: ref for n, ref in _retained_refs(metadata, request.now_ms).items() if n not in dropped}
    heads = {int(ref["snapshot-id"]): name for name, ref in refs.items()}
    for snapshot_id in request.snapshot_ids:
        if snapshot_id in heads:
            raise InvalidInputError(
                "snapshot is the head of a branch or tag, and cannot expire",
                "referenced-snapshot",
                "snapshot_ids",
                f"{snapshot_id}, of {heads[snapshot_id]}",
            )
    retained, referenced = {*heads, *moved.values()}, set(heads)
    for ref in refs.values():
        if ref.get("type") == "branch":
            retained |= set(_kept_by_branch(metadata, ref, request.now_ms, older_than, keep))
            referenced |= {s.snapshot_id for s in metadata.ancestors(int(ref["snapshot-id"]))}
    retained |= {i for i, s in metadata.snapshots.items() if i not in referenced and s.timestamp_ms >= older_than}
    named = set(request.snapshot_ids)
    expired = tuple(s for i, s in metadata.snapshots.items() if i not in retained or i in named)
    removed = tuple(name for name in metadata.refs if name not in refs)
    return Expiry(snapshots=expired, refs=removed, tags=moved)


def _promotion_tags(metadata: TableMetadata, request: ExpiryRequest) -> tuple[dict[str, int], set[str]]:
    """Return the tags of promotions that move, each with its snapshot, and those that go."""
    tags = promotion_tags(metadata)
    moved = {name: to for name, to in tags.items() if to is not None and to not in request.snapshot_ids}
    return moved, tags.keys() & metadata.refs.keys() - moved.keys()


def _retained_refs(metadata: TableMetadata, now_ms: int) -> dict[str, Mapping[str, Any]]:
    longest = value_of(metadata.properties, "history.expire.max-ref-age-ms")
    out = {}
    for name, ref in metadata.refs.items():
        allowed = ref.get("max-ref-age-ms")
        age = now_ms - metadata.snapshots[int(ref["snapshot-id"])].timestamp_ms
        if name == MAIN or age <= (longest if allowed is None else int(allowed)):
            out[name] = ref
    return out


def _kept_by_branch(
    metadata: TableMetadata, branch: Mapping[str, Any], now_ms: int, older_than: int, keep: int
) -> Iterator[int]:
    """Yield the kept ancestors, newest first. The first that is neither among the newest nor young ends them (Java)."""
    age, least = branch.get("max-snapshot-age-ms"), branch.get("min-snapshots-to-keep")
    before = older_than if age is None else now_ms - int(age)
    for i, snapshot in enumerate(metadata.ancestors(int(branch["snapshot-id"]))):
        if i >= (keep if least is None else int(least)) and snapshot.timestamp_ms < before:
            return
        yield snapshot.snapshot_id
