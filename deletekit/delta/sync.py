"""Sync an Iceberg table with a Delta table, version after version, including its deletion vectors.

One commit takes the table from one Delta version to another. Whatever cannot be converted exactly is refused before the
commit, and the table stays at its version. No data file is written, moved or rewritten.
Spec: Delta protocol; Iceberg, "Snapshots", "Row-level Deletes".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from pyiceberg import types as it

from deletekit.commit.change import RowDelta
from deletekit.commit.planned_change import check_request, read_base
from deletekit.commit.swap import Commit, create_with
from deletekit.delta.log import DeltaLog, DeltaState
from deletekit.delta.paths import path_below
from deletekit.delta.schema_from_delta import DeltaSchema, delta_schema, void_columns
from deletekit.delta.sync_change import SyncChange, SyncRequest
from deletekit.delta.sync_state import whole_state, write_state
from deletekit.delta.sync_steps import SyncSteps, resumed_state, versions_to_commit
from deletekit.delta.synced_table import (
    DELETE_DIRECTORY,
    check_folders,
    checked_watermark,
    delete_directory,
    head_property,
    known_spelling,
    made_by_another_tool,
    owned_properties,
)
from deletekit.delta.values import time_zone_of
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.manifest_list import ManifestContent
from deletekit.log import tell
from deletekit.notebook_html import result
from deletekit.table.catalog import Catalog, TableState
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.identifier import Identifier, check_new, to_identifier
from deletekit.table.locations import normalised
from deletekit.table.metadata import MAIN, new_metadata
from deletekit.table.own_places import DELTA_LOCATION
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table

_MANIFEST_ENTRIES = 700
_MOST_MANIFEST_BYTES = 1 << 23


@result
class DeltaPlan:
    """What a sync would do, by the paths of data files.

    Attributes
    ----------
    added, removed: data files that the table gains and loses.
    replaced: data files that stay, with other deleted rows.
    """

    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@result
class DeltaSync:
    """What `sync_delta` did.

    Attributes
    ----------
    table: the Iceberg table, in its new state.
    version: the Delta version that it is now at.
    previous_version: the Delta version that it was at; None for a new table.
    commits: the snapshots made, in order; empty if no row and no file had to change.
    planned: in a dry run, what would be done as one commit; then `table` is as it was, or as a new one would begin.
    void_columns: the Delta table's columns of type void, which has only NULL. In format version 3 their type is
        `unknown`. Before, they are left out.
    """

    table: Table = field(repr=False)
    version: int
    previous_version: int | None = None
    commits: tuple[Commit, ...] = ()
    planned: DeltaPlan | None = None
    void_columns: tuple[str, ...] = ()

    @property
    def commit(self) -> Commit:
        """Return the last of `commits`, or a commit without a snapshot if there is none."""
        return self.commits[-1] if self.commits else Commit()


class SyncOptions(TypedDict, total=False):
    """Options of `sync_delta` that are seldom needed.

    location: where a new table's files go; default under the catalog's warehouse.
    properties: the properties of a new table.
    delete_directory: the folder of delete files, below the table's location; default `deletion-vectors`. The table
        remembers it.
    time_zone: for timestamps in partition values without a zone; default UTC.
    verify: read the whole log and every manifest, and count all files, rows and deletes again, also without a new
        version. Every hundredth sync does so anyway.
    force: sync even if someone else committed to the table, or if the Delta table was moved or replaced by another.
        Every file is then compared, and everything that Delta does not have is removed.
    dry_run: plan everything, check everything, and write nothing.
    commit_properties: extra entries of the snapshot summaries.
    """

    location: str
    properties: Mapping[str, str]
    delete_directory: str
    time_zone: str
    verify: bool
    force: bool
    dry_run: bool
    commit_properties: Mapping[str, str]


def sync_delta(
    source: str | Path,
    catalog: Catalog,
    identifier: str | Sequence[str],
    *,
    version: int | None = None,
    format_version: int | None = None,
    deletion_vectors: Literal["copy", "reference"] = "copy",
    commits: Literal["coalesce", "each"] = "coalesce",
    **options: Unpack[SyncOptions],
) -> DeltaSync:
    """Bring an Iceberg table to a version of a Delta table. Create the table if it does not exist.

    Parameters
    ----------
    source: the Delta table's folder, on storage that the catalog's properties can open.
    identifier: the Iceberg table's name.
    version: the Delta version; None for the latest.
    format_version: of a new table: 3 (deletion vectors) or 2 (position delete files); default 3.
    deletion_vectors: for format version 3. `copy` writes the bytes of Delta's vectors to Puffin files. `reference`
        points at Delta's own files: Iceberg Java reads that, pyiceberg and polars do not (`repack` solves it), and
        Delta's VACUUM deletes files that the table still refers to.
    commits: `coalesce`, one snapshot for everything since the last sync; `each`, one for each Delta version whose log
        and files still exist, for a new table too.
    options: see `SyncOptions`.

    The table's Delta version is in its snapshot summaries (`deletekit.delta-version`). After a rollback, the next sync
    therefore applies the same versions again. If two syncs run at the same time, the slower one has nothing left to do.
    Everything that Delta writes is read: replaced, shrunk and cleared vectors, files that are added again, restored or
    rewritten, CREATE OR REPLACE TABLE, clones, column mapping, all kinds of checkpoints, and a log whose beginning is
    gone. The footer of each added data file is read. The data files still belong to Delta: the table has `gc.enabled`
    false, and `clean_up_delta` removes only the table's own files.

    Raises NotFoundError for a missing Delta table, version or file; UnsupportedError, by name, for a table feature,
    type or type change that Iceberg or deletekit does not have; FormatError for a damaged log, vector or data file;
    InvalidInputError for a table that someone else changed, for a Delta table that was replaced, moved or taken back,
    for folders in which one table's maintenance would delete the other's files, and for counters that disagree;
    otherwise as every commit. The table is then unchanged.
    """
    root, key = normalised(str(source), "source"), to_identifier(identifier)
    check_new(key)
    request = _request(options, version, format_version, deletion_vectors, commits)

    def follow() -> DeltaSync:
        table = Table(key, catalog.load(key), catalog)
        return _follow(table, root, request)

    try:
        return follow()
    except NotFoundError as e:
        if e.kind != "table-not-found":
            raise
    return _begin(DeltaLog(PyIcebergIO(catalog.pyiceberg.properties, root), root), catalog, key, request, follow)


def _follow(table: Table, root: str, request: SyncRequest) -> DeltaSync:
    """Bring an existing table to a version. The log is listed after the table was read, so it is never older."""
    if not table.metadata.version.has_deletes or request.format_version not in (None, table.format_version):
        message, expected = "the table has another format version", request.format_version or "2 or 3"
        raise InvalidInputError(message, "format-version", "format_version", table.format_version, expected)
    check_request(table, MAIN, request.commit_properties)
    log = DeltaLog(table.io, known_spelling(root, table.metadata))
    wanted = log.latest if request.version is None else request.version
    known = table.metadata.properties.get(DELETE_DIRECTORY)
    directory = delete_directory(request.delete_directory or known, table.metadata.location)
    state = resumed_state(table, log, directory, wanted, request)
    before = checked_watermark(table.metadata, log, wanted, force=request.force)
    check_folders(log.root, table.location)
    if before is None and not request.force and made_by_another_tool(table.metadata) is not None:
        _check_data_files_of(table, log.root)
    done = []
    steps = SyncSteps(
        table=table, log=log, directory=directory, request=request, started_on=table.metadata, known=state
    )
    commits = "coalesce" if request.dry_run else request.commits
    for number in versions_to_commit(log, before, wanted, commits, verify=request.verify):
        try:
            done.append(steps.commit(number))
        except NotFoundError:
            if number == wanted:
                raise  # else a version whose files were vacuumed: the next one takes its changes along
    return DeltaSync(
        table=table,
        version=max(wanted, steps.overtaken),
        previous_version=before.version if before else None,
        commits=tuple(c for c in done if c.snapshot_id is not None),
        planned=_plan_of(steps.delta) if request.dry_run else None,
        void_columns=_told_void(table, log.state(wanted)),
    )


def _told_void(table: Table, state: DeltaState) -> tuple[str, ...]:
    """Return the columns of type void, after the logger told of them."""
    found = tuple(void_columns(state.metadata))
    if found:
        kept = it.UnknownType().minimum_format_version() <= table.format_version
        tell("delta-void", table=table.name, columns=", ".join(found), now="unknown" if kept else "left out")
    return found


def _plan_of(delta: RowDelta) -> DeltaPlan:
    added, removed = {f.file_path for f in delta.added_data_files}, delta.removed_data_paths
    deletes = [*delta.added_delete_files, *(e.data_file for e in delta.removed_delete_files)]
    paths = {path for d in deletes if isinstance(d, DeleteFile) and (path := d.referenced_data_file) is not None}
    kept = paths - added - removed
    return DeltaPlan(added=tuple(sorted(added)), replaced=tuple(sorted(kept)), removed=tuple(sorted(removed)))


def _check_data_files_of(table: Table, root: str) -> None:
    """Refuse a table of another tool with a data file that is not in the Delta table's folder."""
    head = table.metadata.current_snapshot
    reader = SnapshotReader(table.io, table.metadata)
    for columns in reader.live_columns(head, ManifestContent.DATA) if head is not None else ():
        for path in columns.paths(np.flatnonzero(columns.is_live)).to_pylist():
            if path_below(path, root) is None:
                message = "the table has a data file outside of the Delta table's folder, so it was made of another one"
                raise InvalidInputError(message, "delta-take-over", "file_path", path, f"a file in {root}, or force")


