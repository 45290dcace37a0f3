"""The clauses of a MERGE: what becomes of rows that match, of source rows that do not, and of rows without a source."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema, assign_fresh_schema_ids, index_by_id
from pyiceberg.types import IcebergType, NestedField, StructType

from deletekit.errors import InvalidInputError
from deletekit.filters.expression import Value, columns_of
from deletekit.filters.filter import evaluate, filter_field_ids, parse_test
from deletekit.filters.tokens import bad_filter
from deletekit.rows.input_rows import align
from deletekit.rows.keys import column_at
from deletekit.table.column_names import columns_like
from deletekit.table.types import struct_paths
from deletekit.verbs.shared.assignments import assigned_columns, bind_assignments

Action = Literal["update", "delete", "insert"]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN clause of a `merge`: the first of its list whose condition is true decides about a row.

    Parameters
    ----------
    action: `"update"`, `"delete"` or `"insert"`.
    assignments: column of the table -> new value, as in `update`: a value, or an expression, such as
        `dk.expr("target.total + source.amount")`. None takes the source's columns by name. An insert gives columns that
        are not named their write default, else null.
    where: condition as text, such as `"source.amount > target.amount"`; None is true for every row. One that is
        unknown, because of NULL, is not true.

    Expressions have the language of filters, with `source.` and `target.` before a column that both sides have.

    Examples
    --------
    >>> add = dk.Clause("update", {"value": dk.expr("target.value + source.value")}, where="target.id > 1")
    >>> source = [{"id": 1, "value": 5.0}, {"id": 2, "value": 5.0}]
    >>> commit = dk.merge(users, source, on="id", when_matched=add, when_not_matched=None)
    >>> sorted(dk.scan(users, "id < 3").to_arrow()["value"].to_pylist())
    [100.0, 205.0]
    """

    action: Action
    assignments: Mapping[str, Any] | None = None
    where: str | None = None


Clauses = str | Clause | Sequence[str | Clause] | None


def clauses_of(argument: str, given: Clauses, actions: Sequence[str]) -> tuple[Clause, ...]:
    """Return an argument of `merge` as clauses. Raises InvalidInputError for one that cannot be there.

    Parameters
    ----------
    actions: what clauses of this argument may do.
    """
    listed = () if given is None else (given,) if isinstance(given, str | Clause) else tuple(given)
    clauses = tuple(c if isinstance(c, Clause) else Clause(c) for c in listed)  # type: ignore[arg-type]  # checked here
    for number, clause in enumerate(clauses):
        problem: tuple[str, Any, Any] | None = None
        if clause.action not in actions:
            problem = "unknown merge clause", clause.action, " or ".join(actions)
        elif clause.action == "delete" and clause.assignments is not None:
            problem = "a delete assigns nothing", clause.assignments, None
        elif clause.assignments is not None and not clause.assignments:
            problem = "nothing to assign", clause.assignments, "column names and values"
        elif clause.where is None and number < len(clauses) - 1:
            problem = "clauses after one without a condition are never reached", len(clauses), number + 1
        elif argument == "when_not_matched_by_source" and clause.action == "update" and clause.assignments is None:
            problem = "there is no source row to take columns from", clause.action, "assignments"
        if problem is not None:
            raise InvalidInputError(problem[0], "merge", argument, problem[1], problem[2])
    return clauses


@dataclass(frozen=True, slots=True)
class _Bound:
    """A clause whose texts are read; a value is a bound expression or a constant."""

    action: str
    test: BooleanExpression | None
    values: Mapping[str, Value | pa.Scalar] | None


@dataclass(frozen=True, slots=True)
class _Sides:
    """The columns of both sides under one schema, in which the source's have ids of their own."""

    target: Schema
    source: Schema
    both: Schema
    first_source_id: int

    def column_of(self, target: pa.Table | None, source: pa.Table | None) -> Callable[[int], Any]:
        """Return what finds a column of either table by its id."""

        def find(field_id: int) -> Any:
            is_target = field_id < self.first_source_id
            table, schema = (target, self.target) if is_target else (source, self.source)
            assert table is not None  # a clause reads only the sides that it sees
            return column_at(table, schema, field_id)

        return find


def sides_of(target: Schema, source: Mapping[str, IcebergType]) -> _Sides:
    """Return the sides of a merge, whose rows conditions and values read; `source` has the types of its columns."""
    first = max(index_by_id(target), default=0) + 1
    numbers = count(first)
    columns = (
        NestedField(field_id=i, name=name, field_type=kind, required=False)
        for i, (name, kind) in enumerate(source.items(), 1)
    )
    fresh = assign_fresh_schema_ids(Schema(*columns), next_id=lambda: next(numbers))
    roots = [
        NestedField(field_id=next(numbers), name=name, field_type=StructType(*schema.fields), required=False)
        for name, schema in (("target", target), ("source", fresh))
    ]
    return _Sides(target, fresh, Schema(*roots), first)


