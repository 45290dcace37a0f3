"""Load tables from catalogs and commit to them, each commit as one compare-and-swap.

If the outcome of a commit is unknown, CommitStateUnknownError is raised. deletekit itself commits to SQL catalogs (the
embedded SQLite one, PostgreSQL), because pyiceberg cannot serialise v3 metadata. REST and other catalogs get the same
updates through pyiceberg (`pyiceberg_store.py`). `open_catalog.py` opens them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchNamespaceError

from deletekit.deferred import Deferred
from deletekit.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeletekitError,
    InvalidInputError,
    NotFoundError,
)
from deletekit.public import public_methods
from deletekit.table.any_catalog import Catalog as Catalog  # noqa: PLC0414  # others take both from here
from deletekit.table.any_catalog import Json, TableChange, table_changed
from deletekit.table.any_catalog import TableState as TableState  # noqa: PLC0414
from deletekit.table.catalog_errors import asking, committing_row, row_errors, state_after
from deletekit.table.file_io import FileIO, PyIcebergIO, try_delete
from deletekit.table.identifier import Identifier, check_new, dotted, to_identifier
from deletekit.table.locations import normalised
from deletekit.table.metadata import TableMetadata, parse_metadata
from deletekit.table.metadata_file import (
    KnownMetadata,
    logged_files,
    metadata_file_bytes,
    metadata_file_path,
    with_metadata_log,
)
from deletekit.table.metadata_update import (
    apply_updates,
    check_requirements,
)
from deletekit.table.own_places import unlogged_files

if TYPE_CHECKING:
    import sqlalchemy as sa
    from pyiceberg.catalog import sql
else:
    sa, sql = Deferred("sqlalchemy"), Deferred("pyiceberg.catalog.sql")


@public_methods
class SqlStore(Catalog):
    """A SQL catalog: one row per table, swapped by `UPDATE ... WHERE metadata_location = <the one we read>`."""

    def __init__(self, catalog: sql.SqlCatalog) -> None:
        self.pyiceberg: sql.SqlCatalog = catalog
        self._files = KnownMetadata()

    @property
    def _properties(self) -> dict[str, str]:
        return self.pyiceberg.properties

    def load(self, identifier: Identifier) -> TableState:
        return self._load(identifier)

    def _load(self, identifier: Identifier, *, unread: bool = False) -> TableState:
        location = self._find(identifier)
        if location is None:
            raise NotFoundError("no such table", kind="table-not-found", found=dotted(identifier))
        with asking(dotted(identifier)):
            io = PyIcebergIO(self._properties, location)
            known = self._files.unread(identifier, location) if unread else None
            metadata = known or self._files.get(identifier, location, io.read(location))
            return TableState(metadata, location, io)

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        if self._find(identifier) is not None:
            raise InvalidInputError("table exists already", kind="table-exists", found=dotted(identifier))
        self._ensure_namespace(identifier)
        location = metadata_file_path(metadata)
        state = TableState(metadata, location, PyIcebergIO(self._properties, location))
        self._register([(identifier, state, self._new_row(identifier, location))])
        return state

    def table_exists(self, identifier: str | Sequence[str]) -> bool:
        """Tell whether there is a table of this name. pyiceberg's own look reads it, which fails for newer ones."""
        return self._find(to_identifier(identifier)) is not None

    def register_table(self, identifier: str | Sequence[str], metadata_location: str) -> None:
        """Register as every catalog does; pyiceberg would read the table, and fail for newer ones."""
        key, location = to_identifier(identifier), normalised(metadata_location, "metadata_location")
        check_new(key)
        if self._find(key) is not None:
            raise InvalidInputError("table exists already", kind="table-exists", found=dotted(key))
        io = PyIcebergIO(self._properties, location)
        with asking(dotted(key)):
            parse_metadata(io.read(location), location)
        self._ensure_namespace(key)
        self._execute(dotted(key), self._new_row(key, location))

    def rename_table(self, identifier: str | Sequence[str], to: str | Sequence[str]) -> None:
        """Rename as every catalog does; pyiceberg would read the table, and fail for newer ones."""
        old, new = to_identifier(identifier), to_identifier(to)
        check_new(new, "to")
        if self._find(old) is None:
            raise NotFoundError("no such table", kind="table-not-found", found=dotted(old))
        with asking(dotted(new[:-1])):
            self.pyiceberg.load_namespace_properties(new[:-1])
        row = self._row(new)
        if not self._execute(dotted(new), sa.update(sql.IcebergTables).filter_by(**self._row(old)).values(**row)):
            raise NotFoundError("no such table", kind="table-not-found", found=dotted(old))

    def drop_unchanged(self, identifier: Identifier, metadata_location: str) -> None:
        row = {**self._row(identifier), "metadata_location": metadata_location}
        if not self._execute(dotted(identifier), sa.delete(sql.IcebergTables).filter_by(**row)):
            raise table_changed(self.load(identifier).metadata_location, metadata_location)

    def _new_row(self, identifier: Identifier, location: str) -> Any:
        row = {**self._row(identifier), "metadata_location": location, "previous_metadata_location": None}
        with asking(self.name):
            columns = sa.inspect(self.pyiceberg.engine).get_columns("iceberg_tables")
        if any(c["name"] == "iceberg_type" for c in columns):
            row["iceberg_type"] = "TABLE"
        return sa.insert(sql.IcebergTables).values(**row)

    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        return self._commit_rows([(identifier, requirements, updates)])[0]

    def check_transactions(self) -> None:
        pass

    def commit_together(self, changes: Sequence[TableChange]) -> list[TableState]:
        return self._commit_rows(changes)

    def _commit_rows(self, changes: Sequence[TableChange]) -> list[TableState]:
        """Swap the rows of tables in one SQL transaction, if every one is still as it was read."""
        swaps, read, unlogged = [], [], list[tuple[FileIO, str]]()
        for identifier, requirements, updates in sorted(changes, key=lambda c: c[0]):  # one order: no deadlock
            current = self._load(identifier, unread=True)
            old = current.metadata_location
            check_requirements(current.metadata, requirements)
            changed = apply_updates(current.metadata, updates)
            changed = with_metadata_log(changed, old, current.metadata.raw["last-updated-ms"])
            location = metadata_file_path(changed, old)
            swap = sa.update(sql.IcebergTables).filter_by(**self._row(identifier), metadata_location=old)
            swap = swap.values(metadata_location=location, previous_metadata_location=old)
            swaps.append((identifier, TableState(changed, location, current.io), swap))
            read.append(old)
            unlogged += [(current.io, p) for p in unlogged_files(current.metadata, changed, location)]  # may refuse
        if not self._register(swaps):
            expected = ", ".join(read)
            raise CommitConflictError("another writer committed first", field="metadata_location", expected=expected)
        _delete(unlogged)
        states = {identifier: state for identifier, state, _ in swaps}
        return [states[identifier] for identifier, _, _ in changes]

    def _register(self, swaps: Sequence[tuple[Identifier, TableState, Any]]) -> bool:
        """Write metadata files, and run the statements that make them the tables' in one transaction.

        Return False if a row was not changed. The files stay unless the transaction certainly had no effect.
        """
        name = ", ".join(dotted(identifier) for identifier, _, _ in swaps)
        changed, written, known = False, [], []
        try:
            with asking(name):
                for identifier, state, _ in swaps:
                    written.append((state.io, state.metadata_location))
                    data = metadata_file_bytes(state.metadata, state.metadata_location)
                    state.io.write(state.metadata_location, data)
                    known.append((identifier, state.metadata_location, data, state.metadata))
            changed = self._execute(name, *(statement for _, _, statement in swaps))
        except CommitStateUnknownError as e:
            landed = partial(self._landed, [(i, state.metadata_location) for i, state, _ in swaps])
            return state_after(e, landed, swaps[0][1].metadata.properties)
        except Exception:
            _delete(written)
            raise
        if not changed:
            _delete(written)
            return False
        for file in known:
            self._files.put(*file)
        return True

    def _execute(self, name: str, *statements: Any) -> bool:
        """Run statements in one transaction. Return False, and leave all as it is, unless each changed one row."""
        landed = False
        try:
            with row_errors(name), self.pyiceberg.engine.connect() as connection:
                if all(connection.execute(statement).rowcount == 1 for statement in statements):
                    with committing_row(connection):
                        connection.commit()
                    landed = True
        except DeletekitError:
            if not landed:  # else only the way back into the pool failed
                raise
        return landed

    def _landed(self, made: Sequence[tuple[Identifier, str]]) -> bool | None:
        """Return True if metadata files are in the tables' history, else None: that proves nothing."""
        states = [(location, self.load(identifier)) for identifier, location in made]
        return all(at in (s.metadata_location, *logged_files(s.metadata)) for at, s in states) or None

    def _find(self, identifier: Identifier) -> str | None:
        # All columns: Spark's JdbcCatalog may have made the SQL table in its V0 form, without `iceberg_type`.
        statement = sa.select(sa.text("*")).select_from(sql.IcebergTables.__table__).filter_by(**self._row(identifier))

        def first_row() -> Any:
            with self.pyiceberg.engine.connect() as connection:
                return connection.execute(statement).mappings().first()

        with asking(dotted(identifier)):
            try:
                found = first_row()
            except sa.exc.DBAPIError as e:
                if not e.connection_invalidated:
                    raise
                found = first_row()  # the server had closed a pooled connection; the pool is fresh now
        return location_of(found)

    def _row(self, identifier: Identifier) -> dict[str, str]:
        namespace = ".".join(identifier[:-1])
        return {"catalog_name": self.name, "table_namespace": namespace, "table_name": identifier[-1]}

    def default_location(self, identifier: Identifier) -> str:
        """Return a location below the namespace's, else below the warehouse. Raises InvalidInputError without both."""
        home = None
        with asking(dotted(identifier)), suppress(NoSuchNamespaceError):
            home = self.pyiceberg.load_namespace_properties(identifier[:-1]).get("location")
        if home:
            return "/".join([str(home).rstrip("/"), identifier[-1]])
        warehouse = self._properties.get("warehouse")
        if not warehouse:
            raise InvalidInputError("table needs a location", "location", "warehouse", expected="a catalog property")
        return "/".join([str(warehouse).rstrip("/"), *identifier])


def location_of(row: Mapping[str, str] | None) -> str | None:
    """Return the metadata file that a row of `iceberg_tables` names, None for a view's."""
    return row["metadata_location"] if row is not None and row.get("iceberg_type") in (None, "TABLE") else None


def _delete(files: Sequence[tuple[FileIO, str]]) -> None:
    for io, path in files:
        try_delete(io, path)
