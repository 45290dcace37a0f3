"""Which deletes apply to which data file: the scope and sequence rules of the spec, and nothing else.

| kind                        | sequence    | scope                                            |
|-----------------------------|-------------|--------------------------------------------------|
| deletion vector             | data <= del | its referenced data file; wins over position deletes |
| position delete, one file   | data <= del | that data file                                   |
| position delete, partition  | data <= del | same spec and partition                          |
| equality, partitioned spec  | data <  del | same spec and partition                          |
| equality, unpartitioned     | data <  del | every data file                                  |

Spec: "Scan Planning", https://iceberg.apache.org/spec/#scan-planning
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType, NestedField, PrimitiveType

from deletekit.deletes.vector_index import VectorIndex
from deletekit.errors import FormatError
from deletekit.formats.content_file import ContentFile, DeleteFile, FileContent, ManifestEntry, partition_key
from deletekit.formats.manifest_columns import ManifestColumns, text_array
from deletekit.formats.metrics import widen
from deletekit.formats.reserved_fields import FILE_PATH_ID

__all__ = ["DeleteFileIndex", "is_global", "referenced_path", "widened_bound"]

Numbers = npt.NDArray[np.int64]


class DeleteFileIndex:
    """The live delete files of one snapshot, found by data file.

    Deletion vectors stay in columns, because there may be one for each data file; other deletes are held as entries.

    Parameters
    ----------
    manifests: the delete manifests, everything inherited.
    specs: the table's partition specs by id.
    fields: the table's fields by id, newest definition, for pruning by bounds.
    untrusted: `TableMetadata.untrusted_bounds`, ids whose metrics must not prune, by file format.

    Raises FormatError for two deletion vectors of one data file, or one without the fields the spec requires.
    """

    def __init__(
        self,
        manifests: Iterable[ManifestColumns],
        specs: Mapping[int, PartitionSpec],
        fields: Mapping[int, NestedField],
        untrusted: Mapping[str, frozenset[int]] | None = None,
    ) -> None:
        self._fields = fields
        self._untrusted = untrusted or {}
        self._by_path: dict[str, list[ManifestEntry]] = defaultdict(list)
        self._by_partition: dict[Any, list[ManifestEntry]] = defaultdict(list)
        self._equality: dict[Any, list[ManifestEntry]] = defaultdict(list)
        self._global: list[ManifestEntry] = []
        vectors = []
        for columns in manifests:
            is_vector = columns.is_vector
            for entry in columns.entries(np.flatnonzero(columns.is_live & ~is_vector)):
                self._add(entry, specs)
            vectors.append((columns, np.flatnonzero(columns.is_live & is_vector)))
        self._vectors = VectorIndex(vectors)

    def for_data_file(self, data: ManifestEntry) -> tuple[ManifestEntry, ...]:
        """Every delete that applies to a data file, position kinds first.

        Raises FormatError when a deletion vector or one-file position delete names this file but has another spec or
        partition, or the vector is older than the file: such metadata is corrupt (Java DeleteFileIndex).
        """
        return (*self.position_deletes(data), *self.equality_deletes(data))

    def position_deletes(self, data: ManifestEntry) -> tuple[ManifestEntry, ...]:
        """The deletion vector if there is one, else every position delete file that may name this data file."""
        path = data.data_file.file_path
        vector = self._vectors.of(path)
        if vector is not None:
            _check_scope(vector, data)
            if _seq(vector) < _seq(data):
                raise FormatError(
                    "deletion vector is older than its data file",
                    kind="deletion-vector-sequence",
                    file=vector.data_file.file_path,
                    field="sequence_number",
                    found=vector.sequence_number,
                    expected=f">= {data.sequence_number} of {path}",
                )
            return (vector,)
        by_path = [d for d in self._by_path.get(path, ()) if _seq(d) >= _seq(data)]
        for delete in by_path:
            _check_scope(delete, data)
        scoped = [d for d in self._by_partition.get(_scope(data.data_file), ()) if _seq(d) >= _seq(data)]
        return (*by_path, *scoped)

    def equality_deletes(self, data: ManifestEntry) -> tuple[ManifestEntry, ...]:
        """Equality deletes newer than the data file, global ones first; those that bounds exclude are left out."""
        candidates = [*self._global, *self._equality.get(_scope(data.data_file), ())]
        return tuple(d for d in candidates if _seq(d) > _seq(data) and self._may_match(d, data.data_file))

    def too_old_equality_deletes(self, data: ManifestEntry) -> tuple[ManifestEntry, ...]:
        """Equality deletes in the file's scope that do not apply, because the file is not older than they are."""
        candidates = [*self._global, *self._equality.get(_scope(data.data_file), ())]
        return tuple(d for d in candidates if _seq(d) <= _seq(data) and self._may_match(d, data.data_file))

    def vectors(self, numbers: Numbers) -> list[ManifestEntry]:
        """Deletion vectors by their numbers from `vector_numbers`."""
        return self._vectors.entries(numbers)

    def vector_numbers(self, files: Sequence[tuple[ManifestColumns, Numbers]]) -> list[Numbers]:
        """The number of each data file's deletion vector, -1 for none.

        Parameters
        ----------
        files: manifests, and the rows in each that are asked for.

        Raises FormatError as `for_data_file` does.
        """
        numbers = self._vectors.find(files)
        for (columns, rows), found in zip(files, numbers, strict=True):
            doubtful = self._vectors.doubtful(columns, rows, found)
            for entry in columns.entries(doubtful):
                self.position_deletes(entry)
        return numbers

    def with_other_deletes(self, columns: ManifestColumns, rows: Numbers) -> Numbers:
        """Places in `rows` of the data files that other deletes than their deletion vector may apply to."""
        number = columns.sequence_number[rows]
        may = number < max((_seq(d) for d in self._global), default=-1)
        if self._by_path:
            named = pc.is_in(columns.paths(rows), value_set=text_array(self._by_path))
            may |= named.to_numpy(zero_copy_only=False)
        if self._by_partition or self._equality:
            scopes = [(columns.spec_id, partition_key(p)) for p in columns.partition]
            codes = columns.partition_code[rows]
            may |= number <= _newest(self._by_partition, scopes)[codes]
            may |= number < _newest(self._equality, scopes)[codes]
        return np.flatnonzero(may)

    def _add(self, entry: ManifestEntry, specs: Mapping[int, PartitionSpec]) -> None:
        delete = entry.data_file
        assert isinstance(delete, DeleteFile)
        if delete.content == FileContent.EQUALITY_DELETES:
            if not delete.equality_ids:
                raise FormatError(
                    "equality delete file without equality ids",
                    kind="equality-ids",
                    file=delete.file_path,
                    field="equality_ids",
                    found=delete.equality_ids,
                )
            (self._global if is_global(specs[delete.spec_id]) else self._equality[_scope(delete)]).append(entry)
        else:
            path = referenced_path(delete)
            (self._by_partition[_scope(delete)] if path is None else self._by_path[path]).append(entry)

    def _may_match(self, entry: ManifestEntry, data: ContentFile) -> bool:
        """False only when counts or bounds prove that no key can be equal; one field is enough (AND)."""
        delete = entry.data_file
        assert isinstance(delete, DeleteFile)
        doubtful = self._untrusted.get("", frozenset())
        for file in (data, delete):
            doubtful |= self._untrusted.get(file.file_format, frozenset())
        fields = (self._fields.get(i) for i in delete.equality_ids or () if i not in doubtful)
        return all(field is None or _field_may_match(field, delete, data) for field in fields)


