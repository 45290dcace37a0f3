"""Partition values as the newest types of their source columns store them.

Each value has one form. A decimal is as many bytes as its type's precision takes; a manifest written before the
column was promoted holds fewer, and would never equal what is written now.
"""

from typing import Any

from pyiceberg import types as it
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, Transform

from deletekit.formats.decimals import decimal_of_bytes, decimal_size
from deletekit.table.metadata import TableMetadata
from deletekit.text import day_of, json_ready, moment_of


def plain_value(value: Any, kind: it.IcebergType) -> Any:
    """Return a stored partition value as pyiceberg's literals hold it: a decimal as Decimal, all else as stored."""
    if isinstance(kind, it.DecimalType) and isinstance(value, bytes):
        return decimal_of_bytes(value, kind.scale)
    return value


def value_text(transform: Transform[Any, Any], kind: it.IcebergType, value: Any) -> str:
    """Return a stored value of a partition, or with the identity of a column, for people; much as Java names it.

    Parameters
    ----------
    kind: the type of the source column.
    """
    is_identity = isinstance(transform, IdentityTransform)
    if isinstance(transform, DayTransform) or (is_identity and isinstance(kind, it.DateType)):
        return str(day_of(value))
    if isinstance(transform, HourTransform):
        return f"{day_of(value // 24)}-{value % 24:02}"
    if is_identity and (name := str(kind)).startswith("timestamp"):
        unit = "ns" if name.endswith("_ns") else "us"
        return str(json_ready(moment_of(value, unit, utc=name.startswith("timestamptz"))))
    try:
        return transform.to_human_string(kind, plain_value(value, kind))
    except ValueError:  # a time that is outside of a day
        return str(value)


def schema_of_spec(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """Return a schema with all source columns of a spec: the current one, or the newest that has them."""
    for schema in (metadata.schema, *(metadata.schemas[i] for i in sorted(metadata.schemas, reverse=True))):
        if all(schema.find_column_name(f.source_id) is not None for f in spec.fields):
            return schema
    return metadata.schema


def with_current_decimals(
    partitions: tuple[tuple[Any, ...], ...], metadata: TableMetadata, spec: PartitionSpec
) -> tuple[tuple[Any, ...], ...]:
    """Return the partition tuples of a manifest of `spec`, their decimals in the size that is written today."""
    schema, sizes = schema_of_spec(metadata, spec), {}
    for i, field in enumerate(spec.fields):
        if schema.find_column_name(field.source_id) is not None:
            kind = field.transform.result_type(schema.find_type(field.source_id))
            if isinstance(kind, it.DecimalType):
                sizes[i] = decimal_size(kind.precision)
    if not sizes:
        return partitions
    return tuple(tuple(_sized(v, sizes[i]) if i in sizes else v for i, v in enumerate(p)) for p in partitions)


def _sized(value: Any, size: int) -> Any:
    if not isinstance(value, bytes) or len(value) == size:
        return value
    number = int.from_bytes(value, "big", signed=True)
    # More than the type takes is another writer's padding, or damage that equality will show.
    return value if number.bit_length() >= size * 8 else number.to_bytes(size, "big", signed=True)
