"""What verifying a table says: findings, what was looked at, and the words that findings are named by.

Law: values only. A finding is about one field of one file; the same one in many snapshots is one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

__all__ = ["Finding", "Findings", "Level", "Severity", "VerifyReport", "error", "warning"]

Severity = Literal["error", "warning"]
Level = Literal["metadata", "deletes", "data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as the specification says, or that is legal and of no use.

    Attributes
    ----------
    severity: `error` breaks a rule; `warning` is legal, or hurts no reader.
    kind: stable code, for example `"duplicate-deletion-vector"`; one of `deletekit.maintenance.verify.KINDS`.
    message: what is wrong, in one sentence without the values below.
    file: the file concerned: a data or delete file, a manifest, a manifest list or the table metadata.
    field: the field, column or property concerned, by its name in the specification.
    found, expected: the offending value, and what was wanted instead.
    snapshot_ids: the snapshots concerned, of those that were checked; none for what concerns the table.
    repair: the kind to give to `repair`, which mends it on the branch that has it; None when only a person can decide.
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
        parts = [f"{self.severity} {self.kind}: {self.message}"]
        parts += [f"{n} {v}" for n, v in (("file", self.file), ("field", self.field)) if v is not None]
        parts += [f"{n} {v}" for n, v in (("found", self.found), ("expected", self.expected)) if v is not None]
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What `verify` returns.

    Attributes
    ----------
    level: how deep it looked.
    findings: errors first, each once.
    checked: how many `snapshots`, `manifests`, `entries`, `files`, `delete_files`, `data_files` and `rows` were
        checked; the last three count what was opened.
    """

    level: Level
    findings: tuple[Finding, ...] = ()
    checked: Mapping[str, int] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that break a rule."""
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that are legal, or hurt no reader."""
        return tuple(f for f in self.findings if f.severity == "warning")

    @property
    def ok(self) -> bool:
        """Whether there is no error; there may be warnings."""
        return not self.errors

    def __str__(self) -> str:
        counts = ", ".join(f"{v} {k.replace('_', ' ')}" for k, v in self.checked.items())
        return "\n".join([*map(str, self.findings), f"{'ok' if self.ok else 'damaged'}: checked {counts}"])


class Findings:
    """Collects findings; one that is found again only adds its snapshots."""

    def __init__(self) -> None:
        self._found: dict[Any, Finding] = {}

    def add(self, findings: Iterable[Finding], snapshot_ids: Iterable[int] = ()) -> None:
        """Add findings, which concern these snapshots."""
        ids = tuple(snapshot_ids)
        for finding in findings:
            key = (
                finding.kind,
                finding.message,
                finding.file,
                finding.field,
                str(finding.found),
                str(finding.expected),
            )
            known = self._found.get(key, finding)
            merged = dict.fromkeys((*known.snapshot_ids, *finding.snapshot_ids, *ids))
            self._found[key] = replace(known, snapshot_ids=tuple(merged))

    def __iter__(self) -> Iterator[Finding]:
        return iter(sorted(self._found.values(), key=lambda f: f.severity != "error"))


def error(kind: str, message: str, **named: Any) -> Finding:
    """A finding that breaks a rule; `named` are the fields of `Finding`."""
    return Finding(severity="error", kind=kind, message=message, **named)


def warning(kind: str, message: str, **named: Any) -> Finding:
    """A finding that is legal, or hurts no reader."""
    return Finding(severity="warning", kind=kind, message=message, **named)
