"""SYNC DELTA: an Iceberg table with the rows of a Delta table, its deletion vectors included, version after version.

Law: one commit takes the table from one version of Delta's to another, whole. What cannot be followed without a lie is
refused before the commit, and the table stays at its version. No data file is written, moved or rewritten.
Spec: Delta protocol; Iceberg, "Snapshots", "Row-level Deletes".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from deletekit.commit.commit import Attempt, Commit, check_request, commit
from deletekit.commit.create import create_with
from deletekit.commit.metadata_commit import commit_metadata
from deletekit.commit.row_delta import RowDelta
from deletekit.errors import InvalidInputError, NotFoundError
from deletekit.operations.convert_delta.change import Options, SyncChange
from deletekit.operations.convert_delta.target import (
    DELETE_DIRECTORY,
    DELTA_LOCATION,
    Watermark,
    check_folders,
    evolving_updates,
    schema_for,
    target_metadata,
    watermark_of,
)
from deletekit.operations.convert_delta.vectors import VectorMode
from deletekit.table.catalog import Catalog, Identifier, to_identifier
from deletekit.table.delta_log import DeltaLog
from deletekit.table.delta_schema import delta_schema
from deletekit.table.delta_values import time_zone_of
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.locations import SpellingRules, normalised
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
    check_data_files: open the footer of each data file that is added, and believe the log only where they agree;
        default True.
    force: make the table what Delta has though someone else committed to it, or the Delta table was replaced by
        another; every file is compared then, and whatever Delta does not have is removed.
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
    identifier: str,
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
    by another sync of the same versions. Whatever Delta writes is read: replaced, shrunk and cleared vectors, files
    added again, restored or rewritten, clones, column mapping, all kinds of checkpoints, a log whose beginning is gone.
    The data files remain Delta's: the table has `gc.enabled` false, and `clean_up_delta` removes what is its own.

    Raises NotFoundError without a Delta table or version, or when a file it needs is gone; UnsupportedError, by name,
    for a table feature, type or change of type that Iceberg or deletekit does not have; FormatError for a damaged log,
    vector or data file; InvalidInputError for a table that someone else changed, a Delta table that is another or
    older, folders that one would delete of the other, and counters that disagree; else as every commit. The table is
    then as it was.
    """
    root = _location(source)
    chosen = Options(
        time_zone=time_zone_of(options.get("time_zone", "UTC")),
        look=options.get("check_data_files", True),
        force=options.get("force", False),
        mode=_mode(deletion_vectors),
    )
    key = to_identifier(identifier)
    try:
        table = Table(key, catalog.load(key), catalog)
    except NotFoundError:
        log = DeltaLog(PyIcebergIO(catalog.pyiceberg.properties, root), root)
        return _create(log, catalog, key, version, format_version or 3, chosen, options)
    if table.format_version < 2 or format_version not in (None, table.format_version):
        raise InvalidInputError(
            "the table has another format version",
            kind="format-version",
            field="format_version",
            found=table.format_version,
            expected=format_version or "2 or 3",
        )
    return _follow(table, DeltaLog(table.io, _as_known(table.metadata, root)), version, commits, chosen, options)


def _follow(
    table: Table, log: DeltaLog, version: int | None, commits: str, chosen: Options, options: SyncOptions
) -> DeltaSync:
    """Take a table that is there to a version."""
    wanted = log.latest if version is None else version
    check_request(table, MAIN, options.get("commit_properties"))
    before = _checked_watermark(table.metadata, log, wanted, chosen)
    directory = normalised(options.get("delete_directory") or _directory(table.metadata), "delete_directory")
    check_folders(log.root, table.location, directory)
    done = []
    for step in _steps(log, before, wanted, commits):
        try:
            done.append(_step(table, log, step, directory, chosen, options))
        except NotFoundError:
            if step == wanted:
                raise  # else a version whose files were vacuumed: the next one takes its changes along
    return DeltaSync(
        table=table,
        version=wanted,
        previous_version=before.version if before else None,
        commits=tuple(c for c in done if c.snapshot_id is not None),
    )


def _as_known(metadata: TableMetadata, root: str) -> str:
    """The Delta table's folder as the last sync spelled it: the table's data files are named by it."""
    known = metadata.properties.get(DELTA_LOCATION, root)
    rules = SpellingRules()
    return known if rules.folder(known) == rules.folder(root) else root


def _location(source: str | Path) -> str:
    return normalised(str(source), "source")


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


def _checked_watermark(metadata: TableMetadata, log: DeltaLog, wanted: int, chosen: Options) -> Watermark | None:
    """How far the table is; None when every file has to be compared.

    Raises InvalidInputError for a table that does not follow this Delta table, or not alone.
    """
    found = watermark_of(metadata, metadata.current_snapshot)
    if chosen.force:
        return None
    if found is None:
        if metadata.current_snapshot is None and metadata.properties.get(DELTA_LOCATION) == log.root:
            return None  # an empty Delta table was synced
        raise InvalidInputError(
            "the table was not made by sync_delta from this Delta table",
            kind="delta-foreign-table",
            field=DELTA_LOCATION,
            found=metadata.properties.get(DELTA_LOCATION),
            expected=f"{log.root}, or force",
        )
    if found.foreign is not None:
        raise InvalidInputError(
            "someone else has committed to the table since the last sync",
            kind="delta-foreign-commit",
            field="snapshot-id",
            found=found.foreign.snapshot_id,
            expected="none, or force",
        )
    if found.version > wanted:
        raise InvalidInputError(
            "the table is at a later Delta version",
            kind="delta-version-behind",
            field="version",
            found=wanted,
            expected=f">= {found.version}, or force",
        )
    table_id = log.state(wanted).metadata.id
    if found.table_id not in (None, table_id):
        raise InvalidInputError(
            "another Delta table is at this place now",
            kind="delta-table-replaced",
            field="metaData.id",
            found=table_id,
            expected=f"{found.table_id}, or force",
        )
    return found


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


def _step(table: Table, log: DeltaLog, version: int, directory: str, chosen: Options, options: SyncOptions) -> Commit:
    """Commit one version, on whatever head the table has then."""
    state = log.state(version)

    def build(attempt: Attempt) -> RowDelta:
        before = _checked_watermark(attempt.base.metadata, log, version, chosen)
        change = SyncChange(log=log, state=state, before=before, directory=directory, options=chosen)
        return change.build(attempt)

    summary = SyncChange(log=log, state=state, before=None, directory=directory, options=chosen).summary()
    done = commit(table, build, properties={**options.get("commit_properties", {}), **summary})
    if done.snapshot_id is None:
        # A column renamed, a property set: there is no snapshot to carry it.
        def updates(metadata: TableMetadata) -> Sequence[Mapping[str, object]]:
            schema = schema_for(state.metadata, metadata)
            return evolving_updates(metadata, schema)

        commit_metadata(table, updates, unchanged_ref=MAIN)
    return done
