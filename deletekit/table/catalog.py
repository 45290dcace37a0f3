"""Load tables from catalogs and commit to them, each commit as one compare-and-swap.

If the outcome of a commit is unknown, CommitStateUnknownError is raised. deletekit itself commits to SQL catalogs (the
embedded SQLite one, PostgreSQL), because pyiceberg cannot serialise v3 metadata. REST and other catalogs get the same
updates through pyiceberg. Only `open_catalog.py` and `rest_transaction.py` also import
pyiceberg.catalog.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table as PyIcebergTable
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate

from deletekit.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    DeletekitError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from deletekit.public import public_methods
from deletekit.table.any_catalog import Catalog as Catalog  # noqa: PLC0414  # others take both from here
from deletekit.table.any_catalog import Json, TableChange
from deletekit.table.any_catalog import TableState as TableState  # noqa: PLC0414
from deletekit.table.catalog_errors import asking, committing, committing_row, row_errors, state_after
from deletekit.table.file_io import FileIO, PyIcebergIO, try_delete
from deletekit.table.format_version import FormatVersion
from deletekit.table.identifier import Identifier, dotted, to_identifier
from deletekit.table.locations import normalised
from deletekit.table.metadata import TableMetadata, parse_metadata
from deletekit.table.metadata_file import logged_files, metadata_file_bytes, metadata_file_path, with_metadata_log
from deletekit.table.metadata_parts import KnownFiles
from deletekit.table.metadata_update import (
    apply_updates,
    check_requirements,
    check_uuid,
    creating_updates,
    has_landed,
    rehearse,
    without_known,
)
from deletekit.table.own_places import unlogged_files
from deletekit.table.rest_transaction import check_rest_transactions, send_rest_transaction


@public_methods
class SqlStore(Catalog):
    """A SQL catalog: one row per table, swapped by `UPDATE ... WHERE metadata_location = <the one we read>`."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self.pyiceberg: SqlCatalog = catalog
        self._files: KnownFiles[TableMetadata] = KnownFiles()

    def load(self, identifier: Identifier) -> TableState:
        location = self._find(identifier)
        if location is None:
            raise NotFoundError("no such table", kind="table-not-found", found=dotted(identifier))
        with asking(dotted(identifier)):
            io = PyIcebergIO(self.pyiceberg.properties, location)
            return TableState(self._files.get(identifier, location, io.read(location), parse_metadata), location, io)

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        if self._find(identifier) is not None:
            raise InvalidInputError("table exists already", kind="table-exists", found=dotted(identifier))
        self._ensure_namespace(identifier)
        location = metadata_file_path(metadata)
        state = TableState(metadata, location, PyIcebergIO(self.pyiceberg.properties, location))
        self._register([(identifier, state, self._new_row(identifier, location))])
        return state

    def table_exists(self, identifier: str | Sequence[str]) -> bool:
        """Tell whether there is a table of this name. pyiceberg's own look reads it, which fails for newer ones."""
        return self._find(to_identifier(identifier)) is not None

    def register_table(self, identifier: str | Sequence[str], metadata_location: str) -> None:
        """Register as every catalog does; pyiceberg would read the table, and fail for newer ones."""
        key, location = to_identifier(identifier), normalised(metadata_location, "metadata_location")
        if self._find(key) is not None:
            raise InvalidInputError("table exists already", kind="table-exists", found=dotted(key))
        io = PyIcebergIO(self.pyiceberg.properties, location)
        with asking(dotted(key)):
            parse_metadata(io.read(location), location)
        self._ensure_namespace(key)
        self._execute(dotted(key), self._new_row(key, location))

    def rename_table(self, identifier: str | Sequence[str], to: str | Sequence[str]) -> None:
        """Rename as every catalog does; pyiceberg would read the table, and fail for newer ones."""
        old, new = to_identifier(identifier), to_identifier(to)
        if self._find(old) is None:
            raise NotFoundError("no such table", kind="table-not-found", found=dotted(old))
        with asking(dotted(new[:-1])):
            self.pyiceberg.load_namespace_properties(new[:-1])
        row = self._row(new)
        if not self._execute(dotted(new), sa.update(IcebergTables).filter_by(**self._row(old)).values(**row)):
            raise NotFoundError("no such table", kind="table-not-found", found=dotted(old))

    def _new_row(self, identifier: Identifier, location: str) -> Any:
        row = {**self._row(identifier), "metadata_location": location, "previous_metadata_location": None}
        with asking(self.name):
            columns = sa.inspect(self.pyiceberg.engine).get_columns("iceberg_tables")
        if any(c["name"] == "iceberg_type" for c in columns):
            row["iceberg_type"] = "TABLE"
        return sa.insert(IcebergTables).values(**row)

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
            current = self.load(identifier)
            old = current.metadata_location
            check_requirements(current.metadata, requirements)
            changed = apply_updates(current.metadata, updates)
            changed = with_metadata_log(changed, old, current.metadata.raw["last-updated-ms"])
            location = metadata_file_path(changed, old)
            swap = sa.update(IcebergTables).filter_by(**self._row(identifier), metadata_location=old)
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
        statement = sa.select(sa.text("*")).select_from(IcebergTables.__table__).filter_by(**self._row(identifier))

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
        is_table = found is not None and found.get("iceberg_type") in (None, "TABLE")
        return found["metadata_location"] if is_table else None

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
        warehouse = self.pyiceberg.properties.get("warehouse")
        if not warehouse:
            expected = "a catalog property"
            raise InvalidInputError("table needs a location", kind="location", field="warehouse", expected=expected)
        return "/".join([str(warehouse).rstrip("/"), *identifier])


