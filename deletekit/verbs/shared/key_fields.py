"""Which columns can be a key: the rules of identifier fields and of equality deletes.

Spec: "Identifier Field IDs", "Equality Delete Files".
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual, Reference
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField, StringType

from deletekit.errors import InvalidInputError
from deletekit.table.column_names import as_names, unknown_column
from deletekit.table.types import struct_paths

# Columns whose bounds in manifests are in the order of these values, so that files without such keys are not read.
_ORDERED = (IntegerType, LongType, StringType)
_FEW_KEYS = 200  # pyiceberg compares no more with the bounds of a file


def equality_fields_of(schema: Schema, names: str | Iterable[str] | Iterable[int]) -> tuple[NestedField, ...]:
    """Return the fields that make an equality key, ascending by id.

    Parameters
    ----------
    names: column names (`parent.child` for nested ones), one or several, or field ids.

    Raises InvalidInputError, naming the column, for one that is missing, float, double, not primitive, or in a list or
    map. Spec: the rules of identifier fields, without "required".
    """
    fields: dict[int, NestedField] = {}
    for name in as_names(names):
        try:
            field = schema.find_field(name)
        except ValueError as e:
            raise unknown_column(str(name), schema.column_names) from e
        _check_key_field(schema, field)
        fields[field.field_id] = field
    if not fields:
        raise InvalidInputError("an equality delete needs at least one column", "equality-key", "on")
    return tuple(fields[i] for i in sorted(fields))


def range_of_keys(
    columns: Sequence[Any], schema: Schema, fields: Sequence[NestedField], *, sql: bool = False, all_keys: bool = False
) -> BooleanExpression | None:
    """Return a filter that every row with one of the keys passes, so that fewer files are read.

    Parameters
    ----------
    sql: a key with a NULL equals nothing.
    all_keys: the columns have every key, not only the least and the greatest. A few that lie far apart are listed then.
    """
    for column, field in zip(columns, fields, strict=True):
        name = schema.find_column_name(field.field_id)
        if name is None or schema.find_field(name).field_id != field.field_id or (column.null_count and not sql):
            continue
        if len(column) == column.null_count:
            continue
        if isinstance(field.field_type, _ORDERED):
            bounds = pc.min_max(column).as_py()
            between = And(
                GreaterThanOrEqual(term=Reference(name), value=bounds["min"]),
                LessThanOrEqual(term=Reference(name), value=bounds["max"]),
            )
            if not all_keys or len(column) > _FEW_KEYS:
                return between
            return And(between, In(term=Reference(name), values=set(column.drop_null().to_pylist())))
    return None


def _check_key_field(schema: Schema, field: NestedField) -> None:
    if not field.field_type.is_primitive:
        expected = "a primitive type"
    elif isinstance(field.field_type, FloatType | DoubleType):
        expected = "a type with exact equality: float and double are not allowed"
    elif field.field_id not in struct_paths(schema):
        expected = "a field outside lists and maps"
    else:
        return
    raise InvalidInputError(
        "column cannot be an equality key", "equality-key", field.name, str(field.field_type), expected
    )
