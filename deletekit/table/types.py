"""Convert Iceberg types to Arrow types, schemas to and from JSON, and values to their stored forms; reserved fields.

Arrow fields carry Iceberg field ids at every level, in Parquet's metadata key.
"""

import json
import re
import struct
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.conversions import from_json, to_json
from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import DayTransform, Transform

from deletekit.deferred import Deferred
from deletekit.errors import FormatError, InvalidInputError, UnsupportedError
from deletekit.formats.decimals import decimal_size, unscaled_value
from deletekit.formats.manifest_schema import PartitionFieldType
from deletekit.formats.metrics import FIELD_ID_KEY
from deletekit.formats.reserved_fields import FILE_PATH_ID, LAST_UPDATED_ID, LINEAGE_NAMES, POS_ID, ROW_ID_ID

if TYPE_CHECKING:
    from pyiceberg.io import pyarrow as theirs
else:
    theirs = Deferred("pyiceberg.io.pyarrow")

_PRIMITIVES: dict[type[it.IcebergType], pa.DataType] = {
    it.BooleanType: pa.bool_(),
    it.IntegerType: pa.int32(),
    it.LongType: pa.int64(),
    it.FloatType: pa.float32(),
    it.DoubleType: pa.float64(),
    it.DateType: pa.date32(),
    it.TimeType: pa.time64("us"),
    it.TimestampType: pa.timestamp("us"),
    it.TimestamptzType: pa.timestamp("us", "UTC"),
    it.TimestampNanoType: pa.timestamp("ns"),
    it.TimestamptzNanoType: pa.timestamp("ns", "UTC"),
    it.StringType: pa.string(),
    it.UUIDType: pa.uuid(),
    it.BinaryType: pa.binary(),
    it.UnknownType: pa.null(),
}

MOST = (1 << 31) - 1
"""The largest number in the text of a type or a transform: Java and Arrow hold it in 32 bits."""
_NANOSECOND = re.compile(r"(\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?)(?:Z|\+00:00)?")
_PACKED = {"boolean": "<?", "int": "<i", "date": "<i", "float": "<f", "double": "<d"}

ROW_ID_FIELD = it.NestedField(ROW_ID_ID, LINEAGE_NAMES[0], it.LongType(), required=False)
LAST_UPDATED_FIELD = it.NestedField(LAST_UPDATED_ID, LINEAGE_NAMES[1], it.LongType(), required=False)
LINEAGE_FIELDS = (ROW_ID_FIELD, LAST_UPDATED_FIELD)
"""The columns of row lineage (format version 3)."""

POSITION_DELETE_FIELDS = {
    FILE_PATH_ID: it.NestedField(FILE_PATH_ID, "file_path", it.StringType(), required=True),
    POS_ID: it.NestedField(POS_ID, "pos", it.LongType(), required=True),
}
"""The required columns of a position delete file by id."""


# pyiceberg has no JSON form for defaults of nanosecond timestamps, but new forms can be registered.
@from_json.register(it.TimestampNanoType)
@from_json.register(it.TimestamptzNanoType)
def _nanoseconds_from_json(_: it.PrimitiveType, value: str | int) -> int:
    if isinstance(value, int):
        return value
    match = _NANOSECOND.fullmatch(value)
    made = np.datetime64(match[1] if match else "NaT", "ns")
    if match is None or made.astype("M8[us]") != np.datetime64(match[1], "us"):  # numpy begins again after 2262
        raise ValueError(f"{value!r} is not a timestamp of nanoseconds")
    return int(made.astype(np.int64))


@to_json.register(it.TimestampNanoType)
@to_json.register(it.TimestamptzNanoType)
def _nanoseconds_to_json(kind: it.PrimitiveType, value: int) -> str:
    zone = "+00:00" if isinstance(kind, it.TimestamptzNanoType) else ""
    return str(np.datetime64(value, "ns")) + zone


