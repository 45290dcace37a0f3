"""Report a run of the pipeline: each step with its rows, files and seconds, and each check.

The figures of a step come from its snapshot's summary, even if an earlier run did the step.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from data.pipeline.delivery import UNFINISHED
from deletekit.commit.swap import Commit
from deletekit.table.metadata import Snapshot

Status = Literal["done", "done before", "nothing to do"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A step.

    Attributes
    ----------
    status: `done` by this run, `done before` it, or `nothing to do`: no row had to change, and no commit was made.
    rows_in: rows of its raw files.
    rows_written: rows of the data files that it added.
    rows_deleted: positions that its delete files have more than those they replace, and keys, which may stand for many
        rows.
    files_added, files_removed: data files and delete files.
    snapshot_id: of its commit.
    seconds: that this run took; None when it was done before.
    """

    name: str
    status: Status
    rows_in: int
    rows_written: int = 0
    rows_deleted: int = 0
    files_added: int = 0
    files_removed: int = 0
    snapshot_id: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """A check and what it found. A check that cannot be made is not ok."""

    name: str
    ok: bool
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """A whole run."""

    directory: str
    table: str
    master: str
    format_version: int
    days: int
    delivery: str
    steps: tuple[StepReport, ...]
    checks: tuple[CheckReport, ...]
    live_rows: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every check found nothing wrong."""
        return all(check.ok for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}

    def as_text(self) -> str:
        """Return the report as text."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield f"{self.table}, format version {self.format_version}, {self.days} days, on {self.master}"
        yield f"in {self.directory}"
        yield ""
        yield f"{'step':<32}{'status':<15}{'rows in':>10}{'written':>10}{'deleted':>10}{'files':>12}{'seconds':>9}"
        for s in self.steps:
            files = f"+{s.files_added} -{s.files_removed}"
            seconds = "" if s.seconds is None else f"{s.seconds:.1f}"
            counts = f"{s.rows_in:>10,}{s.rows_written:>10,}{s.rows_deleted:>10,}{files:>12}{seconds:>9}"
            yield f"{s.name:<32}{s.status:<15}{counts}"
        yield ""
        for check in self.checks:
            yield f"{'ok' if check.ok else 'WRONG':<7}{check.name}: {check.found}"
        yield f"{self.live_rows:,} live rows; {self.seconds:.0f} s"


def step_report(
    name: str, rows_in: int, status: Status, made: Commit | Snapshot | None, seconds: float | None = None
) -> StepReport:
    """Return a step's report, from the summary of the snapshot that it made."""
    summary = made.summary if made is not None else {}

    def total(*names: str) -> int:
        return sum(int(summary.get(n, 0)) for n in names)

    # A new vector also holds the positions of its predecessor.
    positions = total("added-position-deletes") - total("removed-position-deletes")
    return StepReport(
        name=name,
        status=status,
        rows_in=rows_in,
        rows_written=total("added-records"),
        rows_deleted=max(0, positions) + total("added-equality-deletes"),
        files_added=total("added-data-files", "added-delete-files"),
        files_removed=total("deleted-data-files", "removed-delete-files"),
        snapshot_id=made.snapshot_id if made is not None else None,
        seconds=seconds,
    )


def write_report(report: PipelineReport, directory: Path) -> None:
    """Write `report.json` and `report.txt`, each completely or not at all."""
    texts = {"report.json": json.dumps(report.as_json(), indent=2) + "\n", "report.txt": report.as_text()}
    for name, text in texts.items():
        aside = directory / f"{UNFINISHED}{name}-{os.getpid()}"
        aside.write_text(text, encoding="utf-8")
        aside.replace(directory / name)
