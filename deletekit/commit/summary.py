"""Count the summary of a snapshot: what a commit adds and removes, and the running totals.

Keys and rules are those of Java's SnapshotSummary. Counters of zero are left out, totals are not; all values are text.
`total-records` never subtracts deleted positions.
"""

from __future__ import annotations

from collections.abc import Mapping

from deletekit.commit.change import RowDelta
from deletekit.deletes.which_apply import scope_of
from deletekit.deletes.write_context import partition_path
from deletekit.formats.content_file import ContentFile
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.properties import value_of
from deletekit.table.summary_counters import TOTALS, count_files
from deletekit.version import __version__


def summarise(
    delta: RowDelta,
    metadata: TableMetadata,
    parent: Snapshot | None,
    manifests: Mapping[str, int],
    properties: Mapping[str, str],
) -> dict[str, str]:
    """Return the summary, `operation` first.

    Parameters
    ----------
    parent: its totals are continued; a total that it lacks, or that is no number, is left out, as Java does.
    manifests: how many manifests were `created`, `kept` and `replaced`.
    properties: the caller's extra entries.
    """
    added: tuple[ContentFile, ...] = (*delta.added_data_files, *delta.added_delete_files)
    removed = tuple(e.data_file for e in (*delta.removed_data_files, *delta.removed_delete_files))
    counters = count_files(added, removed)
    summary: dict[str, str] = {"operation": delta.implied_operation, **properties}
    summary |= {k: str(v) for k, v in counters.items() if v > 0}
    summary |= _partitions(metadata, added, removed)
    for name in ("created", "kept", "replaced"):
        summary[f"manifests-{name}"] = str(manifests[name])
    summary |= _totals(delta.parent_totals, parent, counters)
    return {**summary, "engine-name": "deletekit", "engine-version": __version__}


def _totals(known: Mapping[str, int] | None, parent: Snapshot | None, counters: Mapping[str, int]) -> dict[str, str]:
    out = {}
    for total, (plus, minus) in TOTALS.items():
        before = "0" if parent is None else parent.summary.get(total, "")
        before = before if known is None else str(known[total])
        if before.isdigit():
            out[total] = str(int(before) + counters.get(plus, 0) - counters.get(minus, 0))
    return out


def _partitions(
    metadata: TableMetadata, added: tuple[ContentFile, ...], removed: tuple[ContentFile, ...]
) -> dict[str, str]:
    keys = {scope_of(f): (f.spec_id, f.partition) for f in (*added, *removed)}
    out = {"changed-partition-count": str(len(keys))}
    if not 0 < len(keys) <= value_of(metadata.properties, "write.summary.partition-limit"):
        return out
    out["partition-summaries-included"] = "true"
    for key, (spec_id, partition) in keys.items():
        mine = count_files(*((f for f in files if scope_of(f) == key) for files in (added, removed)))
        path = partition_path(metadata.specs[spec_id], partition, metadata)
        out[f"partitions.{path}"] = ",".join(f"{k}={v}" for k, v in mine.items() if v > 0)
    return out
