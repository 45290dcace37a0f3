"""Read manifests: content files of one partition spec, in columns, checked, with what they inherit.

`read_manifest` decodes and checks a manifest as it is stored. `inherit` adds what its row in the manifest list says.
polars decodes large manifests and fastavro all others; both feed the same checks.
Spec: "Manifests", "Sequence Number Inheritance", "First Row ID Inheritance", https://iceberg.apache.org/spec/#manifests
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deletekit.errors import FormatError
from deletekit.formats.avro import ContainerFile, read_container
from deletekit.formats.avro_columns import Columns, leaves, read_columns, to_numpy
from deletekit.formats.content_file import (
    METRIC_MAPS,
    ContentFile,
    EntryStatus,
    FileContent,
    ManifestEntry,
    file_format_of,
)
from deletekit.formats.manifest_columns import (
    Column,
    DecodedMetrics,
    ManifestColumns,
    MetricMaps,
    MetricsCache,
    MetricsOfRow,
    as_numbers,
    as_text,
    int64s,
    is_known,
    shared_text,
)
from deletekit.formats.manifest_list import COUNTS, ManifestContent, ManifestFile
from deletekit.formats.manifest_schema import (
    OPTIONAL_DATA_FILE,
    REQUIRED_DATA_FILE,
    StoredManifestSchema,
    stored_manifest_schema,
)

Path = tuple[str, ...]
"""The spec's field names from the entry down; partition fields have their stored names."""

