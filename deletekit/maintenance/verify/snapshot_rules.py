"""Check the files of one snapshot together: no duplicates, deletes beside their data, row ids, and the summary.

Spec: "Deletion Vectors", "Scan Planning", "Row Lineage", "Snapshots", https://iceberg.apache.org/spec/#snapshots
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from deletekit.deletes.which_apply import is_old_enough, referenced_path, scope_of
from deletekit.formats.content_file import DataFile, DeleteFile
from deletekit.maintenance.verify.report import Finding, error, warning
from deletekit.maintenance.verify.snapshot_files import SnapshotFiles, dangling_kind
from deletekit.maintenance.verify.stored_manifest import StoredManifest
from deletekit.table.locations import SpellingRules
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.summary_counters import COUNTERS, count_entries


def check_snapshot(
    snapshot: Snapshot, manifests: Sequence[StoredManifest], live: SnapshotFiles, metadata: TableMetadata
) -> Iterator[Finding]:
    """Check every rule of a snapshot.

    If a manifest could not be read, check only the rules that hold for the other manifests alone.
    """
    yield from _duplicates(live)
    yield from _vectors(live)
    yield from _partitions(live)
    yield from _row_ids(live, snapshot, metadata)
    if all(m.manifest is not None for m in manifests):
        yield from _dangling(live)
        yield from _totals(snapshot, live)
        yield from _counters(snapshot, manifests)


def _duplicates(live: SnapshotFiles) -> Iterator[Finding]:
    """Find files that are live twice. Two spellings of one path are one file, whose rows are read twice."""
    rules = SpellingRules()
    for entries in (live.data, live.deletes):
        found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for identity in (e.data_file.identity for e in entries):
            found.setdefault((rules.key(identity[0]), *identity[1:]), []).append(identity)
        for same in (identities for identities in found.values() if len(identities) > 1):
            path, *place = same[0]
            others = sorted({other[0] for other in same} - {path})
            message = "file is live more than once"
            message += f" at {place[0]}" if place and place[0] is not None else ""
            message += f", also named {', '.join(others)}" if others else ""
            yield error("duplicate-file", message, "file_path", len(same), 1, file=path)


def _vectors(live: SnapshotFiles) -> Iterator[Finding]:
    kind = "duplicate-deletion-vector"
    for path, entries in live.duplicate_vectors().items():
        found = ", ".join(
            sorted(f"{d.file_path}@{d.content_offset}" for _, d in live.delete_files() if referenced_path(d) == path)
        )
        is_mergeable = path in live.by_path and len({e.data_file.identity for e in entries}) == len(entries)
        message = "data file has more than one deletion vector"
        repair = kind if is_mergeable else None
        yield error(kind, message, "referenced_data_file", found, "at most one", file=path, repair=repair)
    for path, entries in live.vectors.items():
        data = live.by_path.get(path)
        if data is None:
            continue
        number, rows = data.sequence_number, data.data_file.record_count
        for entry in entries:
            file, positions = entry.data_file.file_path, entry.data_file.record_count
            if not is_old_enough(data, entry):
                message, expected = "deletion vector is older than its data file", f">= {number} of {path}"
                yield error("delete-sequence", message, "sequence_number", entry.sequence_number, expected, file=file)
            if positions > rows:
                message = "deletion vector has more positions than its data file rows"
                expected = f"<= {rows} of {path}"
                yield warning("position-out-of-range", message, "record_count", positions, expected, file=file)


def _partitions(live: SnapshotFiles) -> Iterator[Finding]:
    for _, delete in live.delete_files():
        path = referenced_path(delete)
        data = live.by_path.get(path) if path is not None else None
        if data is not None and scope_of(data.data_file) != scope_of(delete):
            yield error(
                "delete-partition",
                "delete and its data file differ in partition spec or partition",
                "partition" if data.data_file.spec_id == delete.spec_id else "partition_spec_id",
                found=f"spec {delete.spec_id} {delete.partition}",
                expected=f"spec {data.data_file.spec_id} {data.data_file.partition} of {path}",
                file=delete.file_path,
            )


def _dangling(live: SnapshotFiles) -> Iterator[Finding]:
    for entry in live.dangling():
        delete = entry.data_file
        assert isinstance(delete, DeleteFile)
        path, kind = referenced_path(delete), dangling_kind(delete)
        is_superseded = path in live.by_path and path in live.vectors
        why = "a deletion vector wins" if is_superseded else "no live data file it applies to"
        field = None if path is None else "referenced_data_file"
        found = f"{path} at {delete.content_offset}" if delete.is_deletion_vector else path
        yield warning(kind, f"delete has no effect: {why}", field, found, file=delete.file_path, repair=kind)


def _row_ids(live: SnapshotFiles, snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Finding]:
    """Check that live data files have disjoint row ids, all given out. Before the upgrade to v3 there are none."""
    if snapshot.first_row_id is None:
        return
    kind = "row-id-overlap"
    limit = min(snapshot.first_row_id + (snapshot.added_rows or 0), metadata.next_row_id)
    taken = []
    for file in (e.data_file for e in live.data):
        assert isinstance(file, DataFile)
        if file.first_row_id is None:
            continue  # reported as a manifest without row ids
        stop, path = file.first_row_id + file.record_count, file.file_path
        if stop > file.first_row_id:
            taken.append((file.first_row_id, stop, path))
        if stop > limit:
            message, expected = "data file has row ids that were not given out", f"<= {limit - file.record_count}"
            yield error(kind, message, "first_row_id", file.first_row_id, expected, file=path)
    taken.sort()
    for (_, stop, other), (start, _, path) in pairwise(taken):
        if start < stop and path != other:
            message, expected = "two data files have the same row ids", f">= {stop}, above those of {other}"
            yield error(kind, message, "first_row_id", start, expected, file=path)


def _totals(snapshot: Snapshot, live: SnapshotFiles) -> Iterator[Finding]:
    kind, file = "summary-total", snapshot.manifest_list
    for name, (found, expected) in live.wrong_totals(snapshot.summary).items():
        # A warning: Java leaves files of appended manifests (add_files) out of total-files-size; no reader uses totals.
        yield warning(kind, "summary has another total", name, found, expected, file=file, repair=kind)


def _counters(snapshot: Snapshot, manifests: Sequence[StoredManifest]) -> Iterator[Finding]:
    counts = count_entries(snapshot.snapshot_id, (e for m in manifests for e in m.entries))
    for name in COUNTERS:
        found, expected = snapshot.summary.get(name), counts[name]
        if found is not None and found != str(expected):
            message = "summary counts what the snapshot did not do"
            yield warning("summary-count", message, name, found, expected, file=snapshot.manifest_list)