def _request(
    options: SyncOptions,
    version: int | None,
    format_version: int | None,
    vector_mode: Literal["copy", "reference"],
    commits: str,
) -> SyncRequest:
    if vector_mode not in ("copy", "reference"):
        message = "no such way to convert deletion vectors"
        raise InvalidInputError(message, "delta-deletion-vectors", "deletion_vectors", vector_mode, "copy or reference")
    if commits not in ("coalesce", "each"):
        raise InvalidInputError("no such way to commit", "delta-commits", "commits", commits, "coalesce or each")
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    chosen["time_zone"] = time_zone_of(chosen.get("time_zone", "UTC"))
    return SyncRequest(
        version=version, format_version=format_version, vector_mode=vector_mode, commits=commits, **chosen
    )


def _begin(
    log: DeltaLog, catalog: Catalog, key: Identifier, request: SyncRequest, follow: Callable[[], DeltaSync]
) -> DeltaSync:
    """Create the table, and follow Delta from there with commits="each"."""
    try:
        made = _create_first(log, catalog, key, request)
    except InvalidInputError as e:
        if e.kind != "table-exists":
            raise
        return follow()  # another sync was first
    if request.commits == "coalesce" or request.dry_run or made.version == request.version:
        return made
    more = follow()
    return replace(more, previous_version=None, commits=(*made.commits, *more.commits))


