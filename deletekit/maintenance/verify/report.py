"""Describe what verifying a table found, and how much it looked at.

A finding is about one field of one file. The same one in many snapshots is one finding. Damage never raises: it becomes
a finding. If the table's own storage does not answer, StorageError is raised: that says nothing about the table.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Literal

import pyarrow as pa

from deletekit.errors import DeletekitError, NotFoundError, StorageError, UnsupportedError
from deletekit.notebook_html import result
from deletekit.text import without_secrets

Severity = Literal["error", "warning"]
Level = Literal["metadata", "deletes", "data"]


class OtherPlaceError(StorageError):
    """A path names a place that is not the table's own, and that does not answer."""


DAMAGE = (
    UnsupportedError,
    OtherPlaceError,
    pa.ArrowException,
    struct.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What reading a damaged file raises. Our own errors are among them, but not StorageError of the table's own place."""


@result
class Finding:
    """One thing that breaks the specification, or that is legal and useless.

    Attributes
    ----------
    severity: `error` breaks a rule. `warning` is legal, or hurts no reader.
    kind: a stable code, for example `"duplicate-deletion-vector"`: one of `deletekit.maintenance.verify.KINDS`.
    message: what is wrong, in one sentence without the values below.
    file: the file concerned: a data or delete file, a manifest, a manifest list or the table metadata.
    field: the field, column or property concerned, by its name in the specification.
    found, expected: the offending value, and what was wanted instead.
    snapshot_ids: which of the checked snapshots are concerned. Empty if the finding concerns the whole table.
    repair: the kind to pass to `repair`, which repairs it on its branch. None if only a person can decide.
    """

    severity: Severity
    kind: str
    message: str
    file: str | None = None
    field: str | None = None
    found: Any = None
    expected: Any = None
    snapshot_ids: tuple[int, ...] = ()
    repair: str | None = None

    def __str__(self) -> str:
        details = {n: getattr(self, n) for n in ("file", "field", "found", "expected")}
        shown = [f"{n} {v}" for n, v in details.items() if v is not None]
        return "; ".join([f"{self.severity} {self.kind}: {self.message}", *shown])


@result
class VerifyReport:
    """What `verify` returns.

    Attributes
    ----------
    level: how deep it looked.
    findings: each finding once, errors first.
    checked: how many `snapshots`, `manifests`, `entries`, `files`, `delete_files`, `data_files` and `rows` were
        checked. The last three count what was opened.
    """

    level: Level
    findings: tuple[Finding, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return the findings that break a rule."""
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Return the findings that are legal, or that hurt no reader."""
        return tuple(f for f in self.findings if f.severity == "warning")

    @property
    def ok(self) -> bool:
        """Tell whether there is no error. There may be warnings."""
        return not self.errors

    def __str__(self) -> str:
        counts = ", ".join(f"{v} {k.replace('_', ' ')}" for k, v in self.checked.items())
        return "\n".join([*map(str, self.findings), f"{'ok' if self.ok else 'damaged'}: checked {counts}"])


class Findings:
    """Collect findings. One that is found again only adds its snapshots."""

    def __init__(self) -> None:
        self._found: dict[Any, Finding] = {}

    def add(self, findings: Iterable[Finding], snapshot_ids: Iterable[int] = ()) -> None:
        """Add findings, which concern these snapshots."""
        ids = tuple(snapshot_ids)
        for finding in findings:
            values = str(finding.found), str(finding.expected)
            key = (finding.kind, finding.message, finding.file, finding.field, *values)
            known = self._found.get(key, finding)
            merged = dict.fromkeys((*known.snapshot_ids, *finding.snapshot_ids, *ids))
            self._found[key] = replace(known, snapshot_ids=tuple(merged))

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._found.values(), key=lambda f: f.severity != "error"))


def error(
    kind: str, message: str, field: str | None = None, found: Any = None, expected: Any = None, **more: Any
) -> Finding:
    """Return a finding that breaks a rule. `more` are the other fields of `Finding`."""
    return Finding(severity="error", kind=kind, message=message, field=field, found=found, expected=expected, **more)


def warning(
    kind: str, message: str, field: str | None = None, found: Any = None, expected: Any = None, **more: Any
) -> Finding:
    """Return a finding that is legal, or that hurts no reader. `more` are the other fields of `Finding`."""
    return replace(error(kind, message, field, found, expected, **more), severity="warning")


def differs(kind: str, message: str, field: str, found: Any, expected: Any, **more: Any) -> Iterator[Finding]:
    """Yield an error if two values differ."""
    if found != expected:
        yield error(kind, message, field, found, expected, **more)


def in_file(findings: Iterable[Finding], file: str | None) -> Iterator[Finding]:
    """Yield findings, naming the file in those that name none."""
    return (f if file is None or f.file is not None else replace(f, file=file) for f in findings)


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
    return error(
        "unreadable-file", "file cannot be read", field, without_secrets(f"{type(e).__name__}: {e}"), file=file
    )


def not_checked(what: str, file: str) -> Finding:
    """Return that a file, or a manifest, is encrypted."""
    return warning("not-checked", f"encrypted {what} cannot be read", "key_metadata", file=file)
