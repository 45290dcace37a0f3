"""Commit to REST and other catalogs through pyiceberg, with its own `commit_table`.

A refusal is definite only if the table does not hold the commit afterwards (`catalog_errors.state_after`). pyiceberg
has no function for a transaction of several tables: it goes through its own session, which signs requests. A test fails
if pyiceberg moves the private names.
Spec: REST catalog, `POST /v1/{prefix}/transactions/commit`, "CommitTransactionRequest".
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic import TypeAdapter
from pyiceberg.catalog import Catalog as PyIcebergCatalog
from pyiceberg.table import Table as PyIcebergTable
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate

from deletekit.errors import CommitStateUnknownError, DeletekitError, InvalidInputError, NotFoundError, UnsupportedError
from deletekit.public import public_methods
from deletekit.table.any_catalog import Catalog, Json, TableChange, TableState
from deletekit.table.catalog_errors import asking, committing, state_after
from deletekit.table.file_io import PyIcebergIO
from deletekit.table.format_version import FormatVersion
from deletekit.table.identifier import Identifier, dotted
from deletekit.table.metadata import TableMetadata
from deletekit.table.metadata_file import KnownMetadata
from deletekit.table.metadata_update import check_uuid, creating_updates, has_landed, rehearse, without_known

_TRANSACTION = "transactions/commit"
_NO_CONTENT = 204


@public_methods
class PyIcebergStore(Catalog):
    """Any other pyiceberg catalog, committed to through its own `commit_table`."""

    def __init__(self, catalog: PyIcebergCatalog) -> None:
        self.pyiceberg = catalog
        self._files = KnownMetadata()

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
        unreadable = CommitStateUnknownError("the table was made, and cannot be read", field=dotted(identifier))
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
        unreadable = CommitStateUnknownError("the commit landed, and what it made cannot be read", field=name)
        return state_after(unreadable, lambda: [self.load(i) for i, _, _ in changes], before[0].metadata.properties)

    def _all_landed(self, changes: Sequence[TableChange], error: DeletekitError) -> list[TableState] | None:
        """Return the states if all have what the updates ask for, None if none ever had. Raise if that is not told."""
        states = [self.load(identifier) for identifier, _, _ in changes]
        landed = [has_landed(s.metadata, r, u) for s, (_, r, u) in zip(states, changes, strict=True)]
        if all(landed):
            return states
        if any(landed):  # the catalog broke its promise, and the files of all are needed
            raise CommitStateUnknownError("only a part of the transaction landed", found=str(error))
        for state, (_, requirements, updates) in zip(states, changes, strict=True):
            _rehearsed(state, requirements, updates, error)
        return None

    def check_writable(self, format_version: int) -> None:
        if not FormatVersion(format_version).pyiceberg_writes_it and not self._is_rest:
            message = "this catalog cannot hold format version 3 through pyiceberg"
            kind, field = "catalog-format-version", type(self.pyiceberg).__name__
            raise UnsupportedError(message, kind, field, format_version, "a REST or SQL catalog, or format version 2")

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
        _rehearsed(state, requirements, updates, error)
        return None

    def _table(self, identifier: Identifier) -> PyIcebergTable:
        with asking(dotted(identifier)):
            return self.pyiceberg.load_table(identifier)

    def _state(self, table: PyIcebergTable, location: str) -> TableState:
        # pyiceberg's parsed model cannot be serialised for v3 and drops what it does not know: read the file itself.
        with asking(dotted(tuple(table.name()))):
            io = PyIcebergIO(table.io.properties, location, table.io)
            name = tuple(table.name())
            return TableState(self._files.get(name, location, io.read(location)), location, io)


def _rehearsed(state: TableState, requirements: Sequence[Json], updates: Sequence[Json], error: DeletekitError) -> None:
    """Raise CommitConflictError if a refusal was a lost race."""
    if error.kind == "catalog-refused":
        # A server may answer 400 if a commit on another branch took the sequence number.
        with suppress(InvalidInputError, UnsupportedError):
            rehearse(state.metadata, requirements, updates)


def check_rest_transactions(catalog: Any) -> None:
    """Raise UnsupportedError if a server does not name the endpoint among those that it has."""
    endpoints = {str(e) for e in catalog._supported_endpoints}  # noqa: SLF001
    if not any(e.startswith("POST ") and e.endswith(f"/{_TRANSACTION}") for e in endpoints):
        message = "this REST catalog cannot commit several tables in one transaction"
        expected = f"POST /v1/{{prefix}}/{_TRANSACTION}"
        raise UnsupportedError(message, "catalog-transaction", catalog.name, "a server without this endpoint", expected)


def send_rest_transaction(catalog: Any, changes: Sequence[TableChange]) -> None:
    """Send changes of tables in one request. Raise what pyiceberg raises for a commit of one table."""
    from pyiceberg.catalog.rest.response import _handle_non_200_response  # noqa: PLC0415  # slow to import
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException  # noqa: PLC0415

    body = {
        "table-changes": [
            {
                "identifier": {"namespace": list(identifier[:-1]), "name": identifier[-1]},
                "requirements": list(requirements),
                "updates": list(updates),
            }
            for identifier, requirements, updates in changes
        ]
    }
    session = catalog._session  # noqa: SLF001
    answer = session.post(catalog.url(_TRANSACTION), data=json.dumps(body).encode(), headers=session.headers)
    try:
        answer.raise_for_status()
    except OSError as e:  # the HTTPError of pyiceberg's session
        unknown = dict.fromkeys((500, 502, 503, 504), CommitStateUnknownException)
        _handle_non_200_response(e, {409: CommitFailedException, **unknown})  # type: ignore[arg-type]
    if answer.status_code != _NO_CONTENT:  # a gateway's page, or a redirect that was not followed
        raise CommitStateUnknownException(f"status {answer.status_code} instead of {_NO_CONTENT}")
