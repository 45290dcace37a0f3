"""Read manifests: content files of one partition spec, checked, in columns, with what they inherit.

`read_manifest` decodes and checks a manifest as it is stored; `inherit` adds what its row in the manifest list says.
polars decodes large manifests and fastavro all others; both feed the same checks.
Spec: "Manifests", "Sequence Number Inheritance", "First Row ID Inheritance", https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deletekit.errors import FormatError
from deletekit.formats.avro import ContainerFile, read_container
from deletekit.formats.avro_columns import Columns, leaves, read_columns
from deletekit.formats.content_file import EntryStatus, FileContent, ManifestEntry, file_format_of
from deletekit.formats.lazy_file import DecodedMetrics, FileMetrics, Metrics, MetricsCache, RecordMetrics
from deletekit.formats.manifest_columns import OPTIONAL, ManifestColumns, Rows
from deletekit.formats.manifest_list import ManifestFile
from deletekit.formats.manifest_shape import BOUND_MAPS, COUNT_MAPS, REQUIRED_DATA_FILE, EntryShape, entry_shape

__all__ = ["Manifest", "columns_of", "inherit", "read_manifest"]

_METRICS = (*COUNT_MAPS, *BOUND_MAPS)
_METRIC_PATHS = frozenset(("data_file", name) for name in _METRICS)
_NEVER_NEGATIVE = ("record_count", "file_size_in_bytes", "content_offset", "content_size_in_bytes", "first_row_id")
_VECTOR_FIELDS = ("referenced_data_file", "content_offset", "content_size_in_bytes")
_NUMBERS = pa.int64()
_INHERITED = ("snapshot_id", "sequence_number", "file_sequence_number")
_ENTRY_TYPES = dict.fromkeys(("status", *_INHERITED), _NUMBERS)
_FILE_TYPES = {
    **dict.fromkeys(("content", "record_count", "file_size_in_bytes", "sort_order_id", "first_row_id"), _NUMBERS),
    **dict.fromkeys(("content_offset", "content_size_in_bytes"), _NUMBERS),
    **dict.fromkeys(("file_path", "file_format", "referenced_data_file"), pa.large_string()),
    **dict.fromkeys(("split_offsets", "equality_ids"), pa.large_list(_NUMBERS)),
    "key_metadata": pa.large_binary(),
}
_NO_ROWS: Columns = {
    ("status",): pa.array([], _NUMBERS),
    **{("data_file", name): pa.array([], _FILE_TYPES[name]) for name in REQUIRED_DATA_FILE},
}
# Sums of record counts below this are exact in 64 bits.
_MOST_ROWS = 2.0**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest as stored: its Avro metadata, and its entries before inheritance.

    In `columns`, `optional` holds `snapshot_id`, `sequence_number` and `file_sequence_number` as stored, null included;
    the columns of the same names are 0 where they are null.
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
    shape = entry_shape(container.schema_text)
    found = _by_polars(container, shape, cache or MetricsCache()) if by_polars else None
    columns, metrics, rows = found or _by_fastavro(data, container, shape)
    stored = _Stored(columns, shape.partition_names, shape.partition_field_ids, spec_id, rows)
    return Manifest(metadata=container.metadata, columns=stored.checked(metrics))


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

    With `strict` False, an entry that may not inherit its sequence number takes the manifest's too.
    Raises FormatError for such an entry, and for row ids that leave 64 bits.
    """
    stored = manifest.columns
    inherits = (stored.status == EntryStatus.ADDED) | (listed.sequence_number == 0)
    number, known = _filled(stored, "sequence_number", listed.sequence_number)
    if strict and not (known | inherits).all():
        row = int(np.flatnonzero(~(known | inherits))[0])
        entry = stored.entry(row)
        raise FormatError(
            "only added entries inherit their sequence number",
            kind="manifest-entry",
            file=listed.manifest_path,
            field="sequence_number",
            found=f"null for {entry.data_file.file_path} with status {entry.status.name}",
            expected="a number",
        )
    file_number, file_known = _filled(stored, "file_sequence_number", listed.sequence_number)
    optional = {n: a for n, a in stored.optional.items() if n not in (*_INHERITED, "first_row_id")}
    optional["file_sequence_number"] = pa.array(file_number, mask=~(file_known | inherits))
    if listed.first_row_id is not None:
        optional["first_row_id"] = _row_ids(stored, listed.first_row_id)
    return replace(
        stored,
        snapshot_id=_filled(stored, "snapshot_id", listed.added_snapshot_id)[0],
        sequence_number=number,
        optional={name: array for name, array in optional.items() if array.null_count < len(array)},
    )


