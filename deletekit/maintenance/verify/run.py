"""Verify a table that anyone wrote: walk it from the metadata down to the rows, and collect findings.

Nothing is changed. Damage never raises: it becomes a finding. The engine opens each file once. Rules that need several
files are judged here, from what came back.
Spec: https://iceberg.apache.org/spec/
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

from deletekit.deletes.read import ReadContext
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import ContentFile, DeleteFile
from deletekit.formats.manifest_list import ManifestFile
from deletekit.maintenance.verify.dropped_deletes import check_dropped_deletes
from deletekit.maintenance.verify.file_rules import check_data_file, check_delete_file, check_size
from deletekit.maintenance.verify.index_rules import check_indexes
from deletekit.maintenance.verify.lost_files import History
from deletekit.maintenance.verify.manifest_rules import check_list, check_manifest
from deletekit.maintenance.verify.metadata_rules import check_metadata, check_named_files, usable_snapshots
from deletekit.maintenance.verify.other_places import OtherPlaces
from deletekit.maintenance.verify.report import DAMAGE, Finding, Findings, Level, VerifyReport, guarded
from deletekit.maintenance.verify.snapshot_rules import SnapshotFiles, check_positions, check_snapshot
from deletekit.table.file_io import FileIO
from deletekit.table.metadata import Snapshot, TableMetadata
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table


def verify(
    table: Table,
    *,
    level: Level = "deletes",
    snapshots: Iterable[int] | Literal["all", "heads"] = "all",
    engine: Engine | None = None,
) -> VerifyReport:
    """Check every rule of the specification that a table can break, whatever wrote the table.

    Parameters
    ----------
    level: `"metadata"` reads the metadata, manifest lists and manifests. `"deletes"` also checks that every live file
        exists, and reads the live delete files and the footers of the live data files. `"data"` also reads the live
        data files, counts rows and nulls again, compares bounds, and looks for rows that came back because a rewrite
        removed an equality delete that they need.
    snapshots: ids of the snapshots to check, `"heads"` for those that a branch or tag points to, or `"all"`. With
        `"all"`, the contents of a file are checked only if it is live in a head.
    engine: where files are read; see `deletekit.engine`.

    Returns a report; `report.ok` says whether there is no error. Raises NotFoundError for a snapshot that the table
    does not have, InvalidInputError for an unknown level, and StorageError if the table's own storage does not answer.
    Damage of the table raises nothing. A path at another place that does not answer within seconds is a finding.

    Examples
    --------
    >>> dk.verify(users).findings
    ()
    """
    if level not in get_args(Level):
        raise InvalidInputError("unknown level", "level", "level", level, ", ".join(get_args(Level)))
    if isinstance(snapshots, str) and snapshots not in ("all", "heads"):
        raise InvalidInputError(
            "unknown choice of snapshots", "snapshots", found=snapshots, expected="all, heads, or ids"
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "record_count of files")  # it is a finding here
        files = OtherPlaces(table.io, table.metadata.location)
        return _Verification(files, table.metadata, level, engine_or_default(engine)).run(snapshots)


def _heads(metadata: TableMetadata) -> list[Any]:
    """Return the ids of the snapshots that branches and tags point to."""
    return list(dict.fromkeys(ref.get("snapshot-id") for ref in metadata.refs.values()))


@dataclass
class _Verification:
    """One run of `verify`, with the findings and counts so far."""

    io: FileIO
    metadata: TableMetadata
    level: Level
    engine: Engine
    findings: Findings = field(default_factory=Findings)
    checked: dict[str, int] = field(default_factory=dict)

    def run(self, snapshots: Iterable[int] | str) -> VerifyReport:
        self.findings.add(check_metadata(self.metadata))
        self.findings.add(guarded(check_named_files(self.metadata, self.io), None, "table metadata"))
        chosen = self._chosen(snapshots)
        for finding, ids in check_indexes(self.io, self.metadata, chosen, self.level, self.engine):
            self.findings.add([finding], ids)
        live = self._manifests(chosen)
        if self.level != "metadata":
            opened = set(_heads(self.metadata)) if snapshots == "all" and live else set(live)
            self._files(live, {i: files for i, files in live.items() if i in opened})
            if self.level == "data":
                self._dropped_deletes(opened)
        return VerifyReport(level=self.level, findings=tuple(self._repairable(live)), checked=self.checked)

    def _chosen(self, snapshots: Iterable[int] | str) -> list[Snapshot]:
        usable, findings = usable_snapshots(self.metadata)
        self.findings.add(findings)
        if snapshots == "all":
            return sorted(usable.values(), key=lambda s: s.sequence_number)
        if isinstance(snapshots, str):
            return [usable[i] for i in _heads(self.metadata) if i in usable] if usable else []
        asked = [self.metadata.snapshot_by_id(i) for i in snapshots]
        return [s for s in asked if s.snapshot_id in usable]

    def _manifests(self, snapshots: Sequence[Snapshot]) -> dict[int, SnapshotFiles]:
        """Check manifest lists, manifests and entries. Return the live files of each snapshot, by its id."""
        in_snapshots: dict[ManifestFile, list[int]] = {}
        listed: dict[int, tuple[ManifestFile, ...]] = {}
        lists = self.engine.map(partial(check_list, self.io, self.metadata), snapshots)
        for snapshot, (rows, findings) in zip(snapshots, lists, strict=True):
            self.findings.add(findings, (snapshot.snapshot_id,))
            listed[snapshot.snapshot_id] = rows
            for row in rows:
                in_snapshots.setdefault(row, []).append(snapshot.snapshot_id)
        results = self.engine.map(partial(check_manifest, self.io, self.metadata), in_snapshots)
        manifests = dict(zip(in_snapshots, results, strict=True))
        for row, manifest in manifests.items():
            self.findings.add(manifest.findings, in_snapshots[row])
        live, history = {}, History(self.metadata, SnapshotReader(self.io, self.metadata))
        for snapshot in snapshots:
            mine = [manifests[row] for row in listed[snapshot.snapshot_id]]
            files = SnapshotFiles(self.metadata, (e for manifest in mine for e in manifest.entries if e.is_live))
            found = check_snapshot(snapshot, mine, files, history)
            self.findings.add(guarded(found, snapshot.manifest_list, "manifest-list"), (snapshot.snapshot_id,))
            live[snapshot.snapshot_id] = files
        entries = sum(len(m.entries) for m in manifests.values())
        self.checked |= {"snapshots": len(snapshots), "manifests": len(manifests), "entries": entries}
        return live

    def _files(self, live: Mapping[int, SnapshotFiles], opened: Mapping[int, SnapshotFiles]) -> None:
        """Check that each live file exists and has the right size. Check what is in those of the `opened` snapshots."""
        files: dict[str, ContentFile] = {}
        snapshots: dict[str, list[int]] = {}
        for snapshot_id, snapshot in live.items():
            entries = (*snapshot.data, *(e for e, _ in snapshot.deletes))
            mine = {e.data_file.file_path: e.data_file for e in entries}
            files |= mine
            for path in mine:
                snapshots.setdefault(path, []).append(snapshot_id)
        missing = set()
        sizes = self.engine.map(partial(check_size, self.io), list(files.values()))
        for path, found in zip(files, sizes, strict=True):
            self.findings.add(found, snapshots[path])
            missing |= {path for f in found if f.kind == "missing-file"}
        within = {path: [i for i in ids if i in opened] for path, ids in snapshots.items() if path not in missing}
        self.checked |= {"files": len(files), "delete_files": 0, "data_files": 0, "rows": 0}
        self._delete_files(opened, within)
        self._data_files(opened, within)

    def _delete_files(self, opened: Mapping[int, SnapshotFiles], within: Mapping[str, Sequence[int]]) -> None:
        """Check delete files, the deletion vectors of one Puffin file together."""
        files: dict[str, dict[tuple[Any, ...], DeleteFile]] = {}
        for snapshot in opened.values():
            for _, delete in snapshot.deletes:
                if delete.file_path in within:
                    files.setdefault(delete.file_path, {})[delete.identity] = delete
        check = partial(check_delete_file, self.io, self.metadata)
        results = self.engine.map(check, [tuple(f.values()) for f in files.values()])
        positions: dict[tuple[Any, ...], Mapping[str, int]] = {}
        for path, content in zip(files, results, strict=True):
            self.checked["delete_files"] += len(files[path])
            self.checked["rows"] += content.rows
            self.findings.add(content.findings, within[path])
            positions |= content.last_positions
        for snapshot_id, snapshot in opened.items():
            self.findings.add(check_positions(snapshot, positions), (snapshot_id,))

    def _data_files(self, opened: Mapping[int, SnapshotFiles], within: Mapping[str, Sequence[int]]) -> None:
        files: dict[str, ContentFile] = {}
        for snapshot in opened.values():
            files |= {path: entry.data_file for path, entry in snapshot.by_path.items() if path in within}
        results = self.engine.map(
            partial(check_data_file, self.io, self.metadata, self.level == "data"), list(files.values())
        )
        for path, content in zip(files, results, strict=True):
            self.checked["data_files"] += 1
            self.checked["rows"] += content.rows
            self.findings.add(content.findings, within[path])

    def _dropped_deletes(self, opened: Iterable[int]) -> None:
        context, reader = ReadContext(self.io, self.metadata), SnapshotReader(self.io, self.metadata)
        for snapshot_id in opened:
            head = self.metadata.snapshots.get(snapshot_id)
            # A file of the head that cannot be read has a finding of its own.
            with suppress(*DAMAGE):
                found = [] if head is None else list(check_dropped_deletes(context, head, reader))
                self.findings.add(found, (snapshot_id,))

    def _repairable(self, live: Mapping[int, SnapshotFiles]) -> Iterable[Finding]:
        """Return the findings. Only those about the head of a branch keep their repair: a snapshot never changes."""
        refs = self.metadata.refs.values() if live else ()  # else the refs may be what cannot be understood
        branches = {r.get("snapshot-id") for r in refs if r.get("type") == "branch"}
        for finding in self.findings:
            is_past = branches.isdisjoint(finding.snapshot_ids)
            yield replace(finding, repair=None) if is_past else finding
