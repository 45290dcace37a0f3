"""Run a change of rows for delete, update and merge: choose the mode, run the tasks, collect one RowDelta."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.deletes.delete_modes import Change, ChangeOptions, ChangeResult, change_files, write_rows
from deletekit.deletes.equality_delete_writer import write_equality_deletes
from deletekit.deletes.plan import plan_scan
from deletekit.deletes.read import FileBatch, ReadContext, ReadRequest
from deletekit.deletes.scan_task import ScanTask
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.filters.filter import Filter, bound_filter, filter_field_ids, unbound_filter
from deletekit.formats.content_file import DeleteFile
from deletekit.rows.keys import KeySet, distinct_keys
from deletekit.rows.write_context import check_parquet_only
from deletekit.table.metadata import TableMetadata
from deletekit.table.modes import DELETE_MODES, RowMode
from deletekit.table.properties import value_of
from deletekit.verbs.shared.count_rows import count_rows_in_reach, reach
from deletekit.verbs.shared.equality_keys import nested_keys
from deletekit.verbs.shared.key_fields import equality_fields_of


def choose_mode(metadata: TableMetadata, verb: str, mode: str | None) -> RowMode:
    """Return the mode of a call: its own, else `write.<verb>.mode`, else copy-on-write (Iceberg's default).

    `merge-on-read` is position deletes in v2 and deletion vectors in v3.
    Raises InvalidInputError for an unknown mode, or one the format version does not take.
    """
    name = f"write.{verb}.mode"
    chosen = value_of(metadata.properties, name) if mode is None else mode
    if chosen not in DELETE_MODES:
        short = {"mor": "merge-on-read", "cow": "copy-on-write", "dv": "deletion-vector"}
        near = get_close_matches(short.get(chosen.lower(), chosen.lower()), DELETE_MODES, 1)
        expected = ", ".join(DELETE_MODES) + (f"; did you mean {near[0]}?" if near else "")
        raise InvalidInputError("unknown mode", "mode", "mode", chosen, expected)
    if chosen == "merge-on-read":
        chosen = metadata.version.position_delete_kind
    if chosen != "copy-on-write":
        metadata.version.check_delete_kind(chosen)
    if chosen in ("position-delete", "equality-delete"):
        check_parquet_only(metadata, "write.delete.format.default")
    check_parquet_only(metadata, "write.format.default")
    return chosen  # type: ignore[return-value]


class DeleteWhere(Change):
    """Delete the rows for which a filter is true."""

    replaces = False

    def __init__(self, bound: BooleanExpression) -> None:
        self.request = ReadRequest((), bound)

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], None]:
        return batch.live, None


def change_where(
    base: Base,
    where: tuple[BooleanExpression | None, BooleanExpression],
    change: Change,
    verb: str,
    options: ChangeOptions,
    engine: Engine,
    *,
    names: str | Sequence[str] | None = None,
    more: Callable[[ChangeResult], Sequence[pa.Table]] | None = None,
) -> RowDelta:
    """Change the rows for which a filter is true, as `run_change` does.

    Parameters
    ----------
    where: the filter, unbound and bound.
    names: the key columns of equality deletes; by default those that the filter looks at.

    Raises as `run_change`.
    """
    (unbound, bound), check = where, False
    if isinstance(bound, AlwaysFalse):
        return RowDelta()  # `id > 3000000000` of an int: there is nothing to read, and no key column to name
    if options.mode == "equality-delete":
        options, check = with_key_fields(options, base.metadata.schema, bound, names)
    return run_change(base, change, options, verb, engine, unbound, check_keys=check, more=more)


def required_filter(where: Filter, schema: Schema) -> tuple[BooleanExpression | None, BooleanExpression]:
    """Return a filter unbound and bound. Raises InvalidInputError for none: such a call would be about every row."""
    if where is None or (isinstance(where, str) and not where.strip()):
        message, expected = "a change of rows needs a filter", '"true", which means every row'
        raise InvalidInputError(message, "filter", "where", where, expected)
    unbound = unbound_filter(where, schema)
    return unbound, bound_filter(unbound, schema)


def run_change(
    base: Base,
    change: Change,
    options: ChangeOptions,
    verb: str,
    engine: Engine,
    where: BooleanExpression | None = None,
    *,
    tasks: Sequence[ScanTask] | None = None,
    check_keys: bool = False,
    more: Callable[[ChangeResult], Sequence[pa.Table]] | None = None,
) -> RowDelta:
    """Plan the scan, run the change on groups of data files, and collect one RowDelta with its read set.

    Parameters
    ----------
    verb: `delete`, `update` or `merge`, whose isolation level holds.
    where: unbound filter that limits which files are read at all.
    tasks: the files to read, of a caller that knows them.
    check_keys: a key may belong to rows that the change does not match; look for those before writing.
    more: returns further rows to write, by what was found.

    Raises InvalidInputError when equality keys would delete rows the change does not match, or for an unknown
    `write.<verb>.isolation-level`.
    """
    reads = filter_of_reads(base.metadata, verb, where)
    tasks = plan_scan(base.metadata, base.snapshot, base.reader, where) if tasks is None else tasks
    context = ReadContext(base.table.io, base.metadata)
    groups = group_tasks(tasks, getattr(engine, "threads", 1))
    write = base.write  # the base holds a catalog, which cannot be sent
    number = len(groups)

    def changed(group: Sequence[ScanTask]) -> ChangeResult:
        return change_files(context, write, context.loader.announced(group), change, options, groups=number)

    total = merged_results(engine.map(changed, groups))
    if total.keys and check_keys:
        _check_keys_are_unique(base, options.key_fields, total, engine)
    if more is not None:
        total.rows += more(total)
    return collect_delta(base, total, options, reads)


def filter_of_reads(metadata: TableMetadata, verb: str, where: BooleanExpression | None = None) -> BooleanExpression:
    """Return which rows of concurrent data files matter to a change, by `write.<verb>.isolation-level`.

    Parameters
    ----------
    where: unbound filter of the rows that the change reads; None is every row.
    """
    level = value_of(metadata.properties, f"write.{verb}.isolation-level")
    return (where or AlwaysTrue()) if level == "serializable" else AlwaysFalse()


def collect_delta(base: Base, total: ChangeResult, options: ChangeOptions, reads: BooleanExpression) -> RowDelta:
    """Return the results of all workers as one change, with its read set; write the rows left and equality deletes."""
    total.added_data_files += write_rows(base.write, total.rows)
    if total.keys:
        total.added_delete_files += _write_keys(base, total, options.key_fields)
        reads = AlwaysTrue()  # keys also hide rows that were not read, at every isolation level
    # A position delete file with equal bounds belongs to one data file, yet two tasks may both list it to remove.
    removed = {e.data_file.identity: e for e in total.removed_delete_files}
    return RowDelta(
        added_data_files=tuple(total.added_data_files),
        removed_data_files=tuple(total.removed_data_files),
        added_delete_files=tuple(total.added_delete_files),
        removed_delete_files=tuple(removed.values()),
        matched_rows=total.matched_rows,
        read_set=ReadSet(data_files=frozenset(total.targets), where=reads),
        granularity=options.granularity,
    )


def with_key_fields(
    options: ChangeOptions, schema: Schema, bound: BooleanExpression, names: str | Sequence[str] | None
) -> tuple[ChangeOptions, bool]:
    """Return the options with the key columns of equality deletes, by default those that the filter looks at.

    Also returns whether a key may belong to rows that the filter does not choose.
    """
    used = filter_field_ids(bound)
    key_fields = equality_fields_of(schema, sorted(used) if names is None else names)
    return replace(options, key_fields=key_fields), not used <= {f.field_id for f in key_fields}


def group_tasks(tasks: Sequence[ScanTask], workers: int) -> list[list[ScanTask]]:
    """Return disjoint groups of data files, one per worker, of about equal bytes, in manifest order."""
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


def merged_results(results: Iterable[ChangeResult]) -> ChangeResult:
    """Return the results of several workers as one: each field is a list or a number."""
    total = ChangeResult()
    for result in results:
        for field in fields(ChangeResult):
            setattr(total, field.name, getattr(total, field.name) + getattr(result, field.name))
    return total


def _write_keys(base: Base, total: ChangeResult, key_fields: Sequence[NestedField]) -> list[DeleteFile]:
    """Write an equality delete file for each partition with matching rows, each key once."""
    groups: dict[Any, list[pa.Table]] = {}
    for spec_id, partition, keys in total.keys:
        groups.setdefault((spec_id, partition), []).append(keys)
    ids = [f.field_id for f in key_fields]
    files: list[DeleteFile] = []
    for (spec_id, partition), tables in groups.items():
        columns = distinct_keys(pa.concat_tables(tables)).columns
        keys, file_schema = nested_keys(base.metadata.schema, key_fields, columns)
        spec = base.metadata.specs[spec_id]
        files += write_equality_deletes(base.write, keys, ids, spec, partition, file_schema)
    return files


def _check_keys_are_unique(
    base: Base, key_fields: tuple[NestedField, ...], total: ChangeResult, engine: Engine
) -> None:
    specs = base.metadata.specs
    by_reach: dict[Any, list[pa.Table]] = {}
    for spec_id, partition, table in total.keys:
        by_reach.setdefault(reach(specs[spec_id], partition), []).append(table)
    sets = {place: KeySet(pa.concat_tables(tables).columns) for place, tables in by_reach.items()}
    would_go = count_rows_in_reach(base, sets, key_fields, engine)
    if would_go != total.matched_rows:
        message = "equality keys would delete rows that the filter does not choose"
        names, found = ", ".join(f.name for f in key_fields), f"{would_go} rows with these keys"
        wanted = f"{total.matched_rows} rows chosen"
        raise InvalidInputError(message, "equality-key-not-unique", names, found, wanted)