def columns_of(entries: Sequence[ManifestEntry], spec_id: int, partition_field_ids: tuple[int, ...]) -> ManifestColumns:
    """Columns of entries at hand, as they are. Raises FormatError for a value that the spec does not allow."""
    names = [str(i) for i in partition_field_ids]
    files = [
        {name: getattr(e.data_file, name, None) for name in _FILE_TYPES}
        | {"partition": dict(zip(names, e.data_file.partition, strict=True))}
        for e in entries
    ]
    rows = [{name: getattr(e, name) for name in _ENTRY_TYPES} for e in entries]
    stored = _Stored(_columns(rows, files, names), names, partition_field_ids, spec_id, len(entries))
    return stored.checked(FileMetrics([e.data_file for e in entries]))


def _filled(stored: ManifestColumns, name: str, missing: int) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """A stored column with `missing` for null, and where it was not null."""
    array = stored.optional.get(name)
    if array is None or array.null_count == len(array):
        return np.full(len(stored), missing, np.int64), np.zeros(len(stored), np.bool_)
    return _int64(array, missing), _valid(array)


def _row_ids(stored: ManifestColumns, first: int) -> pa.Array:
    known_ids, known = _filled(stored, "first_row_id", 0)
    takes = ~known & stored.is_live & (stored.content == FileContent.DATA)
    counts = np.where(takes, stored.record_count, 0)
    if float(counts.astype(np.float64).sum()) + first >= _MOST_ROWS:
        raise FormatError(
            "row ids leave 64 bits",
            kind="manifest-entry",
            field="record_count",
            found=int(counts.max()),
            expected="counts of rows that a table can hold",
        )
    return pa.array(np.where(known, known_ids, first + np.cumsum(counts) - counts), mask=~(known | takes))


# --- from bytes to stored columns -------------------------------------------------------------------------------------


def _by_polars(
    container: ContainerFile, shape: EntryShape, cache: MetricsCache
) -> tuple[Columns, DecodedMetrics, int] | None:
    """The columns by polars, and their metrics for later; None where polars is not to be believed."""
    found = leaves(container)
    if found is None or container.has_plain_fixed:
        return None
    names = {leaf.path: shape.canonical(leaf.path) for leaf in found}
    metrics = {path for path, name in names.items() if name in _METRIC_PATHS}
    wanted = names.keys() - metrics
    if len(set(names.values())) < len(names):
        return None
    stored = read_columns(container, found, wanted)
    if stored is None or any(stored.get(path) is None for path in wanted):
        return None

    def decode() -> Columns:
        again = read_columns(container, found, metrics, check=False)
        assert again is not None, "decoded before, from the same bytes"
        return {names[path]: array for path, array in again.items()}

    columns = {names[path]: array for path, array in stored.items()}
    return columns, DecodedMetrics(decode, cache), len(columns["status",])


def _by_fastavro(data: bytes, container: ContainerFile, shape: EntryShape) -> tuple[Columns, RecordMetrics, int]:
    """The columns by fastavro. Raises FormatError for bytes that are no records of the manifest's schema."""
    if container.has_plain_fixed:
        # Java writes a fixed partition value with its length in front, whatever the schema says.
        try:
            return _of_records(read_container(data, fixed_as_bytes=True, distinct=True), shape)
        except FormatError:
            pass
    return _of_records(container, shape)


