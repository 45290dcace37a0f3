"""Export an Iceberg table as a Delta table over the same data files, including its deletion vectors.

No data file is copied. Delta's frame and Iceberg's blob are the same bytes, so a Puffin file is copied with another
first byte, and each vector keeps its offset. Each export is one commit of Delta's log, created only if that version
does not exist yet.
Spec: Delta protocol, "Add File and Remove File", "Deletion Vectors", "Transaction Identifiers".
"""

import json
import time
import uuid
from pathlib import Path
from typing import Any

from deletekit.delta.actions import AddFile, parse_actions
from deletekit.delta.convert_vectors import read_checked_blob
from deletekit.delta.deletion_vector import FRAME_BYTES, DeletionVectorDescriptor, encode_z85
from deletekit.delta.log import DeltaLog
from deletekit.delta.paths import delta_path
from deletekit.delta.protocol import protocol_action
from deletekit.delta.schema_to_delta import ColumnMapping, metadata_action
from deletekit.delta.stats_to_delta import stats_text
from deletekit.delta.values import partition_texts
from deletekit.errors import InvalidInputError, NotFoundError, UnsupportedError
from deletekit.formats.content_file import DataFile, DeleteFile, refuse_encrypted
from deletekit.formats.manifest_list import ManifestContent
from deletekit.notebook_html import result
from deletekit.table.create_if_absent import CreateIfAbsent
from deletekit.table.file_io import FileIO
from deletekit.table.locations import normalised
from deletekit.table.metadata import MAIN, Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table
from deletekit.version import __version__

Json = dict[str, Any]


@result
class DeltaExport:
    """What `export_delta` did.

    Attributes
    ----------
    path: the Delta table's folder.
    version: the Delta version that has the rows of `snapshot_id`.
    snapshot_id: the Iceberg table's snapshot.
    added_files, removed_files: how many add and remove actions the commit has; 0 if nothing had changed.
    """

    path: str
    version: int
    snapshot_id: int | None
    added_files: int = 0
    removed_files: int = 0


def export_delta(
    table: Table, path: str | Path, *, ref: str = MAIN, column_mapping: ColumnMapping = "none"
) -> DeltaExport:
    """Create or update a Delta table that has the rows of an Iceberg v3 table.

    Parameters
    ----------
    path: the Delta table's folder: on a local disk, or where storage creates a file only if there is none, with the
        properties of the table's catalog: `s3://`, `gs://`, `abfss://` (`pip install 'deletekit[object-store]'`). It
        must be new, or made by an earlier export of the same table.
    ref: the branch or tag.
    column_mapping: `none`, for tables whose columns were never renamed; or `id`, which finds columns by their field
        ids. Spark reads `id` right. deltalake 1.6 silently reads such columns as NULL.

    Spark with Delta reads the table, and so do `DeltaTable.scan()` and `QueryBuilder` of deltalake 1.6; its other
    readers refuse deletion vectors. The Delta table refers to the Iceberg table's data files by absolute path. Expiring
    snapshots of the Iceberg table therefore removes files of older Delta versions.

    Raises UnsupportedError, by name, for equality deletes and position delete files (`convert_equality_deletes` and
    `rewrite_position_deletes` turn them into vectors), ORC and Avro data files, types and partition values that Delta
    does not have, promoted columns, columns that differ only in case, defaults of existing rows, and a change of
    partitioning. Raises InvalidInputError for a folder that holds another Delta table; CommitConflictError if another
    writer made the version first; FormatError for a damaged vector. The Delta table is then unchanged.
    """
    root = normalised(str(path), "path")
    files = CreateIfAbsent(root, getattr(table.io, "properties", {}))
    metadata = table.refresh().metadata
    snapshot = metadata.snapshot_of_ref(ref)
    protocol, definition = protocol_action(metadata, column_mapping), metadata_action(metadata, column_mapping)
    wanted, bins = _wanted(table.io, metadata, snapshot, root, column_mapping)
    log = _log(table.io, root, metadata, column_mapping)
    state = None if log is None else log.state(log.latest)
    version, live = (0, {}) if state is None else (state.version + 1, state.files)
    header = parse_actions([protocol, definition])
    changed = [protocol] if state is None or state.protocol != header.protocol else []
    changed += [definition] if state is None or state.metadata != header.metadata else []
    ids = {add.path: add.vector_id for add in parse_actions(wanted.values()).adds}
    adds = {p: a for p, a in wanted.items() if p not in live or live[p].vector_id != ids[p]}
    removes = [_remove_action(a) for p, a in live.items() if p not in wanted or p in adds]
    snapshot_id = snapshot.snapshot_id if snapshot else None
    if state is not None and not (adds or removes or changed):
        return DeltaExport(path=root, version=version - 1, snapshot_id=snapshot_id)
    files.check()
    for source, target in bins.items():
        if not table.io.exists(target):
            # A file of Delta's vectors begins with version 1. Readers skip bytes between vectors.
            files.create(target, b"\x01" + memoryview(table.io.read(source))[1:])
    info = {
        "timestamp": int(time.time() * 1000),
        "operation": "deletekit export_delta",
        "operationParameters": {"icebergTable": str(metadata.table_uuid), "snapshotId": str(snapshot_id)},
        "engineInfo": f"deletekit/{__version__}",
        "txnId": str(uuid.uuid4()),  # no two commits have equal bytes
    }
    lines = map(json.dumps, [{"commitInfo": info}, *changed, *removes, *adds.values()])
    files.create(f"{root}/_delta_log/{version:020d}.json", "\n".join(lines).encode() + b"\n")
    return DeltaExport(
        path=root, version=version, snapshot_id=snapshot_id, added_files=len(adds), removed_files=len(removes)
    )


