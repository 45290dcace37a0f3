"""Give the rows of a lazy result as batches, as Arrow, and to what takes Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deletekit.errors import InvalidInputError, UnsupportedError
from deletekit.formats.tabular import BATCH_ROWS
from deletekit.html_table import html_table, number_columns
from deletekit.notebook_html import facts_html
from deletekit.public import argument, public_methods
from deletekit.table.python_values import LEAST, has_least, has_type, inexact_integer, no_such_value, python_rows
from deletekit.text import literal

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_EXACT_INTEGERS = "to_pandas(integer_object_nulls=True), or types_mapper=pandas.ArrowDtype"
_SHOWN_ROWS = 10
_NOT_PANDAS = "to_arrow, to_polars, or a filter without it"


@public_methods
class ArrowResult(ABC):
    """Rows that are read when they are asked for, each time again.

    It speaks Arrow's C stream interface, so what takes Arrow takes a result: `pa.table(result)`,
    `pl.DataFrame(result)`, `duckdb.from_arrow(result)`. Iteration gives the batches of `to_batches`.
    """

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""

    @abstractmethod
    def _tables(self) -> Iterator[pa.Table]:
        """Yield the rows."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most 1,048,576 rows; threads read ahead."""
        for table in self._tables():
            yield from table.to_batches(BATCH_ROWS)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows, which reads files as it is asked for batches."""
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """Return all rows as one Arrow table."""
        return pa.concat_tables([no_rows(self.arrow_schema), *self._tables()])

    def to_pandas(self, **options: Any) -> Any:
        """Return all rows as a pandas DataFrame; `options` are those of `pyarrow.Table.to_pandas`.

        Raises InvalidInputError for an option that it has not, or that it cannot follow; UnsupportedError, naming the
        column, for a day or time that pandas has no value for, and for an integer that would change: beside a NULL,
        pandas takes integers for doubles, unless an option says otherwise.
        """
        rows = self.to_arrow()
        own_types = options.get("types_mapper") or (lambda _: None)
        for field, column in zip(rows.schema, rows.columns, strict=True):
            if has_least(column):
                raise no_such_value("pandas takes this value for none", field, LEAST, _NOT_PANDAS)
            if options.get("integer_object_nulls") or own_types(field.type) is not None:
                continue
            if (number := inexact_integer(column)) is not None:
                message = "beside a NULL, pandas takes this integer for a double, which is another number"
                raise no_such_value(message, field, number, _EXACT_INTEGERS)
        try:
            return rows.to_pandas(**options)
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as e:
            if not options:
                message = "pandas cannot hold these rows"
                raise UnsupportedError(message, "column-value", found=str(e), expected=_NOT_PANDAS) from e
            message, field = "to_pandas() cannot follow these options", ", ".join(options)
            raise InvalidInputError(message, "argument", field, str(e)) from e

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a polars DataFrame. `scan_polars` gives a lazy frame."""
        import polars as pl  # noqa: PLC0415  # takes a tenth of a second

        return pl.DataFrame(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation that reads the result once, as a query asks for rows.

        Parameters
        ----------
        connection: where the relation is; None takes DuckDB's default connection.

        Raises UnsupportedError, naming the column, for nanoseconds with a zone: DuckDB would cut them to microseconds.
        """
        import duckdb  # noqa: PLC0415  # an optional package

        argument("to_duckdb", "connection", connection, duckdb.DuckDBPyConnection | None)
        for field in self.arrow_schema:
            if has_type(field.type, lambda t: pa.types.is_timestamp(t) and t.unit == "ns" and t.tz is not None):
                message, expected = "DuckDB cuts timestamptz_ns to microseconds", "to_arrow, or the other columns"
                raise UnsupportedError(message, "column-type", field.name, expected=expected)
        return (connection or duckdb).from_arrow(self.to_reader())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        try:
            return self.to_reader().__arrow_c_stream__(requested_schema)
        except (TypeError, ValueError, pa.ArrowException) as e:
            message, expected = "the result cannot give its rows in this schema", str(self.arrow_schema)
            raise InvalidInputError(message, "schema", "schema", str(e), expected) from e

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.to_batches()

    def _facts_and_rows(self) -> tuple[dict[str, Any], Iterator[pa.Table]]:
        """Return what a notebook shows above the first rows, and the rows."""
        return {"columns": ", ".join(f"{f.name}: {f.type}" for f in self.arrow_schema)}, self._tables()

    def _repr_html_(self) -> str:
        facts, tables = self._facts_and_rows()
        heads = (python_rows(batch.slice(0, _SHOWN_ROWS)) for table in tables for batch in table.to_batches())
        rows = list(islice(chain.from_iterable(heads), _SHOWN_ROWS))
        values = [list(map(literal, row.values())) for row in rows]
        numbers = number_columns(list(row.values()) for row in rows)
        first_rows = html_table(self.arrow_schema.names, values, caption="the first rows", numbers=numbers)
        return f"{facts_html(repr(self), facts)}\n{first_rows}"


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; the schema's own `empty_table()` fails with a uuid inside a struct or list."""
    return pa.Table.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
