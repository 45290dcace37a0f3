"""A bench on which deletekit makes one table in memory, with the same bytes each time.

The table lies at the sentinel root. Verbs and commits are deletekit's own; ids, times and sync markers are given.
"""

import io
import itertools
import json
import struct
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import fastavro
import pyarrow as pa

import deletekit as dk
from conformance.run import ROOT
from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import commit
from deletekit.deletes.equality_delete_writer import write_equality_deletes
from deletekit.deletes.merge_previous_deletes import FilePositions, write_positions
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent, ManifestEntry
from deletekit.formats.delete_file import position_delete_schema
from deletekit.formats.deletion_vector import PositionBitmap, decode_vector, encode_blob
from deletekit.formats.manifest_list import ManifestContent
from deletekit.formats.parquet import ParquetOptions, encode_parquet
from deletekit.formats.puffin import DELETION_VECTOR_V1, Blob, puffin_parts
from deletekit.rows.data_file_writer import write_data_files
from deletekit.rows.input_rows import align
from deletekit.rows.write_context import WriteContext
from deletekit.table.any_catalog import Catalog, TableState
from deletekit.table.identifier import Identifier
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_file import metadata_file_bytes, metadata_file_path, with_metadata_log
from deletekit.table.metadata_update import apply_updates, check_requirements
from deletekit.table.types import arrow_schema
from tests.memory_io import MemoryFileIO

TYPES = {
    "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
    "boolean": pa.bool_(), "date": pa.date32(), "binary": pa.binary(), "uuid": pa.uuid(), "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"), "timestamp_ns": pa.timestamp("ns"),
    "decimal": pa.decimal128(9, 2), "wide": pa.decimal128(38, 10),
}  # fmt: skip
FIRST_MS = 1_760_000_000_000
POS = 2147483645

Content = DataFile | DeleteFile
Json = dict[str, Any]


class OneTable(Catalog):
    """A catalog of one table, in memory."""

    name = "bench"

    def __init__(self, files: MemoryFileIO) -> None:
        self.files = files

    def load(self, identifier: Identifier) -> TableState:  # noqa: ARG002  # there is one table
        return self.state

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:  # noqa: ARG002
        return self._store(metadata, metadata_file_path(metadata))

    def commit(self, identifier: Identifier, requirements: Any, updates: Any) -> TableState:  # noqa: ARG002
        now, old = self.state.metadata, self.state.metadata_location
        check_requirements(now, requirements)
        changed = with_metadata_log(apply_updates(now, updates), old, now.raw["last-updated-ms"])
        return self._store(changed, metadata_file_path(changed, old))

    def _store(self, metadata: TableMetadata, path: str) -> TableState:
        self.files.write(path, metadata_file_bytes(metadata, path))
        self.state = TableState(metadata, path, self.files)
        return self.state


