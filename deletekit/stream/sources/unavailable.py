"""Find what Debezium puts where a value should be that did not change and that the database did not log.

PostgreSQL does not log a large value (TOAST) that an update leaves alone, Oracle no LOB. Such a value is never written:
the change row names its columns, and the sink takes their values from the row that is stored.
Debezium: "Toasted values", `unavailable.value.placeholder`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

from deletekit.errors import InvalidInputError

_HEX = "hex:"
"""Before a placeholder that is written in hexadecimal digits."""


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
