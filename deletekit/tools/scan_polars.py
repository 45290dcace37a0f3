"""SELECT as polars plans it: a lazy frame that reads only the columns, rows and files that its query needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

from pyiceberg import expressions as ex

from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.table.metadata import MAIN
from deletekit.table.table import Table
from deletekit.verbs.scan import Scan, narrowed, scan
from deletekit.verbs.shared.arrow_result import no_rows

if TYPE_CHECKING:
    import polars as pl

_COMPARISONS: dict[str, Callable[..., ex.BooleanExpression]] = {
    "Eq": ex.EqualTo,
    "Gt": ex.GreaterThan,
    "GtEq": ex.GreaterThanOrEqual,
    "Lt": ex.LessThan,
    "LtEq": ex.LessThanOrEqual,
    "StartsWith": ex.StartsWith,
}
_PLAIN = (int, str, bool)
"""Types of values that are the same in a filter of polars and in one of Iceberg."""


def scan_polars(
    table: Table,
    *,
    snapshot_id: int | None = None,
    ref: str = MAIN,
    as_of: int | str | datetime | None = None,
    engine: Engine | None = None,
) -> pl.LazyFrame:
    """Return a lazy frame over a table's live rows.

    A query reads the columns that it needs, leaves out files and row groups that its filter cannot match, and stops
    after its first rows where it asks for these.

    Parameters
    ----------
    snapshot_id, ref, as_of, engine: as in `scan`. The frame keeps to the snapshot that is current now.

    Raises InvalidInputError or NotFoundError as `scan` does.
    """
    import polars as pl  # noqa: PLC0415  # takes a tenth of a second
    from polars.io.plugins import register_io_source  # noqa: PLC0415

    whole = scan(table, snapshot_id=snapshot_id, ref=ref, as_of=as_of, engine=engine)

    def source(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        del batch_size
        columns = list(with_columns or whole.columns)
        wanted = _asked(whole, columns, predicate, n_rows)
        for batch in wanted.to_batches():
            frame = pl.DataFrame(batch)
            yield frame if predicate is None else frame.filter(predicate)

    return register_io_source(source, schema=dict(pl.DataFrame(no_rows(whole.arrow_schema)).schema))


def _asked(whole: Scan, columns: Sequence[str], predicate: pl.Expr | None, n_rows: int | None) -> Scan:
    """Return the scan that has all rows of a predicate, perhaps more; without one, the first rows."""
    if predicate is None:
        return narrowed(whole, columns, None, n_rows)
    with suppress(InvalidInputError):  # a value that the column's type does not hold
        return narrowed(whole, columns, _filter(predicate), None)
    return narrowed(whole, columns, None, None)


def _filter(predicate: pl.Expr) -> ex.BooleanExpression | None:
    """Return a filter that is true for every row for which a predicate is; None where that is not known."""
    with catch_warnings():
        simplefilter("ignore")  # polars promises nothing about the text; what is unknown in it is not pushed down
        tree = json.loads(predicate.meta.serialize(format="json"))
    operands = predicate.meta.pop()[::-1]
    match tree:
        case {"BinaryExpr": {"op": "And" | "Or" as op}}:
            sides = [side for side in map(_filter, operands) if side is not None]
            if len(sides) < 2:
                return next(iter(sides), None) if op == "And" else None
            return ex.And(*sides) if op == "And" else ex.Or(*sides)
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op)}}:
            return _compared(ex.Reference(name), op, operands[1:])
        case {"Function": {"input": [{"Column": str(name)}, *_], "function": {"Boolean": "IsNull"}}}:
            return ex.IsNull(term=ex.Reference(name))
        case {"Function": {"input": [{"Column": str(name)}, *_], "function": {"Boolean": "IsNotNull"}}}:
            return ex.NotNull(term=ex.Reference(name))
        case {"Function": {"input": [{"Column": str(name)}, *_], "function": {"Boolean": {"IsIn": _}}}}:
            return _compared(ex.Reference(name), "IsIn", operands[1:])
        case {"Function": {"input": [{"Column": str(name)}, *_], "function": {"Boolean": {"IsBetween": _}}}}:
            low = _compared(ex.Reference(name), "GtEq", operands[1:2])
            high = _compared(ex.Reference(name), "LtEq", operands[2:])
            return ex.And(low, high) if low and high else low or high
        case {"Function": {"input": [{"Column": str(name)}, *_], "function": {"StringExpr": "StartsWith"}}}:
            return _compared(ex.Reference(name), "StartsWith", operands[1:])
    return None


def _compared(term: ex.Reference, operation: str, operands: Sequence[pl.Expr]) -> ex.BooleanExpression | None:
    import polars as pl  # noqa: PLC0415

    if len(operands) != 1 or not operands[0].meta.is_literal():
        return None
    value = pl.select(operands[0]).item()
    if operation == "IsIn":
        values = value.to_list()
        return ex.In(term=term, values=values) if all(isinstance(v, _PLAIN) for v in values) else None
    made = _COMPARISONS.get(operation)
    return made(term=term, value=value) if made and isinstance(value, _PLAIN) else None
