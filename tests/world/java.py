"""A writer that appends as Java's FastAppend does: it keeps every manifest, and tries again with a new list."""

import io
import time
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import deletekit as dk
from deletekit.formats.content_file import DataFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_list import ManifestFile, write_manifest_list
from deletekit.formats.manifest_writer import write_manifest
from deletekit.table.metadata import spec_to_json
from deletekit.table.metadata_update import requirements_of
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.types import schema_to_json

ATTEMPTS = 5
SCHEMA = pa.schema(
    [pa.field(n, pa.int64(), metadata={"PARQUET:field_id": i}) for n, i in (("id", "1"), ("value", "2"))]
)
COUNTS = ("existing_files_count", "deleted_files_count", "existing_rows_count", "deleted_rows_count")


def append(table: dk.Table, rows: dict[int, int]) -> None:
    """Append rows to the head of main of an unpartitioned table. Raise CommitConflictError after the last attempt."""
    sink, name = io.BytesIO(), uuid.uuid4()
    pq.write_table(pa.table({"id": list(rows), "value": list(rows.values())}, schema=SCHEMA), sink)
    data, path = sink.getvalue(), f"{table.location}/data/00000-{name}-java.parquet"
    table.io.write(path, data)
    facts: Any = {"file_format": "PARQUET", "record_count": len(rows), "file_size_in_bytes": len(data)}
    file = DataFile(spec_id=0, file_path=path, **facts)
    for attempt in range(ATTEMPTS):
        made: dict[str, bytes] = {}
        asked = _offer(table.refresh(), file, f"{name}-{attempt}", made)
        for at, content in made.items():
            table.io.write(at, content)
        try:
            table.adopt(table.require_catalog().commit(table.identifier, *asked))
        except dk.CommitConflictError:
            last = attempt == ATTEMPTS - 1
            for at in [*made, *([path] if last else [])]:
                table.io.delete(at)
            if last:
                raise
            time.sleep(0.1 * 2**attempt)
        else:
            return


def _offer(table: dk.Table, file: DataFile, name: str, made: dict[str, bytes]) -> Any:
    """Return what a catalog is asked for. Put the files that must be written into `made`."""
    metadata, head = table.metadata, table.metadata.snapshots[table.metadata.refs["main"]["snapshot-id"]]
    version, snapshot_id, number = metadata.format_version, uuid.uuid4().int >> 66, metadata.last_sequence_number + 1
    free: Any = metadata.next_row_id if version == 3 else None
    none: Any = dict.fromkeys(("sequence_number", "file_sequence_number"))
    entry = ManifestEntry(status=EntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file, **none)
    kind: Any = {"content": FileContent.DATA, "schema_json": schema_to_json(metadata.schema), "partition_types": ()}
    manifest = write_manifest([entry], format_version=version, spec_json=spec_to_json(metadata.spec), **kind)
    paths = [f"{table.location}/metadata/{what}-{name}.avro" for what in ("m", f"snap-{snapshot_id}")]
    numbers: Any = dict.fromkeys(("sequence_number", "min_sequence_number"), number) | dict.fromkeys(COUNTS, 0)
    numbers |= {"added_snapshot_id": snapshot_id, "added_files_count": 1, "added_rows_count": file.record_count}
    size = len(manifest)
    new = ManifestFile(manifest_path=paths[0], manifest_length=size, partition_spec_id=0, first_row_id=free, **numbers)
    listed = [new, *SnapshotReader(table.io, metadata).manifests(head)]
    ids: Any = {"snapshot_id": snapshot_id, "parent_snapshot_id": head.snapshot_id, "sequence_number": number}
    made |= {
        paths[0]: manifest,
        paths[1]: write_manifest_list(listed, format_version=version, first_row_id=free, **ids),
    }
    snapshot: dict[str, Any] = {key.replace("_", "-"): value for key, value in ids.items()}
    snapshot |= {"timestamp-ms": max(int(time.time() * 1000), head.timestamp_ms + 1), "manifest-list": paths[1]}
    snapshot |= {"summary": {"operation": "append", "engine-name": "java"}, "schema-id": 0}
    if version == 3:
        snapshot |= {"first-row-id": free, "added-rows": file.record_count}
    branch = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    updates = ({"action": "add-snapshot", "snapshot": snapshot}, {"action": "set-snapshot-ref", **branch})
    return requirements_of(metadata, {"main": head.snapshot_id}, same_schema=False), updates
