"""What conversions raise for a value that does not fit; `values.column_of` adds the column's name."""

from typing import Any


class UnfitError(Exception):
    """A value does not fit."""

    def __init__(
        self, message: str, *, found: Any = None, expected: str | None = None, kind: str = "message-value"
    ) -> None:
        super().__init__(message)
        self.found, self.expected, self.kind = found, expected, kind
