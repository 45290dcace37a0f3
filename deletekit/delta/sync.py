"""SYNC DELTA: an Iceberg table with the rows of a Delta table, its deletion vectors included, version after version.

Law: one commit takes the table from one version of Delta's to another, whole. What cannot be followed without a lie is
refused before the commit, and the table stays at its version. No data file is written, moved or rewritten.
Spec: Delta protocol; Iceberg, "Snapshots", "Row-level Deletes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

from deletekit.commit.change import RowDelta
from deletekit.commit.create import create_with
from deletekit.commit.metadata_commit import commit_metadata
from deletekit.commit.swap import Attempt, Commit, check_request, commit
from deletekit.delta.convert_vectors import VectorMode
from deletekit.delta.log import DeltaLog
from deletekit.delta.partition_values import time_zone_of
from deletekit.delta.schema_from_delta import delta_schema
from deletekit.delta.sync_change import SyncChange, SyncRequest
from deletekit.delta.synced_table import (
    DELETE_DIRECTORY,
    DELTA_LOCATION,
    Watermark,
    as_known,
    check_folders,
    check_same_delta,
    checked_watermark,
    evolving_updates,
    schema_for,
    target_metadata,
    watermark_of,
)
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.table.catalog import Catalog, Identifier, to_identifier
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.locations import normalised
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.table import Table

__all__ = ["DeltaSync", "SyncOptions", "sync_delta"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSync:
    """What `sync_delta` did.

    Attributes
    ----------
    table: the Iceberg table, at its new state.
    version: the Delta version that it is now at.
    previous_version: the one it was at; None for a new table.
    commits: the snapshots made, in order; none when no row and no file had to change.
    """

    table: Table = field(repr=False)
    version: int
    previous_version: int | None = None
    commits: tuple[Commit, ...] = ()

    @property
    def commit(self) -> Commit:
        """The last of `commits`; one without a snapshot when there is none."""
        return self.commits[-1] if self.commits else Commit()


class SyncOptions(TypedDict, total=False):
    """Options of `sync_delta` that are seldom needed.

    location: where a new table's files go; default under the catalog's warehouse.
    properties: of a new table.
    delete_directory: where delete files go; default `deletion-vectors` under the table's location. Remembered.
    time_zone: of timestamps in partition values that name none; default UTC.
    check_data_files: compare the size of each data file that is added with the log, too; default True. Row counts,
        field ids and partition columns are compared always: else Iceberg's readers could show other rows than Delta's.
    force: make the table what Delta has though someone else committed to it, or the Delta table was moved or replaced
        by another; every file is compared then, and whatever Delta does not have is removed.
    commit_properties: extra entries of the snapshot summaries.
    """

    location: str
    properties: Mapping[str, str]
    delete_directory: str
    time_zone: str
    check_data_files: bool
    force: bool
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
    """Bring an Iceberg table to a version of a Delta table; the first time, create it.

    Parameters
    ----------
    source: the Delta table's folder, as storage that the catalog's properties open has it.
    identifier: of the Iceberg table.
    version: the Delta version; None for the latest.
    format_version: of a new table: 3 (deletion vectors) or 2 (position delete files); default 3.
    deletion_vectors: for format version 3. `copy` puts the bytes of Delta's vectors into Puffin files; `reference`
        points at them where they are: Iceberg Java reads that, pyiceberg and polars do not (`repack` cures it), and
        Delta's VACUUM deletes what is still referred to.
    commits: `coalesce`, one snapshot for everything since the last sync; `each`, one for each Delta version whose log
        and files are still there.
    options: see `SyncOptions`.

    How far the table is stands in its snapshots' summaries (`deletekit.delta-version`), so a rollback of it is followed
    by another sync of the same versions. Of two syncs at the same time, the one that is behind has nothing to do.
    Whatever Delta writes is read: replaced, shrunk and cleared vectors, files added again, restored or rewritten,
    clones, column mapping, all kinds of checkpoints, a log whose beginning is gone. The footer of each data file that
    is added is read. The data files remain Delta's: the table has `gc.enabled` false, and `clean_up_delta` removes what
    is its own.

    Raises NotFoundError without a Delta table or version, or when a file it needs is gone; UnsupportedError, by name,
    for a table feature, type or change of type that Iceberg or deletekit does not have; FormatError for a damaged log,
    vector or data file; InvalidInputError for a table that someone else changed, a Delta table that is another,
    elsewhere or older, folders that one would delete of the other, and counters that disagree; TypeError for an option
    that is not known; else as every commit. The table is then as it was.
    """
    root, key = normalised(str(source), "source"), to_identifier(identifier)
    request = _request(options, version, format_version, deletion_vectors, commits)

    def follow() -> DeltaSync:
        table = Table(key, catalog.load(key), catalog)
        return _follow(table, root, request)

    try:
        return follow()
    except NotFoundError as e:
        if e.kind != "table-not-found":
            raise
    log = DeltaLog(PyIcebergIO(catalog.pyiceberg.properties, root), root)
    try:
        return _create(log, catalog, key, request)
    except InvalidInputError as e:
        if e.kind != "table-exists":
            raise
    return follow()  # another sync was first


def _follow(table: Table, root: str, request: SyncRequest) -> DeltaSync:
    """Take a table that is there to a version. The log is listed after the table was read: it is never behind that."""
    if table.format_version < 2 or request.format_version not in (None, table.format_version):
        raise InvalidInputError(
            "the table has another format version",
            kind="format-version",
            field="format_version",
            found=table.format_version,
            expected=request.format_version or "2 or 3",
        )
    check_request(table, MAIN, request.commit_properties)
    log = DeltaLog(table.io, as_known(root, table.metadata))
    wanted = log.latest if request.version is None else request.version
    before = checked_watermark(table.metadata, log, wanted, force=request.force)
    known = table.metadata.properties.get(DELETE_DIRECTORY)
    directory = _delete_directory(request.delete_directory or known, table.metadata.location)
    check_folders(log.root, table.location, directory)
    done = []
    step = _Step(table, log, directory, request, started_on=table.metadata)
    for number in _steps(log, before, wanted, request.commits):
        try:
            done.append(step.commit(number))
        except NotFoundError:
            if number == wanted:
                raise  # else a version whose files were vacuumed: the next one takes its changes along
    return DeltaSync(
        table=table,
        version=max(wanted, step.overtaken),
        previous_version=before.version if before else None,
        commits=tuple(c for c in done if c.snapshot_id is not None),
    )


def _request(
    options: SyncOptions, version: int | None, format_version: int | None, deletion_vectors: str, commits: str
) -> SyncRequest:
    unknown = sorted(set(options) - set(SyncOptions.__annotations__))
    if unknown:
        raise TypeError(f"sync_delta() got an unexpected keyword argument {unknown[0]!r}")
    chosen: dict[str, Any] = {**options, "time_zone": time_zone_of(options.get("time_zone", "UTC"))}
    vector_mode: VectorMode = "reference" if deletion_vectors == "reference" else "copy"
    if deletion_vectors != vector_mode:
        raise InvalidInputError(
            "no such way to convert deletion vectors",
            kind="delta-deletion-vectors",
            field="deletion_vectors",
            found=deletion_vectors,
            expected="copy or reference",
        )
    return SyncRequest(
        version=version, format_version=format_version, vector_mode=vector_mode, commits=commits, **chosen
    )


def _delete_directory(wanted: str | None, location: str) -> str:
    return normalised(wanted or f"{location}/deletion-vectors", "delete_directory")


def _create(log: DeltaLog, catalog: Catalog, key: Identifier, request: SyncRequest) -> DeltaSync:
    wanted = log.latest if request.version is None else request.version
    location = request.location or catalog.default_location(key)
    if not location:
        raise InvalidInputError(
            "this catalog chooses locations when it creates a table; name one", kind="location", field="location"
        )
    location = normalised(location)
    directory = _delete_directory(request.delete_directory, location)
    check_folders(log.root, location, directory)
    state = log.state(wanted)
    metadata = target_metadata(
        delta_schema(state.metadata),
        location=location,
        format_version=request.format_version or 3,
        properties={**request.properties, DELTA_LOCATION: log.root, DELETE_DIRECTORY: directory},
    )
    change = SyncChange(log=log, state=state, before=None, directory=directory, request=request)
    io = PyIcebergIO(catalog.pyiceberg.properties, location)
    table, done = create_with(catalog, key, metadata, io, change.build, change.summary())
    return DeltaSync(table=table, version=wanted, commits=(done,) if done.snapshot_id is not None else ())


def _steps(log: DeltaLog, before: Watermark | None, wanted: int, commits: str) -> Sequence[int]:
    """The versions to commit."""
    if commits not in ("coalesce", "each"):
        raise InvalidInputError(
            "no such way to commit", kind="delta-commits", field="commits", found=commits, expected="coalesce or each"
        )
    if before is None or before.version == wanted:
        return [wanted] if before is None else []
    if commits == "coalesce":
        return [wanted]
    return [v for v in range(before.version + 1, wanted) if log.constructable(v)] + [wanted]


@dataclass(slots=True)
class _Step:
    """Commits one version after the other, each on whatever head the table has then.

    `begun` is the table's metadata before the first; `newest`: no version was asked for. `overtaken` is the later
    version that another sync has brought the table to meanwhile, else -1.
    """

    table: Table
    log: DeltaLog
    directory: str
    request: SyncRequest
    _: KW_ONLY
    started_on: TableMetadata
    overtaken: int = -1

    def commit(self, version: int) -> Commit:
        state = self.log.state(version)

        def change(before: Watermark | None) -> SyncChange:
            return SyncChange(log=self.log, state=state, before=before, directory=self.directory, request=self.request)

        def build(attempt: Attempt) -> RowDelta:
            metadata = attempt.base.metadata
            if self._is_overtaken(metadata, version):
                return RowDelta()
            return change(checked_watermark(metadata, self.log, version, force=self.request.force)).build(attempt)

        def updates(metadata: TableMetadata) -> Sequence[Mapping[str, object]]:
            if self._is_overtaken(metadata, version):
                return ()
            return evolving_updates(metadata, schema_for(state.metadata, metadata), self.log.root)

        done = commit(self.table, build, properties=change(None).summary())
        if done.snapshot_id is None:
            # A column renamed, a property set: there is no snapshot to carry it.
            commit_metadata(self.table, updates, unchanged_ref=MAIN)
        return done

    def _is_overtaken(self, metadata: TableMetadata, version: int) -> bool:
        """Whether another sync, since this one began, took the table further: there is nothing left to do."""
        head = metadata.current_snapshot
        if self.request.version is not None or head == self.started_on.current_snapshot:
            return False
        found = watermark_of(metadata, head)
        if found is None or found.foreign is not None or found.version <= version:
            return False
        check_same_delta(found, self.log, version)
        self.overtaken = found.version
        return True
