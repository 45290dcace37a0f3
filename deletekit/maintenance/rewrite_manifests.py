"""Rewrite manifests: fewer manifests, each of neighbouring partitions, so that planning reads less.

Entries move, files do not. Sequence numbers, first row ids and partition values stay the same, even those of a spec
whose source column was dropped.
Spec: "Snapshots" (operation `replace`); properties `commit.manifest.*`; Java RewriteManifestsSparkAction.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from deletekit.commit.change import Base, RowDelta
from deletekit.commit.planned_change import check_request, plan_change
from deletekit.commit.swap import Commit, commit
from deletekit.errors import InvalidInputError
from deletekit.formats.content_file import ManifestEntry
from deletekit.formats.manifest_list import ManifestFile
from deletekit.maintenance.file_groups import in_parts
from deletekit.notebook_html import result
from deletekit.rows.write_context import WriteContext
from deletekit.table.metadata import MAIN
from deletekit.table.properties import value_of
from deletekit.table.snapshot import SnapshotReader
from deletekit.table.table import Table


@result
class RewrittenManifests:
    """What `rewrite_manifests` did; in a dry run, what it would do.

    Attributes
    ----------
    rewritten_manifests: paths of the manifests that were replaced.
    added_manifests: paths of the new manifests. Empty in a dry run, which only knows `added_manifests_count`.
    commit: the commit. None if there was nothing to do, and in a dry run.
    """

    rewritten_manifests: tuple[str, ...] = ()
    added_manifests: tuple[str, ...] = ()
    added_manifests_count: int = 0
    commit: Commit | None = None
    dry_run: bool = False


def rewrite_manifests(
    table: Table,
    *,
    spec_id: int | None = None,
    ref: str = MAIN,
    dry_run: bool = False,
    commit_properties: Mapping[str, str] | None = None,
) -> RewrittenManifests:
    """Combine and cluster manifests of data and of deletes, each of about `commit.manifest.target-size-bytes`.

    Parameters
    ----------
    spec_id: only manifests of this partition spec. Default: of every spec. (Java: only of the current one.)
    ref: the branch.
    dry_run: decide, write nothing.
    commit_properties: extra entries of the snapshot summary.

    A second call finds nothing to do. After a lost race the rewrite is replanned.

    Raises InvalidInputError for an unknown spec, a tag, a read-only table or a property that is not a number;
    CommitConflictError, CommitStateUnknownError as every commit.
    """
    check_request(table.refresh(), ref, commit_properties)
    if spec_id is not None and spec_id not in table.metadata.specs:
        raise InvalidInputError(
            "no such partition spec", "partition-spec", "spec_id", spec_id, sorted(table.metadata.specs)
        )
    tried: list[tuple[RowDelta, WriteContext]] = []

    def build(base: Base) -> RowDelta:
        tried.append((_plan(base, spec_id), base.write))
        return tried[-1][0]

    change = plan_change(table, build, ref=ref, properties=commit_properties, dry_run=dry_run)
    done = Commit() if dry_run else commit(change)
    # Nothing is read from here on: an exception would say that the commit failed.
    rewrite, write = tried[-1]
    added: tuple[str, ...] = ()
    if done.snapshot_id is not None:
        manifest_list = table.metadata.snapshots[done.snapshot_id].manifest_list
        added = tuple(path for path in write.written if path != manifest_list)
    return RewrittenManifests(
        rewritten_manifests=tuple(m.manifest_path for m in rewrite.replaced_manifests),
        added_manifests=added,
        added_manifests_count=len(rewrite.manifests),
        commit=done if done.snapshot_id is not None else None,
        dry_run=dry_run,
    )


def _plan(base: Base, spec_id: int | None) -> RowDelta:
    target = value_of(base.metadata.properties, "commit.manifest.target-size-bytes")
    chosen = sorted((m for m in base.manifests if spec_id in (None, m.partition_spec_id)), key=_group)
    replaced: list[ManifestFile] = []
    manifests: list[tuple[ManifestEntry, ...]] = []
    for _, listed in groupby(chosen, key=_group):
        old = list(listed)
        new = _clustered(old, base.reader, target)
        # The next commit drops manifests without a live file. They are not a reason for a commit.
        if new and not _is_same(old, new, base.reader):
            replaced += old
            manifests += new
    return RowDelta(operation="replace", replaced_manifests=tuple(replaced), manifests=tuple(manifests))


def _group(listed: ManifestFile) -> tuple[int, int]:
    return int(listed.content), listed.partition_spec_id


def _clustered(listed: Sequence[ManifestFile], reader: SnapshotReader, target: int) -> list[tuple[ManifestEntry, ...]]:
    """Order the live entries by partition, and split them into manifests of about the target size."""
    entries = [e for m in listed for e in reader.entries(m) if e.is_live]
    if not entries:
        return []
    entries.sort(key=lambda e: tuple(_order(v) for v in e.data_file.partition))
    everything = sum(len(reader.entries(m)) for m in listed)
    size = sum(m.manifest_length for m in listed) * len(entries) // everything
    parts = min(-(-size // target) or 1, len(entries))
    return [tuple(part) for part in in_parts(entries, parts)]


def _order(value: Any) -> tuple[bool, bool, Any]:
    """Order NULL first, then NaN, then the values. All values of one field are of one type."""
    return (False, False, 0) if value is None else (True, value == value, value if value == value else 0)


def _is_same(
    listed: Sequence[ManifestFile], manifests: Sequence[Sequence[ManifestEntry]], reader: SnapshotReader
) -> bool:
    """Tell whether the listed manifests already hold exactly these groups of entries."""
    if len(listed) == len(manifests) == 1:
        # It may still list removed files. The next commit that rewrites it drops them.
        return True
    old = {frozenset(e.data_file.identity for e in reader.entries(m)) for m in listed}
    new = {frozenset(e.data_file.identity for e in group) for group in manifests}
    return old == new and len(listed) == len(manifests)
