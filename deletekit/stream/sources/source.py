"""What a source is: it yields batches of change rows, each with the position after it.

A position is text. The sink stores it in the commit of its batch, and hands it back when it goes on. So what the source
itself keeps (offsets of a consumer group, a replication slot) need not be right.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.stream.sources.messages import Reject

Until = Literal["end"] | None
"""When a source ends: at what it held when it was asked, or never."""
Decode = Callable[[Schema, Reject | None], pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBatch:
    """A batch of a source.

    Attributes
    ----------
    position: the position after the batch.
    decode: gives the change rows, as `Decoder.decode`, for the table's schema and a taker of messages that cannot be
        understood. It has the key columns even if there are no rows.
    behind: how much the source has after this batch: messages of Kafka, bytes of PostgreSQL, snapshots of a table; None
        if it is not known.
    unordered: the error for a sink without an order column, if the order of changes is not known; None if it is.
    """

    position: str
    decode: Decode
    behind: int | None = None
    unordered: InvalidInputError | None = None


@runtime_checkable
class Source(Protocol):
    """Yields the changes after a position, in batches.

    Attributes
    ----------
    kind: the name of this kind of source, which its positions begin with.
    """

    kind: str

    def batches(self, position: str | None, *, until: Until = "end") -> Iterator[SourceBatch]:
        """Yield the batches after a position, one after another.

        Parameters
        ----------
        position: of an earlier batch; None: from the beginning.
        until: `end`: what the source holds now; None: wait for more and never end.

        Raises InvalidInputError if changes after the position are lost (`source-lost`), or if the position is of
        another source (`source-changed`).
        """
        ...

    def committed(self, position: str) -> None:
        """Take note that the batches up to a position are in the table. The source may forget them."""
        ...


def position_text(kind: str, place: dict[str, Any]) -> str:
    """Return a position as text: JSON, with the kind of its source."""
    return json.dumps({"source": kind, **place}, separators=(",", ":"), sort_keys=True)


def read_position(position: str, kind: str) -> dict[str, Any]:
    """Return what `position_text` was given. Raise InvalidInputError for the position of another kind of source."""
    try:
        place = json.loads(position)
    except ValueError:
        place = None
    found = place.get("source") if isinstance(place, dict) else None
    if not isinstance(place, dict) or found != kind:
        raise changed("the batches of this sink id come from another kind of source", "source", found, kind)
    return place


def check_same(place: dict[str, Any], **own: Any) -> None:
    """Raise InvalidInputError (`source-changed`) if a position is not of this source."""
    for name, value in own.items():
        if place.get(name) != value:
            raise changed(f"the batches of this sink id come from another {name}", name, value, place.get(name))


def changed(message: str, field: str, found: Any, expected: Any) -> InvalidInputError:
    """Return the error for a position of another source."""
    return InvalidInputError(message, "source-changed", field, found, f"{expected}, or another sink id")


def lost(message: str, field: str, found: Any, expected: Any) -> InvalidInputError:
    """Return the error for changes that the source no longer has."""
    return InvalidInputError(message, kind="source-lost", field=field, found=found, expected=expected)
