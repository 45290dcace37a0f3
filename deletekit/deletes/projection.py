"""Project a file's columns to a schema's columns, by field id.

A field is found by its id, never by its name. A column that a file lacks comes from its partition or its initial
default, or is null. A column that it has is promoted to the schema's type, and to no other.
Spec: "Column Projection" and "Schema Evolution", https://iceberg.apache.org/spec/#column-projection
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import types as it

from deletekit.errors import FormatError, UnsupportedError
from deletekit.formats.metrics import FIELD_ID_KEY, field_id_of
from deletekit.table.types import arrow_type


class FileColumns:
    """The top-level columns of a file by field id, and the constants from its partition.

    `constants` maps field ids of identity-partitioned columns to Arrow scalars, for files that leave the columns out.
    """

    def __init__(self, schema: pa.Schema, constants: Mapping[int, pa.Scalar] | None = None) -> None:
        self.by_id = {i: f for f in schema if (i := field_id_of(f)) is not None}
        self.constants = dict(constants or {})

    def names(self, fields: Sequence[it.NestedField]) -> list[str]:
        """Return the names of the file columns to read for `fields`, without those that the file lacks."""
        return [self.by_id[f.field_id].name for f in fields if f.field_id in self.by_id]


def project(table: pa.Table, columns: FileColumns, field: it.NestedField) -> pa.ChunkedArray:
    """Return `field` as a column over the rows of `table`, which has the file columns of `columns.names`.

    Raises FormatError if the file's type cannot be promoted to the field's, or if a required field is nowhere.
    """
    stored = columns.by_id.get(field.field_id)
    if stored is None:
        return pa.chunked_array([_missing(field, len(table), columns.constants)])
    try:
        column = table.column(stored.name)
        if _as_is(stored, field):
            return column
        chunks = [_convert(chunk, stored, field, columns.constants) for chunk in column.chunks]
        return pa.chunked_array(chunks, type=arrow_type(field.field_type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise _mismatch(field, stored.type, str(e)) from e


def with_field_ids(schema: pa.Schema, name_mapping: str | None) -> pa.Schema:
    """Return the file schema with field ids: its own, or those of `schema.name-mapping.default` if it has none.

    Raises FormatError if there are neither: guessing by position would be silently wrong.
    """
    if not len(schema.names) or any(_has_id(f) for f in schema):
        return schema
    if name_mapping is None:
        raise FormatError(
            "file has no field ids and the table no name mapping",
            kind="field-ids",
            field="schema.name-mapping.default",
            found=", ".join(schema.names),
        )
    try:
        mapping = json.loads(name_mapping)
        return pa.schema([_mapped(f, mapping) for f in schema])
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        raise FormatError(
            "bad name mapping", kind="field-ids", field="schema.name-mapping.default", found=str(e)
        ) from e


def _has_id(field: pa.Field) -> bool:
    return field_id_of(field) is not None or any(_has_id(c) for c in _children(field.type))


def _children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [kind.value_field]
    return []


def _mapped(field: pa.Field, mapping: Sequence[Mapping[str, Any]], name: str | None = None) -> pa.Field:
    entry = next((m for m in mapping if (name or field.name) in m["names"]), None)
    kind, nested = field.type, (entry or {}).get("fields", [])
    if pa.types.is_struct(kind):
        kind = pa.struct([_mapped(c, nested) for c in _children(kind)])
    elif pa.types.is_map(kind):
        kind = pa.map_(_mapped(kind.key_field, nested, "key"), _mapped(kind.item_field, nested, "value"))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(_mapped(kind.value_field, nested, "element"))
    metadata = {FIELD_ID_KEY: str(entry["field-id"])} if entry and "field-id" in entry else None
    return pa.field(field.name, kind, field.nullable, metadata)


def _as_is(stored: pa.Field, field: it.NestedField) -> bool:
    return (
        not field.field_type.is_struct and field.field_type.is_primitive and stored.type == arrow_type(field.field_type)
    )


def _missing(field: it.NestedField, rows: int, constants: Mapping[int, pa.Scalar]) -> pa.Array:
    kind = arrow_type(field.field_type)
    if field.field_id in constants:
        return _repeat(constants[field.field_id], kind, rows)
    if field.initial_default is not None:
        return _repeat(_default_scalar(field), kind, rows)
    if field.required:
        raise FormatError(
            "data file lacks a required column without a default",
            kind="missing-column",
            field=field.name,
            found=field.field_id,
        )
    return pa.nulls(rows, kind)


def _default_scalar(field: it.NestedField) -> pa.Scalar:
    kind = arrow_type(field.field_type)
    value: Any = field.initial_default
    if isinstance(kind, pa.BaseExtensionType):
        value = value.bytes if hasattr(value, "bytes") else value
        return pa.scalar(value, kind.storage_type)
    return pa.scalar(value, kind)


def _repeat(scalar: pa.Scalar, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        storage = pa.repeat(scalar, rows) if scalar.is_valid else pa.nulls(rows, kind.storage_type)
        return pa.ExtensionArray.from_storage(kind, storage)
    return pa.repeat(scalar.cast(kind), rows) if scalar.is_valid else pa.nulls(rows, kind)


def _convert(array: pa.Array, stored: pa.Field, field: it.NestedField, constants: Mapping[int, pa.Scalar]) -> pa.Array:
    """Return one chunk of a file column as `field`, through structs, lists and maps."""
    target = field.field_type
    if isinstance(target, it.StructType):
        return _struct(array, stored, field, constants)
    if isinstance(target, it.ListType):
        return _list(array, stored, field, constants)
    if isinstance(target, it.MapType):
        return _map(array, stored, field, constants)
    return _promote(array, stored, field)


def _struct(array: pa.Array, stored: pa.Field, field: it.NestedField, constants: Mapping[int, pa.Scalar]) -> pa.Array:
    if not pa.types.is_struct(stored.type):
        raise _mismatch(field, stored.type)
    by_id = {field_id_of(c): i for i, c in enumerate(_children(stored.type))}
    flat = array.flatten()  # children with the parent's nulls applied
    children = []
    target = field.field_type
    assert isinstance(target, it.StructType)
    for child in target.fields:
        at = by_id.get(child.field_id)
        if at is None:
            # Under a null parent a required child is null too, so it may be absent.
            children.append(
                _missing(child if array.null_count < len(array) else _optional(child), len(array), constants)
            )
        else:
            children.append(_convert(flat[at], stored.type.field(at), child, constants))
    kind = arrow_type(field.field_type)
    if not children:
        return pa.array([None if n else {} for n in array.is_null().to_pylist()], type=kind)
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def _list(array: pa.Array, stored: pa.Field, field: it.NestedField, constants: Mapping[int, pa.Scalar]) -> pa.Array:
    if not (pa.types.is_list(stored.type) or pa.types.is_large_list(stored.type)):
        raise _mismatch(field, stored.type)
    target = field.field_type
    assert isinstance(target, it.ListType)
    whole = pa.concat_arrays([array])  # a null mask needs offsets that start at zero
    values = _convert(whole.values, stored.type.value_field, target.element_field, constants)
    return pa.ListArray.from_arrays(
        whole.offsets.cast(pa.int32()), values, type=arrow_type(field.field_type), mask=whole.is_null()
    )


def _map(array: pa.Array, stored: pa.Field, field: it.NestedField, constants: Mapping[int, pa.Scalar]) -> pa.Array:
    if not pa.types.is_map(stored.type):
        raise _mismatch(field, stored.type)
    target = field.field_type
    assert isinstance(target, it.MapType)
    whole = pa.concat_arrays([array])
    keys = _convert(whole.keys, stored.type.key_field, target.key_field, constants)
    items = _convert(whole.items, stored.type.item_field, target.value_field, constants)
    return pa.MapArray.from_arrays(whole.offsets, keys, items, type=arrow_type(field.field_type), mask=whole.is_null())


def _optional(field: it.NestedField) -> it.NestedField:
    return field.model_copy(update={"required": False})


def _promote(array: pa.Array, stored: pa.Field, field: it.NestedField) -> pa.Array:
    target = arrow_type(field.field_type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == target:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    for allowed, convert in _PROMOTIONS:
        if allowed(array.type, target):
            return convert(array, target)
    raise _mismatch(field, stored.type)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target)


def _truncate_time(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(target, safe=False)


def _to_uuid(array: pa.Array, target: pa.DataType) -> pa.Array:
    return pa.ExtensionArray.from_storage(target, array.cast(pa.binary(16)))


def _int_to_time(array: pa.Array, target: pa.DataType) -> pa.Array:
    return array.cast(pa.int64()).view(target)


def _is(*names: str) -> Callable[[pa.DataType], bool]:
    tests = [getattr(pa.types, f"is_{n}") for n in names]
    return lambda kind: any(test(kind) for test in tests)


_INTS = _is("int8", "int16", "int32", "uint8", "uint16")
_TEXT = _is("string", "large_string", "string_view")
_BYTES = _is("binary", "large_binary", "fixed_size_binary", "binary_view")


def _decimal_fits(file: pa.DataType, target: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(file) and pa.types.is_decimal(target) and file.scale == target.scale)


# What a stored type may be read as: the spec's promotions, and other names of a type in pyarrow, ORC and old writers.
_PROMOTIONS: tuple[
    tuple[Callable[[pa.DataType, pa.DataType], bool], Callable[[pa.Array, pa.DataType], pa.Array]], ...
] = (
    (lambda f, t: _INTS(f) and _is("int32", "int64")(t), _cast),
    (lambda f, t: pa.types.is_int64(f) and pa.types.is_time64(t), _int_to_time),
    (lambda f, t: pa.types.is_floating(f) and pa.types.is_float64(t), _cast),
    (_decimal_fits, _cast),
    (lambda f, t: pa.types.is_date(f) and (pa.types.is_timestamp(t) or pa.types.is_date32(t)), _cast),
    (lambda f, t: pa.types.is_timestamp(f) and pa.types.is_timestamp(t), _truncate_time),
    (lambda f, t: pa.types.is_time(f) and pa.types.is_time64(t), _cast),
    (lambda f, t: (_TEXT(f) or _BYTES(f)) and pa.types.is_string(t), _cast),
    (lambda f, t: (_TEXT(f) or _BYTES(f)) and _is("binary", "fixed_size_binary")(t), _cast),
    (lambda f, t: _BYTES(f) and isinstance(t, pa.BaseExtensionType), _to_uuid),
    (lambda f, _: pa.types.is_null(f), lambda a, t: pa.nulls(len(a), t)),
)


def _mismatch(field: it.NestedField, found: pa.DataType, why: str | None = None) -> FormatError:
    return FormatError(
        "column type in the file cannot be read as the table's" + (f" ({why})" if why else ""),
        kind="column-type",
        field=field.name,
        found=str(found),
        expected=str(field.field_type),
    )


def check_supported(fields: Sequence[it.NestedField]) -> None:
    """Raise UnsupportedError, naming the column, for a type that deletekit cannot hold in Arrow."""
    for field in fields:
        try:
            arrow_type(field.field_type)
        except UnsupportedError as e:
            raise UnsupportedError(e.message, kind=e.kind, field=field.name, found=e.found) from e
