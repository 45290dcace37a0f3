"""Name and write the files of one operation, and remove them if it fails.

Each path is given out once and written once. Every written path is remembered, so that a failed operation can remove
exactly its own files.
"""

import uuid
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from itertools import count, islice
from typing import Any
from urllib.parse import quote_plus

import mmh3
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_name
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from deletekit.errors import CommitConflictError, InvalidInputError
from deletekit.formats.metrics import Metrics, MetricsMode, metrics_mode, to_optional
from deletekit.formats.parquet import ParquetOptions, WrittenParquet
from deletekit.rows.sort_order import RowOrder
from deletekit.table.file_io import FileIO, answering, try_delete
from deletekit.table.locations import SpellingRules
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_file import metadata_folder
from deletekit.table.partition import schema_of_spec, value_text
from deletekit.table.properties import (
    BLOOM_FILTER,
    BLOOM_FILTER_FPP,
    BLOOM_FILTER_NDV,
    COLUMN_METRICS,
    DICTIONARY,
    STATISTICS,
    columns_with,
    value_of,
)

_JOINED_BYTES = 1 << 20
"""Up to this size, the parts of a file are written by one call."""


class WriteContext:
    """Names and writes the files of one operation.

    `operation_id` appears in every file name. `written` lists the paths written so far, for clean-up.
    """

    def __init__(self, io: FileIO, metadata: TableMetadata, operation_id: str | None = None) -> None:
        self.io = io
        self.metadata = metadata
        self.operation_id = operation_id or str(uuid.uuid4())
        self.written: list[str] = []
        self._numbers = count(1)

    def __getstate__(self) -> dict[str, Any]:
        return {"io": self.io, "metadata": self.metadata, "operation_id": self.operation_id}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The counter of a worker starts at 0 again, so each copy adds a part of its own to the operation id.
        part = uuid.uuid4().hex[:8]
        self.__init__(**state | {"operation_id": f"{state['operation_id']}-{part}"})  # type: ignore[misc]

    def remember(self, path: str) -> None:
        """Remember a path that is written without `write`, here or by a worker."""
        self.written.append(path)

    def write(self, path: str, *parts: bytes | pa.Buffer) -> None:
        """Write a file and remember it, before the first byte: a write may fail half way.

        Large parts are not joined in memory.
        """
        self.remember(path)
        try:
            if len(parts) == 1 or sum(map(len, parts)) <= _JOINED_BYTES:
                self.io.write(path, parts[0] if len(parts) == 1 else b"".join(parts))
                return
            with self.io.create(path) as stream, answering(path):
                for part in parts:
                    stream.write(part)
        except CommitConflictError:
            self.written.remove(path)  # somebody else's file, which `discard` must not remove
            raise

    def write_parquet(
        self,
        spec: PartitionSpec,
        partition: tuple[Any, ...],
        suffix: str,
        file: WrittenParquet,
        metrics: Metrics,
        record_count: int,
    ) -> dict[str, Any]:
        """Write a Parquet file of a partition and return the fields of `ContentFile` that describe it."""
        path = self.data_path(spec, partition, suffix)
        self.write(path, file.data)
        return described(spec, partition, path, file, metrics, record_count)

    def discard(self, keep: Container[str] = ()) -> None:
        """Remove the files that this operation wrote, except `keep`. Never call it if they may be committed."""
        for path in [p for p in self.written if p not in keep]:
            try_delete(self.io, path)
            self.written.remove(path)

    def data_path(self, spec: PartitionSpec, partition: tuple[Any, ...], suffix: str) -> str:
        """Return a new path for a data or delete file: `write.data.path` or `<location>/data`, then the partition.

        With `write.object-storage.enabled` a hash comes before the partition, so that an object store spreads its load.
        """
        name = f"{next(self._numbers):05d}-{self.operation_id}{suffix}"
        return data_location(self.metadata, partition_path(spec, partition, self.metadata), name)

    def metadata_path(self, name: str) -> str:
        """Return a path under `write.metadata.path` or `<location>/metadata`."""
        return f"{metadata_folder(self.metadata)}/{name}"

    @property
    def parquet(self) -> ParquetOptions:
        """How data files are written. Properties of columns that the table has not are passed over, as in Java."""
        properties, ids = self.metadata.properties, self._ids
        chances = columns_with(properties, BLOOM_FILTER_FPP)
        distinct = columns_with(properties, BLOOM_FILTER_NDV)
        default = value_of({}, BLOOM_FILTER_FPP)
        filters = [name for name, wanted in columns_with(properties, BLOOM_FILTER).items() if wanted and name in ids]

        def without(prefix: str) -> frozenset[int]:
            wanted = columns_with(properties, prefix)
            return frozenset(ids[name] for name in wanted if name in ids and not wanted[name])

        return replace(
            parquet_options(properties),
            bloom_filters={ids[n]: (chances.get(n, default), distinct.get(n)) for n in filters},
            bloom_filter_bytes=value_of(properties, "write.parquet.bloom-filter-max-bytes"),
            without_dictionary=without(DICTIONARY),
            without_statistics=without(STATISTICS),
        )

    @property
    def delete_parquet(self) -> ParquetOptions:
        return parquet_options(self.metadata.properties, "write.delete.parquet.")

    def metrics_mode(self, field_id: int, name: str) -> MetricsMode:
        """Return the metrics mode of a column: its `write.metadata.metrics.column.<name>`, else `...default`.

        Without both, only the first columns of a wide table have metrics, by `...max-inferred-column-defaults`. Columns
        that rows are sorted by have bounds, unless a property of their own says otherwise (Java MetricsConfig).
        """
        properties, default = self.metadata.properties, "write.metadata.metrics.default"
        if COLUMN_METRICS + name in properties:
            own: MetricsMode = value_of(properties, COLUMN_METRICS + name)
            return own
        mode: MetricsMode = value_of(properties, default)
        if default not in properties and field_id in self._ids.values() and field_id not in self._inferred:
            mode = metrics_mode("none")
        return metrics_mode("truncate(16)") if field_id in self._sorted and not mode.bounds else mode

    @cached_property
    def _ids(self) -> dict[str, int]:
        return index_by_name(self.metadata.schema)

    @cached_property
    def _sorted(self) -> Collection[int]:
        fields = RowOrder.of(self.metadata).fields
        return {f.source_id for f in fields if f.transform.preserves_order}

    @cached_property
    def _inferred(self) -> Collection[int]:
        """The columns that have metrics when no property names them (Java MetricsConfig.limitFieldIds)."""
        most = value_of(self.metadata.properties, "write.metadata.metrics.max-inferred-column-defaults")
        schema = self.metadata.schema
        return schema.field_ids if len(schema.field_ids) <= most else set(islice(_primitives(schema.as_struct()), most))


