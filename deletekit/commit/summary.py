"""Count the summary of a snapshot: what a commit adds and removes, and the running totals.

Keys and rules are those of Java's SnapshotSummary. Counters of zero are left out, totals are not; all values are text.
`total-records` never subtracts deleted positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deletekit.commit.change import RowDelta
from deletekit.deletes.scope import scope_of
from deletekit.deletes.write_context import partition_path
from deletekit.formats.content_file import ContentFile, DataFile, DeleteFile
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.properties import value_of
from deletekit.version import __version__

__all__ = ["summarise"]

_TOTALS = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


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
    counters = _counters(added, removed)
    summary: dict[str, str] = {"operation": delta.implied_operation, **properties}
    summary |= {k: str(v) for k, v in counters.items() if v > 0}
    summary |= _partitions(metadata, added, removed)
    for name in ("created", "kept", "replaced"):
        summary[f"manifests-{name}"] = str(manifests[name])
    summary |= _totals(delta.parent_totals, parent, counters)
    return {**summary, "engine-name": "deletekit", "engine-version": __version__}


def _counters(added: Iterable[ContentFile], removed: Iterable[ContentFile]) -> dict[str, int]:
    c: dict[str, int] = {}

    def count(name: str, amount: int = 1) -> None:
        c[name] = c.get(name, 0) + amount

    for files, verb, data_verb in ((added, "added", "added"), (removed, "removed", "deleted")):
        for file in files:
            if isinstance(file, DataFile):
                count(f"{verb}-files-size", file.file_size_in_bytes)
                count(f"{data_verb}-data-files")
                count(f"{data_verb}-records", file.record_count)
            elif isinstance(file, DeleteFile):
                count(f"{verb}-files-size", file.content_bytes)
                count(f"{verb}-delete-files")
                _count_deletes(count, verb, file)
    return c


def _count_deletes(count: Any, verb: str, file: DeleteFile) -> None:
    if file.equality_ids:
        count(f"{verb}-equality-delete-files")
        count(f"{verb}-equality-deletes", file.record_count)
        return
    count(f"{verb}-dvs" if file.is_deletion_vector else f"{verb}-position-delete-files")
    count(f"{verb}-position-deletes", file.record_count)


def _totals(known: Mapping[str, int] | None, parent: Snapshot | None, counters: Mapping[str, int]) -> dict[str, str]:
    out = {}
    for total, (plus, minus) in _TOTALS.items():
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
        mine = _counters(*((f for f in files if scope_of(f) == key) for files in (added, removed)))
        path = partition_path(metadata.specs[spec_id], partition, metadata)
        out[f"partitions.{path}"] = ",".join(f"{k}={v}" for k, v in mine.items() if v > 0)
    return out
