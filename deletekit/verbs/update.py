"""UPDATE: change rows in one commit: a delete and an insert at one sequence number."""

from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.deletes.delete_modes import Change, ChangeOptions
from deletekit.deletes.read import FileBatch, ReadRequest
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.filters.filter import Filter, reads_as_expression
from deletekit.rows.input_rows import align, as_constant
from deletekit.rows.write_context import granularity_of
from deletekit.table.column_names import unknown_column
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table
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
    engine: Engine | None = None,
) -> Commit:
    """Change columns of the rows for which a filter is true, in one commit.

    Parameters
    ----------
    assignments: column name -> new value: a constant (None is NULL), or a function of the matched rows (a pyarrow Table
        of all columns) that returns an array of as many values. A text is a constant. One that reads as an expression,
        such as `"upper(name)"` or the name of a column, is refused; `pa.scalar(text)` is always this very text.
    where: pyiceberg expression, or text as in SQL's WHERE; `"true"` updates every row.
    mode: as in `delete`; None takes `write.update.mode`. The delete and the new rows get the same sequence number, so
        an equality delete does not hide the rows written with it. In v3, rows keep their `_row_id`,
        except with equality deletes, which do not know it.
    on: key columns of equality deletes; default the filter's columns.
    ref, granularity, commit_properties, dry_run: as in `delete`.

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
    runner = engine_or_default(engine)

    def plan(base: Base) -> RowDelta:
        metadata = base.metadata
        options = ChangeOptions(choose_mode(metadata, "update", mode), granularity_of(metadata, granularity))
        _, bound = found = required_filter(where, metadata.schema)
        change = _Update(bound, assignments, metadata.schema)
        return change_where(base, found, change, "update", options, runner, names=on or None)

    return commit(plan_change(table, plan, ref=ref, properties=commit_properties, dry_run=dry_run))


class _Update(Change):
    """Assign the new values to the rows for which the filter is true."""

    replaces = True

    def __init__(self, bound: BooleanExpression, assignments: Mapping[str, Assignment], schema: Schema) -> None:
        self.request = ReadRequest((), bound)
        self._assignments = assignments
        self._schema = schema
        names = [f.name for f in schema.fields]
        for name in assignments:
            if name not in names:
                raise unknown_column(name, names, "no such column to assign")
        if not assignments:
            raise InvalidInputError("nothing to assign", "assignments", "assignments")
        for field in schema.fields:
            _check_text(assignments.get(field.name), field, schema)
        # Now, before any file is read, and even if no row will match.
        self._constants = {
            f.name: as_constant(assignments[f.name], f)
            for f in schema.fields
            if f.name in assignments and not callable(assignments[f.name])
        }

    def match(self, batch: FileBatch) -> tuple[npt.NDArray[np.bool_], None]:
        return batch.live, None

    def new_rows(self, current: pa.Table, _: Any) -> pa.Table:
        columns = {name: current.column(name) for name in current.column_names}
        for name, value in self._assignments.items():
            constant = self._constants.get(name)
            columns[name] = _called(value, current, name) if constant is None else pa.repeat(constant, len(current))
        try:
            made = pa.table(columns)
        except (pa.ArrowException, TypeError) as e:
            names, message = ", ".join(self._assignments), "assignment made values that are not columns"
            raise InvalidInputError(message, "assignments", names, str(e)) from e
        return align(made, self._schema)


def _check_text(value: Any, field: NestedField, schema: Schema) -> None:
    """Refuse a constant text that a merge would take for an expression: one of the two is not what was meant."""
    if isinstance(value, str) and isinstance(field.field_type, StringType) and reads_as_expression(value, schema):
        raise InvalidInputError(
            "a text is a constant here, and this one reads as an expression",
            "assignments",
            field.name,
            value,
            "a function of the rows, or merge, for a computed value; pa.scalar(text) for this very text",
        )


def _called(function: Callable[[pa.Table], Any], current: pa.Table, name: str) -> Any:
    made = function(current)
    count = len(made) if isinstance(made, Sized) and not isinstance(made, str | bytes) else None
    if count != len(current):
        raise InvalidInputError(
            "assignment did not make a value for each row",
            "assignments",
            name,
            type(made).__name__ if count is None else f"{count} values",
            f"{len(current)} values",
        )
    return made