def referenced_path(delete: DeleteFile) -> str | None:
    """The one data file a position delete file is about, or None when it may name several.

    By `referenced_data_file`, else by equal bounds of `file_path`, which Java keeps untruncated for that purpose.
    """
    if delete.referenced_data_file is not None:
        return delete.referenced_data_file
    lower = (delete.lower_bounds or {}).get(FILE_PATH_ID)
    upper = (delete.upper_bounds or {}).get(FILE_PATH_ID)
    if lower is None or lower != upper:
        return None
    return lower.decode("utf-8", errors="surrogateescape")


def is_global(spec: PartitionSpec) -> bool:
    """Whether an equality delete of this spec applies to every file: no fields, or only void ones (Java)."""
    return all(isinstance(f.transform, VoidTransform) for f in spec.fields)


def widened_bound(bound: bytes, field: NestedField) -> bytes:
    """A bound written before the column's type was promoted, in the width its type has now."""
    kind = str(field.field_type)
    if kind in {"long", "timestamp", "timestamptz", "time", "timestamp_ns", "timestamptz_ns"} and len(bound) == 4:
        value = widen(bound, 8, signed_int=True)
        days = struct.unpack("<q", value)[0]
        per_day = {"timestamp": 86_400_000_000, "timestamp_ns": 86_400_000_000_000}.get(kind)
        return value if per_day is None else struct.pack("<q", days * per_day)
    if kind == "double" and len(bound) == 4:
        return widen(bound, 8, signed_int=False)
    return bound