def _of_records(records: Iterable[Mapping[str, Any]], shape: EntryShape) -> tuple[Columns, RecordMetrics, int]:
    entries = [shape.entry(record) for record in records]
    files = [shape.file(entry["data_file"]) if entry.get("data_file") is not None else {} for entry in entries]
    metrics = RecordMetrics([{name: file.get(name) for name in _METRICS} for file in files])
    return _columns(entries, files, shape.partition_names), metrics, len(entries)


def _columns(
    entries: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]], partition_names: Iterable[str]
) -> Columns:
    """Columns of entries and their files, by the spec's names; none where all values are null."""
    columns: dict[tuple[str, ...], Any] = {(n,): _array(entries, n, kind) for n, kind in _ENTRY_TYPES.items()}
    columns |= {("data_file", n): _array(files, n, kind) for n, kind in _FILE_TYPES.items()}
    partitions = [file.get("partition") or {} for file in files]
    columns |= {("data_file", "partition", n): _array(partitions, n) for n in partition_names}
    return {path: array for path, array in columns.items() if array is not None}


def _array(rows: Sequence[Mapping[str, Any]], name: str, kind: pa.DataType | None = None) -> pa.Array | None:
    values = [row.get(name) for row in rows]
    if all(v is None for v in values):
        return None
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeError) as e:
        raise FormatError(
            "bad value in manifest entry", kind="manifest-entry", field=name, found=str(e), expected=str(kind)
        ) from e


# --- from stored columns to checked ones ------------------------------------------------------------------------------


class _Stored:
    """The columns of a manifest by the spec's names, before any check."""

    def __init__(
        self,
        columns: Columns,
        partition_names: Sequence[str],
        partition_field_ids: tuple[int, ...],
        spec_id: int,
        rows: int,
    ) -> None:
        self._columns = columns if rows else _NO_ROWS
        self._partition_names = partition_names
        self._partition_field_ids = partition_field_ids
        self._spec_id = spec_id
        self._rows = rows

    def checked(self, metrics: Metrics) -> ManifestColumns:
        """The manifest's columns. Raises FormatError for a value that the spec does not allow."""
        self._require("status", "manifest entry", ("status",))
        for name in REQUIRED_DATA_FILE:
            self._require(name, "content file", ("data_file", name))
        for name in _NEVER_NEGATIVE:
            self._check_not_negative(name)
        formats = self._file("file_format").dictionary_encode()
        code, partition = self._partitions()
        optional = {n: self._columns.get(("data_file", n)) for n in OPTIONAL}
        # Kept where all are null: these have columns too, which cannot say null.
        optional |= {n: self._columns.get((n,), pa.nulls(self._rows, _NUMBERS)) for n in _INHERITED}
        found = ManifestColumns(
            spec_id=self._spec_id,
            partition_field_ids=self._partition_field_ids,
            status=_code(EntryStatus, "status", self._numbers("status")),
            content=_code(FileContent, "content", self._numbers("data_file", "content")),
            snapshot_id=self._numbers("snapshot_id"),
            sequence_number=self._numbers("sequence_number"),
            file_path=self._file("file_path"),
            format_code=formats.indices.to_numpy().astype(np.int32),
            file_format=tuple(file_format_of(name) for name in formats.dictionary.to_pylist()),
            partition_code=code,
            partition=partition,
            record_count=self._numbers("data_file", "record_count"),
            file_size_in_bytes=self._numbers("data_file", "file_size_in_bytes"),
            optional={name: array for name, array in optional.items() if array is not None},
            metrics=metrics,
        )
        _check_deletes(found)
        return found

    def _require(self, name: str, what: str, path: tuple[str, ...]) -> None:
        if path not in self._columns or self._columns[path].null_count:
            raise _lacks(f"{what} lacks a field", name)

    def _check_not_negative(self, name: str) -> None:
        least = int(self._numbers("data_file", name).min(initial=0))
        if least < 0:
            raise FormatError("bad count", kind="manifest-entry", field=name, found=least, expected=">= 0")

    def _file(self, name: str) -> pa.Array:
        return self._columns["data_file", name]

    def _numbers(self, *path: str) -> Rows:
        """A column of numbers, 0 for null."""
        array = self._columns.get(path)
        return np.zeros(self._rows, np.int64) if array is None else _int64(array, 0)

    def _partitions(self) -> tuple[npt.NDArray[np.int32], tuple[tuple[Any, ...], ...]]:
        """A code for each row's partition tuple, and the tuples by code."""
        names = self._partition_names
        if not names:
            return np.zeros(self._rows, np.int32), ((),)
        columns = [self._columns.get(("data_file", "partition", name)) for name in names]
        codes = np.zeros(self._rows, np.int64)
        for name, column in zip(names, columns, strict=True):
            if column is None:
                continue
            if pa.types.is_nested(column.type):
                raise FormatError(
                    "bad partition value",
                    kind="manifest-entry",
                    field=name,
                    found=column.drop_null()[0].as_py(),
                    expected="a primitive value",
                )
            more = _codes(column)
            _, codes = np.unique(codes * (int(more.max(initial=0)) + 1) + more, return_inverse=True)
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
        values = [[None] * len(first) if c is None else c.take(pa.array(first)).to_pylist() for c in columns]
        return codes.astype(np.int32), tuple(zip(*values, strict=True))


