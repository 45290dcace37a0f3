"""Project a file's columns to a schema's columns, by field id.

A field is found by its id, never by its name. A column that a file lacks comes from its partition or its initial
default, or is null. A column that it has is promoted to the schema's type, and to no other.
Spec: "Column Projection" and "Schema Evolution", https://iceberg.apache.org/spec/#column-projection
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.transforms import IdentityTransform

from deletekit.deferred import pc
from deletekit.errors import DeletekitError, FormatError
from deletekit.formats.content_file import ContentFile
from deletekit.formats.metrics import FIELD_ID_KEY, field_id_of
from deletekit.table.metadata import TableMetadata
from deletekit.table.partition import plain_value
from deletekit.table.types import arrow_type, storage_of, struct_paths


class FieldPaths:
    """Where each field is that the table ever had: its top-level column and the path down to it, by id.

    A field that was dropped from the current schema is found in the newest schema that has it, because equality deletes
    on it still apply (spec "Equality Delete Files").
    """

    def __init__(self, metadata: TableMetadata) -> None:
        older = [metadata.schemas[i] for i in sorted(metadata.schemas)]
        self._paths = {i: path for schema in (*older, metadata.schema) for i, path in struct_paths(schema).items()}
        self._fields: dict[int, Any] = metadata.all_fields

    def path(self, field_id: int) -> tuple[it.NestedField, tuple[int, ...]]:
        """Return the top-level column and child indices down to the field. Raises FormatError for an unknown id."""
        if field_id not in self._paths:
            message = "field id is in no schema of the table, or lies inside a list or map"
            raise FormatError(message, "field-id", "equality_ids", field_id)
        return self._paths[field_id]

    def top_level(self, field_id: int) -> it.NestedField:
        """Return the top-level column that holds a field."""
        return self.path(field_id)[0]

    def field(self, field_id: int) -> it.NestedField:
        """Return the field itself."""
        self.path(field_id)
        found: it.NestedField = self._fields[field_id]
        return found


class FileColumns:
    """The top-level columns of a file by field id, and the constants from its partition.

    `constants` maps field ids of identity-partitioned columns to Arrow scalars, for files that leave the columns out.
    `null_parts` are those whose value is NULL. A file that has such a column may hold '' in it, which Delta writes and
    takes for NULL, as Iceberg Java does.
    """

    def __init__(self, schema: pa.Schema, constants: Mapping[int, pa.Scalar] | None = None) -> None:
        self.by_id = {i: f for f in schema if (i := field_id_of(f)) is not None}
        self.constants = dict(constants or {})
        self.null_parts = {i for i, value in self.constants.items() if not value.is_valid}

    def names(self, fields: Sequence[it.NestedField]) -> list[str]:
        """Return the names of the file columns to read for `fields`, each once, without those that the file lacks."""
        return list(dict.fromkeys(self.by_id[f.field_id].name for f in fields if f.field_id in self.by_id))


def project(table: pa.Table, columns: FileColumns, field: it.NestedField) -> pa.ChunkedArray:
    """Return `field` as a column over the rows of `table`, which has the file columns of `columns.names`.

    Raises FormatError if the file's type cannot be promoted to the field's, or if a required field is nowhere.
    """
    walk = Projection(columns.constants)
    stored = columns.by_id.get(field.field_id)
    if stored is None:
        return pa.chunked_array([walk.missing(field, len(table), field.name)])
    column = table.column(stored.name)
    if field.field_id in columns.null_parts and is_a(column.type, *TEXT):
        column = pc.if_else(pc.equal(pc.binary_length(column), 0), pa.scalar(None, column.type), column)
    if field.field_type.is_primitive and stored.type == arrow_type(field.field_type):
        return column
    chunks = [walk.convert(chunk, stored.type, field, field.name) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=arrow_type(field.field_type))


class Projection:
    """One walk through structs, lists and maps of a column, to the types of a schema: fields by id, values promoted.

    A subclass finds fields in another way, or converts values by other rules.
    """

    lists: tuple[str, ...] = ("list", "large_list")
    error: type[DeletekitError] = FormatError
    message = "column type in the file cannot be read as the table's"

    def __init__(self, constants: Mapping[int, pa.Scalar] | None = None) -> None:
        self._constants = constants or {}

    def convert(
        self, array: pa.Array, stored: pa.DataType, field: it.NestedField, path: str, hidden: int = 0
    ) -> pa.Array:
        """Return one chunk of a column as `field`.

        Parameters
        ----------
        stored: the type of the column, with field ids.
        path: the full name of the field, for errors.
        hidden: how many of its nulls come from the value that it is inside of.
        """
        del hidden  # a required field that is null is the writer's fault, and is read
        try:
            match field.field_type:
                case it.StructType() as kind:
                    return self._struct(array, stored, kind, path)
                case it.ListType() as kind:
                    return self._list(array, stored, kind, path)
                case it.MapType() as kind:
                    return self._map(array, stored, kind, path)
                case _:
                    return self.primitive(array, arrow_type(field.field_type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
            raise self.error(
                f"{self.message} ({e})",
                kind="column-type",
                field=path,
                found=str(stored),
                expected=str(field.field_type),
            ) from e

    def places(self, stored: pa.StructType, kind: it.StructType, path: str) -> dict[int | None, int]:
        """Return the place of each field in a stored struct, by field id."""
        del kind, path
        return {field_id_of(f): i for i, f in enumerate(stored)}

    def missing(self, field: it.NestedField, rows: int, path: str) -> pa.Array:
        """Return a column that is not stored."""
        kind = arrow_type(field.field_type)
        if field.field_id in self._constants:
            return repeated(self._constants[field.field_id], kind, rows)
        if field.initial_default is not None:
            return repeated(field.initial_default, kind, rows)
        if field.required:
            message = "data file lacks a required column with no default"
            raise FormatError(message, "missing-column", path, field.field_id)
        return pa.nulls(rows, kind)

    def primitive(self, array: pa.Array, target: pa.DataType) -> pa.Array:
        """Return values as a primitive type. Raises an error of Arrow for those that it cannot hold."""
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return array if array.type == target else _promoted(storage_of(array), target)

    def entries(self, array: pa.Array, stored: pa.DataType) -> tuple[list[pa.Array], list[pa.DataType]]:
        """Return the keys and the values of maps, and their types."""
        if not pa.types.is_map(stored):
            raise pa.ArrowTypeError("not a map")
        return [array.keys, array.items], [stored.key_type, stored.item_type]

    def _struct(self, array: pa.Array, stored: pa.DataType, kind: it.StructType, path: str) -> pa.Array:
        if not pa.types.is_struct(stored):
            raise pa.ArrowTypeError("not a struct")
        places = self.places(stored, kind, path)
        flat = array.flatten()  # children with the parent's nulls applied
        children = []
        for field in kind.fields:
            at, name = places.get(field.field_id), f"{path}.{field.name}"
            if at is not None:
                children.append(self.convert(flat[at], stored.field(at).type, field, name, array.null_count))
            else:
                # Under a null parent a required child is null too, so it may be absent.
                required = field.required and array.null_count < len(array)
                children.append(self.missing(field.model_copy(update={"required": required}), len(array), name))
        if not children:
            return pa.array([None if n else {} for n in array.is_null().to_pylist()], type=arrow_type(kind))
        return pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)), mask=array.is_null())

    def _list(self, array: pa.Array, stored: pa.DataType, kind: it.ListType, path: str) -> pa.Array:
        if not is_a(stored, *self.lists):
            raise pa.ArrowTypeError("not a list")
        if not pa.types.is_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        whole = pa.concat_arrays([array])  # a null mask needs offsets that start at zero
        offsets, values = whole.offsets, whole.values
        if kind.element_required and whole.null_count and values.null_count:
            offsets, values = _without_hidden(whole)
        values = self.convert(values, stored.value_type, kind.element_field, f"{path}.element")
        return pa.ListArray.from_arrays(offsets, values, type=arrow_type(kind), mask=whole.is_null())

    def _map(self, array: pa.Array, stored: pa.DataType, kind: it.MapType, path: str) -> pa.Array:
        whole = pa.concat_arrays([array])
        (keys, values), (key_type, value_type) = self.entries(whole, stored)
        keys = self.convert(keys, key_type, kind.key_field, f"{path}.key")
        values = self.convert(values, value_type, kind.value_field, f"{path}.value")
        return pa.MapArray.from_arrays(whole.offsets, keys, values, type=arrow_type(kind), mask=whole.is_null())


def repeated(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """Return a column that has one value, or one Arrow scalar of the type's storage, in all rows."""
    if isinstance(kind, pa.BaseExtensionType):
        value = value.bytes if isinstance(value, UUID) else value
        return pa.ExtensionArray.from_storage(kind, repeated(value, kind.storage_type, rows))
    return pa.repeat(value.cast(kind) if isinstance(value, pa.Scalar) else pa.scalar(value, kind), rows)


