"""Catalogs: who knows a table's current metadata file, and swaps it.

Law: the only module that imports pyiceberg.catalog. A commit is one compare-and-swap; what it does not know it says.
SQL catalogs (the embedded SQLite one, PostgreSQL) are committed to by deletekit itself, because pyiceberg cannot
serialise v3 metadata; REST and the rest take the same updates through pyiceberg.
"""

from __future__ import annotations

import gzip
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog import load_catalog as load_pyiceberg_catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table as PyIcebergTable
from pyiceberg.table.update import TableRequirement, TableUpdate

from deletekit.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from deletekit.table.file_io import FileIO, PyIcebergIO
from deletekit.table.metadata import TableMetadata, parse_metadata, serialise_metadata
from deletekit.table.metadata_update import apply_updates, check_requirements

__all__ = ["Catalog", "Identifier", "TableState", "load_catalog", "local_catalog", "to_identifier", "wrap_catalog"]

Identifier = tuple[str, ...]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one metadata file, and the storage its files are on."""

    metadata: TableMetadata
    metadata_location: str
    io: FileIO


class Catalog(ABC):
    """What deletekit needs of a catalog. `pyiceberg` is the wrapped catalog, for everything else one may want."""

    pyiceberg: PyIcebergCatalog

    @property
    def name(self) -> str:
        """The catalog's name; Spark must use the same one on a shared SQL catalog, which keys its rows by it."""
        return self.pyiceberg.name

    @abstractmethod
    def load(self, identifier: Identifier) -> TableState:
        """The current state. Raises NotFoundError."""

    @abstractmethod
    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        """Register a new table. Raises InvalidInputError when it exists, UnsupportedError for an unwritable version."""

    @abstractmethod
    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        """Apply updates if the requirements hold.

        Raises CommitConflictError when they do not or another writer wins, CommitStateUnknownError when the catalog
        cannot say; nothing else leaves the table changed.
        """

    def check_writable(self, format_version: int) -> None:  # noqa: B027  # most catalogs take every version
        """Raise UnsupportedError, before anything is written, when this catalog cannot take that format version."""

    def default_location(self, identifier: Identifier) -> str:
        """Where a table goes that names no location. Raises InvalidInputError without a `warehouse` property."""
        warehouse = self.pyiceberg.properties.get("warehouse")
        if not warehouse:
            raise InvalidInputError(
                "table needs a location", kind="location", field="warehouse", expected="a catalog property"
            )
        return "/".join([str(warehouse).rstrip("/"), *identifier])

    def list_tables(self, namespace: str) -> list[Identifier]:
        """Identifiers of the tables of a namespace. Raises NotFoundError."""
        try:
            return [tuple(i) for i in self.pyiceberg.list_tables(namespace)]
        except NoSuchNamespaceError as e:
            raise NotFoundError("no such namespace", kind="namespace-not-found", found=namespace) from e

    def list_namespaces(self) -> list[Identifier]:
        """All top-level namespaces."""
        return [tuple(n) for n in self.pyiceberg.list_namespaces()]

    def drop_table(self, identifier: str | Sequence[str]) -> None:
        """Forget a table; its files stay. Raises NotFoundError."""
        key = to_identifier(identifier)
        try:
            self.pyiceberg.drop_table(key)
        except NoSuchTableError as e:
            raise _no_table(key) from e

    def _ensure_namespace(self, identifier: Identifier) -> None:
        self.pyiceberg.create_namespace_if_not_exists(identifier[:-1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class SqlStore(Catalog):
    """A SQL catalog: one row per table, swapped by `UPDATE ... WHERE metadata_location = <the one we read>`."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self.pyiceberg: SqlCatalog = catalog

    def load(self, identifier: Identifier) -> TableState:
        return self._state(self._location(identifier))

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        self._ensure_namespace(identifier)
        if self._find(identifier) is not None:
            raise _table_exists(identifier)
        location = metadata_file_path(metadata, 0)
        io = self._io(location)
        io.write(location, metadata_file_bytes(metadata, location))
        row = {**self._row(identifier), "metadata_location": location, "previous_metadata_location": None}
        if self._has_type_column():
            row["iceberg_type"] = "TABLE"
        try:
            with self.pyiceberg.engine.begin() as connection:
                connection.execute(sa.insert(IcebergTables).values(**row))
        except sa.exc.IntegrityError as e:
            io.delete(location)
            raise _table_exists(identifier) from e
        return TableState(metadata, location, io)

    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        current = self.load(identifier)
        check_requirements(current.metadata, requirements)
        now_ms = int(time.time() * 1000)
        changed = apply_updates(current.metadata, updates, now_ms)
        changed = with_metadata_log(changed, current.metadata_location, current.metadata.raw["last-updated-ms"])
        location = metadata_file_path(changed, metadata_version(current.metadata_location) + 1)
        current.io.write(location, metadata_file_bytes(changed, location))
        try:
            swapped = self._swap(identifier, current.metadata_location, location)
        except sa.exc.SQLAlchemyError as e:
            swapped = self._landed(identifier, location)
            # SQLite rolled back in this process: its failure is certain. A server may still be committing.
            if not swapped and self.pyiceberg.engine.dialect.name != "sqlite":
                raise CommitStateUnknownError(
                    "the catalog failed while committing", file=location, found=f"{type(e).__name__}: {e}"
                ) from e
        if not swapped:
            current.io.delete(location)
            raise CommitConflictError(
                "another writer committed first", field="metadata_location", expected=current.metadata_location
            )
        return TableState(changed, location, current.io)

    def _swap(self, identifier: Identifier, old: str, new: str) -> bool:
        table = IcebergTables.__table__
        where = [table.c[k] == v for k, v in self._row(identifier).items()]
        statement = (
            sa.update(IcebergTables)
            .where(*where, table.c.metadata_location == old)
            .values(metadata_location=new, previous_metadata_location=old)
        )
        with self.pyiceberg.engine.begin() as connection:
            return bool(connection.execute(statement).rowcount == 1)

    def _landed(self, identifier: Identifier, location: str) -> bool:
        """Whether a commit whose answer was lost is in the table's history."""
        try:
            state = self.load(identifier)
        except sa.exc.SQLAlchemyError:
            return False
        log = [entry["metadata-file"] for entry in state.metadata.raw.get("metadata-log") or ()]
        return location in (state.metadata_location, *log)

    def _location(self, identifier: Identifier) -> str:
        found = self._find(identifier)
        if found is None:
            raise _no_table(identifier)
        return found

    def _find(self, identifier: Identifier) -> str | None:
        table = IcebergTables.__table__
        where = [table.c[k] == v for k, v in self._row(identifier).items()]
        if self._has_type_column():
            where.append(sa.or_(table.c.iceberg_type == "TABLE", table.c.iceberg_type.is_(None)))
        with self.pyiceberg.engine.connect() as connection:
            found = connection.execute(sa.select(table.c.metadata_location).where(*where)).scalar()
        return None if found is None else str(found)

    def _row(self, identifier: Identifier) -> dict[str, str]:
        namespace = ".".join(identifier[:-1])
        return {"catalog_name": self.name, "table_namespace": namespace, "table_name": identifier[-1]}

    def _has_type_column(self) -> bool:
        # Spark's JdbcCatalog may have created the tables in its V0 shape, without `iceberg_type`.
        columns = sa.inspect(self.pyiceberg.engine).get_columns("iceberg_tables")
        return any(c["name"] == "iceberg_type" for c in columns)

    def _io(self, location: str) -> FileIO:
        return PyIcebergIO(self.pyiceberg.properties, location)

    def _state(self, location: str) -> TableState:
        io = self._io(location)
        return TableState(parse_metadata(io.read(location), location), location, io)


class PyIcebergStore(Catalog):
    """Any other pyiceberg catalog, committed to through its own `commit_table`."""

    def __init__(self, catalog: PyIcebergCatalog) -> None:
        self.pyiceberg = catalog

    def load(self, identifier: Identifier) -> TableState:
        return self._state(self._table(identifier))

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        self.check_writable(metadata.format_version)
        self._ensure_namespace(identifier)
        properties = {**metadata.properties, "format-version": str(metadata.format_version)}
        try:
            self.pyiceberg.create_table(
                identifier, metadata.schema, metadata.location, metadata.spec, properties=properties
            )
        except TableAlreadyExistsError as e:
            raise _table_exists(identifier) from e
        return self.load(identifier)

    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        table = self._table(identifier)
        self.check_writable(max(table.metadata.format_version, *(u.get("format-version", 1) for u in updates)))
        parsed_requirements = TypeAdapter(tuple[TableRequirement, ...]).validate_python(list(requirements))
        parsed_updates = TypeAdapter(tuple[TableUpdate, ...]).validate_python(list(updates))
        try:
            self.pyiceberg.commit_table(table, parsed_requirements, parsed_updates)
        except CommitFailedException as e:
            raise CommitConflictError("another writer committed first", found=str(e)) from e
        except CommitStateUnknownException as e:
            if not self._landed(identifier, updates):
                raise CommitStateUnknownError("the catalog failed while committing", found=str(e)) from e
        return self.load(identifier)

    def check_writable(self, format_version: int) -> None:
        if format_version >= 3 and type(self.pyiceberg).__name__ != "RestCatalog":
            raise UnsupportedError(
                "this catalog cannot hold format version 3 through pyiceberg",
                kind="catalog-format-version",
                field=type(self.pyiceberg).__name__,
                found=format_version,
                expected="a REST or SQL catalog, or format version 2",
            )

    def default_location(self, identifier: Identifier) -> str:
        if type(self.pyiceberg).__name__ == "RestCatalog":
            return ""  # the server chooses
        return super().default_location(identifier)

    def _landed(self, identifier: Identifier, updates: Sequence[Json]) -> bool:
        added = [u["snapshot"]["snapshot-id"] for u in updates if u["action"] == "add-snapshot"]
        return bool(added) and all(i in self.load(identifier).metadata.snapshots for i in added)

    def _table(self, identifier: Identifier) -> PyIcebergTable:
        try:
            return self.pyiceberg.load_table(identifier)
        except NoSuchTableError as e:
            raise _no_table(identifier) from e

    def _state(self, table: PyIcebergTable) -> TableState:
        io = PyIcebergIO(table.io.properties, table.metadata_location, table.io)
        # pyiceberg's parsed model cannot be serialised for v3 and drops what it does not know: read the file itself.
        return TableState(
            parse_metadata(io.read(table.metadata_location), table.metadata_location), table.metadata_location, io
        )


def local_catalog(path: str | Path, name: str = "local") -> Catalog:
    """An embedded catalog: a SQLite file `catalog.db` and the tables' files, all under one directory.

    Parameters
    ----------
    path: directory, created when missing.
    name: catalog name. Iceberg's JdbcCatalog opens the same file from Spark under a catalog of this name.

    Holds format versions 1 to 3, and several processes may commit to it at once.
    """
    root = Path(path).absolute()
    root.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{root / 'catalog.db'}?timeout=60"
    return SqlStore(SqlCatalog(name, uri=uri, warehouse=str(root), init_catalog_tables="true"))


def load_catalog(name: str, **properties: str) -> Catalog:
    """Any pyiceberg catalog by its own properties (`type="rest"`, `uri=...`) or its configuration file.

    Format version 3 needs a REST or SQL catalog; others refuse it by name before anything is written.
    """
    return wrap_catalog(load_pyiceberg_catalog(name, **properties))


def wrap_catalog(catalog: PyIcebergCatalog) -> Catalog:
    """A deletekit catalog over a pyiceberg one."""
    return SqlStore(catalog) if isinstance(catalog, SqlCatalog) else PyIcebergStore(catalog)


def to_identifier(identifier: str | Sequence[str]) -> Identifier:
    """`"demo.users"` as `("demo", "users")`. Raises InvalidInputError without a namespace."""
    parts = tuple(identifier.split(".")) if isinstance(identifier, str) else tuple(identifier)
    if len(parts) < 2 or not all(parts):
        raise InvalidInputError("bad table identifier", kind="identifier", found=identifier, expected="namespace.table")
    return parts


def metadata_file_path(metadata: TableMetadata, version: int) -> str:
    """A fresh path for version `version` of a table's metadata, by `write.metadata.path` and its codec."""
    properties = metadata.properties
    directory = properties.get("write.metadata.path", f"{metadata.location}/metadata").rstrip("/")
    suffix = ".gz" if properties.get("write.metadata.compression-codec", "none").lower() == "gzip" else ""
    return f"{directory}/{version:05d}-{uuid.uuid4()}{suffix}.metadata.json"


def metadata_file_bytes(metadata: TableMetadata, path: str) -> bytes:
    """The document as stored at `path`, compressed when the name says so."""
    data = serialise_metadata(metadata)
    return gzip.compress(data) if path.endswith(".gz.metadata.json") else data


def metadata_version(location: str) -> int:
    """The number in a metadata file's name: `00003-<uuid>.metadata.json` or Hadoop's `v3.metadata.json`; else 0."""
    name = location.rsplit("/", 1)[-1]
    head = name.split("-", 1)[0].split(".", 1)[0].lstrip("v")
    return int(head) if head.isdigit() else 0


def with_metadata_log(metadata: TableMetadata, previous: str, timestamp_ms: int) -> TableMetadata:
    """Remember the metadata file this one replaces, as many as `write.metadata.previous-versions-max` says."""
    keep = max(int(metadata.properties.get("write.metadata.previous-versions-max", "100")), 1)
    log = [*(metadata.raw.get("metadata-log") or ()), {"timestamp-ms": timestamp_ms, "metadata-file": previous}]
    return TableMetadata({**metadata.raw, "metadata-log": log[-keep:]})


def _no_table(identifier: Identifier) -> NotFoundError:
    return NotFoundError("no such table", kind="table-not-found", found=".".join(identifier))


def _table_exists(identifier: Identifier) -> InvalidInputError:
    return InvalidInputError("table exists already", kind="table-exists", found=".".join(identifier))
