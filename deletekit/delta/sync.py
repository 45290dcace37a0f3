"""SYNC DELTA: an Iceberg table with the rows of a Delta table, its deletion vectors included, version after version.

Law: one commit takes the table from one version of Delta's to another, whole. What cannot be followed without a lie is
refused before the commit, and the table stays at its version. No data file is written, moved or rewritten.
Spec: Delta protocol; Iceberg, "Snapshots", "Row-level Deletes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.create import create_with
from deletekit.commit.metadata_commit import commit_metadata
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.delta.followed_table import as_known, check_same_delta, checked_watermark
from deletekit.delta.log import DeltaLog
from deletekit.delta.schema import delta_schema
from deletekit.delta.target import (
    DELETE_DIRECTORY,
    DELTA_LOCATION,
    Watermark,
    check_folders,
    evolving_updates,
    schema_for,
    target_metadata,
    watermark_of,
)
from deletekit.delta.values import time_zone_of
from deletekit.delta.vectors import VectorMode
from deletekit.delta.version_change import Options, SyncChange
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
    root, chosen, key = normalised(str(source), "source"), _chosen(deletion_vectors, options), to_identifier(identifier)

    def follow() -> DeltaSync:
        table = Table(key, catalog.load(key), catalog)
        return _follow(table, root, version, format_version, commits, chosen, options)

    try:
        return follow()
    except NotFoundError as e:
        if e.kind != "table-not-found":
            raise
    log = DeltaLog(PyIcebergIO(catalog.pyiceberg.properties, root), root)
    try:
        return _create(log, catalog, key, version, format_version or 3, chosen, options)
    except InvalidInputError as e:
        if e.kind != "table-exists":
            raise
    return follow()  # another sync was first


def _follow(
    table: Table,
    root: str,
    version: int | None,
    format_version: int | None,
    commits: str,
    chosen: Options,
    options: SyncOptions,
) -> DeltaSync:
    """Take a table that is there to a version. The log is listed after the table was read: it is never behind that."""
    if not table.metadata.version.has_deletes or format_version not in (None, table.format_version):
        raise InvalidInputError(
            "the table has another format version",
            kind="format-version",
            field="format_version",
            found=table.format_version,
            expected=format_version or "2 or 3",
        )
    check_request(table, MAIN, options.get("commit_properties"))
    log = DeltaLog(table.io, as_known(root, table.metadata))
    wanted = log.latest if version is None else version
    before = checked_watermark(table.metadata, log, wanted, force=chosen.force)
    directory = normalised(options.get("delete_directory") or _directory(table.metadata), "delete_directory")
    check_folders(log.root, table.location, directory)
    done = []
    step = _Step(table, log, directory, chosen, options, begun=table.metadata, newest=version is None)
    for number in _steps(log, before, wanted, commits):
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


def _chosen(deletion_vectors: str, options: SyncOptions) -> Options:
    unknown = sorted(set(options) - set(SyncOptions.__annotations__))
    if unknown:  # a misspelled one would be passed over in silence
        raise TypeError(f"sync_delta() got an unexpected keyword argument {unknown[0]!r}")
    zone = time_zone_of(options.get("time_zone", "UTC"))
    return Options(
        time_zone=zone,
        check_data_files=options.get("check_data_files", True),
        force=options.get("force", False),
        mode=_mode(deletion_vectors),
    )


def _mode(deletion_vectors: str) -> VectorMode:
    if deletion_vectors == "copy":
        return "copy"
    if deletion_vectors == "reference":
        return "reference"
    raise InvalidInputError(
        "no such way to carry deletion vectors",
        kind="delta-deletion-vectors",
        field="deletion_vectors",
        found=deletion_vectors,
        expected="copy or reference",
    )


def _directory(metadata: TableMetadata) -> str:
    return metadata.properties.get(DELETE_DIRECTORY, f"{metadata.location}/deletion-vectors")


def _create(
    log: DeltaLog,
    catalog: Catalog,
    key: Identifier,
    version: int | None,
    format_version: int,
    chosen: Options,
    options: SyncOptions,
) -> DeltaSync:
    wanted = log.latest if version is None else version
    location = options.get("location") or catalog.default_location(key)
    if not location:
        raise InvalidInputError(
            "this catalog chooses locations when it creates a table; name one", kind="location", field="location"
        )
    location = normalised(location)
    directory = normalised(options.get("delete_directory") or f"{location}/deletion-vectors", "delete_directory")
    check_folders(log.root, location, directory)
    state = log.state(wanted)
    metadata = target_metadata(
        delta_schema(state.metadata),
        location=location,
        format_version=format_version,
        properties={
            **options.get("properties", {}),
            DELTA_LOCATION: log.root,
            DELETE_DIRECTORY: directory,
        },
    )
    change = SyncChange(log=log, state=state, before=None, directory=directory, options=chosen)
    io = PyIcebergIO(catalog.pyiceberg.properties, location)
    table, done = create_with(
        catalog, key, metadata, io, change.build, {**options.get("commit_properties", {}), **change.summary()}
    )
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
    chosen: Options
    options: SyncOptions
    _: KW_ONLY
    begun: TableMetadata
    newest: bool
    overtaken: int = -1

    def commit(self, version: int) -> Commit:
        state = self.log.state(version)

        def change(before: Watermark | None) -> SyncChange:
            return SyncChange(log=self.log, state=state, before=before, directory=self.directory, options=self.chosen)

        def build(base: Base) -> RowDelta:
            metadata = base.metadata
            if self._is_overtaken(metadata, version):
                return RowDelta()
            return change(checked_watermark(metadata, self.log, version, force=self.chosen.force)).build(base)

        def updates(metadata: TableMetadata) -> Sequence[Mapping[str, object]]:
            if self._is_overtaken(metadata, version):
                return ()
            return evolving_updates(metadata, schema_for(state.metadata, metadata), self.log.root)

        properties = {**self.options.get("commit_properties", {}), **change(None).summary()}
        done = commit(plan_change(self.table, build, properties=properties))
        if done.snapshot_id is None:
            # A column renamed, a property set: there is no snapshot to carry it.
            commit_metadata(self.table, updates, unchanged_refs=[MAIN])
        return done

    def _is_overtaken(self, metadata: TableMetadata, version: int) -> bool:
        """Whether another sync, since this one began, took the table further: there is nothing left to do."""
        head = metadata.current_snapshot
        if not self.newest or head == self.begun.current_snapshot:
            return False
        found = watermark_of(metadata, head)
        if found is None or found.foreign is not None or found.version <= version:
            return False
        check_same_delta(found, self.log, version)
        self.overtaken = found.version
        return True