def _scope(file: ContentFile) -> tuple[int, tuple[Any, ...]]:
    return (file.spec_id, partition_key(file.partition))


def _newest(deletes: Mapping[Any, Sequence[ManifestEntry]], scopes: Sequence[Any]) -> Numbers:
    """The highest sequence number of the deletes of each scope, -1 for none."""
    return np.array([max((_seq(d) for d in deletes.get(s, ())), default=-1) for s in scopes], np.int64)


def _seq(entry: ManifestEntry) -> int:
    return entry.sequence_number or 0


def _check_scope(delete: ManifestEntry, data: ManifestEntry) -> None:
    if _scope(delete.data_file) != _scope(data.data_file):
        raise FormatError(
            "delete and its data file differ in partition spec or partition",
            kind="delete-partition",
            file=delete.data_file.file_path,
            field="partition",
            found=f"spec {delete.data_file.spec_id} {delete.data_file.partition}",
            expected=f"spec {data.data_file.spec_id} {data.data_file.partition} of {data.data_file.file_path}",
        )


def _field_may_match(field: NestedField, delete: DeleteFile, data: ContentFile) -> bool:
    if not isinstance(field.field_type, PrimitiveType):
        return True
    i = field.field_id
    data_nulls, delete_nulls = _nulls(field, data), _nulls(field, delete)
    if data_nulls != "none" and delete_nulls != "none":
        return True
    if "all" in (data_nulls, delete_nulls):
        return False
    if isinstance(field.field_type, FloatType | DoubleType) and (delete.nan_value_counts or {}).get(i) != 0:
        return True  # bounds leave NaN out, and a NaN key matches NaN rows
    bounds = [(f.lower_bounds or {}).get(i) for f in (data, delete)] + [
        (f.upper_bounds or {}).get(i) for f in (data, delete)
    ]
    if any(b is None for b in bounds):
        return True
    try:
        data_low, del_low, data_high, del_high = (
            from_bytes(field.field_type, widened_bound(b, field)) for b in bounds if b is not None
        )
        return bool(data_low <= del_high and del_low <= data_high)
    except (struct.error, ValueError, TypeError):
        return True


def _nulls(field: NestedField, file: ContentFile) -> str:
    """`none`, `some` or `all`, as the counts prove; a column the file does not count may hold nulls."""
    values, nulls = (file.value_counts or {}).get(field.field_id), (file.null_value_counts or {}).get(field.field_id)
    if nulls is None or values is None:
        return "some"
    if nulls == 0:
        return "none"
    return "all" if nulls >= values else "some"
