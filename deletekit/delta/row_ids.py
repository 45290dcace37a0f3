"""Carry the row ids of a Delta table with row tracking to the row lineage of an Iceberg v3 table.

A row's id is what its file stores, else its file's first id plus its position, in Delta as in Iceberg. So a data file
keeps its `baseRowId` as `first_row_id`, and the column in which OPTIMIZE and UPDATE store ids gets Iceberg's field id.

All ids of a table come from Delta, or new ones come from Iceberg alone: else two rows would have one id. A table begins
with Delta's ids if its first version has row tracking. From the first file on whose ids Iceberg's readers would not
find, or after a commit of someone else, its new files get ids of Iceberg's.
Delta's versions are not sequence numbers, so the versions of rows are not carried. IcebergCompatV3 stores some under
Iceberg's field id. There the sequence number of a snapshot is never below its Delta version.
Spec: Delta protocol, "Row Tracking", "IcebergCompatV3"; Iceberg, "Row Lineage".
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa

from deletekit.delta.actions import AddFile, Metadata
from deletekit.formats.content_file import DataFile, ManifestEntry
from deletekit.formats.metrics import field_id_of
from deletekit.formats.reserved_fields import ROW_ID_ID

ROW_IDS = "deletekit.delta-row-ids"
"""Table property: `true` while all row ids are Delta's."""
ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"


def tracks_row_ids(metadata: Metadata) -> bool:
    """Return whether every row of a Delta table has an id."""
    return metadata.configuration.get("delta.enableRowTracking", "").lower() == "true"


def least_sequence_number(metadata: Metadata, version: int) -> int:
    """Return the least sequence number of a snapshot, so that no row was last changed after it."""
    return version if metadata.configuration.get("delta.enableIcebergCompatV3", "").lower() == "true" else 0


def finds_row_ids(file: pa.Schema, column: str | None) -> bool:
    """Return whether Iceberg's readers find the row ids that a data file stores in a column, if it stores any.

    They find them by the field id, which IcebergCompatV3 writes, or in a file without any ids by the name mapping.
    """
    if column is None or column not in file.names:
        return True
    return field_id_of(file.field(column)) == ROW_ID_ID or all(field_id_of(f) is None for f in file)


def can_carry(wanted: Mapping[str, AddFile], added: Iterable[DataFile], kept: Mapping[str, ManifestEntry]) -> bool:
    """Return whether a change gives every file the row ids that it has in Delta, and no file has others.

    Parameters
    ----------
    wanted: the add actions of the Delta version, by storage path.
    added, kept: the data files that the change adds, and the live entries that it was compared with.
    """
    if any(file.first_row_id is None for file in added):
        return False
    ids = {path: getattr(entry.data_file, "first_row_id", None) for path, entry in kept.items()}
    return all(wanted[path].base_row_id == first for path, first in ids.items())
