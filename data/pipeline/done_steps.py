"""Find the steps that are done, from the table's history: each commit names its step in the snapshot summary.

Only the history of `main`, freshly loaded from the catalog, decides. Steps run in order, so the newest step in the
history proves all steps before it, even if their snapshots have expired.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deletekit.errors import InvalidInputError
from deletekit.table.metadata import Snapshot
from deletekit.table.table import Table

DELIVERY = "deletekit.pipeline.delivery"
"""Table property and entry of the snapshot summary: the delivery's identity."""
STEP = "deletekit.pipeline.step"
ROWS_IN = "deletekit.pipeline.rows-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The steps that the history holds.

    Attributes
    ----------
    done: how many of the steps are done, from the first.
    snapshots: the snapshots of each step that the history still has; two mean that the step was done twice.
    """

    done: int
    snapshots: Mapping[str, tuple[Snapshot, ...]]


def properties_of(delivery: str, step: str, rows_in: int) -> dict[str, str]:
    """Return the summary entries that identify a step's commit."""
    return {DELIVERY: delivery, STEP: step, ROWS_IN: str(rows_in)}


def progress_of(table: Table, delivery: str, steps: Sequence[str]) -> Progress:
    """Reload the table, and return which of these steps its history holds.

    Raises InvalidInputError for a table of no pipeline or of another delivery, or if so much history has expired that
    it cannot tell.
    """
    metadata = table.refresh().metadata
    found = metadata.properties.get(DELIVERY)
    if found != delivery:
        raise InvalidInputError(
            "the table is not of this pipeline's delivery",
            kind="pipeline-table",
            file=table.location,
            field=DELIVERY,
            found=found or "a table without this property",
            expected=delivery,
        )
    numbers = {name: number for number, name in enumerate(steps)}
    snapshots: dict[str, tuple[Snapshot, ...]] = {}
    oldest: Snapshot | None = None
    for oldest in metadata.ancestors(metadata.current_snapshot.snapshot_id if metadata.current_snapshot else None):
        name = oldest.summary.get(STEP)
        if name is None or oldest.summary.get(DELIVERY) != delivery:
            continue
        if name not in numbers:
            raise InvalidInputError(
                "the history has a step that this pipeline does not",
                kind="pipeline-table",
                field=STEP,
                found=name,
                expected=", ".join(steps),
            )
        snapshots[name] = (oldest, *snapshots.get(name, ()))
    if not snapshots and oldest is not None and oldest.parent_snapshot_id is not None:
        raise InvalidInputError(
            "the table's history has expired, and with it which steps are done",
            kind="pipeline-history",
            file=table.location,
            field="parent-snapshot-id",
            found=f"snapshot {oldest.parent_snapshot_id} is gone",
            expected="a history that reaches back to a step",
        )
    return Progress(done=max((numbers[n] + 1 for n in snapshots), default=0), snapshots=snapshots)
