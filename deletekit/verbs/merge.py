"""MERGE: update, delete and insert rows of a table from a source, in one commit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.swap import Commit
from deletekit.deletes.delete_modes import Change, ChangeOptions, ChangeResult
from deletekit.deletes.read import FileBatch, ReadRequest
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.filters.filter import parse_filter
from deletekit.rows.input_rows import align, as_table, cast_column
from deletekit.rows.keys import KeyNumbers
from deletekit.rows.row_source import RowSource
from deletekit.rows.write_context import granularity_of
from deletekit.table.column_names import as_names, columns_like, unknown_column
from deletekit.table.metadata import MAIN, TableMetadata
from deletekit.table.table import Table
from deletekit.table.types import schema_from_arrow
from deletekit.verbs.shared.foreign_rows import foreign_rows
from deletekit.verbs.shared.guards import Guards, Way, commit_guarded
from deletekit.verbs.shared.key_fields import equality_fields_of, range_of_keys
from deletekit.verbs.shared.merge_clauses import (
    BoundClauses,
    Clause,
    Clauses,
    bind_clauses,
    clauses_of,
    inserted_rows,
    rows_by_clause,
    sides_of,
)
from deletekit.verbs.shared.row_changes import choose_mode, run_change

Numbers = npt.NDArray[np.int64]

_ACTIONS = {
    "when_matched": ("update", "delete"),
    "when_not_matched": ("insert",),
    "when_not_matched_by_source": ("update", "delete"),
}
_VISIBLE = {
    "when_matched": ("target", "source"),
    "when_not_matched": ("source",),
    "when_not_matched_by_source": ("target",),
}
"""The sides that have a row there."""


def merge(
    table: Table,
    source: Any,
    *,
    on: str | Sequence[str] | Mapping[str, str],
    when_matched: Clauses = "update",
    when_not_matched: Clauses = "insert",
    when_not_matched_by_source: Clauses = None,
    mode: str | None = None,
    ref: str = MAIN,
    granularity: str | None = None,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    at_most: int | str | None = None,
    expect: int | None = None,
    readable_by: str | Sequence[str] | None = None,
    engine: Engine | None = None,
) -> Commit:
    """Merge a source into a table, in one commit.

    Parameters
    ----------
    source: rows, as `append` takes them, with the `on` columns, and others that the table has or expressions name. All
        are held in memory. Or a Spark DataFrame: then Spark joins, and the clauses are those in one word.
    on: the column, or columns, that must be equal, as in SQL: NULL equals nothing, so such source rows are inserted.
        A mapping gives the source's name for each column of the table: `{"id": "customer_id"}`.
    when_matched: `"update"` sets the source's columns, the others keep their values; `"delete"` deletes the row; None
        leaves it. Or a `Clause`, or a list of them: the first with a true condition decides.
    when_not_matched: `"insert"` inserts the source row (a missing optional column takes its write default, else null);
        None ignores it. Or `Clause`s that insert.
    when_not_matched_by_source: what becomes of rows of the table that match no source row: `"delete"`, or `Clause`s
        that update or delete; None leaves them.
    mode: as in `delete`; None takes `write.merge.mode`. Equality deletes use `on` as their key, and are refused where
        that would take a row with them that no clause chooses.
    ref, granularity, commit_properties, dry_run, at_most, expect, readable_by: as in `delete`.

    `write.merge.isolation-level`: as in `update`; under `snapshot`, two merges may both insert a key.

    Raises InvalidInputError before anything is written for columns that do not fit, a clause that cannot be, or when a
    table row matches several source rows and there is a clause for matches (SQL's cardinality rule).
    """
    given = (when_matched, when_not_matched, when_not_matched_by_source)
    clauses = {name: clauses_of(name, one, _ACTIONS[name]) for name, one in zip(_ACTIONS, given, strict=True)}
    runner, frame = engine_or_default(engine), foreign_rows(source, engine)
    guards = Guards(ref, commit_properties, dry_run, at_most, expect, readable_by)
    rows = RowSource(source, table.schema, "source", table.io)
    _check_simple(clauses if frame is not None else {}, on)

    def plan(base: Base, way: Way) -> RowDelta:
        metadata, names = base.metadata, list(on_columns(on))
        options = ChangeOptions(choose_mode(metadata, "merge", way.mode), granularity_of(metadata, way.granularity))
        if frame is not None:
            action = next((c.action for c in clauses["when_matched"]), None)
            inserts, options = bool(clauses["when_not_matched"]), _with_keys(options, metadata, names)
            return frame.merge(base, names, action, inserts=inserts, options=options)
        change = _Merge(metadata.schema, rows.whole(metadata.schema), on, clauses)
        new, options, check = change.inserted(), _with_keys(options, metadata, names), change.spares_rows
        return run_change(base, change, options, "merge", runner, change.where, check_keys=check, more=new)

    return commit_guarded(table, plan, guards, runner, verb="merge", mode=mode, granularity=granularity)


def _check_simple(clauses: Mapping[str, Sequence[Clause]], on: Any) -> None:
    """Refuse what a merge with a Spark DataFrame cannot do."""
    wrong = [
        argument
        for argument, given in clauses.items()
        if len(given) > (argument != "when_not_matched_by_source")
        or any(c.assignments is not None or c.where is not None for c in given)
    ]
    wrong += ["on"] if clauses and isinstance(on, Mapping) and any(a != b for a, b in on.items()) else []
    if wrong:
        expected = "one clause in one word and columns of one name, or the rows as an Arrow table"
        message = "a merge with a Spark DataFrame has no such clause"
        raise UnsupportedError(message, "merge", wrong[0], expected=expected)


def _with_keys(options: ChangeOptions, metadata: TableMetadata, on: Sequence[str]) -> ChangeOptions:
    if options.mode != "equality-delete":
        return options
    return replace(options, key_fields=equality_fields_of(metadata.schema, on))


class _Merge(Change):
    """Update or delete the rows that a clause chooses.

    The index of a row has the number of its clause, and the number of its key in the source: see `_index`.
    """

    replaces = True

    def __init__(self, schema: Schema, source: Any, on: Any, clauses: Mapping[str, tuple[Clause, ...]]) -> None:
        given, pairs = as_table(source, schema, "source", ragged=False), on_columns(on)
        fields = on_fields(schema, given.column_names, pairs)
        self._schema = schema
        self._source, types = typed_source(schema, given, pairs)
        sides = sides_of(schema, types)
        self._matched, self._inserts, self._missed = (
            bind_clauses(name, clauses[name], sides, visible) for name, visible in _VISIBLE.items()
        )
        self._rows = self._named_as_table(pairs, [self._matched, self._inserts, self._missed])
        tested = (f for f in (*self._matched.tested, *self._missed.tested) if f not in fields)
        # The table may have a column of the source's name too, of another type, in which equal keys would not compare.
        keys = [cast_column(self._source.column(pairs[f.name]), f) for f in fields]
        # Rows without a source row are read all.
        self.where = None if self._missed.clauses else range_of_keys(keys, schema, fields, sql=True, all_keys=True)
        self.request = ReadRequest((*fields, *dict.fromkeys(tested)), within=parse_filter(self.where, schema))
        kept = {f for c in (self._matched, self._missed) for f in c.kept_or_read(self._rows.column_names)}
        self.needs = [f for f in schema.fields if f in kept]
        self._keys = KeyNumbers(keys, sql=True)
        self._key_columns = len(fields)
        self._counts = np.bincount(self._keys.of_rows[self._keys.of_rows >= 0], minlength=len(self._keys))

    @property
    def spares_rows(self) -> bool:
        """Whether a row may be left alone whose key another row has that is changed."""
        return any(c.clauses and not c.takes_all for c in (self._matched, self._missed))

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        rows, keys = batch.only_live(*self._keys.matches(batch.table.columns[: self._key_columns]))
        chosen = np.full(len(rows), -1, np.int64)
        if self._matched.clauses:
            check_single(self._counts[keys])
            chosen = self._chosen(self._matched, batch.table, rows, keys)
        alone = np.unique(keys[chosen < 0])
        if self._missed.clauses:
            rows, keys, chosen = self._with_missed(batch, rows, keys, chosen)
        changed = chosen >= 0
        index = self._index(chosen[changed], keys[changed])
        return rows[changed], np.concatenate([index, self._index(np.zeros_like(alone), alone)])

    def _with_missed(self, batch: FileBatch, rows: Numbers, keys: Numbers, chosen: Numbers) -> list[Numbers]:
        """Return the live rows that a clause may be about, the key of each in the source, and its clause."""
        others = np.array(batch.live)
        others[rows] = False
        missed = np.flatnonzero(others)
        found = self._chosen(self._missed, batch.table, missed, None)
        found = np.where(found < 0, -1, found + len(self._matched.clauses))
        order = np.argsort(np.concatenate([rows, missed]), kind="stable")
        pairs = ((rows, missed), (keys, np.full(len(missed), -1, np.int64)), (chosen, found))
        return [np.concatenate(pair)[order] for pair in pairs]

    def stays(self, index: npt.NDArray[np.int64] | None) -> npt.NDArray[np.bool_]:
        assert index is not None
        updates = np.array([c.action == "update" for c in (*self._matched.clauses, *self._missed.clauses)], np.bool_)
        return updates[index // (len(self._keys) + 1)]

    def new_rows(self, current: pa.Table, index: npt.NDArray[np.int64] | None) -> pa.Table:
        assert index is not None
        chosen, keys = index // (len(self._keys) + 1), index % (len(self._keys) + 1) - 1

        def update(number: int, at: npt.NDArray[np.int64]) -> pa.Table:
            rows = current if len(at) == len(index) else current.take(pa.array(at))
            return self._updated(number, rows, keys[at])

        return rows_by_clause(chosen, len(self._matched.clauses) + len(self._missed.clauses), update)

    def inserted(self) -> Callable[[ChangeResult], list[pa.Table]]:
        """Return what returns the rows to insert, by what was found: source rows that match nothing.

        Raises InvalidInputError for source rows that the table cannot hold, whether they match or not.
        """
        if not self._inserts.clauses:
            return lambda _: []
        numbers, rows = inserted_rows(self._inserts, self._rows, self._source, self._schema)
        return lambda found: [rows.filter(pa.array(self.unseen_rows(found.seen)[numbers]))]

    def unseen_rows(self, seen: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.bool_]:
        """Return a mask of the source rows that matched no row of the table."""
        keys = np.concatenate([np.empty(0, np.int64), *seen]) % (len(self._keys) + 1) - 1
        return np.isin(self._keys.of_rows, keys[keys >= 0], invert=True)

    def _index(self, clauses: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return clauses * (len(self._keys) + 1) + keys + 1

    def _chosen(
        self, clauses: BoundClauses, rows: pa.Table, places: npt.NDArray[np.int64], keys: Any
    ) -> npt.NDArray[np.int64]:
        if all(c.test is None for c in clauses.clauses):
            return clauses.first_true(len(places), None, None)
        source = None if keys is None else self._source_of(keys)
        return clauses.first_true(len(places), rows.take(pa.array(places)), source)

    def _updated(self, number: int, current: pa.Table, keys: npt.NDArray[np.int64]) -> pa.Table:
        clauses, before = self._matched, len(self._matched.clauses)
        if number >= before:
            clauses, number = self._missed, number - before
        if clauses.clauses[number].values is None:
            return updated_rows(self._schema, current, self._rows.take(self._first_rows(keys)))
        source = self._source_of(keys) if clauses is self._matched else None
        return updated_rows(self._schema, current, pa.table(clauses.assigned(number, len(keys), current, source)))

    def _source_of(self, keys: npt.NDArray[np.int64]) -> pa.Table:
        return self._source.take(self._first_rows(keys))

    def _first_rows(self, keys: npt.NDArray[np.int64]) -> pa.Array:
        return pa.array(self._keys.first_rows[keys])

    def _named_as_table(self, pairs: Mapping[str, str], clauses: Sequence[BoundClauses]) -> pa.Table:
        """Return the source's columns under the table's names. Refuse one that neither the table nor a clause has."""
        known = [f.name for f in self._schema.fields]
        names = dict(pairs) | {name: name for name in known if name in self._source.column_names}
        used = {*names.values(), *pairs.values()}
        if any(c.whole_rows for c in clauses) or not any(c.clauses for c in clauses):
            for name in self._source.column_names:
                if name not in used and not any(c.reads_source(name) for c in clauses):
                    raise unknown_column(name, known, "source has a column the table does not")
        return pa.table({ours: self._source.column(theirs) for ours, theirs in names.items()})


# --- rows, in this process or in a worker of Spark --------------------------------------------------------------------


def on_columns(on: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Return the source's name of each column to match on. Raises InvalidInputError for what is not a name."""
    pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in as_names(on)}
    for name in (*pairs, *pairs.values()):
        if not isinstance(name, str):
            raise InvalidInputError("not the name of a column", "merge", "on", name)
    return pairs


