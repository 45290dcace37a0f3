"""Read files of messages: a JSON message a line, plain or gzip. A key may stand before its value, and a tab between."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

from deletekit.errors import InvalidInputError
from deletekit.stream.sources import decoder
from deletekit.stream.sources.messages import CHANGE_TYPE, Decoder, Message

SUFFIXES = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")


def file_decoder(form: str | Decoder, change_type: str | None) -> Decoder:
    """Return the decoder of files. Raises InvalidInputError for a format that files do not have.

    Parameters
    ----------
    change_type: the sink's column of change types, which must be the decoder's.
    """
    if form == "debezium-avro":
        message, expected = "messages in Avro are not read from files", "JSON lines, or Kafka"
        raise InvalidInputError(message, kind="message-format", field="format", found=form, expected=expected)
    if change_type != CHANGE_TYPE:
        message = "messages have the change types of their format"
        raise InvalidInputError(message, "change-type", "change_type", str(change_type), CHANGE_TYPE)
    return decoder(form) if isinstance(form, str) else form


def check_messages_file(file: str) -> None:
    """Refuse a file of another suffix."""
    if not file.lower().endswith(SUFFIXES):
        message, known = "messages are read from JSON lines", ", ".join(SUFFIXES)
        found = Path(file).suffix
        raise InvalidInputError(message, kind="file-format", file=file, found=found, expected=known)


def read_messages(file: str) -> list[Message]:
    """Return the messages of a file. `null` is a tombstone. Raises InvalidInputError for a damaged gzip file."""
    data = Path(file).read_bytes()
    if file.lower().endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as e:
            raise InvalidInputError("messages cannot be read", kind="rows", file=file, found=str(e)) from e
    found = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if text := line.strip():
            key, value = _key_and_value(text)
            found.append(Message(key=key, value=value, topic=file, partition=-1, offset=number))
    return found


def _key_and_value(line: bytes) -> tuple[bytes | None, bytes | None]:
    key, tab, value = line.partition(b"\t")
    if tab and _is_json(key):
        return _or_none(key), _or_none(value)
    return None, _or_none(line)


def _is_json(data: bytes) -> bool:
    """Tell whether bytes are a whole JSON value: what stands before the first tab inside of one is not."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _or_none(data: bytes) -> bytes | None:
    return None if data.strip() == b"null" else data
