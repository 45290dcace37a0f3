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
from deletekit.table.metadata import Snapshot, spec_to_json
from deletekit.table.metadata_update import requirements_of
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.types import schema_to_json

ATTEMPTS = 5
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
        pa.field("value", pa.int64(), metadata={"PARQUET:field_id": "2"}),
    ]
)


def append(table: dk.Table, rows: dict[int, int]) -> None:
    """Append rows to the head of main of an unpartitioned table. Raise CommitConflictError after the last attempt."""
    sink, version, name = io.BytesIO(), table.format_version, uuid.uuid4()
    pq.write_table(pa.table({"id": list(rows), "value": list(rows.values())}, schema=SCHEMA), sink)
    path = f"{table.location}/data/00000-{name}-java.parquet"
    table.io.write(path, sink.getvalue())
    size = len(sink.getvalue())
    file = DataFile(spec_id=0, file_path=path, file_format="PARQUET", record_count=len(rows), file_size_in_bytes=size)
    for attempt in range(ATTEMPTS):
        metadata = table.refresh().metadata
        head = metadata.current_snapshot
        assert head is not None
        listed = SnapshotReader(table.io, metadata).manifests(head)
        snapshot_id, number = uuid.uuid4().int >> 66, metadata.last_sequence_number + 1
        numbers: Any = dict.fromkeys(("sequence_number", "file_sequence_number"))
        entry = ManifestEntry(status=EntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file, **numbers)
        schema, spec = schema_to_json(metadata.schema), spec_to_json(metadata.spec)
        manifest = write_manifest(
            [entry],
            format_version=version,
            content=FileContent.DATA,
            schema_json=schema,
            spec_json=spec,
            partition_types=(),
        )
        counts: Any = dict.fromkeys(("existing_files_count", "deleted_files_count", "existing_rows_count"), 0)
        new = ManifestFile(
            manifest_path=f"{table.location}/metadata/{name}-m{attempt}.avro",
            manifest_length=len(manifest),
            partition_spec_id=0,
            sequence_number=number,
            min_sequence_number=number,
            added_snapshot_id=snapshot_id,
            added_files_count=1,
            added_rows_count=len(rows),
            deleted_rows_count=0,
            first_row_id=metadata.next_row_id if version == 3 else None,
            **counts,
        )
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=number,
            timestamp_ms=max(int(time.time() * 1000), head.timestamp_ms + 1),
            manifest_list=f"{table.location}/metadata/snap-{snapshot_id}-{attempt}-{name}.avro",
            summary={"operation": "append", "engine-name": "java"},
            schema_id=0,
            first_row_id=new.first_row_id,
            added_rows=len(rows),
        )
        ids: Any = {"snapshot_id": snapshot_id, "parent_snapshot_id": head.snapshot_id, "sequence_number": number}
        data = write_manifest_list([new, *listed], format_version=version, first_row_id=new.first_row_id, **ids)
        made = {new.manifest_path: manifest, str(snapshot.manifest_list): data}
        for at, content in made.items():
            table.io.write(at, content)
        updates = (
            {"action": "add-snapshot", "snapshot": snapshot.to_json(version)},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
        )
        wanted = requirements_of(metadata, {"main": head.snapshot_id}, same_schema=False)
        try:
            table.adopt(table.require_catalog().commit(table.identifier, wanted, updates))
        except dk.CommitConflictError:
            last = attempt == ATTEMPTS - 1
            for at in [*made, *([path] if last else [])]:
                table.io.delete(at)
            if last:
                raise
            time.sleep(0.1 * 2**attempt)
        else:
            return