def partition_constants(metadata: TableMetadata, file: ContentFile) -> dict[int, pa.Scalar]:
    """Return identity partition values: for columns that a data file leaves out (Hive-style)."""
    spec, out = metadata.specs[file.spec_id], {}
    for partition_field, value in zip(spec.fields, file.partition, strict=bool(spec.fields)):
        source = metadata.all_fields.get(partition_field.source_id)
        if source is not None and isinstance(partition_field.transform, IdentityTransform):
            kind = source.field_type
            out[source.field_id] = storage_of(repeated(plain_value(value, kind), arrow_type(kind), 1))[0]
    return out


def is_a(kind: pa.DataType, *names: str) -> bool:
    """Tell whether `pyarrow.types.is_<name>` is true of a type for one of the names."""
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def with_field_ids(schema: pa.Schema, name_mapping: str | None) -> pa.Schema:
    """Return the file schema with field ids: its own, or those of `schema.name-mapping.default` if it has none.

    Raises FormatError if there are neither: guessing by position would be silently wrong.
    """
    if not len(schema.names) or any(_has_id(f) for f in schema):
        return schema
    if name_mapping is None:
        message = "file has no field ids and the table no name mapping"
        raise FormatError(message, "field-ids", "schema.name-mapping.default", ", ".join(schema.names))
    try:
        mapping = json.loads(name_mapping)
        return pa.schema([_mapped(f, mapping) for f in schema])
    except (ValueError, TypeError, KeyError, AttributeError) as e:
        raise FormatError("bad name mapping", "field-ids", "schema.name-mapping.default", str(e)) from e


