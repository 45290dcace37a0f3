"""Find the schema that a batch of changes needs, and give it to the table (`evolve=`).

`add` appends columns and struct fields that the table lacks, all of them optional. `widen` also promotes a type when a
value of the batch does not fit it. Nothing is dropped, renamed or narrowed, and the same batch finds nothing to do when
it comes again.
Spec: "Schema Evolution".
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as it
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import NestedField, StructType

from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.rows.input_rows import as_table
from deletekit.stream.change_rows import UNSENT_COLUMNS
from deletekit.stream.sink_options import Evolve
from deletekit.table.column_names import check_name
from deletekit.table.metadata import TableMetadata, check_reserved_names, check_schema_version
from deletekit.table.table import Table
from deletekit.table.types import arrow_schema, arrow_type, new_schema, schema_from_arrow
from deletekit.tools.schema import commit_schema

_INT32 = (-(2**31), 2**31 - 1)
_MOST_DIGITS = 38


def evolving_rows(changes: Any, schema: Schema, evolve: Evolve, aside: Container[str | None]) -> Any:
    """Return the changes as they are, or for a sink that evolves as a table without what has no type.

    An unknown column or struct field whose values are all NULL has none, and adds nothing to the table.

    Parameters
    ----------
    aside: columns that are not the table's: those of `change_type` and `order`.
    """
    if evolve == "refuse":
        return changes
    table = as_table(changes, schema, "changes")
    known = {f.name: f.field_type for f in schema.fields}
    for number, name in reversed(list(enumerate(table.column_names))):
        column = table.column(number)
        is_aside = name in aside or name in UNSENT_COLUMNS
        kind = column.type if is_aside else _typed(column.type, known.get(name))
        if kind is None:
            table = table.remove_column(number)
        elif kind != column.type:
            chunks = [_as_typed(chunk, kind) for chunk in column.chunks]
            table = table.set_column(number, name, pa.chunked_array(chunks, kind))
    return table


def schema_for(
    metadata: TableMetadata,
    rows: Any,
    evolve: Evolve,
    aside: Container[str | None],
    wide: Container[int] | None = None,
) -> Schema:
    """Return the schema that a table needs for rows: its own, or a new one that is not committed yet.

    Parameters
    ----------
    wide: the ids of fields with a value that does not fit, as `wide_fields` finds them; None: `rows` has all values.

    Raises InvalidInputError for a column that cannot be added: a type without an Iceberg type in the table's format
    version, a name that differs from another only in upper and lower case, or `a.b` beside a struct `a` with a `b`.
    """
    schema = metadata.schema
    if evolve == "refuse":
        return schema
    numbers = count(int(metadata.raw["last-column-id"]) + 1)
    wanted = _Evolution(widen=evolve == "widen", next_id=lambda: next(numbers), wide=wide)
    columns = [(n, c) for n, c in zip(rows.column_names, rows.columns, strict=True) if _is_ours(n, schema, aside)]
    fields = wanted.fields(schema.fields, columns, "")
    if fields is schema.fields:
        return schema
    new = new_schema(*fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)
    check_schema_version(new, metadata.format_version)
    check_reserved_names(new, metadata.format_version)
    arrow_schema(new)  # refuses, by name, a type that could never be read
    return new


def wide_fields(metadata: TableMetadata, rows: pa.Table, aside: Container[str | None]) -> frozenset[int]:
    """Return the ids of the table's fields whose type must be promoted for these rows, and of structs with them."""
    old, new = metadata.schema, schema_for(metadata, rows, "widen", aside)
    return frozenset(n for n in old.field_ids if old.find_type(n) != new.find_type(n))


def evolve_table(
    table: Table, rows: pa.Table, evolve: Evolve, aside: Container[str | None], wide: Container[int] | None = None
) -> None:
    """Commit the schema that rows need. Nothing is committed if another sink did it meanwhile."""
    commit_schema(table, lambda metadata: schema_for(metadata, rows, evolve, aside, wide))
    table.refresh()


def _is_ours(name: str, schema: Schema, aside: Container[str | None]) -> bool:
    is_aside = name in aside or name in UNSENT_COLUMNS
    return not is_aside or any(f.name == name for f in schema.fields)


