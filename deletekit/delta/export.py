"""EXPORT DELTA: a Delta table over the data files of an Iceberg table, its deletion vectors included.

Law: no data file is copied. A vector's file gets a copy that Delta's readers open: Delta's frame and Iceberg's blob are
the same bytes, so it is the Puffin file with another first byte, and each vector keeps its offset. Each export is one
commit of Delta's log, made only if no other has that number.
Spec: Delta protocol, "Add File and Remove File", "Deletion Vectors", "Transaction Identifiers".
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deletekit.delta.actions import AddFile
from deletekit.delta.convert_vectors import read_checked_blob
from deletekit.delta.deletion_vector import FRAME_BYTES, DeletionVectorDescriptor, relative_descriptor
from deletekit.delta.log import DeltaLog
from deletekit.delta.partition_values import partition_texts
from deletekit.delta.paths import delta_path
from deletekit.delta.protocol import protocol_action
from deletekit.delta.schema_to_delta import ColumnMapping, metadata_action
from deletekit.errors import InvalidInputError, NotFoundError, UnsupportedError
from deletekit.formats.content_file import DataFile, DeleteFile, refuse_encrypted
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.file_io import FileIO, write_if_absent
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.version import __version__

__all__ = ["DeltaExport", "export_delta"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaExport:
    """What `export_delta` did.

    Attributes
    ----------
    path: the Delta table's folder.
    version: its version that has the rows of `snapshot_id`.
    snapshot_id: of the Iceberg table.
    added_files, removed_files: how many add and remove actions the commit has; none when nothing had changed.
    """

    path: str
    version: int
    snapshot_id: int | None
    added_files: int = 0
    removed_files: int = 0


def export_delta(
    table: Table, path: str | Path, *, ref: str = MAIN, column_mapping: ColumnMapping = "none"
) -> DeltaExport:
    """Make, or bring up to date, a Delta table that has the rows of an Iceberg v3 table.

    Parameters
    ----------
    path: the Delta table's folder, on a local disk: no other storage creates a file only if there is none, through
        pyarrow. New, or one that an export of the same table made.
    ref: the branch or tag.
    column_mapping: `none`, for tables whose columns were never renamed; or `id`, which finds columns by their field
        ids: Spark reads that right, deltalake 1.6 takes such columns for NULL without a word.

    Spark with Delta reads it, and `DeltaTable.scan()` and `QueryBuilder` of deltalake 1.6 do; its other readers refuse
    deletion vectors. It refers to the Iceberg table's data files by absolute path: expiring snapshots there takes them
    from older versions here.

    Refused with UnsupportedError, by name: equality deletes and position delete files (`convert_equality_deletes`,
    `rewrite_position_deletes` make vectors of them), ORC and Avro data files, types and partition values that Delta has
    not, promoted columns, columns that differ in case only, defaults of existing rows, and a change of partitioning.
    Raises InvalidInputError for a folder that holds another Delta table; CommitConflictError when another writer made
    the version first; FormatError for a vector that is damaged. The Delta table is then as it was.
    """
    root = str(Path(path).absolute())
    metadata = table.refresh().metadata
    snapshot = metadata.snapshot_of_ref(ref)
    actions = {name: json.dumps(action) for name, action in _header(metadata, column_mapping).items()}
    wanted, bins = _wanted(table.io, metadata, snapshot, root, column_mapping)
    log = _log(table.io, root, metadata, column_mapping)
    version, live, known = (0, {}, {}) if log is None else _state(log)
    adds = {p: a for p, a in wanted.items() if p not in live or live[p].vector_id != _vector_id(a)}
    removes = [_removal(a) for p, a in live.items() if p not in wanted or p in adds]
    changed = [text for name, text in actions.items() if known.get(name) != text]
    snapshot_id = snapshot.snapshot_id if snapshot else None
    if log is not None and not (adds or removes or changed):
        return DeltaExport(path=root, version=version - 1, snapshot_id=snapshot_id)
    for source, target in bins.items():
        _copy_vectors(table.io, source, target)
    lines = [_commit_info(metadata, snapshot_id), *changed, *map(json.dumps, removes), *map(json.dumps, adds.values())]
    write_if_absent(f"{root}/_delta_log/{version:020d}.json", "\n".join(lines).encode() + b"\n")
    return DeltaExport(
        path=root, version=version, snapshot_id=snapshot_id, added_files=len(adds), removed_files=len(removes)
    )


def _header(metadata: TableMetadata, mode: ColumnMapping) -> dict[str, Json]:
    return {"protocol": protocol_action(metadata, mode), "metaData": metadata_action(metadata, mode)}


def _commit_info(metadata: TableMetadata, snapshot_id: int | None) -> str:
    raw = {
        "timestamp": int(time.time() * 1000),
        "operation": "deletekit export_delta",
        "operationParameters": {"icebergTable": str(metadata.table_uuid), "snapshotId": str(snapshot_id)},
        "engineInfo": f"deletekit/{__version__}",
    }
    return json.dumps({"commitInfo": raw})


def _log(io: FileIO, root: str, metadata: TableMetadata, mode: ColumnMapping) -> DeltaLog | None:
    """The log of an earlier export; None for a new table."""
    try:
        log = DeltaLog(io, root)
    except NotFoundError:
        return None
    last = log.state(log.latest).metadata
    if last.column_mapping_mode != mode:
        raise InvalidInputError(
            "a Delta table's column mapping cannot be changed so",
            kind="delta-column-mapping",
            file=root,
            field="column_mapping",
            found=mode,
            expected=last.column_mapping_mode,
        )
    found = last.id
    if found != metadata.table_uuid:
        raise InvalidInputError(
            "another Delta table is in this folder",
            kind="delta-table-exists",
            file=root,
            field="metaData.id",
            found=found,
            expected=metadata.table_uuid,
        )
    return log


def _state(log: DeltaLog) -> tuple[int, Mapping[str, AddFile], dict[str, str]]:
    """The next version, what is live, and the last protocol and metaData as they were written."""
    known: dict[str, str] = {}
    for commit in log.commits(0, log.latest):
        for name, found in (("protocol", commit.actions.protocol), ("metaData", commit.actions.metadata)):
            if found is not None:
                known[name] = log.line(commit.version, name)
    return log.latest + 1, log.state(log.latest).files, known


def _wanted(
    io: FileIO, metadata: TableMetadata, snapshot: Snapshot | None, root: str, mode: ColumnMapping
) -> tuple[dict[str, Json], dict[str, str]]:
    """Add actions by their path in the log, and where each Puffin file is copied to."""
    if snapshot is None:
        return {}, {}
    reader = SnapshotReader(io, metadata)
    vectors: dict[str, DeleteFile] = {}
    for columns in reader.live_columns(snapshot, ManifestContent.DELETES):
        for entry in columns.entries(np.flatnonzero(columns.is_live)):
            delete = entry.data_file
            assert isinstance(delete, DeleteFile)
            if not delete.is_deletion_vector or delete.referenced_data_file is None:
                raise UnsupportedError(
                    "Delta knows deletion vectors and no other deletes",
                    kind="delta-deletes",
                    file=delete.file_path,
                    found=delete.kind,
                    expected="deletion-vector",
                )
            vectors[delete.referenced_data_file] = delete
    adds: dict[str, Json] = {}
    bins: dict[str, str] = {}
    for entry in reader.live_entries(snapshot, ManifestContent.DATA):
        file = entry.data_file
        assert isinstance(file, DataFile)
        vector = vectors.get(file.file_path)
        action = _add(metadata, file, root, mode)
        if vector is not None:
            descriptor = _descriptor(io, vector)
            bins[vector.file_path] = str(descriptor.file_path(root))
            action["deletionVector"] = descriptor.to_json()
        adds[action["path"]] = {"add": action}
    return adds, bins


def _add(metadata: TableMetadata, file: DataFile, root: str, mode: ColumnMapping) -> Json:
    refuse_encrypted(file)
    if file.file_format != "PARQUET":
        raise UnsupportedError(
            "Delta reads Parquet alone", kind="file-format", file=file.file_path, found=file.file_format
        )
    return {
        "path": delta_path(file.file_path, root),
        "partitionValues": partition_texts(metadata, metadata.specs[file.spec_id], file.partition, mode),
        "size": file.file_size_in_bytes,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": file.record_count}),
    }


def _descriptor(io: FileIO, vector: DeleteFile) -> DeletionVectorDescriptor:
    """The vector's descriptor; the file's name follows from the Puffin file's, so one vector always has one id."""
    assert vector.content_offset is not None
    assert vector.content_size_in_bytes is not None
    read_checked_blob(io, vector)
    return relative_descriptor(
        uuid.uuid5(uuid.NAMESPACE_URL, vector.file_path),
        offset=vector.content_offset,
        size_in_bytes=vector.content_size_in_bytes - FRAME_BYTES,
        cardinality=vector.record_count,
    )


def _copy_vectors(io: FileIO, source: str, target: str) -> None:
    """A Puffin file as a file of Delta vectors: version 1 in its first byte; what is between vectors, nobody reads."""
    if not Path(target).exists():
        write_if_absent(target, b"\x01" + io.read(source)[1:])


def _vector_id(action: Mapping[str, Any]) -> str | None:
    raw = action["add"].get("deletionVector")
    return None if raw is None else DeletionVectorDescriptor.from_json(raw).unique_id


def _removal(add: AddFile) -> Json:
    raw: Json = {"path": add.path, "deletionTimestamp": int(time.time() * 1000), "dataChange": True}
    if add.deletion_vector is not None:
        raw["deletionVector"] = add.deletion_vector.to_json()
    return {"remove": raw}
