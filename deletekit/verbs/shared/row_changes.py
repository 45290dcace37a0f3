"""What delete, update and merge share: the mode, the groups of work, and the RowDelta that comes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.types import DoubleType, FloatType, NestedField, StructType

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.conflicts import isolation_level
from deletekit.deletes.delete_writers import write_equality_deletes
from deletekit.deletes.keys import KeySet, comparable
from deletekit.deletes.plan import ScanTask, plan_scan
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest, read_task
from deletekit.deletes.row_change import Change, ChangeOptions, ChangeResult, RowMode, change_files
from deletekit.deletes.which_apply import is_global
from deletekit.deletes.write_context import check_parquet_only
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import DeleteFile, partition_key
from deletekit.table.column_names import as_names, columns_like
from deletekit.table.metadata import TableMetadata
from deletekit.table.properties import value_of
from deletekit.table.types import arrow_field, arrow_type, struct_paths

__all__ = ["DeleteMode", "choose_mode", "equality_fields_of", "merged_results", "planned_change", "run_change"]

DeleteMode = Literal["copy-on-write", "merge-on-read", "position-delete", "deletion-vector", "equality-delete"]
_MODES = ("copy-on-write", "merge-on-read", "position-delete", "deletion-vector", "equality-delete")


def choose_mode(metadata: TableMetadata, verb: str, mode: str | None) -> RowMode:
    """The mode of a call: its own, else `write.<verb>.mode`, else copy-on-write (Iceberg's default).

    `merge-on-read` becomes what the format version takes: position deletes in v2, deletion vectors in v3.
    Raises InvalidInputError for an unknown mode, or one the format version does not take.
    """
    name = f"write.{verb}.mode"
    chosen = value_of(metadata.properties, name) if mode is None else mode
    if chosen not in _MODES:
        raise InvalidInputError("unknown mode", kind="mode", field="mode", found=chosen, expected=", ".join(_MODES))
    if chosen == "merge-on-read":
        chosen = metadata.version.position_delete_kind
    if chosen != "copy-on-write":
        metadata.version.check_delete_kind(chosen)
    if chosen in ("position-delete", "equality-delete"):
        check_parquet_only(metadata, "write.delete.format.default")
    check_parquet_only(metadata, "write.format.default")
    return chosen  # type: ignore[return-value]


@dataclass(frozen=True)
class ChangePlan:
    """A change to run on one attempt's base.

    Attributes
    ----------
    verb: `delete`, `update` or `merge`, whose isolation level holds.
    where: unbound filter that limits which files are read at all.
    check_keys: equality keys do not decide what the change matches, so look for rows that would wrongly go.
    """

    change: Change
    options: ChangeOptions
    verb: str
    where: BooleanExpression | None = None
    check_keys: bool = False


def run_change(base: Base, plan: ChangePlan, engine: Engine) -> tuple[RowDelta, ChangeResult]:
    """Plan, run the change on groups of data files, and collect one RowDelta with what it rests on.

    Raises InvalidInputError when equality keys would delete rows the change does not match, or for an unknown
    `write.<verb>.isolation-level`.
    """
    isolation_level(base.metadata, plan.verb)
    tasks = plan_scan(base.metadata, base.snapshot, base.reader, plan.where)
    context = ReadContext(base.table.io, base.metadata)
    groups = group_tasks(tasks, getattr(engine, "threads", 1))
    write, change, options = base.write, plan.change, plan.options  # tasks travel, and the attempt's catalog cannot
    total = merged_results(engine.map(lambda group: change_files(context, write, group, change, options), groups))
    if total.keys and plan.check_keys:
        _check_keys_are_unique(base, context, plan, total, engine)
    return planned_change(base, plan.verb, total, options, plan.where), total


def planned_change(
    base: Base,
    verb: str,
    total: ChangeResult,
    options: ChangeOptions,
    where: BooleanExpression | None = None,
) -> RowDelta:
    """What workers did as one change, with what it rests on: all that was read, or what `where` limits it to."""
    serializable = isolation_level(base.metadata, verb) == "serializable"
    reads: BooleanExpression = (where or AlwaysTrue()) if serializable else AlwaysFalse()
    if total.keys:
        total.added_delete_files += _write_keys(base, total, options.key_fields)
        reads = AlwaysTrue()  # the keys would hide rows that nobody looked at, whatever the isolation level
    read_set = ReadSet(data_files=frozenset(total.targets), where=reads)
    return replace(_row_delta(total), read_set=read_set, granularity=options.granularity)


def group_tasks(tasks: Sequence[ScanTask], workers: int) -> list[list[ScanTask]]:
    """Disjoint groups of data files, one per worker, of about equal bytes; a group stays in manifest order."""
    if not tasks:
        return []
    count = min(max(workers, 1), len(tasks))
    groups: list[list[ScanTask]] = [[] for _ in range(count)]
    total = sum(t.data_file.file_size_in_bytes for t in tasks)
    done = 0
    for i, task in enumerate(tasks):
        left = len(tasks) - i
        at = min(int(done * count / max(total, 1)), count - 1)
        at = max(at, count - left)  # every worker gets something
        groups[at].append(task)
        done += task.data_file.file_size_in_bytes
    return [g for g in groups if g]


def equality_fields_of(schema: Schema, names: str | Iterable[str] | Iterable[int]) -> tuple[NestedField, ...]:
    """The fields that make an equality key, ascending by id.

    Parameters
    ----------
    names: column names (`parent.child` for nested ones), one or several, or field ids.

    Raises InvalidInputError, naming the column, for one that is missing, float, double, not primitive, or in a list or
    map. Spec: identifier field rules, of which only "required" does not bind here.
    """
    fields: dict[int, NestedField] = {}
    for name in as_names(names):
        try:
            field = schema.find_field(name)
        except ValueError as e:
            raise InvalidInputError(
                "no such column",
                kind="column-not-found",
                field=str(name),
                expected=columns_like(str(name), schema.column_names),
            ) from e
        _check_key_field(schema, field)
        fields[field.field_id] = field
    if not fields:
        raise InvalidInputError(
            "an equality delete needs at least one column", kind="equality-key", field="equality_fields"
        )
    return tuple(fields[i] for i in sorted(fields))


def nested_keys(schema: Schema, fields: Sequence[NestedField], columns: Sequence[Any]) -> tuple[pa.Table, Schema]:
    """Key columns given flat, as the table of an equality delete file and its schema, ids kept.

    A nested leaf goes inside its structs. A leaf is NULL in a NULL struct too, by the spec; but Java compares structs,
    and tells a NULL struct from one whose leaf is NULL. So a key with such a leaf gets a row of each kind, and every
    reader hides the same rows. The file's field is optional where a key holds NULL, even if it is required.
    """
    by_id = {f.field_id: _flat(c) for f, c in zip(fields, columns, strict=True)}
    pruned = prune_columns(schema, set(by_id), select_full_types=False)
    pruned = Schema(*(_optional_where_null(f, by_id) for f in pruned.fields), schema_id=schema.schema_id)
    rows, null_structs = _null_structs(pruned, by_id)
    by_id = {i: c.take(pa.array(rows)) for i, c in by_id.items()}
    arrays = [_nest(f, by_id, null_structs) for f in pruned.fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema([arrow_field(f) for f in pruned.fields])), pruned


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _optional_where_null(field: NestedField, by_id: Mapping[int, Any]) -> NestedField:
    if isinstance(field.field_type, StructType):
        children = [_optional_where_null(c, by_id) for c in field.field_type.fields]
        return field.model_copy(update={"field_type": StructType(*children)})
    return field.model_copy(update={"required": field.required and not by_id[field.field_id].null_count})


def _null_structs(
    schema: Schema, by_id: Mapping[int, Any]
) -> tuple[npt.NDArray[np.int64], dict[int, npt.NDArray[np.bool_]]]:
    """Numbers of keys, each again for every NULL struct that its NULL leaves may come of; where structs are NULL."""
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
    """Optional structs by id, inner ones before those that they are in."""
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


def _check_key_field(schema: Schema, field: NestedField) -> None:
    problem = None
    if not field.field_type.is_primitive:
        problem = "a primitive type"
    elif isinstance(field.field_type, FloatType | DoubleType):
        problem = "a type with exact equality: float and double are not allowed"
    elif field.field_id not in struct_paths(schema):
        problem = "a field outside lists and maps"
    if problem is not None:
        raise InvalidInputError(
            "column cannot be an equality key",
            kind="equality-key",
            field=field.name,
            found=str(field.field_type),
            expected=problem,
        )


def merged_results(results: Iterable[ChangeResult]) -> ChangeResult:
    """What several workers did, as if it had been one."""
    total = ChangeResult()
    for r in results:
        total.added_data_files += r.added_data_files
        total.removed_data_files += r.removed_data_files
        total.added_delete_files += r.added_delete_files
        total.removed_delete_files += r.removed_delete_files
        total.keys += r.keys
        total.matched_rows += r.matched_rows
        total.seen += r.seen
        total.targets += r.targets
    return total


def _row_delta(total: ChangeResult) -> RowDelta:
    # A position delete file with equal bounds belongs to one data file, yet two tasks may both list it to remove.
    removed = {e.data_file.identity: e for e in total.removed_delete_files}
    return RowDelta(
        added_data_files=tuple(total.added_data_files),
        removed_data_files=tuple(total.removed_data_files),
        added_delete_files=tuple(total.added_delete_files),
        removed_delete_files=tuple(removed.values()),
    )


def _write_keys(base: Base, total: ChangeResult, fields: Sequence[NestedField]) -> list[DeleteFile]:
    """One equality delete file per partition whose rows matched, each key once."""
    groups: dict[Any, list[pa.Table]] = {}
    for spec_id, partition, keys in total.keys:
        groups.setdefault((spec_id, partition), []).append(keys)
    schema = base.metadata.schema
    files: list[DeleteFile] = []
    for (spec_id, partition), tables in groups.items():
        table = distinct(pa.concat_tables(tables))
        keys, file_schema = nested_keys(schema, fields, table.columns)
        spec = base.metadata.specs[spec_id]
        ids = [f.field_id for f in fields]
        files += write_equality_deletes(base.write, keys, ids, spec, partition, file_schema)
    return files


def distinct(table: pa.Table) -> pa.Table:
    """Rows of a key table, each once, NULL equal to NULL, in order of first appearance."""
    if not len(table):
        return table
    columns = [part for column in table.columns for part in comparable(column)]
    frame = pl.DataFrame([pl.Series(str(i), column) for i, column in enumerate(columns)])
    first = frame.with_row_index("row").unique(frame.columns, keep="first")["row"]
    return table.take(first.sort().to_arrow())


def _check_keys_are_unique(
    base: Base, context: ReadContext, plan: ChangePlan, total: ChangeResult, engine: Engine
) -> None:
    fields, specs = plan.options.key_fields, base.metadata.specs
    by_reach: dict[Any, list[pa.Table]] = {}
    for spec_id, partition, table in total.keys:
        by_reach.setdefault(_reach(specs[spec_id], partition), []).append(table)
    sets = {reach: KeySet(pa.concat_tables(tables).columns) for reach, tables in by_reach.items()}
    tasks = plan_scan(base.metadata, base.snapshot, base.reader)
    request = ReadRequest(fields, only_live=True)

    def count(task: ScanTask) -> int:
        places = {None, _reach(specs[task.data_file.spec_id], task.data_file.partition)}
        keys = [sets[reach] for reach in places if reach in sets]
        if not keys:
            return 0
        return sum(_hits(keys, batch) for batch in read_task(context, task, request))

    would_go = sum(engine.map(count, tasks))
    if would_go != total.matched_rows:
        raise InvalidInputError(
            "equality keys would delete rows that the filter does not choose",
            kind="equality-key-not-unique",
            field=", ".join(f.name for f in fields),
            found=f"{would_go} rows with these keys",
            expected=f"{total.matched_rows} rows chosen",
        )


def _reach(spec: PartitionSpec, partition: tuple[Any, ...]) -> Any:
    """Where an equality delete of a spec and partition applies; None is everywhere."""
    return None if is_global(spec) else (spec.spec_id, partition_key(partition))


def _hits(keys: Sequence[KeySet], batch: FileBatch) -> int:
    hit = np.zeros(len(batch), dtype=np.bool_)
    for key_set in keys:
        hit |= key_set.contains(batch.table.columns).to_numpy(zero_copy_only=False)
    return int(np.count_nonzero(hit & ~batch.deleted))
