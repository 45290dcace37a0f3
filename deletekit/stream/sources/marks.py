"""Facts about a batch that no row can say: the source table was truncated, deletes have unknown values, no message
fits, and the servers whose log the sequence is of.

They travel in the metadata of the Arrow schema, so that `Sink.write` takes a decoded batch like any other rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from deletekit.errors import InvalidInputError

_TRUNCATE = b"deletekit.truncate"
_UNKNOWN = b"deletekit.unknown-in-deletes"
_UNDERSTOOD = b"deletekit.understood"
_OPTIONS = b"deletekit.options-needed"
_SERVERS = b"deletekit.servers"


def with_marks(
    table: pa.Table,
    *,
    truncate: bool = False,
    unknown: Iterable[str] = (),
    understood: int = 0,
    options: str = "",
    servers: Sequence[str] = (),
) -> pa.Table:
    """Return change rows with marks.

    Parameters
    ----------
    truncate: all rows of the table are deleted before the first change.
    unknown: columns that some deleted row lacks, or some row before its update. A sink that has one in its key cannot
        apply the batch.
    understood: how many messages were understood, with rows or without.
    options: options of the format without which all other messages cannot be understood.
    servers: those whose log the column `_sequence` is of, the oldest first.
    """
    marks = dict(table.schema.metadata or {})
    if truncate:
        marks[_TRUNCATE] = b"true"
    if names := sorted(unknown):
        marks[_UNKNOWN] = "\n".join(names).encode()
    if understood:
        marks[_UNDERSTOOD] = str(understood).encode()
    if options:
        marks[_OPTIONS] = options.encode()
    if servers:
        marks[_SERVERS] = json.dumps(servers).encode()
    return table.replace_schema_metadata(marks or None)


def truncates(table: pa.Table) -> bool:
    """Tell whether the batch deletes all rows before its own."""
    return _TRUNCATE in (table.schema.metadata or {})


def understood(table: pa.Table) -> int:
    """Return how many messages of the batch were understood; 0 also for rows that come from no messages."""
    return int((table.schema.metadata or {}).get(_UNDERSTOOD, b"0"))


def options_needed(table: pa.Table) -> str:
    """Return the options without which messages of the batch could not be understood; no text if there are none."""
    return bytes((table.schema.metadata or {}).get(_OPTIONS, b"")).decode()


def servers_of(table: pa.Table) -> tuple[str, ...]:
    """Return the servers whose log the column `_sequence` is of, as far as that is known."""
    return tuple(json.loads((table.schema.metadata or {}).get(_SERVERS, b"[]")))


def check_deletes(table: pa.Table, key: Collection[str]) -> None:
    """Refuse a batch whose rows before a change lack a column of the key.

    Null there would not delete the row, or another one; and where an update gives a row another key, the old row would
    stay.
    """
    unknown = (table.schema.metadata or {}).get(_UNKNOWN, b"").decode().split("\n")
    lacking = sorted(set(key).intersection(unknown))
    if lacking:
        raise InvalidInputError(
            "rows before a delete or an update lack a column of the key, because the source does not log it",
            kind="message-key",
            field=", ".join(lacking),
            found="only the columns of the message's key",
            expected="equality_fields of the message's key, or REPLICA IDENTITY FULL and replica_identity='full'; for"
            " tombstones of a topic that is not compacted, the decoder's option tombstones='ignore'",
        )
