"""Rules of one snapshot's files together: one of each, deletes beside their data, row ids, and the summary.

Spec: "Deletion Vectors", "Scan Planning", "Row Lineage", "Snapshots", https://iceberg.apache.org/spec/#snapshots
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from deletekit.deletes.scope import is_old_enough, referenced_path, scope_of
from deletekit.formats.content_file import DataFile, DeleteFile, EntryStatus, FileContent, ManifestEntry
from deletekit.maintenance.verify.report import Finding, error, warning
from deletekit.maintenance.verify.snapshot_files import LiveFiles, dangling_kind
from deletekit.maintenance.verify.stored import StoredManifest
from deletekit.table.locations import SpellingRules
from deletekit.table.metadata import Snapshot, TableMetadata

__all__ = ["check_snapshot", "commit_counters", "live_files"]


def live_files(manifests: Sequence[StoredManifest], metadata: TableMetadata) -> LiveFiles:
    """What is live in a snapshot, from the manifests of its list."""
    live = [e for m in manifests for e in m.entries if e.is_live]
    return LiveFiles(
        metadata,
        tuple(e for e in live if isinstance(e.data_file, DataFile)),
        tuple(e for e in live if isinstance(e.data_file, DeleteFile)),
    )


def check_snapshot(
    snapshot: Snapshot, manifests: Sequence[StoredManifest], live: LiveFiles, metadata: TableMetadata
) -> Iterator[Finding]:
    """Every rule of a snapshot; where a manifest could not be read, only those that hold for the rest alone."""
    whole = all(m.manifest is not None for m in manifests)
    yield from _duplicates(live)
    yield from _vectors(live)
    yield from _partitions(live)
    yield from _row_ids(live, snapshot, metadata)
    if whole:
        yield from _dangling(live)
        yield from _totals(snapshot, live)
        yield from _counters(snapshot, manifests)


def _duplicates(live: LiveFiles) -> Iterator[Finding]:
    """Two spellings of one path are one file, whose rows are there twice."""
    rules = SpellingRules()
    for entries in (live.data, live.deletes):
        found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        for identity in (e.data_file.identity for e in entries):
            found.setdefault((rules.key(identity[0]), *identity[1:]), []).append(identity)
        for same in found.values():
            if len(same) > 1:
                path, *place = same[0]
                others = sorted({other[0] for other in same} - {path})
                yield error(
                    "duplicate-file",
                    "file is live more than once"
                    + (f" at {place[0]}" if place and place[0] is not None else "")
                    + (f", also named {', '.join(others)}" if others else ""),
                    file=path,
                    field="file_path",
                    found=len(same),
                    expected=1,
                )


def _vectors(live: LiveFiles) -> Iterator[Finding]:
    for path, entries in live.duplicate_vectors().items():
        places = sorted(
            f"{d.file_path}@{d.content_offset}" for _, d in live.delete_files() if referenced_path(d) == path
        )
        mergeable = path in live.by_path and len({e.data_file.identity for e in entries}) == len(entries)
        yield error(
            "duplicate-deletion-vector",
            "data file has more than one deletion vector",
            file=path,
            field="referenced_data_file",
            found=", ".join(places),
            expected="at most one",
            repair="duplicate-deletion-vector" if mergeable else None,
        )
    for path, entries in live.vectors.items():
        data = live.by_path.get(path)
        for entry in entries if data is not None else ():
            assert data is not None
            if not is_old_enough(data, entry):
                yield error(
                    "delete-sequence",
                    "deletion vector is older than its data file",
                    file=entry.data_file.file_path,
                    field="sequence_number",
                    found=entry.sequence_number,
                    expected=f">= {data.sequence_number} of {path}",
                )
            if entry.data_file.record_count > data.data_file.record_count:
                yield warning(
                    "position-out-of-range",
                    "deletion vector has more positions than its data file rows",
                    file=entry.data_file.file_path,
                    field="record_count",
                    found=entry.data_file.record_count,
                    expected=f"<= {data.data_file.record_count} of {path}",
                )


def _partitions(live: LiveFiles) -> Iterator[Finding]:
    for _, delete in live.delete_files():
        path = referenced_path(delete)
        data = live.by_path.get(path) if path is not None else None
        if data is not None and scope_of(data.data_file) != scope_of(delete):
            yield error(
                "delete-partition",
                "delete and its data file differ in partition spec or partition",
                file=delete.file_path,
                field="partition" if data.data_file.spec_id == delete.spec_id else "partition_spec_id",
                found=f"spec {delete.spec_id} {delete.partition}",
                expected=f"spec {data.data_file.spec_id} {data.data_file.partition} of {path}",
            )


def _dangling(live: LiveFiles) -> Iterator[Finding]:
    for entry in live.dangling():
        delete = entry.data_file
        assert isinstance(delete, DeleteFile)
        path = referenced_path(delete)
        superseded = path in live.by_path and path in live.vectors
        yield warning(
            dangling_kind(delete),
            "delete has no effect: " + ("a deletion vector wins" if superseded else "no live data file it applies to"),
            file=delete.file_path,
            field=None if path is None else "referenced_data_file",
            found=path if not delete.is_deletion_vector else f"{path} at {delete.content_offset}",
            repair=dangling_kind(delete),
        )


def _row_ids(live: LiveFiles, snapshot: Snapshot, metadata: TableMetadata) -> Iterator[Finding]:
    """Row ids first_row_id .. first_row_id + record_count of each live data file; none before the upgrade to v3."""
    if snapshot.first_row_id is None:
        return
    limit = snapshot.first_row_id + (snapshot.added_rows or 0)
    limit = min(limit, metadata.next_row_id)
    taken = []
    for entry in live.data:
        file = entry.data_file
        assert isinstance(file, DataFile)
        if file.first_row_id is None:
            continue  # reported as a manifest without row ids
        stop = file.first_row_id + file.record_count
        if stop > file.first_row_id:
            taken.append((file.first_row_id, stop, file.file_path))
        if stop > limit:
            yield error(
                "row-id-overlap",
                "data file has row ids that were not given out",
                file=file.file_path,
                field="first_row_id",
                found=file.first_row_id,
                expected=f"<= {limit - file.record_count}",
            )
    taken.sort()
    for (_, stop, other), (start, _, path) in pairwise(taken):
        if start < stop and path != other:
            yield error(
                "row-id-overlap",
                "two data files have the same row ids",
                file=path,
                field="first_row_id",
                found=start,
                expected=f">= {stop}, above those of {other}",
            )


def _totals(snapshot: Snapshot, live: LiveFiles) -> Iterator[Finding]:
    for name, (found, expected) in live.wrong_totals(snapshot.summary).items():
        # Java leaves files of appended manifests (add_files) out of total-files-size; no reader trusts a total.
        yield warning(
            "summary-total",
            "summary has another total",
            file=snapshot.manifest_list,
            field=name,
            found=found,
            expected=expected,
            repair="summary-total",
        )


def _counters(snapshot: Snapshot, manifests: Sequence[StoredManifest]) -> Iterator[Finding]:
    entries = [e for m in manifests for e in m.entries]
    for name, expected in commit_counters(snapshot.snapshot_id, entries).items():
        found = snapshot.summary.get(name)
        if found is not None and found != str(expected):
            yield warning(
                "summary-count",
                "summary counts what the snapshot did not do",
                file=snapshot.manifest_list,
                field=name,
                found=found,
                expected=expected,
            )


def commit_counters(snapshot_id: int, entries: Iterable[ManifestEntry]) -> Counter[str]:
    """What the summary of a snapshot counts, from the entries that say it added or removed their file."""
    counts: Counter[str] = Counter()
    for data_verb, verb in (("added", "added"), ("deleted", "removed")):
        counts.update(dict.fromkeys((f"{data_verb}-data-files", f"{data_verb}-records", f"{verb}-files-size"), 0))
        for what in ("delete-files", "dvs", "position-delete-files", "equality-delete-files"):
            counts[f"{verb}-{what}"] = 0
        for what in ("position-deletes", "equality-deletes"):
            counts[f"{verb}-{what}"] = 0
    for entry in entries:
        if entry.snapshot_id == snapshot_id and entry.status != EntryStatus.EXISTING:
            _count(counts, entry.data_file, added=entry.status == EntryStatus.ADDED)
    return counts


def _count(counts: Counter[str], file: DataFile | DeleteFile, *, added: bool) -> None:
    verb = "added" if added else "removed"
    if isinstance(file, DataFile):
        data_verb = "added" if added else "deleted"
        counts[f"{data_verb}-data-files"] += 1
        counts[f"{data_verb}-records"] += file.record_count
        counts[f"{verb}-files-size"] += file.file_size_in_bytes
        return
    counts[f"{verb}-delete-files"] += 1
    counts[f"{verb}-files-size"] += file.content_bytes
    if file.content == FileContent.EQUALITY_DELETES:
        counts[f"{verb}-equality-delete-files"] += 1
        counts[f"{verb}-equality-deletes"] += file.record_count
        return
    counts[f"{verb}-dvs" if file.is_deletion_vector else f"{verb}-position-delete-files"] += 1
    counts[f"{verb}-position-deletes"] += file.record_count
