"""DELETE: by filter in any mode, or by keys without reading a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundIn,
    BoundIsNull,
    Or,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.data_file_writer import column_at, split_by_partition
from deletekit.deletes.delete_writers import write_equality_deletes
from deletekit.deletes.filter import Filter, filter_field_ids, parse_filter, unbound_filter
from deletekit.deletes.input_rows import as_table, cast_column
from deletekit.deletes.read import FileBatch, ReadRequest
from deletekit.deletes.row_change import ChangeOptions
from deletekit.deletes.which_apply import is_global
from deletekit.deletes.write_context import WriteContext, check_parquet_only, granularity_of
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DeleteFile
from deletekit.formats.manifest_list import ManifestContent
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.table import Table
from deletekit.table.types import arrow_type
from deletekit.verbs.append import ensure_unpartitioned_spec
from deletekit.verbs.shared.data_frames import (
    column_of,
    empty_rows,
    engine_of,
    in_chunks,
    is_data_frame,
    partition_hash,
    together,
)
from deletekit.verbs.shared.row_changes import (
    ChangePlan,
    choose_mode,
    distinct,
    equality_fields_of,
    nested_keys,
    run_change,
)
from deletekit.verbs.shared.spark_rows import from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["delete", "delete_keys"]

Scope = Literal["partition", "global"]


def delete(
    table: Table,
    where: Filter,
    *,
    mode: str | None = None,
    ref: str = MAIN,
    equality_fields: str | Sequence[str] | None = None,
    granularity: str | None = None,
    with_rows: bool = False,
    commit_properties: Mapping[str, str] | None = None,
    engine: Engine | None = None,
) -> Commit:
    """Delete the rows for which a filter is true, in one commit.

    Parameters
    ----------
    where: pyiceberg expression, or text as in SQL's WHERE. `"true"` deletes every row; there is no default.
    mode: `copy-on-write`, `equality-delete`, `position-delete` (v2), `deletion-vector` (v3) or `merge-on-read`
        (whichever of the last two fits the table); None takes `write.delete.mode`.
    ref: branch to commit to.
    equality_fields: key columns of equality deletes. By default those the filter looks at. A filter of equalities
        (`id in (1, 3)`, `id = 4 and category is null`) on the keys is written down without reading data; any other is
        read, and refused when the keys would take rows with them that the filter does not choose.
    granularity: `file`, a position delete file or Puffin file for each data file, or `partition`; None takes
        `write.delete.granularity`. With `file`, Iceberg Java's expiry can do no harm to a vector beside one it drops.
    with_rows: also store each deleted row in the position delete file's `row` column.
    commit_properties: extra entries of the snapshot summary.

    Returns the commit; its `snapshot_id` is None when no row matched. A data file that loses all its rows is dropped.

    Under `write.delete.isolation-level` = `serializable`, the default, the outcome is that of all that others commit
    meanwhile first and this then; `snapshot` leaves rows alone that they insert, but for equality deletes.

    Raises InvalidInputError before anything is written for a bad filter, key, mode or ref; CommitConflictError when too
    many races are lost. Spec: "Row-level Deletes".
    """
    runner = engine_or_default(engine)

    def build(base: Base) -> RowDelta:
        metadata = base.metadata
        bound = parse_filter(_required(where), metadata.schema)
        chosen = choose_mode(metadata, "delete", mode)
        _check_options(chosen, with_rows=with_rows, equality_fields=equality_fields)
        options = ChangeOptions(chosen, granularity_of(metadata, granularity), with_rows)
        check = False
        if isinstance(bound, AlwaysFalse):
            return RowDelta()  # `id > 3000000000` of an int: there is nothing to read, and no key column to name
        if chosen == "equality-delete":
            fields = _key_fields(metadata.schema, bound, equality_fields)
            keys = _enumerated(bound, fields)
            if keys is not None and all(_determined(s, {f.field_id for f in fields}) for s in specs_in_use(base)):
                files = write_blind(base.write, specs_in_use(base), keys, fields, None)
                return RowDelta(added_delete_files=tuple(files), read_set=ReadSet())
            options = replace(options, key_fields=fields)
            check = not filter_field_ids(bound) <= {f.field_id for f in fields}
        unbound = unbound_filter(where, metadata.schema)
        plan = ChangePlan(_Delete(bound), options, "delete", unbound, check_keys=check)
        return run_change(base, plan, runner)[0]

    return commit(plan_change(table, build, ref=ref, properties=commit_properties))


def delete_keys(
    table: Table,
    keys: Any,
    *,
    equality_fields: str | Sequence[str] | None = None,
    scope: Scope | None = None,
    ref: str = MAIN,
    commit_properties: Mapping[str, str] | None = None,
) -> Commit:
    """Delete every row whose key is in a table of keys, as equality deletes and without reading a row.

    Parameters
    ----------
    keys: pyarrow Table, or a list of dicts. Nested fields are columns named `parent.child`. NULL in a key matches NULL,
        also a field's in a NULL struct. Or a Spark DataFrame, whose rows Spark's executors write.
    equality_fields: the key columns; default all columns of `keys`. Other columns of `keys` are ignored.
    scope: `"partition"` writes one file per partition, which needs keys that determine the partition in every spec that
        has data; `"global"` writes one file for the whole table under an unpartitioned spec (added to the table when it
        has none). None takes `partition` where possible.
    ref: branch to commit to.

    Rows that others insert before this commit lands are deleted too: nothing is read, so every isolation level is
    serializable.

    Raises InvalidInputError for float or nested-list keys, unknown columns, values that do not fit, format version 1,
    or a scope the keys cannot have. Spec: "Equality Delete Files", "Scan Planning".
    """
    if scope not in ("partition", "global", None):
        raise InvalidInputError(
            "unknown scope", kind="equality-scope", field="scope", found=scope, expected="partition or global"
        )

    def build(base: Base) -> RowDelta:
        if is_data_frame(keys):
            files = _write_frame(base, keys, equality_fields, scope)
            return RowDelta(added_delete_files=tuple(files), read_set=ReadSet())
        same = _judges_alike(base.metadata, seen)
        fields, plain = checked if same else _checked_keys(base.metadata, keys, equality_fields)
        if not len(plain):
            return RowDelta()
        files = write_blind(base.write, specs_in_use(base), plain, fields, scope)
        return RowDelta(added_delete_files=tuple(files), read_set=ReadSet())

    # Refused before the table gets a spec for it.
    check_request(table.refresh(), ref, commit_properties)
    seen = table.metadata
    given = empty_rows(keys, "keys") if is_data_frame(keys) else keys
    checked = fields, plain = _checked_keys(seen, given, equality_fields)
    if (len(plain) or is_data_frame(keys)) and (
        scope == "global" or (scope is None and not partitionable(table.metadata, fields))
    ):
        ensure_unpartitioned_spec(table)
    return commit(plan_change(table, build, ref=ref, properties=commit_properties))


class _Delete:
    """The change: rows for which the filter is true go."""

    replaces = False

    def __init__(self, bound: BooleanExpression) -> None:
        self.request = ReadRequest((), bound)

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], None]:
        return batch.live, None

    def new_rows(self, current: pa.Table, index: Any) -> pa.Table:
        del current, index
        raise AssertionError("deleted rows become nothing")


def _required(where: Filter) -> Filter:
    if where is None or (isinstance(where, str) and not where.strip()):
        raise InvalidInputError(
            'a delete needs a filter; "true" means every row', kind="filter", field="where", found=where
        )
    return where


def _check_options(mode: str, *, with_rows: bool, equality_fields: str | Sequence[str] | None) -> None:
    if with_rows and mode != "position-delete":
        raise InvalidInputError("only position delete files store rows", kind="mode", field="with_rows", found=mode)
    if equality_fields is not None and mode != "equality-delete":
        raise InvalidInputError(
            "only equality deletes have key columns", kind="mode", field="equality_fields", found=mode
        )


def _key_fields(schema: Schema, bound: BooleanExpression, names: Sequence[str] | None) -> tuple[NestedField, ...]:
    if names is not None:
        return equality_fields_of(schema, names)
    return equality_fields_of(schema, sorted(filter_field_ids(bound)))


def _enumerated(bound: BooleanExpression, fields: Sequence[NestedField]) -> pa.Table | None:
    """The keys a filter of equalities spells out, over exactly the key columns; None when it is not such a filter."""
    rows = _keys_of(bound)
    wanted = {f.field_id for f in fields}
    if rows is None or any(set(r) != wanted for r in rows):
        return None
    columns = {}
    for f in fields:
        kind = arrow_type(f.field_type)
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        array = pa.array([_storable(r[f.field_id]) for r in rows], storage)
        columns[str(f.field_id)] = pa.ExtensionArray.from_storage(kind, array) if storage != kind else array
    return distinct(pa.table(columns))


def _storable(value: Any) -> Any:
    return value.bytes if hasattr(value, "bytes") else value


def _keys_of(expression: BooleanExpression) -> list[dict[int, Any]] | None:
    if isinstance(expression, BoundEqualTo):
        return [{expression.term.ref().field.field_id: expression.literal.value}]
    if isinstance(expression, BoundIn):
        field_id = expression.term.ref().field.field_id
        return [{field_id: literal.value} for literal in sorted(expression.literals, key=lambda v: v.value)]
    if isinstance(expression, BoundIsNull):
        return [{expression.term.ref().field.field_id: None}]
    if isinstance(expression, Or):
        left, right = _keys_of(expression.left), _keys_of(expression.right)
        return None if left is None or right is None else left + right
    if isinstance(expression, And):
        left, right = _keys_of(expression.left), _keys_of(expression.right)
        if left is None or right is None or any(set(a) & set(b) for a in left for b in right):
            return None
        return [a | b for a in left for b in right]
    return None


def _write_frame(base: Base, frame: DataFrame, names: Sequence[str] | None, scope: Scope | None) -> list[DeleteFile]:
    """As `write_blind`, by Spark's executors, each of which has a part of the keys."""
    write, specs, schema = base.write, specs_in_use(base), base.metadata.schema
    fields, _ = _checked_keys(write.metadata, empty_rows(frame, "keys"), names)
    paths = [schema.find_column_name(f.field_id) or f.name for f in fields]
    needed = {name for path in paths for name in (path, path.split(".")[0])}
    frame = frame.select(*(column_of(frame, name) for name in frame.columns if name in needed))
    place = partition_hash(frame, frame.columns, write.metadata)

    def written(batches: Iterator[pa.RecordBatch]) -> list[DeleteFile]:
        files = []
        for rows in in_chunks(batches):
            keys = _checked_keys(write.metadata, from_spark(rows, schema), paths)[1]
            files += write_blind(write, specs, keys, fields, scope)
        return files

    return [file for files in engine_of(frame).map_partitions(together(frame, place), written) for file in files]


