"""Remove the files that syncs wrote and that no snapshot needs any more, but never a file of Delta's.

A file is removed only if it lies where syncs write, has a name that they give, is old, and nothing refers to it.
Folders are listed before the metadata is read, so that files committed in between are known.
Spec: Iceberg, "Snapshot Retention Policy".
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from functools import partial

from deletekit.commit.swap import commit_metadata
from deletekit.delta.paths import path_below
from deletekit.delta.sync_state import STATE_PREFIX
from deletekit.delta.synced_table import DELETE_DIRECTORY, delete_directory, kept_watermark
from deletekit.engines.local import LocalEngine
from deletekit.errors import InvalidInputError
from deletekit.maintenance.expire_snapshots import expire_owned
from deletekit.maintenance.reachable import Reachability, check_not_needed, read_latest, remove_files
from deletekit.notebook_html import result
from deletekit.table.locations import KnownFiles, SpellingRules
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.metadata_file import logged_files, metadata_folder
from deletekit.table.own_places import DELTA_LOCATION, OwnPlaces, check_own_metadata
from deletekit.table.table import Table

PREFIXES = ("delta-", "repack-")
METADATA_SUFFIXES = (".avro", ".metadata.json")
DEFAULT_ORPHAN_HOURS = 72


@result
class DeltaCleanUp:
    """What `clean_up_delta` did; in a dry run, what it would have done.

    Attributes
    ----------
    snapshot_ids: expired snapshots.
    deleted_files: the removed delete files, manifests, manifest lists and metadata files, in order.
    failed_files: files that storage could not remove, with the reason.
    """

    snapshot_ids: tuple[int, ...] = ()
    deleted_files: tuple[str, ...] = ()
    failed_files: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False


def clean_up_delta(
    table: Table,
    *,
    older_than: int | str | datetime | None = None,
    orphan_hours: float = DEFAULT_ORPHAN_HOURS,
    dry_run: bool = False,
) -> DeltaCleanUp:
    """Expire old snapshots of a table that `sync_delta` made, and remove the table's own files that nothing needs.

    Parameters
    ----------
    older_than: expire snapshots that were made before this time, as in `expire_snapshots`; default: the table's own
        policy.
    orphan_hours: remove files of interrupted syncs that are at least this old. A sync that still runs must be younger.
    dry_run: decide everything, change nothing.

    Data files and Delta's own vectors are never removed, even if nothing refers to them: they belong to Delta and its
    VACUUM.

    Raises InvalidInputError for a table that `sync_delta` did not make, for one without a catalog, and for one whose
    metadata file is not in the folder that its location names; otherwise as `expire_snapshots`.
    """
    table.require_catalog()
    metadata = table.refresh().metadata
    directory, root = metadata.properties.get(DELETE_DIRECTORY), metadata.properties.get(DELTA_LOCATION)
    if directory is None or root is None:
        raise InvalidInputError("the table was not made by sync_delta", "delta-foreign-table", DELETE_DIRECTORY)
    directory = delete_directory(directory, metadata.location)
    places = check_own_metadata(metadata, table.metadata_location)
    if not dry_run:
        commit_metadata(table, kept_watermark, unchanged_refs=[MAIN])
    engine, owned = LocalEngine(), partial(_is_own, metadata=metadata, directory=directory, places=places)
    expired = expire_owned(table, older_than, owned, engine, dry_run=dry_run)
    expired_files = (
        *expired.deleted_position_delete_files,
        *expired.deleted_deletion_vector_files,
        *expired.deleted_manifest_files,
        *expired.deleted_manifest_lists,
        *expired.deleted_key_index_files,
    )
    known = KnownFiles(SpellingRules(), expired_files)
    orphans = [path for path in _orphans(table, directory, orphan_hours, owned) if path not in known]
    failed = {} if dry_run else remove_files(table.io, metadata, orphans, engine)
    return DeltaCleanUp(
        snapshot_ids=expired.snapshot_ids,
        deleted_files=tuple(sorted({*expired_files, *(p for p in orphans if p not in failed)})),
        failed_files={**expired.failed_files, **failed},
        dry_run=dry_run,
    )


def _is_own(path: str, metadata: TableMetadata, directory: str, places: OwnPlaces) -> bool:
    if not places.hold(path):
        return False
    below = path_below(path, directory)
    if below is not None:
        return "/" not in below and below.startswith(PREFIXES)
    below = path_below(path, metadata_folder(metadata))
    return below is not None and "/" not in below and below.endswith(METADATA_SUFFIXES)


def _orphans(table: Table, directory: str, hours: float, owned: Callable[[str], bool]) -> list[str]:
    """List old files of syncs that nothing refers to. Killed processes leave them behind."""
    limit = time.time() * 1000 - hours * 3_600_000
    metadata = table.metadata
    head = metadata.current_snapshot
    own = {
        info.path: info.modified_ms
        for folder in dict.fromkeys((directory, metadata_folder(metadata)))
        for info in table.io.list(folder)
        if owned(info.path)
    }
    used = f"{directory}/{STATE_PREFIX}{head.snapshot_id}-" if head else None
    old = {p for p, modified_ms in own.items() if modified_ms < limit and not (used and p.startswith(used))}
    if not old:
        return []
    reachability = Reachability(table.io, LocalEngine())
    live = read_latest(table, lambda now: {*reachability.files(now), *logged_files(now), table.metadata_location})
    known = KnownFiles(SpellingRules(), live)
    orphans = sorted(path for path in old if path not in known)
    check_not_needed(orphans, tuple(live))
    return orphans
