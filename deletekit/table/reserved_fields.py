"""The reserved fields of the Iceberg specification as pyiceberg's fields.

Spec: "Reserved Field IDs", https://iceberg.apache.org/spec/#reserved-field-ids
"""

from __future__ import annotations

from pyiceberg.types import LongType, NestedField, StringType

from deletekit.formats.reserved_fields import FILE_PATH_ID, LAST_UPDATED_ID, LINEAGE_NAMES, POS_ID, ROW_ID_ID

ROW_ID_FIELD = NestedField(ROW_ID_ID, LINEAGE_NAMES[0], LongType(), required=False)
LAST_UPDATED_FIELD = NestedField(LAST_UPDATED_ID, LINEAGE_NAMES[1], LongType(), required=False)
LINEAGE_FIELDS = (ROW_ID_FIELD, LAST_UPDATED_FIELD)
"""The columns of row lineage (format version 3)."""

POSITION_DELETE_FIELDS = {
    FILE_PATH_ID: NestedField(FILE_PATH_ID, "file_path", StringType(), required=True),
    POS_ID: NestedField(POS_ID, "pos", LongType(), required=True),
}
"""The required columns of a position delete file by id."""