def write_blind(
    write: WriteContext,
    specs: Sequence[PartitionSpec],
    keys: pa.Table,
    fields: Sequence[NestedField],
    scope: Scope | None,
) -> list[DeleteFile]:
    """Equality delete files for keys nobody looked up: per partition of every spec in use, or one for the table."""
    metadata = write.metadata
    schema = metadata.schema
    ids = [f.field_id for f in fields]
    nested, pruned = nested_keys(schema, fields, keys.columns)
    whole = [s for s in specs if not _determined(s, set(ids))]
    if scope == "partition" and whole:
        raise InvalidInputError(
            "keys do not determine the partition",
            kind="equality-scope",
            field="scope",
            found=", ".join(f.name for f in whole[0].fields),
            expected=f"partition sources among the key columns {', '.join(f.name for f in fields)}",
        )
    if scope == "global" or whole or any(is_global(s) for s in specs):
        spec = _unpartitioned(metadata)
        return write_equality_deletes(write, nested, ids, spec, (None,) * len(spec.fields), pruned)
    files = []
    for spec in specs:
        for partition, part in split_by_partition(write, nested, spec):
            files += write_equality_deletes(write, part, ids, spec, partition, pruned)
    return files


def specs_in_use(base: Base) -> list[PartitionSpec]:
    """Specs of the live data files, and the default one when there are none."""
    listed = base.reader.manifests(base.snapshot) if base.snapshot else ()
    ids = {m.partition_spec_id for m in listed if m.content == ManifestContent.DATA and m.has_live_files}
    return [base.metadata.specs[i] for i in sorted(ids or {base.metadata.spec.spec_id})]


