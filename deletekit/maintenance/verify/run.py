"""Verify a table that anyone wrote: walk it from the metadata down to the rows, and collect findings.

Nothing is changed. Damage never raises: it becomes a finding.
Spec: https://iceberg.apache.org/spec/
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

from deletekit.deletes.read import ReadContext
from deletekit.engines.current import engine_or_default
from deletekit.engines.local import Engine
from deletekit.errors import InvalidInputError
from deletekit.formats.manifest_list import ManifestFile
from deletekit.maintenance.verify.dropped_deletes import check_dropped_deletes
from deletekit.maintenance.verify.entry_rules import check_entries
from deletekit.maintenance.verify.live_file_checks import LiveFileChecks
from deletekit.maintenance.verify.manifest_rules import check_listed, check_manifest
from deletekit.maintenance.verify.metadata_rules import check_metadata, check_named_files, usable_snapshots
from deletekit.maintenance.verify.report import Finding, Findings, Level, VerifyReport
from deletekit.maintenance.verify.snapshot_files import SnapshotFiles
from deletekit.maintenance.verify.snapshot_rules import check_snapshot
from deletekit.maintenance.verify.stored_manifest import StoredManifest, read_list, read_stored
from deletekit.maintenance.verify.unreadable import DAMAGE, guarded
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
    does not have, and InvalidInputError for an unknown level. Damage of the table raises nothing.
    """
    if level not in get_args(Level):
        raise InvalidInputError(
            "unknown level", kind="level", field="level", found=level, expected=", ".join(get_args(Level))
        )
    if isinstance(snapshots, str) and snapshots not in ("all", "heads"):
        raise InvalidInputError(
            "unknown choice of snapshots", kind="snapshots", found=snapshots, expected="all, heads, or ids"
        )
    return _Verification(table.io, table.metadata, level, engine_or_default(engine)).run(snapshots)


def _heads(metadata: TableMetadata) -> list[Any]:
    """Return the ids of the snapshots that branches and tags point to."""
    return list(dict.fromkeys(ref.get("snapshot-id") for ref in metadata.refs.values()))


class _Verification:
    """One run of `verify`, with the findings and counts so far."""

    def __init__(self, io: FileIO, metadata: TableMetadata, level: Level, engine: Engine) -> None:
        self._io = io
        self._metadata = metadata
        self._level = level
        self._engine = engine
        self._findings = Findings()
        self._branches: set[Any] = set()
        self._checked = dict.fromkeys(("snapshots", "manifests", "entries"), 0)

    def run(self, snapshots: Iterable[int] | str) -> VerifyReport:
        self._findings.add(check_metadata(self._metadata))
        self._findings.add(guarded(check_named_files(self._metadata, self._io), None, "table metadata"))
        live = self._manifests(self._chosen(snapshots))
        if self._level != "metadata":
            opened = set(_heads(self._metadata)) if snapshots == "all" and live else set(live)
            files = LiveFileChecks(self._io, self._metadata, live, opened, self._engine)
            self._findings.add(files.findings(self._level))
            self._checked |= files.checked
            if self._level == "data":
                self._dropped_deletes(opened)
        return VerifyReport(level=self._level, findings=tuple(self._repairable()), checked=self._checked)

    def _dropped_deletes(self, opened: set[int]) -> None:
        context, reader = ReadContext(self._io, self._metadata), SnapshotReader(self._io, self._metadata)
        for snapshot_id in opened:
            head = self._metadata.snapshots.get(snapshot_id)
            # A file of the head that cannot be read has a finding of its own.
            with suppress(*DAMAGE):
                found = [] if head is None else list(check_dropped_deletes(context, head, reader))
                self._findings.add(found, (snapshot_id,))

    def _chosen(self, snapshots: Iterable[int] | str) -> list[Snapshot]:
        usable, findings = usable_snapshots(self._metadata)
        self._findings.add(findings)
        if usable:  # else the refs may be what cannot be understood
            self._branches = {r.get("snapshot-id") for r in self._metadata.refs.values() if r.get("type") == "branch"}
        if snapshots == "all":
            return sorted(usable.values(), key=lambda s: s.sequence_number)
        if isinstance(snapshots, str):
            return [usable[i] for i in _heads(self._metadata) if i in usable] if usable else []
        asked = [self._metadata.snapshot_by_id(i) for i in snapshots]
        return [s for s in asked if s.snapshot_id in usable]

    def _manifests(self, snapshots: Sequence[Snapshot]) -> dict[int, SnapshotFiles]:
        """Check manifest lists, manifests and entries. Return the live files of each snapshot, by its id."""
        rows: dict[int, tuple[ManifestFile, ...]] = {}
        lists = self._engine.map(partial(read_list, self._io, self._metadata), snapshots)
        for snapshot, (listed, findings) in zip(snapshots, lists, strict=True):
            rows[snapshot.snapshot_id] = listed
            self._findings.add(findings, (snapshot.snapshot_id,))
            for row in listed:
                found = guarded(check_listed(row, snapshot, self._metadata), row.manifest_path, "manifest-list")
                self._findings.add(found, (snapshot.snapshot_id,))
        stored = self._read_manifests(rows)
        live = {}
        for snapshot in snapshots:
            mine = [stored[row] for row in rows[snapshot.snapshot_id]]
            entries = (e for manifest in mine for e in manifest.entries if e.is_live)
            live[snapshot.snapshot_id] = SnapshotFiles(self._metadata, entries)
            found = check_snapshot(snapshot, mine, live[snapshot.snapshot_id], self._metadata)
            self._findings.add(guarded(found, snapshot.manifest_list, "manifest-list"), (snapshot.snapshot_id,))
        self._checked["snapshots"] = len(snapshots)
        return live

    def _read_manifests(self, rows: dict[int, tuple[ManifestFile, ...]]) -> dict[ManifestFile, StoredManifest]:
        in_snapshots: dict[ManifestFile, list[int]] = {}
        for snapshot_id, listed in rows.items():
            for row in listed:
                in_snapshots.setdefault(row, []).append(snapshot_id)
        stored = {}
        results = self._engine.map(partial(_read_manifest, self._io, self._metadata), in_snapshots)
        for (row, ids), (manifest, findings) in zip(in_snapshots.items(), results, strict=True):
            stored[row] = manifest
            self._findings.add(findings, ids)
            self._checked["manifests"] += 1
            self._checked["entries"] += len(manifest.entries)
        return stored

    def _repairable(self) -> Iterable[Finding]:
        """Return the findings. Only those about the head of a branch keep their repair: a snapshot never changes."""
        for finding in self._findings:
            is_past = self._branches.isdisjoint(finding.snapshot_ids)
            yield replace(finding, repair=None) if is_past else finding


def _read_manifest(io: FileIO, metadata: TableMetadata, listed: ManifestFile) -> tuple[StoredManifest, list[Finding]]:
    stored = read_stored(io, metadata, listed)
    rules = (check_manifest(stored, metadata), check_entries(stored, metadata))
    return stored, [f for found in rules for f in guarded(found, listed.manifest_path, "manifest_path")]
