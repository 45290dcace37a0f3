"""What transports and formats share: messages, and decoders that make change rows of them.

A transport (Kafka, files) yields messages. A decoder of their format turns a batch of them into one Arrow table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from pyiceberg.schema import Schema

from deletekit.errors import InvalidInputError
from deletekit.public import public

CHANGE_TYPE = "_change_type"
"""The column that decoders add, with Iceberg's words: INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE.

A tombstone of Kafka, which has only a key and no place in the source's order, is TOMBSTONE.
"""
SEQUENCE = "_sequence"
"""The column that decoders add if they are asked for a sequence."""
UNCHANGED = "_unchanged"
"""The column that decoders add if values were not sent because they did not change: the names of a row's columns whose
values are taken from the row before."""
KEY_BEFORE = "_key_before"
"""Beside `_unchanged`: a struct of the row before the update, as far as it is known. Its key may be another."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was sent.

    Attributes
    ----------
    key, value: the bytes; a value of None is a tombstone.
    topic, partition, offset: where the message is from. Of a file they are its path, -1 and the number of the line.
    timestamp_ms: when it was sent, in milliseconds since 1970; None if that is not known.
    headers: names and values, in their order.
    """

    key: bytes | None
    value: bytes | None
    topic: str = ""
    partition: int = 0
    offset: int = 0
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def position(self) -> str:
        """Where in its topic the message is, for dead letters."""
        return f"{self.partition}:{self.offset}"

    @property
    def place(self) -> str:
        """Where the message is from, for errors."""
        if self.partition < 0:
            return f"file {self.topic}, line {self.offset}"
        return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"


Reject = Callable[[Message, InvalidInputError], None]
"""Takes a message that cannot be understood, and why."""


@runtime_checkable
class Decoder(Protocol):
    """Turns messages of one format into change rows."""

    def decode(self, messages: Sequence[Message], schema: Schema, *, reject: Reject | None = None) -> pa.Table:
        """Return the change rows of messages, in the order of the messages.

        The columns are those of the table that the messages have, in the table's types, columns that the table lacks,
        in the types of the source, and `_change_type`. A row that deletes has its key, and null in columns that its
        message does not have.

        Parameters
        ----------
        schema: the table's.
        reject: takes each message that cannot be understood, which is then left out.

        Raises InvalidInputError, naming topic, partition and offset, for such a message if there is no `reject`.
        """
        ...


FORMATS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "debezium-json": ("debezium", "DebeziumJson"),
        "debezium-avro": ("debezium_avro", "DebeziumAvro"),
        "debezium-flat": ("debezium", "FlatJson"),
    }
)
"""The formats of messages, each with the module and the class that decodes it."""


@public
def decoder(format: str, **options: Any) -> Decoder:  # noqa: A002  # the word of Kafka's and Flink's options
    """Return the decoder of a format, which turns messages into change rows.

    Parameters
    ----------
    format: `debezium-json`, `debezium-avro` or `debezium-flat` (ExtractNewRecordState).
    options: of all formats: `ignore`, columns of the source to leave out; `sequence`, the field of the source that
        `_sequence` has (`lsn`, `ts_ms`, `binlog`); `time_unit` (`ms`, `us`, `ns`) of whole numbers in columns of times,
        if messages have no schema; `assume_utc`, for times without a zone in columns with one.
        Of Debezium: `truncate='apply'`; `replica_identity='full'`; `unavailable`, its placeholder;
        `tombstones='ignore'`; `servers`, whose logs a sequence is of, the oldest first; and of messages without a
        schema `binary` (`base64`, `base64-url-safe`, `hex`) and `decimal_texts`.
        Of debezium-avro: `registry`, its address, or schemas by id; `id_bytes`.

    Raises InvalidInputError for another format or option.
    """
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise InvalidInputError("unknown format of messages", "message-format", "format", format, known)
    module, name = FORMATS[format]
    made: Callable[..., Decoder] = getattr(import_module(f"deletekit.stream.sources.{module}"), name)
    return made(**options)
