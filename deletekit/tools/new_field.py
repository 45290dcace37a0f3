"""Make a new column of its type in words, and of a default value.

A default is stored as JSON: each value must be one of the column's type, and have a form there.
Spec: "Default values", "JSON single-value serialization".
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.exceptions import ValidationError
from pyiceberg.expressions.literals import StringLiteral
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    IcebergType,
    NestedField,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from deletekit.errors import InvalidInputError
from deletekit.filters.literals import read_text
from deletekit.rows.input_rows import align
from deletekit.table.types import arrow_type

_NANOSECONDS = (TimestampNanoType, TimestamptzNanoType)
_AS_TEXT = (DateType, TimeType, TimestampType, TimestamptzType, *_NANOSECONDS, UUIDType)


def column_type(text: str | IcebergType, name: str) -> IcebergType:
    """Return a type, also of its name. Raises InvalidInputError for one that is unknown."""
    if isinstance(text, IcebergType):
        return text
    try:
        return NestedField(1, "x", text.replace(" ", "") if "decimal" not in text else text, required=False).field_type
    except (ValueError, TypeError, ValidationError) as e:
        raise InvalidInputError("unknown column type", kind="type", field=name, found=text) from e


def new_field(
    field_id: int, name: str, wanted: str | IcebergType, required: bool, doc: str | None, default: Any
) -> NestedField:
    """Return a column. Raises InvalidInputError for a type that is not primitive, or a default that does not fit it."""
    kind = column_type(wanted, name)
    if not kind.is_primitive:
        raise InvalidInputError("only primitive columns can be added", kind="type", field=name, found=str(kind))
    try:
        value = None if default is None else _stored(default, NestedField(field_id, name, kind, required=False))
        return NestedField(field_id, name, kind, required, doc, initial_default=value, write_default=value)
    except (ValueError, TypeError, OverflowError) as e:
        message = f"default does not fit the type ({e.__cause__ or e})"
        raise InvalidInputError(message, kind="schema", field=name, found=default, expected=str(kind)) from e


def _stored(default: Any, field: NestedField) -> Any:
    """Return a default as pyiceberg's model of a column takes it: nanoseconds as a number, for Python has no other."""
    kind = field.field_type
    if isinstance(default, str) and isinstance(kind, _AS_TEXT):
        literal = read_text(StringLiteral(default), kind)
        if literal is None:
            raise ValueError("a text that is no such value")
        target = arrow_type(kind)
        default = pa.scalar(literal.value, getattr(target, "storage_type", target))
    if isinstance(default, np.datetime64):
        default = pa.array(np.array([default]))[0]
    value = align([{field.name: default}], Schema(field)).column(0)[0]
    if isinstance(kind, _NANOSECONDS):
        return value.value
    if isinstance(default, float) and not math.isfinite(default):
        raise ValueError("JSON has no such number")
    return value.as_py()
