"""DELETE: delete rows by filter in any mode, or by keys without reading a row."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, BoundEqualTo, BoundIn, BoundIsNull, Or
from pyiceberg.types import NestedField

from deletekit.commit.change import Base, ReadSet, RowDelta
from deletekit.commit.planned_change import check_request
from deletekit.commit.swap import Commit
from deletekit.deletes.delete_modes import ChangeOptions
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.filters.filter import Filter, filter_field_ids
from deletekit.rows.keys import distinct_keys
from deletekit.rows.row_source import RowSource
from deletekit.rows.write_context import granularity_of
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table
from deletekit.table.types import arrow_type
from deletekit.verbs.shared.equality_keys import (
    Scope,
    checked_keys,
    delete_of_keys,
    determines_partition,
    partitionable,
    specs_in_use,
)
from deletekit.verbs.shared.foreign_rows import foreign_rows
from deletekit.verbs.shared.guards import Guards, Way, commit_guarded
from deletekit.verbs.shared.key_fields import equality_fields_of
from deletekit.verbs.shared.row_changes import DeleteWhere, change_where, choose_mode, required_filter


def delete(
    table: Table,
    where: Filter,
    *,
    mode: str | None = None,
    ref: str = MAIN,
    on: str | Sequence[str] | None = None,
    granularity: str | None = None,
    with_rows: bool = False,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    at_most: int | str | None = None,
    expect: int | None = None,
    readable_by: str | Sequence[str] | None = None,
    engine: Engine | None = None,
) -> Commit:
    """Delete the rows for which a filter is true, in one commit.

    Parameters
    ----------
    where: pyiceberg expression, or text as in SQL's WHERE. `"true"` deletes every row; there is no default.
    mode: `copy-on-write`, `equality-delete`, `position-delete` (v2), `deletion-vector` (v3) or `merge-on-read`
        (the one of the last two that the table's version has); None takes `write.delete.mode`.
    ref, commit_properties: the branch, and extra entries of the snapshot summary.
    on: key columns of equality deletes. By default those the filter looks at. A filter of equalities
        (`id in (1, 3)`, `id = 4 and category is null`) on the keys is written down without reading data; any other is
        read, and refused when the keys would take rows with them that the filter does not choose.
    granularity: `file`, a position delete file or Puffin file for each data file, or `partition`; None takes
        `write.delete.granularity`. With `file`, Java's expiry does no harm to a vector beside one that it drops.
    with_rows: also store each deleted row in the position delete file's `row` column.
    dry_run: plan the change, and write nothing; `print` shows it. A table opened by its path takes it too.
    at_most: refuse the change if it deletes or changes more rows: a number, or a share of the live rows, `"1 %"`.
    expect: refuse it unless it deletes or changes exactly so many.
    readable_by: engines, as `readers` names them, that must read the table right after it. Without a mode, the first of
        the table's own, `merge-on-read` and `copy-on-write` that they read; None takes `deletekit.readable-by`.

    Returns the commit; its `operation` is None when no row matched.
    Under `write.delete.isolation-level` = `serializable`, the default, the outcome is as if this delete came after all
    that others commit meanwhile. Under `snapshot` it leaves rows that they insert alone; an equality delete does not.

    Raises InvalidInputError before anything is written for a bad filter, key, mode or ref; CommitConflictError
    after too many lost races. Spec: "Row-level Deletes".

    Examples
    --------
    >>> dk.delete(users, "id in (1, 3)", mode="deletion-vector").summary["added-dvs"]
    '1'
    """
    runner, guards = engine_or_default(engine), Guards(ref, commit_properties, dry_run, at_most, expect, readable_by)

    def plan(base: Base, way: Way) -> RowDelta:
        metadata, chosen = base.metadata, choose_mode(base.metadata, "delete", way.mode)
        options = ChangeOptions(chosen, granularity_of(metadata, way.granularity), with_rows)
        _check_options(options, on)
        _, bound = found = required_filter(where, base.metadata.schema)
        if chosen == "equality-delete" and (listed := _listed_keys(base, bound, on, runner if way.counts else None)):
            return listed
        return change_where(base, found, DeleteWhere(bound), "delete", options, runner, names=on)

    return commit_guarded(table, plan, guards, runner, verb="delete", mode=mode, granularity=granularity)


def delete_keys(
    table: Table,
    keys: Any,
    *,
    on: str | Sequence[str] | None = None,
    scope: Scope | None = None,
    ref: str = MAIN,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    at_most: int | str | None = None,
    expect: int | None = None,
    readable_by: str | Sequence[str] | None = None,
) -> Commit:
    """Delete every row whose key is in a table of keys, as equality deletes and without reading a row.

    Parameters
    ----------
    keys: rows, as in `append`; each has the same columns. Nested fields are columns named `parent.child`. NULL in a
        key matches NULL, also a field's in a NULL struct. All are held in memory: a stream is read once, into a table.
    on: the key columns; default all columns of `keys`. Other columns of `keys` are ignored.
    scope: `"partition"` writes one file per partition, which needs keys that determine the partition in every spec that
        has data; `"global"` writes one file for the whole table under an unpartitioned spec (added to the table when it
        has none). None takes `partition` where possible.
    ref: branch to commit to.
    dry_run, at_most, expect, readable_by: as in `delete`. To count, key columns are read.

    Rows that others insert before this commit lands are deleted too: nothing is read, so every isolation level is
    serializable.

    Raises InvalidInputError for float or nested-list keys, unknown columns, values that do not fit, format version 1,
    or a scope the keys cannot have. Spec: "Equality Delete Files", "Scan Planning".
    """
    if scope not in ("partition", "global", None):
        raise InvalidInputError("unknown scope", "equality-scope", "scope", scope, "partition or global")

    guards, runner = Guards(ref, commit_properties, dry_run, at_most, expect, readable_by), engine_or_default(None)

    def plan(base: Base, way: Way) -> RowDelta:
        if frame is not None:
            files = frame.delete_keys(base, on, scope)
            return RowDelta(added_delete_files=tuple(files), read_set=ReadSet())
        same = all(getattr(base.metadata, n) == getattr(seen, n) for n in ("schema", "format_version", "properties"))
        fields, distinct = checked if same else checked_keys(base.metadata, given, on)
        if not len(distinct):
            return RowDelta()
        return delete_of_keys(base, distinct, fields, scope, runner if way.counts else None)

    # Refused before the table gets a spec for it.
    check_request(table.refresh(), ref, commit_properties, dry_run=dry_run)
    seen, frame, source = table.metadata, foreign_rows(keys), RowSource(keys, table.schema, "keys", table.io)
    given = source.whole(seen.schema) if frame is None else frame.empty("keys")
    checked = fields, distinct = checked_keys(seen, given, on)
    is_global = scope == "global" or (scope is None and not partitionable(seen, fields))
    is_global = is_global and (frame is not None or len(distinct) > 0)
    return commit_guarded(table, plan, guards, runner, refreshed=True, is_global=is_global)


def _check_options(options: ChangeOptions, on: str | Sequence[str] | None) -> None:
    """Raise InvalidInputError for options that are another mode's."""
    if options.with_rows and options.mode != "position-delete":
        raise InvalidInputError("only position delete files store rows", "mode", "with_rows", options.mode)
    if on is not None and options.mode != "equality-delete":
        raise InvalidInputError("only equality deletes have key columns", "mode", "on", options.mode)


def _listed_keys(
    base: Base, bound: BooleanExpression, names: str | Sequence[str] | None, counter: Engine | None
) -> RowDelta | None:
    """Return the delete of the keys that a filter lists; None where rows must be read to find keys or partitions."""
    if isinstance(bound, AlwaysFalse):
        return None
    fields = equality_fields_of(base.metadata.schema, sorted(filter_field_ids(bound)) if names is None else names)
    ids, specs = {f.field_id for f in fields}, specs_in_use(base)
    keys = _enumerated(bound, fields)
    if keys is None or not all(determines_partition(s, ids) for s in specs):
        return None
    return delete_of_keys(base, keys, fields, None, counter)


def _enumerated(bound: BooleanExpression, fields: Sequence[NestedField]) -> pa.Table | None:
    """Return the keys that a filter of equalities lists, over exactly the key columns; None for any other filter."""
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
    return distinct_keys(pa.table(columns))


def _storable(value: Any) -> Any:
    return value.bytes if hasattr(value, "bytes") else value


def _keys_of(expression: BooleanExpression) -> list[dict[int, Any]] | None:
    if isinstance(expression, And | Or):
        left, right = _keys_of(expression.left), _keys_of(expression.right)
        if left is None or right is None:
            return None
        if isinstance(expression, Or):
            return left + right
        if any(set(a) & set(b) for a in left for b in right):
            return None
        return [a | b for a in left for b in right]
    if isinstance(expression, BoundIn):
        values = sorted(literal.value for literal in expression.literals)
    elif isinstance(expression, BoundEqualTo):
        values = [expression.literal.value]
    elif isinstance(expression, BoundIsNull):
        values = [None]
    else:
        return None
    field_id = expression.term.ref().field.field_id
    return [{field_id: value} for value in values]
