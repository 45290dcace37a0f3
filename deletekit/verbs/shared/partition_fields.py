"""Parse partition fields as users write them: `day(ts)`, `bucket(16, id)`."""

import re
from collections.abc import Sequence
from typing import Any

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, Transform, parse_transform
from pyiceberg.types import FixedType

from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.table.column_names import as_names, columns_like

_SUFFIXES = {"truncate": "trunc", "void": "null"}


def partition_spec(
    schema: Schema, partition_by: str | Sequence[str], first_id: int = 1000, spec_id: int = 0
) -> PartitionSpec:
    """Return a spec of the fields of `partition_by` (see `create_table`), named as Spark names them."""
    fields = [partition_field(schema, text, first_id + i) for i, text in enumerate(as_names(partition_by))]
    spec = PartitionSpec(*fields, spec_id=spec_id)
    names = [f.name for f in fields]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError("partition field twice", kind="partition-spec", field=name)
    return spec


def partition_field(schema: Schema, text: str, field_id: int) -> PartitionField:
    """Return one partition field. Raises InvalidInputError for an unknown or unfitting column or transform."""
    column, transform = _parse_partition(text)
    try:
        source = schema.find_field(column)
    except ValueError as e:
        raise InvalidInputError(
            "no such column to partition by",
            kind="partition-spec",
            field=text,
            expected=columns_like(column, schema.column_names),
        ) from e
    if isinstance(source.field_type, FixedType) and isinstance(transform, IdentityTransform):
        # Java stores these against the specification (apache/iceberg#17501): no bytes are right for everyone.
        raise UnsupportedError(
            "partition values of type fixed cannot be written",
            kind="partition-type",
            field=text,
            found=str(source.field_type),
        )
    if not source.field_type.is_primitive or not transform.can_transform(source.field_type):
        raise InvalidInputError(
            "column cannot be partitioned so", kind="partition-spec", field=text, found=str(source.field_type)
        )
    kind = str(transform).split("[")[0]
    name = column if kind == "identity" else f"{column}_{_SUFFIXES.get(kind, kind)}"
    return PartitionField(source_id=source.field_id, field_id=field_id, transform=transform, name=name)


def _parse_partition(text: str) -> tuple[str, Transform[Any, Any]]:
    match = re.fullmatch(r"\s*([a-z]+)\s*\(\s*(?:(\d+)\s*,\s*)?([^,()]+?)\s*(?:,\s*(\d+)\s*)?\)\s*", text)
    if match is None:
        return text.strip(), IdentityTransform()
    name, width = match[1].rstrip("s") or "s", match[2] or match[4]
    try:
        return match[3], parse_transform(name if width is None else f"{name}[{width}]")
    except (ValueError, TypeError, ValidationError) as e:
        raise InvalidInputError("unknown partition transform", kind="partition-spec", field=text, found=str(e)) from e
