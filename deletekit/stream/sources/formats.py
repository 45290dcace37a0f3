"""The formats of messages by name, and the decoder of each."""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from deletekit.errors import InvalidInputError
from deletekit.public import public
from deletekit.stream.sources.messages import Decoder

FORMATS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "debezium-json": ("debezium", "DebeziumJson"),
        "debezium-avro": ("debezium_avro", "DebeziumAvro"),
        "debezium-flat": ("flat", "FlatJson"),
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
        raise InvalidInputError(
            "unknown format of messages", kind="message-format", field="format", found=format, expected=known
        )
    module, name = FORMATS[format]
    made: Callable[..., Decoder] = getattr(import_module(f"deletekit.stream.sources.{module}"), name)
    return made(**options)
