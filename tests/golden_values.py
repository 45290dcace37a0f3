"""Values as the golden indexes write them (the spec's Appendix D) in the forms that deletekit stores and compares."""

import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from deletekit.formats.decimals import decimal_size, unscaled_value
from deletekit.table.types import arrow_schema, schema_from_json
from tests.golden_files import Entry

DATETIMES = {"date": "D", "timestamp": "us", "timestamptz": "us", "timestamp_ns": "ns", "timestamptz_ns": "ns"}


def physical(value: Any, kind: str) -> Any:
    """Give a value of Appendix D's JSON as Arrow's and Avro's numbers, text, bytes or Decimal."""
    if value is None:
        return None
    if kind in DATETIMES:
        return int(np.datetime64(value.removesuffix("+00:00"), DATETIMES[kind]).astype(np.int64))
    if kind == "time":
        return int(np.datetime64(f"1970-01-01T{value}", "us").astype(np.int64))
    if kind == "uuid":
        return UUID(value).bytes
    if kind == "binary" or kind.startswith("fixed"):
        return bytes.fromhex(value)
    if kind.startswith("decimal"):
        return Decimal(value)
    if kind in ("float", "double"):
        return float(value)
    return value


def stored(value: Any, kind: str) -> Any:
    """Give a value of Appendix D's JSON as a manifest's Avro stores it."""
    found = physical(value, kind)
    if isinstance(found, Decimal):
        precision, scale = (int(n) for n in kind.removeprefix("decimal(").removesuffix(")").split(","))
        return unscaled_value(found, scale).to_bytes(decimal_size(precision), "big", signed=True)
    return found


def comparable(value: Any) -> Any:
    """Give a value whose floats are their bits, so that NaN equals NaN and -0.0 is not 0.0."""
    if isinstance(value, float):
        return ("float", "nan" if value != value else struct.pack("<d", value).hex())
    if isinstance(value, dict):
        return {k: comparable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(v) for v in value]
    return value


def rows_table(schema_json: Entry, rows: list[Entry]) -> pa.Table:
    """Build the rows of an index as a table with field ids."""
    schema = arrow_schema(schema_from_json(schema_json))
    columns = []
    for field, column in zip(schema_json["fields"], schema, strict=True):
        values = [row[field["name"]] for row in rows]
        if isinstance(field["type"], str):
            values = [physical(v, field["type"]) for v in values]
        columns.append(array(values, column.type))
    return pa.Table.from_arrays(columns, schema=schema)


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def plain_rows(table: pa.Table, expected: pa.Schema) -> list[Entry]:
    """Give comparable rows of what was read, its columns cast to the types of `expected`."""
    columns = [plain_column(table.column(f.name), f.type) for f in expected]
    return [dict(zip(expected.names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_column(column: pa.ChunkedArray, kind: pa.DataType) -> list[Any]:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if not pa.types.is_struct(kind):  # ORC knows no required field, so a struct of it may not cast
        column = column.cast(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        column = column.cast(pa.int64())
    return comparable(column.to_pylist())
