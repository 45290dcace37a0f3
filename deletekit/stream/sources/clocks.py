"""Tell whose log a place in a source is of, and put the places of several servers in one order.

A place in a log (MySQL's file and position, PostgreSQL's LSN) can be compared only with one of the same server. After a
failover, or in a new cluster, places may begin again lower, and a sink with `sequence_by` would drop newer changes as
late. So a batch says its servers, and the sink refuses another one. The option `servers` lists them, the oldest first:
each place of a later server is then higher than all of those before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deletekit.errors import FormatError, InvalidInputError
from deletekit.table.sink_files import SEQUENCE_SERVERS

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SYSTEM = ("system_identifier", "systemid", "timeline", "timeline_id")
_SHIFT = 56
"""Numbers of a later server begin at multiples of 2^56: a log of PostgreSQL with 2^56 bytes is 72 petabytes."""


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
    """Return the servers that a summary names. Raises FormatError for a text that is no list of them."""
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