def _has_id(field: pa.Field) -> bool:
    inner = (field.type.field(i) for i in range(field.type.num_fields))
    return field_id_of(field) is not None or any(map(_has_id, inner))


def _mapped(field: pa.Field, mapping: Sequence[Mapping[str, Any]], name: str | None = None) -> pa.Field:
    entry = next((m for m in mapping if (name or field.name) in m["names"]), None)
    kind, nested = field.type, (entry or {}).get("fields", [])
    if pa.types.is_struct(kind):
        kind = pa.struct([_mapped(c, nested) for c in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_mapped(kind.key_field, nested, "key"), _mapped(kind.item_field, nested, "value"))
    elif is_a(kind, "list", "large_list"):
        kind = pa.list_(_mapped(kind.value_field, nested, "element"))
    metadata = {FIELD_ID_KEY: str(entry["field-id"])} if entry and "field-id" in entry else None
    return pa.field(field.name, kind, field.nullable, metadata)


def _without_hidden(array: pa.ListArray) -> tuple[pa.Array, pa.Array]:
    """Return offsets and values of lists, without what null lists hold: one of fixed size holds nulls."""
    lengths, valid = np.diff(array.offsets.to_numpy()), array.is_valid().to_numpy(zero_copy_only=False)
    shown = np.flatnonzero(np.repeat(valid, lengths))
    offsets = np.concatenate([[0], np.cumsum(np.where(valid, lengths, 0))])
    return pa.array(offsets, pa.int32()), array.values.take(pa.array(shown))


# What a stored type may be read as: the spec's promotions, and other names of a type in pyarrow, ORC and old writers.
TEXT = ("string", "large_string", "binary", "large_binary")
_BYTES = ("binary", "large_binary", "fixed_size_binary", "binary_view")
_PROMOTIONS = (
    (("int8", "int16", "int32", "uint8", "uint16"), ("int32", "int64")),
    (("floating",), ("float64",)),
    (("date",), ("timestamp", "date32")),
    (("time",), ("time64",)),
    (("string", "large_string", "string_view", *_BYTES), ("string", "binary", "fixed_size_binary")),
)


def _promoted(array: pa.Array, target: pa.DataType) -> pa.Array:
    found = array.type
    if pa.types.is_null(found):
        return pa.nulls(len(array), target)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(target):
        return array.cast(target, safe=False)  # nanoseconds are cut off
    if pa.types.is_int64(found) and pa.types.is_time64(target):
        return array.view(target)
    if isinstance(target, pa.BaseExtensionType) and is_a(found, *_BYTES):
        return pa.ExtensionArray.from_storage(target, array.cast(pa.binary(16)))
    same_scale = pa.types.is_decimal(found) and pa.types.is_decimal(target) and found.scale == target.scale
    if same_scale or any(is_a(found, *stored) and is_a(target, *read) for stored, read in _PROMOTIONS):
        return array.cast(target)
    raise pa.ArrowTypeError(f"{found} is not {target}")