class Bench:
    """One table being made. Rows are tuples in the order of the columns."""

    def __init__(self, name: str, version: int) -> None:
        self.name, self.version = name, version
        self.files = MemoryFileIO()

    def create(self, partition_by: Sequence[str] = (), properties: Any = None, **columns: Any) -> dk.Table:
        """Create the table; a column is the name of a type, or an Arrow type."""
        fields = [pa.field(n, TYPES[t] if isinstance(t, str) else t) for n, t in columns.items()]
        self.table = dk.create_table(
            OneTable(self.files), f"suite.{self.name}", pa.schema(fields), format_version=self.version,
            location=f"file://{ROOT}/{self.name}/table", partition_by=partition_by, properties=properties or {},
        )  # fmt: skip
        return self.table

    def append(self, *rows: tuple[Any, ...], ref: str = "main") -> DataFile:
        """Append rows as one commit; return the (first) data file."""
        return self.add(*self.data(*rows), ref=ref)[0]

    def data(self, *rows: tuple[Any, ...]) -> list[DataFile]:
        """Write rows as data files, and commit nothing."""
        return write_data_files(self._write, self.rows(*rows))

    def rows(self, *rows: tuple[Any, ...]) -> pa.Table:
        schema = self.table.metadata.schema
        names = [field.name for field in schema.fields]
        return align([dict(zip(names, row, strict=True)) for row in rows], schema)

    def equal(
        self, keys: str, *deleted: Mapping[str, Any], spec: int | None = None, partition: tuple[Any, ...] = (),
        extra: str = "", rows: pa.Table | None = None,
    ) -> list[DeleteFile]:  # fmt: skip
        """Write an equality delete file; `extra` names columns that it holds beside the keys, in front of them."""
        metadata = self.table.metadata
        names = [*extra.split(), *keys.split()]
        ids = [metadata.schema.find_field(name).field_id for name in keys.split()]
        schema = metadata.schema.select(*names)
        table = align(list(deleted) if rows is None else rows, schema)
        if extra:
            table = table.select(list(dict.fromkeys(n.split(".")[0] for n in names)))
        wanted = metadata.spec if spec is None else metadata.specs[spec]
        return write_equality_deletes(self._write, table, ids, wanted, partition, schema)

    def at(self, *pairs: tuple[DataFile, Iterable[int]], granularity: str = "partition") -> list[DeleteFile]:
        """Write what this version has for positions: one position delete file, or vectors in one Puffin file."""
        hidden = [FilePositions(file, PositionBitmap(list(positions))) for file, positions in pairs]
        return write_positions(self._write, hidden, granularity)

    def listed(self, *pairs: tuple[str, int], of: DataFile) -> list[DeleteFile]:
        """Write a position delete file with just these rows in just this order, in the partition of a data file."""
        schema, _ = position_delete_schema()
        table = pa.table([[p for p, _ in pairs], [n for _, n in pairs]], schema=schema)
        written = encode_parquet(table, {"delete-type": "position"}, ParquetOptions())
        path = self._path("-listed-deletes.parquet")
        self.files.write(path, written.data)
        return [DeleteFile(
            content=FileContent.POSITION_DELETES, spec_id=of.spec_id, partition=of.partition, file_path=path,
            file_format="PARQUET", record_count=len(pairs), file_size_in_bytes=written.size,
        )]  # fmt: skip

    def vector(self, data: DataFile, vector: bytes) -> list[DeleteFile]:
        """Write a Puffin file with one vector of these bytes, for a data file."""
        body = bytes.fromhex("d1d33964") + vector
        blob = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        return self._puffin((data, blob, len(decode_vector(vector))))

    def shared_puffin(self, *pairs: tuple[DataFile, Iterable[int]]) -> list[DeleteFile]:
        """Write a Puffin file with these vectors in just this order, whatever their sizes and specs."""
        bitmaps = [(data, PositionBitmap(list(positions))) for data, positions in pairs]
        return self._puffin(*((data, encode_blob(bitmap), len(bitmap)) for data, bitmap in bitmaps))

    def _puffin(self, *vectors: tuple[DataFile, bytes, int]) -> list[DeleteFile]:
        blobs = [
            Blob(type=DELETION_VECTOR_V1, data=blob, fields=(POS,),
                 properties={"referenced-data-file": data.file_path, "cardinality": str(count)})
            for data, blob, count in vectors
        ]  # fmt: skip
        parts, footer = puffin_parts(blobs)
        puffin = b"".join(parts)
        path = self._path(".puffin")
        self.files.write(path, puffin)
        return [DeleteFile(
            content=FileContent.POSITION_DELETES, spec_id=data.spec_id, partition=data.partition, file_path=path,
            file_format="PUFFIN", record_count=count, file_size_in_bytes=len(puffin),
            referenced_data_file=data.file_path, content_offset=blob.offset, content_size_in_bytes=blob.length,
        ) for (data, _, count), blob in zip(vectors, footer.blobs, strict=True)]  # fmt: skip

    def avro(self, content: FileContent, schema: Any, rows: list[Any], metadata: Any = None, **fields: Any) -> Content:
        """Write an Avro file by fastavro."""
        out, path = io.BytesIO(), self._path(".avro")
        fastavro.writer(out, fastavro.parse_schema(schema), rows, codec="deflate", metadata=metadata or {})
        self.files.write(path, out.getvalue())
        kind = DataFile if content == FileContent.DATA else DeleteFile
        return kind(
            content=content, spec_id=0, file_path=path, file_format="AVRO", record_count=len(rows),
            file_size_in_bytes=len(out.getvalue()), **fields,
        )  # fmt: skip

    def parquet(self, table: pa.Table, options: ParquetOptions | None = None) -> DataFile:
        """Write a data file with just these columns."""
        written = encode_parquet(table, {}, options or ParquetOptions())
        path = self._path(".parquet")
        self.files.write(path, written.data)
        return DataFile(
            spec_id=0, file_path=path, file_format="PARQUET", record_count=len(table),
            file_size_in_bytes=written.size, split_offsets=written.split_offsets,
        )  # fmt: skip

    def add(
        self, *files: Content, ref: str = "main", remove: Iterable[Content] = (), sequence: int | None = None,
        operation: str | None = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Commit files: all that one commit adds and removes, as they are. Return the files."""
        gone = {file.identity for file in remove}
        data = tuple(f for f in files if isinstance(f, DataFile))
        deletes = tuple(f for f in files if isinstance(f, DeleteFile))

        def build(base: Base) -> RowDelta:
            def live(content: ManifestContent) -> tuple[ManifestEntry, ...]:
                listed = base.reader.live_entries(base.snapshot, content) if base.snapshot else ()
                return tuple(e for e in listed if e.data_file.identity in gone)

            return RowDelta(
                added_data_files=data, added_delete_files=deletes, operation=operation,
                removed_data_files=live(ManifestContent.DATA), removed_delete_files=live(ManifestContent.DELETES),
                sequence_numbers={} if sequence is None else {f.file_path: sequence for f in files},
            )  # fmt: skip

        commit(plan_change(self.table.refresh(), build, ref=ref))
        self.table.refresh()
        return files

    def edit(self, change: Callable[[Json], Json], *, content: int | None = None, without: Iterable[str] = ()) -> None:
        """Write Avro files of the current snapshot again, as another writer would have.

        The manifest list, or with `content` each manifest of data (0) or deletes (1): `change` returns each record
        anew, and fields that end as one of `without` go.
        """
        snapshot = self.table.refresh().metadata.current_snapshot
        assert snapshot is not None
        assert snapshot.manifest_list is not None
        paths = [snapshot.manifest_list]
        if content is not None:
            listed = fastavro.reader(io.BytesIO(self.files.files[snapshot.manifest_list]))
            paths = [row["manifest_path"] for row in listed if isinstance(row, dict) and row["content"] == content]
        for path in paths:
            opened, out = fastavro.reader(io.BytesIO(self.files.files[path])), io.BytesIO()
            schema = json.loads(opened.metadata["avro.schema"])
            schema["fields"] = [f for f in schema["fields"] if not f["name"].endswith(tuple(without) or "\0")]
            metadata = {k: v for k, v in opened.metadata.items() if not k.startswith("avro.")}
            fastavro.writer(out, schema, [change(row) for row in opened if isinstance(row, dict)], metadata=metadata)
            self.files.files[path] = out.getvalue()
            if content is not None:
                size = len(out.getvalue())
                self.edit(
                    lambda row, p=path, n=size: {**row, "manifest_length": n} if row["manifest_path"] == p else row
                )

    def inline(self) -> None:
        """Let the snapshots of the table list their manifests themselves, as the first writers of version 1 did."""
        raw = json.loads(self.files.files[self.table.refresh().metadata_location])
        for snapshot in raw["snapshots"]:
            rows = fastavro.reader(io.BytesIO(self.files.files[snapshot.pop("manifest-list")]))
            snapshot["manifests"] = [row["manifest_path"] for row in rows if isinstance(row, dict)]
        self.files.files[self.table.metadata_location] = json.dumps(raw).encode()

    def live(self, *, deletes: bool = False, ref: str = "main") -> list[Any]:
        """The live data files, or delete files, of a ref, the oldest first."""
        tasks = dk.scan(self.table, ref=ref).plan()
        return list({f.identity: f for t in tasks for f in (t.delete_files if deletes else [t.data_file])}.values())

    @property
    def arrow_schema(self) -> pa.Schema:
        return arrow_schema(self.table.metadata.schema)

    @property
    def _write(self) -> WriteContext:
        return WriteContext(self.files, self.table.metadata)

    def _path(self, suffix: str) -> str:
        return f"{self.table.location}/data/{uuid.uuid4()}{suffix}"


@contextmanager
def same_bytes(name: str) -> Iterator[None]:
    """Let ids, times and sync markers of a block depend on the name alone."""
    numbers, times = itertools.count(), itertools.count(FIRST_MS, 1000)
    seed = uuid.uuid5(uuid.NAMESPACE_URL, f"file://{ROOT}/{name}")
    sync = seed.bytes

    def next_id() -> uuid.UUID:
        return uuid.uuid5(seed, str(next(numbers)))

    writer = partial(fastavro.writer, sync_marker=sync)
    clock = patch.object(time, "time", lambda: next(times) / 1000)
    with (
        patch.object(uuid, "uuid4", next_id),
        clock,
        patch.object(fastavro, "writer", writer),
        dk.engine.local(threads=1),
    ):
        yield
