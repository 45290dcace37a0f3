"""Read the changes of a table of PostgreSQL from a logical replication slot, with plain SQL.

Changes are peeked at, not taken: the slot moves on only after they are in the table. The position in the table decides
what is applied, so a slot that lags behind, as after a crash, does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from deletekit.errors import InvalidInputError, NotFoundError, StorageError
from deletekit.public import public, public_methods
from deletekit.stream.sources.pg_values import change_rows
from deletekit.stream.sources.pgoutput import Change, Relation, Transaction, lsn_number, lsn_text, transactions
from deletekit.stream.sources.source import SourceBatch, Until, check_same, lost, position_text, read_position

T = TypeVar("T")
_PATIENCE = 60.0
_SETTINGS = (
    "client_encoding TO 'UTF8'",
    "TimeZone TO 'UTC'",
    "DateStyle TO 'ISO, YMD'",
    "IntervalStyle TO 'iso_8601'",
    "bytea_output TO 'hex'",
    "extra_float_digits TO 1",
)
_SLOT = """
SELECT s.plugin, s.confirmed_flush_lsn::text, coalesce(s.wal_status, ''),
       (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END)::text,
       (SELECT system_identifier FROM pg_control_system())::text
FROM pg_replication_slots s WHERE s.slot_name = %s AND s.database = current_database()
"""
_PUBLISHED = "SELECT 1 FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s"
_PEEK = """
SELECT data FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s, 'proto_version', '1', 'publication_names', %s)
"""
_ADVANCE = """
SELECT pg_replication_slot_advance(slot_name, %s::pg_lsn) FROM pg_replication_slots
WHERE slot_name = %s AND confirmed_flush_lsn < %s::pg_lsn
"""


@public
def postgres(
    dsn: str,
    table: str,
    *,
    slot: str,
    publication: str,
    batch_changes: int = 10_000,
    truncate: Literal["refuse", "apply"] = "refuse",
    poll_seconds: float = 1.0,
    idle_bytes: int = 64 << 20,
) -> Postgres:
    """Return a source that reads the changes of one table of PostgreSQL, for `Sink.run_source`.

    Slot and publication must be there: `CREATE PUBLICATION p FOR TABLE t`, then
    `SELECT pg_create_logical_replication_slot('s', 'pgoutput')`. Each source has a slot of its own. What the table held
    before comes from a copy that is made after the slot.

    A batch has whole transactions. A change that does not fit is a dead letter, if the sink has a table for them. The
    old key of an update comes with REPLICA IDENTITY, so the sink's key must be in it.

    Parameters
    ----------
    dsn: the connection, as libpq takes it.
    table: in PostgreSQL, with its schema: `public.t`.
    slot, publication: their names.
    batch_changes: end a batch with the transaction that reaches so many messages of pgoutput: one for each change, and
        for each beginning and end of a transaction.
    truncate: whether a TRUNCATE is refused, or deletes all rows of the table.
    poll_seconds: how long to wait for more changes, if the source does not end.
    idle_bytes: commit a batch without rows if other tables wrote so much, so that the server can free its log.

    Raises InvalidInputError for a bad name or number; EnvironmentMissingError without psycopg2.
    """
    import psycopg2  # noqa: F401, PLC0415  # asked for now, not in the middle of a stream

    schema, _, name = table.rpartition(".")
    if not schema or not name:
        message = "a table of PostgreSQL is given with its schema"
        raise InvalidInputError(message, kind="source-table", field="table", found=table, expected="public.t")
    if batch_changes < 1:
        message = "a batch has at least one change"
        raise InvalidInputError(message, kind="batch-size", field="batch_changes", found=batch_changes, expected=">= 1")
    names = _Names(schema=schema, table=name, slot=slot, publication=publication)
    applies_truncate = truncate == "apply"
    return Postgres(dsn, names, batch_changes, poll_seconds, idle_bytes, applies_truncate=applies_truncate)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    schema: str
    table: str
    slot: str
    publication: str

    def is_of(self, relation: Relation) -> bool:
        return (relation.namespace, relation.name) == (self.schema, self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """What the server says of the slot."""

    confirmed: int
    now: int
    system: str


@public_methods
class Postgres:
    """A table of PostgreSQL as a source; made by `postgres`."""

    kind = "postgres"

    def __init__(
        self,
        dsn: str,
        names: _Names,
        batch_changes: int,
        poll_seconds: float,
        idle_bytes: int,
        *,
        applies_truncate: bool,
    ) -> None:
        self._dsn, self._names, self._applies_truncate = dsn, names, applies_truncate
        self._batch_changes, self._poll_seconds, self._idle_bytes = batch_changes, poll_seconds, idle_bytes
        self._connection: Any = None

    def __repr__(self) -> str:
        return f"Postgres({self._names.schema}.{self._names.table}, slot {self._names.slot})"

    def batches(self, position: str | None, *, until: Until = "end") -> Iterator[SourceBatch]:
        """Yield the batches after a position; see `Source`."""
        import psycopg2  # noqa: PLC0415

        try:
            self._connection = psycopg2.connect(self._dsn)
            yield from self._batches(position, until)
        except psycopg2.Error as e:
            raise StorageError("PostgreSQL does not answer, or refuses", kind="postgres", found=str(e).strip()) from e
        finally:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def committed(self, position: str) -> None:
        """Let the server forget what is in the table."""
        import psycopg2  # noqa: PLC0415

        if self._connection is None:
            return
        with suppress(psycopg2.errors.ObjectNotInPrerequisiteState):  # another process moved it further
            self._advance(lsn_number(read_position(position, self.kind)["lsn"]))

    def _batches(self, position: str | None, until: Until) -> Iterator[SourceBatch]:
        self._connection.autocommit = True
        for setting in _SETTINGS:
            self._sql(f"SET {setting}")
        slot = self._slot()
        at = self._first(slot, position)
        end = slot.now if until == "end" else None
        limit = self._batch_changes
        while True:
            self._advance(at)
            messages = self._peek(end, limit)
            # Asked after the changes were read: a slot only goes on, so it had not gone past the position before.
            slot = self._slot()
            self._check(slot, at)
            # There is more behind messages that are as many as was asked for, even if none of them is of the table.
            is_full = len(messages) >= limit
            batch, at = self._batch(transactions(messages), slot, at, is_full=is_full)
            limit = limit * 2 if batch is None and is_full else self._batch_changes
            if batch is not None:
                yield batch
            elif is_full:
                continue  # all of it is in the table, and the slot did not move on
            elif end is not None:
                return
            else:
                time.sleep(self._poll_seconds)

    def _batch(
        self, found: Iterator[Transaction], slot: _Slot, at: int, *, is_full: bool
    ) -> tuple[SourceBatch | None, int]:
        """Make the next batch of transactions, and return the position after it, or none if there is nothing to do."""
        changes: list[Change] = []
        after, truncate = at, False
        for transaction in found:
            if transaction.end_lsn <= at:
                continue  # it is in the table, and the slot does not know it yet
            own, truncates = self._own(transaction)
            if own and changes and not truncates and own[0].relation != changes[0].relation:
                break  # columns changed in between: what a batch does not have gets the table's default
            changes = own if truncates else changes + own
            truncate = truncate or truncates
            after = transaction.end_lsn
        if after == at or not (changes or truncate or is_full or after - at >= self._idle_bytes):
            return None, at
        place = {"system": slot.system, "slot": self._names.slot, "table": self._table, "lsn": lsn_text(after)}
        batch = SourceBatch(
            position=position_text(self.kind, place),
            decode=lambda schema, reject: change_rows(changes, schema, reject, truncate=truncate),
            count=len(changes),
            behind=max(slot.now - after, 0),
        )
        return batch, after

    @property
    def _table(self) -> str:
        return f"{self._names.schema}.{self._names.table}"

    def _first(self, slot: _Slot, position: str | None) -> int:
        names = self._names
        if not self._sql(_PUBLISHED, names.publication, names.schema, names.table):
            raise NotFoundError(
                "the publication does not have this table",
                kind="source-table",
                field="publication",
                found=names.publication,
                expected=self._table,
            )
        if position is None:
            return slot.confirmed
        place = read_position(position, self.kind)
        check_same(place, system=slot.system, slot=names.slot, table=self._table)
        at = lsn_number(place["lsn"])
        self._check(slot, at)
        return at

    def _check(self, slot: _Slot, at: int) -> None:
        if slot.confirmed > at:
            message = "the slot went past the position: somebody else read from it, or it was made again"
            raise lost(message, "slot", lsn_text(slot.confirmed), lsn_text(at))
        if slot.now < at:
            message = "the server is behind the position: it was restored from a backup"
            raise lost(message, "slot", lsn_text(slot.now), lsn_text(at))

    def _own(self, transaction: Transaction) -> tuple[list[Change], bool]:
        """Return the changes of the table after its last truncation, and whether there was one."""
        own: list[Change] = []
        truncates = False
        for change in transaction.changes:
            if isinstance(change, Change):
                if self._names.is_of(change.relation):
                    own.append(change)
            elif any(self._names.is_of(r) for r in change.relations):
                own, truncates = [], True
        if truncates and not self._applies_truncate:
            raise InvalidInputError(
                "the source table was truncated",
                kind="message-truncate",
                field="table",
                found=f"{self._table}, transaction that ends at {lsn_text(transaction.end_lsn)}",
                expected="option truncate='apply', which deletes all rows of the table",
            )
        return own, truncates

    def _slot(self) -> _Slot:
        found = self._sql(_SLOT, self._names.slot)
        if not found:
            message = "the database has no such replication slot"
            raise NotFoundError(message, kind="source-slot", field="slot", found=self._names.slot)
        plugin, confirmed, status, now, system = found[0]
        if plugin != "pgoutput":
            message = "the slot is of another plugin"
            raise InvalidInputError(message, kind="source-slot", field="slot", found=plugin, expected="pgoutput")
        if status == "lost":
            raise lost("the server removed the log that the slot needs", "slot", self._names.slot, "a new slot")
        return _Slot(confirmed=lsn_number(confirmed), now=lsn_number(now), system=system)

    def _peek(self, end: int | None, limit: int) -> list[bytes]:
        names = self._names
        upto = None if end is None else lsn_text(end)
        rows = self._in_turn(lambda: self._sql(_PEEK, names.slot, upto, limit, names.publication))
        return [bytes(data) for (data,) in rows]

    def _advance(self, at: int) -> None:
        text = lsn_text(at)
        self._in_turn(lambda: self._sql(_ADVANCE, text, self._names.slot, text))

    def _in_turn(self, use: Callable[[], T]) -> T:
        """Call what needs the slot, which one process at a time may use."""
        import psycopg2  # noqa: PLC0415

        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return use()
            except psycopg2.errors.ObjectInUse:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _sql(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []
