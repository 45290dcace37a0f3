"""Keys of equality deletes, and the equality delete files of keys that were not looked up.

Keys are equal as in a reader: NULL equals NULL. A key that does not determine the partition needs a global delete.
Spec: "Equality Delete Files", "Scan Planning".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField, StructType

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.swap import commit_metadata
from deletekit.deletes.equality_delete_writer import write_equality_deletes
from deletekit.deletes.which_apply import is_global
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.manifest_list import ManifestContent
from deletekit.rows.data_file_writer import split_by_partition
from deletekit.rows.input_rows import as_table, cast_column
from deletekit.rows.keys import column_at, distinct_keys
from deletekit.rows.write_context import WriteContext, check_parquet_only
from deletekit.table.metadata import TableMetadata, spec_to_json
from deletekit.table.metadata_update import apply_updates
from deletekit.table.table import Table
from deletekit.table.types import arrow_field, arrow_type
from deletekit.verbs.shared.count_rows import count_rows_with_keys
from deletekit.verbs.shared.key_fields import equality_fields_of


def nested_keys(schema: Schema, fields: Sequence[NestedField], columns: Sequence[Any]) -> tuple[pa.Table, Schema]:
    """Return flat key columns as the table of an equality delete file, and its schema with the ids kept.

    A nested leaf goes inside its structs. By the specification a leaf is NULL in a NULL struct too. But Java compares
    structs, and a NULL struct differs from one whose leaf is NULL. So a key with such a leaf gets a row of each kind,
    and every reader hides the same rows. The file's field is optional where a key holds NULL, even if it is required.
    """
    flat = (c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns)
    by_id = {f.field_id: c for f, c in zip(fields, flat, strict=True)}
    pruned = prune_columns(schema, set(by_id), select_full_types=False)
    pruned = Schema(*(_optional_where_null(f, by_id) for f in pruned.fields), schema_id=schema.schema_id)
    rows, null_structs = _null_structs(pruned, by_id)
    if len(rows) > len(columns[0]):
        by_id = {i: c.take(pa.array(rows)) for i, c in by_id.items()}
    arrays = [_nest(f, by_id, null_structs) for f in pruned.fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema([arrow_field(f) for f in pruned.fields])), pruned


def _optional_where_null(field: NestedField, by_id: Mapping[int, Any]) -> NestedField:
    if isinstance(field.field_type, StructType):
        children = [_optional_where_null(c, by_id) for c in field.field_type.fields]
        return field.model_copy(update={"field_type": StructType(*children)})
    return field.model_copy(update={"required": field.required and not by_id[field.field_id].null_count})


def _null_structs(
    schema: Schema, by_id: Mapping[int, Any]
) -> tuple[npt.NDArray[np.int64], dict[int, npt.NDArray[np.bool_]]]:
    """Return the number of each row's key, and masks of the rows in which a struct is NULL, by field id.

    A key has one more row for each NULL struct that its NULL leaves may come from.
    """
    rows = np.arange(len(next(iter(by_id.values()))))
    nulls: dict[int, npt.NDArray[np.bool_]] = {}
    for field_id, struct in _optional_structs(schema.fields):
        inside = _ids_in(struct)
        again = np.logical_and.reduce([by_id[i].is_null().to_numpy(False) for i in inside & by_id.keys()])[rows]
        again = again & ~np.logical_or.reduce([nulls[i] for i in inside & nulls.keys()], initial=False)
        nulls = {i: np.concatenate([mask, mask[again]]) for i, mask in nulls.items()}
        nulls[field_id] = np.repeat([False, True], [len(rows), int(again.sum())])
        rows = np.concatenate([rows, rows[again]])
    return rows, nulls


def _optional_structs(fields: Sequence[NestedField]) -> Iterator[tuple[int, StructType]]:
    """Yield the optional structs with their ids, inner ones first."""
    for field in fields:
        if isinstance(field.field_type, StructType):
            yield from _optional_structs(field.field_type.fields)
            if not field.required:
                yield field.field_id, field.field_type


def _ids_in(struct: StructType) -> set[int]:
    inner = [_ids_in(f.field_type) for f in struct.fields if isinstance(f.field_type, StructType)]
    return {f.field_id for f in struct.fields}.union(*inner)


def _nest(field: NestedField, by_id: Mapping[int, Any], null_structs: Mapping[int, Any]) -> Any:
    if field.field_id in by_id:
        return by_id[field.field_id]
    assert isinstance(field.field_type, StructType)
    children = [_nest(c, by_id, null_structs) for c in field.field_type.fields]
    mask = null_structs.get(field.field_id)
    nulls = None if mask is None else pa.array(mask)
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(field.field_type)), mask=nulls)


Scope = Literal["partition", "global"]


def write_key_deletes(
    write: WriteContext,
    specs: Sequence[PartitionSpec],
    keys: pa.Table,
    fields: Sequence[NestedField],
    scope: Scope | None,
) -> list[DeleteFile]:
    """Write equality deletes of keys that were not looked up: for each partition of every spec in use, or a global one.

    Raises InvalidInputError for the scope `partition` if the keys do not determine the partition.
    """
    metadata = write.metadata
    schema = metadata.schema
    ids = [f.field_id for f in fields]
    nested, pruned = nested_keys(schema, fields, keys.columns)
    whole = [s for s in specs if not determines_partition(s, set(ids))]
    if scope == "partition" and whole:
        found, names = (", ".join(f.name for f in some) for some in (whole[0].fields, fields))
        expected = f"partition sources among the key columns {names}"
        raise InvalidInputError("keys do not determine the partition", "equality-scope", "scope", found, expected)
    if scope == "global" or whole or any(is_global(s) for s in specs):
        spec = _unpartitioned(metadata)
        return write_equality_deletes(write, nested, ids, spec, (None,) * len(spec.fields), pruned)
    files = []
    for spec in specs:
        for partition, part in split_by_partition(write, nested, spec):
            files += write_equality_deletes(write, part, ids, spec, partition, pruned)
    return files


def delete_of_keys(
    base: Base, keys: pa.Table, fields: Sequence[NestedField], scope: Scope | None, counter: Engine | None
) -> RowDelta:
    """Return the delete of keys that were not looked up. Raises as `write_key_deletes`.

    Parameters
    ----------
    counter: counts the rows with these keys; None leaves them uncounted.
    """
    files = write_key_deletes(base.write, specs_in_use(base), keys, fields, scope)
    rows = None if counter is None else count_rows_with_keys(base, keys, fields, counter)
    return RowDelta(added_delete_files=tuple(files), matched_rows=rows, read_set=ReadSet())


def specs_in_use(base: Base) -> list[PartitionSpec]:
    """Return the specs of the live data files, or the default spec if there are none."""
    ids = {m.partition_spec_id for m in base.manifests if m.content == ManifestContent.DATA and m.has_live_files}
    return [base.metadata.specs[i] for i in sorted(ids or {base.metadata.spec.spec_id})]


def determines_partition(spec: PartitionSpec, key_ids: set[int]) -> bool:
    """Return whether a key determines the partition of a spec; else the old row may be in another partition."""
    return is_global(spec) or all(f.source_id in key_ids or isinstance(f.transform, VoidTransform) for f in spec.fields)


def _unpartitioned(metadata: TableMetadata) -> PartitionSpec:
    # Prefer a spec without fields: not every reader takes void fields for unpartitioned.
    found = min((s for s in metadata.specs.values() if is_global(s)), key=lambda s: len(s.fields), default=None)
    if found is None:
        raise InvalidInputError(
            "a global equality delete needs an unpartitioned spec",
            "equality-scope",
            "partition-specs",
            sorted(metadata.specs),
            "a spec without fields; delete_keys adds one",
        )
    return found


def partitionable(metadata: TableMetadata, fields: Sequence[NestedField]) -> bool:
    """Return whether no spec of the table needs a global delete for these keys."""
    ids = {f.field_id for f in fields}
    return all(determines_partition(s, ids) for s in metadata.specs.values())


def checked_keys(
    metadata: TableMetadata, keys: Any, on: str | Sequence[str] | None
) -> tuple[tuple[NestedField, ...], pa.Table]:
    """Return the key columns, and the distinct keys as the table's types. Raises InvalidInputError for bad keys."""
    metadata.version.check_delete_kind("equality-delete")
    check_parquet_only(metadata, "write.delete.format.default")
    rows = as_table(keys, metadata.schema, "keys", ragged=False)
    if isinstance(keys, list) and not keys and on is None:
        return (), rows  # no dict that would name the key columns, and no key either
    fields = equality_fields_of(metadata.schema, on or rows.column_names)
    if not len(rows):
        return fields, rows
    columns = [key_column(rows, metadata.schema, f) for f in fields]
    return fields, distinct_keys(pa.table(dict(zip([str(f.field_id) for f in fields], columns, strict=True))))


