"""Read JSON strictly: a name comes once in an object, numbers are numbers, and text is Unicode.

Kafka's JSON converter puts the same schema before each payload, so the text of a schema is understood once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from deletekit.errors import InvalidInputError
from deletekit.stream.sources.source_types import SourceType, connect_type

_HEAD = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_PAYLOAD = re.compile(r'\s*,\s*"payload"\s*:\s*')
_SCHEMAS = 16
"""How many texts of schemas are kept."""


class StrictJson:
    """Reads JSON objects.

    Parameters
    ----------
    exact: read numbers with a point as Decimal, for columns of decimals.
    """

    def __init__(self, *, exact: bool = False) -> None:
        number: Callable[[str], Any] | None = Decimal if exact else None
        self._decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=number)
        self._heads: list[tuple[str, SourceType | None]] = []

    def value(self, data: bytes) -> Any:
        """Return what the bytes are. Raises InvalidInputError for bytes that are not JSON."""
        return self._value(_text(data))

    def payload(self, data: bytes) -> tuple[Any, SourceType | None]:
        """Return the payload of a message with a schema part, and its type; or the message itself, and None."""
        text = _text(data)
        for head, kind in self._heads:
            if text.startswith(head) and (body := self._body(text, len(head))) is not None:
                return body[0], kind
        document = self._value(text)
        inside = document.get("payload") if isinstance(document, dict) else None
        if isinstance(inside, dict) and document.keys() == {"payload"} and "op" in inside:
            return inside, None  # somebody took the schema out
        if not (isinstance(document, dict) and document.keys() == {"schema", "payload"}):
            return document, None
        kind = None if document["schema"] is None else connect_type(document["schema"])
        self._keep(text, kind)
        return document["payload"], kind

    def _body(self, text: str, start: int) -> tuple[Any] | None:
        """Return the payload after a known head, or None if the message has more than this."""
        end = text.rfind("}")
        if end < start or text[end + 1 :].strip():
            return None
        try:
            return (self._decoder.decode(text[start:end]),)
        except (ValueError, ArithmeticError, RecursionError):
            return None  # the message as a whole says what is wrong with it

    def _keep(self, text: str, kind: SourceType | None) -> None:
        head = _HEAD.match(text)
        if head is None:
            return
        _, end = self._decoder.raw_decode(text, head.end())
        if between := _PAYLOAD.match(text, end):
            self._heads = [(text[: between.end()], kind), *self._heads[: _SCHEMAS - 1]]

    def _value(self, text: str) -> Any:
        try:
            return self._decoder.decode(text)
        except RecursionError as e:
            raise _bad("a message is nested too deep", "deeper than Python reads", None) from e
        except (ValueError, ArithmeticError) as e:
            raise _bad("a message is not JSON", str(e)[:200], "one JSON object") from e


def _text(data: bytes) -> str:
    if data[:1] == b"\x00":
        expected = "a JSON object; of the wire format of a schema registry, debezium-avro reads Avro"
        raise _bad("a message is not JSON", "a zero byte first", expected)
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise _bad("a message is not JSON", str(e), "UTF-8") from e


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!r} comes twice in an object")
    return made


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")


def _bad(message: str, found: str, expected: str | None) -> InvalidInputError:
    return InvalidInputError(message, kind="message-json", found=found, expected=expected)
