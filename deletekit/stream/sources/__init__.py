"""Sources of change rows: formats decode messages, transports bring them."""

from typing import Any

from deletekit.errors import InvalidInputError
from deletekit.stream.sources.messages import CHANGE_TYPE, SEQUENCE, Decoder, Message, Reject

FORMATS = ("debezium-json", "debezium-avro", "debezium-flat", "maxwell", "canal")

__all__ = ["CHANGE_TYPE", "FORMATS", "SEQUENCE", "Decoder", "Message", "Reject", "decoder"]


def decoder(format: str, **options: Any) -> Decoder:  # noqa: A002  # the word of Kafka's and Flink's options
    """Return the decoder of a format.

    Parameters
    ----------
    format: `debezium-json`, `debezium-avro`, `debezium-flat`, `maxwell` or `canal`.
    options: of the format.

    Raises InvalidInputError for another format or option.
    """
    known = ", ".join(FORMATS)
    raise InvalidInputError(
        "unknown format of messages", kind="message-format", field="format", found=format, expected=known
    )
