"""UPDATE: change rows in one commit: a delete and an insert at one sequence number."""

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.swap import Commit
from deletekit.deletes.delete_modes import Change, ChangeOptions
from deletekit.deletes.read import FileBatch, ReadRequest
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.filters.filter import Filter
from deletekit.filters.literals import column_named
from deletekit.rows.input_rows import align
from deletekit.rows.keys import column_at
from deletekit.rows.write_context import granularity_of
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table
from deletekit.verbs.shared.assignments import assigned_columns, bind_assignments, check_assigned
from deletekit.verbs.shared.guards import Guards, Way, commit_guarded
from deletekit.verbs.shared.row_changes import change_where, choose_mode, required_filter

Assignment = Any | Callable[[pa.Table], Any]


def update(
    table: Table,
    assignments: Mapping[str, Assignment],
    *,
    where: Filter,
    mode: str | None = None,
    ref: str = MAIN,
    on: str | Sequence[str] | None = None,
    granularity: str | None = None,
    commit_properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    at_most: int | str | None = None,
    expect: int | None = None,
    readable_by: str | Sequence[str] | None = None,
    engine: Engine | None = None,
) -> Commit:
    """Change columns of the rows for which a filter is true, in one commit.

    Parameters
    ----------
    assignments: column name -> new value: a value (None is NULL); an expression, such as `dk.expr("upper(name)")`; or a
        function of the matched rows (a pyarrow Table of all columns) that returns an array of as many values. A text is
        a value. One that reads as an expression, such as `"upper(name)"` or the name of a column, is refused:
        `dk.expr("'name'")` stores it, as does `pa.scalar(text)` for a text from outside.
    where: pyiceberg expression, or text as in SQL's WHERE; `"true"` updates every row.
    mode: as in `delete`; None takes `write.update.mode`. The delete and the new rows get the same sequence number, so
        an equality delete does not hide the rows written with it. In v3, rows keep their `_row_id`,
        except with equality deletes, which do not know it.
    on: key columns of equality deletes; default the filter's columns.
    ref, granularity, commit_properties, dry_run, at_most, expect, readable_by: as in `delete`.

    Under `write.update.isolation-level` = `serializable`, the default, the outcome is that of everything that others
    commit meanwhile first, and this update then; `snapshot` leaves matching rows alone that others insert meanwhile
    (equality deletes are always serializable). Under both, no row comes back that someone else deleted, and no change
    of a row that someone else made first is lost.

    Raises InvalidInputError before anything is written for a bad filter, an unknown column or a value that does not
    fit; CommitConflictError when too many races are lost. Spec: "Row-level Deletes", "Row Lineage".

    Examples
    --------
    >>> commit = dk.update(users, {"value": 0.5}, where="id = 2")
    >>> dk.scan(users, "id = 2", columns="value").to_arrow().to_pylist()
    [{'value': 0.5}]
    """
    runner, guards = engine_or_default(engine), Guards(ref, commit_properties, dry_run, at_most, expect, readable_by)

    def plan(base: Base, way: Way) -> RowDelta:
        metadata = base.metadata
        options = ChangeOptions(choose_mode(metadata, "update", way.mode), granularity_of(metadata, way.granularity))
        _, bound = found = required_filter(where, metadata.schema)
        change = _Update(bound, assignments, metadata.schema)
        return change_where(base, found, change, "update", options, runner, names=on or None)

    return commit_guarded(table, plan, guards, runner, verb="update", mode=mode, granularity=granularity)


class _Update(Change):
    """Assign the new values to the rows for which the filter is true."""

    replaces = True

    def __init__(self, bound: BooleanExpression, assignments: Mapping[str, Assignment], schema: Schema) -> None:
        self.request = ReadRequest((), bound)
        self._schema = schema
        if not assignments:
            raise InvalidInputError("nothing to assign", "assignments", "assignments")
        check_assigned(assignments, schema)
        self._functions = {name: value for name, value in assignments.items() if callable(value)}
        plain = {name: value for name, value in assignments.items() if name not in self._functions}
        # Now, before any file is read, and even if no row will match.
        self._values = bind_assignments(plain, schema, schema, lambda name: column_named(name, schema))

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], None]:
        return batch.live, None

    def new_rows(self, current: pa.Table, _: Any) -> pa.Table:
        columns = {name: current.column(name) for name in current.column_names}
        columns |= assigned_columns(self._values, len(current), lambda i: column_at(current, self._schema, i))
        columns |= {name: _called(function, current, name) for name, function in self._functions.items()}
        try:
            made = pa.table(columns)
        except (pa.ArrowException, TypeError) as e:
            names, message = ", ".join(self._functions), "assignment made values that are not columns"
            raise InvalidInputError(message, "assignments", names, str(e)) from e
        return align(made, self._schema)


def _called(function: Callable[[pa.Table], Any], current: pa.Table, name: str) -> Any:
    made, wanted = function(current), f"{len(current)} values"
    is_several = isinstance(made, Sized) and not isinstance(made, str | bytes)
    found = f"{len(made)} values" if is_several else type(made).__name__
    if found != wanted:
        raise InvalidInputError("assignment did not make a value for each row", "assignments", name, found, wanted)
    return made
