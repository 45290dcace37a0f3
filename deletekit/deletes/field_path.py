"""Find a field by id, for every field that the table ever had: its top-level column and the path down to it.

A field that was dropped from the current schema is found in the newest schema that has it, because equality deletes on
it still apply (spec "Equality Delete Files").
"""

from __future__ import annotations

from typing import Any

from pyiceberg.types import NestedField

from deletekit.errors import FormatError
from deletekit.table.metadata import TableMetadata
from deletekit.table.types import struct_paths


class FieldPaths:
    """Lookups by field id over all schemas of a table."""

    def __init__(self, metadata: TableMetadata) -> None:
        older = [metadata.schemas[i] for i in sorted(metadata.schemas)]
        self._paths = {i: path for schema in (*older, metadata.schema) for i, path in struct_paths(schema).items()}
        self._fields: dict[int, Any] = metadata.all_fields

    def path(self, field_id: int) -> tuple[NestedField, tuple[int, ...]]:
        """Return the top-level column and child indices down to the field. Raises FormatError for an unknown id."""
        if field_id not in self._paths:
            raise FormatError(
                "field id is in no schema of the table, or lies inside a list or map",
                kind="field-id",
                field="equality_ids",
                found=field_id,
            )
        return self._paths[field_id]

    def top_level(self, field_id: int) -> NestedField:
        """Return the top-level column that holds a field."""
        return self.path(field_id)[0]

    def field(self, field_id: int) -> NestedField:
        """Return the field itself."""
        self.path(field_id)
        found: NestedField = self._fields[field_id]
        return found