def _log(io: FileIO, root: str, metadata: TableMetadata, mode: ColumnMapping) -> DeltaLog | None:
    """Return the log of an earlier export, or None for a new table."""
    try:
        log = DeltaLog(io, root)
    except NotFoundError:
        return None

    def check(message: str, kind: str, field: str, found: str | None, expected: str | None) -> None:
        if found != expected:
            raise InvalidInputError(message, kind=kind, file=root, field=field, found=found, expected=expected)

    last = log.state(log.latest).metadata
    message = "the column mapping of a Delta table cannot be changed"
    check(message, "delta-column-mapping", "column_mapping", mode, last.column_mapping_mode)
    message = "another Delta table is in this folder"
    check(message, "delta-table-exists", "metaData.id", last.id, metadata.table_uuid)
    return log


def _wanted(
    io: FileIO, metadata: TableMetadata, snapshot: Snapshot | None, root: str, mode: ColumnMapping
) -> tuple[dict[str, Json], dict[str, str]]:
    """Return the add actions by their path in the log, and the file to which each Puffin file is copied."""
    if snapshot is None:
        return {}, {}
    reader = SnapshotReader(io, metadata)
    vectors: dict[str, DeleteFile] = {}
    for entry in reader.live_entries(snapshot, ManifestContent.DELETES):
        delete = entry.data_file
        assert isinstance(delete, DeleteFile)
        if not delete.is_deletion_vector or delete.referenced_data_file is None:
            message, path, kind = "Delta has deletion vectors only, no other deletes", delete.file_path, "delta-deletes"
            raise UnsupportedError(message, kind=kind, file=path, found=delete.kind, expected="deletion-vector")
        vectors[delete.referenced_data_file] = delete
    adds: dict[str, Json] = {}
    bins: dict[str, str] = {}
    for entry in reader.live_entries(snapshot, ManifestContent.DATA):
        file = entry.data_file
        assert isinstance(file, DataFile)
        refuse_encrypted(file)
        if file.file_format != "PARQUET":
            message, found = "Delta reads Parquet alone", file.file_format
            raise UnsupportedError(message, kind="file-format", found=found, file=file.file_path)
        action = {
            "path": delta_path(file.file_path, root),
            "partitionValues": partition_texts(metadata, metadata.specs[file.spec_id], file.partition, mode),
            "size": file.file_size_in_bytes,
            "modificationTime": 0,
            "dataChange": True,
            "stats": stats_text(metadata, file, mode),
        }
        vector = vectors.get(file.file_path)
        if vector is not None:
            descriptor = _descriptor(io, vector)
            bins[vector.file_path] = str(descriptor.file_path(root))
            action["deletionVector"] = descriptor.to_json()
        adds[str(action["path"])] = {"add": action}
    return adds, bins


def _descriptor(io: FileIO, vector: DeleteFile) -> DeletionVectorDescriptor:
    """Return the vector's descriptor. Its file is named after the Puffin file, so a vector always has the same id."""
    assert vector.content_size_in_bytes is not None
    read_checked_blob(io, vector)
    return DeletionVectorDescriptor(
        storage_type="u",
        path_or_inline_dv=encode_z85(uuid.uuid5(uuid.NAMESPACE_URL, vector.file_path).bytes),
        offset=vector.content_offset,
        size_in_bytes=vector.content_size_in_bytes - FRAME_BYTES,
        cardinality=vector.record_count,
    )


def _remove_action(add: AddFile) -> Json:
    raw: Json = {"path": add.path, "deletionTimestamp": int(time.time() * 1000), "dataChange": True}
    if add.deletion_vector is not None:
        raw["deletionVector"] = add.deletion_vector.to_json()
    return {"remove": raw}
