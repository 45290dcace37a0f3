"""Parse the messages of pgoutput, PostgreSQL's own plugin for logical replication, in version 1 of its protocol.

Version 1 sends a transaction whole, after its commit. PostgreSQL documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from deletekit.errors import FormatError, InvalidInputError


class Unchanged:
    """A value that an update left as it is, and that was not sent, because it is stored out of line (TOAST)."""


UNCHANGED: Final = Unchanged()
Value = str | None | Unchanged
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its name, its type by OID with its modifier, and whether it is in the replica identity."""

    name: str
    type_oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table as it was when its rows were changed.

    Attributes
    ----------
    identity: its REPLICA IDENTITY: `d` default, `n` nothing, `f` full, `i` an index.
    """

    namespace: str
    name: str
    identity: str
    columns: tuple[Column, ...]

    @property
    def old_columns(self) -> frozenset[str]:
        """The columns that old rows are sent with."""
        return frozenset(c.name for c in self.columns if c.is_key or self.identity == "f")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one row.

    Attributes
    ----------
    old: the row before; None if it was not sent, as its replica identity is unchanged or the row is new.
    new: the row after; None if it was deleted.
    is_insert: whether the row is new.
    lsn, number: where its transaction's commit is, and how many changes the transaction has before it.
    """

    relation: Relation
    old: Row | None
    new: Row | None
    is_insert: bool = False
    lsn: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class Truncation:
    """All rows of tables were deleted."""

    relations: tuple[Relation, ...]


@dataclass(slots=True)
class Transaction:
    """A committed transaction: what it changed, in order, where its commit is, and where that ends."""

    changes: list[Change | Truncation] = field(default_factory=list)
    lsn: int = 0
    end_lsn: int = 0


def transactions(messages: Iterable[bytes]) -> Iterator[Transaction]:
    """Parse messages into transactions.

    Raises FormatError for a message that is not pgoutput's, or not of this version.
    """
    relations: dict[int, Relation] = {}
    current = Transaction()
    for message in messages:
        read = _Reader(message)
        kind = read.char()
        if kind == "B":
            current = Transaction(lsn=read.number("Q"))
        elif kind == "R":
            oid = read.number("I")
            relations[oid] = _relation(read)
        elif kind in "IUD":
            change = _change(kind, read, relations)
            current.changes.append(replace(change, lsn=current.lsn, number=len(current.changes)))
        elif kind == "T":
            count, _ = read.number("I"), read.number("B")
            current.changes.append(Truncation(tuple(_known(relations, read.number("I")) for _ in range(count))))
        elif kind == "C":
            read.number("B")
            read.number("Q")
            current.end_lsn = read.number("Q")
            yield current
        elif kind not in "OYM":
            raise FormatError("not a message of pgoutput", kind="pgoutput", found=kind, expected="B C I U D T R O Y M")


def lsn_text(lsn: int) -> str:
    """Return a log sequence number as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """Return a log sequence number as a number."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def whole_row(change: Change) -> Row:
    """Return the row after a change, with values that were not sent from the row before.

    Raises InvalidInputError, naming the column, if the row before was not sent either.
    """
    assert change.new is not None
    if UNCHANGED not in change.new:
        return change.new
    relation = change.relation
    filled = tuple(
        old if new is UNCHANGED else new
        for new, old in zip(change.new, change.old or (UNCHANGED,) * len(change.new), strict=True)
    )
    # An old row that has only the replica identity has nulls in all other columns.
    known = relation.old_columns if change.old is not None else frozenset()
    for new, value, column in zip(change.new, filled, relation.columns, strict=True):
        if new is UNCHANGED and (value is UNCHANGED or column.name not in known):
            raise InvalidInputError(
                "an update does not say what an unchanged large value (TOAST) is",
                kind="toast",
                field=column.name,
                found=f"REPLICA IDENTITY {_IDENTITIES.get(relation.identity, relation.identity)}",
                expected=f"ALTER TABLE {relation.namespace}.{relation.name} REPLICA IDENTITY FULL",
            )
    return filled


_IDENTITIES = {"d": "DEFAULT", "n": "NOTHING", "f": "FULL", "i": "USING INDEX"}


class _Reader:
    """Reads numbers, names and rows of a message."""

    def __init__(self, message: bytes) -> None:
        self._message, self._at = message, 0

    def char(self) -> str:
        return chr(self.number("B"))

    def number(self, code: str) -> int:
        try:
            (number,) = struct.unpack_from(f"!{code}", self._message, self._at)
        except struct.error as e:
            raise self._cut_off() from e
        self._at += struct.calcsize(f"!{code}")
        return int(number)

    def name(self) -> str:
        end = self._message.find(b"\0", self._at)
        if end < 0:
            raise self._cut_off()
        found = self._message[self._at : end].decode()
        self._at = end + 1
        return found

    def row(self) -> Row:
        return tuple(self._value() for _ in range(self.number("H")))

    def _value(self) -> Value:
        kind = self.char()
        if kind == "n":
            return None
        if kind == "u":
            return UNCHANGED
        if kind != "t":
            raise FormatError("pgoutput sent a value that is not text", kind="pgoutput", found=kind, expected="t")
        size = self.number("I")
        end = self._at + size
        if end > len(self._message):
            raise self._cut_off()
        found = self._message[self._at : end].decode()
        self._at = end
        return found

    def _cut_off(self) -> FormatError:
        return FormatError("a message of pgoutput is cut off", kind="pgoutput", found=f"{len(self._message)} bytes")


def _relation(read: _Reader) -> Relation:
    namespace, name, identity = read.name(), read.name(), read.char()
    columns = []
    for _ in range(read.number("H")):
        flags, column = read.number("B"), read.name()
        columns.append(
            Column(name=column, type_oid=read.number("I"), modifier=read.number("i"), is_key=bool(flags & 1))
        )
    return Relation(namespace=namespace or "pg_catalog", name=name, identity=identity, columns=tuple(columns))


def _change(kind: str, read: _Reader, relations: dict[int, Relation]) -> Change:
    relation = _known(relations, read.number("I"))
    old = new = None
    part = read.char()
    if part in "KO":
        old = read.row()
        part = read.char() if kind == "U" else ""
    if kind != "D":
        if part != "N":
            raise FormatError("a change of pgoutput has no new row", kind="pgoutput", found=part, expected="N")
        new = read.row()
    elif old is None:
        raise FormatError("a delete of pgoutput has no old row", kind="pgoutput", found=part, expected="K or O")
    return Change(relation=relation, old=old, new=new, is_insert=kind == "I")


def _known(relations: dict[int, Relation], oid: int) -> Relation:
    if oid not in relations:
        raise FormatError("pgoutput did not say what a table is", kind="pgoutput", found=f"oid {oid}")
    return relations[oid]