def data_location(metadata: TableMetadata, partition: str, name: str) -> str:
    """Return where a data file of this name goes (Java LocationProviders). `partition` is its `partition_path`."""
    properties, home = metadata.properties, metadata.location
    folder = value_of(properties, "write.data.path") or f"{home}/data"
    if not value_of(properties, "write.object-storage.enabled"):
        return "/".join(filter(None, (folder, partition, name)))
    names_partition = value_of(properties, "write.object-storage.partitioned-paths")
    name = f"{partition}/{name}" if names_partition and partition else name
    bits = f"{mmh3.hash(name, signed=False) & 0xFFFFF:020b}"
    hashed = "/".join([folder, bits[:4], bits[4:8], bits[8:12], bits[12:]])
    if not folder.startswith(home):  # several tables may share the folder
        return "/".join([hashed, *filter(None, SpellingRules().parse(home).path.split("/")[-2:]), name])
    return f"{hashed}/{name}" if names_partition else f"{hashed}-{name}"


def _primitives(kind: IcebergType) -> Iterator[int]:
    """Yield the ids of primitive fields: those of a type itself before those below it."""
    if isinstance(kind, ListType):
        fields: Sequence[NestedField] = [kind.element_field]
    elif isinstance(kind, MapType):
        fields = [kind.key_field, kind.value_field]
    else:
        fields = kind.fields if isinstance(kind, StructType) else ()
    yield from (f.field_id for f in fields if f.field_type.is_primitive)
    for below in fields:
        yield from _primitives(below.field_type)


def described(
    spec: PartitionSpec,
    partition: tuple[Any, ...],
    path: str,
    file: WrittenParquet,
    metrics: Metrics,
    record_count: int,
) -> dict[str, Any]:
    """Return the fields of `ContentFile` that describe a Parquet file of a partition."""
    return {
        "spec_id": spec.spec_id,
        "partition": partition,
        "file_path": path,
        "file_format": "PARQUET",
        "record_count": record_count,
        "file_size_in_bytes": file.size,
        "column_sizes": to_optional(file.column_sizes),
        "split_offsets": file.split_offsets,
        **{f.name: to_optional(getattr(metrics, f.name)) for f in fields(metrics)},
    }


def parquet_options(properties: Mapping[str, str], prefix: str = "write.parquet.") -> ParquetOptions:
    """Return the options in `<prefix>*`, else in `write.parquet.*`. Raises InvalidInputError."""

    def value(name: str) -> Any:
        own = prefix + name
        return value_of(properties, own if own in properties else f"write.parquet.{name}")

    codec = value("compression-codec")
    return ParquetOptions(
        compression="none" if codec == "uncompressed" else codec,
        compression_level=value("compression-level") if codec in {"zstd", "gzip", "brotli"} else None,
        row_group_rows=value("row-group-limit"),
        row_group_bytes=value("row-group-size-bytes"),
        page_bytes=value("page-size-bytes"),
        page_rows=value("page-row-limit"),
        page_version=value("page-version"),
        dictionary_bytes=value("dict-size-bytes"),
    )


def granularity_of(metadata: TableMetadata, granularity: str | None = None) -> str:
    """Return the granularity asked for, else `write.delete.granularity`, whose default is `partition`.

    Raises InvalidInputError for anything but `file` and `partition`.
    """
    given = {} if granularity is None else {"write.delete.granularity": granularity}
    chosen: str = value_of({**metadata.properties, **given}, "write.delete.granularity")
    return chosen


def check_parquet_only(metadata: TableMetadata, *names: str) -> None:
    """Raise InvalidInputError if a property asks for a file format that deletekit reads but does not write."""
    for name in names:
        value = value_of(metadata.properties, name)
        if value != "parquet":
            raise InvalidInputError("file format cannot be written", "file-format", name, value, "parquet")


def partition_path(spec: PartitionSpec, partition: tuple[Any, ...], metadata: TableMetadata) -> str:
    """Return `field=value/...` as Java names it. It is for people only: readers take the values from manifests."""
    schema = schema_of_spec(metadata, spec)
    texts = ((f.name, _human(f, schema, value)) for f, value in zip(spec.fields, partition, strict=True))
    return "/".join(f"{quote_plus(name)}={quote_plus(text)}" for name, text in texts)


def _human(field: PartitionField, schema: Schema, value: Any) -> str:
    if value is None or schema.find_column_name(field.source_id) is None:
        return "null"
    return value_text(field.transform, schema.find_type(field.source_id), value)
