"""What cannot be read, as a finding.

Law: damage never raises. A storage that does not answer does: that says nothing about the table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import pyarrow as pa

from deletekit.errors import DeletekitError, NotFoundError, UnsupportedError
from deletekit.maintenance.verify.report import Finding, error, warning

__all__ = ["DAMAGE", "from_error", "guarded"]

DAMAGE = (
    UnsupportedError,
    pa.ArrowException,
    struct.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What reading a damaged file raises, our errors among them but for StorageError, which is no finding."""


def guarded(findings: Iterable[Finding], file: str | None, field: str) -> Iterator[Finding]:
    """The findings of a rule; where values are so wrong that the rule itself stumbles, a finding that says so."""
    try:
        yield from findings
    except DAMAGE as e:
        yield from_error(e, file, field)


def from_error(e: Exception, file: str | None, field: str) -> Finding:
    """What kept a file from being read: it is not there, deletekit does not do it, or it is damaged.

    `field` names what refers to the file.
    """
    if isinstance(e, NotFoundError):
        return error("missing-file", "file does not exist", file=file, field=field)
    if isinstance(e, UnsupportedError):
        return warning("not-checked", e.message, file=file, field=e.field or field, found=e.found, expected=e.expected)
    if isinstance(e, DeletekitError):
        where = e.field or field
        return error("unreadable-file", e.message, file=file, field=where, found=e.found, expected=e.expected)
    return error("unreadable-file", "file cannot be read", file=file, field=field, found=f"{type(e).__name__}: {e}")
