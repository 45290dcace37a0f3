"""Tables of many files for measuring plans: real metadata and manifests, data files that do not exist."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, TimestampType

from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.formats.manifest_list import FieldSummary, ManifestContent, ManifestFile, write_manifest_list
from deletekit.formats.manifest_writer import write_manifest
from deletekit.table.metadata import TableMetadata, new_metadata, serialise_metadata, spec_to_json
from deletekit.table.types import partition_types, schema_to_json

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "grp", IntegerType(), required=False),
    NestedField(3, "name", StringType(), required=False),
    NestedField(4, "value", DoubleType(), required=False),
    NestedField(5, "ts", TimestampType(), required=False),
)
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "grp"), spec_id=0)
SNAPSHOT_ID, SEQUENCE_NUMBER, ROWS = 4021, 2, 1000
DELETES_NUMBER = SEQUENCE_NUMBER
FILES_PER_GROUP = 100


def data_path(root: str, number: int) -> str:
    """As Spark names its files; with a bucket in front, about 120 characters."""
    unique = f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}-{number:08x}"
    return f"{root}/data/grp={number // FILES_PER_GROUP}/{number:05d}-{number + 7}-{unique}-0-00001.parquet"


def data_file(root: str, number: int) -> DataFile:
    low, ids = number * ROWS, range(1, 6)
    names = (f"name-{low:08d}".encode(), f"name-{low + ROWS:08d}".encode())
    bounds = [
        {1: struct.pack("<q", i), 2: struct.pack("<i", number // FILES_PER_GROUP), 3: name, 4: struct.pack("<d", i / 7)}
        for i, name in zip((low, low + ROWS - 1), names, strict=True)
    ]
    for bound, i in zip(bounds, (low, low + ROWS), strict=True):
        bound[5] = struct.pack("<q", 1_700_000_000_000_000 + i)
    return DataFile(
        spec_id=0,
        file_path=data_path(root, number),
        file_format="PARQUET",
        partition=(number // FILES_PER_GROUP,),
        record_count=ROWS,
        file_size_in_bytes=30_000 + number % 1000,
        column_sizes={i: 1000 * i + number % 97 for i in ids},
        value_counts=dict.fromkeys(ids, ROWS),
        null_value_counts=dict.fromkeys(ids, 0),
        nan_value_counts={4: 0},
        lower_bounds=bounds[0],
        upper_bounds=bounds[1],
        split_offsets=(4,),
        sort_order_id=0,
    )


def vector(root: str, number: int) -> DeleteFile:
    return DeleteFile(
        content=FileContent.POSITION_DELETES,
        spec_id=0,
        file_path=f"{root}/data/deletes-{number // 50:08d}-{number // 50 * 0x9E3779B97F4A7C15 % 2**64:016x}.puffin",
        file_format="PUFFIN",
        partition=(number // FILES_PER_GROUP,),
        record_count=10,
        file_size_in_bytes=4000,
        referenced_data_file=data_path(root, number),
        content_offset=4 + number % 50 * 64,
        content_size_in_bytes=64,
    )


def _entries(files: Iterator[DataFile | DeleteFile]) -> list[ManifestEntry]:
    return [
        ManifestEntry(
            status=EntryStatus.ADDED,
            snapshot_id=SNAPSHOT_ID,
            sequence_number=None,
            file_sequence_number=None,
            data_file=f,
        )
        for f in files
    ]


def _manifest(metadata: TableMetadata, number: int, content: ManifestContent, files: Any, codec: str) -> ManifestFile:
    entries = _entries(files)
    kind = FileContent.DATA if content == ManifestContent.DATA else FileContent.POSITION_DELETES
    data = write_manifest(
        entries,
        format_version=3,
        content=kind,
        schema_json=schema_to_json(SCHEMA),
        spec_json=spec_to_json(SPEC),
        partition_types=partition_types(SPEC, SCHEMA),
        codec=codec,
    )
    path = f"{metadata.location}/metadata/{content.name.lower()}-{number}-m0.avro"
    Path(path).write_bytes(data)
    groups = [e.data_file.partition[0] for e in entries]
    bounds = [struct.pack("<i", g) for g in (min(groups), max(groups))]
    rows = sum(e.data_file.record_count for e in entries)
    number = 1 if content == ManifestContent.DATA else DELETES_NUMBER
    return ManifestFile(
        manifest_path=path,
        manifest_length=len(data),
        partition_spec_id=0,
        content=content,
        sequence_number=number,
        min_sequence_number=number,
        added_snapshot_id=SNAPSHOT_ID - (number != SEQUENCE_NUMBER),  # others are of a snapshot that has expired
        added_files_count=len(entries),
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=rows,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=(FieldSummary(contains_null=False, lower_bound=bounds[0], upper_bound=bounds[1]),),
    )


def location_of(root: str | Path) -> str:
    """Where `build` puts the table: deep enough for paths of usual length."""
    return str(Path(root).absolute() / "a_warehouse_of_ours" / "a_database.db" / "a_table")


def build(root: str | Path, files: int, manifests: int = 20, codec: str = "deflate") -> Path:
    """Write a table of `files` data files and `files` deletion vectors; gives its metadata file."""
    location = location_of(root)
    Path(location, "metadata").mkdir(parents=True)
    metadata = new_metadata(SCHEMA, SPEC, location=location, format_version=3)
    of_kind = max(manifests // 2, 1)
    steps = [files * i // of_kind for i in range(of_kind + 1)]
    listed = []
    for content, make in ((ManifestContent.DATA, data_file), (ManifestContent.DELETES, vector)):
        first_row_id = 0
        for i in range(of_kind):
            numbers = range(steps[i], steps[i + 1])
            one = _manifest(metadata, i, content, (make(location, n) for n in numbers), codec)
            if content == ManifestContent.DATA:
                one = replace(one, first_row_id=first_row_id)
                first_row_id += len(numbers) * ROWS
            listed.append(one)
    list_path = Path(location, "metadata", f"snap-{SNAPSHOT_ID}.avro")
    list_path.write_bytes(
        write_manifest_list(
            listed,
            format_version=3,
            snapshot_id=SNAPSHOT_ID,
            parent_snapshot_id=None,
            sequence_number=SEQUENCE_NUMBER,
            first_row_id=0,
        )
    )
    raw = dict(metadata.raw)
    raw["last-sequence-number"] = SEQUENCE_NUMBER
    raw["next-row-id"] = files * ROWS
    raw["current-snapshot-id"] = SNAPSHOT_ID
    raw["refs"] = {"main": {"snapshot-id": SNAPSHOT_ID, "type": "branch"}}
    raw["snapshots"] = [
        {
            "snapshot-id": SNAPSHOT_ID,
            "sequence-number": SEQUENCE_NUMBER,
            "timestamp-ms": raw["last-updated-ms"],
            "summary": {"operation": "append"},
            "manifest-list": str(list_path),
            "schema-id": 0,
            "first-row-id": 0,
            "added-rows": files * ROWS,
        }
    ]
    out = Path(location, "metadata", "v1.metadata.json")
    out.write_bytes(serialise_metadata(TableMetadata(raw)))
    return out
