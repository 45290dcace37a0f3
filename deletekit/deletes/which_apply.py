"""Scope and age of a delete: which data files it covers, and which delete is a data file's own.

| kind                         | applies to data files with | scope                     |
|------------------------------|----------------------------|---------------------------|
| deletion vector              | data number <= its number  | its referenced data file  |
| position delete, one file    | data number <= its number  | that data file            |
| position delete, partition   | data number <= its number  | same spec and partition   |
| equality, partitioned spec   | data number <  its number  | same spec and partition   |
| equality, unpartitioned spec | data number <  its number  | every data file           |

Beside a deletion vector, no position delete file applies to its data file: the vector has taken them in.

Spec: "Scan Planning", https://iceberg.apache.org/spec/#scan-planning
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField, StringType

from deletekit.formats.content_file import ContentFile, DeleteFile, FileContent, ManifestEntry, partition_key
from deletekit.formats.manifest_columns import ManifestColumns
from deletekit.formats.reserved_fields import FILE_PATH_ID, POS_ID
from deletekit.rows.column_bounds import usable_bounds

_FILE_PATH = NestedField(FILE_PATH_ID, "file_path", StringType(), required=True)
Scope = tuple[int, tuple[Any, ...]]
"""A partition spec and a partition of it. Equal scopes compare equal, whatever NaN or -0.0 a partition holds."""


def newest_covered(delete: ManifestEntry) -> int:
    """Return the highest data sequence number of the data files that a delete applies to.

    An equality delete applies to strictly older data files. A delete by position also applies to those of its own
    commit.
    """
    number = delete.sequence_number or 0
    return number - 1 if delete.data_file.content == FileContent.EQUALITY_DELETES else number


def is_old_enough(data: ManifestEntry, delete: ManifestEntry) -> bool:
    """Tell whether a data file is so old that a delete applies to it, if it is in the delete's scope."""
    return (data.sequence_number or 0) <= newest_covered(delete)


def scope_of(file: ContentFile) -> Scope:
    """Return the spec and partition of a data or delete file."""
    return partition_scope(file.spec_id, file.partition)


def partition_scope(spec_id: int, partition: tuple[Any, ...]) -> Scope:
    """Return a spec and partition as a value that compares and hashes by the spec's equality."""
    return spec_id, partition_key(partition)


def partition_scopes(columns: ManifestColumns) -> list[Scope]:
    """Return the scope of each partition that a manifest names, by its partition code."""
    return [partition_scope(columns.spec_id, partition) for partition in columns.partition]


def is_global(spec: PartitionSpec) -> bool:
    """Tell whether an equality delete of this spec applies to the whole table.

    It does if the spec is unpartitioned. A spec of `void` fields only counts as unpartitioned, as in Java.
    """
    return all(isinstance(f.transform, VoidTransform) for f in spec.fields)


def covers(delete: DeleteFile, data: ContentFile, specs: Mapping[int, PartitionSpec]) -> bool:
    """Tell whether a data file is in the scope of a delete; the age of both is not looked at.

    A delete of a spec that the table does not know covers nothing.
    """
    path = referenced_path(delete)
    if path is not None:
        return path == data.file_path
    spec = specs.get(delete.spec_id)
    everywhere = delete.content == FileContent.EQUALITY_DELETES and spec is not None and is_global(spec)
    return everywhere or (spec is not None and scope_of(delete) == scope_of(data))


def is_superseded(delete: DeleteFile, *, has_vector: bool) -> bool:
    """Tell whether a delete no longer applies, because the data file has a deletion vector, which has taken it in."""
    return has_vector and delete.kind == "position-delete"


def referenced_path(delete: ContentFile) -> str | None:
    """Return the path of the one data file that a delete by position is about, or None if it may name several.

    The path is `referenced_data_file`. A position delete file without it is about one file if the bounds of its
    `file_path` column are equal: Java does not cut these bounds, for this purpose. Bounds that are not paths, such as
    empty ones, prove nothing: the file may name any data file of its partition.
    """
    if not isinstance(delete, DeleteFile) or delete.content != FileContent.POSITION_DELETES:
        return None
    if delete.referenced_data_file or delete.is_deletion_vector:
        return delete.referenced_data_file or None
    found = usable_bounds(_FILE_PATH, delete)[1]
    return found[0] if found is not None and found[0] == found[1] else None


def position_bound(delete: ContentFile) -> int | None:
    """Return the upper bound of the positions that a deletion vector has, if its entry says so, as ours do."""
    bound = (delete.upper_bounds or {}).get(POS_ID, b"")
    return int.from_bytes(bound, "little", signed=True) if len(bound) == 8 else None


def own_deletes(path: str, deletes: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return those of some deletes that are about one data file alone. They go when the data file goes."""
    return [entry for entry in deletes if referenced_path(entry.data_file) == path]