@dataclass(frozen=True, slots=True)
class _Evolution:
    widen: bool
    next_id: Callable[[], int]
    wide: Container[int] | None

    def fields(
        self, known: Sequence[NestedField], columns: Sequence[tuple[str, Any]], path: str
    ) -> Sequence[NestedField]:
        """Return the fields of a struct that hold these columns; `known` itself if nothing changes."""
        given = dict(columns)
        fields = [self._grown(f, given[f.name], f"{path}{f.name}") if f.name in given else f for f in known]
        names = {f.name: f.name for f in known} | {f.name.lower(): f.name for f in known}
        for name, column in columns:
            if name in {f.name for f in known}:
                continue
            other = names.get(name.lower())
            if other is not None:
                message = "a new column has the name of another one in other letters, which not all engines tell apart"
                raise _refused(message, f"{path}{name}", name, f"{other}, or another name")
            names[name.lower()] = name
            fields.append(self._new(name, column.type, f"{path}{name}"))
        same = len(fields) == len(known) and all(a is b for a, b in zip(fields, known, strict=True))
        return known if same else fields

    def _grown(self, field: NestedField, column: Any, path: str) -> NestedField:
        kind, stored = field.field_type, column.type
        if isinstance(kind, StructType) and pa.types.is_struct(stored):
            columns = [(f.name, pc.struct_field(column, i)) for i, f in enumerate(stored)]
            fields = self.fields(kind.fields, columns, f"{path}.")
            return field if fields is kind.fields else field.model_copy(update={"field_type": StructType(*fields)})
        values = column.cast(column.type.value_type) if pa.types.is_dictionary(stored) else column
        wider = _wider(kind, values.type) if self.widen else None
        if wider is None or not (_is_needed(kind, values) if self.wide is None else field.field_id in self.wide):
            return field
        return field.model_copy(update={"field_type": wider})

    def _new(self, name: str, kind: pa.DataType, path: str) -> NestedField:
        check_name(name, "changes")
        if _lacks_type(kind):
            raise _refused("a new field has no value, so its type is not known", path, str(kind), "a type")
        try:
            made = schema_from_arrow(pa.schema([pa.field(name, _optional(kind))]))
        except UnsupportedError as e:
            raise _refused("a new column has no Iceberg type", path, str(kind), "a type of Iceberg") from e
        return assign_fresh_schema_ids(made, self.next_id).fields[0]


def _wider(kind: it.IcebergType, found: pa.DataType) -> it.IcebergType | None:
    """Return the type that all values of a type fit; None if no promotion helps."""
    if isinstance(kind, it.IntegerType) and pa.types.is_integer(found) and found.bit_width >= 32:
        return it.LongType()
    if isinstance(kind, it.FloatType) and pa.types.is_float64(found):
        return it.DoubleType()
    if isinstance(kind, it.DecimalType) and pa.types.is_decimal(found):
        digits = min(found.precision - found.scale + kind.scale, _MOST_DIGITS)
        return it.DecimalType(digits, kind.scale) if digits > kind.precision else None
    return None


def _is_needed(kind: it.IcebergType, values: Any) -> bool:
    """Return whether some value does not fit a type that can be promoted."""
    if isinstance(kind, it.IntegerType):
        low, high = pc.min_max(values).as_py().values()
        return low is not None and not (_INT32[0] <= low and high <= _INT32[1])
    if isinstance(kind, it.FloatType):
        same = pc.or_(pc.equal(values.cast(pa.float32()).cast(pa.float64()), values), pc.is_nan(values))
        return bool(pc.any(pc.invert(same)).as_py())
    try:
        values.cast(arrow_type(kind))
    except pa.ArrowInvalid:
        return True
    return False


def _typed(kind: pa.DataType, known: it.IcebergType | None) -> pa.DataType | None:
    """Return a type without the unknown struct fields that have no type; None if nothing is left."""
    if pa.types.is_null(kind) and known is None:
        return None
    if not pa.types.is_struct(kind) or not (known is None or isinstance(known, StructType)):
        return kind
    inside = {} if known is None else {f.name: f.field_type for f in known.fields}
    fields = [(f, _typed(f.type, inside.get(f.name))) for f in kind]
    if known is None and not any(found is not None for _, found in fields):
        return None
    return pa.struct([f.with_type(found) for f, found in fields if found is not None])


def _as_typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    children = [_as_typed(array.field(f.name), f.type) for f in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def _lacks_type(kind: pa.DataType) -> bool:
    inside = [kind.field(i).type for i in range(kind.num_fields)] if pa.types.is_nested(kind) else []
    return pa.types.is_null(kind) or any(map(_lacks_type, inside))


def _optional(kind: pa.DataType) -> pa.DataType:
    """Return a type in which nothing is required, and nothing is encoded as a dictionary."""
    if pa.types.is_dictionary(kind):
        return _optional(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _optional(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_optional(kind.key_type), pa.field("value", _optional(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", _optional(kind.value_type)))
    return kind


def _refused(message: str, field: str, found: object, expected: object) -> InvalidInputError:
    return InvalidInputError(message, kind="evolve", field=field, found=found, expected=expected)
