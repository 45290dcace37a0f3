"""Report what cannot be read as a finding.

Damage never raises. Storage that does not answer raises StorageError: that says nothing about the table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import pyarrow as pa

from deletekit.errors import DeletekitError, NotFoundError, UnsupportedError
from deletekit.maintenance.verify.report import Finding, error, in_file, warning

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
"""What reading a damaged file raises. Our own errors are among them, but not StorageError."""


def guarded(findings: Iterable[Finding], file: str | None, field: str) -> Iterator[Finding]:
    """Yield the findings of a rule about `file`. If wrong values make the rule fail, yield that as a finding."""
    try:
        yield from in_file(findings, file)
    except DAMAGE as e:
        yield from_error(e, file, field)


def from_error(e: Exception, file: str | None, field: str) -> Finding:
    """Return why a file cannot be read: it is missing, deletekit does not support it, or it is damaged.

    `field` names what refers to the file.
    """
    if isinstance(e, NotFoundError):
        return error("missing-file", "file does not exist", field, file=file)
    if isinstance(e, UnsupportedError):
        return warning("not-checked", e.message, e.field or field, e.found, e.expected, file=file)
    if isinstance(e, DeletekitError):
        return error("unreadable-file", e.message, e.field or field, e.found, e.expected, file=file)
    return error("unreadable-file", "file cannot be read", field, f"{type(e).__name__}: {e}", file=file)


def not_checked(what: str, file: str) -> Finding:
    """Return that a file, or a manifest, is encrypted."""
    return warning("not-checked", f"encrypted {what} cannot be read", "key_metadata", file=file)