def on_fields(schema: Schema, source: Sequence[str], on: Mapping[str, str]) -> tuple[NestedField, ...]:
    """Return the table's columns to match on. Raises InvalidInputError if the table or the source lacks one."""
    if not on:
        raise InvalidInputError("a merge needs columns to match on", "merge", "on")
    fields = {f.name: f for f in schema.fields}
    for ours, theirs in on.items():
        if ours not in fields or theirs not in source:
            missing, found = (theirs, "in the table") if ours in fields else (ours, "in neither or only the source")
            like = columns_like(theirs, [n for n in fields if n in source]) or "a column of both"
            raise InvalidInputError("no such column to match on", "column-not-found", missing, found, like)
    return tuple(fields[name] for name in on)


def typed_source(schema: Schema, given: pa.Table, on: Mapping[str, str]) -> tuple[pa.Table, dict[str, IcebergType]]:
    """Return a source whose columns have the table's types, or their own if the table has none of the name.

    Raises InvalidInputError for a value that does not fit, even if its row matches nothing.
    """
    fields = {theirs: schema.find_field(ours) for ours, theirs in on.items()} | {f.name: f for f in schema.fields}
    columns, types = {}, {}
    for name in given.column_names:
        field = fields.get(name)
        if field is None:
            (own,) = schema_from_arrow(pa.schema([given.schema.field(name)])).fields
            field = own.model_copy(update={"required": False})
        columns[name], types[name] = cast_column(given.column(name), field), field.field_type
    return pa.table(columns), types


def fitting_rows(schema: Schema, source: pa.Table) -> pa.Table:
    """Return the source with the table's types. Refuse a value that does not fit, even if its row matches nothing."""
    known = [f.name for f in schema.fields]
    for column in source.column_names:
        if column not in known:
            raise unknown_column(column, known, "source has a column the table does not")
    return typed_source(schema, source, {})[0]


def updated_rows(schema: Schema, current: pa.Table, source: pa.Table) -> pa.Table:
    """Return rows of the table with the source's columns in place of theirs; `current` has those that it lacks."""
    names = [f.name for f in schema.fields]
    columns = {n: source.column(n) if n in source.column_names else current.column(n) for n in names}
    return align(pa.table(columns), schema)


def check_single(counts: npt.NDArray[np.int64]) -> None:
    """Raise InvalidInputError if a row of the table matches several source rows, as SQL does.

    Parameters
    ----------
    counts: how many source rows each matched row of the table matches.
    """
    if len(counts) and counts.max() > 1:
        message, expected = "a table row matches several source rows", "one source row for each key"
        raise InvalidInputError(message, "merge-cardinality", "on", int(counts.max()), expected)