def key_column(keys: pa.Table, schema: Schema, field: NestedField) -> Any:
    """Return a key column of a table of keys, as the table's type. Raises InvalidInputError if it lacks the column."""
    name = schema.find_column_name(field.field_id) or field.name
    try:
        column = keys.column(name) if name in keys.column_names else column_at(keys, schema, field.field_id)
    except KeyError as e:  # no such column, or two of the name
        raise InvalidInputError("keys lack a key column", "column-not-found", name, ", ".join(keys.column_names)) from e
    return cast_column(column, field)


def ensure_unpartitioned_spec(table: Table, *, dry_run: bool = False) -> Table:
    """Give the table a spec without fields, as global equality deletes need; the default spec stays what it is.

    Returns the table to plan on: for a dry run, a handle without a catalog, the only one that has the spec.
    """

    def build(metadata: TableMetadata) -> list[Mapping[str, Any]]:
        if any(not s.fields for s in metadata.specs.values()):
            return []
        spec = PartitionSpec(spec_id=max(metadata.specs) + 1)
        return [{"action": "add-spec", "spec": spec_to_json(spec)}]

    if dry_run:
        metadata = apply_updates(table.metadata, build(table.metadata))
        return Table(table.identifier, replace(table.state, metadata=metadata))
    commit_metadata(table, build)
    return table
