"""Parse the fields of partition specs and sort orders as users write them: `day(ts)`, `bucket(16, id) desc`."""

import re
from collections.abc import Sequence
from typing import Any

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField
from pyiceberg.transforms import IdentityTransform, Transform, VoidTransform, parse_transform
from pyiceberg.types import FixedType, NestedField

from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.table.column_names import as_names, columns_like
from deletekit.table.types import check_width

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
            raise InvalidInputError("partition field twice", "partition-spec", name)
    return spec


def partition_field(schema: Schema, text: str, field_id: int) -> PartitionField:
    """Return one partition field. Raises InvalidInputError for an unknown or unfitting column or transform."""
    column, source, transform = _term(schema, text, "partition-spec")
    if isinstance(source.field_type, FixedType) and isinstance(transform, IdentityTransform):
        # Java stores these against the specification (apache/iceberg#17501): no bytes are right for everyone.
        message = "partition values of type fixed cannot be written"
        raise UnsupportedError(message, "partition-type", text, str(source.field_type))
    kind = str(transform).split("[")[0]
    name = column if kind == "identity" else f"{column}_{_SUFFIXES.get(kind, kind)}"
    return PartitionField(source_id=source.field_id, field_id=field_id, transform=transform, name=name)


def sort_fields(schema: Schema, sort_by: str | Sequence[str]) -> tuple[SortField, ...]:
    """Return the fields of a sort order: each as a partition field, then `asc` or `desc`, `nulls first` or `last`.

    Raises InvalidInputError for an unknown or unfitting column or transform, or a column twice.
    """
    out: list[SortField] = []
    for text in as_names(sort_by):
        match = re.fullmatch(r"(.+?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", text, re.IGNORECASE | re.DOTALL)
        term, direction, nulls = match.groups() if match else (text, None, None)
        _, source, transform = _term(schema, term, "sort-order")
        is_there = any((f.source_id, f.transform) == (source.field_id, transform) for f in out)
        if is_there or isinstance(transform, VoidTransform):
            raise InvalidInputError("this sorts nothing more", "sort-order", text)
        down = (direction or "asc").lower() == "desc"
        place = NullOrder(f"nulls-{nulls.lower()}") if nulls else None
        out.append(SortField(source.field_id, transform, SortDirection("desc" if down else "asc"), place))
    return tuple(out)


def _term(schema: Schema, text: str, kind: str) -> tuple[str, NestedField, Transform[Any, Any]]:
    column, transform = _parse_term(text, kind)
    use = kind.partition("-")[0]
    try:
        source = schema.find_field(column)
    except ValueError as e:
        expected = columns_like(column, schema.column_names)
        raise InvalidInputError(f"no such column to {use} by", kind, text, expected=expected) from e
    if not source.field_type.is_primitive or not transform.can_transform(source.field_type):
        message = "column cannot be partitioned so" if use == "partition" else "rows cannot be sorted so"
        raise InvalidInputError(message, kind, text, str(source.field_type))
    return column, source, transform


def _parse_term(text: str, kind: str) -> tuple[str, Transform[Any, Any]]:
    match = re.fullmatch(r"\s*([a-z]+)\s*\(\s*(?:(\d+)\s*,\s*)?([^,()]+?)\s*(?:,\s*(\d+)\s*)?\)\s*", text)
    if match is None:
        return text.strip(), IdentityTransform()
    name, width = match[1].rstrip("s") or "s", match[2] or match[4]
    try:
        transform = parse_transform(name if width is None else f"{name}[{width}]")
        check_width(transform)
    except (ValueError, TypeError, ValidationError) as e:
        raise InvalidInputError("unknown partition transform", kind, text, str(e)) from e
    return match[3], transform
