"""Know what messages leave out: values that did not change, and facts about a batch that no row has.

Facts: the source table was truncated, deletes have unknown values, no message fits, and the servers whose log the
sequence is of. They travel in the metadata of the Arrow schema, so that `Sink.write` takes a decoded batch like any
other rows.

PostgreSQL does not log a large value (TOAST) that an update leaves alone, Oracle no LOB. Debezium has a placeholder in
its place ("Toasted values", `unavailable.value.placeholder`). It is never written: the change row names its columns,
and the sink takes their values from the row that is stored.

A place in a log (MySQL's file and position, PostgreSQL's LSN) can be compared only with one of the same server. After a
failover, or in a new cluster, places may begin again lower, and a sink with `sequence_by` would drop newer changes as
late. So a batch has its servers, and the sink refuses another one. The option `servers` lists them, the oldest first:
each place of a later server is then higher than all of those before it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

import pyarrow as pa

from deletekit.errors import FormatError, InvalidInputError
from deletekit.table.sinks.files import SEQUENCE_SERVERS

_MARKS = b"deletekit.marks"
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SYSTEM = ("system_identifier", "systemid", "timeline", "timeline_id")
_SHIFT = 56
"""Numbers of a later server begin at multiples of 2^56: a log of PostgreSQL with 2^56 bytes is 72 petabytes."""
_HEX = "hex:"
"""Before a placeholder that is written in hexadecimal digits."""


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
    marks = {
        "truncate": truncate,
        "unknown": sorted(unknown),
        "understood": understood,
        "options": options,
        "servers": servers,
    }
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _MARKS: json.dumps(marks).encode()})


def _mark(table: pa.Table, name: str) -> Any:
    """Return a mark of change rows; None for rows without marks."""
    return json.loads((table.schema.metadata or {}).get(_MARKS, b"{}")).get(name)


def truncates(table: pa.Table) -> bool:
    """Tell whether the batch deletes all rows before its own."""
    return bool(_mark(table, "truncate"))


def understood(table: pa.Table) -> int:
    """Return how many messages of the batch were understood; 0 also for rows that come from no messages."""
    return int(_mark(table, "understood") or 0)


def options_needed(table: pa.Table) -> str:
    """Return the options without which messages of the batch could not be understood; no text if there are none."""
    return str(_mark(table, "options") or "")


def servers_of(table: pa.Table) -> tuple[str, ...]:
    """Return the servers whose log the column `_sequence` is of, as far as that is known."""
    return tuple(_mark(table, "servers") or ())


def check_deletes(table: pa.Table, key: Collection[str]) -> None:
    """Refuse a batch whose rows before a change lack a column of the key.

    Null there would not delete the row, or another one; and where an update gives a row another key, the old row would
    stay.
    """
    lacking = sorted(set(key).intersection(_mark(table, "unknown") or ()))
    if lacking:
        raise InvalidInputError(
            "rows before a delete or an update lack a column of the key, because the source does not log it",
            kind="message-key",
            field=", ".join(lacking),
            found="only the columns of the message's key",
            expected="the columns of the message's key as on, or REPLICA IDENTITY FULL and replica_identity='full'; for"
            " tombstones of a topic that is not compacted, the decoder's option tombstones='ignore'",
        )


def is_of_log(sequence: str) -> bool:
    """Tell whether a field of a source is a place in its log. Times (`ts_ms`) are those of any clock on the wall."""
    return not sequence.startswith("ts_")


def server_of(source: Any, prefix: str = "") -> str | None:
    """Return the server whose log an event is from, or None if the event does not say it.

    It is MySQL's `server_id`, with the server's uuid if the event has a GTID; PostgreSQL's system identifier and
    timeline, where an event has them; else the connector's logical name. Snapshots of MySQL have the server id 0.
    """
    if not isinstance(source, Mapping):
        return None
    number, gtid = source.get(f"{prefix}server_id"), source.get(f"{prefix}gtid")
    uuid = _UUID.match(gtid) if isinstance(gtid, str) else None
    named = [str(number)] if number else []
    named += [uuid[0].lower()] if uuid else []
    named += [str(source[f"{prefix}{n}"]) for n in _SYSTEM if source.get(f"{prefix}{n}") is not None]
    if named or f"{prefix}server_id" in source:
        return "/".join(named) or None
    name = source.get(f"{prefix}name")
    return name if isinstance(name, str) and name else None


def checked_servers(found: Iterable[str | None], known: Sequence[str]) -> tuple[str, ...]:
    """Return the servers in their order: those of the option, or the one that the events of a batch have.

    Raises InvalidInputError for a server that the option does not list, and for two without the option.
    """
    seen = [server for server in dict.fromkeys(found) if server is not None]
    listed = {each.strip() for entry in known for each in entry.split("|")}
    others = [server for server in seen if server not in listed] if known else seen[1:]
    if others:
        raise another_server(others, known or seen[:1])
    return tuple(known) or tuple(seen)


def another_server(found: Sequence[str], known: Sequence[str]) -> InvalidInputError:
    """Return the error for changes of servers whose places cannot be compared with those before."""
    new = [server for server in found if server not in known]
    return InvalidInputError(
        "the places of changes are of another server's log, so it is not known which change is newer",
        kind="sequence-server",
        field="sequence",
        found=", ".join(found),
        expected=f"{', '.join(known)}; after a failover the decoder's option servers={[*known, *new]} puts all changes"
        " of a later server behind those of the one before; sequence='ts_ms' asks for no server",
    )


def servers_in(text: str) -> list[str]:
    """Return the servers that a summary names. Raises FormatError for a text that is not a list of them."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        message, expected = "a snapshot names the servers of a sequence in a way that cannot be read", "a JSON list"
        raise FormatError(message, kind="sequence-servers", field=SEQUENCE_SERVERS, found=text, expected=expected)
    return found


