"""The reserved field ids of the Iceberg specification: metadata columns, and the columns of position delete files.

Spec: "Reserved Field IDs", https://iceberg.apache.org/spec/#reserved-field-ids
"""

POS_COLUMN_ID = 2147483645
"""`_pos`, the position of a row in its file; a deletion vector's blob is of this field."""
FILE_PATH_ID = 2147483546
"""`file_path` of a position delete file."""
POS_ID = 2147483545
"""`pos` of a position delete file."""
ROW_STRUCT_ID = 2147483544
"""`row` of a position delete file: the optional struct of the deleted row."""
ROW_ID_ID = 2147483540
"""`_row_id` (format version 3)."""
LAST_UPDATED_ID = 2147483539
"""`_last_updated_sequence_number` (format version 3)."""

LINEAGE_NAMES = ("_row_id", "_last_updated_sequence_number")
"""The columns of row lineage."""