def _determined(spec: PartitionSpec, key_ids: set[int]) -> bool:
    """Whether a key says which partition of a spec its rows are in; else the old row may be in another one."""
    return is_global(spec) or all(f.source_id in key_ids or isinstance(f.transform, VoidTransform) for f in spec.fields)


def _unpartitioned(metadata: TableMetadata) -> PartitionSpec:
    # One without fields before one of void fields, which not every reader takes for unpartitioned.
    found = min((s for s in metadata.specs.values() if is_global(s)), key=lambda s: len(s.fields), default=None)
    if found is None:
        raise InvalidInputError(
            "a global equality delete needs an unpartitioned spec",
            kind="equality-scope",
            field="partition-specs",
            found=sorted(metadata.specs),
            expected="a spec without fields; delete_keys adds one",
        )
    return found


def partitionable(metadata: TableMetadata, fields: Sequence[NestedField]) -> bool:
    """Whether no spec of the table needs a global delete for these keys."""
    ids = {f.field_id for f in fields}
    return all(_determined(s, ids) for s in metadata.specs.values())


def _checked_keys(
    metadata: TableMetadata, keys: Any, equality_fields: str | Sequence[str] | None
) -> tuple[tuple[NestedField, ...], pa.Table]:
    """The key columns, and the distinct keys as the table's types."""
    metadata.version.check_delete_kind("equality-delete")
    check_parquet_only(metadata, "write.delete.format.default")
    given = as_table(keys, metadata.schema, "keys", ragged=False)
    if isinstance(keys, list) and not keys and equality_fields is None:
        return (), given  # no dict that would name the key columns, and no key either
    fields = equality_fields_of(metadata.schema, equality_fields or given.column_names)
    if not len(given):
        return fields, given
    columns = [key_column(given, metadata.schema, f) for f in fields]
    return fields, distinct(pa.table(dict(zip([str(f.field_id) for f in fields], columns, strict=True))))


def _judges_alike(metadata: TableMetadata, other: TableMetadata) -> bool:
    """Whether `_checked_keys` gives the same for both."""
    return all(getattr(metadata, n) == getattr(other, n) for n in ("schema", "format_version", "properties"))


def key_column(keys: pa.Table, schema: Schema, field: NestedField) -> Any:
    name = schema.find_column_name(field.field_id) or field.name
    try:
        column = keys.column(name) if name in keys.column_names else column_at(keys, schema, field.field_id)
    except KeyError as e:  # no such column, or two of the name
        raise InvalidInputError(
            "keys lack a key column", kind="column-not-found", field=name, found=", ".join(keys.column_names)
        ) from e
    return cast_column(column, field)
