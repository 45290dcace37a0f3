"""Check and match the rows of a MERGE, in this process or in a worker, and update the matched rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from deletekit.deletes.input_rows import align, cast_column
from deletekit.errors import InvalidInputError
from deletekit.table.column_names import as_names, columns_like, unknown_column


def on_fields(schema: Schema, source: Sequence[str], on: str | Sequence[str]) -> tuple[NestedField, ...]:
    """Return the table's columns to match on. Raises InvalidInputError if the table or the source lacks one."""
    if not on:
        raise InvalidInputError("a merge needs columns to match on", kind="merge", field="on")
    return tuple(_on_field(schema, source, name) for name in as_names(on))


def fitting_rows(schema: Schema, source: pa.Table) -> pa.Table:
    """Return the source with the table's types. Refuse a value that does not fit, even if its row matches nothing."""
    fields = {f.name: f for f in schema.fields}
    for column in source.column_names:
        if column not in fields:
            raise unknown_column(column, list(fields), "source has a column the table does not")
    return pa.table({n: cast_column(source.column(n), fields[n]) for n in source.column_names})


def updated_rows(schema: Schema, current: pa.Table, source: pa.Table) -> pa.Table:
    """Return rows of the table with the source's columns in place of theirs."""
    columns = {n: source.column(n) if n in source.column_names else current.column(n) for n in current.column_names}
    return align(pa.table(columns), schema)


def check_single(counts: npt.NDArray[np.int64]) -> None:
    """Raise InvalidInputError if a row of the table matches several source rows, as SQL does.

    Parameters
    ----------
    counts: how many source rows each matched row of the table matches.
    """
    if len(counts) and counts.max() > 1:
        raise InvalidInputError(
            "a table row matches several source rows",
            kind="merge-cardinality",
            field="on",
            found=int(counts.max()),
            expected="one source row for each key",
        )


def _on_field(schema: Schema, source: Sequence[str], name: str) -> NestedField:
    field = next((f for f in schema.fields if f.name == name), None)
    if field is None or name not in source:
        raise InvalidInputError(
            "no such column to match on",
            kind="column-not-found",
            field=name,
            found="in the table" if field else "in neither or only the source",
            expected=columns_like(name, [f.name for f in schema.fields if f.name in source]) or "a column of both",
        )
    return field