_METRIC_PATHS = frozenset(("data_file", name) for name in METRIC_MAPS)
_NEVER_NEGATIVE = ("file_size_in_bytes", "content_offset", "content_size_in_bytes", "first_row_id")
_VECTOR_FIELDS = ("referenced_data_file", "content_offset", "content_size_in_bytes")
_INHERITED = ("snapshot_id", "sequence_number", "file_sequence_number")
# Sums of record counts below this are exact in 64 bits.
_MOST_ROWS = 2.0**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest as stored: its Avro metadata, and its entries before inheritance.

    In `columns`, `optional` holds the columns that may inherit as stored, null included; the arrays of the same names
    are 0 where they are null.
    """

    metadata: Mapping[str, str]
    columns: ManifestColumns

    @property
    def format_version(self) -> int:
        return int(self.metadata.get("format-version", "1"))

    @property
    def partition_field_ids(self) -> tuple[int, ...]:
        return self.columns.partition_field_ids

    @property
    def entries(self) -> tuple[ManifestEntry, ...]:
        return self.columns.all_entries()


def read_manifest(
    data: bytes, *, spec_id: int | None = None, cache: MetricsCache | None = None, by_polars: bool = False
) -> Manifest:
    """Decode and check a manifest of format version 1 to 3.

    Parameters
    ----------
    data: the whole file.
    spec_id: the manifest list's `partition_spec_id`; None takes the manifest's own metadata.
    cache: keeps the metrics of the manifests that were asked for last.
    by_polars: try polars first, which is faster for large manifests and slower for small ones.

    Raises FormatError for anything that is not a manifest, and for format version 4 and later.
    """
    container = read_container(data, distinct=True)
    _check_version(container)
    if spec_id is None:
        spec_id = _int_text(container.metadata.get("partition-spec-id", "0"), "partition-spec-id")
    schema = stored_manifest_schema(container.schema_text)
    stored = _by_polars(container, schema, cache or MetricsCache()) if by_polars else None
    columns = _checked(stored or _by_fastavro(data, container, schema), spec_id, schema.partition_field_ids)
    return Manifest(metadata=container.metadata, columns=columns)


def inherit(manifest: Manifest, listed: ManifestFile, *, strict: bool = True) -> ManifestColumns:
    """Add what entries inherit from the manifest's row in the manifest list: numbers, snapshot ids, first row ids.

    A null sequence number of an added entry takes the manifest's, and of any entry where that is 0. Those of v1
    manifests are all null: their row says 0, or when they were appended to a v2 table that snapshot's number, which
    Java and pyiceberg take too (the spec says 0 always). What a manifest says of its own format version does not count
    here: some have lost it. An existing or deleted entry of an early v2 writer may lack its file sequence number, and
    then has none.

    A live data file's null `first_row_id` takes the manifest's `first_row_id` plus the rows of the live files before it
    that had none; deleted entries do not count (as Java's ManifestReader does; the spec says "all data files that
    preceded").

    With `strict` False, an entry that may not inherit its sequence number takes the manifest's too, and no number is
    checked. Raises FormatError for such an entry, for one whose number is not 0 to the manifest's or is below the
    lowest that the list states, and for row ids that leave 64 bits.
    """
    stored, number = manifest.columns, manifest.columns.optional.get("sequence_number")
    inherits = (stored.status == EntryStatus.ADDED) | (listed.sequence_number == 0)
    missing = ~(is_known(number, len(stored)) | inherits)
    if strict and missing.any():
        entry = stored.entry(int(np.flatnonzero(missing)[0]))
        found = f"null for {entry.data_file.file_path} with status {entry.status.name}"
        error = _bad("only added entries inherit their sequence number", "sequence_number", found, "a number")
        raise error.in_file(listed.manifest_path)
    file_number = stored.optional.get("file_sequence_number")
    has_file_number = is_known(file_number, len(stored)) | inherits
    optional = {name: column for name, column in stored.optional.items() if name not in (*_INHERITED, "first_row_id")}
    optional["file_sequence_number"] = as_numbers(
        int64s(file_number, len(stored), listed.sequence_number), has_file_number
    )
    if listed.first_row_id is not None:
        optional["first_row_id"] = _row_ids(stored, listed.first_row_id)
    inherited = replace(
        stored,
        snapshot_id=int64s(stored.optional.get("snapshot_id"), len(stored), listed.added_snapshot_id),
        sequence_number=int64s(number, len(stored), listed.sequence_number),
        optional=optional,
    )
    if strict:
        _check_numbers(inherited, listed)
    return inherited


def _check_numbers(found: ManifestColumns, listed: ManifestFile) -> None:
    """Raise FormatError for an entry with a sequence number out of range: deletes would no longer find their rows."""
    number, least = found.sequence_number, listed.min_sequence_number
    is_data = listed.content == ManifestContent.DATA
    if is_data and least and (number == 0).any():
        # Releases of pyiceberg and iceberg-go take a lowest number of 0 for none, and state the manifest's. Files have
        # this number if they are older than the upgrade to version 2, so their file sequence number is 0 as well.
        file_number = found.optional["file_sequence_number"]
        of_v1 = (number == 0) & (int64s(file_number, len(found), 0) == 0) & found.is_live
        least = 0 if of_v1.any() else least
    wrong = (number < np.where(found.is_live, least, 0)) | (number > listed.sequence_number)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        found_number = f"{number[row]} for {found.entry(row).data_file.file_path}"
        expected = f"{least if found.is_live[row] else 0} to {listed.sequence_number}, as the manifest list says"
        message = "sequence number of an entry cannot be right"
        raise _bad(message, "sequence_number", found_number, expected).in_file(listed.manifest_path)


def counted(listed: ManifestFile, stored: ManifestColumns, snapshot_id: int) -> ManifestFile:
    """Return a manifest's row in the manifest list with all that v2 requires, counted where v1 left it out.

    An absent count is "assumed to be non-zero" (spec "Manifest Lists"), so it must not be written as 0. The snapshot
    that added the manifest is the one that its added or deleted entries name. If it has none, no entry asks for that
    snapshot, and it is `snapshot_id`, one that lists the manifest.
    """
    known = {name: getattr(listed, name) for name in COUNTS}
    for status in EntryStatus:
        mine = stored.record_count[stored.status == status]
        found = {f"{status.name.lower()}_files_count": len(mine), f"{status.name.lower()}_rows_count": int(mine.sum())}
        known |= {name: count for name, count in found.items() if known[name] is None}
    writers = stored.snapshot_id[(stored.status != EntryStatus.EXISTING) & (stored.snapshot_id != 0)]
    writer = listed.added_snapshot_id or (int(writers[0]) if len(writers) else snapshot_id)
    return replace(listed, added_snapshot_id=writer, **known)


def columns_of(entries: Sequence[ManifestEntry], spec_id: int, partition_field_ids: tuple[int, ...]) -> ManifestColumns:
    """Return entries as the columns of one manifest. Raises FormatError for a value that the spec does not allow."""
    files = [e.data_file for e in entries]
    columns: dict[Path, Column] = {(name,): [getattr(e, name) for e in entries] for name in ("status", *_INHERITED)}
    for name in ("content", *REQUIRED_DATA_FILE, *OPTIONAL_DATA_FILE):
        columns["data_file", name] = [getattr(f, name, None) for f in files]
    partition = tuple(f.partition for f in files)
    stored = _Stored(columns, _own_codes(partition), partition, partial(_metrics_of_file, files))
    return _checked(stored, spec_id, partition_field_ids)


def _row_ids(stored: ManifestColumns, first: int) -> pa.Array:
    """Return the first row id of each file of a manifest whose first row id is `first`."""
    column = stored.optional.get("first_row_id")
    known = is_known(column, len(stored))
    inherits = ~known & stored.is_live & (stored.content == FileContent.DATA)
    counts = np.where(inherits, stored.record_count, 0)
    if float(counts.astype(np.float64).sum()) + first >= _MOST_ROWS:
        expected = "counts of rows that a table can hold"
        raise _bad("row ids leave 64 bits", "record_count", int(counts.max()), expected)
    ids = np.where(known, int64s(column, len(stored), 0), first + np.cumsum(counts) - counts)
    return as_numbers(ids, known | inherits)


# --- from bytes to stored columns -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stored:
    """The columns of a manifest before any check. `partition` holds the tuples by `partition_code`."""

    columns: Mapping[Path, Column]
    partition_code: npt.NDArray[np.int32]
    partition: tuple[tuple[Any, ...], ...]
    metrics: MetricsOfRow


def _by_polars(container: ContainerFile, schema: StoredManifestSchema, cache: MetricsCache) -> _Stored | None:
    """Decode columns with polars, without the metrics. Return None where polars cannot be believed."""
    found = leaves(container)
    if found is None or container.has_plain_fixed:
        return None
    names = {leaf.path: schema.spec_path(leaf.path) for leaf in found}
    lists = [names[leaf.path] for leaf in found if leaf.kind in ("list", "map")]
    if any(name[:2] == ("data_file", "partition") for name in lists) or len(set(names.values())) < len(names):
        return None
    metrics = {path for path, name in names.items() if name in _METRIC_PATHS}
    wanted = names.keys() - metrics
    decoded = read_columns(container, found, wanted)
    if decoded is None:
        return None

    def decode_metrics() -> Columns:
        again = read_columns(container, found, metrics, check=False)
        assert again is not None, "decoded before, from the same bytes"
        return {names[path]: array for path, array in again.items()}

    columns: dict[Path, Column] = {names[path]: array for path, array in decoded.items()}
    code, partition = _distinct([columns.get(("data_file", "partition", n)) for n in schema.partition_names], columns)
    return _Stored(columns, code, partition, DecodedMetrics(decode_metrics, cache))


def _distinct(
    partition: Sequence[pa.Array | None], columns: Mapping[Path, Column]
) -> tuple[npt.NDArray[np.int32], tuple[tuple[Any, ...], ...]]:
    """Return a code for each row's partition tuple, and the tuples by code."""
    codes = np.zeros(len(columns["status",]), np.int64)
    if not partition:
        return codes.astype(np.int32), ((),)
    for column in partition:
        if column is not None:
            more = _codes(column)
            if codes.any():
                _, more = np.unique(codes * (int(more.max()) + 1) + more, return_inverse=True)
            codes = more
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    values = [[None] * len(first) if c is None else c.take(as_numbers(first)).to_pylist() for c in partition]
    return codes.astype(np.int32), tuple(zip(*values, strict=True))


def _codes(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return a number for each value, null included; floats go by their bits, because -0.0 is not 0.0."""
    if pa.types.is_floating(column.type):
        column = column.view(pa.int32() if column.type == pa.float32() else pa.int64())
    codes: npt.NDArray[np.int64] = to_numpy(column.dictionary_encode(null_encoding="encode").indices).astype(np.int64)
    return codes


def _by_fastavro(data: bytes, container: ContainerFile, schema: StoredManifestSchema) -> _Stored:
    """Decode columns with fastavro. Raises FormatError for bytes that are not records of the manifest's schema."""
    if container.has_plain_fixed:
        # Java writes a fixed partition value with its length in front, whatever the schema says.
        try:
            return _of_records(list(read_container(data, fixed_as_bytes=True, distinct=True)), schema)
        except FormatError:
            pass
    return _of_records(list(container), schema)


def _of_records(records: Sequence[Mapping[str, Any]], schema: StoredManifestSchema) -> _Stored:
    columns: dict[Path, Column] = {(name,): [r[own] for r in records] for own, name in schema.entry_names.items()}
    files: Any = columns.pop(("data_file",))
    if None in files:
        raise _lacks("manifest entry", "data_file")
    for own, name in schema.file_names.items():
        if name not in METRIC_MAPS:
            columns["data_file", name] = [f[own] for f in files]
    for name in ("split_offsets", "equality_ids"):
        if ("data_file", name) in columns:
            columns["data_file", name] = [None if v is None else tuple(v) for v in columns["data_file", name]]
    records_of_partition = columns.pop(("data_file", "partition"), [None] * len(records))
    partition = tuple(tuple((p or {}).get(n) for n in schema.partition_names) for p in records_of_partition)
    for values in partition:
        for name, value in zip(schema.partition_names, values, strict=True):
            if isinstance(value, dict | list):
                raise _bad("bad partition value", name, value, "a primitive value")
    metric_names = {name: own for own, name in schema.file_names.items() if name in METRIC_MAPS}
    return _Stored(columns, _own_codes(partition), partition, partial(_metrics_of_record, files, metric_names))


def _own_codes(partition: tuple[Any, ...]) -> npt.NDArray[np.int32]:
    return np.arange(len(partition), dtype=np.int32)


def _metrics_of_record(files: Sequence[Mapping[str, Any]], names: Mapping[str, str], row: int) -> MetricMaps:
    """Return the metric maps of one record; Avro holds each as a list of {key, value}, where no item means no map."""
    stored = {name: files[row][names[name]] if name in names else None for name in METRIC_MAPS}
    return {name: {i["key"]: i["value"] for i in items} if items else None for name, items in stored.items()}


def _metrics_of_file(files: Sequence[ContentFile], row: int) -> MetricMaps:
    return {name: getattr(files[row], name) for name in METRIC_MAPS}


# --- from stored columns to checked ones ------------------------------------------------------------------------------


def _checked(stored: _Stored, spec_id: int, partition_field_ids: tuple[int, ...]) -> ManifestColumns:
    """Return the columns of a manifest. Raises FormatError for a value that the spec does not allow."""
    columns = stored.columns
    rows = len(columns["status",])
    file = {path[1]: column for path, column in columns.items() if path[0] == "data_file" and len(path) == 2}
    required = {"status": columns["status",], **{name: file[name] for name in REQUIRED_DATA_FILE}}
    for name, column in required.items():
        if not is_known(column, rows).all():
            raise _lacks("manifest entry", name)
    numbers = {name: int64s(file[name], rows, 0) for name in (*_NEVER_NEGATIVE, "record_count") if name in file}
    for name in _NEVER_NEGATIVE:
        if rows and name in numbers and numbers[name].min() < 0:
            raise _bad("bad count", name, int(numbers[name].min()), ">= 0")
    format_code, formats = _formats(file["file_format"])
    optional = {name: file[name] for name in OPTIONAL_DATA_FILE if name in file and is_known(file[name], rows).any()}
    paths = as_text(file["file_path"])
    found = ManifestColumns(
        spec_id=spec_id,
        partition_field_ids=partition_field_ids,
        status=_enum(EntryStatus, "status", int64s(columns["status",], rows, 0)),
        content=_enum(FileContent, "content", int64s(file.get("content"), rows, 0)),
        snapshot_id=int64s(columns.get(("snapshot_id",)), rows, 0),
        sequence_number=int64s(columns.get(("sequence_number",)), rows, 0),
        file_path=shared_text(paths) if "content_offset" in optional else paths,
        format_code=format_code,
        file_format=formats,
        partition_code=stored.partition_code,
        partition=stored.partition,
        record_count=numbers["record_count"],
        file_size_in_bytes=numbers["file_size_in_bytes"],
        optional=optional | {name: columns.get((name,), [None] * rows) for name in _INHERITED},
        metrics=stored.metrics,
    )
    _check_deletes(found)
    return found


def _check_deletes(found: ManifestColumns) -> None:
    """Raise FormatError for a delete file without a field that its kind must have."""
    if (found.content == FileContent.DATA).all():
        return
    vectors = found.is_vector
    for name in _VECTOR_FIELDS if vectors.any() else ():
        if not is_known(found.optional.get(name), len(found))[vectors].all():
            raise _lacks("deletion vector", name)
    equality = np.flatnonzero(found.content == FileContent.EQUALITY_DELETES)
    if not all(found.values(equality, "equality_ids")):
        raise _lacks("equality delete file", "equality_ids")


def _formats(column: Column) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Return a code for each row's file format, and the canonical names by code."""
    if isinstance(column, list):
        known = {name: code for code, name in enumerate(dict.fromkeys(column))}
        return np.array([known[name] for name in column], np.int32), tuple(map(file_format_of, known))
    encoded = column.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    codes = np.zeros(1, np.int32) if len(names) == 1 else to_numpy(encoded.indices).astype(np.int32)
    return np.broadcast_to(codes, len(column)), tuple(map(file_format_of, names))


def _enum(kind: type[EntryStatus | FileContent], name: str, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    unknown = values[(values < 0) | (values >= len(kind))]
    if len(unknown):
        raise _bad("unknown value in manifest entry", name, int(unknown[0]), "0, 1 or 2")
    # As `int64s`, one number for all rows takes no memory.
    return (
        np.broadcast_to(values[:1].astype(np.int8), len(values)) if values.strides == (0,) else values.astype(np.int8)
    )


def _check_version(container: ContainerFile) -> None:
    version = _int_text(container.metadata.get("format-version", "1"), "format-version")
    if version not in (1, 2, 3):
        message = "unsupported manifest format version"
        raise _bad(message, "format-version", version, "1, 2 or 3", kind="format-version")


def _int_text(text: str, field: str) -> int:
    try:
        return int(text)
    except ValueError as e:
        raise _bad("bad manifest metadata", field, text, "an integer", kind="manifest") from e


def _lacks(what: str, name: str) -> FormatError:
    return _bad(f"{what} lacks a field", name, "null", "a value")


def _bad(message: str, field: str, found: Any, expected: str, *, kind: str = "manifest-entry") -> FormatError:
    return FormatError(message, kind=kind, field=field, found=found, expected=expected)