def arrow_type(iceberg_type: it.IcebergType) -> pa.DataType:
    """Return the Arrow type that deletekit uses for a type. Raises UnsupportedError, naming the type."""
    if isinstance(iceberg_type, it.StructType):
        return pa.struct([arrow_field(f) for f in iceberg_type.fields])
    if isinstance(iceberg_type, it.ListType):
        return pa.list_(arrow_field(iceberg_type.element_field))
    if isinstance(iceberg_type, it.MapType):
        return pa.map_(arrow_field(iceberg_type.key_field), arrow_field(iceberg_type.value_field))
    if isinstance(iceberg_type, it.FixedType) and iceberg_type.root <= MOST:
        return pa.binary(iceberg_type.root)
    if isinstance(iceberg_type, it.DecimalType) and iceberg_type.scale <= iceberg_type.precision:
        return pa.decimal128(iceberg_type.precision, iceberg_type.scale)
    if type(iceberg_type) in _PRIMITIVES:
        return _PRIMITIVES[type(iceberg_type)]
    raise UnsupportedError("column type is not supported", kind="type", found=str(iceberg_type))


def arrow_field(field: it.NestedField) -> pa.Field:
    """Return an Arrow field with the Iceberg id, nullability and name of `field`."""
    return pa.field(
        field.name,
        arrow_type(field.field_type),
        nullable=not field.required,
        metadata={FIELD_ID_KEY: str(field.field_id)},
    )


def storage_of(column: Any) -> Any:
    """Return an Arrow array or chunked array as its storage, if it is of an extension type."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([c.storage for c in column.chunks], type=column.type.storage_type)
    return column.storage


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table schema, with field ids. Raises UnsupportedError, naming the column."""
    fields = []
    for field in schema.fields:
        try:
            fields.append(arrow_field(field))
        except UnsupportedError as e:
            raise UnsupportedError(e.message, kind=e.kind, field=field.name, found=e.found) from e
    return pa.schema(fields)


def schema_from_arrow(schema: pa.Schema) -> Schema:
    """Return an Iceberg schema with new ids, in Java's order (columns first, then nested fields, level by level).

    Raises UnsupportedError for an Arrow type without an Iceberg type.
    """
    try:
        return assign_fresh_schema_ids(theirs._pyarrow_to_schema_without_ids(schema, format_version=3))  # noqa: SLF001  # there is no public one
    except (TypeError, ValueError, theirs.UnsupportedPyArrowTypeException) as e:
        raise UnsupportedError("Arrow type has no Iceberg type", kind="type", found=str(e)) from e


def new_schema(*fields: it.NestedField, **options: Any) -> Schema:
    """Return a schema. Raise InvalidInputError for a column `a.b` beside a struct `a` with a field `b`."""
    try:
        return Schema(*fields, **options)
    except ValueError as e:
        message = "two columns have one full name, in which the names of nested columns are joined by dots"
        raise InvalidInputError(message, "column-name", "schema", str(e), "another name for one of them") from e


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """Return a schema as table metadata and file footers store it."""
    raw: dict[str, Any] = json.loads(schema.model_dump_json(by_alias=True))
    if not raw.get("identifier-field-ids"):
        raw.pop("identifier-field-ids", None)
    return {"type": "struct", **raw}


def schema_from_json(raw: Mapping[str, Any]) -> Schema:
    """Parse a schema. Raises UnsupportedError naming a type pyiceberg does not know, FormatError for anything else."""
    try:
        return Schema.model_validate({**raw, "type": "struct"})
    except (ValueError, ValidationError) as e:
        for name, kind in _primitive_types(raw):
            if not _is_known(kind):
                raise UnsupportedError("column type is not supported", kind="type", field=name, found=kind) from e
        raise FormatError("bad schema", kind="schema", found=str(e)) from e