def _create_first(log: DeltaLog, catalog: Catalog, key: Identifier, request: SyncRequest) -> DeltaSync:
    """Create the table at the wanted version; with commits="each", at the first version that can still be read."""
    wanted = log.latest if request.version is None else request.version
    for number in range(wanted) if request.commits == "each" and not request.dry_run else ():
        with suppress(NotFoundError):  # its commits are gone, or its files were vacuumed
            if log.constructable(number):
                return _create(log, catalog, key, request, number)
    return _create(log, catalog, key, request, wanted)


def _create(log: DeltaLog, catalog: Catalog, key: Identifier, request: SyncRequest, wanted: int) -> DeltaSync:
    location = request.location or catalog.default_location(key)
    if not location:
        message = "this catalog chooses locations when it creates a table; name one"
        raise InvalidInputError(message, kind="location", field="location")
    location = normalised(location)
    directory = delete_directory(request.delete_directory, location)
    check_folders(log.root, location)
    state = log.state(wanted)
    format_version = request.format_version or 3
    if format_version not in (2, 3):
        message = "format version cannot hold deletes"
        raise InvalidInputError(message, "format-version", "format_version", format_version, "2 or 3")
    schema = delta_schema(state.metadata, format_version, row_ids=format_version == 3)
    own = {DELTA_LOCATION: log.root, DELETE_DIRECTORY: directory, **owned_properties(schema)}
    own |= head_property(None, wanted, state.metadata.id)
    metadata = new_metadata(
        schema.schema,
        schema.partition_spec,
        location=location,
        format_version=format_version,
        properties={"commit.manifest.target-size-bytes": _manifest_bytes(schema), **request.properties, **own},
    )
    change = SyncChange(log=log, state=state, before=None, directory=directory, request=request)
    io = PyIcebergIO(catalog.pyiceberg.properties, location)
    if request.dry_run:
        table = Table(key, TableState(metadata, metadata.location, io), catalog)
        planned = _plan_of(change.build(read_base(table, dry_run=True)))
        return DeltaSync(table=table, version=wanted, planned=planned, void_columns=_told_void(table, state))
    table, done = create_with(catalog, key, metadata, io, change.build, change.summary())
    if done.snapshot_id is not None:
        snapshot = table.metadata.snapshots[done.snapshot_id]
        left = whole_state(state, log, SnapshotReader(io, table.metadata), snapshot)
        write_state(io, directory, left, None)
    commits, void = (done,) if done.snapshot_id is not None else (), _told_void(table, state)
    return DeltaSync(table=table, version=wanted, commits=commits, void_columns=void)


def _manifest_bytes(schema: DeltaSchema) -> str:
    """Return the size of manifests of a new table, from what an entry takes with the bounds of its columns.

    A sync writes those manifests again whose files change. So their size is what the change of one file costs.
    """
    return str(min(_MOST_MANIFEST_BYTES, _MANIFEST_ENTRIES * (30 + 20 * len(schema.columns))))
