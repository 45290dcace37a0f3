"""Show what manifests store as text: partition tuples, column bounds, and what a file holds."""

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from pyiceberg.conversions import from_bytes
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    IcebergType,
    PrimitiveType,
    StringType,
    UUIDType,
)
from rich.console import RenderableType

from deletekit.cli.metadata_text import column_names
from deletekit.cli.printer import grid
from deletekit.formats.decimals import decimal_of_bytes
from deletekit.safe_text import count, literal, plain, size
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import value_text
from deletekit.table.types import POSITION_DELETE_FIELDS

_STORED_AS_BYTES = (DecimalType, UUIDType, FixedType, BinaryType)
_COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
_TIME_PARTS = ("year", "month", "day", "hour")
_LONGEST_BOUND = 40


class StoredValues:
    """Decodes values by the types of a table's columns. A value that cannot be decoded is shown as it is stored.

    Attributes
    ----------
    column_names: dotted names, by field id, of every column that any schema has; the current schema's names win.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self.column_names = column_names(metadata.raw)

    def file_facts(self, file: Mapping[str, Any]) -> Iterator[str]:
        """Yield what a data file or delete file holds, and its size, from its fields as JSON."""
        number = file["record_count"]
        if file["content"] == 1 and file["file_format"] == "PUFFIN":
            yield f"deletion vector: {count(number, 'position')}"
            yield f"{size(file.get('content_size_in_bytes'))} at offset {file.get('content_offset')}"
            return
        if file["content"] == 0:
            yield count(number, "row")
        elif file["content"] == 1:
            yield f"position delete: {count(number, 'position')}"
        else:
            ids = file.get("equality_ids") or ()
            keys = ", ".join(f"{self.column_names.get(i, 'unknown column')} ({i})" for i in ids)
            yield f"equality delete: {count(number, 'key')} of {keys}"
        yield f"{file['file_format'].lower()}, {size(file['file_size_in_bytes'])}"

    def partition(self, spec_id: int, values: Sequence[Any]) -> str:
        """Return a partition tuple as text, such as `partition month=2013-01, carrier='UA'`."""
        spec = self._metadata.specs[spec_id]
        pairs = zip(spec.fields, values, strict=False)
        return "partition " + ", ".join(f"{plain(f.name)}={self._partition_value(f, v)}" for f, v in pairs)

    def _partition_value(self, field: Any, value: Any) -> str:
        source = self._metadata.all_fields.get(field.source_id)
        name = str(field.transform)
        if value is None or source is None or name.startswith("bucket"):
            return literal(value)
        if name in _TIME_PARTS:
            return plain(value_text(field.transform, source.field_type, value))
        return _text(source.field_type, _decoded(source.field_type, value), None)

    def key(self, file: Mapping[str, Any], column: str, value: Any) -> str:
        """Return a value of a column of an equality delete file as text; JSON holds bytes as base64."""
        fields = [self._metadata.all_fields.get(i) for i in file.get("equality_ids") or ()]
        kind = next((f.field_type for f in fields if f is not None and f.name == column), None)
        if isinstance(value, str) and isinstance(kind, PrimitiveType) and not isinstance(kind, StringType):
            return literal(_decoded(kind, value)) if isinstance(kind, FixedType | BinaryType) else plain(value)
        return literal(value)

    def metrics(self, file: Mapping[str, Any]) -> RenderableType:
        """Return a table with one line for each column that has metrics."""
        maps = {name: {pair["key"]: pair["value"] for pair in file.get(name) or ()} for name in (*_COUNTS, *_BOUNDS)}
        rows = [
            (
                i,
                self._name(i),
                *(maps[name].get(i, "") for name in _COUNTS),
                *(self._bound(i, maps[name].get(i)) for name in _BOUNDS),
            )
            for i in sorted(set().union(*maps.values()))
        ]
        return grid(["#id", "column", "#values", "#nulls", "#NaNs", "lower bound", "upper bound"], rows, indent=0)

    def _name(self, field_id: int) -> str:
        if field_id in POSITION_DELETE_FIELDS:
            return POSITION_DELETE_FIELDS[field_id].name
        dropped = self._metadata.all_fields.get(field_id)
        known = self._metadata.schema.find_column_name(field_id)
        return known or (f"{dropped.name} (dropped)" if dropped else "")

    def _bound(self, field_id: int, stored: str | None) -> str:
        if stored is None:
            return ""
        data = base64.b64decode(stored)
        field = self._metadata.all_fields.get(field_id) or POSITION_DELETE_FIELDS.get(field_id)
        kind = None if field is None else field.field_type
        if not isinstance(kind, PrimitiveType):
            return literal(data, _LONGEST_BOUND)
        try:
            return _text(kind, from_bytes(kind, data), _LONGEST_BOUND)
        except (ValueError, TypeError, struct.error, OverflowError):
            return literal(data, _LONGEST_BOUND)  # written when the column had another type, or damaged


def _decoded(kind: IcebergType, value: Any) -> Any:
    """Return a value from JSON, which holds bytes as base64."""
    if not isinstance(value, str) or not isinstance(kind, _STORED_AS_BYTES):
        return value
    data = base64.b64decode(value)
    if isinstance(kind, DecimalType):
        return decimal_of_bytes(data, kind.scale)
    return UUID(bytes=data) if isinstance(kind, UUIDType) else data


def _text(kind: IcebergType, value: Any, longest: int | None) -> str:
    if isinstance(kind, UUIDType) and isinstance(value, bytes):
        value = UUID(bytes=value)
    if isinstance(value, int) and not isinstance(value, bool):
        return plain(value_text(IdentityTransform(), kind, value))
    return literal(value, longest)