def _primitive_types(raw: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield each primitive type in a schema's JSON, with the name of its column."""
    if isinstance(raw, str):
        yield name, raw
    elif isinstance(raw, Mapping):
        for field in raw.get("fields") or ():
            yield from _primitive_types(field.get("type"), field.get("name", name))
        for key in ("element", "key", "value"):
            yield from _primitive_types(raw.get(key), name)


def _is_known(kind: str) -> bool:
    try:
        it.NestedField(1, "x", kind, required=False)
    except ValidationError:
        return True  # a decimal of more than 38 digits is not a type of the future
    except (ValueError, TypeError):
        return False
    return True


def struct_paths(schema: Schema) -> dict[int, tuple[it.NestedField, tuple[int, ...]]]:
    """Map field ids outside lists and maps to (top-level column, child indices down to the field)."""
    paths: dict[int, tuple[it.NestedField, tuple[int, ...]]] = {}
    pending: list[tuple[it.NestedField, it.NestedField, tuple[int, ...]]] = [(f, f, ()) for f in schema.fields]
    while pending:
        top, field, path = pending.pop()
        paths[field.field_id] = (top, path)
        if isinstance(field.field_type, it.StructType):
            pending += [(top, child, (*path, i)) for i, child in enumerate(field.field_type.fields)]
    return paths


def spec_from_json(raw: Mapping[str, Any]) -> PartitionSpec:
    """Parse a partition spec. Raises FormatError."""
    try:
        spec = PartitionSpec.model_validate(raw)
        for field in spec.fields:
            check_width(field.transform)
    except (ValueError, ValidationError) as e:  # pyiceberg's own error for a bad transform is not a ValueError
        raise FormatError("bad partition spec", "table-metadata", "partition-specs", str(e)) from e
    return spec


def check_width(transform: Transform[Any, Any]) -> None:
    """Raise ValueError for a number of buckets, or a width to truncate to, that no column can be partitioned by."""
    name = next((n for n in ("num_buckets", "width") if hasattr(transform, n)), None)
    if name is not None and not 1 <= getattr(transform, name) <= MOST:
        raise ValueError(f"{transform}: the number is not 1 to {MOST}")


def partition_types(spec: PartitionSpec, schema: Schema) -> tuple[PartitionFieldType, ...]:
    """Return (field id, name, result type) of each partition field. The source may be a column of an older schema.

    Raises FormatError when the source column is in no schema.
    """
    out: list[PartitionFieldType] = []
    for field in spec.fields:
        try:
            source = schema.find_type(field.source_id)
        except ValueError as e:
            if str(field.transform) == "void":
                out.append((field.field_id, field.name, "string"))
                continue
            message = "partition source column is in no schema"
            raise FormatError(message, kind="partition-spec", field=field.name, found=field.source_id) from e
        # Java's day transform yields `date`, and manifests carry that type; the spec says int, same bytes.
        result = "date" if isinstance(field.transform, DayTransform) else str(field.transform.result_type(source))
        out.append((field.field_id, field.name, result.replace(" ", "")))
    return tuple(out)


def stored_value(value: Any, iceberg_type: str) -> Any:
    """Return a value, or an Arrow scalar, as a partition tuple in Avro has it: days, microseconds, bytes."""
    if value is None:
        return None
    if isinstance(value, Decimal):
        return _decimal_bytes(value, iceberg_type)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, pa.Scalar):
        if value.is_valid and pa.types.is_temporal(value.type):
            return value.cast(pa.int32() if pa.types.is_date32(value.type) else pa.int64()).as_py()
        return stored_value(value.as_py(), iceberg_type)
    if isinstance(value, datetime):
        return stored_value(pa.scalar(value, pa.timestamp("us", "UTC" if value.tzinfo else None)), iceberg_type)
    if isinstance(value, date):
        return stored_value(pa.scalar(value, pa.date32()), iceberg_type)
    if isinstance(value, time):
        return stored_value(pa.scalar(value, pa.time64("us")), iceberg_type)
    return value


def _decimal_bytes(value: Decimal, iceberg_type: str) -> bytes:
    match = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", iceberg_type)
    if match is None:
        raise InvalidInputError("decimal value for another type", kind="partition-value", found=iceberg_type)
    precision, scale = int(match.group(1)), int(match.group(2))
    return unscaled_value(value, scale).to_bytes(decimal_size(precision), "big", signed=True)


def single_value_of_stored(value: Any, iceberg_type: str) -> bytes:
    """Return the single-value binary form of a stored partition value (spec Appendix D)."""
    if iceberg_type.startswith("decimal"):
        number = int.from_bytes(value, "big", signed=True)
        return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    return struct.pack(_PACKED.get(iceberg_type, "<q"), value)
