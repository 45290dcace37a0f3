"""Split a batch of changes by the table that each row is for, and make a table that is missing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from deletekit.errors import InvalidInputError
from deletekit.rows.input_rows import tabular
from deletekit.stream.change_rows import UNSENT_COLUMNS
from deletekit.stream.sources.left_out import truncates
from deletekit.table.catalog import Catalog
from deletekit.table.identifier import dotted, to_identifier
from deletekit.table.table import Table, load_table
from deletekit.verbs.append import create_table

Create = Mapping[str, Any] | Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Router:
    """Tell the table of each row: by a column or a function, and by a mapping from its names."""

    route: str | Callable[[Any], Any]
    tables: Mapping[str, str] | None

    @property
    def column(self) -> str | None:
        """The column of the route, if it is one."""
        return self.route if isinstance(self.route, str) else None

    def parts(self, changes: Any) -> dict[str, Any]:
        """Return the rows of each table, in their order, by `namespace.table`. Raise InvalidInputError."""
        rows = changes if isinstance(changes, list | pa.Table) else _table(changes)
        if isinstance(rows, pa.Table) and truncates(rows):
            raise no_route("a batch that truncates does not say which table", "a truncation", "a sink for each table")
        names = self.names(rows)
        parts: dict[str, list[int]] = {}
        for number, name in enumerate(names):
            parts.setdefault(name, []).append(number)
        tables: dict[str, list[int]] = {}
        for name, numbers in parts.items():
            tables.setdefault(self.identifier(name), []).extend(numbers)
        return {name: _take(rows, sorted(numbers)) for name, numbers in tables.items()}

    def names(self, rows: Any) -> list[Any]:
        """Return the name that each row has for its table. Raise InvalidInputError."""
        if callable(self.route):
            given = self.route(rows)
            names = given.to_pylist() if isinstance(given, pa.Array | pa.ChunkedArray) else list(given)
            if len(names) != len(rows):
                message, expected = "a route names a table for each row", f"{len(rows)} names"
                raise no_route(message, len(names), expected)
            return names
        if isinstance(rows, list):
            return [row.get(self.route) for row in rows]
        if self.route not in rows.column_names:
            raise no_route("changes lack the column of their table", None, self.route)
        named: list[Any] = rows.column(self.route).to_pylist()
        return named

    def identifier(self, name: Any) -> str:
        """Return the table of a name, as `namespace.table`. Raise InvalidInputError."""
        if not isinstance(name, str):
            raise no_route("a row names no table", name, "a text")
        if self.tables is None:
            return dotted(to_identifier(name))
        if name not in self.tables:
            raise no_route("a row is for a name that has no table", name, ", ".join(self.tables))
        return dotted(to_identifier(self.tables[name]))


def without_others(rows: Any, known: Container[str], aside: Container[str | None], route: str | None) -> Any:
    """Return the rows of one table without the columns of others, which have no value here, and without the route."""
    if isinstance(rows, list):
        none = {n for n in dict.fromkeys(n for r in rows for n in r) if all(r.get(n) is None for r in rows)}
        gone = others((*none, route), known, aside)
        return [{n: v for n, v in row.items() if n not in gone} for row in rows]
    columns = zip(rows.column_names, rows.columns, strict=True)
    gone = others([n for n, c in columns if n == route or c.null_count == len(rows)], known, aside)
    return rows.drop_columns(sorted(gone))


def others(names: Iterable[str | None], known: Container[str], aside: Container[str | None]) -> set[str]:
    """Return those of some columns that are neither the table's nor the stream's."""
    return {n for n in names if n is not None and n not in known and n not in aside and n not in UNSENT_COLUMNS}


def created_table(catalog: Catalog, name: str, create: Create | None) -> Table:
    """Create a table, or load it if another process was faster. Raise InvalidInputError for arguments that are none."""
    given = create(name) if callable(create) else create
    if not isinstance(given, Mapping) or "schema" not in given:
        message, expected = "a table that is missing needs a schema", "the arguments of create_table, with schema"
        raise InvalidInputError(message, kind="fan-out-create", field="create", found=name, expected=expected)
    try:
        return create_table(catalog, name, **given)
    except InvalidInputError as e:
        if e.kind != "table-exists":
            raise
        return load_table(catalog, name)
    except TypeError as e:
        message, expected = "not the arguments of create_table", "schema, format_version, partition_by, properties"
        raise InvalidInputError(message, kind="fan-out-create", field="create", found=str(e), expected=expected) from e


def _table(changes: Any) -> pa.Table:
    with tabular("changes"):
        return pa.table(changes)


def _take(rows: Any, numbers: list[int]) -> Any:
    return [rows[n] for n in numbers] if isinstance(rows, list) else rows.take(pa.array(np.array(numbers, np.int64)))


def no_route(message: str, found: object, expected: object) -> InvalidInputError:
    """Return the error for rows whose table is not known."""
    return InvalidInputError(message, kind="fan-out-route", field="route", found=found, expected=expected)
