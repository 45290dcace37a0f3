"""Open the table or catalog that a command's arguments name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

import deletekit as dk
from deletekit.deferred import Deferred
from deletekit.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from deletekit.table import open_catalog as catalogs
else:
    catalogs = Deferred("deletekit.table.open_catalog")  # not for help

_MOST_NAMES = 20
_IN_A_CATALOG = "--warehouse DIR or --catalog NAME, with TABLE as namespace.table"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableArgument:
    """TABLE and the options that say where it is."""

    table: str
    warehouse: str | None
    catalog: str | None
    catalog_name: str | None
    properties: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.warehouse is not None and self.catalog is not None:
            raise click.UsageError("--warehouse and --catalog name two different catalogs; give one of them.")
        if self.catalog_name is not None and self.warehouse is None:
            raise click.UsageError("--catalog-name names the catalog of --warehouse; for others, use --catalog NAME.")
        if self.properties and self.warehouse is not None:
            raise click.UsageError("the embedded catalog of --warehouse has no properties to set.")

    def open(self) -> dk.Table:
        """Open the table. Raise NotFoundError that says what was looked for and what is there instead."""
        if self.warehouse is not None:
            return self._open_embedded(Path(self.warehouse))
        if self.catalog is not None:
            return dk.load_table(self.open_catalog(), self.table)
        return self._open_path()

    def existing_catalog(self) -> dk.Catalog:
        """Open the catalog as `open_catalog` does, but raise NotFoundError for an embedded one that is not there."""
        if self.warehouse is None:
            return self.open_catalog()
        catalog = catalogs.existing_catalog(Path(self.warehouse), self._embedded_name)
        click.get_current_context().call_on_close(partial(catalogs.close, catalog))
        return catalog

    def open_catalog(self) -> dk.Catalog:
        """Open the catalog of TABLE; its connections close with the command. Raise InvalidInputError without one."""
        if self.warehouse is not None:
            catalog = dk.local_catalog(self.warehouse, self._embedded_name)
        elif self.catalog is not None:
            catalog = dk.load_catalog(self.catalog, **self.properties)
        else:
            raise _not_a_table("a table is made in a catalog", self.table, _IN_A_CATALOG)
        click.get_current_context().call_on_close(partial(catalogs.close, catalog))
        return catalog

    @property
    def _embedded_name(self) -> str:
        return self.catalog_name or "local"

    def _open_path(self) -> dk.Table:
        path = self.table
        if path.startswith("file:"):
            path = path.removeprefix("file:").replace("///", "/", 1)
        if not path.endswith(".metadata.json"):
            if "://" in path:
                raise _not_a_table(
                    "only a local directory can be searched for its newest metadata file",
                    path,
                    "the address of a *.metadata.json file",
                )
            if not Path(path).exists():
                raise NotFoundError(
                    "no such metadata file or table directory",
                    kind="table-not-found",
                    file=path,
                    expected=f"a path; or {_IN_A_CATALOG}",
                )
        return dk.from_metadata(path, **self.properties)

    def _open_embedded(self, directory: Path) -> dk.Table:
        catalog = self.existing_catalog()
        try:
            return dk.load_table(catalog, self.table)
        except NotFoundError as e:
            if e.kind != "table-not-found":
                raise
            from deletekit.table.embedded_catalog import catalog_names  # noqa: PLC0415  # not for help

            expected = _tables_there(catalog, sorted((catalog_names(directory) or set()) - {self._embedded_name}))
            raise NotFoundError(e.message, kind=e.kind, field="TABLE", found=e.found, expected=expected) from e


def _tables_there(catalog: dk.Catalog, other_catalogs: list[str]) -> str:
    if tables := catalog.tables():
        more = len(tables) - _MOST_NAMES
        return "one of " + ", ".join(tables[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    if other_catalogs:
        return f"--catalog-name {' or '.join(other_catalogs)}: under {catalog.name} this file lists no table"
    return "a table; the catalog is empty"


def _not_a_table(message: str, found: str, expected: str) -> InvalidInputError:
    return InvalidInputError(message, kind="table-argument", field="TABLE", found=found, expected=expected)