@public_methods
class PyIcebergStore(Catalog):
    """Any other pyiceberg catalog, committed to through its own `commit_table`."""

    def __init__(self, catalog: PyIcebergCatalog) -> None:
        self.pyiceberg = catalog
        self._files: KnownFiles[TableMetadata] = KnownFiles()

    def load(self, identifier: Identifier) -> TableState:
        table = self._table(identifier)
        return self._state(table, table.metadata_location)

    def create(self, identifier: Identifier, metadata: TableMetadata) -> TableState:
        self.check_writable(metadata.format_version)
        self._ensure_namespace(identifier)
        with asking(dotted(identifier)):
            # pyiceberg writes the metadata file before it looks.
            if not self._is_rest and self.pyiceberg.table_exists(identifier):
                raise InvalidInputError("table exists already", kind="table-exists", found=dotted(identifier))
        try:
            with committing(dotted(identifier)):
                self._create(identifier, metadata)
        except DeletekitError as e:
            if self._chooses_uuid(metadata):  # nothing tells our table from another's
                raise
            return state_after(e, partial(self._created, identifier, metadata, e), metadata.properties)
        unreadable = CommitStateUnknownError("the table was made, and cannot be read", found=dotted(identifier))
        return state_after(unreadable, lambda: self.load(identifier), metadata.properties)

    def commit(self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]) -> TableState:
        table = self._table(identifier)
        check_uuid(str(table.metadata.table_uuid), requirements)
        self.check_writable(max([table.metadata.format_version, *(u.get("format-version", 1) for u in updates)]))
        if not self._is_rest:
            # pyiceberg applies the updates itself, and what it refuses would look like an unknown state.
            updates = rehearse(self._state(table, table.metadata_location).metadata, requirements, updates)
        elif any(-1 in update.values() for update in updates):  # what is added may be there already
            updates = without_known(self._state(table, table.metadata_location).metadata, updates)
        properties = table.metadata.properties
        try:
            with committing(dotted(identifier)):
                answer = self._send(table, requirements, updates)
        except DeletekitError as e:
            return state_after(e, partial(self._landed, identifier, requirements, updates, e), properties)
        unreadable = CommitStateUnknownError("the commit landed, and what it made cannot be read", file=answer)
        return state_after(unreadable, lambda: self._state(table, answer), properties)

    def check_transactions(self) -> None:
        if not self._is_rest:
            super().check_transactions()
        check_rest_transactions(self.pyiceberg)

    def commit_together(self, changes: Sequence[TableChange]) -> list[TableState]:
        self.check_transactions()
        name = ", ".join(dotted(identifier) for identifier, _, _ in changes)
        before = [self.load(identifier) for identifier, _, _ in changes]
        known = [(i, r, without_known(s.metadata, u)) for (i, r, u), s in zip(changes, before, strict=True)]
        try:
            with committing(name):
                send_rest_transaction(self.pyiceberg, known)
        except DeletekitError as e:
            return state_after(e, partial(self._all_landed, known, e), before[0].metadata.properties)
        unreadable = CommitStateUnknownError("the commit landed, and what it made cannot be read", file=name)
        return state_after(unreadable, lambda: [self.load(i) for i, _, _ in changes], before[0].metadata.properties)

    def _all_landed(self, changes: Sequence[TableChange], error: DeletekitError) -> list[TableState] | None:
        found = [self._landed(*change, error) for change in changes]
        states = [state for state in found if state is not None]
        return states if len(states) == len(found) else None

    def check_writable(self, format_version: int) -> None:
        if not FormatVersion(format_version).pyiceberg_writes_it and not self._is_rest:
            message = "this catalog cannot hold format version 3 through pyiceberg"
            kind, field = "catalog-format-version", type(self.pyiceberg).__name__
            expected = "a REST or SQL catalog, or format version 2"
            raise UnsupportedError(message, kind=kind, field=field, found=format_version, expected=expected)

    @property
    def _is_rest(self) -> bool:
        from pyiceberg.catalog.rest import RestCatalog  # noqa: PLC0415  # slow to import, and rarely the one

        return isinstance(self.pyiceberg, RestCatalog)

    def _create(self, identifier: Identifier, metadata: TableMetadata) -> None:
        properties = {**metadata.properties, "format-version": str(metadata.format_version)}
        order = SortOrder.model_validate(metadata.raw["sort-orders"][-1])
        arguments = (identifier, metadata.schema, metadata.location or None, metadata.spec, order)
        if self._chooses_uuid(metadata):
            self.pyiceberg.create_table(*arguments, properties=properties)
            return
        # create_table drops column defaults and snapshots. So let the catalog choose the location, and send everything
        # as updates.
        staged = self.pyiceberg.create_table_transaction(*arguments, properties=properties)._table  # noqa: SLF001
        self._send(staged, [{"type": "assert-create"}], creating_updates(metadata, staged.location()))

    def _chooses_uuid(self, metadata: TableMetadata) -> bool:
        """Tell whether the catalog makes this table on its own, with a uuid of its choice."""
        fields = metadata.all_fields.values()
        has_defaults = any(f.initial_default is not None or f.write_default is not None for f in fields)
        return not has_defaults and not metadata.snapshots

    def _created(self, identifier: Identifier, metadata: TableMetadata, refusal: DeletekitError) -> TableState | None:
        """Return the state of the table if it is the one that we made; None if there is none, or another."""
        try:
            state = self.load(identifier)
        except NotFoundError as e:
            if e.kind != "table-not-found" or refusal.kind in ("table-exists", "commit-conflict"):
                raise  # it was there a moment ago
            return None
        return state if state.metadata.table_uuid == metadata.table_uuid else None

    def _send(self, table: PyIcebergTable, requirements: Sequence[Json], updates: Sequence[Json]) -> str:
        """Send the updates, and return the location of the metadata file that the catalog made."""
        answer = self.pyiceberg.commit_table(
            table,
            TypeAdapter(tuple[TableRequirement, ...]).validate_python(list(requirements)),
            TypeAdapter(tuple[TableUpdate, ...]).validate_python(list(updates)),
        )
        return answer.metadata_location

    def _landed(
        self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json], error: DeletekitError
    ) -> TableState | None:
        """Return the state if it has what the updates ask for, None if it never had. Raise if that cannot be told."""
        state = self.load(identifier)
        if has_landed(state.metadata, requirements, updates):
            return state
        if error.kind == "catalog-refused":
            # A server may answer 400 if a commit on another branch took the sequence number. That is a lost race.
            with suppress(InvalidInputError, UnsupportedError):
                rehearse(state.metadata, requirements, updates)
        return None

    def _table(self, identifier: Identifier) -> PyIcebergTable:
        with asking(dotted(identifier)):
            return self.pyiceberg.load_table(identifier)

    def _state(self, table: PyIcebergTable, location: str) -> TableState:
        # pyiceberg's parsed model cannot be serialised for v3 and drops what it does not know: read the file itself.
        with asking(dotted(tuple(table.name()))):
            io = PyIcebergIO(table.io.properties, location, table.io)
            name = tuple(table.name())
            return TableState(self._files.get(name, location, io.read(location), parse_metadata), location, io)


def _delete(files: Sequence[tuple[FileIO, str]]) -> None:
    for io, path in files:
        try_delete(io, path)