def in_order(place: Any, server: str | None, servers: Sequence[str]) -> Any:
    """Return a place of a log with the number of its server, so that places of later servers are higher."""
    if place is None or len(servers) < 2:
        return place
    numbers = [n for n, entry in enumerate(servers) if server in {each.strip() for each in entry.split("|")}]
    if not numbers:
        message, expected = "an event does not say its server, and there are several", ", ".join(servers)
        raise InvalidInputError(message, kind="message-sequence", field="servers", found=server, expected=expected)
    if isinstance(place, str):
        return f"~{numbers[0]:03d}:{place}" if numbers[0] else place  # `~` comes after digits and letters
    if not 0 <= place < 1 << _SHIFT or numbers[0] >= 1 << (63 - _SHIFT):
        message, expected = "a place in a log is too high to be put behind another server's", f"below 2^{_SHIFT}"
        raise InvalidInputError(message, kind="message-sequence", field="servers", found=place, expected=expected)
    return place + (numbers[0] << _SHIFT)


@cache
def _forms(placeholder: str) -> tuple[Any, ...]:
    """Return the placeholder as each type of column has it: text, bytes in each mode, JSON, uuid, and lists and maps.

    A list of bytes is also that of numbers: 95 equals 95.0 and Decimal(95).
    """
    data = bytes.fromhex(placeholder[len(_HEX) :]) if placeholder.startswith(_HEX) else placeholder.encode()
    text = data.decode("utf-8", "replace")
    uuid = str(UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3))
    standard, safe = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    plain = (text, standard, safe, safe.rstrip("="), data.hex(), data.hex().upper(), data, uuid)
    alone = tuple(dict.fromkeys(plain))
    maps = (
        {text: text},
        [[text, text]],
        f'{{"{text}":"{text}"}}',
        f'{{"{text}": "{text}"}}',
        [{"key": text, "value": text}],
    )
    return (*alone, list(data), *([form] for form in alone), *maps)


def is_placeholder_text(text: str) -> bool:
    """Tell whether an option can be a placeholder: text, or `hex:` and digits."""
    try:
        return not text.startswith(_HEX) or bool(bytes.fromhex(text[len(_HEX) :]))
    except ValueError:
        return False


def unavailable_at(values: Sequence[Any], placeholder: str) -> list[int]:
    """Return the places of values that stand for one that was not sent."""
    present = [form for form in _forms(placeholder) if form in values]
    return [n for n, value in enumerate(values) if value in present] if present else []


def without_unavailable(row: Mapping[str, Any], placeholder: str) -> Mapping[str, Any]:
    """Return a row before a change without the columns whose value was not sent."""
    values = list(row.values())
    gone = {list(row)[n] for n in unavailable_at(values, placeholder)}
    return {n: v for n, v in row.items() if n not in gone} if gone else row


def unavailable(placeholder: str, name: str, where: str) -> InvalidInputError:
    """Return the error for a value that was not sent where there is no row to take it from."""
    return InvalidInputError(
        f"a value that did not change is not in the message, because the database does not log it, and {where}",
        kind="message-unavailable",
        field=name,
        found=placeholder,
        expected="ALTER TABLE ... REPLICA IDENTITY FULL in the source, or the column in `ignore`",
    )