@dataclass(frozen=True)
class BoundClauses:
    """The clauses of one argument, bound to the columns of both sides."""

    clauses: tuple[_Bound, ...]
    sides: _Sides
    read_ids: frozenset[int]

    @property
    def takes_all(self) -> bool:
        """Whether no row is left alone: there is a clause without a condition."""
        return bool(self.clauses) and self.clauses[-1].test is None

    @property
    def whole_rows(self) -> bool:
        """Whether a clause takes the source's columns by name."""
        return any(c.values is None and c.action != "delete" for c in self.clauses)

    @property
    def tested(self) -> tuple[NestedField, ...]:
        """The columns of the table that conditions read."""
        paths = struct_paths(self.sides.target)
        ids = (i for c in self.clauses if c.test is not None for i in filter_field_ids(c.test))
        return tuple(dict.fromkeys(paths[i][0] for i in ids if i in paths))

    def kept_or_read(self, given: Collection[str]) -> Iterator[NestedField]:
        """Yield the columns of the table that an update keeps, or that its values read.

        Parameters
        ----------
        given: the columns of the table that the source has.
        """
        paths = struct_paths(self.sides.target)
        for clause in (c for c in self.clauses if c.action == "update"):
            sets = given if clause.values is None else clause.values
            yield from (f for f in self.sides.target.fields if f.name not in sets)
            reads = columns_of(tuple((clause.values or {}).values()))
            yield from (paths[c.field_id][0] for c in reads if c.field_id in paths)

    def reads_source(self, name: str) -> bool:
        """Whether a condition or value reads a column of the source."""
        paths = struct_paths(self.sides.source)
        return any(i in paths and paths[i][0].name == name for i in self.read_ids)

    def first_true(self, rows: int, target: pa.Table | None, source: pa.Table | None) -> Numbers:
        """Return for each row the number of the first clause whose condition is true, -1 for none."""
        chosen, is_open = np.full(rows, -1, np.int64), np.ones(rows, np.bool_)
        column_of = self.sides.column_of(target, source)
        for number, clause in enumerate(self.clauses):
            is_true = is_open
            if clause.test is not None:
                is_true = is_open & np.asarray(evaluate(clause.test, column_of, rows))
            chosen[is_true] = number
            is_open = is_open & ~is_true
        return chosen

    def assigned(
        self, number: int, rows: int, target: pa.Table | None, source: pa.Table | None
    ) -> dict[str, Any] | None:
        """Return the columns that a clause assigns; None if it takes the source's."""
        values = self.clauses[number].values
        if values is None:
            return None
        return assigned_columns(values, rows, self.sides.column_of(target, source))


def bind_clauses(argument: str, clauses: Iterable[Clause], sides: _Sides, visible: tuple[str, ...]) -> BoundClauses:
    """Read the conditions and values of clauses.

    Raises InvalidInputError, with the place in the text, for what cannot be read, for a column that is not there or is
    on both sides, and for a value of a type that its column cannot have.
    """
    column, bound = _Names(sides, visible), []
    for clause in clauses:
        test = None if clause.where is None else parse_test(clause.where, sides.both, column, argument)
        values = None
        if clause.assignments is not None:
            values = bind_assignments(clause.assignments, sides.target, sides.both, column, argument)
        bound.append(_Bound(clause.action, test, values))
    reads = columns_of(tuple((c.test, *(c.values or {}).values()) for c in bound))
    return BoundClauses(tuple(bound), sides, frozenset(column.field_id for column in reads))


class _Names:
    """Finds the full name of a column that an expression names."""

    def __init__(self, sides: _Sides, visible: tuple[str, ...]) -> None:
        self._schema = sides.both
        self._visible = visible

    def __call__(self, name: str) -> str:
        side = name.partition(".")[0]
        if side in self._visible and self._has(name):
            return name
        found = [full for each in self._visible if self._has(full := f"{each}.{name}")]
        if len(found) == 1:
            return found[0]
        if found:
            raise bad_filter("both sides have this column", name, " or ".join(found))
        if side in ("target", "source") and side not in self._visible:
            raise bad_filter(f"there is no {side} row here", name, f"a column of {' or '.join(self._visible)}")
        known = [n for n in self._schema.column_names if n.partition(".")[0] in self._visible and "." in n]
        raise bad_filter("no such column", name, columns_like(name, known))

    def _has(self, full: str) -> bool:
        try:
            found = self._schema.find_field(full)
            self._schema.accessor_for_field(found.field_id)
        except ValueError:
            return False
        return True


def inserted_rows(clauses: BoundClauses, rows: pa.Table, source: pa.Table, schema: Schema) -> tuple[Numbers, pa.Table]:
    """Return the source rows that a clause inserts, by their number, and what they become in the table.

    Parameters
    ----------
    rows: the source's columns under the table's names.
    """
    chosen = clauses.first_true(len(source), None, source)
    numbers = np.flatnonzero(chosen >= 0)

    def insert(clause: int, at: Numbers) -> pa.Table:
        taken = pa.array(numbers[at])
        columns = clauses.assigned(clause, len(at), None, source.take(taken))
        return align(rows.take(taken) if columns is None else pa.table(columns), schema)

    return numbers, rows_by_clause(chosen[numbers], len(clauses.clauses), insert)


def rows_by_clause(chosen: Numbers, count: int, make: Callable[[int, Numbers], pa.Table]) -> pa.Table:
    """Return the rows that clauses make, in order.

    Parameters
    ----------
    chosen: for each row the number of its clause, of `count`.
    make: makes the rows of a clause that has some, or none of the first: from its number and the places of the rows.
    """
    places = {number: np.flatnonzero(chosen == number) for number in range(count)}
    used = {number: at for number, at in places.items() if len(at)} or {0: places[0]}
    made = [make(number, at) for number, at in used.items()]
    if len(made) == 1:
        return made[0]
    return pa.concat_tables(made).take(pa.array(np.argsort(np.concatenate([*used.values()]))))