def _check_version(container: ContainerFile) -> None:
    version = _int_text(container.metadata.get("format-version", "1"), "format-version")
    if version not in (1, 2, 3):
        raise FormatError(
            "unsupported manifest format version",
            kind="format-version",
            field="format-version",
            found=version,
            expected="1, 2 or 3",
        )


def _check_deletes(found: ManifestColumns) -> None:
    vectors = found.is_vector
    if vectors.any():
        for name in _VECTOR_FIELDS:
            array = found.optional.get(name)
            if array is None or array.filter(pa.array(vectors)).null_count:
                raise _lacks("deletion vector lacks a field", name)
    equality = found.content == FileContent.EQUALITY_DELETES
    if equality.any():
        ids = found.optional.get("equality_ids")
        lengths = None if ids is None else pc.list_value_length(ids.filter(pa.array(equality)))
        if lengths is None or lengths.null_count or pc.min(lengths).as_py() == 0:
            raise _lacks("equality delete file lacks a field", "equality_ids")


def _lacks(message: str, name: str) -> FormatError:
    return FormatError(message, kind="manifest-entry", field=name, found="null", expected="a value")


def _code(kind: type[EntryStatus | FileContent], name: str, values: Rows) -> npt.NDArray[np.int8]:
    """An enum's column. Raises FormatError for a value that it does not have."""
    unknown = values[(values < 0) | (values >= len(kind))]
    if len(unknown):
        raise FormatError(
            "unknown value in manifest entry",
            kind="manifest-entry",
            field=name,
            found=int(unknown[0]),
            expected="0, 1 or 2",
        )
    return values.astype(np.int8)


def _codes(column: pa.Array) -> Rows:
    """A number for each value, null included; floats by their bits, so that -0.0 and 0.0 stay two."""
    if pa.types.is_floating(column.type):
        column = column.view(pa.int32() if column.type == pa.float32() else pa.int64())
    codes: Rows = column.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    return codes


def _int64(array: pa.Array, missing: int) -> Rows:
    filled = array.fill_null(missing) if array.null_count else array
    return np.asarray(filled.to_numpy(), np.int64)


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _int_text(text: str, field: str) -> int:
    try:
        return int(text)
    except ValueError as e:
        raise FormatError(
            "bad manifest metadata", kind="manifest", field=field, found=text, expected="an integer"
        ) from e
