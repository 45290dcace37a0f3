"""Check the files of one snapshot together: no duplicates, deletes beside their data, row ids, and the summary.

`SnapshotFiles` also works for tables that readers refuse: two deletion vectors of a data file are two entries there.
`verify` reports what is wrong with them, `repair` repairs it.
Spec: "Deletion Vectors", "Scan Planning", "Row Lineage", "Snapshots", https://iceberg.apache.org/spec/#snapshots
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from deletekit.deletes.which_apply import is_global, is_old_enough, newest_covered, referenced_path, scope_of
from deletekit.formats.content_file import DataFile, DeleteFile, FileContent, ManifestEntry
from deletekit.maintenance.verify.lost_files import History, check_lost_files
from deletekit.maintenance.verify.manifest_rules import CheckedManifest
from deletekit.maintenance.verify.report import Finding, error, warning
from deletekit.table.locations import SpellingRules
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.summary_counters import COUNTERS, count_entries, count_totals

LiveDelete = tuple[ManifestEntry, DeleteFile]
"""The entry of a live delete file, and the file."""


class SnapshotFiles:
    """The live data and delete files of one snapshot, with everything inherited.

    Attributes
    ----------
    by_path: the data entries by path.
    vectors: the deletion vectors of each data file, live or not, by its path.
    """

    def __init__(self, metadata: TableMetadata, live: Iterable[ManifestEntry]) -> None:
        entries = tuple(live)
        self.metadata = metadata
        self.data = [e for e in entries if isinstance(e.data_file, DataFile)]
        self.deletes = [(e, e.data_file) for e in entries if isinstance(e.data_file, DeleteFile)]
        self.by_path = {e.data_file.file_path: e for e in self.data}
        self.vectors: dict[str, list[LiveDelete]] = {}
        for entry, delete in self.deletes:
            if delete.is_deletion_vector and delete.referenced_data_file is not None:
                self.vectors.setdefault(delete.referenced_data_file, []).append((entry, delete))

    def duplicate_vectors(self) -> dict[str, list[LiveDelete]]:
        """Return the data files, live or not, that have more than one deletion vector."""
        return {path: vectors for path, vectors in self.vectors.items() if len(vectors) > 1}

    def dangling(self) -> list[LiveDelete]:
        """Return the deletes that apply to no live data file, judged by scope and sequence number alone.

        A position delete also dangles if every data file that it could apply to has a deletion vector, which wins. A
        global equality delete is judged over the whole table; Java's action looks at one spec only.
        """
        oldest: dict[Any, int] = {}
        without_vector: dict[Any, int] = {}
        for entry in self.data:
            number, where = entry.sequence_number or 0, scope_of(entry.data_file)
            for key in (where, None):
                oldest[key] = min(oldest.get(key, number), number)
            if entry.data_file.file_path not in self.vectors:
                without_vector[where] = min(without_vector.get(where, number), number)

        def applies(entry: ManifestEntry, delete: DeleteFile) -> bool:
            path, where = referenced_path(delete), scope_of(delete)
            if delete.content == FileContent.EQUALITY_DELETES:
                spec = self.metadata.specs.get(delete.spec_id)
                key = None if spec is None or is_global(spec) else where
                return key in oldest and oldest[key] <= newest_covered(entry)
            if delete.is_deletion_vector:
                return path in self.by_path
            if path is None:
                return where in without_vector and without_vector[where] <= newest_covered(entry)
            return path in self.by_path and path not in self.vectors and is_old_enough(self.by_path[path], entry)

        return [(entry, delete) for entry, delete in self.deletes if not applies(entry, delete)]

    def names_nothing(self, entry: ManifestEntry, paths: Iterable[str]) -> bool:
        """Tell whether a position delete file of a partition applies to none of the data files that its rows name."""
        named = [self.by_path[path] for path in paths if path in self.by_path and path not in self.vectors]
        where = scope_of(entry.data_file)
        return not any(scope_of(data.data_file) == where and is_old_enough(data, entry) for data in named)

    def totals(self) -> dict[str, int]:
        """Count the totals of the snapshot summary again."""
        return count_totals(e.data_file for e in (*self.data, *(entry for entry, _ in self.deletes)))

    def wrong_totals(self, summary: Any) -> dict[str, tuple[str, int]]:
        """Return (found, expected) of each wrong total of a summary. A missing total is not wrong."""
        return {n: (summary[n], v) for n, v in self.totals().items() if n in summary and summary[n] != str(v)}


def check_snapshot(
    snapshot: Snapshot, manifests: Sequence[CheckedManifest], live: SnapshotFiles, history: History
) -> Iterator[Finding]:
    """Check every rule of a snapshot.

    If a manifest could not be read, check only the rules that hold for the other manifests alone.
    """
    yield from _duplicates([e.data_file.identity for e in live.data])
    yield from _duplicates([delete.identity for _, delete in live.deletes])
    yield from _vectors(live)
    yield from _partitions(live)
    yield from _row_ids(live, snapshot, live.metadata)
    if all(m.is_read for m in manifests):
        yield from _dangling(live)
        yield from _summary(snapshot, manifests, live, history)


def check_positions(
    live: SnapshotFiles, last_positions: Mapping[tuple[Any, ...], Mapping[str, int]]
) -> Iterator[Finding]:
    """Check positions against the data files that they are in. `last_positions` are the highest ones of each delete."""
    dangling = {delete.identity for _, delete in live.dangling()}
    for entry, delete in live.deletes:
        last, file = last_positions.get(delete.identity), delete.file_path
        if last is None:
            continue
        for path, position in last.items():
            data = live.by_path.get(path)
            if data is not None and position >= (rows := data.data_file.record_count):
                message = f"position behind the last row of {path}"
                yield warning("position-out-of-range", message, "pos", position, f"< {rows}", file=file)
        is_of_partition = delete.kind == "position-delete" and referenced_path(delete) is None
        if is_of_partition and delete.identity not in dangling and live.names_nothing(entry, last):
            kind = "dangling-position-delete"
            message = "delete has no effect: it names no live data file that it applies to"
            yield warning(kind, message, found=f"{len(last)} paths", file=file, repair=kind)


def _duplicates(identities: Iterable[tuple[Any, ...]]) -> Iterator[Finding]:
    """Find files that are live twice. Two spellings of one path are one file, whose rows are read twice."""
    rules = SpellingRules()
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for identity in identities:
        found.setdefault((rules.key(identity[0]), *identity[1:]), []).append(identity)
    for same in found.values():
        if len(same) > 1:
            path, *place = same[0]
            others = sorted({other[0] for other in same} - {path})
            message = "file is live more than once"
            message += f" at {place[0]}" if place and place[0] is not None else ""
            message += f", also named {', '.join(others)}" if others else ""
            yield error("duplicate-file", message, "file_path", len(same), 1, file=path)


def _vectors(live: SnapshotFiles) -> Iterator[Finding]:
    kind = "duplicate-deletion-vector"
    for path, vectors in live.duplicate_vectors().items():
        found = ", ".join(sorted(f"{d.file_path}@{d.content_offset}" for _, d in vectors))
        is_mergeable = path in live.by_path and len({d.identity for _, d in vectors}) == len(vectors)
        message, repair = "data file has more than one deletion vector", kind if is_mergeable else None
        yield error(kind, message, "referenced_data_file", found, "at most one", file=path, repair=repair)
    for path, entry, vector in ((path, *vector) for path, vectors in live.vectors.items() for vector in vectors):
        data = live.by_path.get(path)
        if data is None:
            continue
        file, positions, rows = vector.file_path, vector.record_count, data.data_file.record_count
        if not is_old_enough(data, entry):
            message, expected = "deletion vector is older than its data file", f">= {data.sequence_number} of {path}"
            yield error("delete-sequence", message, "sequence_number", entry.sequence_number, expected, file=file)
        if positions > rows:
            message, expected = "deletion vector has more positions than its data file rows", f"<= {rows} of {path}"
            yield warning("position-out-of-range", message, "record_count", positions, expected, file=file)


def _partitions(live: SnapshotFiles) -> Iterator[Finding]:
    for _, delete in live.deletes:
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
    for _, delete in live.dangling():
        path, kind = referenced_path(delete), f"dangling-{delete.kind}"
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
    for (_, stop, other), (start, _, path) in pairwise(sorted(taken)):
        if start < stop and path != other:
            message, expected = "two data files have the same row ids", f">= {stop}, above those of {other}"
            yield error(kind, message, "first_row_id", start, expected, file=path)


def _summary(
    snapshot: Snapshot, manifests: Sequence[CheckedManifest], live: SnapshotFiles, history: History
) -> Iterator[Finding]:
    kind, file = "summary-total", snapshot.manifest_list
    lost = history.unexplained(snapshot, live.totals())
    yield from check_lost_files(snapshot, lost, history)
    for name, (found, expected) in live.wrong_totals(snapshot.summary).items():
        if name not in lost:
            # A warning: Java leaves files of appended manifests (add_files) out of total-files-size, and no reader uses
            # totals.
            repair = None if lost else kind
            yield warning(kind, "summary has another total", name, found, expected, file=file, repair=repair)
    counts = count_entries(snapshot.snapshot_id, (e for m in manifests for e in m.entries))
    for name in COUNTERS:
        stated = snapshot.summary.get(name)
        if stated is not None and stated != str(counts[name]):
            message = "summary counts what the snapshot did not do"
            yield warning("summary-count", message, name, stated, counts[name], file=file)
